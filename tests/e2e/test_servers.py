"""Many servers that look like one: a kill of one under load, servers that join, drain and come back, and wrong addresses."""

from __future__ import annotations

import fcntl
import logging
import os
import pathlib
import subprocess
import threading

import contactd
import numpy as np
import pytest
from conftest import BUILD, SLOW, Server, free_port, wait_until
from contactd import _connection, _servers
from contactd._addresses import Addresses
from contactd._keys import keys_of
from geometry import UNIT_BOX, as_obj, blob, moved
from http_api import Api
from late_door import late_door

TIMEOUT = 60 * SLOW
AHEAD = 10  # steps


@pytest.fixture
def three(make_server) -> list[Server]:
    return [make_server() for _ in range(3)]


def addresses(servers) -> list[str]:
    return [server.stream for server in servers]


class Load:
    """Scenes whose every step depends on all before: parts of a soft body, and a pose. Its volumes tell a step that was lost,
    or done twice, to the last bit."""

    def __init__(self, client: contactd.Client, scenes: int, steps: int):
        vertices, triangles = blob(1.0, 2)
        soft, box = client.register_mesh(vertices, triangles), client.register_mesh(*UNIT_BOX)
        self.vertices, self.steps = vertices.astype(np.float32), steps
        self.scenes = [client.open_scene(resolution=24, name=f"s{i}") for i in range(scenes)]
        self.bodies = [(scene.add_body(soft), scene.add_body(box, pose=moved(0.5))) for scene in self.scenes]

    def run(self, disturb=lambda: None, at: int = 0) -> list[list[float]]:
        """Calls `disturb` in the midst of the steps, however slow this thread is: when each scene has sent `at` of them,
        and before one has sent AHEAD more."""
        volumes, failures = [[] for _ in self.scenes], []
        reached, disturbed = threading.Semaphore(0), threading.Event()

        def work(i):
            rng = np.random.default_rng(i)
            x, (a, b), futures = self.vertices.copy(), self.bodies[i], []
            try:
                for k in range(self.steps):
                    if k == at:
                        reached.release()
                    if k == at + AHEAD:
                        disturbed.wait()
                    moving = np.sort(rng.choice(len(x), 10, replace=False))
                    x[moving] *= 1 + 0.02 * rng.standard_normal((10, 1)).astype(np.float32)
                    poses = {b: moved(0.5 + 0.01 * (k % 9))} if k % 4 == 0 else {}
                    futures.append(self.scenes[i].submit(indexed={a: (moving, x[moving])}, poses=poses, timeout=TIMEOUT))
                    if len(futures) > 3:
                        volumes[i].append(self.take(futures.pop(0), len(volumes[i])))
                for future in futures:
                    volumes[i].append(self.take(future, len(volumes[i])))
            except Exception as e:
                failures.append(e)
                reached.release()

        assert at + AHEAD < self.steps
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(self.scenes))]
        [thread.start() for thread in threads]
        [reached.acquire() for _ in threads]
        try:
            disturb()
        finally:
            disturbed.set()
        [thread.join() for thread in threads]
        assert not failures, failures
        return volumes

    @staticmethod
    def take(future, number: int) -> float:
        result = future.result(TIMEOUT)
        assert result.sequence == number + 1
        return sum(contact.volume for contact in result.contacts)


@pytest.fixture(scope="module")
def calm(_module_server):
    with contactd.connect(_module_server.stream, timeout=TIMEOUT) as client:
        return Load(client, 6, 60).run()


def test_scenes_are_spread_and_answers_are_the_same(three, calm):
    with contactd.connect(addresses(three), timeout=TIMEOUT) as client:
        load = Load(client, 6, 60)
        assert [s["scenes"] for s in client.servers()] == [2, 2, 2] and all(s["up"] for s in client.servers())
        assert load.run() == calm
        assert client.moves == client.reconnects == 0
        status = client.status()
        assert (status["scenes"], len(status["servers"])) == (6, 3)
        assert sorted(s["server"] for s in client.scenes() if s["mine"]) == sorted(2 * addresses(three))
        assert {m["server"] for m in client.meshes()} == set(addresses(three))


