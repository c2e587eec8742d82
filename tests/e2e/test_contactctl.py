"""contactctl as scripts use it: JSON on stdout, messages on stderr, exit codes; and the C example as a user builds it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import threading

import contactd
import numpy as np
import pytest
from conftest import BUILD, CONTACTCTL, INSTRUMENTED, ROOT, SLOW, free_port
from fake_server import FakeServer
from geometry import UNIT_BOX, icosphere, moved

OK, USAGE, REFUSED, UNREACHABLE, SERVER = 0, 2, 3, 4, 5


def off(path: pathlib.Path, mesh) -> str:
    vertices, triangles = mesh
    path.write_text(f"OFF\n{len(vertices)} {len(triangles)} 0\n" + "".join(f"{x:.9g} {y:.9g} {z:.9g}\n" for x, y, z in vertices)
                    + "".join(f"3 {a} {b} {c}\n" for a, b, c in triangles))
    return str(path)


def pose_text(pose: np.ndarray) -> str:
    return " ".join(f"{x:.17g}" for x in pose[:3].ravel())


@pytest.fixture
def ctl(server):
    here = server.stream

    def run(*arguments, expect=OK, server=here, env=None):
        program = CONTACTCTL if server == here and "--timeout" not in arguments else CONTACTCTL[:1]
        command = [*program, *(["--server", server] if server else []), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * SLOW, env=os.environ | (env or {}))
        assert done.returncode == expect, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        if expect == OK:
            assert done.stderr == ""
            return done.stdout
        return done.stderr or done.stdout  # doctor's findings are its data

    return run


@pytest.fixture
def box(tmp_path):
    return off(tmp_path / "box.off", UNIT_BOX)


def test_contact_warnings(box):
    """Bodies of this command are rigid, so no real server warns of them yet: one that is made to."""
    fake = FakeServer()
    fake.warnings = [{"code": 1, "body": 2, "value": -0.25}, {"code": 77, "body": 1, "value": 0.5}]
    try:
        command = [*CONTACTCTL, "--server", fake.address, "contact", box, box]
        table = subprocess.run(command, capture_output=True, text=True, timeout=60 * SLOW)
        assert table.returncode == OK and "BODY_INVERTED" not in table.stdout, table.stderr
        first, second = table.stderr.splitlines()
        assert first.startswith("contactctl: warning: body 2: BODY_INVERTED: the body is inside out") and "-0.25 m^3" in first
        assert second.startswith("contactctl: warning: body 1: UNKNOWN: ")
        done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=60 * SLOW)
        assert done.returncode == OK and done.stderr == ""
        assert json.loads(done.stdout)["warnings"] == [{"code": "BODY_INVERTED", "body": 2, "volume": -0.25},
                                                       {"code": "UNKNOWN", "body": 1, "volume": 0.5}]
    finally:
        fake.close()


def test_contact(ctl, box):
    out = json.loads(ctl("contact", box, box, "--pose-b", pose_text(moved(0.25, 0.5, 0.75)), "-o", "json", "--resolution", 32))
    assert out["method"] == "ldi" and out["backend"] == "cpu" and out["rays"] == 3 * 32 * 32
    assert set(out["timings_us"]) >= {"queue", "raster", "span", "contact"}
    assert out["warnings"] == []
    (contact,) = out["contacts"]
    assert contact["volume"] == pytest.approx(0.75 * 0.5 * 0.25, rel=1e-6) and len(contact["volumes"]) == 3
    assert contact["error_bound"] is None and 0 < contact["error_estimate"] < 0.01 * contact["volume"]
    faces = np.array([0.5 * 0.25, 0.75 * 0.25, 0.75 * 0.5])
    a, b = np.array(contact["generalized_gradient"])
    assert a[:3] == pytest.approx(faces, rel=1e-6) and b[:3] == pytest.approx(-faces, rel=1e-6)
    assert contact["normal"] == pytest.approx(list(-faces / np.linalg.norm(faces)), rel=1e-6)
    assert len(contact["bodies"]) == 2 and len(contact["center"]) == 3 and contact["area"] > 0
    assert len(contact["gradient_nonzeros"]) == 2 and all(0 < n <= 8 for n in contact["gradient_nonzeros"])


def test_options_stand_anywhere(ctl, box):
    pose = pose_text(moved(0.5))
    outs = [ctl("-o", "json", "contact", "--pose-b", pose, box, "--resolution", 16, box),
            ctl("contact", box, box, "--resolution=16", f"--pose-b={pose}", "--output", "json"),
            ctl("contact", "--resolution", "16 16 16", box, "-o", "json", box, "--pose-b", pose)]
    contacts = [json.loads(o)["contacts"][0] for o in outs]
    assert [c["volume"] for c in contacts] == [contacts[0]["volume"]] * 3 == pytest.approx([0.5] * 3)


def test_server_from_the_environment(ctl, server, box):
    env = {"CONTACTD_SERVER": server.stream}
    assert json.loads(ctl("contact", box, box, "--pose-b", pose_text(moved(3)), "-o", "json", server=None, env=env))["contacts"] == []


def test_the_same_answer_as_python(ctl, server, tmp_path):
    a, b = icosphere(1.0, 3), icosphere(0.7, 3)
    pose = moved(0.3, -0.2, 0.9)
    out = json.loads(ctl("contact", off(tmp_path / "a.off", a), off(tmp_path / "b.off", b), "--pose-b", pose_text(pose),
                         "-o", "json", "--pixel-size", 0.02))
    with contactd.connect(server.stream) as client:
        scene = client.open_scene(pixel_size=0.02)
        x = scene.add_body(client.register_mesh_file(tmp_path / "a.off"), pose=np.eye(4))
        y = scene.add_body(client.register_mesh_file(tmp_path / "b.off"), pose=pose)
        (contact,) = scene.step().contacts
    assert out["contacts"][0]["volume"] == contact.volume
    assert out["contacts"][0]["generalized_gradient"] == [list(contact.generalized_gradient(body)) for body in (x, y)]


def test_real_cases(ctl, meshes):
    """Pairs with exact volumes."""
    cases = json.loads((meshes / "cases.json").read_text())["cases"]
    small = [case for case in cases if sum(case["tris"]) < 60_000]
    assert small
    for case in small:
        files = [meshes / case["meshes"][side] for side in "AB"]
        poses = [" ".join(repr(float(x)) for x in case[key]) for key in ("T_A", "T_B")]
        out = json.loads(ctl("contact", *files, "--pose-a", poses[0], "--pose-b", poses[1], "-o", "json", "--resolution", 192))
        volume = sum(c["volume"] for c in out["contacts"])
        assert volume == pytest.approx(case["volume"], rel=0.02, abs=1e-9), case["name"]
        if volume > 0 and "T_analytic_cgal" in case.get("gradient", {}):
            gradient, exact = out["contacts"][0]["generalized_gradient"][0][:3], case["gradient"]["T_analytic_cgal"]
            assert gradient == pytest.approx(exact, abs=0.01 * case["area"]), case["name"]


def test_meshes_and_scenes(ctl, server, box):
    added = ctl("mesh", "add", box)
    listed = json.loads(ctl("mesh", "list", "-o", "json"))
    listed = listed["meshes"] if isinstance(listed, dict) else listed
    (mine,) = [m for m in listed if m["triangles"] == 12 and m["hash"] in added]
    ctl("mesh", "rm", mine["hash"][:12])
    assert "NOT_FOUND" in ctl("mesh", "rm", mine["hash"], expect=REFUSED)
    with contactd.connect(server.stream) as client:
        scene = client.open_scene(resolution=16, name="shown")
        assert "shown" in ctl("scene", "list")
        ctl("scene", "set", scene.id, "--resolution", 24)
        assert scene.info()["settings"]["resolution"] == (24, 24, 24)
        shown = json.loads(ctl("scene", "show", scene.id, "-o", "json"))
        assert "24" in json.dumps(shown)
    assert "STALE_HANDLE" in ctl("scene", "show", scene.id, expect=REFUSED)


def test_status_and_doctor(ctl):
    status = json.loads(ctl("status", "-o", "json"))
    assert status["backend"] == "cpu" and status["ready"] is True
    (device,) = status["devices"]
    assert device["device"] == status["device"] and not device["lost"] and device["index"] == 0
    assert f"device 0   {device['device']}" in ctl("status")
    assert ctl("status") and ctl("doctor")


def test_refusals(ctl, box, tmp_path):
    vertices, triangles = UNIT_BOX
    holed = off(tmp_path / "holed.off", (vertices, triangles[1:]))
    message = ctl("contact", box, holed, expect=REFUSED)
    assert "INVALID_MESH" in message and "holed.off" in message and "edge" in message
    garbage = tmp_path / "garbage.ply"
    garbage.write_bytes(random.Random(1).randbytes(500))
    assert "garbage.ply" in ctl("mesh", "add", garbage, expect=REFUSED)
    missing = ctl("contact", box, tmp_path / "none.ply", expect=USAGE)
    assert "none.ply" in missing
    assert "resolution" in ctl("contact", box, box, "--resolution", 10**6, expect=REFUSED)
    assert "method" in ctl("contact", box, box, "--method", "ebpi", expect=REFUSED)


@pytest.mark.parametrize("arguments, says", [((), ""), (("nonsense",), "nonsense"), (("contact", "one"), ""),
                                             (("contact", "a", "b", "--nonsense", "1"), "nonsense"),
                                             (("contact", "a", "b", "--pose-a", "1 2 3"), "pose-a"),
                                             (("contact", "a", "b", "-o", "xml"), "xml"),
                                             (("mesh", "frob"), "no command mesh frob"), (("mesh",), "usage"), (("status", "--timeout", "soon"), "timeout")])
def test_usage(ctl, arguments, says):
    assert says in ctl(*arguments, expect=USAGE)


def test_unreachable(ctl, box):
    address = f"tcp://127.0.0.1:{free_port()}"
    for arguments in (("status",), ("contact", box, box), ("doctor",)):
        assert address in ctl(*arguments, "--timeout", 0.5, expect=UNREACHABLE, server=address)


def told_of(ctl, address: str, words: str) -> None:
    """Both clients say so of what listens there, when the time is over."""

    def connect(seconds: float) -> str:
        with pytest.raises(contactd.UnreachableError) as error:
            contactd.connect(address, timeout=seconds, wait=seconds)
        return str(error.value)

    for say in (lambda seconds: ctl("status", "--timeout", seconds, expect=UNREACHABLE, server=address), connect):
        # A busy machine may take longer than the shorter time until it is connected.
        assert any(words in say(seconds) for seconds in (0.5, 2 * SLOW))


def test_the_http_port_is_not_the_stream(ctl, server):
    """It waits for the rest of a request, or ends the connection, by libmicrohttpd's version."""
    told_of(ctl, f"127.0.0.1:{server.http_port}", "HTTP port")


