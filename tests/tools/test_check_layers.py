"""The layer check passes on this tree and catches violations, direct and indirect."""
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def check(root, *more):
    command = [sys.executable, os.path.join(HERE, "check_layers.py"), "--root", str(root), "-I", ".", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def write(root, files):
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


ALLOWED = {
    "gpu/include/contact.h": "int ct;\n",
    "gpu/base/fail.h": '#include "gpu/include/contact.h"\n',
    "gpu/mesh/mesh.h": '#include "gpu/base/fail.h"\n',
    "gpu/methods/ldi/raster.h": '#include "gpu/mesh/mesh.h"\n',
    "gpu/run/engine.c": '#include "gpu/methods/ldi/raster.h"\n',
    "proto/codec.h": '#include "proto/errors.h"\n',
    "proto/errors.h": "\n",
    "server/base/log.h": "\n",
    "server/registry/registry.h": '#include "gpu/include/contact.h"\n#include "server/base/log.h"\n',
    "server/stream/stream.c": '#include "server/registry/registry.h"\n#include "proto/codec.h"\n#include <zmq.h>\n',
    "server/http/http.h": "\n",
    "client_c/contactd.c": '#include "proto/codec.h"\n#include <zmq.h>\n',
    "lib/zmq.h": "\n",
    "lib/jansson.h": "\n",
    "gpu/device/cuda/cuda.h": "\n",
    "gpu/device/cuda/launch.cuh": "#ifndef CT_CUDA_SHIM\n#include <gone.h>\n#endif\n#include <cuda_runtime.h>\n",
    "gpu/run/backends.c": '#include "gpu/device/cuda/cuda.h"\n',
    "gpu/methods/ldi/raster_cuda.cu": '#include "gpu/methods/ldi/raster.h"\n#include "gpu/device/cuda/launch.cuh"\n#include <new>\n',
    "gpu/device/gl/gl.h": "#include <epoxy/gl.h>\n",
    "gpu/methods/ldi/raster_gl.c": '#include "gpu/device/gl/gl.h"\n',
    "gpu/picture/picture_png.c": "#include <png.h>\n",
    "lib/cuda_runtime.h": "\n",
    "lib/epoxy/gl.h": "\n",
    "lib/png.h": "\n",
}


def test_a_tree_that_keeps_to_its_layers_passes(tmp_path):
    write(tmp_path, ALLOWED)
    done = check(tmp_path, "-I", "lib")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "path, text, named",
    [
        ("gpu/base/fail.c", '#include "gpu/mesh/mesh.h"\n', "gpu/mesh/mesh.h"),
        ("gpu/mesh/mesh.c", '#include "gpu/methods/ldi/raster.h"\n', "gpu/methods/ldi/raster.h"),
        ("gpu/methods/ldi/raster.c", '#include "proto/codec.h"\n', "proto/codec.h"),
        ("gpu/run/cpu/cpu.c", '#include "server/base/log.h"\n', "server/base/log.h"),
        ("gpu/run/engine.c", "#include <zmq.h>\n", "lib/zmq.h"),
        ("gpu/odd/alone.c", "#include <stdio.h>\n", "gpu/odd is in no list of FLOORS"),
        ("server/registry/registry.c", '#include "gpu/mesh/mesh.h"\n', "gpu/mesh/mesh.h"),
        ("server/registry/registry.c", '#include "server/http/http.h"\n', "server/http/http.h"),
        ("server/stream/stream.c", '#include "server/http/http.h"\n', "server/http/http.h"),
        ("server/stream/stream.c", "#include <jansson.h>\n", "lib/jansson.h"),
        ("server/http/http.c", "#include <zmq.h>\n", "lib/zmq.h"),
        ("server/base/log.c", '#include "server/stream/door.h"\n#include "gpu/base/fail.h"\n', "gpu/base/fail.h"),
        ("gpu/methods/ldi/raster.c", "#include <cuda_runtime.h>\n", "lib/cuda_runtime.h"),
        ("gpu/methods/ldi/raster_cuda.cu", "#include <epoxy/gl.h>\n", "lib/epoxy/gl.h"),
        ("gpu/methods/ldi/raster.c", '#include "gpu/device/gl/gl.h"\n', "lib/epoxy/gl.h"),
        ("gpu/mesh/mesh.c", "#include <png.h>\n", "lib/png.h"),
        ("client_c/contactd.c", '#include "gpu/include/contact.h"\n', "gpu/include/contact.h"),
        # through a header that is itself allowed
        ("server/base/log.h", "#include <jansson.h>\n", "server/registry/registry.h reaches lib/jansson.h"),
    ],
)
def test_a_violation_is_named(tmp_path, path, text, named):
    write(tmp_path, ALLOWED)
    write(tmp_path, {"server/stream/door.h": "\n", "gpu/after/span.h": "\n", path: text})
    done = check(tmp_path, "-I", "lib")
    assert done.returncode == 1
    assert named in done.stderr