def test_kill_one_of_three_under_load(three, calm):
    """Nothing is lost, nothing done twice, and the two others go on with their own."""
    with contactd.connect(addresses(three), timeout=TIMEOUT) as client:
        load = Load(client, 6, 60)
        assert load.run(three[1].kill, 20) == calm
        facts = {s["address"]: s for s in client.servers()}
        assert not facts[three[1].stream]["up"] and facts[three[1].stream]["scenes"] == 0
        assert facts[three[0].stream]["scenes"] + facts[three[2].stream]["scenes"] == 6
        n = len(client._servers.buckets)
        assert client.moves == n // 3  # its share, and no other
        three[1].start()
        wait_until(lambda: all(s["up"] for s in client.servers()), "the server that came back")
        assert client.moves == n // 3 + n // 3
        before = [scene.step(timeout=TIMEOUT).contacts[0].volume for scene in load.scenes]
        assert [v[-1] for v in calm] == before


def test_a_server_that_drains(three, calm):
    """A rolling upgrade: each server in turn ends and comes back, in the midst of the run."""
    with contactd.connect(addresses(three), timeout=TIMEOUT) as client:
        load = Load(client, 6, 60)

        def roll():
            for server in three:
                assert server.stop(60) == 0
                wait_until(lambda: not all(s["up"] for s in client.servers()), "that it is gone")
                server.start()
                wait_until(lambda: all(s["up"] for s in client.servers()), "all servers")

        thread = threading.Thread(target=roll)
        assert load.run(thread.start, 5) == calm
        thread.join()
        assert client.moves >= 6 * (len(client._servers.buckets) // 3)  # each server's share there and back
        assert [s["scenes"] for s in client.servers()].count(0) == 0
        assert [v[-1] for v in calm] == [scene.step(timeout=TIMEOUT).contacts[0].volume for scene in load.scenes]


def test_all_gone_and_back(three, calm):
    with contactd.connect(addresses(three), timeout=TIMEOUT) as client:
        load = Load(client, 6, 60)

        def all_gone():
            [server.kill() for server in three]
            three[2].start()

        assert load.run(all_gone, 16) == calm


def test_a_file_that_is_watched(three, calm, tmp_path):
    """Servers that are listed later join, one that is no longer listed leaves; others' buckets stay."""
    folder = tmp_path / "endpoints"
    folder.mkdir()
    (folder / "7.0").write_text(f"# job 7\n{three[0].stream}\n")
    (folder / "7.1.tmp").write_text("half an addr")
    with contactd.connect(f"file:{folder}", timeout=TIMEOUT) as client:
        load = Load(client, 6, 60)

        def join():
            (folder / "7.1").write_text(three[1].stream + "\n")
            wait_until(lambda: [s["up"] for s in client.servers()] == [True, True], "the second server")

        thread = threading.Thread(target=join)
        assert load.run(thread.start, 5) == calm
        thread.join()
        n = len(client._servers.buckets)
        assert client.moves == n // 2
        (folder / "7.0").unlink()
        wait_until(lambda: addresses([three[1]]) == [s["address"] for s in client.servers()], "the first server's end")
        assert client.moves == n
        wait_until(lambda: {s["server"] for s in client.scenes()} == {three[1].stream}, "all scenes on the second")
        for scene in load.scenes:
            scene.step(timeout=TIMEOUT)


def test_a_dead_server_in_the_list(three, caplog):
    dead = f"tcp://127.0.0.1:{free_port()}"
    with caplog.at_level(logging.WARNING, "contactd"):
        with contactd.connect([dead, three[0].stream], timeout=TIMEOUT) as client:
            assert f"{dead} does not answer" in caplog.text and "nothing listens there" in caplog.text
            facts = {s["address"]: s for s in client.servers()}
            assert not facts[dead]["up"] and facts[dead]["why"] and facts[three[0].stream]["up"]
            mesh = client.register_mesh(*UNIT_BOX)
            scene = client.open_scene()
            scene.add_body(mesh)
            assert scene.step().contacts == []


def test_a_server_that_is_slow_to_answer_is_not_left(three):
    """It listens, and more than REACH_S pass until it shakes hands."""
    with late_door(three[1].stream_port, 3 * _connection.REACH_S) as door:
        with contactd.connect([three[0].stream, door], timeout=TIMEOUT) as client:
            load = Load(client, 4, 20)
            assert {s["address"]: s["scenes"] for s in client.servers()} == {three[0].stream: 2, door: 2}
            load.run()
            assert client.moves == client.reconnects == 0
        wait_until(lambda: Api(three[1].http).gauge("contactd_scenes") == 0, "the end of its scenes")


def test_only_dead_servers():
    dead = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)]
    with pytest.raises(contactd.UnreachableError) as e:
        contactd.connect(dead, timeout=0.2)
    assert dead[0] in str(e.value) and dead[1] in str(e.value) and "none of 2 servers" in str(e.value)


