"""What operators ask of a server: contactctl sessions, bodies, scene close and drain, with the fields of HTTP."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import urllib.error
import urllib.request

import numpy as np
import pytest

import contactd
from conftest import BUILD, CONTACTCTL, ROOT, SLOW, Server, free_port, wait_until
from contactd import _wire, errors
from fake_server import FakeServer
from geometry import UNIT_BOX, moved
from test_guard import Keys, connect, keys  # noqa: F401

OK, USAGE, REFUSED, UNREACHABLE = 0, 2, 3, 4
PATIENT = 30 * SLOW  # seconds, with several servers: without --timeout one that takes 2 s is down


@pytest.fixture
def ctl(server):
    def run(*arguments, expect: int = OK, to: str = server.stream) -> str:
        program = CONTACTCTL if to == server.stream and "--timeout" not in arguments else CONTACTCTL[:1]
        done = subprocess.run([*program, "--server", to, *map(str, arguments)],
                              capture_output=True, text=True, timeout=60 * SLOW)  # fmt: skip
        assert done.returncode == expect, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stderr if expect else done.stdout

    return run


def get(server: Server, path: str):
    with urllib.request.urlopen(server.http + path) as answer:
        return json.load(answer)


def test_sessions(ctl, server):
    with contactd.connect(server.stream, name="the one that is looked for") as client:
        client.open_scene()
        sessions = json.loads(ctl("sessions", "--json"))["sessions"]
        (mine,) = [s for s in sessions if s["client"].startswith("the one that is looked for")]
        assert mine["scenes"] == 1 and mine["in_flight"] == 0 and mine["principal"] == ""
        (http,) = [s for s in get(server, "/v1/sessions")["sessions"] if s["id"] == mine["id"]]
        assert http.keys() == mine.keys() and http["lease_s"] == mine["lease_s"]
        assert "the one that is looked for" in ctl("sessions")


def test_sessions_of_clients_that_have_gone(ctl, make_server):
    """Who closed is not shown for the rest of its lease, be it Python or C; whose scenes wait for it is shown as gone."""
    server = make_server()
    killed = subprocess.Popen([sys.executable, "-c", f"import contactd; c = contactd.connect({server.stream!r}, name='killed'); "
                               "c.open_scene(); print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with contactd.connect(server.stream, name="stays") as stays, contactd.connect(server.stream, name="closes") as closes:
        stays.open_scene()
        closes.open_scene()
        subprocess.run([str(BUILD / "examples" / "settle"), "--server", server.stream, "--steps", "100"], check=True, cwd=ROOT,
                       stdout=subprocess.DEVNULL, timeout=60 * SLOW)
        assert killed.stdout.readline()
        closes.close()
        killed.kill()
        killed.wait()
        killed.stdin.close()
        killed.stdout.close()

        def seen():
            return {s["client"].split()[0]: (s["connected"], s["scenes"]) for s in get(server, "/v1/sessions")["sessions"]}

        wait_until(lambda: seen() == {"stays": (True, 1), "killed": (False, 1)}, "the end of those that closed", 20 * SLOW)
        rows = {row.split()[1]: row.split() for row in ctl("sessions", to=server.stream).splitlines()}
        assert "no" in rows["killed"] and "yes" in rows["stays"]


def test_bodies(ctl, server):
    with contactd.connect(server.stream) as client:
        scene = client.open_scene(method="exact")
        box = client.register_mesh(*UNIT_BOX)
        scene.add_body(box)
        scene.add_body(box, pose=moved(0.5, 0.25, 0.125))
        scene.add_half_space((0, 0, 1), -2.0)
        scene.step()
        report = json.loads(ctl("bodies", scene.id, "--json"))
        assert report == get(server, f"/v1/scenes/{scene.id}/bodies")
        soft, rigid, plane = report["bodies"]
        assert (soft["kind"], rigid["kind"], plane["kind"]) == ("deformable", "rigid", "half_space")
        assert rigid["lo"] == [0, -0.25, -0.375] and not soft["self_contact"]
        table = ctl("bodies", scene.id).splitlines()
        assert len(table) == 4 and soft["mesh_hash"] in table[1] and "0..1 x" in table[2] and "half_space" in table[3]
    assert "scene" in ctl("bodies", scene.id, expect=REFUSED)
    assert "is no scene" in ctl("bodies", "seventeen", expect=USAGE)


def test_many_bodies(ctl, server):
    """A report that is far too large for the header of a message."""
    with contactd.connect(server.stream) as client:
        scene = client.open_scene(method="exact")
        box = client.register_mesh(*UNIT_BOX)
        for i in range(500):
            scene.add_body(box, pose=moved(3.0 * i, 0, 0))
        assert len(json.loads(ctl("bodies", scene.id, "--json"))["bodies"]) == 500


def test_a_scene_is_closed(ctl, server):
    with contactd.connect(server.stream) as client:
        scene, other = client.open_scene(), client.open_scene()
        assert json.loads(ctl("scene", "close", scene.id, "--json")) == {"closed": scene.id}
        assert scene.id not in [s["id"] for s in get(server, "/v1/scenes")["scenes"]]
        assert other.id in [s["id"] for s in get(server, "/v1/scenes")["scenes"]]
        with pytest.raises(errors.StaleHandleError, match="was closed"):  # its client is told, and does not open it again
            scene.step()
        other.step()
        assert "scene" in ctl("scene", "close", scene.id, expect=REFUSED)


def test_status_over_the_stream_is_that_of_http(server):
    from raw import Raw

    raw = Raw(server.stream)
    report = json.loads(raw.ask("GetReport", {"kind": 3}).array("json").tobytes())
    http = get(server, "/v1/status")
    assert report.keys() == http.keys() and report["epoch"] == http["epoch"]
    assert report["lanes"]["small"].keys() == http["lanes"]["small"].keys()
    assert raw.refused("GetReport", {"kind": 77})[::2] == ("INVALID_ARGUMENT", "kind")
    assert raw.refused("GetReport", {"kind": 2, "scene": 12345})[0] == "NOT_FOUND"
    raw.close()


def test_fields_are_those_of_http(ctl, server):
    """What contactctl prints as JSON has no name that HTTP has not."""
    with contactd.connect(server.stream) as client:
        scene = client.open_scene(method="exact")
        scene.add_body(client.register_mesh(*UNIT_BOX))
        assert json.loads(ctl("status", "--json")).keys() == get(server, "/v1/status").keys() | {"address"}
        (device, *_), (http, *_) = (s["devices"] for s in (json.loads(ctl("status", "--json")), get(server, "/v1/status")))
        assert device.keys() == http.keys()
        assert json.loads(ctl("scene", "show", scene.id, "--json")).keys() <= get(server, f"/v1/scenes/{scene.id}").keys()
        assert json.loads(ctl("mesh", "list", "--json"))[0].keys() <= get(server, "/v1/meshes")["meshes"][0].keys() | {"existed"}


def test_latencies_count_every_step(fresh_server):
    with contactd.connect(fresh_server.stream) as client:
        scene = client.open_scene(method="exact")
        box = client.register_mesh(*UNIT_BOX)
        for x in (0.0, 0.5):
            scene.add_body(box, pose=moved(x, 0, 0))
        before = [lane["latency_us"] for lane in get(fresh_server, "/v1/status")["lanes"].values()]
        for _ in range(9):
            scene.step()
        after = [lane["latency_us"] for lane in get(fresh_server, "/v1/status")["lanes"].values()]
    assert sum(a["steps"] - b["steps"] for a, b in zip(after, before)) == 9
    for lane in after:
        assert sum(lane["counts"]) == lane["steps"] and len(lane["counts"]) == len(lane["bounds"]) + 1
        assert lane["bounds"] == sorted(lane["bounds"])
    assert sum(a["sum"] - b["sum"] for a, b in zip(after, before)) > 0


@pytest.mark.parametrize("how", ["contactctl", "http"])
def test_drain(make_server, ctl, how):
    server = make_server()
    with contactd.connect(server.stream) as client:
        scene = client.open_scene(method="exact")
        scene.step()
        if how == "http":
            request = urllib.request.Request(server.http + "/v1/drain", method="POST")
            with urllib.request.urlopen(request) as answer:
                assert answer.status == 202 and json.load(answer) == {"draining": True}
        else:
            assert json.loads(ctl("drain", "--json", to=server.stream)) == {"draining": True}
        assert server.wait() == 0  # asked, not killed
    assert "a client drains the server" in server.logs() and "ended" in server.logs()


def test_drain_takes_no_body_and_one_server(ctl, server):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(server.http + "/v1/drain", method="POST", data=b"{}",
                                                      headers={"Content-Type": "application/json"}))
    assert refused.value.code == 400
    both = f"{server.stream},tcp://127.0.0.1:{free_port()}"
    assert "expected one address" in ctl("drain", to=both, expect=USAGE)
    assert server.alive()


def test_roles(make_server, keys):  # noqa: F811
    files = {name: keys.make("keys", name, role) for name, role in
             {"a": "simulator", "b": "simulator", "watch": "operator", "boss": "admin"}.items()}  # fmt: skip
    server = make_server(*keys.flags)

    def run(who: str, *arguments, expect: int = OK) -> str:
        done = subprocess.run([*CONTACTCTL, "--server", server.stream, "--server-key", str(keys.server),
                               "--client-key", str(files[who]), *map(str, arguments)],
                              capture_output=True, text=True, timeout=60 * SLOW)  # fmt: skip
        assert done.returncode == expect, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stderr if expect else done.stdout

    with connect(server, keys, files["a"]) as a:
        scene = a.open_scene(method="exact")
        scene.add_body(a.register_mesh(*UNIT_BOX), pose=np.eye(4))
        seen = {who: [s["principal"] for s in json.loads(run(who, "sessions", "--json"))["sessions"]] for who in ("b", "watch")}
        assert set(seen["b"]) == {"b"} and {"a", "watch"} <= set(seen["watch"])
        assert "NOT_FOUND" in run("b", "bodies", scene.id, expect=REFUSED)
        assert "rigid" in run("watch", "bodies", scene.id)
        assert "NOT_FOUND" in run("b", "scene", "close", scene.id, expect=REFUSED)
        assert "watch has the role operator" in run("watch", "scene", "close", scene.id, expect=REFUSED)
        with pytest.raises(errors.ForbiddenError):  # without asking for others' scenes, not even an admin closes one
            from contactd._state import Request

            with connect(server, keys, files["boss"]) as boss:
                boss._link.call(Request("CloseScene", lambda: ({"scene": scene.id}, None), lambda _: None, timeout=10 * SLOW))
        run("boss", "scene", "close", scene.id)
        wait_until(lambda: f"boss (admin) closed scene {scene.id}" in server.logs(), "an audit line")
    assert "b has the role simulator" in run("b", "drain", expect=REFUSED)
    assert server.alive()
    run("watch", "drain")
    assert server.wait() == 0
    assert "watch (operator) drains the server" in server.logs()


@pytest.mark.parametrize("command", [("status",), ("sessions",), ("doctor",), ("bench",), ("drain",), ("scene", "list")])
def test_a_refused_connection_fails_at_once(binaries, command):
    """With a day's patience: if it waited, the test would not end."""
    address = f"tcp://127.0.0.1:{free_port()}"
    done = subprocess.run([str(binaries / "contactctl"), "--server", address, "--timeout", "86400", *command],
                          capture_output=True, text=True, timeout=60 * SLOW)  # fmt: skip
    assert done.returncode == UNREACHABLE
    assert f"refused: nothing listens at {address}" in done.stdout + done.stderr


