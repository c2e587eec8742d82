"""Several devices, and what can go wrong with them: placing, memory, what is refused at the start, a device that fails.
The devices are the CUDA shim's, which the environment arranges; other builds have no such devices and skip this."""

from __future__ import annotations

import concurrent.futures
import subprocess

import contactd
import numpy as np
import pytest
from conftest import BUILD, CONTACTCTL, ROOT, SLOW, Server, free_port
from contactd import errors
from geometry import UNIT_BOX, blob, icosphere, moved
from http_api import Api

EXIT_ENGINE, EXIT_DEVICE = 4, 6
ON_CUDA = ("--backend", "cuda")

pytestmark = pytest.mark.skipif("-DCT_CUDA_SHIM" not in (BUILD / "flags").read_text(), reason="not a CUDA=shim build")


@pytest.fixture
def cuda(make_server):
    def make(*flags, devices=1, start=True, **env) -> Server:
        return make_server(*ON_CUDA, *flags, env={"CT_SHIM_DEVICES": str(devices)} | env, start=start)

    return make


def devices_of(server) -> list[dict]:
    return Api(server.http).get("/v1/devices")["devices"]


def two_bodies(client, mesh, shift=0.8, resolution=24):
    scene = client.open_scene(resolution=resolution)
    return scene, scene.add_body(mesh), scene.add_body(mesh, pose=moved(shift))


