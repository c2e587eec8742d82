"""contactctl record and replay: a simulation's messages in a file, and the same answers again from the same build."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import shutil
import socket
import struct
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import contactd
from conftest import BUILD, PATIENCE, ROOT, SLOW, free_port
from contactd import _wire
from geometry import UNIT_BOX, icosphere, moved
from test_guard import keys  # noqa: F401
from test_hostile import frame, shake_hands

OK, USAGE, REFUSED, UNREACHABLE, DIFFERENT = 0, 2, 3, 4, 6
CTL = str(BUILD / "contactctl")

SIMULATION = """
    import sys, numpy as np, contactd
    sys.path.insert(0, "tests/e2e")
    from geometry import UNIT_BOX, icosphere, moved
    with contactd.connect(timeout=100) as client, contactd.connect(timeout=100) as second:
        box, ball = client.register_mesh(*UNIT_BOX), client.register_mesh(*icosphere(0.6, 3))
        scene = client.open_scene(method="ldi", resolution=32)
        a, b = scene.add_body(box, pose=np.eye(4)), scene.add_body(ball)
        other = second.open_scene(method="exact")
        x, y = (other.add_body(second.register_mesh(*UNIT_BOX), pose=np.eye(4)) for _ in range(2))
        points = icosphere(0.6, 3)[0]
        flying = [scene.submit(positions={b: points + [0.5, 0.001 * i, 0]}) for i in range(4)]
        for future in flying:
            assert future.result().contacts[0].volume > 0
        for i in range(5):
            other.step(poses={y: moved(0.1 * i, 0.25, 0.125)})
        scene.configure(resolution=48)
        scene.step()
        scene.replace_mesh(a, ball)
        scene.remove_body(b)
        scene.step()
"""


ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("CONTACTD_")} | {
    "PYTHONPATH": str(ROOT / "client_py")}  # fmt: skip


def run(*arguments, expect: int = OK, **more) -> str:
    done = subprocess.run([CTL, *map(str, arguments)], capture_output=True, text=True, timeout=300 * SLOW, **more)
    assert done.returncode == expect, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stderr if expect and done.stderr else done.stdout


def program(tmp_path: pathlib.Path, text: str) -> list[str]:
    path = tmp_path / "simulation.py"
    path.write_text(textwrap.dedent(text))
    return [sys.executable, str(path)]


def record(server, path: pathlib.Path, *command: str, **more) -> None:
    env = ENVIRONMENT | more.pop("env", {})
    run("--server", server.stream, *more.pop("flags", ()), "record", path, "--", *command, cwd=ROOT, env=env, **more)


def announcement(recorder: subprocess.Popen) -> str:
    text = ""
    while not text.endswith("\n}\n"):
        line = recorder.stdout.readline()
        assert line, "the recorder ended"
        text += line
    return text


@pytest.fixture
def recorded(server, tmp_path) -> pathlib.Path:
    path = tmp_path / "bug.rec"
    record(server, path, *program(tmp_path, SIMULATION))
    return path


def replay(server, path, *flags: str, expect: int = OK) -> dict:
    return json.loads(run("--server", server.stream, "replay", path, "--json", *flags, expect=expect))


def test_the_same_server_gives_the_same_bits(server, recorded):
    outcome = replay(server, recorded)
    assert outcome["steps"] == 4 + 5 + 1 + 1 and outcome["different"] == 0 and not outcome["cut"]
    assert outcome["requests"] > outcome["steps"] and outcome["server"] == outcome["recorded_server"]
    assert outcome["build"] == outcome["recorded_build"] != ""
    assert "0 answers differ" in run("--server", server.stream, "replay", recorded)


MANY = """
    import sys, numpy as np, contactd
    sys.path.insert(0, "tests/e2e")
    from geometry import UNIT_BOX, icosphere, moved
    with contactd.connect(timeout=100) as client:
        gone = client.open_scene()
        gone.add_bodies(client.register_mesh(*icosphere(1)), [moved(0)])
        gone.close()
        template = client.open_scene(method="exact")
        template.add_bodies(client.register_mesh(*UNIT_BOX), [moved(0), moved(0.5)])
        scenes = [template, *client.open_scenes(3, template)]
        poses = np.stack([[moved(0)[:3], moved(0.321 + 0.1 * k)[:3]] for k in range(4)])
        assert len(client.step_many(scenes, poses)) == 4
        client.reset(scenes)
        client.close_scenes(client.open_scenes(2, scenes[0]))
        poses[1, 1] *= 2
        assert len(client.step_many(scenes[::-1], poses[::-1], return_errors=True).errors) == 1