def test_two_names_of_one_server(three):
    names = [three[0].stream, three[1].stream, three[0].stream.replace("127.0.0.1", "localhost")]
    with pytest.raises(contactd.errors.ConflictError) as e:
        contactd.connect(names, timeout=TIMEOUT)
    assert f"{names[0]} and {names[2]} are one server" in str(e.value)


def test_a_second_name_that_comes_later(three, tmp_path, caplog):
    path = tmp_path / "servers"
    path.write_text(three[0].stream)
    second = three[0].stream.replace("127.0.0.1", "localhost")
    with caplog.at_level(logging.WARNING, "contactd"), contactd.connect(f"file:{path}", timeout=TIMEOUT) as client:
        path.write_text(f"{three[0].stream}\n{second}\n")
        wait_until(lambda: "are one server" in caplog.text, "the warning")
        assert [s["up"] for s in client.servers()] == [True, False] and client.moves == 0


@pytest.mark.parametrize("given", ["nonsense,tcp://127.0.0.1:5", ["tcp://127.0.0.1"], [], "tcp://a:1,,tcp://b:2", "dns://x"])
def test_addresses_that_are_none(given):
    with pytest.raises(contactd.errors.InvalidArgumentError) as e:
        contactd.connect(given, timeout=0.2)
    assert e.value.field == "address"


def test_files_that_are_none(tmp_path):
    for given, word in ((f"file:{tmp_path}/nowhere", "No such file"), (f"file:{tmp_path}", "no address")):
        with pytest.raises(contactd.UnreachableError) as e:
            contactd.connect(given, timeout=0.2)
        assert word in str(e.value)
    (tmp_path / "1").write_text("tcp://good:1\nbad\n")
    with pytest.raises(contactd.UnreachableError) as e:
        contactd.connect(f"file:{tmp_path}", timeout=0.2)
    assert "'bad', which is no address" in str(e.value)


def test_sources_of_addresses(tmp_path):
    assert Addresses("tcp://a:1, ipc:///tmp/x").look() == (["tcp://a:1", "ipc:///tmp/x"], [])
    assert Addresses(["dns://127.0.0.1:77"]).look() == (["tcp://127.0.0.1:77"], [])
    path = tmp_path / "list"
    path.write_text("tcp://a:1 # first\n\ntcp://b:2\ntcp://a:1\n")
    sources = Addresses(["tcp://b:2", f"file:{path}"])
    assert sources.look() == (["tcp://b:2", "tcp://a:1"], [])
    path.unlink()
    found, troubles = sources.look()
    assert found == ["tcp://b:2", "tcp://a:1"] and "No such file" in troubles[0]  # as it was


