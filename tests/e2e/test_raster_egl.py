"""A server whose rasteriser is OpenGL's: the same answers as natively, told of in its status; and where EGL or OpenGL 4.5 is
missing it does not start, and says what was found and what to install. Builds without EGL skip this."""

from __future__ import annotations

import subprocess

import contactd
import numpy as np
import pytest
from conftest import BUILD, ROOT, SLOW, free_port
from geometry import UNIT_BOX, blob, icosphere, moved
from http_api import Api

EXIT_ENGINE = 4

FLAGS = (BUILD / "flags").read_text()
# The shim's kernels take what OpenGL drew out of its own buffers.
BACKENDS = ["cpu", "cuda"] if "-DCT_CUDA_SHIM" in FLAGS else ["cpu"]

pytestmark = pytest.mark.skipif("-DCT_HAVE_EGL" not in FLAGS, reason="a build without EGL")


def step(server):
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        scene = client.open_scene(resolution=48)
        bodies = [(vertices.astype(np.float32), triangles) for vertices, triangles in (blob(1.0, 3), icosphere(1.0, 3))]
        scene.add_body(client.register_mesh(*bodies[0]))
        scene.add_body(client.register_mesh(*bodies[1]), pose=moved(0.7))
        scene.add_body(client.register_mesh(*UNIT_BOX), pose=moved(-0.6))
        contacts = scene.step(want=("gradient", "frame")).contacts
        return [(c.volume, c.normal, [part for body in c.bodies for part in c.gradient(body)]) for c in contacts]


@pytest.mark.parametrize("backend", BACKENDS)
def test_same_answers(make_server, backend):
    egl, native = make_server("--backend", backend, "--raster", "egl"), make_server("--backend", "cpu", "--raster", "native")
    assert [(d["backend"], d["rasterizer"]) for d in Api(egl.http).get("/v1/devices")["devices"]] == [(backend, "egl")]
    ours, theirs = step(egl), step(native)
    assert len(ours) == len(theirs) >= 2
    for (volume, normal, gradient), (same_volume, same_normal, same_gradient) in zip(ours, theirs):
        assert volume == same_volume > 0 and np.array_equal(normal, same_normal)
        assert all(np.array_equal(a, b) for a, b in zip(gradient, same_gradient))


@pytest.mark.parametrize("variable, value, says", [
    ("__EGL_VENDOR_LIBRARY_FILENAMES", "/nonexistent.json", "EGL has no device to draw on (no driver for it): install libegl1"),
    ("MESA_GL_VERSION_OVERRIDE", "3.3", "no EGL device with OpenGL 4.5 (found device 0: its OpenGL is 3.3"),
])
def test_refused(variable, value, says):
    command = [str(BUILD / "contactd"), "--http", "off", "--stream", f"tcp://127.0.0.1:{free_port()}", "--raster", "egl",
               "--backend", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 * SLOW, cwd=ROOT,
                          env={"PATH": "/bin", variable: value})
    assert done.returncode == EXIT_ENGINE, f"{done.returncode}: {done.stderr}"
    assert says in done.stderr