"""


def test_steps_of_many_scenes(server, tmp_path):
    path = tmp_path / "many"
    record(server, path, *program(tmp_path, MANY))
    outcome = replay(server, path)
    assert outcome["steps"] == 2 * 4 and outcome["different"] == 0
    data = bytearray(path.read_bytes())
    with contactd.connect(server.stream) as client:
        scene = client.open_scene(method="exact")
        for shift in (0, 0.321):
            scene.add_body(client.register_mesh(*UNIT_BOX), moved(shift))
        at = data.find(struct.pack("<d", scene.step().contacts[0].volume))
    assert at > 0
    data[at] ^= 1
    path.write_bytes(data)
    outcome = replay(server, path, expect=DIFFERENT)
    assert outcome["different"] == 1 and "StepMany" in outcome["first_difference"] and "columns" in outcome["first_difference"]


def test_another_server_gives_the_same_bits(make_server, recorded):
    """Fewer threads, another instruction set, other handles and another epoch."""
    server = make_server("--threads", "1", "--simd", "base")
    with contactd.connect(server.stream) as client:
        client.open_scene(), client.register_mesh(*icosphere(1.0, 1))
        assert replay(server, recorded)["different"] == 0


def messages(path: pathlib.Path) -> list[tuple[int, int]]:
    """(begin, end) of each."""
    data, found = path.read_bytes(), []
    at = 12 + struct.unpack_from("<I", data, 8)[0]
    while at < len(data):
        sizes = struct.unpack_from(f"<{data[at + 1]}Q", data, at + 16)
        end = at + 16 + 8 * len(sizes) + sum(sizes)
        found.append((at, end))
        at = end
    assert at == len(data)
    return found


def test_one_bit_is_found(server, recorded):
    """Of a volume that the recording says the server gave."""
    data = bytearray(recorded.read_bytes())
    with contactd.connect(server.stream) as client:
        scene = client.open_scene(method="exact")
        box = client.register_mesh(*UNIT_BOX)
        scene.add_body(box, pose=np.eye(4))
        b = scene.add_body(box, pose=np.eye(4))
        volume = struct.pack("<d", scene.step(poses={b: moved(0.1 * 3, 0.25, 0.125)}).contacts[0].volume)
    at = data.find(volume)
    assert at > 0
    data[at] ^= 1
    recorded.write_bytes(data)
    outcome = replay(server, recorded, expect=DIFFERENT)
    assert outcome["different"] == 1 and "Step 4 of client" in outcome["first_difference"]
    assert "volume" in outcome["first_difference"]
    assert "first: message" in run("--server", server.stream, "replay", recorded, expect=DIFFERENT)


def with_header(path: pathlib.Path, **changes) -> pathlib.Path:
    data = path.read_bytes()
    size = struct.unpack_from("<I", data, 8)[0]
    header = json.dumps(json.loads(data[12 : 12 + size]) | changes).encode()
    changed = path.with_suffix(".changed")
    changed.write_bytes(data[:8] + struct.pack("<I", len(header)) + header + data[12 + size :])
    return changed


def test_another_build(server, recorded):
    other = with_header(recorded, server="contactd 9.9.9", build="feedbeef")
    said = run("--server", server.stream, "replay", other, expect=REFUSED)
    assert "contactd 9.9.9, build feedbeef" in said and "contactd 0.1.0, build" in said and "--any-build" in said
    outcome = replay(server, other, "--any-build")
    assert outcome["different"] == 0 and outcome["recorded_build"] == "feedbeef"
    assert "build feedbeef" in run("--server", server.stream, "replay", with_header(recorded, build="feedbeef"), expect=REFUSED)
    assert "protocol 7" in run("--server", server.stream, "replay", with_header(recorded, protocol=7), expect=REFUSED)


def test_files_that_are_no_recordings(server, recorded, tmp_path):
    def refused(data: bytes, expect: int = REFUSED) -> str:
        path = tmp_path / "changed"
        path.write_bytes(data)
        return run("--server", server.stream, "replay", path, expect=expect)

    data = recorded.read_bytes()
    assert "is no recording" in refused(b"") and "is no recording" in refused(b"OFF\n3 1 0\n" * 9)
    assert "format 7" in refused(data[:6] + b"7\n" + data[8:])
    assert "header cannot be read" in refused(data[:12] + b"!" + data[13:])
    assert "header cannot be read" in refused(data[:8] + b"\xff" * 4 + data[12:])
    assert "No such file" in run("--server", server.stream, "replay", tmp_path / "none", expect=USAGE)


def test_a_recording_that_was_cut(server, recorded):
    data, spans = recorded.read_bytes(), messages(recorded)
    for cut in (spans[-1][1] - 1, spans[-3][0] + 5, spans[7][0] + 20):
        recorded.write_bytes(data[:cut])
        outcome = replay(server, recorded)
        assert outcome["cut"] and outcome["different"] == 0


def test_damaged_messages_are_not_followed(server, recorded):
    """Any bytes may be in the file: no crash, and an exit code that is documented."""
    data, spans = bytearray(recorded.read_bytes()), messages(recorded)
    numbers = np.random.default_rng(1)
    for _ in range(20):
        changed = bytearray(data)
        for at in numbers.integers(spans[0][0], len(data), 40):
            changed[at] ^= 1 << int(numbers.integers(8))
        recorded.write_bytes(changed)
        done = subprocess.run([CTL, "--server", server.stream, "--timeout", "2", "replay", recorded], capture_output=True, text=True,
                              timeout=300 * SLOW)  # fmt: skip
        assert done.returncode in (OK, REFUSED, UNREACHABLE, 5, DIFFERENT), done.stderr
    assert server.alive()


BY_HASH = """
    import sys, numpy as np, contactd
    sys.path.insert(0, "tests/e2e")
    from geometry import moved
    from contactd._state import Request
    from contactd._state import MeshState
    with contactd.connect(timeout=100) as client:
        def ask(kind, body):
            return client._link.call(Request(kind, lambda: (body, None), lambda a: a.body, timeout=100))
        info = {m["name"]: m for m in ask("ListMeshes", {})["meshes"]}
        if HASH:
            info["ball"] = ask("GetMesh", {"hash": info["ball"]["hash"]})
        scene = client.open_scene(method="exact")
        bodies = []
        for name in ("ball", "box"):
            state = MeshState(name, id=info[name]["mesh"], info=info[name])
            client._link.meshes.add(state)
            bodies.append(scene.add_body(contactd.client.Mesh(client, state), pose=np.eye(4)))
        for i in range(3):
            assert scene.step(poses={bodies[1]: moved(0.3 * i)}).contacts[0].volume > 0
        scene.replace_mesh(bodies[1], contactd.client.Mesh(client, next(iter(client._link.meshes))))
        scene.step()