@pytest.mark.parametrize("placement", ["load", "hash"])
def test_placement(three, placement):
    with contactd.connect(addresses(three), timeout=TIMEOUT, placement=placement) as client, \
            contactd.connect(three[0].stream, timeout=TIMEOUT) as other:
        for _ in range(4):
            other.open_scene()
        client._servers.servers[three[0].stream].asked = 0.0
        for i in range(8):
            client.open_scene(name=f"scene {i}")
        counts = [s["scenes"] for s in client.servers()]
        assert sum(counts) == 8
        if placement == "load":
            assert counts == [0, 4, 4]
        with contactd.connect(addresses(three), timeout=TIMEOUT, placement=placement) as again:
            for i in range(8):
                again.open_scene(name=f"scene {i}")
            if placement == "hash":  # the same scenes on the same servers
                assert [s["scenes"] for s in again.servers()] == counts


def test_a_bucket_moves_only_with_its_server():
    """Of many servers, one that leaves moves its share of the buckets and no other, and gets it back."""
    servers = [f"tcp://10.0.0.{i}:5555" for i in range(1, 9)]
    book = object.__new__(_servers.Servers)
    book._lock, book.moves, book._placement = threading.RLock(), 0, "hash"
    book.servers = {address: _servers.Server(address) for address in servers}
    book.buckets = [_servers.Bucket(i, book.servers[servers[0]]) for i in range(64)]
    counts = dict.fromkeys(book.servers.values(), 0)
    for bucket in book.buckets:
        bucket.server = book._best(bucket, counts)
        counts[bucket.server] += 1
    assert set(counts.values()) == {8}
    before = [bucket.server.address for bucket in book.buckets]
    gone = servers[3]
    for bucket in book.buckets:
        if before[bucket.number] == gone:
            book.elsewhere(bucket.number, gone, "it ended")
    after = [bucket.server.address for bucket in book.buckets]
    assert all(a == b for a, b in zip(after, before) if b != gone) and gone not in after and book.moves == 8
    assert max(book._counts().values()) - min(book._counts().values()) <= 2
    book._note_up(book.servers[gone])
    assert book.moves == 16 and set(book._counts().values()) == {8}


def test_meshes_are_removed_everywhere(three):
    with contactd.connect(addresses(three), timeout=TIMEOUT) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scenes = [client.open_scene() for _ in range(6)]
        for scene in scenes:
            scene.add_body(mesh)
        with pytest.raises(contactd.errors.ConflictError):
            mesh.remove()
        for scene in scenes:
            scene.close()
        assert [s["scenes"] for s in client.servers()] == [0, 0, 0]
        mesh.remove()
        assert client.meshes() == []
        with pytest.raises(contactd.errors.StaleHandleError):
            mesh.remove()


def test_meshes_are_removed_where_the_client_has_no_connection(three):
    """With fewer connections than servers: what another program of theirs registered there goes too."""
    with contactd.connect(addresses(three), timeout=TIMEOUT, connections=2) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        used = {bucket.server.address for bucket in client._servers.buckets}
        (unused,) = set(addresses(three)) - used
        with contactd.connect(unused, timeout=TIMEOUT) as other:
            same = other.register_mesh(*UNIT_BOX)
            assert same.hash == mesh.hash and len(other.meshes()) == 1
            scene = other.open_scene()
            scene.add_body(same)
            with pytest.raises(contactd.errors.ConflictError, match="1 bodies use the mesh"):
                mesh.remove()
            mine = client.open_scene()
            mine.add_body(mesh)  # though its server freed it
            mine.close()
            scene.close()
            mesh.remove()
            assert other.meshes() == [] and client.meshes() == []


def test_keys_are_used_for_all(make_server, tmp_path):
    subprocess.run([str(BUILD / "contactctl"), "keys", "new", "server"], cwd=tmp_path, check=True, capture_output=True)
    line = subprocess.run([str(BUILD / "contactctl"), "keys", "new", "lab"], cwd=tmp_path, check=True, capture_output=True,
                          text=True).stdout
    (tmp_path / "principals").write_text(line)
    flags = ("--stream-key", str(tmp_path / "server.key"), "--principals", str(tmp_path / "principals"))
    servers = [make_server(*flags) for _ in range(2)]
    keys = {"server_key": tmp_path / "server.key", "client_key": tmp_path / "lab.key"}
    with contactd.connect(addresses(servers), timeout=TIMEOUT, **keys) as client:
        load = Load(client, 4, 20)
        assert [s["scenes"] for s in client.servers()] == [2, 2]
        load.run(servers[0].kill, 5)
        assert [s["scenes"] for s in client.servers()] == [0, 4]