def test_refused_everywhere(ctl, server, tmp_path: pathlib.Path):
    ports = [free_port() for _ in range(3)]
    dead = [f"tcp://127.0.0.1:{port}" for port in ports]
    assert "connections were refused" in ctl("status", "--timeout", 86400, to=",".join(dead), expect=UNREACHABLE)
    assert "refused" in ctl("status", "--timeout", 86400, to=f"ipc://{tmp_path}/none", expect=UNREACHABLE)
    assert "refused" in ctl("status", "--timeout", 86400, to=f"dns://localhost:{ports[0]}", expect=UNREACHABLE)
    folder = tmp_path / "endpoints"
    folder.mkdir()
    (folder / "1.0").write_text(f"# job 1\n{dead[0]}\n")
    (folder / "1.1").write_text(f"{dead[1]} # task 1\n")
    (folder / "1.2.tmp").write_text(server.stream)  # is being written
    for command in ("status", "sessions", "top"):
        for source in (f"file:{folder}", f"file:{folder}/1.0,{dead[2]}"):
            assert "connections were refused" in ctl(command, "--timeout", 86400, to=source, expect=UNREACHABLE)
    (folder / "1.3").write_text(server.stream)
    ctl("status", to=f"file:{folder}")


def test_a_name_that_is_none(ctl):
    """A part of a name has at most 63 letters, so no name server is asked: without an answer of one, contactctl waits."""
    name = f"{'a' * 64}.invalid"
    said = ctl("status", "--timeout", 86400, to=f"tcp://{name}:5555", expect=UNREACHABLE)
    assert f"name does not resolve: tcp://{name}:5555" in said