"""


@pytest.mark.parametrize("by_hash", [True, False])
def test_a_mesh_from_before(make_server, server, tmp_path, by_hash):
    """What was on the server already is fetched into the recording, which then needs no other server's meshes."""
    with contactd.connect(server.stream) as client:
        client.register_mesh(*icosphere(1.0, 2), name="ball")
        vertices, triangles = UNIT_BOX
        client.register_mesh(vertices, triangles[::-1], name="box")
        path = tmp_path / "before.rec"
        record(server, path, *program(tmp_path, f"HASH = {by_hash}\n" + textwrap.dedent(BY_HASH)))
        assert replay(server, path)["different"] == 0
    fresh = make_server()
    outcome = replay(fresh, path)
    assert outcome["different"] == 0 and outcome["steps"] == 4
    assert replay(fresh, path)["different"] == 0
    with contactd.connect(fresh.stream) as client:
        assert {m["name"] for m in client.meshes()} == {"ball", "box"}


def test_meshes_of_a_server_that_starts_anew(make_server, tmp_path):
    """Its handles are those of other meshes before: each is fetched."""
    server, fresh = make_server(start=False), make_server()
    path = tmp_path / "two.rec"
    server.start()
    with subprocess.Popen([CTL, "--server", server.stream, "record", path, "--json"], stdout=subprocess.PIPE, text=True) as recorder:
        address = json.loads(announcement(recorder))["listen"]
        meshes = [UNIT_BOX, icosphere(1.0, 2)]
        for _ in range(2):
            with contactd.connect(server.stream) as client:
                for name, mesh in zip(("ball", "box"), meshes):
                    client.register_mesh(*mesh, name=name)
                (tmp_path / "use.py").write_text("HASH = True\n" + textwrap.dedent(BY_HASH))
                subprocess.run([sys.executable, tmp_path / "use.py"], cwd=ROOT, env=ENVIRONMENT | {"CONTACTD_SERVER": address},
                               check=True, timeout=300 * SLOW)  # fmt: skip
            server.kill()
            server.start()
            meshes.reverse()
        recorder.terminate()
        assert recorder.wait(60 * SLOW) == OK
    outcome = replay(fresh, path)
    assert outcome["different"] == 0 and outcome["steps"] == 8


