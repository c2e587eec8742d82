#!/usr/bin/env python3
"""contactd_ray - contactd's servers as Ray actors, and a pool that has as many of them as the work needs.

    import ray, contactd, contactd_ray

    ray.init()
    pool = contactd_ray.ServerPool("/home/me/endpoints", least=1, most=8, num_gpus=1,
                                   options={"stream_key": "/home/me/server.key", "principals": "/home/me/principals"})
    pool.adjust()                                             # call it every few seconds, or pool.run(stop)
    contactd.connect("file:/home/me/endpoints", server_key=..., client_key=...)

As a program it runs a pool until SIGTERM or SIGINT: contactd_ray.py --help.

Each actor owns one server and writes its address into a file of its own in the folder as soon as the server can be used; the
file goes before the server does. All nodes must see the folder. Nodes need the program contactd, but not this module.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import ray
from ray import cloudpickle

HEALTH_S = 5.0  # between two looks at a server's health, and the longest wait for its answer
HUNG_LOOKS = 12  # in a row without an answer: the server hangs
ANSWER_S = 10.0  # a pool's wait for its actors
NAME = re.compile(r"[A-Za-z0-9_-]+")

# The new process runs this and becomes the server; preexec_fn is not safe in the actor's process, which has threads. The server
# gets listening sockets as from systemd (sd_listen_fds), so its ports are known at once. It dies with the actor: Ray starts the
# actor again, and two servers cannot have one state folder.
EXEC = """
import ctypes, fcntl, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
if os.getppid() != int(sys.argv[1]):
    sys.exit("the actor ended before its server began")
given = [int(fd) for fd in sys.argv[2:4]]
kept = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 16) for fd in given]
for fd in given:
    os.close(fd)
for number, fd in enumerate(kept, 3):
    os.dup2(fd, number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="2", LISTEN_FDNAMES="stream:http")