def refused(*flags, **env) -> str:
    """What a server says that does not start because the engine cannot run as asked."""
    command = [str(BUILD / "contactd"), "--http", "off", "--stream", f"tcp://127.0.0.1:{free_port()}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 * SLOW, cwd=ROOT, env={"PATH": "/bin"} | env)
    assert done.returncode == EXIT_ENGINE, f"{done.returncode}: {done.stderr}"
    return done.stderr


def test_scenes_go_to_the_least_loaded(cuda):
    server = cuda(devices=2)
    with contactd.connect(server.stream) as client:
        large, small = client.register_mesh(*icosphere(1.0, 3)), client.register_mesh(*UNIT_BOX)
        scenes = [two_bodies(client, large), two_bodies(client, small), two_bodies(client, small)]
        for scene, *_ in scenes:
            assert scene.step().contacts
        seen = devices_of(server)
        assert [d["scenes"] for d in seen] == [1, 2]
        assert [d["triangles"] for d in seen] == [2 * 1280, 4 * 12]
        assert all(d["backend"] == "cuda" and not d["lost"] and d["launches"] > 0 for d in seen)
        assert all(0 < d["memory_mesh_bytes"] + d["memory_body_bytes"] <= d["memory_used_bytes"] for d in seen)
        assert [d["scenes"] for d in client.status()["devices"]] == [1, 2]
        done = subprocess.run([*CONTACTCTL, "--server", server.stream, "status"], capture_output=True, text=True,
                              timeout=60 * SLOW, check=True)
        assert "device 0 " in done.stdout and "device 1 " in done.stdout and "2 scenes of 48 triangles" in done.stdout
        for scene, *_ in scenes:
            scene.close()
    assert [(d["scenes"], d["triangles"]) for d in devices_of(server)] == [(0, 0), (0, 0)]
    assert "computes on cuda (asked for)" in server.logs()


def test_the_same_bits_as_the_cpu(cuda, make_server):
    answers = []
    for server in (cuda(devices=2), make_server("--backend", "cpu")):
        with contactd.connect(server.stream) as client:
            vertices, triangles = blob(1.0, 3)
            mesh = client.register_mesh(vertices.astype(np.float32), triangles)  # what both backends hold
            for shift in (0.5, 0.9):
                scene, a, b = two_bodies(client, mesh, shift)
                (contact,) = scene.step(poses={b: moved(shift, 0.1)}).contacts
                vertices, gradient = contact.gradient(a)
                answers.append((contact.volume, vertices.tobytes(), gradient.tobytes()))
    assert answers[:2] == answers[2:]


def test_two_devices_work_at_the_same_time(cuda):
    server = cuda(devices=2)
    with contactd.connect(server.stream) as client:
        mesh = client.register_mesh(*icosphere(1.0, 3))
        scenes = [two_bodies(client, mesh) for _ in range(4)]
        futures = [scene.submit(poses={b: moved(0.7 + 0.01 * i)}) for i in range(8) for scene, _, b in scenes]
        volumes = np.array([f.result(60 * SLOW).contacts[0].volume for f in futures]).reshape(8, 4)
    assert (volumes == volumes[:, :1]).all() and (np.diff(volumes[:, 0]) < 0).all()
    assert [d["scenes"] for d in devices_of(server)] in ([2, 2], [0, 0])


def test_a_budget_is_an_error_that_names_it(cuda):
    server = cuda("--gpu-memory", "1M")
    assert devices_of(server)[0]["memory_budget_bytes"] == 1 << 20
    with contactd.connect(server.stream) as client:
        large, small = client.register_mesh(*icosphere(1.0, 6)), client.register_mesh(*UNIT_BOX)
        scene, *_ = two_bodies(client, small, 0.5)
        with pytest.raises(errors.OutOfMemoryError) as refusal:
            scene.add_body(large)
        assert str(1 << 20) in str(refusal.value)
        assert scene.step().contacts[0].volume == pytest.approx(0.5, rel=0.05)


def test_a_deleted_mesh_leaves_the_device(cuda):
    server = cuda()
    api = Api(server.http)
    at_first = devices_of(server)[0]["memory_mesh_bytes"]  # of what the server tried the engine with
    with contactd.connect(server.stream) as client:
        keep = client.register_mesh(*UNIT_BOX)
        scene, *_ = two_bodies(client, keep, 0.5)
        scene.step()
        before = devices_of(server)[0]
        gone = client.register_mesh(*icosphere(1.0, 5))
        body = scene.add_body(gone)
        held = devices_of(server)[0]
        assert held["memory_mesh_bytes"] - before["memory_mesh_bytes"] > 12 * 20480
        meshes, scenes = api.get("/v1/meshes")["meshes"], api.get("/v1/scenes")["scenes"]
        assert sum(m["device_bytes"] for m in meshes) == held["memory_mesh_bytes"] - at_first
        assert sum(s["device_bytes"] for s in scenes) == held["memory_body_bytes"] > 12 * 10242
        assert all(s["device_bytes"] < s["bytes"] for s in scenes)
        scene.remove_body(body)
        without = devices_of(server)[0]
        assert without["memory_body_bytes"] == before["memory_body_bytes"]
        mesh = next(m for m in meshes if m["triangles"] == 20480)
        assert mesh["device_bytes"] > 12 * 20480
        assert api("DELETE", f"/v1/meshes/{mesh['id']}").status == 204
        after = devices_of(server)[0]
        assert after["memory_mesh_bytes"] == before["memory_mesh_bytes"]
        assert after["memory_used_bytes"] < held["memory_used_bytes"]
        assert scene.step().contacts


def test_a_deleted_scene_gives_its_memory_back(cuda):
    server = cuda()
    api = Api(server.http)
    with contactd.connect(server.stream) as client:
        keep, gone = (two_bodies(client, client.register_mesh(*icosphere(1.0, 3)), 0.5)[0] for _ in range(2))
        assert keep.step().contacts and gone.step().contacts
        scenes = {s["id"]: s for s in api.get("/v1/scenes")["scenes"]}
        held = [scenes[s.id]["device_bytes"] for s in (keep, gone)]
        assert held[0] == held[1] > 12 * 642 and sum(held) == devices_of(server)[0]["memory_body_bytes"]
        assert api.get(f"/v1/scenes/{gone.id}/stats")["device_bytes"] == held[1]
        assert api("DELETE", f"/v1/scenes/{gone.id}").status == 204
        assert devices_of(server)[0]["memory_body_bytes"] == held[0]
        assert keep.step().contacts


@pytest.mark.parametrize("env, says", [({"CT_SHIM_DRIVER": "0"}, "no NVIDIA driver"), ({"CT_SHIM_DRIVER": "11000"}, "older than"),
                                       ({"CT_SHIM_DEVICES": "0"}, "no GPU"), ({"CT_SHIM_CAPABILITY": "61"}, "compute capability 6.1"),
                                       ({"CT_SHIM_USED": str((4 << 30) - 4096)}, "0 MiB free of 4096")])
def test_what_is_not_there_is_refused(env, says):
    assert says in refused(*ON_CUDA, **env)


def test_refusals_name_the_flag():
    assert "there is no device 3" in refused(*ON_CUDA, "--devices", "3")
    assert "expected \"all\"" in refused(*ON_CUDA, "--devices", "first")
    no_egl = "EGL has no device to draw on" if "-DCT_HAVE_EGL" in (BUILD / "flags").read_text() else "is not in this build"
    assert no_egl in refused(*ON_CUDA, "--raster", "egl", __EGL_VENDOR_LIBRARY_FILENAMES="/nonexistent.json")


def test_auto_says_why_not_cuda(make_server):
    server = make_server("--backend", "auto")
    assert devices_of(server)[0]["backend"] == "cpu"
    assert "computes on cpu (the best that works; not cuda: " in server.logs()


def test_chosen_devices_alone(cuda):
    server = cuda("--devices", "1,3", devices=4)
    assert len(devices_of(server)) == 2


def test_pictures(cuda, make_server):
    """Of bodies whose positions lie on the device, before and after a step: what a server on the CPU draws, byte for byte."""
    if "-DCT_HAVE_EGL" not in (BUILD / "flags").read_text():
        pytest.skip("this build has no EGL")
    pictures = []
    for server in cuda(), make_server("--backend", "cpu"):
        with contactd.connect(server.stream, timeout=30 * SLOW) as client:
            vertices, triangles = blob(1.0, 3)
            scene, a, b = two_bodies(client, client.register_mesh(vertices, triangles))
            view = f"/v1/scenes/{scene.id}/snapshot.png?width=160&height=120"
            queries = view, f"{view}&contact={a.id},{b.id}"
            before = [Api(server.http)("GET", query) for query in queries]
            scene.step(positions={a: 0.9 * vertices})
            after = [Api(server.http)("GET", query) for query in queries]
            assert [answer.status for answer in before + after] == 4 * [200]
            pictures.append([answer.body for answer in before + after])
    assert pictures[0] == pictures[1] and len(set(pictures[0])) == 4


def test_a_lost_device_ends_the_process(cuda):
    """The steps in flight are told, the process ends with its own code, and the client goes on with the next one."""
    server = cuda(devices=2, CT_SHIM_FAIL="launch:250:719")
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene, _, b = two_bodies(client, mesh, 0.5)
        volume = scene.step().contacts[0].volume
        with pytest.raises(errors.DeviceError) as failure:
            for _ in range(400):
                assert scene.step(poses={b: moved(0.5)}).contacts[0].volume == volume
        assert "719" in str(failure.value) or "cudaErrorLaunchFailure" in str(failure.value)
        assert server.wait() == EXIT_DEVICE
        logs = server.logs()
        assert "is lost: " in logs and f"exit code {EXIT_DEVICE}" in logs
        server.env.pop("CT_SHIM_FAIL")
        server.start()
        assert scene.step(poses={b: moved(0.5)}).contacts[0].volume == volume
        assert client.reconnects == 1


def all_hear_of_the_loss(server) -> bool:
    """Loses the device while sixteen steps are pipelined. Those that the server had are told; what came too late waits for
    the next server, which does it. True: none did."""
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scenes = [two_bodies(client, mesh, 0.5)[0] for _ in range(4)]
        volume = scenes[0].step().contacts[0].volume
        futures = []
        while not any(f.exception() for f in futures if f.done()) and server.alive():
            if all(f.done() for f in futures):
                futures = [scene.submit() for scene in scenes for _ in range(4)]
            concurrent.futures.wait(futures, timeout=0.2)
        assert server.wait() == EXIT_DEVICE
        assert "was refused" not in server.logs()  # of what it had queued
        waiting = concurrent.futures.wait(futures, timeout=1).not_done
        server.env.pop("CT_SHIM_FAIL")
        server.start()
        failures = [f.exception(60 * SLOW) for f in futures]
        assert {type(e) for e in failures} <= {type(None), errors.DeviceError}
        assert {f.result().contacts[0].volume for f, e in zip(futures, failures) if not e} <= {volume}
        return any(failures) and not waiting


def test_pipelined_steps_all_hear_of_the_loss(cuda):
    """(Where others have the cores just then, some come too late, so there is more than one try.)"""
    assert any(all_hear_of_the_loss(cuda(CT_SHIM_FAIL="launch:250:719")) for _ in range(6))


def test_help_tells_the_exit_codes():
    done = subprocess.run([str(BUILD / "contactd"), "--help"], capture_output=True, text=True, timeout=30 * SLOW, check=True)
    assert "6 a device failed" in done.stdout
    printed = subprocess.run([str(BUILD / "contactd"), "--print-config", "--devices", "0,2", "--gpu-memory", "12G"],
                             capture_output=True, text=True, timeout=30 * SLOW, check=True)
    assert "devices = 0,2\ngpu-memory = 12884901888\n" in printed.stdout


def test_a_backend_without_exact(cuda):
    """Auto runs ldi there, at a resolution of 64, and who names exact is told what there is."""
    server = cuda()
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        if "exact" in client.server["methods"]:
            pytest.skip("this backend has exact")
        assert client.status()["auto_method"] == "ldi"
        scene = client.open_scene()
        assert (scene.method, scene.running_method, scene.resolution) == ("auto", "ldi", None)
        mesh = client.register_mesh(*UNIT_BOX)
        scene.add_body(mesh), scene.add_body(mesh, pose=moved(0.5))
        result = scene.step()
        assert result.method == "ldi" and result.rays == 3 * 64**2 and result.contacts[0].error_bound is None
        for ask in (lambda: client.open_scene(method="exact"), lambda: scene.configure(method="exact")):
            with pytest.raises(errors.UnsupportedError, match='"exact" is not available on backend "cuda", which has: ldi'):
                ask()
        assert scene.step().method == "ldi"
