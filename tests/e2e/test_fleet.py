"""The C client's fleet: scenes spread over several servers, a kill of one under load, servers that join and leave, and
addresses that are wrong. What is computed must be the same to the last bit as by one server alone."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess

import contactd
import pytest
from conftest import BUILD, CC, SLOW, Server, free_port, pause, wait_until
from http_api import Api
from late_door import late_door

STEPS, SCENES, CONNECTIONS = 40, 9, 6
FEWEST, BY_NAME, BY_LOAD = 0, 1, 2
FLEETS_BOX = ([[v & 1, v >> 1 & 1, v >> 2] for v in range(8)],  # as in fleet.c
              [[0, 2, 3], [0, 3, 1], [4, 5, 7], [4, 7, 6], [0, 1, 5], [0, 5, 4], [2, 6, 7], [2, 7, 3], [0, 4, 6], [0, 6, 2],
               [1, 3, 7], [1, 7, 5]])


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("fleet") / "fleet"
    subprocess.run([*CC, "-std=c17", "-Wall", "-Wextra", "-Werror",
                    str(pathlib.Path(__file__).with_name("fleet.c")), "-o", str(path), f"-I{BUILD / 'include' / 'contactd'}",
                    f"-L{BUILD}", f"-Wl,-rpath,{BUILD}", "-lcontactd"], check=True)
    return path


@pytest.fixture
def three(make_server) -> list[Server]:
    return [make_server() for _ in range(3)]


class Fleet:
    """The program at a pause, or at its end."""

    def __init__(self, program, address, *pauses, placement=FEWEST, connections=CONNECTIONS, scenes=SCENES, steps=STEPS,
                 timeout=30 * SLOW, probe=30 * SLOW):
        command = [program, address, placement, connections, scenes, steps, *pauses]
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "FLEET_TIMEOUT_MS": str(int(1000 * timeout)),
                                             "FLEET_PROBE_MS": str(int(1000 * probe))})
        self.volumes: list[list[str]] = [[] for _ in range(scenes)]
        self.servers: dict[str, tuple[bool, int, int]] = {}
        self.moved, self.said, self.error = 0, "", ""
        self._read()

    def _read(self) -> None:
        self.servers = {}
        for line in self.process.stdout:
            word, rest = line.strip().split(" ", 1) if " " in line else (line.strip(), "")
            if word == "step":
                scene, step, volume = rest.split()
                assert int(step) == len(self.volumes[int(scene)])  # none lost, none twice
                self.volumes[int(scene)].append(volume)
            elif word == "server":
                address, is_up, connections, scenes = rest.split()
                self.servers[address] = (is_up == "1", int(connections), int(scenes))
            elif word == "moved":
                moved, self.said = rest.split(" ", 1)
                self.moved = int(moved)
            elif word == "error":
                self.error = rest
            elif word == "listed":
                return
        self.process.wait()

    def order(self, order: str) -> None:
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        self._read()

    def look(self) -> int:
        self.order("look")
        return self.moved

    def finish(self) -> list[list[str]]:
        """From the last pause, the end of all steps, to the end."""
        self.order("go")
        assert self.process.returncode == 0 and not self.error, self.error
        assert [len(v) for v in self.volumes] == [STEPS] * len(self.volumes)
        return self.volumes


def addresses(servers) -> list[str]:
    return [server.stream for server in servers]


def scenes(server: Server) -> int:
    return int(Api(server.http).gauge("contactd_scenes"))


@pytest.fixture(scope="module")
def calm(_module_server, program):
    volumes = Fleet(program, _module_server.stream, connections=1).finish()
    assert len({v for of in volumes for v in of}) > STEPS and all(float.fromhex(v) > 0 for of in volumes for v in of)
    return volumes


def test_scenes_are_spread_and_answers_are_the_same(program, three, calm):
    fleet = Fleet(program, ",".join(addresses(three)))
    assert fleet.servers == {a: (True, 2, 3) for a in addresses(three)}
    assert [scenes(s) for s in three] == [3, 3, 3]
    assert fleet.look() == 0
    assert fleet.finish() == calm
    wait_until(lambda: [scenes(s) for s in three] == [0, 0, 0], "the end of the scenes")


def test_kill_one_of_three_under_load(program, three, calm):
    fleet = Fleet(program, ",".join(addresses(three)), 15, 30)
    three[1].kill()  # with three steps of each scene in flight
    fleet.order("go")
    assert fleet.servers[three[1].stream][1:] == (0, 0)
    assert sum(fleet.servers[s.stream][2] for s in (three[0], three[2])) == SCENES
    for server in (three[0], three[2]):
        assert fleet.servers[server.stream][1] >= 2  # its own stayed
    three[1].start()
    assert fleet.look() == 2
    assert [fleet.servers[a][1] for a in addresses(three)] == [2, 2, 2]
    assert fleet.look() == 0
    fleet.order("go")
    assert fleet.finish() == calm


def test_a_look_moves_what_a_dead_server_had(program, three, calm):
    fleet = Fleet(program, ",".join(addresses(three)), 15)
    before = fleet.servers
    three[2].kill()
    assert fleet.look() == before[three[2].stream][1] == 2
    assert [fleet.servers[a][:2] for a in addresses(three)] == [(True, 3), (True, 3), (False, 0)]
    fleet.order("go")
    assert fleet.finish() == calm


def test_servers_that_join_and_leave(program, three, calm, tmp_path):
    folder = tmp_path / "endpoints"
    folder.mkdir()
    (folder / "7.0").write_text(f"# first\n{three[0].stream}\n")
    (folder / "7.1.tmp").write_text("half an addr")
    fleet = Fleet(program, f"file:{folder}", 10, 20, 30)
    assert fleet.servers == {three[0].stream: (True, CONNECTIONS, SCENES)}
    (folder / "7.1").write_text(three[1].stream + "\n")
    assert fleet.look() == CONNECTIONS // 2
    wait_until(lambda: scenes(three[0]) + scenes(three[1]) <= SCENES, "the end of the scenes that are moved")
    fleet.order("go")
    assert scenes(three[1]) == fleet.servers[three[1].stream][2] > 0
    (folder / "7.2").write_text(three[2].stream + "\n")
    assert fleet.look() == CONNECTIONS // 3
    fleet.order("go")
    (folder / "7.0").unlink()
    assert fleet.look() == CONNECTIONS // 3
    assert set(fleet.servers) == set(addresses(three[1:]))
    wait_until(lambda: scenes(three[0]) == 0, "the end of the scenes there")
    (folder / "7.1").unlink()
    (folder / "7.2").unlink()
    assert fleet.look() == 0  # rather all of the old than none
    fleet.order("go")
    assert fleet.finish() == calm


def test_a_server_that_drains(program, three, calm):
    fleet = Fleet(program, ",".join(addresses(three)), 15)
    assert three[0].stop(60) == 0
    fleet.order("go")
    assert fleet.servers[three[0].stream][1] == 0
    assert fleet.finish() == calm


def test_placement_by_name(program, three):
    """The same scenes on the same servers, in another run and in another order of the addresses."""
    runs = [Fleet(program, ",".join(given), placement=BY_NAME, connections=12, steps=0, scenes=24)
            for given in (addresses(three), addresses(three)[::-1])]
    assert runs[0].servers == runs[1].servers
    assert all(s[1] == 4 and s[2] > 0 for s in runs[0].servers.values())
    for run in runs:
        run.order("go")
        assert run.process.returncode == 0


def test_placement_by_load(program, three):
    other = Fleet(program, three[0].stream, scenes=4, steps=0, connections=1)
    fleet = Fleet(program, ",".join(addresses(three)), placement=BY_LOAD, scenes=8, steps=0)
    assert [fleet.servers[a][2] for a in addresses(three)] == [0, 4, 4]
    for run in (fleet, other):
        run.order("go")
        assert run.process.returncode == 0


def test_a_dead_server_in_the_list(program, three, calm):
    dead = f"tcp://127.0.0.1:{free_port()}"
    fleet = Fleet(program, f"{dead},{three[0].stream}")
    assert fleet.servers == {dead: (False, 0, 0), three[0].stream: (True, CONNECTIONS, SCENES)}
    assert fleet.finish() == calm


def test_a_server_that_is_slow_to_answer_is_not_left(program, three, calm):
    """It listens, and three times as long passes until it shakes hands as a client waits where nothing listens."""
    with late_door(three[1].stream_port, 0.75) as door:
        fleet = Fleet(program, f"{three[0].stream},{door}")
        assert [s[:2] for s in fleet.servers.values()] == [(True, 3), (True, 3)]
        assert fleet.finish() == calm


def test_two_names_of_one_server(program, three, tmp_path):
    second = three[0].stream.replace("127.0.0.1", "localhost")
    fleet = Fleet(program, f"{three[0].stream},{three[1].stream},{second}")
    assert fleet.process.returncode == 1
    assert fleet.error.startswith(f"CONFLICT | fleet | server | {three[0].stream} and {second} are one server")
    path = tmp_path / "servers"
    path.write_text(three[0].stream)
    fleet = Fleet(program, f"file:{path}", steps=0, scenes=2)
    path.write_text(f"{three[0].stream}\n{second}\n")
    assert fleet.look() == 0 and fleet.said.startswith("CONFLICT") and "are one server" in fleet.said
    assert fleet.servers == {three[0].stream: (True, CONNECTIONS, 2)}
    fleet.order("go")
    assert fleet.process.returncode == 0


@pytest.mark.parametrize("given,code,words", [
    ("file:/nowhere/at/all", "INVALID_ARGUMENT", "No such file"),
    ("nonsense", "INVALID_ARGUMENT", "not an address"),
    ("tcp://127.0.0.1:9,,tcp://127.0.0.1:10", "INVALID_ARGUMENT", "not an address"),
    ("tcp://127.0.0.1:9,tcp://127.0.0.1:65546", "INVALID_ARGUMENT", "tcp://127.0.0.1:65546: not an address"),
    ("tcp://127.0.0.1:9x", "INVALID_ARGUMENT", "tcp://127.0.0.1:9x: not an address"),
])
def test_addresses_that_are_none(program, given, code, words):
    fleet = Fleet(program, given, timeout=0.5)
    assert fleet.process.returncode == 1 and fleet.error.startswith(code) and words in fleet.error


def test_only_dead_servers(program):
    dead = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)]
    fleet = Fleet(program, ",".join(dead), timeout=0.5)
    assert fleet.error.startswith("UNREACHABLE") and "none of 2 servers answers" in fleet.error and dead[0] in fleet.error


def test_a_server_that_hangs(program, three, calm):
    """It takes connections, as its host does, and says nothing: only its own are moved, and a fleet opens without it."""
    fleet = Fleet(program, ",".join(addresses(three)), 15, probe=20)
    pause(three[2].process)
    try:
        assert fleet.look() == 2
        assert [fleet.servers[a][:2] for a in addresses(three)] == [(True, 3), (True, 3), (False, 0)]
        fleet.order("go")
        assert [fleet.servers[a][1] for a in addresses(three)] == [3, 3, 0]  # they stay where the look moved them
        assert fleet.finish() == calm
        fleet = Fleet(program, ",".join(addresses(three)), probe=20)
        assert [fleet.servers[a][0] for a in addresses(three)] == [True, True, False]
        assert fleet.finish() == calm
    finally:
        three[2].process.send_signal(signal.SIGCONT)


def meshes(server: Server) -> int:
    return int(Api(server.http).gauge("contactd_meshes"))


def test_meshes_are_removed_everywhere(program, three, calm, tmp_path):
    """Also from a server whose connections moved to another since it got them."""
    path = tmp_path / "servers"
    path.write_text("\n".join(addresses(three[:2])))
    fleet = Fleet(program, f"file:{path}", 10, connections=2)
    assert [fleet.servers[a][1] for a in addresses(three[:2])] == [1, 1]
    path.write_text("\n".join(addresses(three)))
    three[0].kill()
    assert fleet.look() == 1  # to the third, as the first is gone
    three[0].start()
    assert fleet.look() == 0
    fleet.order("go")
    assert fleet.volumes == calm and fleet.servers[three[0].stream] == (True, 0, 0)
    with contactd.connect(three[0].stream) as other:  # where the fleet has no connection
        other.register_mesh(*FLEETS_BOX)
        assert [meshes(s) for s in three] == [1, 2, 2]
        fleet.order("remove")
        assert fleet.said.startswith("CONFLICT") and "bodies of this fleet use mesh 1" in fleet.said
        assert [meshes(s) for s in three] == [1, 2, 2]
        fleet.order("close")
        fleet.order("remove")
        assert fleet.said.startswith("OK") and [meshes(s) for s in three] == [0, 0, 0]
        fleet.order("remove")
        assert fleet.said.startswith("STALE_HANDLE") and "mesh 1 was removed" in fleet.said
    fleet.order("go")
    assert fleet.process.returncode == 0


def test_a_mesh_that_others_use_stays(program, three):
    fleet = Fleet(program, ",".join(addresses(three[:2])), 5, scenes=2, connections=2, steps=6)
    fleet.order("go")
    fleet.order("close")
    with contactd.connect(three[1].stream) as other:
        other.open_scene().add_body(other.register_mesh(*FLEETS_BOX))
        fleet.order("remove")
        assert fleet.said.startswith("CONFLICT") and "1 bodies use the mesh" in fleet.said
        assert meshes(three[1]) == 2
    fleet.order("remove")
    assert fleet.said.startswith("OK") and [meshes(s) for s in three[:2]] == [0, 0]
    fleet.order("go")


def test_looking_again_and_again_leaves_no_sessions(program, three):
    """Each look asks every server; what it opened for that ends by itself."""
    fleet = Fleet(program, ",".join(addresses(three)), scenes=0, steps=0)
    for _ in range(20):
        assert fleet.look() == 0
    for server in three:
        wait_until(lambda server=server: Api(server.http).gauge("contactd_sessions") == CONNECTIONS // 3, "the end of its sessions")
    fleet.order("go")