def test_what_ends_connections(ctl):
    """As a proxy does whose server is down."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def accept() -> None:
            with contextlib.suppress(OSError):  # at its end
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(10)

        threading.Thread(target=accept, daemon=True).start()
        told_of(ctl, f"127.0.0.1:{listener.getsockname()[1]}", "ends connections before it greets")
        listener.shutdown(socket.SHUT_RDWR)


def test_ports_that_are_none(ctl, server, tmp_path):
    """ZeroMQ reads ports as far as they are numbers, and keeps 16 bits: it would find the server there."""
    host, port = server.stream.rsplit(":", 1)
    path = tmp_path / "servers"
    for wrong in (f"{host}:{int(port) + 65536}", f"{host}:{port}x", f"{host}:-{65536 - int(port)}"):
        said = ctl("status", expect=USAGE, server=wrong)
        assert f"{wrong} is not an address to connect to (its port is none of 1 to 65535)" in said
        said = ctl("status", expect=USAGE, server=f"{wrong},{server.stream}")
        assert f"{wrong}: not an address" in said
        path.write_text(f"{wrong}\n")
        assert "Invalid argument" in ctl("status", expect=USAGE, server=f"file:{path}")
        said = ctl("record", tmp_path / "a.rec", "--listen", wrong, expect=USAGE)
        assert "expected a port from 1 to 65535" in said


def test_an_address_needs_no_scheme(ctl, server, tmp_path):
    """HOST:PORT is one everywhere, as in Python; of what listens nowhere, or has no port, the same is said as with tcp://."""
    host, path = server.stream.removeprefix("tcp://"), tmp_path / "servers"
    path.write_text(f"# here\n{host}\n")
    idle = f"127.0.0.1:{free_port()}"
    for address in (host, f"{idle},{host}", f"{server.stream},{host}", f"file:{path}"):
        assert "ready      yes" in ctl("status", server=address)
        assert "ready      yes" in ctl("status", server=None, env={"CONTACTD_SERVER": address})
    assert "all is well" in ctl("doctor", server=host)
    assert f"nothing listens at tcp://{idle}" in ctl("status", expect=UNREACHABLE, server=idle)
    for scheme in ("", "tcp://"):
        assert "its port is none of 1 to 65535" in ctl("status", expect=USAGE, server=f"{scheme}127.0.0.1:99999")
    for wrong in ("127.0.0.1", ":5555", "::1:5555", "a b:5555", "host:", "host:x"):
        assert f"{wrong} is not an address to connect to" in ctl("status", expect=USAGE, server=wrong)
    done = subprocess.run([*CONTACTCTL, "--server", host, "record", tmp_path / "a.rec", "--", *CONTACTCTL, "status"], capture_output=True,
                          text=True, timeout=60 * SLOW)
    assert done.returncode == OK and "ready      yes" in done.stdout