def test_what_a_build_leaves_out_is_not_read(tmp_path):
    write(tmp_path, ALLOWED)
    write(tmp_path, {"gpu/methods/ldi/raster_gl.c": "#include <gone/gl.h>\n", "gpu/methods/ldi/wanted.c": "#ifndef NEEDED\n#error\n#endif\n"})
    assert check(tmp_path, "-I", "lib", "-D", "NEEDED", "--skip", "**_gl.c").returncode == 0
    assert check(tmp_path, "-I", "lib", "-D", "NEEDED").returncode != 0
    assert check(tmp_path, "-I", "lib", "--skip", "**_gl.c").returncode != 0


def test_a_source_that_cannot_be_read_is_an_error(tmp_path):
    write(tmp_path, {"gpu/base/fail.c": '#include "gone.h"\n'})
    assert check(tmp_path).returncode != 0


def test_an_empty_tree_is_an_error(tmp_path):
    assert check(tmp_path).returncode != 0


def test_an_upward_include_is_named(tmp_path, monkeypatch):
    import check_layers
    monkeypatch.setattr(check_layers, "FLOORS", {"gpu": ["base", "mesh", "methods/ldi", "methods/ebpi", "methods/exact"]})
    write(tmp_path, {"gpu/base/low.h": '#include "gpu/mesh/mesh.h"\n', "gpu/mesh/mesh.h": '#include "gpu/base/low.h"\n',
                     "gpu/methods/ebpi/a.c": '#include "gpu/methods/ldi/x.h"\n#include "gpu/mesh/mesh.h"\n',
                     "gpu/methods/ldi/x.h": "\n", "gpu/methods/exact/b.c": '#include "gpu/methods/ldi/x.h"\n',
                     "gpu/base/part.inl": '#include "gpu/mesh/mesh.h"\n'})
    said = list(check_layers.floor_complaints(tmp_path))
    assert said == ["gpu/base/low.h includes gpu/mesh/mesh.h, which is above it",
                    "gpu/base/part.inl includes gpu/mesh/mesh.h, which is above it",
                    "gpu/methods/exact/b.c includes gpu/methods/ldi/x.h, which is above it"]
    write(tmp_path, {"gpu/base/low.h": "\n", "gpu/base/part.inl": "\n", "gpu/methods/exact/b.c": "\n"})
    assert not list(check_layers.floor_complaints(tmp_path))
    for name in ('"../mesh/mesh.h"', '"low.h"', '"gpu/base/../mesh/mesh.h"', "<gpu/mesh/mesh.h>", "MESH"):
        write(tmp_path, {"gpu/base/low.h": f"#define MESH \"gpu/mesh/mesh.h\"\n#include {name} // comment\n"})
        assert list(check_layers.floor_complaints(tmp_path)) == [
            f"gpu/base/low.h includes {name}: write the path from the root of the tree, in quotes"]
    write(tmp_path, {"gpu/base/low.h": '#include "quad_glsl.h"\n#include <sys/mman.h>\n'})
    assert not list(check_layers.floor_complaints(tmp_path))
    write(tmp_path, {"gpu/odd/c.c": '#include "gpu/base/low.h"\n'})
    assert list(check_layers.floor_complaints(tmp_path)) == ["gpu/odd is in no list of FLOORS"]