def test_json_of_all(ctl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (("sessions",), ("status",), ("doctor",), ("mesh", "list"), ("scene", "list"), ("keys", "new", "k"),
                    ("tokens", "new", "t"), ("bench", "--seconds", "0.05")):  # fmt: skip
        assert json.loads(ctl(*command, "--json")) is not None, command
    assert "exclude" in ctl("status", "--json", "-o", "table", expect=USAGE)


# ---- several servers ----


@pytest.fixture
def two(make_server) -> list[Server]:
    return [make_server() for _ in range(2)]


def test_sessions_of_several(two, ctl, tmp_path):
    dead = f"tcp://127.0.0.1:{free_port()}"
    (tmp_path / "servers").write_text("\n".join([two[0].stream, dead, two[1].stream]))
    source = f"file:{tmp_path}/servers"
    with contactd.connect(two[0].stream, name="first") as a, contactd.connect(two[1].stream, name="second") as b:
        a.open_scene(), b.open_scene()
        report = json.loads(ctl("sessions", "--json", "--timeout", PATIENT, to=source))
        assert report["servers"] == [{"address": s, "up": s != dead} for s in (two[0].stream, dead, two[1].stream)]
        where = {s["client"].split()[0]: (s["address"], s["scenes"]) for s in report["sessions"]}
        assert where["first"] == (two[0].stream, 1) and where["second"] == (two[1].stream, 1)
        table = ctl("sessions", "--timeout", PATIENT, to=source).splitlines()
        assert table[0].split()[0] == "ADDRESS"
        assert [line.split()[0] for line in table if " second " in line] == [two[1].stream]


def test_top_of_several(two, ctl):
    dead = f"tcp://127.0.0.1:{free_port()}"
    given = f"{two[0].stream},{dead},{two[1].stream}"
    with contactd.connect(two[1].stream) as client:
        client.open_scene(name="the only one").step()
        first, gone, second = json.loads(ctl("top", "--once", "--json", "--interval", "0.01", "--timeout", PATIENT, to=given))["servers"]
        assert [s["address"] for s in (first, gone, second)] == given.split(",")
        assert first["up"] and second["up"] and gone == {"address": dead, "up": False}
        assert first["scenes"] == 0 and [row["name"] for row in second["busiest"]] == ["the only one"]
        assert set(first["lanes"]) == {"small", "large"} and first["steps_per_s"] == 0
        text = ctl("top", "--once", "--interval", "0.01", "--timeout", PATIENT, to=given).splitlines()
        states = {line.split()[0]: line.split()[1] for line in text[1:4]}
        assert states == {two[0].stream: "ready", dead: "DOWN", two[1].stream: "ready"}
        (scene,) = [line for line in text if "the only one" in line]
        assert scene.split()[0] == two[1].stream


def test_top_goes_on_without_a_server(two, binaries, tmp_path):
    """One that is killed is shown as such until it is back; one that is listed later joins."""
    path = tmp_path / "servers"
    path.write_text(two[0].stream + "\n")
    command = [str(binaries / "contactctl"), "--server", f"file:{path}", "top", "--interval", "0.1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as top:

        def until(**expected: bool) -> None:
            named = {two[int(key[1:])].stream: up for key, up in expected.items()}
            while True:
                text = "".join(iter(top.stdout.readline, "}\n")) + "}"
                if {s["address"]: s["up"] for s in json.loads(text)["servers"]} == named:
                    return

        until(s0=True)
        path.write_text("\n".join(s.stream for s in two))
        until(s0=True, s1=True)
        two[0].kill()
        until(s0=False, s1=True)
        two[0].start()
        until(s0=True, s1=True)
        path.write_text(two[0].stream + "\n")
        until(s0=True)
        top.terminate()


def test_several_that_are_wrong(two, ctl):
    dead = ",".join(f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
    twins = f"{two[0].stream},{two[0].stream.replace('127.0.0.1', 'localhost')}"
    for command in ("sessions", "top"):
        assert "connections were refused" in ctl(command, "--timeout", 86400, to=dead, expect=UNREACHABLE)
        assert "are one server" in ctl(command, "--timeout", PATIENT, to=twins, expect=REFUSED)
        assert "No such file" in ctl(command, to="file:/nowhere", expect=USAGE)


# ---- top ----


def answered(views: list[dict]) -> int:
    return sum(lane["latency_us"]["steps"] for v in views for lane in v["lanes"].values())


def total(views: list[dict], rate: str) -> float:
    return sum(v[rate] * v["interval_s"] for v in views)


def stepped(views: list[dict]) -> float:
    return sum(row["steps_per_s"] * v["interval_s"] for v in views for row in v["busiest"])


def test_top_counts_what_was_done_between(fresh_server, binaries):
    """Its view is of an interval that holds all steps: it is asked to begin before them and to look after them."""
    with contactd.connect(fresh_server.stream, name="busy") as client:
        scene, idle = client.open_scene(name="the busy one", method="exact"), client.open_scene(name="the idle one")
        box = client.register_mesh(*UNIT_BOX)
        for x in (0.0, 0.5):
            scene.add_body(box, pose=moved(x, 0, 0))
        command = [str(binaries / "contactctl"), "--server", fresh_server.stream, "top", "--interval", "0.05", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as top:
            decoder, text, seen = json.JSONDecoder(), "", []

            def view() -> dict:
                nonlocal text
                while True:
                    try:
                        found, end = decoder.raw_decode(text.lstrip())
                        text = text.lstrip()[end:]
                        return found
                    except json.JSONDecodeError:
                        text += top.stdout.readline()

            seen.append(view())  # all steps are after the beginning of the next one
            for _ in range(20):
                scene.step()
            # The server counts them one after the other, and may be asked in between.
            while min(answered(seen), total(seen, "steps_per_s"), total(seen, "contacts_per_s"), stepped(seen)) < 19.5:
                seen.append(view())
            top.terminate()
    assert answered(seen) == 20
    assert [total(seen, "steps_per_s"), total(seen, "contacts_per_s"), stepped(seen)] == pytest.approx([20] * 3)
    for v, row in ((v, row) for v in seen for row in v["busiest"] if row["steps_per_s"]):
        assert v["busiest"][0] == row and row["name"] == "the busy one" and row["running_method"] == "exact"
        assert {r["id"] for r in v["busiest"]} == {scene.id, idle.id}
    for lane in (lane["latency_us"] for v in seen for lane in v["lanes"].values()):
        if lane["steps"]:
            assert 0 < lane["p50"] <= lane["p90"] <= lane["p99"] and lane["mean"] > 0
        else:
            assert lane["p50"] is lane["p99"] is lane["mean"] is None
    assert seen[-1]["scenes"] == 2 and seen[-1]["queue_capacity"] > 0 and seen[-1]["ready"]


def test_top_once(ctl, server):
    view = json.loads(ctl("top", "--once", "--json", "--interval", "0.01"))
    assert view["interval_s"] > 0.009 and set(view["lanes"]) == {"small", "large"}
    text = ctl("top", "--once", "--interval", "0.01")
    assert "steps/s" in text and "small" in text and "\033" not in text
    assert "--interval is 0" in ctl("top", "--interval", "0", expect=USAGE)


@pytest.fixture
def fake():
    server = FakeServer()
    yield server
    server.close()


@pytest.mark.parametrize("n", [0, 2])
def test_top_shows_what_runs_long(ctl, fake, n):
    """Of the status report; the server is one that only says so."""
    rows = [{"scene": 7 + i, "name": f"hair {i}", "principal": "lab", "client": "brush (libcontactd)", "command": "step",
             "phase": "finding patches", "seconds": 6.5 - i} for i in range(n)]
    status = {"server": "fake", "epoch": "1", "uptime_s": 1, "running": rows}

    def hook(kind, body):
        if kind == "ListScenes":
            return "SceneList", {"scenes": []}
        if kind != "GetReport":
            return None
        arrays = _wire.Arrays()
        answer = {"json": arrays.add(np.frombuffer(json.dumps(status).encode(), np.uint8))}
        arrays.place()
        return "Report", answer

    fake.hook = hook
    once = ("top", "--once", "--interval", "0.01")
    assert json.loads(ctl(*once, "--json", to=fake.address))["running"] == rows
    text = ctl(*once, to=fake.address).splitlines()
    head = [i for i, line in enumerate(text) if line.startswith("RUNS IN SCENE")]
    assert len(head) == (n > 0)
    for i, line in enumerate(text[head[0] + 1 : head[0] + 3] if n else ()):
        assert line.split() == [str(7 + i), "hair", str(i), "lab", "brush", "(libcontactd)", "step", "finding", "patches",
                                f"{6.5 - i}"]
    # Of several servers, each row has its server's address.
    several = ctl(*once, "--timeout", PATIENT, to=f"{fake.address},tcp://127.0.0.1:{free_port()}")
    assert [line.split()[:2] for line in several.splitlines() if "finding patches" in line] == [
        [fake.address, str(7 + i)] for i in range(n)]


def test_top_in_a_terminal_clears_it(server, binaries):
    outside, inside = pty.openpty()
    with subprocess.Popen([str(binaries / "contactctl"), "--server", server.stream, "top", "--interval", "0.05"], stdout=inside) as top:
        os.close(inside)
        seen = b""
        while seen.count(b"\033[H\033[J") < 2:
            seen += os.read(outside, 4096)
        top.terminate()
    os.close(outside)
    assert b"LANE" in seen


class Terminal:
    """contactctl top on a terminal of so many rows, all of whose output is read."""

    def __init__(self, binaries, server, *options: str, rows: int = 40):
        self.outside, self.inside = pty.openpty()
        fcntl.ioctl(self.inside, termios.TIOCSWINSZ, struct.pack("4H", rows, 100, 0, 0))
        self.before = termios.tcgetattr(self.inside)[3]
        command = ["setsid", "--ctty", "--wait", str(binaries / "contactctl"), "--server", server.stream, "top", *options]
        self.top = subprocess.Popen(command, stdin=self.inside, stdout=self.inside, stderr=self.inside)
        self.seen = b""

    def wait(self, text: bytes) -> None:
        at = len(self.seen)
        while text not in self.seen[at:]:
            self.seen += os.read(self.outside, 4096)

    def press(self, keys: bytes) -> None:
        os.write(self.outside, keys)

    def end(self) -> int:
        while self.top.poll() is None:  # what it still writes must not hold it up
            if select.select([self.outside], [], [], 0.05)[0]:
                os.read(self.outside, 4096)
        assert termios.tcgetattr(self.inside)[3] == self.before  # lines and their echo are back
        os.close(self.outside)
        os.close(self.inside)
        return self.top.returncode


@pytest.mark.parametrize("rows", [40, 1, 10])
def test_keys_of_top(server, binaries, rows):
    top = Terminal(binaries, server, "--interval", "0.05", rows=rows)
    top.wait(b"LANE")
    top.press(b"h")
    top.wait(b"q ends, p pauses")
    top.press(b"hs")
    top.wait(b"sorted by bodies")
    top.press(b"s")
    top.wait(b"sorted by contacts")
    top.press(b"zZ\x1b[A")  # what means nothing is nothing
    top.press(b"p")
    top.wait(b"paused: p goes on")
    top.press(b"p")
    top.wait(b"LANE")
    top.press(b"q")
    assert top.end() == 0


def test_top_gives_the_terminal_back_after_a_signal(server, binaries):
    top = Terminal(binaries, server, "--interval", "0.05")
    top.wait(b"LANE")
    top.press(b"\x03")
    assert top.end() == -signal.SIGINT


def test_top_waits_for_no_key_where_input_is_no_terminal(server, binaries):
    done = subprocess.run([str(binaries / "contactctl"), "--server", server.stream, "top", "--once"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60 * SLOW)
    assert done.returncode == 0 and "LANE" in done.stdout and "\033" not in done.stdout


def test_scene_show_has_the_bodies(server, ctl):
    with contactd.connect(server.stream, name="shown") as client:
        scene = client.open_scene()
        mesh = client.register_mesh(*UNIT_BOX)
        for _ in range(2):
            scene.add_body(mesh, pose=np.eye(4))
        shown = ctl("scene", "show", str(scene.id))
        assert shown.count(" rigid ") == 2 and "MESH" in shown and shown.count(mesh.hash) == 2
        assert "step 0: 0 contacts" in shown
        scene.step()
        shown = ctl("scene", "show", str(scene.id))
        assert "step 1: 1 contacts" in shown and re.search(r"^- +1 2 +1 ", shown, re.M)
