"""deploy/ray, run by a real Ray that is started here: one node of two processors and a GPU, which Ray
believes in and this machine need not have."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Iterator

import needs
import pytest

ray = pytest.importorskip("ray", reason="not installed: ray; make setup-test")
sys.path.insert(0, str(needs.ROOT / "deploy" / "ray"))

import contactd  # noqa: E402
import contactd_ray  # noqa: E402
from conftest import BUILD, PATIENCE, binaries, wait_until  # noqa: E402, F401
from geometry import UNIT_BOX, blob, moved  # noqa: E402

TIMEOUT = 5 * PATIENCE  # what is waited for here starts several processes, each of which imports Ray
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",  # what other tests take of the memory is no reason to kill an actor
    "RAY_health_check_failure_threshold": "100",  # a busy machine is no dead one
    "RAY_raylet_start_wait_time_s": str(int(2 * PATIENCE)),  # whether its node starts, or has crashed
    "RAY_worker_register_timeout_seconds": str(int(TIMEOUT)),
}
wait_for = functools.partial(wait_until, seconds=TIMEOUT)


def processes_of(folder: str) -> dict[int, str]:
    """Numbers and command lines of the processes that have files open in Ray's folder: Ray's own, its workers, and servers,
    whose log goes where their worker's goes."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) != os.getpid() and any(os.readlink(fd).startswith(folder) for fd in (process / "fd").iterdir()):
                found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended just now
    return found