def test_an_upward_call_is_named(tmp_path, monkeypatch):
    import check_layers
    monkeypatch.setattr(check_layers, "FILES", {"client_c": ["public.h", "low", "high"]})
    files = {"client_c/public.h": "int low(void);\nint high(void);\n",
             "client_c/low.h": "int low(void);\n", "client_c/low.c": '#include "client_c/low.h"\nint low(void) {\n    return 1;\n}\n',
             "client_c/high.c": '#include "client_c/low.h"\nstatic int own(void) {\n    return low();\n}\nint high(void) {\n    return own();\n}\n'}
    write(tmp_path, files)
    assert not list(check_layers.order_complaints(tmp_path))
    write(tmp_path, {"client_c/low.c": '/* high() */\nint low(void) {\n    return high() + own;\n}\n'})
    assert list(check_layers.order_complaints(tmp_path)) == ["client_c/low.c uses high of high.c, which is above it"]
    write(tmp_path, {**files, "client_c/high.h": "\n", "client_c/low.h": '#include "client_c/high.h"\nint high(void);\n'})
    assert list(check_layers.order_complaints(tmp_path)) == ["client_c/low.h includes high.h, which is above it",
                                                             "client_c/low.h uses high of high.c, which is above it"]
    write(tmp_path, {"client_c/odd.c": "\n"})
    with pytest.raises(SystemExit, match="client_c/odd.c is in no list"):
        list(check_layers.order_complaints(tmp_path))


def test_an_upward_import_is_named(tmp_path, monkeypatch):
    import check_layers
    monkeypatch.setattr(check_layers, "MODULES", {"client_py/contactd": ["low", "middle", "high"]})
    monkeypatch.setattr(check_layers, "NAMES_OF", {("low", "high"): {"High"}})
    files = {"client_py/contactd/low.py": "import typing\nif typing.TYPE_CHECKING:\n    from .high import High\n",
             "client_py/contactd/middle.py": "from . import low\n", "client_py/contactd/high.py": "from .middle import low\n"}
    write(tmp_path, files)
    assert not list(check_layers.module_complaints(tmp_path))
    wrong = {"from .high import High\n": "High", "def f():\n    from .middle import m\n": "m",
             "if typing.TYPE_CHECKING:\n    from .high import High, Other\n": "High, Other",
             "if typing.TYPE_CHECKING:\n    from .middle import m\n": "m", "from . import high\n": "high"}
    for text, names in wrong.items():
        write(tmp_path, {"client_py/contactd/low.py": text})
        module = "middle" if names == "m" else "high"
        said = f"client_py/contactd/low.py imports {names} of {module}, which is above it"
        assert list(check_layers.module_complaints(tmp_path)) == [said]
    for text, name in {"import contactd.high\n": "contactd.high", "def f():\n    from contactd import High\n": "contactd",
                       "from contactd.high import High\n": "contactd.high", "import importlib as i\ni.import_module('.high', 'contactd')\n": ".high",
                       "__import__('contactd.high')\n": "contactd.high"}.items():
        write(tmp_path, {"client_py/contactd/low.py": text})
        said = f"client_py/contactd/low.py imports {name}: write from . import, or from .module import"
        assert list(check_layers.module_complaints(tmp_path)) == [said]
    write(tmp_path, {**files, "client_py/contactd/odd.py": "\n"})
    with pytest.raises(SystemExit, match="odd.py is in no list"):
        list(check_layers.module_complaints(tmp_path))