def test_a_mesh_that_is_registered_is_in_the_recording_once(server, recorded):
    data = recorded.read_bytes()
    for begin, _ in messages(recorded):
        assert struct.unpack_from("<I", data, begin + 4)[0] > 0  # of a client, not the recorder's


def test_an_open_surface_from_before(make_server, server, tmp_path):
    """It cannot be registered from its closed form: said when it is recorded, and when it is replayed."""
    with contactd.connect(server.stream) as client:
        grid = [[x, y, 0.1 * x * y] for y in range(3) for x in range(3)]
        quads = [(y * 3 + x, y * 3 + x + 1, y * 3 + x + 4, y * 3 + x + 3) for y in range(2) for x in range(2)]
        triangles = [t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]
        client.register_mesh(grid, triangles, open_direction=(0, 0, -1), name="ball")
        client.register_mesh(*UNIT_BOX, name="box")
        path = tmp_path / "open.rec"
        done = subprocess.run([CTL, "--server", server.stream, "record", path, "--",
                               *program(tmp_path, "HASH = True\n" + textwrap.dedent(BY_HASH))], cwd=ROOT, env=ENVIRONMENT,
                              capture_output=True, text=True, timeout=300 * SLOW)  # fmt: skip
        assert done.returncode == OK and "it is an open surface" in done.stderr, done.stderr
        assert replay(server, path)["different"] == 0
    said = run("--server", make_server().stream, "replay", path, expect=REFUSED)
    assert "was on the server before the recording began" in said and "contactctl mesh add" in said


def test_the_c_client_is_recorded(server, tmp_path):
    path = tmp_path / "c.rec"
    record(server, path, str(BUILD / "examples" / "simple"))
    assert replay(server, path)["different"] == 0 and replay(server, path)["steps"] >= 1


def test_with_keys(make_server, keys, tmp_path):  # noqa: F811
    """The recorder has the keys; the simulator speaks to it without."""
    file = keys.make("keys", "a", "simulator")
    server = make_server(*keys.flags)
    path = tmp_path / "keys.rec"
    flags = ("--server-key", keys.server, "--client-key", file)
    record(server, path, *program(tmp_path, SIMULATION), flags=flags)
    outcome = json.loads(run("--server", server.stream, *flags, "replay", path, "--json"))
    assert outcome["different"] == 0 and outcome["steps"] == 11
    for secret in keys.secrets():
        assert secret.encode() not in path.read_bytes()


@pytest.mark.parametrize("refine", [False, True])
def test_steps_that_time_has_cut_short_are_not_compared(server, tmp_path, refine):
    said = tmp_path / "said"
    path = tmp_path / "time.rec"
    record(server, path, *program(tmp_path, f"""
        import sys, numpy as np, contactd
        sys.path.insert(0, "tests/e2e")
        from geometry import icosphere, moved
        with contactd.connect(timeout=100) as client:
            ball = client.register_mesh(*icosphere(1.0, 4))
            scene = client.open_scene(method="voxtree", refine={refine})
            a, b = (scene.add_body(ball, pose=np.eye(4)) for _ in range(2))
            ended = [scene.step(poses={{b: moved(0.1 * i, 0, 0)}}, time_budget=[None, 1e-6, 100][i % 3]).ended for i in range(9)]
        open({str(said)!r}, "w").write(" ".join(ended))
    """))  # fmt: skip
    ended = said.read_text().split()
    outcome = replay(server, path)
    timed = [i for i in range(9) if ended[i] == "time" or (refine and i % 3)]
    assert (outcome["steps"], outcome["timed"], outcome["different"]) == (9, len(timed), 0)


def test_where_it_cannot_record(server, tmp_path):
    there = tmp_path / "there"
    there.write_text("mine")
    assert "File exists, and stays as it is: name another file" in run("--server", server.stream, "record", there, "--", "true", expect=USAGE)
    assert there.read_text() == "mine"
    assert "No such file" in run("--server", server.stream, "record", tmp_path / "no" / "where", expect=USAGE)
    assert "nowhere:1" in run("--server", server.stream, "record", tmp_path / "x", "--listen", "nowhere:1", expect=USAGE)
    assert not (tmp_path / "x").exists()
    dead = f"tcp://127.0.0.1:{free_port()}"
    assert "refused" in run("--server", dead, "record", tmp_path / "x", expect=UNREACHABLE)
    assert "one server" in run("--server", f"{dead},{server.stream}", "record", tmp_path / "x", expect=USAGE)
    assert not (tmp_path / "x").exists()


