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
    "gpu/raster/raster.h": '#include "gpu/mesh/mesh.h"\n',
    "gpu/contact.c": '#include "gpu/raster/raster.h"\n',
    "proto/codec.h": '#include "errors.h"\n',
    "proto/errors.h": "\n",
    "server/log.h": "\n",
    "server/registry/registry.h": '#include "gpu/include/contact.h"\n#include "server/log.h"\n',
    "server/stream/stream.c": '#include "server/registry/registry.h"\n#include "proto/codec.h"\n#include <zmq.h>\n',
    "server/http/http.h": "\n",
    "client_c/contactd.c": '#include "proto/codec.h"\n#include <zmq.h>\n',
    "lib/zmq.h": "\n",
    "lib/jansson.h": "\n",
    "gpu/backend/cuda/cuda.h": "\n",
    "gpu/backend/cuda/launch.cuh": "#ifndef CT_CUDA_SHIM\n#include <gone.h>\n#endif\n#include <cuda_runtime.h>\n",
    "gpu/backend/backends.c": '#include "gpu/backend/cuda/cuda.h"\n',
    "gpu/raster/raster_cuda.cu": '#include "gpu/raster/raster.h"\n#include "gpu/backend/cuda/launch.cuh"\n#include <new>\n',
    "gpu/backend/gl/gl.h": "#include <epoxy/gl.h>\n",
    "gpu/raster/raster_gl.c": '#include "gpu/backend/gl/gl.h"\n',
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
        ("gpu/mesh/mesh.c", '#include "gpu/raster/raster.h"\n', "gpu/raster/raster.h"),
        ("gpu/raster/raster.c", '#include "proto/errors.h"\n', "proto/errors.h"),
        ("gpu/view/view.c", '#include "gpu/raster/raster.h"\n', "gpu/raster/raster.h"),
        ("gpu/backend/cpu/cpu.c", '#include "server/log.h"\n', "server/log.h"),
        ("gpu/contact.c", "#include <zmq.h>\n", "lib/zmq.h"),
        ("server/registry/registry.c", '#include "gpu/mesh/mesh.h"\n', "gpu/mesh/mesh.h"),
        ("server/registry/registry.c", '#include "server/http/http.h"\n', "server/http/http.h"),
        ("server/stream/stream.c", '#include "server/http/http.h"\n', "server/http/http.h"),
        ("server/stream/stream.c", "#include <jansson.h>\n", "lib/jansson.h"),
        ("server/http/http.c", "#include <zmq.h>\n", "lib/zmq.h"),
        ("server/log.c", '#include "server/stream.h"\n#include "gpu/base/fail.h"\n', "gpu/base/fail.h"),
        ("gpu/raster/raster.c", "#include <cuda_runtime.h>\n", "lib/cuda_runtime.h"),
        ("gpu/raster/raster_cuda.cu", '#include "gpu/span/span.h"\n', "gpu/span/span.h"),
        ("gpu/raster/raster_cuda.cu", "#include <epoxy/gl.h>\n", "lib/epoxy/gl.h"),
        ("gpu/raster/raster.c", '#include "gpu/backend/gl/gl.h"\n', "lib/epoxy/gl.h"),
        ("gpu/mesh/mesh.c", "#include <png.h>\n", "lib/png.h"),
        ("client_c/contactd.c", '#include "gpu/include/contact.h"\n', "gpu/include/contact.h"),
        # through a header that is itself allowed
        ("server/log.h", "#include <jansson.h>\n", "server/registry/registry.h reaches lib/jansson.h"),
    ],
)
def test_a_violation_is_named(tmp_path, path, text, named):
    write(tmp_path, ALLOWED)
    write(tmp_path, {"server/stream.h": "\n", "gpu/span/span.h": "\n", path: text})
    done = check(tmp_path, "-I", "lib")
    assert done.returncode == 1
    assert named in done.stderr


def test_what_a_build_leaves_out_is_not_read(tmp_path):
    write(tmp_path, ALLOWED)
    write(tmp_path, {"gpu/raster/raster_gl.c": "#include <gone/gl.h>\n", "gpu/raster/wanted.c": "#ifndef NEEDED\n#error\n#endif\n"})
    assert check(tmp_path, "-I", "lib", "-D", "NEEDED", "--skip", "**_gl.c").returncode == 0
    assert check(tmp_path, "-I", "lib", "-D", "NEEDED").returncode != 0
    assert check(tmp_path, "-I", "lib", "--skip", "**_gl.c").returncode != 0


def test_a_source_that_cannot_be_read_is_an_error(tmp_path):
    write(tmp_path, {"gpu/base/fail.c": '#include "gone.h"\n'})
    assert check(tmp_path).returncode != 0


def test_an_empty_tree_is_an_error(tmp_path):
    assert check(tmp_path).returncode != 0
