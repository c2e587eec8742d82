#!/usr/bin/env python3
"""check_layers.py - who may include what, checked on what the preprocessor really reads.

    check_layers.py [--root DIR] [--cc CC] [-I DIR]... [-D NAME]... [--skip PATTERN]...

Each source and header is preprocessed with -M (so indirect includes count too). RULES says what each part of the tree may
reach inside the tree; LIBRARIES says where each outside library stops. Tests may look anywhere.
"""
import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

TOPS = ("gpu", "server", "proto", "client_c")

# In patterns * stays within a folder and ** does not. A file may always include its own folder's headers.
DOOR = "gpu/include/*.h"
GROUND = [DOOR, "gpu/base/*"]
STAGE = GROUND + ["gpu/mesh/*"]
SERVER_CORE = [DOOR, "proto/*.h", "server/registry/*", "server/schedule/*", "server/metrics/*",
               "server/guard/*", "server/state/*.h", "server/*.h"]

LISTS = ["proto/errors.h", "proto/warnings.h"]  # of codes, which contactd.h includes

# The first pattern that matches a file decides.
RULES = [
    ("gpu/include/*", []),
    ("gpu/base/*", [DOOR]),
    ("gpu/mesh/*", GROUND),
    # Each stage may read the contracts of those before it; on a device too (DEVICES, below).
    ("gpu/broadphase/*", STAGE),
    ("gpu/view/*", STAGE),
    ("gpu/narrow/*", STAGE + ["gpu/view/*", "gpu/raster/raster_k.h"]),  # probes cross triangles by the fill rule
    ("gpu/raster/*_gl.c", STAGE + ["gpu/view/*", "gpu/backend/gl/*"]),
    ("gpu/raster/*", STAGE + ["gpu/view/*"]),
    ("gpu/span/*", STAGE + ["gpu/view/*", "gpu/raster/*"]),
    ("gpu/contact/*", STAGE + ["gpu/view/*", "gpu/raster/*", "gpu/span/*"]),
    ("gpu/picture/*", STAGE + ["gpu/view/*", "gpu/voxtree/*", "gpu/backend/gl/*"]),
    ("gpu/**", ["gpu/**"]),  # contact.c, scenes and backends put them together
    ("proto/*", []),
    ("client_c/contactctl.c", ["client_c/ctl/*"] + LISTS),
    ("client_c/ctl/rec*", ["client_c/contactd.h", "proto/*.h"]),  # messages as they are
    ("client_c/ctl/replay*", ["client_c/contactd.h", "proto/*.h"]),
    ("client_c/ctl/sockets.*", ["client_c/contactd.h", "proto/*.h"]),
    ("client_c/ctl/*", ["client_c/contactd.h"] + LISTS),
    # A program that uses the library; its bodies are those of the tests.
    ("client_c/examples/**", ["client_c/contactd.h", "tests/scenes/shapes.h", DOOR] + LISTS),
    ("client_c/*", ["proto/*.h"]),
    ("server/main.c", SERVER_CORE + ["server/stream/*", "server/http/*"]),
    ("server/stream/**", SERVER_CORE),
    ("server/http/**", SERVER_CORE),
    ("server/**", SERVER_CORE),
]
# A stage's part for a device may use what that device's backend offers.
DEVICES = [
    ("**.cu", "gpu/backend/cuda/*"),
    ("**.cuh", "gpu/backend/cuda/*"),
    ("**_gl.c", "gpu/backend/gl/*"),
]
# (pattern of an outside header's path, where it may be used)
LIBRARIES = [
    ("**/zmq*.h", ["server/stream/*", "client_c/*", "client_c/ctl/keys.c", "client_c/ctl/sockets.*",
                    "client_c/ctl/rec*", "client_c/ctl/replay*"]),
    ("**/flatbuffers/**", ["proto/*"]),
    ("**/contactd_generated.h", ["proto/*"]),
    ("**/jansson*.h", ["server/http/*", "client_c/ctl/*"]),
    ("**/sodium*.h", ["server/guard/*", "server/state/meshes.c", "client_c/ctl/*"]),
    ("**/gnutls/**", ["server/http/tls.c"]),
    ("**/microhttpd*.h", ["server/http/*"]),
    ("**/cuda*.h", ["**.cu", "**.cuh"]),
    ("**/png*.h", ["gpu/picture/*_png.c"]),
    ("**/cub/**", ["**.cu", "**.cuh"]),
    ("**/nvtx3/**", ["gpu/backend/cuda/*"]),
    ("**/epoxy/**", ["**_gl.c", "gpu/backend/gl/*"]),
    ("**/EGL/**", ["**_gl.c", "gpu/backend/gl/*"]),
    ("**/GL/**", ["**_gl.c", "gpu/backend/gl/*"]),
]


def matches(path, pattern):
    parts = re.split(r"(\*\*|\*)", pattern)
    regex = "".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts)
    return re.fullmatch(regex, path) is not None


def sources(root):
    for top in TOPS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith((".c", ".h", ".cpp", ".cu", ".cuh")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def dependencies(root, cc, includes, defines, path):
    # Device code is read as the CPU's stand-in for CUDA reads it, so this needs no nvcc.
    device = ["-DCT_CUDA_SHIM", "-DCT_HAVE_CUDA"] if path.endswith((".cu", ".cuh")) else []
    language = "c++" if device or path.endswith(".cpp") else "c"
    command = cc.split() + ["-M", "-D_GNU_SOURCE", "-DCT_SIMD=base", *device, "-x", language]
    command += [f"-D{d}" for d in defines] + [f"-I{i}" for i in includes] + [path]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"check-layers: cannot preprocess {path}:\n{done.stderr}")
    words = done.stdout.replace("\\\n", " ").split(":", 1)[1].split()
    return sorted({os.path.normpath(w) for w in words} - {path})


def complaints(path, reached):
    """Yields one line for each header that this file reaches and may not."""
    own = os.path.dirname(path) + "/*"
    allowed = [own] + next(may for pattern, may in RULES if matches(path, pattern))
    allowed += [may for pattern, may in DEVICES if matches(path, pattern)]
    for header in reached:
        inside = header.split("/")[0] in TOPS + ("tests", "client_py")
        for pattern, where in LIBRARIES:
            if inside or not matches("/" + header.lstrip("/"), pattern):
                continue
            if not any(matches(path, w) for w in where):
                yield f"{path} reaches {header}, which only {', '.join(where)} may"
        if inside and not any(matches(header, p) for p in allowed):
            yield f"{path} reaches {header}; it may reach {', '.join(allowed)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("-I", dest="includes", action="append", default=[])
    parser.add_argument("-D", dest="defines", action="append", default=[])
    parser.add_argument("--skip", action="append", default=[], help="files that this build leaves out")
    options = parser.parse_args()
    paths = sorted(p for p in sources(options.root) if not any(matches(p, skip) for skip in options.skip))
    if not paths:
        raise SystemExit("check-layers: no sources found")
    includes = options.includes or ["."]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reached = pool.map(lambda p: dependencies(options.root, options.cc, includes, options.defines, p), paths)
        found = [line for path, headers in zip(paths, reached) for line in complaints(path, headers)]
    if found:
        print("\n".join(dict.fromkeys(found)), file=sys.stderr)
        raise SystemExit(1)
    print(f"layers: {len(paths)} files keep to theirs")


if __name__ == "__main__":
    main()