os.execv(sys.argv[4], sys.argv[4:])
"""


class ContactdServer:
    """Starts a server and owns it; an actor when `start_server` makes it. A server that ends unasked, or hangs, ends the actor,
    and Ray starts both again (max_restarts) with the same name and options.

    folder      where the file with the address goes
    name        of the file: letters, digits, - and _; no other server of the folder has it
    host        the address to listen on and to publish; None: the node's own, which takes keys (or the option insecure)
    options     the server's options, named as in its configuration file: {"drain": "30s", "max-scenes": 100}
    state       a folder in which the server has its state folder, called `name`; None: meshes do not outlive the server
    command     the program, or where it is

    The number of threads is the actor's num_cpus, and the backend is cuda if Ray gave it a GPU, else cpu; options say otherwise.
    Raises ValueError for wrong arguments and RuntimeError, with the exit code, for a server that does not start.
    """

    def __init__(self, folder: str, name: str, host: str | None = None, options: Mapping[str, object] | None = None,
                 state: str | None = None, command: str = "contactd") -> None:
        if not NAME.fullmatch(name):
            raise ValueError(f"name: {name!r} is no file name of letters, digits, - and _")
        program = shutil.which(command)
        if program is None:
            raise ValueError(f"command: there is no program {command!r} on {socket.gethostname()}")
        self._file = pathlib.Path(folder) / name
        self._successors = pathlib.Path(folder) / f".{name}.successors"
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._withdraw()  # what an actor left that was killed
        self._is_draining = False
        if state is not None:
            pathlib.Path(state).mkdir(parents=True, exist_ok=True)
        host = host or ray.util.get_node_ip_address()
        with listen_at(host) as stream, listen_at("127.0.0.1") as http:
            self._address = f"tcp://[{host}]:{port_of(stream)}" if ":" in host else f"tcp://{host}:{port_of(stream)}"
            self._http = f"http://127.0.0.1:{port_of(http)}"
            fds = stream.fileno(), http.fileno()
            self._process = subprocess.Popen([sys.executable, "-I", "-S", "-c", EXEC, str(os.getpid()), *map(str, fds), program],
                                             stdin=subprocess.DEVNULL, pass_fds=fds, env=self._environment(options or {}, state))
        while not self._answers("/readyz"):
            if (code := self._process.poll()) is not None:
                raise RuntimeError(f"contactd ended with exit code {code} before it could be used; its log says why")
            time.sleep(0.02)
        self._publish()
        threading.Thread(target=self._watch, name="contactd's watch", daemon=True).start()

    def _environment(self, options: Mapping[str, object], state: str | None) -> dict[str, str]:
        given = {"CONTACTD_" + key.upper().replace("-", "_"): str(value) for key, value in options.items()}
        context = ray.get_runtime_context()
        gpus = context.get_accelerator_ids().get("GPU", [])
        if given.get("CONTACTD_BACKEND") == "cuda" and not gpus:
            raise ValueError("options: the backend is cuda, but Ray gave this actor no GPU; start it with num_gpus=1")
        cpus = context.get_assigned_resources().get("CPU", 1)
        chosen = {"CONTACTD_BACKEND": "cuda" if gpus else "cpu", "CONTACTD_THREADS": str(max(1, int(cpus))),
                  "CONTACTD_HTTP_METRICS": "open", "CONTACTD_SUCCESSOR": f"file:{self._successors}"}
        if state is not None:
            chosen["CONTACTD_STATE_DIR"] = os.path.join(state, self._file.name)
        rest = {key: value for key, value in os.environ.items() if not key.startswith("CONTACTD_")}
        return rest | chosen | given

    def address(self) -> str:
        return self._address

    def pid(self) -> int:
        """Of the server."""
        return self._process.pid

    def load(self) -> dict[str, float]:
        """What /metrics says: queue_depth, the commands that wait, and scenes, those that are open."""
        with urllib.request.urlopen(self._http + "/metrics", timeout=ANSWER_S) as answer:
            found = dict(re.findall(r"^contactd_(queue_depth|scenes) (\S+)", answer.read().decode(), re.M))
        return {"queue_depth": float(found["queue_depth"]), "scenes": float(found["scenes"])}

    def drain(self) -> int:
        """Ends the server: takes its address away, tells its clients where to go, waits until what is queued is answered (the
        option drain), and returns the exit code."""
        self._is_draining = True
        self._withdraw()
        others = [file for file in self._file.parent.iterdir() if NAME.fullmatch(file.name)]
        self._successors.write_text("".join(map(read_if_there, others)))
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait()
        self._successors.unlink(missing_ok=True)
        return code

    def __ray_shutdown__(self) -> None:
        """Ray calls this when it ends the actor in its own time, as when the last handle goes, or __init__ has failed."""
        if (process := getattr(self, "_process", None)) and process.poll() is None:
            self.drain()

    def _watch(self) -> None:
        silent = 0
        while self._process.poll() is None:
            try:
                self._process.wait(HEALTH_S)
            except subprocess.TimeoutExpired:
                silent = 0 if self._is_draining or self._answers("/healthz") else silent + 1
                if silent == HUNG_LOOKS:
                    print(f"contactd at {self._address} hangs and is killed", file=sys.stderr)
                    self._process.kill()
        if not self._is_draining:
            self._withdraw()
            print(f"contactd at {self._address} ended with exit code {self._process.returncode}", file=sys.stderr, flush=True)
            os._exit(1)  # Ray takes it for a crash, and starts the actor again

    def _answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(self._http + path, timeout=HEALTH_S) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _publish(self) -> None:
        # Clients pass over a name that begins with a dot: a file that is being written.
        new = self._file.with_name(f".{self._file.name}.new")
        new.write_text(self._address + "\n")
        new.rename(self._file)

    def _withdraw(self) -> None:
        self._file.unlink(missing_ok=True)
        self._successors.unlink(missing_ok=True)


def listen_at(host: str) -> socket.socket:
    """A listening socket with a port that the system chooses."""
    return socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1024)


def port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


def read_if_there(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def start_server(folder: str | os.PathLike[str], name: str, *, num_cpus: float = 1, num_gpus: float = 0, max_restarts: int = -1,
                 resources: Mapping[str, float] | None = None, **arguments: Any) -> Any:
    """The handle of an actor with a server, which Ray starts as soon as a node has room for it. `arguments` are
    ContactdServer's. Call its drain() before ray.kill: a server dies with its actor."""
    if __name__ in sys.modules and __name__ != "__main__":
        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes need not have this file
    return ray.remote(ContactdServer).options(num_cpus=num_cpus, num_gpus=num_gpus, max_restarts=max_restarts,
                                              resources=dict(resources or {})).remote(os.fspath(folder), name, **arguments)