def test_probe_tells_who_is_there(three):
    dead = f"tcp://127.0.0.1:{free_port()}"
    answers = _servers.probe([three[0].stream, dead], keys_of(None, None), 30 * SLOW)
    assert answers[0]["ready"] and isinstance(answers[1], contactd.UnreachableError)


# ---- the C client, which uses one of them at a time ----


PIPE_BYTES = 4096
SLACK = 3 * PIPE_BYTES // 80  # rows that settle can be ahead of its reader: in the pipe, its own buffer, and read at once


def settle(folder: pathlib.Path, address: str, steps: int, disturb=lambda: None, at: tuple[int, ...] = ()) -> list[list[str]]:
    """All its rows but for the times, of boxes that fall on a plate. Calls `disturb` when each of the rows `at` has come. It writes
    into a pipe, which is full if that takes long, so it is then at most SLACK rows further."""
    box = folder / "box.obj"
    box.write_text(as_obj(*UNIT_BOX))
    read, write = os.pipe()
    assert fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, PIPE_BYTES) == PIPE_BYTES == os.fstat(read).st_blksize
    command = [str(BUILD / "examples" / "settle"), "--server", address, "--steps", str(steps), "--resolution", "16",
               "--mesh-a", str(box), "--csv", f"/dev/fd/{write}"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               pass_fds=[write])
    os.close(write)
    text = b""
    try:
        while part := os.read(read, PIPE_BYTES):
            text += part
            if at and text.count(b"\n") > at[0]:
                at = at[1:]
                disturb()
    finally:
        os.close(read)
    said = process.communicate(timeout=120 * SLOW)[1]
    assert process.returncode == 0, said
    names, *rows = [line.split(",") for line in text.decode().splitlines()]
    assert len(rows) == steps and not at
    assert len(text) > 80 * steps  # else SLACK is too small
    return [[row[names.index(name)] for name in ("step", "contacts", "volume", "force")] for row in rows]


def used(servers) -> list[Server]:
    """Those that have scenes."""
    return [s for s in servers if s.alive() and Api(s.http).gauge("contactd_scenes") > 0]


@pytest.mark.parametrize("ending", ["kill", "drain"])
def test_c_client_goes_to_the_next(three, tmp_path, ending):
    first, second = 20, 20 + SLACK + 2
    steps = second + SLACK + 10
    calm = settle(tmp_path, three[0].stream, steps)
    assert any(float(volume) > 0 for _, _, volume, _ in calm)

    def end_it() -> None:
        (server,) = used(three)
        server.kill() if ending == "kill" else server.stop(60)

    assert settle(tmp_path, ",".join(addresses(three)), steps, end_it, (first, second)) == calm
    assert sum(s.alive() for s in three) == 1


def ctl(address: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(BUILD / "contactctl"), "--server", address, "--timeout", str(20 * SLOW), "-o", "json", "status"],
                          capture_output=True, text=True, timeout=120 * SLOW)


def test_contactctl_takes_several(three, tmp_path):
    dead = f"tcp://127.0.0.1:{free_port()}"
    for _ in range(4):  # each run has an order of its own
        done = ctl(f"{dead},{three[0].stream}")
        assert done.returncode == 0, done.stderr
    (tmp_path / "list").write_text(f"# servers\n{dead}\n{three[0].stream}\n")
    assert ctl(f"file:{tmp_path}/list").returncode == 0
    folder = tmp_path / "endpoints"
    folder.mkdir()
    (folder / "3.0").write_text(three[0].stream + "\n")
    (folder / "3.1.tmp").write_text("half")
    assert ctl(f"file:{folder}").returncode == 0
    assert ctl(three[0].stream.replace("tcp:", "dns:")).returncode == 0
    done = ctl(f"file:{tmp_path}/nowhere")
    assert done.returncode == 2 and "No such file" in done.stderr
