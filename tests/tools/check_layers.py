#!/usr/bin/env python3
"""check_layers.py - who may include what, checked on what the preprocessor really reads.

    check_layers.py [--root DIR] [--cc CC] [-I DIR]... [-D NAME]... [--skip PATTERN]...

Each source and header is preprocessed with -M (so indirect includes count too). RULES says what each part of the tree may
reach inside the tree; LIBRARIES says where each outside library stops. Tests may look anywhere.
"""
import argparse
import ast
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

TOPS = ("gpu", "server", "proto", "client_c")

# In patterns * stays within a folder and ** does not. A file may always include its own folder's headers.
DOOR = "gpu/include/*.h"
TYPES = "proto/settings.h"  # which engine, wire and client share, as the next
FIELDS = "proto/contact_fields.h"
MATERIAL = "proto/material.h"
ROWS = [TYPES, FIELDS, MATERIAL, "proto/setting_rows.*", "proto/errors.h"]
GROUND = [DOOR, TYPES, FIELDS, MATERIAL, "gpu/base/*"]
STAGE = GROUND + ["gpu/mesh/*"]
SERVER_ROOMS = ["server/base/*", "server/metrics/*", "server/guard/*", "server/state/*.h", "server/registry/*",
                "server/schedule/*", "server/core/*"]
SERVER_DOOR = [DOOR, "proto/*.h"]

LISTS = ["proto/errors.h", "proto/settings.h", "proto/material.h", "proto/warnings.h"]  # which contactd.h includes

# The first pattern that matches a file decides.
RULES = [
    ("gpu/include/*", [TYPES, FIELDS, MATERIAL]),
    ("gpu/base/*", [DOOR, TYPES, FIELDS, MATERIAL]),
    ("gpu/mesh/**", STAGE + ["gpu/mesh/**"]),
    ("gpu/device/gl/*", GROUND),
    ("gpu/device/cuda/*", GROUND + ["gpu/device/gl/*"]),
    ("gpu/**", ["gpu/**"] + ROWS),  # contact.c, scenes and backends put them together
    ("proto/*", []),
    ("client_c/contactctl.c", ["client_c/ctl/*"] + LISTS),
    ("client_c/ctl/rec*", ["client_c/contactd.h", "proto/*.h"]),  # messages as they are
    ("client_c/ctl/replay*", ["client_c/contactd.h", "proto/*.h"]),
    ("client_c/ctl/sockets.*", ["client_c/contactd.h", "proto/*.h"]),
    ("client_c/ctl/reach.c", ["client_c/contactd.h", "client_c/ctl/ctl.h", "proto/endpoint.h"] + LISTS + ROWS),
    ("client_c/ctl/*", ["client_c/contactd.h", "proto/contact_rows.h", "proto/quaternion.h"] + LISTS + ROWS),
    # A program that uses the library; its bodies are those of the tests.
    ("client_c/examples/**", ["client_c/contactd.h", "client_c/contactd.hpp", "tests/scenes/shapes.h", FIELDS, MATERIAL, DOOR] + LISTS),
    ("client_c/*", ["proto/*.h"]),
    ("server/main.c", SERVER_DOOR + SERVER_ROOMS + ["server/stream/*", "server/http/*"]),
    # Each room may use those before it.
    *((f"server/{room}/**", SERVER_DOOR + SERVER_ROOMS[:n]) for n, room in enumerate(
        ("base", "metrics", "guard", "state", "registry", "schedule", "core"))),
    ("server/stream/**", SERVER_DOOR + SERVER_ROOMS),
    ("server/http/**", SERVER_DOOR + SERVER_ROOMS),
]
# A stage's part for a device may use what that device's backend offers.
DEVICES = [
    ("**.cu", "gpu/device/cuda/*"),
    ("**.cuh", "gpu/device/cuda/*"),
    ("**_gl.c", "gpu/device/gl/*"),
]
# (pattern of an outside header's path, where it may be used)
LIBRARIES = [
    ("**/zmq*.h", ["server/stream/*", "client_c/*", "client_c/ctl/keys.c", "client_c/ctl/sockets.*",
                    "client_c/ctl/rec*", "client_c/ctl/replay*"]),
    ("**/flatbuffers/**", ["proto/*"]),
    ("**/contactd_generated.h", ["proto/*"]),
    ("**/jansson*.h", ["server/http/*", "client_c/ctl/*", "gpu/mesh/io/*gltf*"]),
    ("**/sodium*.h", ["server/guard/*", "server/state/meshes.c", "client_c/ctl/*"]),
    ("**/gnutls/**", ["server/http/tls.c", "client_c/ctl/cert.c"]),
    ("**/microhttpd*.h", ["server/http/*"]),
    ("**/cuda*.h", ["**.cu", "**.cuh"]),
    ("**/png*.h", ["gpu/picture/*_png.c"]),
    ("**/cub/**", ["**.cu", "**.cuh"]),
    ("**/nvtx3/**", ["gpu/device/cuda/*"]),
    ("**/epoxy/**", ["**_gl.c", "gpu/device/gl/*"]),
    ("**/EGL/**", ["**_gl.c", "gpu/device/gl/*"]),
    ("**/GL/**", ["**_gl.c", "gpu/device/gl/*"]),
]


