# contactd's build. Everything goes under build/.
#
#   make                 contactd, contactctl; the client's libcontactd.{a,so}, the engine's libcontact.{a,so}; .pc files
#   make setup           installs missing packages (apt, as root or through sudo) and prepares build/venv
#   make setup-test      the same, with the tools that build and check images
#   make run             builds and runs the server
#   make demo            set-up, build, and simulators against one server
#   make test            set-up, build, and every test
#   make unit|golden|e2e one kind of test; TESTS=tests/unit/mesh picks some
#   make manifold        the method exact against manifold3d on PAIRS=20000 pairs of meshes; make test takes 200
#   make experiments     the method exact beside rays (smoothness, rest, energy, cost), and the experiments of Faure 2008,
#                        Allard 2010, Wang 2012 and Dingliana 2005; build/experiments/index.md. EXPERIMENTS='rest cost'
#                        picks some
#   make compare         the same scenes by MuJoCo, Drake, Newton, PyBullet and contactd in each: build/compare/compare.md, with plots. OUT=docs writes the page
#                        of the documentation; COMPARE='--scenes nut --simulators mujoco' picks some
#   make docs            the documentation as a site, build/docs/index.html
#   make figures         draws the pictures of docs/images with contactd itself
#   make asan|tsan       units and end-to-end tests under AddressSanitizer and UBSan, or ThreadSanitizer
#   make fuzz            every fuzz target for FUZZ_SECONDS (needs clang)
#   make bench           times against the figures to reach; build/bench.json. OUT=docs makes the tables of docs/speed.md of it
#   make bench BASE=DIR  times against those of another build, in turns: DIR is the build/ of another tree, where
#                        "make all bench-tools" was run. ROWS='^bunny' picks rows by a regular expression, TURNS=21
#                        replaces 9 turns, and with WORST=1.03 a row that is more than 3 % worse is an error
#   make roofline        how far the CPU engine's scenes are from what this machine can do, and how they would scale to 16 threads,
#                        by simulation; build/roofline.json. On a quiet machine, in two minutes
#   make gpu-check       on a machine with a GPU: builds, same bits, compute-sanitizer, benches, a table (tests/gpu-check.sh)
#   make format          clang-format in place; format-check only looks
#   make lint            clang-tidy; DEEP=1: its analyzer follows all paths, for five times as long
#   make catalogue       writes what proto/catalogue generates: structs of settings, rows, schemas, docs
#   make check           check-catalogue, check-layers, check-headers, check-exports, check-conform
#   make install         DESTDIR, PREFIX (default /usr/local); man pages and systemd's units too
#   make deb             Debian packages, in build/deb
#   make wheel           a Python wheel with client, engine, server and contactctl, in build/wheel: contactd without CUDA, and
#                        with CUDA=1 contactd-cuda
#   make sbom            what a build is made of, with licences, as CycloneDX: build/contactd.cdx.json
#
# Switches: V=1 (show commands), SANITIZE=address|thread|undefined (built under build/<sanitizer>, at -O1),
# OPT=-O0 (build/O0), CC, CXX, CFLAGS, CXXFLAGS, LDFLAGS, B=<folder> to build elsewhere, NVTX=1 (CUDA's stages as named ranges in NVIDIA's
# profilers).
# CC and CXX of another machine, say aarch64-linux-gnu-gcc: build/aarch64 (docs/start.md); EMULATOR=<command> runs its tests.
# CUDA=auto|1|0|shim: with nvcc's kernels (1: for all GPUs; CUDA_ARCHS="80 90", or native, or ends: the oldest and the newest
# alone, for a quick build; NVCC=<path>), without, or with the kernels run by the CPU for testing (build/shim,
# SHIM_BLOCK=64|256 threads a block; what sanitized builds take). auto: where there is an nvcc and a GPU, for that GPU alone;
# of packages (make deb), wherever there is an nvcc; of make wheel, without. EGL=auto|1|0: with the EGL rasteriser and
# pictures (auto: where libepoxy and libpng are), or without. JANSSON=auto|1|0: with the reader of glTF in the engine, or without; the
# server and contactctl need jansson anyhow.

SANITIZE ?=
CC       ?= gcc
CXX      ?= g++
# Instrumented code takes a quarter to two fifths less time to compile at -O1.
USUAL_OPT := $(if $(SANITIZE),-O1,-O2)
OPT      ?= $(USUAL_OPT)
VERSION  := 0.1.0
SOVERSION := 0
PREFIX   ?= /usr/local
DESTDIR  ?=
LIBDIR   ?= $(PREFIX)/lib
# As packages have it: what belongs to /usr is configured in /etc.
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
FUZZ_SECONDS ?= 60

# The machine that CC compiles for. Where it is another than this one, CROSS is its name: its libraries stand beside this machine's,
# as Debian's multiarch has them, or in CC's --sysroot; objects and programs go to build/<its name>.
TRIPLET := $(shell $(CC) -dumpmachine 2>/dev/null)
MACHINE := $(firstword $(subst -, ,$(TRIPLET)))
CROSS   := $(filter-out $(shell uname -m),$(MACHINE))
ifneq ($(CROSS),)
  SYSROOT    := $(patsubst %/,%,$(abspath $(shell $(CC) -print-sysroot)))
  PKG_CONFIG ?= env PKG_CONFIG_SYSROOT_DIR=$(SYSROOT) \
                PKG_CONFIG_LIBDIR=$(SYSROOT)/usr/lib/$(TRIPLET)/pkgconfig:$(SYSROOT)/usr/share/pkgconfig pkg-config
  AR         := $(shell $(CC) -print-prog-name=ar)
  export CROSS_TRIPLET := $(TRIPLET)
  export CROSS_SYSROOT := $(SYSROOT)
  export CROSS_STRIP   := $(shell $(CC) -print-prog-name=strip)
endif
PKG_CONFIG ?= pkg-config

comma := ,
B ?= build$(if $(CROSS),/$(CROSS))$(if $(SANITIZE),/$(firstword $(subst $(comma), ,$(SANITIZE))),$(if $(filter shim,$(CUDA)),/shim))$(if \
     $(filter-out $(USUAL_OPT),$(OPT)),/$(OPT:-%=%))

# ---- CUDA and EGL: what "auto" means here --------------------------------------------------------------------------