def test_a_full_disk_ends_the_recording_and_not_the_simulation(server, tmp_path):
    def limit() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))

    done = tmp_path / "done"
    command = program(tmp_path, SIMULATION + "    import os; os.mkdir(" + repr(str(done)) + ")\n")
    env = ENVIRONMENT | {"PYTHONDONTWRITEBYTECODE": "1"}
    said = run("--server", server.stream, "record", tmp_path / "full.rec", "--", *command, expect=USAGE, cwd=ROOT, env=env,
               preexec_fn=limit)  # fmt: skip
    assert "full.rec: File too large; the recording ends after" in said and done.exists()
    assert replay(server, tmp_path / "full.rec")["different"] == 0


def test_until_it_is_told_to_end(server, tmp_path):
    path = tmp_path / "by.rec"
    with subprocess.Popen([CTL, "--server", server.stream, "record", path, "--json"], stdout=subprocess.PIPE, text=True) as recorder:
        begun = announcement(recorder)
        address = json.loads(begun)["listen"]
        with contactd.connect(address) as client:
            scene = client.open_scene(method="exact")
            scene.step()
        recorder.terminate()
        assert recorder.wait(60 * SLOW) == OK
    assert replay(server, path)["steps"] == 1


def test_a_simulator_that_stands_still_keeps_its_connection(server, tmp_path):
    """As a debugger lets it: nothing in its process answers for longer than any heartbeat would wait."""
    with subprocess.Popen([CTL, "--server", server.stream, "record", tmp_path / "still.rec", "--json"], stdout=subprocess.PIPE, text=True) as recorder:
        address = json.loads(announcement(recorder))["listen"]
        with socket.create_connection(address.removeprefix("tcp://").rsplit(":", 1), timeout=PATIENCE) as s:
            shake_hands(s)
            time.sleep(12)
            s.setblocking(False)
            with pytest.raises(BlockingIOError):  # neither its end nor a question
                s.recv(1)
            s.settimeout(PATIENCE)
            s.sendall(frame(_wire.encode("GetStatus", {}, request=1, session=0, epoch=0), False))
            assert s.recv(1)
        recorder.terminate()
        assert recorder.wait(60 * SLOW) == OK


def test_a_command_that_fails(server, tmp_path):
    done = subprocess.run([CTL, "--server", server.stream, "record", tmp_path / "f.rec", "--", "false"], capture_output=True,
                          text=True, timeout=60 * SLOW)  # fmt: skip
    assert done.returncode == OK and "false ended with exit code 1" in done.stderr
    assert shutil.which("false")


def test_a_command_that_cannot_be_run(server, tmp_path):
    """It is said, no recording is left, and the same name can be used again."""
    path = tmp_path / "f.rec"
    said = run("--server", server.stream, "record", path, "--", str(tmp_path / "missing"), expect=USAGE)
    assert said.strip().endswith(f"cannot run {tmp_path}/missing: No such file or directory") and not path.exists()
    record(server, path, "true")
    assert path.exists()


def test_the_address_of_a_server_is_not_taken_over(make_server, tmp_path):
    """ZeroMQ would replace the socket's file, and the recorder pass what it gets on to itself."""
    address = f"ipc://{tmp_path}/stream"
    server = make_server("--stream", address)
    said = run("--server", server.stream, "record", tmp_path / "f.rec", "--listen", address, "--", "true", expect=USAGE)
    assert f"cannot listen on {address}: Address already in use" in said and not (tmp_path / "f.rec").exists()
    with contactd.connect(address) as client:
        assert len(client.open_scene().step().contacts) == 0


def test_a_commands_options_are_its_own(server, tmp_path):
    """With or without "--": also those that contactctl has, too."""
    for flags, sent in (((), ["-c", "echo $0 $@", "--json", "--", "--listen"]), (("--",), ["-c", "echo $0 $@", "--json"])):
        path = tmp_path / f"f{len(flags)}.rec"
        out = run("record", path, "--server", server.stream, *flags, "sh", *sent)
        assert out.splitlines()[-1] == " ".join(sent[2:]), out
        assert path.exists()