class ServerPool:
    """Between `least` and `most` servers, by the commands that wait in their queues. Not safe for several threads.

    prefix         of the servers' names, which end in a number; pools that share a folder have different ones
    busy           commands that wait in a server, on average, above which there is one server more
    quiet_looks    calls of adjust() in a row in which nothing waits anywhere, after which there is one less
    arguments      of start_server
    """

    def __init__(self, folder: str | os.PathLike[str], *, prefix: str = "ray-", least: int = 1, most: int = 4, busy: float = 8.0,
                 quiet_looks: int = 12, **arguments: Any) -> None:
        if not 1 <= least <= most:
            raise ValueError(f"least, most: expected 1 <= least <= most, got {least} and {most}")
        self.folder, self.prefix = pathlib.Path(folder), prefix
        self.least, self.most, self.busy, self.quiet_looks = least, most, busy, quiet_looks
        self.servers: dict[str, Any] = {}  # actors by name, the oldest first
        self._arguments = arguments
        self._asked: dict[str, Any] = {}  # the question about its load that a server has not answered yet
        self._quiet = 0

    def adjust(self) -> int:
        """Looks at the queues, and starts or drains at most one server beyond `least`. Returns how many servers can be used.
        Raises RayActorError if a server ended for good and no other is left, as with wrong options."""
        loads = self._loads()
        while len(self.servers) < self.least:
            self._add()
        waiting = sum(load["queue_depth"] for load in loads.values())
        self._quiet = self._quiet + 1 if waiting == 0 else 0
        # One that starts counts as help to come; Ray's autoscaler may have to find it a node first.
        if len(loads) == len(self.servers) < self.most and waiting > self.busy * len(loads):
            self._add()
        elif self._quiet >= self.quiet_looks and len(loads) > self.least:
            self._quiet = 0
            name = [name for name in self.servers if name in loads][-1]
            self.remove(name)
            del loads[name]
        return len(loads)

    def remove(self, name: str) -> int:
        """Drains a server and ends its actor. Returns the server's exit code."""
        actor = self.servers.pop(name)
        self._asked.pop(name, None)
        code = int(ray.get(actor.drain.remote()))
        ray.kill(actor)
        print(f"{name} has drained and ended with exit code {code}: {len(self.servers)} servers", file=sys.stderr)
        return code

    def run(self, stop: threading.Event, every: float = 5.0) -> None:
        """Calls adjust() every so many seconds until `stop` is set, then close()."""
        try:
            while not stop.is_set():
                self.adjust()
                stop.wait(every)
        finally:
            self.close()

    def close(self) -> None:
        """Drains all servers at once and ends their actors. One that does not start within ANSWER_S is not waited for."""
        asked = {actor.address.remote(): actor for actor in self.servers.values()}
        started = ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER_S)[0] if asked else []
        drains = [asked[ref].drain.remote() for ref in started]
        if drains:
            ray.wait(drains, num_returns=len(drains))
        for actor in self.servers.values():
            ray.kill(actor)
        if asked:
            ray.wait(list(asked), num_returns=len(asked))
        for name in self.servers:
            (self.folder / name).unlink(missing_ok=True)
        self.servers.clear()
        self._asked.clear()

    def _add(self) -> None:
        name = next(name for i in itertools.count(1) if (name := f"{self.prefix}{i}") not in self.servers)
        self.servers[name] = start_server(self.folder, name, **self._arguments)
        print(f"{name} starts: {len(self.servers)} servers", file=sys.stderr)

    def _loads(self) -> dict[str, dict[str, float]]:
        """Of each server that can be used. Those that start, or start again, are not waited for longer than ANSWER_S."""
        for name in self.servers.keys() - self._asked.keys():
            self._asked[name] = self.servers[name].load.remote()
        refs = list(self._asked.values())
        done = set(ray.wait(refs, num_returns=len(refs), timeout=ANSWER_S)[0]) if refs else set()
        loads = {}
        for name in [name for name, ref in self._asked.items() if ref in done]:
            try:
                loads[name] = ray.get(self._asked.pop(name))
            except ray.exceptions.ActorUnavailableError:
                pass  # Ray starts it again
            except ray.exceptions.RayActorError as error:
                self._forget(name, error)
            except ray.exceptions.RayTaskError as error:
                print(f"{name} does not tell its load: {error}", file=sys.stderr)
        return loads

    def _forget(self, name: str, error: Exception) -> None:
        print(f"{name} has ended for good: {error}", file=sys.stderr)
        del self.servers[name]
        (self.folder / name).unlink(missing_ok=True)
        if not self.servers:
            raise error


def main() -> None:
    arguments = argparse.ArgumentParser(description="A pool of contactd's servers on a Ray cluster, by the length of their "
                                        "queues. SIGTERM and SIGINT drain it.")
    arguments.add_argument("folder", help="where the addresses are written; clients connect to file:FOLDER")

    def add(flag: str, default: Any, what: str) -> None:
        shown = "FOLDER" if flag == "--state" else "N" if isinstance(default, (int, float)) else "TEXT"
        arguments.add_argument(flag, default=default, type=type(default) if default is not None else str, metavar=shown,
                               help=what + (" [%(default)s]" if default is not None else ""))

    add("--address", "auto", "of the cluster")
    add("--least", 1, "servers")
    add("--most", 4, "servers")
    add("--busy", 8.0, "commands waiting in a server, on average, that call for one more")
    add("--every", 5.0, "seconds between two looks at the queues")
    add("--quiet-looks", 12, "looks in a row at empty queues that call for one less")
    add("--cpus", 1.0, "processors of a server, and its threads")
    add("--gpus", 0.0, "GPUs of a server")
    add("--prefix", "ray-", "of the servers' names; pools that share a folder have different ones")
    add("--state", None, "where each server has a state folder")
    add("--host", None, "the address to listen on; without: each node's own")
    add("--command", "contactd", "the program")
    arguments.add_argument("--option", action="append", default=[], metavar="NAME=VALUE",
                           help="of the servers, as in their configuration file; repeatable")
    given = arguments.parse_args()
    if wrong := [option for option in given.option if "=" not in option]:
        arguments.error(f"--option {wrong[0]}: expected NAME=VALUE")
    ray.init(address=given.address)
    stop = threading.Event()
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda *_: stop.set())
    ServerPool(given.folder, prefix=given.prefix, least=given.least, most=given.most, busy=given.busy,
               quiet_looks=given.quiet_looks, num_cpus=given.cpus, num_gpus=given.gpus, host=given.host, state=given.state,
               command=given.command, options=dict(option.split("=", 1) for option in given.option)).run(stop, given.every)


if __name__ == "__main__":
    main()