CUDA ?= auto
EGL  ?= auto
ifeq ($(origin NVCC),undefined)
  NVCC := $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
endif
GPU := $(wildcard /dev/nvidia0 /dev/dxg)
ifeq ($(CUDA),auto)
  WITH_CUDA := $(if $(SANITIZE),shim,$(if $(CROSS)$(filter wheel,$(MAKECMDGOALS)),0,$(if $(NVCC),$(if \
               $(GPU)$(filter deb,$(MAKECMDGOALS)),1,0),0)))
  CUDA_HINT := $(if $(filter 0,$(WITH_CUDA)),$(if $(CROSS)$(GPU),,$(if $(NVCC),built without CUDA as this machine has no GPU: make CUDA=1 builds it all the same)))
  CUDA_ARCHS ?= $(if $(filter deb,$(MAKECMDGOALS)),,native)
else
  WITH_CUDA := $(CUDA)
endif
ifeq ($(EGL),auto)
  WITH_EGL := $(if $(shell $(PKG_CONFIG) --exists epoxy libpng 2>/dev/null && echo yes),1,0)
else
  WITH_EGL := $(EGL)
endif
JANSSON ?= auto
WITH_JANSSON := $(if $(filter auto,$(JANSSON)),$(if $(shell $(PKG_CONFIG) --exists jansson 2>/dev/null && echo yes),1,0),$(JANSSON))
$(if $(filter-out 0 1 shim,$(WITH_CUDA)),$(error CUDA=$(CUDA): expected auto, 1, 0 or shim))
$(if $(filter-out 0 1,$(WITH_EGL)),$(error EGL=$(EGL): expected auto, 1 or 0))
$(if $(filter-out 0 1,$(WITH_JANSSON)),$(error JANSSON=$(JANSSON): expected auto, 1 or 0))
$(if $(filter 1,$(WITH_CUDA)),$(if $(SANITIZE),$(error SANITIZE=$(SANITIZE) takes the kernels that the CPU runs: CUDA=auto, \
  shim or 0)))
$(if $(filter 1-,$(WITH_CUDA)-$(NVCC)),$(error CUDA=1, but there is no nvcc on PATH or in /usr/local/cuda/bin: install \
  CUDA 12 or newer, name it with NVCC=<path>, or build with CUDA=0))

# ---- what must be there --------------------------------------------------------------------------------------------

# Sub-makes run as many jobs as there are cores, unless the caller said -j.
J = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
VENV   := build/venv
PYTHON := $(VENV)/bin/python
export PYTHONPYCACHEPREFIX := $(abspath build/pycache)

# Goals that install or need nothing; every other goal builds, and says so early if it cannot. The engine and its tools
# need nothing but compilers.
FREE_GOALS := setup setup-test setup-dev demo test clean format format-check venv gpu-check catalogue
BUILD_GOALS := $(filter-out $(FREE_GOALS),$(or $(MAKECMDGOALS),all))
ifneq ($(filter-out engine-tools %/tests/gpu/check,$(BUILD_GOALS)),)
  TESTS_TOO := $(filter-out all run install deb wheel sbom bench-tools,$(BUILD_GOALS))
  PACKAGES  := build $(if $(TESTS_TOO),test) $(if $(filter 1,$(WITH_EGL)),egl $(if $(TESTS_TOO),$(if $(CROSS),,egl-test)))
  FOUND     := build/found-$(subst $() ,-,$(strip $(CROSS) $(PACKAGES)))
  ifeq ($(wildcard $(FOUND)),)
    MISSING := $(shell CROSS='$(CROSS)' CXX='$(CXX)' PKG_CONFIG='$(PKG_CONFIG)' tests/tools/packages missing $(PACKAGES))
    ifneq ($(MISSING),)
      $(error missing packages$(if $(CROSS), of $(TRIPLET)): $(MISSING). \
        $(if $(CROSS),docs/start.md says where they are looked for,"make setup" installs them$(comma) with apt))
    endif
    $(shell mkdir -p build && touch $(FOUND))
  endif
endif

# ---- flags -----------------------------------------------------------------------------------------------------------

# gcc's plain -Wshadow also minds a parameter named like its type (config *config), which is how we like to write.
SHADOW := $(shell $(CC) -Werror -Wshadow=local -fsyntax-only -x c /dev/null 2>/dev/null && echo -Wshadow=local || echo -Wshadow)
# (psabi: on wide vectors as arguments. None leaves the file that has it.)
WARN := -Wall -Wextra $(SHADOW) -Wpointer-arith -Wcast-qual -Wvla -Wno-missing-field-initializers \
        -Wno-psabi
SAN  := $(if $(SANITIZE),-fsanitize=$(SANITIZE)$(if $(findstring address,$(SANITIZE)),$(comma)undefined) \
        -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
# Contraction would let two compilers round differently; see gpu/include/contact.h on determinism.
PARTS     := $(if $(filter 1 shim,$(WITH_CUDA)),-DCT_HAVE_CUDA) $(if $(filter shim,$(WITH_CUDA)),-DCT_CUDA_SHIM) \
             $(if $(filter 1,$(WITH_EGL)),-DCT_HAVE_EGL) $(if $(filter 1,$(WITH_JANSSON)),-DCT_HAVE_JANSSON)
COMMON    := $(OPT) $(if $(SANITIZE),-g1,-g) -fPIC -pthread -ffp-contract=off -fno-math-errno $(WARN) $(SAN) -MMD -MP -I. -I$(B)/gen \
             -DCONTACTD_VERSION='"$(VERSION)"' $(PARTS)
CFLAGS_   := -std=c17 -D_GNU_SOURCE -Wstrict-prototypes -Wmissing-prototypes $(COMMON) $(CFLAGS)
CXXFLAGS_ := -std=c++17 -fno-exceptions -fno-rtti $(COMMON) $(CXXFLAGS)
LINK       = $(CXX) $(SAN) $(LDFLAGS) -pthread

ifeq ($(WITH_CUDA),1)
# Machine code for every generation from Turing on that this nvcc knows, and PTX: of the newest for those to come, of the
# oldest for what lies between (11.0, as of now).
CUDA_KNOWN := $(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch))
CUDA_ALL   := $(filter $(CUDA_KNOWN),75 80 86 89 90 100 120)
ifeq ($(CUDA_ARCHS),)
  override CUDA_ARCHS := $(CUDA_ALL)