def start_ray(folder: str) -> None:
    """Ray's node waits 15 s for each port of its agent, which imports much until it tells them, and crashes then. No setting
    changes that, and what had been started stays."""
    for is_last in (False, False, True):
        try:
            ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, object_store_memory=80 << 20, _temp_dir=folder,
                     configure_logging=False)  # fmt: skip
            return
        except Exception as error:  # Ray has no type of its own for it
            if is_last or "timed out during startup" not in str(error):
                raise
            ray.shutdown()
            for pid in processes_of(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster(binaries) -> Iterator[None]:
    # Not pytest's folder: names of Unix sockets in it would be too long.
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    with pytest.MonkeyPatch.context() as patch:
        for key, value in SETTINGS.items():
            patch.setenv(key, value)
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else Ray writes one into the home folder
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        try:
            start_ray(folder)
            assert len(processes_of(folder)) > 1  # else it would not notice what is left
            yield
        finally:
            ray.shutdown()
            wait_for(lambda: not processes_of(folder), "the end of all of Ray's processes")
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def folder(cluster, tmp_path) -> pathlib.Path:
    return tmp_path / "endpoints"


def start(folder: pathlib.Path, name: str, **more):
    return contactd_ray.start_server(folder, name, **({"host": "127.0.0.1", "command": str(BUILD / "contactd")} | more))


def new_pool(folder: pathlib.Path, **more) -> contactd_ray.ServerPool:
    return contactd_ray.ServerPool(folder, host="127.0.0.1", command=str(BUILD / "contactd"), **more)


def addresses(folder: pathlib.Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in folder.iterdir() if not path.name.startswith(".")}


def is_running(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Scenes:
    """Pairs of unit boxes. How far the second is moved tells the volume; the sequence tells a step that was lost or done
    twice."""

    def __init__(self, client: contactd.Client, n: int):
        mesh = client.register_mesh(*UNIT_BOX)
        self.scenes = [client.open_scene() for _ in range(n)]
        self.moving = []
        for scene in self.scenes:
            scene.add_body(mesh)
            self.moving.append(scene.add_body(mesh, pose=moved(0.5)))
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        x = 0.1 + 0.8 * (self.steps % 7) / 7
        futures = [scene.submit(poses={body: moved(x)}, timeout=TIMEOUT) for scene, body in zip(self.scenes, self.moving)]
        for future in futures:
            result = future.result(TIMEOUT)
            assert result.sequence == self.steps
            assert [contact.volume for contact in result.contacts] == [pytest.approx(1 - x, rel=1e-6)]


def test_scenes_are_spread_over_actors_and_a_killed_server_is_started_again(folder):
    actors = [start(folder, name, state=str(folder.parent / "state")) for name in ("a", "b")]
    first = dict(zip("ab", ray.get([actor.address.remote() for actor in actors])))
    assert addresses(folder) == first
    with contactd.connect(f"file:{folder}", timeout=TIMEOUT) as client:
        scenes = Scenes(client, 6)
        scenes.step()
        assert {s["address"]: s["scenes"] for s in client.servers()} == dict.fromkeys(first.values(), 3)
        assert ray.get(actors[0].load.remote())["scenes"] == 3
        os.kill(ray.get(actors[0].pid.remote()), signal.SIGKILL)
        for _ in range(20):
            scenes.step()
        wait_for(lambda: addresses(folder).get("a", first["a"]) != first["a"], "another address of a")
        again = addresses(folder)
        assert again["b"] == first["b"]

        def is_used() -> bool:
            scenes.step()
            scenes_on = {s["address"]: s["scenes"] for s in client.servers() if s["up"]}
            # It takes half of the buckets; how many of them have scenes differs with the ports.
            return scenes_on.keys() == set(again.values()) and all(scenes_on.values()) and sum(scenes_on.values()) == 6

        wait_for(is_used, "scenes on the server that Ray started again")
    assert (folder.parent / "state" / "a").is_dir()

    def is_back() -> bool:
        """Its server is reached before Ray says that the actor has started."""
        try:
            return ray.get(actors[0].address.remote()) == again["a"]
        except ray.exceptions.ActorUnavailableError:
            return False

    wait_for(is_back, "the actor that Ray has started again")
    assert [ray.get(actor.drain.remote()) for actor in actors] == [0, 0]
    assert list(folder.iterdir()) == []


def test_a_server_dies_with_its_actor(folder):
    actor = start(folder, "a", max_restarts=0)
    pid = ray.get(actor.pid.remote())
    assert is_running(pid)
    ray.kill(actor)
    wait_for(lambda: not is_running(pid), "the end of the server whose actor was killed")


def test_a_server_drains_when_ray_ends_its_actor(folder):
    actor = start(folder, "a")
    pid = ray.get(actor.pid.remote())
    del actor
    wait_for(lambda: not is_running(pid), "the end of the server whose actor nobody knows any more")
    wait_for(lambda: list(folder.iterdir()) == [], "the end of its address")


def test_a_pool_grows_and_shrinks_with_the_queues(folder):
    """No step is lost while servers come and go."""
    pool = new_pool(folder, least=1, most=2, busy=4, quiet_looks=3)
    try:
        wait_for(lambda: pool.adjust() == 1, "the first server")
        with contactd.connect(f"file:{folder}", timeout=TIMEOUT) as client:
            scenes = Scenes(client, 4)
            scenes.step()
            mesh = client.register_mesh(*blob(1.0, 4))
            crowds = [client.open_scene(resolution=256) for _ in range(4)]
            for crowd in crowds:
                for i in range(3):
                    crowd.add_body(mesh, pose=moved(0.5 * i))
            ended, failures = threading.Event(), []

            def work() -> None:
                futures = []
                try:
                    while not ended.is_set():
                        futures += [crowd.submit(timeout=TIMEOUT) for crowd in crowds]
                        if len(futures) > 40:
                            futures.pop(0).result(TIMEOUT)
                    for future in futures:
                        future.result(TIMEOUT)
                except Exception as e:
                    failures.append(e)

            thread = threading.Thread(target=work)
            thread.start()
            try:
                wait_for(lambda: pool.adjust() == 2, "a second server")
                wait_for(lambda: len([s for s in client.servers() if s["up"]]) == 2, "a client that knows both")
                assert set(addresses(folder)) == {"ray-1", "ray-2"}
            finally:
                ended.set()
                thread.join()
            assert not failures
            scenes.step()
            wait_for(lambda: pool.adjust() == 1, "one server again, when nothing waits")
            assert set(addresses(folder)) == {"ray-1"}
            for _ in range(5):
                scenes.step()
            wait_for(lambda: [s["scenes"] for s in client.servers() if s["up"]] == [8], "all scenes on one server")
    finally:
        pool.close()
    assert list(folder.iterdir()) == []


def test_the_program_runs_a_pool_until_it_is_told_to_end(folder, tmp_path):
    """Its actors find the module's code though only the driver has it."""
    address = ray.get_runtime_context().gcs_address
    program = needs.ROOT / "deploy" / "ray" / "contactd_ray.py"
    command = [sys.executable, program, folder, "--address", address, "--host", "127.0.0.1", "--command", BUILD / "contactd",
               "--least", "2", "--prefix", "p", "--option", "drain=20s"]  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        pool = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=tmp_path)
    try:
        wait_for(lambda: pool.poll() is not None or (folder.is_dir() and len(addresses(folder)) == 2), "two servers")
        assert pool.poll() is None, (tmp_path / "log").read_text()
        with contactd.connect(f"file:{folder}", timeout=TIMEOUT) as client:
            Scenes(client, 2).step()
    finally:
        pool.terminate()
        code = pool.wait(TIMEOUT)
    assert code == 0, (tmp_path / "log").read_text()
    assert list(folder.iterdir()) == []


def address_of(actor) -> str:
    """Or raises why there is none. Ray's own process may crash as it ends; until Ray has seen that, it calls the actor unavailable."""

    def found() -> str | None:
        try:
            return ray.get(actor.address.remote())
        except ray.exceptions.ActorUnavailableError:
            return None

    return wait_for(found, "an address, or why there is none")


def refused(folder: pathlib.Path, **more) -> str:
    actor = start(folder, "a", **more)
    with pytest.raises(ray.exceptions.RayActorError) as caught:
        address_of(actor)
    assert not list(folder.glob("*"))
    return str(caught.value)


def test_an_actor_with_a_gpu_computes_on_it_or_not_at_all(folder):
    actor = start(folder, "a", num_gpus=1)
    try:
        address = address_of(actor)
    except ray.exceptions.RayActorError as error:
        assert "exit code 4" in str(error)  # here is no GPU, or no CUDA in the server
    else:
        with contactd.connect(address, timeout=TIMEOUT) as client:
            assert client.status()["backend"].startswith("cuda")
        assert ray.get(actor.drain.remote()) == 0
    actor = start(folder, "b", num_gpus=1, options={"backend": "cpu"})
    with contactd.connect(ray.get(actor.address.remote()), timeout=TIMEOUT) as client:
        assert client.status()["backend"].startswith("cpu")
    assert ray.get(actor.drain.remote()) == 0


def test_what_cannot_be_started_is_refused(folder):
    assert "num_gpus=1" in refused(folder, options={"backend": "cuda"})
    assert "no program 'contactd-of-yore'" in refused(folder, command="contactd-of-yore")
    assert "exit code 2" in refused(folder, host="0.0.0.0")  # other machines could reach it, and there are no keys
    pool = new_pool(folder, options={"threads": "many"})

    def says_so() -> bool:
        try:
            pool.adjust()
            return False
        except ray.exceptions.RayActorError as error:
            return "exit code 2" in str(error)

    wait_for(says_so, "a pool that says why it has no server")
    assert pool.servers == {}
    with pytest.raises(ValueError, match="1 <= least <= most"):
        new_pool(folder, least=3, most=2)
