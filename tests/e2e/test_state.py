"""The state folder: meshes and what operators configured outlive the server, and nothing that is wrong with it is silent."""

from __future__ import annotations

import os
import pathlib
import re
import resource
import signal
import subprocess
import threading
import time

import contactd
import numpy as np
import pytest
from conftest import BUILD, CONTACTCTL, ROOT, SLOW, free_port, wait_until
from geometry import UNIT_BOX, icosphere, moved
from http_api import Api
from raw import Raw

HASH = re.compile(r"[0-9a-f]{32}")
BALL = icosphere(1.0, 4)[0].astype(np.float32), icosphere(1.0, 4)[1]  # 60 KB
BALL_BYTES = BALL[0].size * 4 + BALL[1].size * 4


def received(api: Api) -> float:
    return api.gauge('contactd_received_bytes_total{protocol="stream"}')


def stored(folder: pathlib.Path) -> list[str]:
    return sorted(p.name for p in (folder / "meshes").iterdir() if HASH.fullmatch(p.name))


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
    return tmp_path / "state"


def start_fails(folder, *flags: str) -> str:
    """The one line of a server that cannot use its state folder."""
    done = subprocess.run([str(BUILD / "contactd"), "--http", "off", "--stream", f"tcp://127.0.0.1:{free_port()}", "--state-dir",
                           str(folder), *flags], capture_output=True, text=True, timeout=30 * SLOW, cwd=ROOT,
                          env={k: v for k, v in os.environ.items() if not k.startswith("CONTACTD_")})
    assert done.returncode == 8, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "--state-dir" in line]
    return line


# ---- meshes ----


@pytest.mark.parametrize("hard", [True, False])
def test_meshes_are_not_uploaded_again(make_server, folder, hard):
    server = make_server("--state-dir", str(folder))
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        ball = client.register_mesh(*BALL, name="ball")
        obj = "".join(f"v {x} {y} {z}\n" for x, y, z in UNIT_BOX[0]) + "".join(
            f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in UNIT_BOX[1])
        (folder.parent / "box.obj").write_text(obj)
        box = client.register_mesh_file(folder.parent / "box.obj")
        assert stored(folder) == sorted([ball.hash, box.hash])
        scene = client.open_scene()
        scene.add_body(ball)
        b = scene.add_body(box, pose=moved(0.5))
        before = scene.step(poses={b: moved(0.25, 0.5)})
        for _ in range(2):
            server.restart(hard=hard)
            after = scene.step()
            assert [c.volume for c in after.contacts] == [c.volume for c in before.contacts]
            assert received(Api(server.http)) < BALL_BYTES / 4
        assert client.reconnects >= 2  # more, where the connection was lost while a session was set up
        assert {m["name"] for m in client.meshes()} == {"ball", "box.obj"}
    # No client knows the meshes now, but they are there for whoever names them.
    server.restart(hard=hard)
    api = Api(server.http)
    assert api.get("/v1/meshes")["meshes"] == []
    shown = api.get(f"/v1/meshes/{ball.hash}")
    assert (shown["name"], shown["triangles"]) == ("ball", len(BALL[1]))
    assert len(api.get("/v1/meshes")["meshes"]) == 1