endif
ifeq ($(CUDA_ARCHS),ends)
  override CUDA_ARCHS := $(firstword $(CUDA_ALL)) $(lastword $(CUDA_ALL))
endif
CUDA_CODE  := $(if $(filter native,$(CUDA_ARCHS)),-arch=native,$(foreach a,$(CUDA_ARCHS),-gencode \
              arch=compute_$(a)$(comma)code=sm_$(a)) $(foreach a,$(sort $(firstword $(CUDA_ARCHS)) $(lastword $(CUDA_ARCHS))),-gencode \
              arch=compute_$(a)$(comma)code=compute_$(a)))
# nvcc's own code between the host's does not pass the stricter of our warnings, and clang, as its host compiler, no longer
# knows what came from a header.
CUDA_HOST  := -fPIC -pthread -ffp-contract=off -fno-math-errno -Wall -Wextra -Wno-unused-function $(SAN)
space      := $() $()
NVCCFLAGS_ := $(if $(filter 1,$(NVTX)),-DCT_NVTX) -std=c++17 --fmad=false $(OPT) -g -lineinfo -ccbin $(CXX) --threads 2 -cudart static -Werror all-warnings \
              $(CUDA_CODE) -Xcompiler=$(subst $(space),$(comma),$(strip $(CUDA_HOST))) -MMD -MP -I. -I$(B)/gen $(PARTS) $(NVCCFLAGS)
# nvcc knows where its libraries are; -lrt and -ldl are the runtime's needs.
LIBS_CUDA  := $(shell $(NVCC) --dryrun -x cu /dev/null 2>&1 | sed -n 's/^\#\$$ LIBRARIES=//p' | tr -d '"') -lcudart_static -lrt -ldl
endif

ifeq ($(WITH_CUDA),shim)
# Threads of a block on the shim: as many as on a GPU. Sanitized builds take a quarter, as each thread is a fiber, so that
# make test and make tsan run the kernels with another block size too.
SHIM_BLOCK ?= $(if $(SANITIZE),64,256)
NVCCFLAGS_ := -DCT_SHIM_BLOCK=$(SHIM_BLOCK)u
endif

# What a program that has the engine in it needs.
LIBS_ENGINE = $(LIBS_CUDA) $(if $(filter 1,$(WITH_EGL)),$(shell $(PKG_CONFIG) --libs epoxy libpng)) $(if $(filter 1,$(WITH_JANSSON)),$(LIBS_JANSSON)) -lm
LIBS_SERVER = $(shell $(PKG_CONFIG) --libs libmicrohttpd gnutls libzmq libsodium jansson)
LIBS_CLIENT = $(shell $(PKG_CONFIG) --libs libzmq) -lm
LIBS_SODIUM = $(shell $(PKG_CONFIG) --libs libsodium)
LIBS_JANSSON = $(shell $(PKG_CONFIG) --libs jansson)
LIBS_GNUTLS = $(shell $(PKG_CONFIG) --libs gnutls)
LIBS_TEST   = $(shell $(PKG_CONFIG) --libs cmocka)

# ---- sources ---------------------------------------------------------------------------------------------------------

find = $(sort $(shell find $(1) -name '$(2)' 2>/dev/null))
objs = $(patsubst %,$(B)/obj/%.o,$(basename $(1)))

# gpu/**/X.simd.c is compiled once per instruction set, each with CT_SIMD set to its name; the engine picks one at run time.
# Instrumented at -O3 they would take most of a sanitizer's build. There is no set for AVX-512: compiled for it,
# the same sources were no faster than with AVX2.
SIMD_base   := $(if $(filter -O0,$(OPT)),,$(if $(SANITIZE),-O1,-O3))
SIMD_avx2   := $(SIMD_base) -mavx2 -mfma -mbmi2
SIMD_SETS   := base $(if $(filter x86_64 amd64,$(MACHINE)),avx2)

# Without CUDA there is no *.cu nor test of it, without EGL no *_gl.c, *_png.c nor gpu/device/gl, without jansson no gltf_*.c, *_gltf.c.
LEFT_OUT := $(if $(filter 0,$(WITH_CUDA)),%_cuda.c) $(if $(filter 0,$(WITH_EGL)),%_gl.c %_png.c gpu/device/gl/%) \
            $(if $(filter 0,$(WITH_JANSSON)),%_gltf.c gpu/mesh/io/gltf_%)