# Folders of a top from the lowest to the highest: a file includes files of its own folder and of lower ones.
FLOORS = {
    "gpu": ["include", "base", "mesh", "mesh/build", "mesh/io", "device", "device/gl", "device/cuda", "scene", "view", "contact",
            "method", "methods/ldi", "methods/ebpi", "methods/exact", "methods/voxtree", "after", "run", "picture"],
    "server": ["base", "metrics", "guard", "state", "registry", "schedule", "core", "stream", "http", "."],
}
# Files of a folder from the lowest to the highest: a file includes, and calls, what is of files before it. A name without
# a suffix is a source with its header, which declares what that source defines. The first, which is public in the folder,
# alone declares what any of them defines.
FILES = {
    "client_c": [
        "contactd.h", "contactd.hpp", "client.h", "base", "records", "greeting", "silence", "servers", "mirror", "flight", "keys", "socket", "session",
        "restore", "frames", "result", "steps", "many_result", "many.c", "meshes", "scenes", "copies", "shapes", "snapshots", "reports", "products",
        "overlap", "connect", "contactd.c", "fleet.h", "fleet_look", "fleet_meshes", "fleet.c", "contactctl.c"],
    "client_c/ctl": [
        "ctl.h", "guess", "keyboard", "progress", "json.c", "setting_options.inc", "options", "reach.c", "common.c", "gltf.c", "several", "report", "top_view", "sockets", "recording",
        "record_meshes", "replay_compare", "trajectory", "operate.c", "lists.c", "contact.c", "contacts.c", "snapshot.c", "keys.c", "cert.c", "doctor.c", "bench.c",
        "judge.c", "record.c", "replay.c", "top.c", "table.h", "help", "man.c", "completion.c", "table.c"],
}
# The same for modules, all imports counted: also those in functions and for type checkers alone.
MODULES = {
    "client_py/contactd": [
        "errors", "_schema", "_wire", "_arrays", "_gltf", "_addresses", "_keys", "_native", "_greeting", "_want", "_contact_columns",
        "_scene_settings", "_settings", "_frames", "_reply", "_columns", "_surface", "_state", "_tables", "_silence", "_socket", "_successors", "_line",
        "_link_scenes", "_sender", "_session", "_answers", "_connection", "_link", "_servers", "_embedded", "body", "shapes", "result", "scene", "_many",
        "_link_many", "_scene_opener", "_interrupt", "_engine_memory", "_engine", "_engine_many", "client", "engine", "_own_engine", "_as_found", "_stiffness", "_judge", "_optional", "_volumes", "torch", "jax",
        "_mujoco_model", "_mujoco_parameters", "_mujoco_flex", "mujoco", "gym", "drake", "newton", "_pybullet_shapes", "pybullet", "__init__", "__main__"],
}
# A handle names its owner, and a method what it takes: public types of a later module, which type checkers alone import.
NAMES_OF = {("body", "scene"): {"Scene"}, ("result", "scene"): {"Scene"}, ("shapes", "client"): {"Mesh"},
            ("scene", "client"): {"Client", "Mesh"}}
# Methods know nothing of one another, but for these.
METHODS_USE = {("methods/ebpi", "methods/ldi"), ("methods/voxtree", "methods/exact")}


def folder_of(path, top):
    return os.path.relpath(os.path.dirname(path), top)


# A file of the tree is included by its path from the root, a generated one by its name, all else in angle brackets. So every
# include names the file that it reads.
INCLUDE = re.compile(r"^\s*#\s*include\s*(\S.*?)\s*(?:/[/*].*)?$", re.M)
WELL_WRITTEN = re.compile(rf'"(?:{"|".join(TOPS)}|tests)/(?!.*\.\./)[^"]+"|"\w+_(?:glsl|generated)\.h"|<(?!{"|".join(t + "/" for t in TOPS)}|\.)[^>]+>')


