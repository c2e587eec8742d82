# contactd. `make` builds, `make test` and `make demo` also install what they need. Everything is built under build/.
#
#   make                 contactd, contactctl, libcontactd.{a,so}, contactd.pc
#   make SANITIZE=address|thread|undefined   the same, instrumented, under build/<sanitizer>/

CC       ?= gcc
CXX      ?= g++
OPT      ?= -O2
SANITIZE ?=
VERSION  := 0.1.0

B := build$(if $(SANITIZE),/$(SANITIZE))

WARN     := -Wall -Wextra -Wshadow -Wpointer-arith -Wcast-qual -Wvla -Wno-missing-field-initializers
SAN      := $(if $(SANITIZE),-fsanitize=$(SANITIZE)$(if $(filter address,$(SANITIZE)),$(comma)undefined) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
comma    := ,
# Contraction would let two compilers round differently; see gpu/include/contact.h on determinism.
COMMON   := $(OPT) -g -fPIC -ffp-contract=off -fno-math-errno $(WARN) $(SAN) -MMD -MP -I. -I$(B)/gen -DCONTACTD_VERSION='"$(VERSION)"'
CFLAGS_  := -std=c17 -D_GNU_SOURCE -Wstrict-prototypes -Wmissing-prototypes $(COMMON) $(CFLAGS)
CXXFLAGS_ := -std=c++17 -fno-exceptions -fno-rtti $(COMMON) $(CXXFLAGS)

find = $(sort $(shell find $(1) -name '$(2)' 2>/dev/null))

# gpu/**/X.simd.c is compiled once per instruction set, each with CT_SIMD set to its name; the engine picks one at run time.
SIMD_base   :=
SIMD_avx2   := -mavx2 -mfma -mbmi2
SIMD_avx512 := $(SIMD_avx2) -mavx512f -mavx512dq -mavx512bw -mavx512vl
SIMD_SETS   := base $(if $(filter x86_64% amd64%,$(shell $(CC) -dumpmachine)),avx2 avx512)

SIMD_C   := $(call find,gpu,*.simd.c)
ENGINE_C := $(filter-out $(SIMD_C),$(call find,gpu,*.c))
SERVER_C := $(filter-out server/main.c,$(call find,server,*.c))
CLIENT_C := client_c/contactd.c
SHAPES_C := $(call find,tests/scenes,*.c)
UNIT_C   := $(call find,tests/unit,test_*.c) $(call find,tests/consistency,test_*.c) $(call find,tests/golden,test_*.c)
objs = $(patsubst %,$(B)/obj/%.o,$(basename $(1)))
SIMD_O   := $(foreach set,$(SIMD_SETS),$(SIMD_C:%.simd.c=$(B)/obj/%.$(set).o))

PKGS_SERVER := libmicrohttpd libzmq jansson
LIBS_SERVER  = $(shell pkg-config --libs $(PKGS_SERVER))
LIBS_CLIENT  = $(shell pkg-config --libs libzmq)
LIBS_TEST    = $(shell pkg-config --libs cmocka)

.PHONY: all clean unit
all: $(B)/contactd $(B)/contactctl $(B)/libcontactd.a $(B)/libcontactd.so $(B)/contactd.pc

$(B)/gen/contactd_generated.h: proto/contactd.fbs
	@mkdir -p $(@D)
	flatc --cpp -o $(@D) $<

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_) -c $< -o $@
define SIMD_RULE
$(B)/obj/%.$(1).o: %.simd.c
	@mkdir -p $$(@D)
	$$(CC) $$(CFLAGS_) $$(SIMD_$(1)) -DCT_SIMD=$(1) -c $$< -o $$@
endef
$(foreach set,$(SIMD_SETS),$(eval $(call SIMD_RULE,$(set))))
$(B)/obj/%.o: %.cpp $(B)/gen/contactd_generated.h
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS_) -c $< -o $@

$(B)/libengine.a: $(call objs,$(ENGINE_C)) $(SIMD_O)
$(B)/libwire.a: $(call objs,proto/codec.cpp)
$(B)/libserver.a: $(call objs,$(SERVER_C))
$(B)/libshapes.a: $(call objs,$(SHAPES_C))
$(B)/lib%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/libcontactd.a: $(call objs,$(CLIENT_C) proto/codec.cpp)
$(B)/libcontactd.so: $(call objs,$(CLIENT_C) proto/codec.cpp)
	$(CXX) $(SAN) -shared -Wl,-soname,libcontactd.so.0 -o $@ $^ $(LIBS_CLIENT)
$(B)/contactd: $(call objs,server/main.c) $(B)/libserver.a $(B)/libengine.a $(B)/libwire.a
	$(CXX) $(SAN) -o $@ $^ $(LIBS_SERVER) -lm -lpthread
$(B)/contactctl: $(call objs,client_c/contactctl.c) $(B)/libcontactd.a
	$(CXX) $(SAN) -o $@ $^ $(LIBS_CLIENT) -lm -lpthread

# A unit test links everything, so it may look inside whatever it tests.
UNIT_BIN := $(patsubst tests/%.c,$(B)/tests/%,$(UNIT_C))
$(B)/tests/%: $(B)/obj/tests/%.o $(B)/libshapes.a $(B)/libserver.a $(B)/libcontactd.a $(B)/libengine.a $(B)/libwire.a
	@mkdir -p $(@D)
	$(CXX) $(SAN) -o $@ $^ $(LIBS_TEST) $(LIBS_SERVER) -lm -lpthread
unit: $(UNIT_BIN)
	@set -e; for t in $(UNIT_BIN); do $$t; done

clean:
	rm -rf build

.SECONDARY:
-include $(call find,$(B)/obj,*.d)