CUDA_CU  := $(if $(filter-out 0,$(WITH_CUDA)),$(call find,gpu,*.cu))
SIMD_C   := $(call find,gpu,*.simd.c)
SIMD_O   := $(foreach set,$(SIMD_SETS),$(SIMD_C:%.simd.c=$(B)/obj/%.$(set).o))
ENGINE_C := $(filter-out $(SIMD_C) $(LEFT_OUT),$(call find,gpu,*.c))
SERVER_C := $(filter-out server/main.c $(LEFT_OUT),$(call find,server,*.c))
CLIENT_C := $(filter-out client_c/contactctl.c,$(wildcard client_c/*.c))
CTL_C    := client_c/contactctl.c $(wildcard client_c/ctl/*.c)
WIRE_C   := $(wildcard proto/*.cpp)
ROWS_C   := proto/setting_rows.c
SHAPES_C := $(call find,tests/scenes,*.c)
TESTS    ?= tests/unit tests/consistency tests/golden
GOLDEN_C := $(call find,tests/golden,test_*.c)
UNIT_C   := $(filter-out $(LEFT_OUT),$(call find,$(TESTS),test_*.c))
BENCH_C  := $(call find,tests/bench,bench_*.c)
FUZZ_C   := $(call find,tests/fuzz,fuzz_*.c)
bins      = $(patsubst tests/%.c,$(B)/tests/%,$(1))
# gpu/**/X.glsl becomes X_glsl.h with `static const char X_glsl[]` in it, so X is unique in the tree.
GLSL     := $(call find,gpu,*.glsl)
GLSL_H   := $(patsubst %.glsl,$(B)/gen/%_glsl.h,$(notdir $(GLSL)))
GEN_H    := $(B)/gen/contactd_generated.h $(GLSL_H)

.PHONY: all
all: $(B)/contactd $(B)/contactctl $(B)/libcontactd.a $(B)/libcontactd.so $(B)/contactd.pc $(B)/libcontact.a $(B)/libcontact.so \
     $(B)/contact.pc $(B)/examples/simple $(B)/examples/simple_cpp $(B)/examples/settle
	$(if $(CUDA_HINT),@echo '$(CUDA_HINT)')

# One line a file; V=1 shows the commands.
Q   := $(if $(V),,@)
say  = @$(if $(V),:,printf '  %-5s %s\n' $(1) '$(2)')

# ---- compiling and linking -------------------------------------------------------------------------------------------

# Objects depend on the flags they were built with.
FLAGS_NOW = $(CC) $(CFLAGS_) / $(SIMD_avx2) / $(CXX) $(CXXFLAGS_)
ifneq ($(BUILD_GOALS),)
  $(shell mkdir -p $(B))
  ifneq ($(file <$(B)/flags),$(FLAGS_NOW))
    $(file >$(B)/flags,$(FLAGS_NOW))
  endif
  ifneq ($(file <$(B)/flags-cuda),$(NVCC) $(NVCCFLAGS_))
    $(file >$(B)/flags-cuda,$(NVCC) $(NVCCFLAGS_))
  endif
endif

$(B)/gen/contactd_generated.h: proto/contactd.fbs
	@mkdir -p $(@D)
	$(call say,FLATC,$<)
	$Qflatc --cpp -o $(@D) $<

define GLSL_RULE
$(B)/gen/$(basename $(notdir $(1)))_glsl.h: $(1)
	@mkdir -p $$(@D)
	@{ echo '/* $(1) */'; echo 'static const char $(basename $(notdir $(1)))_glsl[] ='; \
	   sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/    "&\\n"/' $$<; echo '    ;'; } > $$@
endef
$(foreach g,$(GLSL),$(eval $(call GLSL_RULE,$(g))))
$(filter %_gl.o $(B)/obj/gpu/device/gl/%,$(call objs,$(ENGINE_C) $(UNIT_C))): | $(GLSL_H)

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$Q$(CC) $(CFLAGS_) -c $< -o $@
# The tests use assert_in_range, which cmocka 2 warns of as deprecated. Its replacements are not in cmocka 1.
$(B)/obj/tests/%.o: private CFLAGS_ += -Wno-deprecated-declarations
$(B)/obj/server/http/assets.o: proto/openapi.json $(wildcard server/web/* server/web/*/*)
define SIMD_RULE
$(B)/obj/%.$(1).o: %.simd.c $(B)/flags
	@mkdir -p $$(@D)
	$$(call say,CC,$$< ($(1)))
	$$Q$$(CC) $$(CFLAGS_) $$(SIMD_$(1)) -DCT_SIMD=$(1) -c $$< -o $$@
endef
$(foreach set,$(SIMD_SETS),$(eval $(call SIMD_RULE,$(set))))
ifeq ($(WITH_CUDA),shim)
$(B)/obj/%.o: %.cu $(B)/flags $(B)/flags-cuda
	@mkdir -p $(@D)
	$(call say,SHIM,$<)
	$Q$(CXX) -x c++ $(CXXFLAGS_) $(NVCCFLAGS_) -c $< -o $@
else
$(B)/obj/%.o: %.cu $(B)/flags-cuda
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$Q$(NVCC) $(NVCCFLAGS_) -c $< -o $@
endif
$(B)/obj/%.o: %.cpp $(B)/gen/contactd_generated.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$Q$(CXX) $(CXXFLAGS_) -c $< -o $@

# What engine and wire share is in both libraries.
$(B)/libcontact.a: $(call objs,$(ENGINE_C) $(CUDA_CU) $(ROWS_C)) $(SIMD_O)
$(B)/libwire.a: $(call objs,$(WIRE_C) $(ROWS_C))
$(B)/libserver.a: $(call objs,$(SERVER_C))
$(B)/libshapes.a: $(call objs,$(SHAPES_C))
$(B)/libcontactd.a: $(call objs,$(CLIENT_C) $(WIRE_C) $(ROWS_C))
$(B)/lib%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$Q$(AR) rcs $@ $^

# The shared libraries show what their lists of exports name, and nothing else.
$(B)/contactd.map: client_c/contactd.exports
$(B)/contact.map: gpu/contact.exports
$(B)/%.map:
	@mkdir -p $(@D)
	@{ echo '{ global:'; sed '/^#/d;/./s/$$/;/' $<; echo 'local: *; };'; } > $@
$(B)/libcontactd.so.$(VERSION): $(call objs,$(CLIENT_C) $(WIRE_C) $(ROWS_C)) $(B)/contactd.map
$(B)/libcontactd.so.$(VERSION): LIBS_SO = $(LIBS_CLIENT)
$(B)/libcontact.so.$(VERSION): $(call objs,$(ENGINE_C) $(CUDA_CU) $(ROWS_C)) $(SIMD_O) $(B)/contact.map
$(B)/libcontact.so.$(VERSION): LIBS_SO = $(LIBS_ENGINE)
# The engine's interface as Python's cffi reads it: the headers, preprocessed, without the system's.
$(B)/libcontact.cdef.$(SOVERSION): $(wildcard gpu/include/*.h) proto/settings.h proto/material.h proto/contact_fields.h
	@mkdir -p $(B)/gen/no_system
	@touch $(addprefix $(B)/gen/no_system/,stdbool.h stddef.h stdint.h)
	$Q$(CC) -E -P -nostdinc -I$(B)/gen/no_system -I. gpu/include/snapshot.h > $@
$(B)/libcontact.so: $(B)/libcontact.cdef.$(SOVERSION)
$(B)/lib%.so.$(VERSION):
	$(call say,LINK,$@)
	$Q$(LINK) -shared -Wl,-soname,lib$*.so.$(SOVERSION) -Wl,--version-script=$(B)/$*.map -o $@ $(filter %.o,$^) $(LIBS_SO)
$(B)/lib%.so: $(B)/lib%.so.$(VERSION)
	@ln -sf lib$*.so.$(VERSION) $@.$(SOVERSION)
	@ln -sf $(@F).$(SOVERSION) $@

$(B)/contactd: $(call objs,server/main.c) $(B)/libserver.a $(B)/libcontact.a $(B)/libwire.a
	$(call say,LINK,$@)
	$Q$(LINK) -Wl,--build-id -o $@ $^ $(LIBS_ENGINE) $(LIBS_SERVER)
$(B)/contactctl: $(call objs,$(CTL_C)) $(B)/libcontactd.a
	$(call say,LINK,$@)
	$Q$(LINK) -o $@ $^ $(LIBS_CLIENT) $(LIBS_SODIUM) $(LIBS_JANSSON) $(LIBS_GNUTLS) -lm

# Examples: a file, or a folder of files, in client_c/examples is a program. They link no more than any program would,
# but for the shapes that settle takes from the tests.
$(B)/examples/simple: client_c/examples/simple.c $(B)/contactd.pc $(B)/libcontactd.so $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$Q$(CC) $(OPT) -g $(WARN) $(SAN) $< $$(PKG_CONFIG_PATH=$(B) pkg-config --cflags --libs contactd) -o $@
$(B)/examples/simple_cpp: client_c/examples/simple.cpp $(B)/contactd.pc $(B)/libcontactd.so $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$Q$(CXX) -std=c++17 $(OPT) -g -Wall -Wextra $(SAN) $< $$(PKG_CONFIG_PATH=$(B) pkg-config --cflags --libs contactd) -o $@
$(B)/examples/settle: $(call objs,$(wildcard client_c/examples/settle/*.c)) $(B)/libcontactd.a $(B)/libshapes.a $(B)/libcontact.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$Q$(LINK) -o $@ $^ $(LIBS_ENGINE) $(LIBS_CLIENT)

# What a program needs to use a library out of the build folder: headers, and a .pc file that points at them. Headers stand
# in one folder a library, and include each other by their names in it. libzmq's own .pc is not required: Debian's names
# archives, for static linking, that Debian does not have.
HEADERS_contactd := client_c/contactd.h client_c/contactd.hpp proto/errors.h proto/material.h proto/settings.h proto/warnings.h
HEADERS_contact  := $(wildcard gpu/include/*.h) proto/settings.h proto/material.h proto/contact_fields.h
ABOUT_contactd   := Client of contactd, the contact computation service
ABOUT_contact    := Contacts of bodies for physics simulators: the engine of contactd as a library
STATIC_contactd  := -lzmq -lstdc++ -lpthread -lm
# Without -L: it would name folders of the machine that builds. Who links the archive adds those of their own CUDA Toolkit.
STATIC_contact   = $(filter-out -L%,$(LIBS_ENGINE)) -lpthread
INCLUDE_contactd := /contactd
# $(call pc_file,library,folder of headers,folder of libraries,more flags)
pc_file = printf '%s\n' 'Name: $(1)' 'Description: $(ABOUT_$(1))' 'Version: $(VERSION)' \
          'Cflags: -I$(2)$(INCLUDE_$(1))' 'Libs: -L$(3)$(4) -l$(1)' 'Libs.private: $(STATIC_$(1))'
$(B)/contactd.pc: $(HEADERS_contactd) Makefile
$(B)/contact.pc: $(HEADERS_contact) Makefile
$(B)/%.pc:
	@mkdir -p $(B)/include/$*
	@cp $(HEADERS_$*) $(B)/include/$*
	@sed -i 's,#include "\(gpu/include\|proto\|client_c\)/,#include ",' $(B)/include/$*/*.h*
	@$(call pc_file,$*,$(abspath $(B))/include,$(abspath $(B)), -Wl$(comma)-rpath$(comma)$(abspath $(B))) > $@

# A unit test links everything, so it may look inside whatever it tests.
ALL_LIBS := $(B)/libshapes.a $(B)/libserver.a $(B)/libcontactd.a $(B)/libcontact.a $(B)/libwire.a
$(B)/tests/%: $(B)/obj/tests/%.o $(ALL_LIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$Q$(LINK) -o $@ $(filter %.o,$^) $(ALL_LIBS) $(LIBS_TEST) $(LIBS_ENGINE) $(LIBS_SERVER)
$(B)/tests/bench/bench_stream: $(B)/obj/tests/bench/echo.o
# Said once more than needed: make takes the rule above where it knows of a file of the rule below from that alone.
$(B)/tests/bench/bench_stream $(B)/tests/bench/bench_neighbour $(B)/tests/bench/bench_flood $(B)/tests/bench/bench_ground: $(B)/obj/tests/bench/session.o
$(B)/tests/bench/bench_ground: $(B)/obj/tests/bench/ground.o
# The client's allocations are the test's, which lets one fail.
$(B)/tests/unit/client_c/test_no_memory: private LDFLAGS += $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc zmq_msg_init_size)
# The engine's polls are the program's, which counts them (tests/scenes/polls.h).
POLLS_WATCHED := bench/bench_hostile consistency/test_hostile fuzz/fuzz_time
$(addprefix $(B)/tests/,$(POLLS_WATCHED)): private LDFLAGS += -Wl$(comma)--wrap=ct_cancel_check
$(B)/tests/unit/backend/test_collective_cuda: $(B)/obj/tests/unit/backend/kernels.o
$(B)/tests/unit/backend/test_candidates_cuda: $(B)/obj/tests/unit/backend/candidates.o
# These two need nothing but the engine, so that they can be built where there is nothing but a compiler.
BENCH_ENGINE_O := $(call objs,$(addprefix tests/bench/,bench_engine.c engine.c crowd.c crowd_scenes.c ground.c samples.c))
$(B)/tests/bench/bench_engine: $(BENCH_ENGINE_O) $(B)/libshapes.a $(B)/libcontact.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$Q$(LINK) -o $@ $^ $(LIBS_ENGINE)
# The scenes of bench_engine with a pool of its own, and with calls that it counts (make roofline).
RECORDED := make_engine print_run ct_engine_run ct_pair_finish $(addprefix ct_exact_,search cross flood sum finish)
$(B)/tests/bench/bench_recorded: $(B)/obj/tests/bench/bench_recorded.o $(BENCH_ENGINE_O) $(B)/libshapes.a $(B)/libcontact.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$Q$(LINK) $(addprefix -Wl$(comma)--wrap=,$(RECORDED)) -o $@ $^ $(LIBS_ENGINE)
# It times the engine's kernels, compiled as for the best instruction set.
$(B)/obj/tests/bench/bench_rates.o: private CFLAGS_ += $(SIMD_$(lastword $(SIMD_SETS))) -DCT_SIMD=rates
$(B)/tests/gpu/check: $(B)/obj/tests/gpu/check.o $(B)/libshapes.a $(B)/libcontact.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$Q$(LINK) -o $@ $^ $(LIBS_ENGINE)
$(B)/tests/bench/%: $(B)/obj/tests/bench/%.o $(B)/obj/tests/bench/samples.o $(B)/obj/tests/bench/session.o $(ALL_LIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$Q$(LINK) -o $@ $(filter %.o,$^) $(ALL_LIBS) $(LIBS_ENGINE) $(LIBS_CLIENT)
$(B)/tests/fuzz/%: $(B)/obj/tests/fuzz/%.o $(ALL_LIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$Q$(LINK) -fsanitize=fuzzer -o $@ $^ $(LIBS_ENGINE) $(LIBS_SERVER)

# ---- set-up ------------------------------------------------------------------------------------------------------------

.PHONY: setup setup-test setup-dev venv run demo
setup:
	@tests/tools/packages install build test egl egl-test
	@$(MAKE) -s --no-print-directory venv
# What only tests of packaging need. Where it cannot be had, they are skipped.
setup-test: setup
	@tests/tools/packages install deploy || echo "SKIPPED: tests of packaging that need what is missing above"
	@$(MAKE) -s --no-print-directory $(VENV)/deploy || echo "SKIPPED: tests that need what tests/requirements-deploy.txt lists"
	@$(MAKE) -s --no-print-directory $(VENV)/adapters || echo "SKIPPED: tests that need what tests/requirements-adapters.txt lists"
	@$(MAKE) -s --no-print-directory $(VENV)/simulators || echo "SKIPPED: tests that need what tests/requirements-simulators.txt lists"
	@tests/tools/packages install page || echo "SKIPPED: tests of the page that need what is missing above"
	@$(MAKE) -s --no-print-directory $(VENV)/page || echo "SKIPPED: tests that need what tests/requirements-page.txt lists"
	@$(MAKE) -s --no-print-directory $(VENV)/wheel || echo "SKIPPED: the test of the wheel, which needs deploy/wheel/requirements.txt"
setup-dev: setup-test
	@tests/tools/packages install fuzz lint
	@$(MAKE) -s --no-print-directory $(VENV)/dev
PIP_INSTALL = $(PYTHON) -m pip install -q --no-compile --disable-pip-version-check
venv: $(VENV)/ready
$(VENV)/ready: tests/requirements.txt
	@echo "preparing the Python environment in $(VENV)"
	@rm -rf $(VENV)
	@$$(tests/tools/packages python) -m venv $(VENV)
	@tests/tools/again $(PIP_INSTALL) -r tests/requirements.txt
	@touch $@
$(VENV)/deploy $(VENV)/adapters $(VENV)/simulators $(VENV)/page $(VENV)/compare: $(VENV)/%: tests/requirements-%.txt $(VENV)/ready
	@tests/tools/again $(PIP_INSTALL) -r $<
	@touch $@
$(VENV)/wheel: deploy/wheel/requirements.txt $(VENV)/ready
	@tests/tools/again $(PIP_INSTALL) -r $<
	@touch $@
$(VENV)/dev: tests/requirements-dev.txt $(VENV)/ready
	@tests/tools/again $(PIP_INSTALL) -r tests/requirements-dev.txt
	@touch $@

run: all
	$(B)/contactd

demo: setup
	@$(MAKE) --no-print-directory $(J) all
	@$(PYTHON) client_py/examples/demo.py --build $(B) --out build/demo $(if $(MESH_A),--mesh-a '$(MESH_A)') \
	    $(if $(MESH_B),--mesh-b '$(MESH_B)')

# ---- tests -------------------------------------------------------------------------------------------------------------

.PHONY: test test-all unit golden e2e manifold asan tsan fuzz fuzz-bins fuzz-smoke bench roofline
test: setup-test
	@$(MAKE) --no-print-directory $(J) test-all
test-all:
	$(MAKE) --no-print-directory check unit
	$(MAKE) --no-print-directory SANITIZE=address CUDA=auto TESTS="$(ASAN_TESTS)" unit
	$(MAKE) --no-print-directory fuzz-smoke
	$(MAKE) --no-print-directory e2e

unit: $(call bins,$(UNIT_C))
	@tests/tools/run-units $^
golden: $(call bins,$(GOLDEN_C))
	@tests/tools/run-units $^
# What takes 1,200 s hangs, on however busy a machine: it ends then, and its threads' stacks are shown.
e2e: export TSAN_OPTIONS ?= suppressions=$(abspath tests/tsan.supp)
e2e: FIXED_LAYOUT = $(if $(SANITIZE),$(shell tests/tools/fixed-layout))
e2e: all venv $(if $(SANITIZE),,$(B)/tests/manifold/pairs)
	PYTHONPATH=$(abspath client_py) BUILD=$(abspath $(B)) $(FIXED_LAYOUT) $(PYTHON) -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder \
	    --timeout 1200 --timeout-method thread --instafail --durations 12 --durations-min 5 \
	    -o cache_dir=$(abspath build/pytest) -rs \
	    tests/e2e $(if $(SANITIZE),$(E2E_SANITIZED),tests/deploy tests/tools tests/manifold) $(PYTEST_ARGS)
# Nothing that is instrumented runs in the tools' tests, nor in the Python client's against a scripted server or with the
# engine in Python's own process. Simulations, the Python client without memory and the requests made from the OpenAPI
# document do in the server what other tests do too.
E2E_SANITIZED = $(addprefix --ignore tests/e2e/test_,client_py_async.py client_py_link.py client_py_wire.py \
    client_py_no_memory.py columns.py compare.py engine.py experiments.py experiments_papers.py jax.py judge.py mujoco.py newton.py openapi.py page.py pybullet.py \
    sim.py torch.py volumes.py \
    $(if $(filter thread,$(SANITIZE)),$(E2E_NUMBERS)))
# Left out under ThreadSanitizer: tests of a step's numbers, of refusals, and of how both are shown. Their steps run on the
# same threads as those of the other tests.
E2E_NUMBERS := bad_input.py cells.py client_py_callers.py completion.py contactctl_details.py demo.py drake.py gltf.py gym.py \
    half_space.py hull.py identity.py inverted.py keys_cert.py law.py methods.py nested.py open_surface.py overlap.py patches.py \
    points.py progress.py raster_egl.py readme.py repair.py second.py self_contact.py separation.py settings_in_force.py \
    shapes.py shells.py slip.py surface.py voxtree.py wrap.py

PAIRS ?= 20000
manifold: $(B)/tests/manifold/pairs venv
	MANIFOLD_PAIRS=$(PAIRS) BUILD=$(abspath $(B)) $(PYTHON) -m pytest -q -s -o cache_dir=$(abspath build/pytest) \
	    tests/manifold $(PYTEST_ARGS)

# The same scenes by MuJoCo, Drake, Newton, PyBullet and contactd in each: stability, penetration, time.
.PHONY: compare
compare: all $(VENV)/compare
	PYTHONPATH=$(abspath client_py) $(PYTHON) tests/compare/run.py --build $(abspath $(B)) --out $(or $(OUT),build/compare) $(COMPARE)

# The documentation as a site, build/docs/index.html; links that lead nowhere fail.
.PHONY: docs
docs: all
	$(PYTHON) -m venv build/docs-venv
	build/docs-venv/bin/pip install -q -r tests/requirements-docs.txt
	NO_MKDOCS_2_WARNING=1 CONTACTCTL=$(abspath $(B)/contactctl) build/docs-venv/bin/mkdocs build -q -f docs/site/mkdocs.yml
	$(PYTHON) docs/site/check_links.py build/docs

# The figures of docs/, drawn by contactd itself.
.PHONY: figures
figures: all $(VENV)/page
	CONTACTD_PROGRAM=$(abspath $(B)/contactd) PYTHONPATH=$(abspath client_py) $(PYTHON) docs/figures.py

.PHONY: experiments
experiments: all venv
	PYTHONPATH=$(abspath client_py) $(PYTHON) tests/experiments/run.py --build $(abspath $(B)) \
	    --out $(abspath build/experiments) $(EXPERIMENTS)

# What is about the size of errors alone, or compares with brute force or another backend, is slow, and reads and writes no memory
# that other tests do not.
ASAN_LEFT_OUT := $(addprefix tests/consistency/test_,cases cells culled derivative ebpi ebpi_backends egl_gl exact exact_cancel exact_degenerate exact_grazing \
                   exact_invariance exact_second half_space invariance patch_costs patch_ties patches sampling self_exact separation shallow \
                   voxtree) $(addprefix tests/unit/,broadphase/test_crowds ebpi/test_tile_bound exact/test_predicates exact/test_winding)
ASAN_TESTS    := $(filter-out $(ASAN_LEFT_OUT:%=%.c),$(call find,tests/unit tests/golden tests/consistency,test_*.c))
asan:
	$(MAKE) $(J) SANITIZE=address TESTS="$(ASAN_TESTS)" unit
	$(MAKE) $(J) SANITIZE=address e2e
# Consistency tests are about numbers, and slow here. What these folders and files test runs on one thread, or on the same
# threads as the golden scenes. One of their files is tested all the same: several threads count who holds a mesh.
TSAN_LEFT_OUT := $(addprefix tests/unit/,$(addsuffix /%,base contact ebpi exact mesh narrow proto raster span view voxtree) \
                   $(addsuffix .c,client_c/test_no_memory picture/test_painter_gl scene/test_strays scene/test_warnings backend/test_draw_pairs))
TSAN_TESTS    := $(filter-out $(TSAN_LEFT_OUT),$(call find,tests/unit tests/golden,test_*.c)) tests/unit/mesh/test_mesh.c
tsan:
	$(MAKE) $(J) SANITIZE=thread TESTS="$(TSAN_TESTS)" unit
	$(MAKE) $(J) SANITIZE=thread e2e

# The fuzzers, and all they link, are built by clang with coverage and sanitizers. What clang says of NULL + 0, which empty
# lists are, no other compiler minds, nor does the next C.
FUZZ_MAKE := $(MAKE) --no-print-directory CC=clang CXX=clang++ CUDA=0 EGL=0 SANITIZE=fuzzer-no-link,address B=build/fuzz \
             CFLAGS=-fno-sanitize=pointer-overflow
fuzz:
	+@$(FUZZ_MAKE) $(J) fuzz-bins
	@FUZZ_SEED=$(FUZZ_SEED) tests/tools/run-fuzzers $(FUZZ_SECONDS) $(patsubst tests/fuzz/%.c,build/fuzz/tests/fuzz/%,$(FUZZ_C))
fuzz-bins: $(call bins,$(FUZZ_C))
fuzz-smoke:
	@if [ -z "$$(tests/tools/packages missing fuzz)" ]; then $(MAKE) --no-print-directory fuzz FUZZ_SECONDS=5 FUZZ_SEED=1; \
	else echo "SKIPPED: fuzzing needs clang and its runtime; make setup-dev installs them"; fi

.PHONY: gpu-check engine-tools bench-tools
engine-tools: $(B)/tests/gpu/check $(B)/tests/bench/bench_engine
bench-tools: $(call bins,$(BENCH_C))
gpu-check:
	tests/gpu-check.sh $(GPU_CHECK)

ifneq ($(BASE),)
$(if $(filter bench,$(MAKECMDGOALS)),$(if $(OUT),$(error OUT is of the figures of one build: leave out BASE)))
BENCH := compare.py --base '$(BASE)' $(if $(ROWS),--rows '$(value ROWS)') $(if $(WORST),--worst '$(WORST)') \
         $(if $(TURNS),--turns '$(TURNS)')
else
$(if $(filter bench,$(MAKECMDGOALS)),$(if $(ROWS)$(WORST)$(TURNS),$(error ROWS, WORST and TURNS need a build to compare with: BASE=<folder>)))
BENCH := bench.py
ifneq ($(OUT),)
$(if $(filter bench,$(MAKECMDGOALS)),$(if $(wildcard $(OUT)/speed.md),,$(error OUT is the folder whose speed.md gets the tables: OUT=docs)))
endif
endif
bench: all $(call bins,$(BENCH_C)) venv
	$(PYTHON) tests/bench/$(BENCH) --build $(B)
	$(if $(BASE),,$(if $(OUT),$(PYTHON) tests/bench/speed_page.py $(OUT) $(B)/bench.json))

roofline: $(addprefix $(B)/tests/bench/bench_,engine recorded rates) venv
	$(PYTHON) tests/bench/roofline.py --build $(B)

# ---- checks on the source ------------------------------------------------------------------------------------------------

.PHONY: catalogue check check-catalogue check-layers check-headers check-exports check-conform format format-check lint
TRACKED = $(shell git ls-files '*.c' '*.h' '*.inl' '*.cpp' 'client_c/*.hpp' '*.cu' '*.cuh')
check: check-catalogue check-layers check-headers check-exports check-conform
catalogue:
	@python3 proto/catalogue/generate.py
check-catalogue:
	@python3 proto/catalogue/generate.py --check
check-layers: $(GEN_H)
	@python3 tests/tools/check_layers.py --cc '$(CC)' -I . -I $(B)/gen -I client_c \
	    $(if $(filter 1,$(WITH_EGL)),-D CT_HAVE_EGL,--skip '**_gl.c' --skip '**_png.c' --skip 'gpu/device/gl/*') \
	    $(if $(filter 0,$(WITH_CUDA)),,-D CT_HAVE_CUDA)
check-headers: $(GEN_H)
	@SKIP='$(if $(filter 0,$(WITH_EGL)),gpu/device/gl)' tests/tools/check-headers '$(CC)' '$(CXX)' -I. -I$(B)/gen
check-exports: $(B)/libcontactd.so $(B)/libcontact.so
	@tests/tools/check-exports $(B)/libcontactd.so client_c/contactd.exports client_c/contactd.h
	@tests/tools/check-exports $(B)/libcontact.so gpu/contact.exports gpu/include/*.h
# The schema understands what the last release wrote (proto/VERSIONING.md).
check-conform:
	@flatc --conform tests/golden/wire/contactd.fbs proto/contactd.fbs && echo "schema: conforms to the last release"
format: $(VENV)/dev
	$(VENV)/bin/clang-format -i $(TRACKED)
format-check: $(VENV)/dev
	$(VENV)/bin/clang-format --dry-run -Werror $(TRACKED)
lint: $(GEN_H)
	@printf '%s\n' $(filter-out $(LEFT_OUT) docs/%,$(filter %.c,$(TRACKED))) | PARTS='$(PARTS)' xargs -P $(shell nproc) -n 4 \
	    tests/tools/tidy $(B)
	@printf '%s\n' $(filter %.cu,$(TRACKED)) | PARTS=-DCT_HAVE_CUDA xargs -r -P $(shell nproc) -n 1 tests/tools/tidy $(B)

# ---- installing ----------------------------------------------------------------------------------------------------------

UNITDIR := $(PREFIX)/lib/systemd/system

# Man pages, of what the programs themselves print.
$(B)/man/contactd.1: $(B)/contactd deploy/man-page
	@mkdir -p $(@D)
	@deploy/man-page $< $(VERSION) 'contact computation for physics simulators' > $@
$(B)/man/contactctl.1: $(B)/contactctl
	@mkdir -p $(@D)
	@$< man-page > $@
$(B)/completions/%: $(B)/contactctl
	@mkdir -p $(@D)
	@$< completion $* > $@

define install_library
install -d $(DESTDIR)$(PREFIX)/include/$(1) $(DESTDIR)$(LIBDIR)/cmake/$(1)
	install -m 644 $(B)/lib$(1).a $(DESTDIR)$(LIBDIR)
	install -m 755 $(B)/lib$(1).so.$(VERSION) $(DESTDIR)$(LIBDIR)
	ln -sf lib$(1).so.$(VERSION) $(DESTDIR)$(LIBDIR)/lib$(1).so.$(SOVERSION)
	ln -sf lib$(1).so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/lib$(1).so
	install -m 644 $(B)/include/$(1)/*.h* $(DESTDIR)$(PREFIX)/include/$(1)
	$(call pc_file,$(1),$(PREFIX)/include,$(LIBDIR)) > $(DESTDIR)$(LIBDIR)/pkgconfig/$(1).pc
	$(if $(filter contact,$(1)),install -m 644 $(B)/libcontact.cdef.$(SOVERSION) $(DESTDIR)$(LIBDIR))
	deploy/cmake-config $(1) $(VERSION) $(DESTDIR)$(LIBDIR)/cmake/$(1) '$(PREFIX)/include$(INCLUDE_$(1))' '$(LIBDIR)'
	
endef

.PHONY: install deb wheel sbom clean
install: all $(B)/man/contactd.1 $(B)/man/contactctl.1 $(addprefix $(B)/completions/,bash zsh fish)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 755 $(B)/contactd $(B)/contactctl $(DESTDIR)$(PREFIX)/bin
	$(foreach l,contactd contact,$(call install_library,$(l)))
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(UNITDIR) $(DESTDIR)$(SYSCONFDIR)/default
	install -m 644 $(B)/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -D -m 644 $(B)/completions/bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/contactctl
	install -D -m 644 $(B)/completions/zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_contactctl
	install -D -m 644 $(B)/completions/fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/contactctl.fish
	install -m 644 deploy/systemd/*.socket $(DESTDIR)$(UNITDIR)
	sed 's,@BINDIR@,$(PREFIX)/bin,; s,@DEFAULTS@,$(SYSCONFDIR)/default/contactd,' deploy/systemd/contactd.service \
	    > $(DESTDIR)$(UNITDIR)/contactd.service
	[ -e $(DESTDIR)$(SYSCONFDIR)/default/contactd ] || \
	    install -m 644 deploy/systemd/defaults $(DESTDIR)$(SYSCONFDIR)/default/contactd
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || PATH=$$PATH:/usr/sbin:/sbin ldconfig  # else nothing finds the library

deb: all
	@MAKE='$(MAKE)' deploy/debian/build $(VERSION) $(B) $(B)/deb

sbom: all
	@python3 deploy/sbom.py $(B) $(B)/contactd.cdx.json
	@echo "$(B)/contactd.cdx.json"

wheel: all $(VENV)/wheel
	@deploy/wheel/build $(if $(filter 1,$(WITH_CUDA)),contactd-cuda,contactd) $(PYTHON) $(B) $(B)/wheel

clean:
	rm -rf build

.SECONDARY:
.DELETE_ON_ERROR:
-include $(call find,$(B)/obj,*.d)