def test_help_and_version(ctl):
    assert "contact" in ctl("--help", server=None) and "0.1.0" in ctl("--version", server=None)
    assert "--pose-a" in ctl("contact", "--help", server=None)


def test_the_c_example_as_a_user_builds_it(server, binaries, tmp_path):
    """With pkg-config alone: shared and static; it is no longer than promised."""
    source = ROOT / "client_c" / "examples" / "simple.c"
    assert len(source.read_text().splitlines()) <= 60
    compiler = os.environ.get("CC", "cc").split()
    if shutil.which(compiler[0]) is None or shutil.which("pkg-config") is None:
        pytest.skip("no C compiler or no pkg-config here")
    if INSTRUMENTED:
        pytest.skip("the instrumented libraries want an instrumented program")
    env = os.environ | {"PKG_CONFIG_PATH": str(BUILD)}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "contactd"], capture_output=True, text=True, env=env, check=True)
    program = tmp_path / "simple"
    subprocess.run([*compiler, "-Wall", "-Wextra", "-Werror", str(source), *flags.stdout.split(), "-o", str(program)], check=True)
    out = subprocess.run([program, server.stream], capture_output=True, text=True, timeout=20 * SLOW)
    assert out.returncode == 0, out.stderr
    assert "volume 0.015625 m^3" in out.stdout and "-0.0625 -0.0625 -0.0625" in out.stdout
    lost = subprocess.run([program, f"tcp://127.0.0.1:{free_port()}"], capture_output=True, text=True, timeout=60 * SLOW)
    assert lost.returncode != 0 and "UNREACHABLE" in lost.stderr


def test_the_python_example(server):
    import sys

    out = subprocess.run([sys.executable, str(ROOT / "client_py" / "examples" / "simple.py"), server.stream], text=True,
                         capture_output=True, timeout=30 * SLOW, env=os.environ | {"PYTHONPATH": str(ROOT / "client_py")})
    assert out.returncode == 0, out.stderr
    assert "volume 0.180000" in out.stdout


def test_the_sliding_ball(server):
    """Along its path the exact force ripples less than a tenth of what rays make it ripple."""
    import re
    import sys

    out = subprocess.run([sys.executable, str(ROOT / "client_py" / "examples" / "slide.py"), "--server", server.stream,
                          "--steps", "150"], text=True, capture_output=True, timeout=300 * SLOW,
                         env=os.environ | {"PYTHONPATH": str(ROOT / "client_py")})
    assert out.returncode == 0, out.stderr
    of_mean = {name: float(value) for name, value in re.findall(r"slide: (\w+): .* by (\S+) of itself", out.stdout)}
    assert 0 < of_mean["exact"] < 0.1 * of_mean["ldi_64"] < 1e-2