def floor_complaints(root):
    """Yields one line for each include of a higher floor, or that is not written so that this can be told."""
    for path in sorted(sources(root, (".inl",))):
        top = path.split("/")[0]
        with open(os.path.join(root, path), encoding="utf-8") as file:
            written = INCLUDE.findall(file.read())
        yield from (f"{path} includes {name}: write the path from the root of the tree, in quotes"
                    for name in written if not WELL_WRITTEN.fullmatch(name))
        floors = FLOORS.get(top)
        if floors is None:
            continue
        headers = [name[1:-1] for name in written if name.startswith(f'"{top}/') and WELL_WRITTEN.fullmatch(name)]
        here, *folders = (folder_of(file, top) for file in (path, *headers))
        unknown = {folder for folder in (here, *folders) if folder not in floors}
        yield from (f"{top}/{folder} is in no list of FLOORS" for folder in sorted(unknown))
        for header, there in zip(headers, [] if unknown else folders):
            is_sibling = here.startswith("methods/") and there.startswith("methods/") and here != there
            if floors.index(there) > floors.index(here) or is_sibling and (here, there) not in METHODS_USE:
                yield f"{path} includes {header}, which is above it"


FUNCTION = re.compile(r"^(?!static (?!inline)|typedef|[\s/#])[^;={}()]*?\b(\w+)\((?:[^;{}])*?\)\s*\{", re.M)


def code_of(path):
    """A C file without comments and texts."""
    with open(path, encoding="utf-8") as file:
        return re.sub(r'"(?:\\.|[^"\\])*"', '""', re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S))


def order_complaints(root):
    """Yields one line for each include or use of what is in a later file of the same folder."""
    for folder, names in FILES.items():
        if not os.path.isdir(os.path.join(root, folder)):
            continue
        files = sorted(n for n in os.listdir(os.path.join(root, folder)) if n.endswith((".c", ".h", ".inc")))
        floor = {file: names.index(name) for file in files for name in (file, file[:-2]) if name in names}
        for file in files:
            if file not in floor:
                raise SystemExit(f"check-layers: {folder}/{file} is in no list of FILES")
        code = {file: code_of(os.path.join(root, folder, file)) for file in files}
        home = {name: file for file in files for name in FUNCTION.findall(code[file])}
        for file in files:
            with open(os.path.join(root, folder, file), encoding="utf-8") as text:
                included = re.findall(rf'^\s*#\s*include "{folder}/([^"/]+)"', text.read(), re.M)
            for header in included:
                if floor[header] > floor[file]:
                    yield f"{folder}/{file} includes {header}, which is above it"
            for name in sorted(set(re.findall(r"\w+", code[file])) & home.keys() if file != names[0] else ()):
                if floor[home[name]] > floor[file]:
                    yield f"{folder}/{file} uses {name} of {home[name]}, which is above it"


def imports_of(tree):
    """Yields (module of the same package, names, whether type checkers alone import it)."""
    typing_only = {id(node) for branch in ast.walk(tree) if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.dump(branch.test)
                   for part in branch.body for node in ast.walk(part)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.level != 1:
            continue
        names = {name.name for name in node.names}
        for module in [node.module] if node.module else sorted(names):
            yield module, names, id(node) in typing_only


def full_names_of(tree):
    """What is imported by its full name, or by a call with a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__"):
                yield str(node.args[0].value)


def module_complaints(root):
    """Yields one line for each import of a later module of the same package, or that is not written so that this can be
    told."""
    for folder, order in MODULES.items():
        if not os.path.isdir(os.path.join(root, folder)):
            continue
        for file in sorted(n for n in os.listdir(os.path.join(root, folder)) if n.endswith(".py")):
            own = file[:-3]
            if own not in order:
                raise SystemExit(f"check-layers: {folder}/{file} is in no list of MODULES")
            with open(os.path.join(root, folder, file), encoding="utf-8") as text:
                tree = ast.parse(text.read())
            package = os.path.basename(folder)
            yield from (f"{folder}/{file} imports {name}: write from . import, or from .module import"
                        for name in full_names_of(tree) if name.split(".")[0] in (package, ""))
            for module, names, is_typing in imports_of(tree):
                is_named = is_typing and names <= NAMES_OF.get((own, module), set())
                if order.index(module) >= order.index(own) and not is_named:
                    yield f"{folder}/{file} imports {', '.join(sorted(names))} of {module}, which is above it"


def matches(path, pattern):
    parts = re.split(r"(\*\*|\*)", pattern)
    regex = "".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts)
    return re.fullmatch(regex, path) is not None


def sources(root, parts=()):
    """What can be compiled by itself; parts: suffixes of what is included in the middle of others, too."""
    for top in TOPS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith((".c", ".h", ".cpp", ".cu", ".cuh", *parts)):
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
    found += [*floor_complaints(options.root), *order_complaints(options.root), *module_complaints(options.root)]
    if found:
        print("\n".join(dict.fromkeys(found)), file=sys.stderr)
        raise SystemExit(1)
    print(f"layers: {len(paths)} files keep to theirs")


if __name__ == "__main__":
    main()