def test_the_c_client_does_not_upload_again_either(make_server, folder, tmp_path):
    server = make_server("--state-dir", str(folder))
    steps = 100
    process = subprocess.Popen([str(BUILD / "examples" / "settle"), "--server", server.stream, "--steps", str(steps), "--csv",
                                str(tmp_path / "settle.csv"), "--progress"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    for line in process.stdout:
        if line.split()[2] == f"50/{steps},":
            assert len(stored(folder)) > 0
            server.restart(hard=True)
    assert process.wait(120 * SLOW) == 0
    metrics = Api(server.http)
    assert metrics.gauge("contactd_state_restored_total") == len(stored(folder))


def test_a_removed_mesh_is_removed_from_the_folder(make_server, folder):
    server = make_server("--state-dir", str(folder))
    api = Api(server.http)
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        box, ball = client.register_mesh(*UNIT_BOX), client.register_mesh(*BALL)
        client.register_mesh(BALL[0] * 2, BALL[1])
        box.remove()
        assert box.hash not in stored(folder) and len(stored(folder)) == 2
        assert api("DELETE", f"/v1/meshes/{ball.hash}").status == 204
        (left,) = stored(folder)
    server.restart(hard=True)
    done = subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "rm", left], capture_output=True,
                          text=True, timeout=30 * SLOW)
    assert done.returncode == 0, done.stderr
    assert stored(folder) == []
    Api(server.http).refused("GET", f"/v1/meshes/{left}", 404, "NOT_FOUND")


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "longer", "other"])
def test_a_damaged_mesh_is_set_aside_and_named(make_server, folder, damage):
    server = make_server("--state-dir", str(folder))
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        ball, box = client.register_mesh(*BALL), client.register_mesh(*UNIT_BOX)
        scene = client.open_scene()
        scene.add_body(ball)
        scene.add_body(box, pose=moved(0.5))
        before = scene.step().contacts[0].volume
        server.kill()
        path = folder / "meshes" / ball.hash
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[len(content) // 2] ^= 1
        path.write_bytes({"flip": content, "cut": content[:-1], "empty": b"", "longer": content + b"x",
                          "other": (folder / "meshes" / box.hash).read_bytes()}[damage])
        server.start()
        assert scene.step().contacts[0].volume == before  # the client had it
        assert received(Api(server.http)) > BALL_BYTES
        (line,) = [line for line in server.logs().splitlines() if "is damaged" in line]
        assert ball.hash in line and f"{ball.hash}.damaged" in line and str(folder) in line
        assert (folder / "meshes" / f"{ball.hash}.damaged").exists()
        assert path.read_bytes() != content if damage == "flip" else path.exists()  # stored again, and sound
        assert Api(server.http).gauge("contactd_state_damaged_total") == 1
        server.restart(hard=True)
        assert scene.step().contacts[0].volume == before
        assert received(Api(server.http)) < BALL_BYTES / 4


def test_the_oldest_unused_meshes_make_room(make_server, folder):
    room = 4 * (BALL_BYTES + 200)
    server = make_server("--state-dir", str(folder), "--state-size", str(room))
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        used = client.register_mesh(*BALL)
        scene = client.open_scene()
        scene.add_body(used)
        others = [client.register_mesh(BALL[0] * (2 + i), BALL[1]) for i in range(3)]
        assert stored(folder) == sorted(m.hash for m in [used, *others])
        client.register_mesh(BALL[0] * 2, BALL[1])  # the first of them again: now the second is the oldest
        last = client.register_mesh(BALL[0] * 9, BALL[1])
        assert stored(folder) == sorted(m.hash for m in [used, others[0], others[2], last])
        api = Api(server.http)
        assert api.gauge("contactd_state_evicted_total") == 1
        assert api.gauge("contactd_state_bytes") <= room == api.gauge("contactd_state_bytes_limit")
        big = client.register_mesh(*icosphere(1.0, 6))  # works, but is not kept
        assert big.hash not in stored(folder) and "--state-size" in server.logs() and big.hash in server.logs()
        assert api.gauge("contactd_state_failures_total") == 1
        newest = others[2].hash
        server.stop()
    server.flags = ("--state-dir", str(folder), "--state-size", str(BALL_BYTES + 1000))
    server.start()  # with less: the oldest go at the start
    assert stored(folder) == [last.hash] and newest != last.hash


def test_killed_while_it_writes(make_server, folder):
    """SIGKILL at no particular moment: each file is whole, and what a client was told is stored is there."""
    server = make_server("--state-dir", str(folder))
    stop, told = threading.Event(), []

    def work():
        with contactd.connect(server.stream, timeout=60 * SLOW) as client:
            while not stop.is_set():
                told.append(client.register_mesh(BALL[0] * (1 + len(told) / 64), BALL[1]).hash)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for n in (5, 15, 30):
            wait_until(lambda: len(told) >= n, f"{n} meshes registered")
            server.kill()
            sure = list(told)
            assert set(sure[:n]) <= set(stored(folder))
            (folder / "meshes" / ("0" * 32 + ".1.tmp")).write_bytes(b"half of a mesh")
            server.start()
            assert not list((folder / "meshes").glob("0*.tmp"))
    finally:
        stop.set()
        thread.join()
    api = Api(server.http)
    for name in stored(folder):
        assert api.get(f"/v1/meshes/{name}")["triangles"] == len(BALL[1])
    assert "is damaged" not in server.logs()


def test_a_read_that_was_ended_says_nothing_against_a_mesh(make_server, folder):
    server = make_server("--state-dir", str(folder))
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        mesh = client.register_mesh(*icosphere(1.0, 7))
    server.kill()
    hurried = make_server("--state-dir", str(folder), "--max-step-time", "1ms")
    problem = Api(hurried.http).refused("GET", f"/v1/meshes/{mesh.hash}", 504, "TIME_LIMIT")
    assert "--max-step-time" in problem["detail"] and "damaged" not in hurried.logs()
    hurried.kill()
    server.start()
    assert Api(server.http).get(f"/v1/meshes/{mesh.hash}")["hash"] == mesh.hash


def test_a_file_larger_than_may_be_is_an_error(make_server, folder):
    """ulimit -f: the signal that comes with it would end the server."""
    server = make_server("--state-dir", str(folder))
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (BALL_BYTES // 2, BALL_BYTES // 2))
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        mesh = client.register_mesh(*BALL)
        small = client.register_mesh(*UNIT_BOX)
    assert stored(folder) == [small.hash]
    assert f"mesh {mesh.hash} cannot be kept: File too large" in server.logs()


# ---- settings ----


def test_patch_kill_step(make_server, folder):
    """An operator's change outlives a server that ended before the client was told of it."""
    server = make_server("--state-dir", str(folder))
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(resolution=32)
        scene.add_body(mesh)
        scene.add_body(mesh, pose=moved(0.5))
        assert scene.step().rays == 3 * 32 * 32
        Api(server.http)("PATCH", f"/v1/scenes/{scene.id}", {"resolution": 64, "stiffness": 0.1})
        server.restart(hard=True)
        result = scene.step()
        assert (result.rays, result.settings["stiffness"], result.settings["revision"]) == (3 * 64 * 64, 0.1, 2)
        assert scene.resolution == (64, 64, 64)
        # What the client asks for after that is newer.
        scene.configure(resolution=16)
        server.restart(hard=True)
        assert scene.step().rays == 3 * 16 * 16
        # By contactctl, through the stream.
        done = subprocess.run([*CONTACTCTL, "--server", server.stream, "scene", "set", str(scene.id),
                               "--resolution", "8"], capture_output=True, text=True, timeout=30 * SLOW)
        assert done.returncode == 0, done.stderr
        server.restart(hard=True)
        assert scene.step().rays == 3 * 8 * 8
        assert len(list((folder / "scenes").iterdir())) == 1
        scene.close()
        assert list((folder / "scenes").iterdir()) == []


def test_damaged_settings_are_set_aside_and_named(make_server, folder):
    server = make_server("--state-dir", str(folder))
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(resolution=32)
        scene.add_body(mesh)
        scene.add_body(mesh, pose=moved(0.5))
        Api(server.http)("PATCH", f"/v1/scenes/{scene.id}", {"resolution": 64})
        server.kill()
        (path,) = (folder / "scenes").iterdir()
        path.write_text(path.read_text().replace("resolution_y 64\n", "")[:-1])
        server.start()
        assert f"{path} is damaged" in server.logs()
        assert [p.name for p in (folder / "scenes").iterdir()] == [f"{path.name}.damaged"]
        assert scene.step().rays == 3 * 32 * 32


def test_settings_belong_to_their_principal(make_server, folder, tmp_path):
    """A client that knows another's key of a scene gets none of its settings; meshes stay with who registered them."""

    principals, me = tmp_path / "principals", os.getuid()
    principals.write_text(f"first simulator uid={me}\n")
    socket = f"ipc://{tmp_path}/socket"
    server = make_server("--state-dir", str(folder), "--stream", socket, "--principals", str(principals))
    with contactd.connect(socket, timeout=30 * SLOW) as client:
        mesh = client.register_mesh(*BALL)
        scene = client.open_scene(resolution=32)
        key = scene._state.key
    assert (folder / "meshes" / f"{mesh.hash}.owners").read_text() == "first\n"
    (folder / "scenes" / f"{key:016x}").write_text(
        "contactd scene 1\nprincipal second\nrevision 9\nmethod ldi\nresolution_x 4\nresolution_y 4\nresolution_z 4\nend\n")
    server.restart(hard=True)
    raw = Raw(socket)
    ldi = {"settings": {"resolution": (32,)}, "key": key}
    assert raw.ok("OpenScene", ldi)["settings"]["resolution"] == (32, 32, 32)
    assert raw.ok("GetMesh", {"hash": mesh.hash})["triangles"] == len(BALL[1])
    raw.close()
    principals.write_text(f"second simulator uid={me}\n")
    server.restart(hard=True)
    raw = Raw(socket)
    opened = raw.ok("OpenScene", ldi)
    assert (opened["settings"]["resolution"], opened["revision"]) == ((4, 4, 4), 9)
    assert raw.refused("GetMesh", {"hash": mesh.hash})[0] == "NOT_FOUND"
    raw.close()


# ---- folders that cannot be used ----


def test_not_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    assert "file" in (line := start_fails(tmp_path / "file")) and "Not a directory" in line
    assert "No such file or directory" in start_fails(tmp_path / "nowhere" / "state")


def test_a_folder_of_something_else(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("")
    line = start_fails(tmp_path / "home")
    assert "thesis.tex" in line and "never a state folder" in line
    assert [p.name for p in (tmp_path / "home").iterdir() if p.name != "lock"] == ["thesis.tex"]


def test_another_version(make_server, folder):
    make_server("--state-dir", str(folder)).stop()
    (folder / "version").write_text("contactd state 7\n")
    line = start_fails(folder)
    assert "contactd state 7" in line and "contactd state 1" in line


def test_another_server_has_it(make_server, folder):
    server = make_server("--state-dir", str(folder))
    line = start_fails(folder)
    assert "another server" in line and str(server.pid) in line
    (folder / "lock").unlink()  # as one does with a stale lock, which this is not
    assert "another server" in start_fails(folder)
    server.kill()  # leaves the file, but not the lock
    server.start()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 512 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "contactd-test", str(path)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_read_only(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert "Read-only file system" in (line := start_fails(small_disk)) and "may write to" in line


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_not_permitted(tmp_path):
    (tmp_path / "state").mkdir(mode=0o500)
    assert "Permission denied" in (line := start_fails(tmp_path / "state")) and "may write to" in line


def fill(disk: pathlib.Path) -> pathlib.Path:
    path = disk / "lost+found"  # the one stranger that a disk's root may have
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return path


def test_full_at_the_start(small_disk):
    fill(small_disk)
    assert "No space left" in (line := start_fails(small_disk)) and "full" in line


def test_full_while_it_serves(make_server, small_disk):
    """The server goes on: old meshes make room; where there is none left, the log and a metric say what is not kept."""
    server = make_server("--state-dir", str(small_disk))
    api = Api(server.http)
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        first = client.register_mesh(*BALL)
        meshes = [client.register_mesh(BALL[0] * (2 + i), BALL[1]) for i in range(9)]  # more than the disk holds
        assert meshes[-1].hash in stored(small_disk) and first.hash not in stored(small_disk)
        assert api.gauge("contactd_state_failures_total") == 0 < api.gauge("contactd_state_evicted_total")
        scene = client.open_scene(resolution=32)
        for mesh in meshes:
            scene.add_body(mesh)  # all in use: none makes room
        filler = fill(small_disk)
        lost = client.register_mesh(BALL[0] * 20, BALL[1])
        assert lost.hash not in stored(small_disk)
        assert api.gauge("contactd_state_failures_total") == 1
        assert f"mesh {lost.hash} cannot be kept: No space left" in server.logs()
        assert not list((small_disk / "meshes").glob("*.tmp"))
        # What cannot be stored is not changed, over HTTP or the stream, and can be once there is space.
        before = api.get(f"/v1/scenes/{scene.id}")
        problem = api.refused("PATCH", f"/v1/scenes/{scene.id}", 503, "LIMIT_EXCEEDED", {"resolution": 16}, field="state-dir")
        assert "nothing was changed" in problem["detail"] and "No space left" in problem["detail"] and problem["retry_after"]
        other = Raw(server.stream)
        assert other.refused("Configure", {"scene": scene.id, "settings": {"resolution": (16,)}})[0] == "LIMIT_EXCEEDED"
        after = api.get(f"/v1/scenes/{scene.id}")
        assert [after[k] for k in ("resolution", "revision")] == [before[k] for k in ("resolution", "revision")]
        assert scene.step().settings["resolution"] == (32, 32, 32)
        scene.configure(resolution=24)  # its own client's is not stored here
        assert not list((small_disk / "scenes").iterdir())
        filler.unlink()
        other.ok("Configure", {"scene": scene.id, "settings": {"resolution": (16,)}})
        other.close()
        server.kill()
        server.start()
        assert scene.step().settings["resolution"] == (16, 16, 16)
