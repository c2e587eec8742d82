#!/usr/bin/env python3
"""hostile.py - what a server does with scenes that make steps long (tests/scenes/hostile.h), and what it is like for others meanwhile.

    hostile.py [--build DIR] [--base DIR] [--tools DIR] [--only REGEX] [--bytes N] [--give-up S] [--json FILE]

For each scene a server is started, and another one of --base, the build/ folder of another tree, in turns with it. One client runs the
scene; others are a neighbour who steps two boxes 200 times a second, and one who asks for /healthz. Prints for each:

    step       how long it took and what it answered; memory: the server's before, at most, and after the scene was closed
    neighbour  the steps' median, 99th percentile and maximum; probe: the worst answer, and what was not 200
    large      another client's step of some milliseconds: alone, and beside the scene's
    deadline   a step with a time limit of 1 s by its client: when the server was done with it, from the limit on
    killed     the scene's client is killed: when the server was done with it
    closed     the scene is closed by another client: when that was answered, and when the server was done
    SIGTERM    when the server ended, and how

"Done" is when the server needs no processor time any more. What takes longer than --give-up is shown as a lower bound, and the server is
killed. --bytes makes all scenes so large. Needs bench_hostile in the build folder, or in --tools.
"""
from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "client_py"), str(ROOT / "client_py" / "examples"), str(ROOT / "tests" / "bench")]

import contactd  # noqa: E402
import numpy as np  # noqa: E402
import shapes  # noqa: E402
from programs import free_port  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")
DEADLINE = 1.0  # s
DRAIN = 2  # s

# Name: kind, triangles of a body, place, settings of the scene. More bodies than two are a crowd.
SCENES: dict[str, tuple] = {
    "two boxes": ("cloud", 12, "aside", {}),
    "combs of 160, patches": ("comb", 640, "pair", {"patches": True}),
    "combs of 330, patches": ("comb", 1320, "pair", {"patches": True}),
    "checkerboard of 3600, patches": ("checkerboard", 43200, "pair", {"patches": True}),
    "brush of 4000, patches": ("brush", 16000, "pair", {"patches": True}),
    "cloud of 10000, patches": ("cloud", 120000, "pair", {"patches": True}),
    "stars of 2000": ("star", 8000, "pair", {}),
    "stars of 4000": ("star", 16000, "pair", {}),
    "layers of 400": ("layers", 4800, "same", {}),
    "layers of 1500": ("layers", 18000, "same", {}),
    "ball of 82k, same place": ("ball", 81920, "same", {}),
    "ball of 82k, aside": ("ball", 81920, "aside", {}),
    "margin over 1000": ("layers", 12, 1000, {"margin": 1e9}),
    "needles of 16000": ("needles", 64000, "pair", {}),
    "needles of 20000": ("needles", 80000, "pair", {}),
    "voxtree of 10000 needles": ("needles", 40000, "pair", {"method": "voxtree", "voxel_level": 8}),
    "ebpi strict": ("ball", 1280, "aside", {"method": "ebpi", "strict": True, "tolerance": 1e-6, "ray_budget": 1 << 22}),
    "ldi of 4096": ("ball", 5120, "aside", {"method": "ldi", "resolution": 4096}),
    "fan of 10000": ("fan", 20000, "pair", {}),
    "crumpled": ("crumpled", 20480, "pair", {}),
    "permutohedra": ("permutohedra", 44000, "same", {"patches": True}),
    "sponge": ("sponge", 40000, "pair", {"patches": True}),
    "star with itself": ("star", 8000, "self", {}),
    "crumpled with itself": ("crumpled", 20480, "self", {}),
    "picture of 4096": ("ball", 81920, "aside", {"picture": "width=4096&height=4096"}),
    "picture of samples": ("ball", 5120, "aside", {"picture": "resolution=4096&show=samples"}),
}
for kind in ("slivers", "spiral", "knot", "shells", "sheet", "specks", "saw", "cantor", "inside_out", "mixture"):
    SCENES[kind] = (kind, 40000, "pair", {"patches": True})


def shape_of(tools: pathlib.Path, kind: str, triangles: int, variant: int) -> tuple[np.ndarray, np.ndarray]:
    done = subprocess.run([str(tools / "tests/bench/bench_hostile"), "shape", kind, str(triangles), str(variant)], stdout=subprocess.PIPE, check=True)
    n_vertices, n_triangles = np.frombuffer(done.stdout, np.uint32, 2)
    positions = np.frombuffer(done.stdout, np.float32, 3 * n_vertices, 8)
    return positions.reshape(-1, 3), np.frombuffer(done.stdout, np.uint32, 3 * n_triangles, 8 + 12 * int(n_vertices)).reshape(-1, 3)


def moved(x: float, y: float = 0, z: float = 0) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, 3] = x, y, z
    return pose


# ---- clients, each a process of its own ----

def run_scene(address: str, http: str, tools: pathlib.Path, spec: tuple, timeout: float, say, hear) -> None:
    """Makes the scene, says how that went, and steps whenever it hears so."""
    kind, triangles, place, settings = spec
    settings = dict(settings)
    picture = settings.pop("picture", None)
    bodies = place if isinstance(place, int) else 1 if place == "self" else 2
    meshes = [shape_of(tools, kind, triangles, variant) for variant in range(1 + (place == "pair"))]
    began = time.monotonic()
    try:
        client = contactd.connect(address, timeout=120)
        say.send(("connected", began, ""))
        first, *others = [client.register_mesh(*mesh) for mesh in meshes]
        second = others[0] if others else first
        scene = client.open_scene(**({"method": "exact"} | settings))
        rng = np.random.default_rng(1)
        for i in range(bodies):
            pose = moved(0.01, 0.013, 0.016) if place == "aside" and i else np.eye(4)
            if isinstance(place, int):
                pose = moved(*30 * rng.normal(size=3))
            scene.add_body(second if i % 2 else first, pose=pose, self_contact=place == "self")
    except contactd.ContactdError as error:
        say.send(("failed", time.monotonic() - began, str(error)))
        return
    say.send(("opened", time.monotonic() - began, scene.id))
    while (what := hear.recv()) is not None:
        began = time.monotonic()
        try:
            if picture:
                urllib.request.urlopen(f"http://{http}/v1/scenes/{scene.id}/snapshot.png?{picture}", timeout=what).read()
                said = "a picture"
            else:
                result = scene.step(want="frame", timeout=what)
                said = f"{len(result.contacts)} contacts, {len(result.separations)} separations"
        except urllib.error.HTTPError as error:
            said = f"{error.code} {error.read().decode()[:200]}"
        except (contactd.ContactdError, OSError) as error:
            said = f"{type(error).__name__}: {error}"
        say.send(("stepped", time.monotonic() - began, said))
    began = time.monotonic()
    scene.close()
    client.close()
    say.send(("closed", time.monotonic() - began, ""))


def run_steps(address: str, level: int, pause: float, say, stop) -> None:
    """Two bodies, boxes or balls of this level: says when each step began, and how long it took."""
    client = contactd.connect(address, timeout=600)
    mesh = client.register_mesh(*(shapes.icosphere(1.0, level) if level else shapes.box((0, 0, 0), (1, 1, 1))))
    scene = client.open_scene(method="exact")
    scene.add_body(mesh)
    other = scene.add_body(mesh, pose=moved(0.5))
    waits: list[tuple[float, float]] = []
    for i in range(20):
        scene.step(poses={other: moved(0.5 + 1e-3 * i)}, want="frame")
    say.send(None)
    due = time.monotonic()
    while not stop.is_set():
        began = time.monotonic()
        scene.step(poses={other: moved(0.5 + 1e-3 * (len(waits) % 100))}, want="frame")
        waits.append((began, time.monotonic() - began))
        due = max(due + pause, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    say.send(waits)


def run_probe(http: str, say, stop) -> None:
    worst, codes = 0.0, {}
    while not stop.is_set():
        began = time.monotonic()
        try:
            code = urllib.request.urlopen(f"http://{http}/healthz", timeout=30).status
        except urllib.error.HTTPError as error:
            code = error.code
        except OSError as error:
            code = type(error).__name__
        worst = max(worst, time.monotonic() - began)
        codes[str(code)] = codes.get(str(code), 0) + 1
        time.sleep(0.1)
    say.send((worst, codes))


class Aside:
    """A process that measures until it is asked for what it found."""

    def __init__(self, run, *args):
        self.hear, say = SPAWN.Pipe(False)
        self.stop = SPAWN.Event()
        self.process = SPAWN.Process(target=run, args=(*args, say, self.stop), daemon=True)
        self.process.start()

    def ready(self):
        if self.hear.poll(120):
            self.hear.recv()

    def end(self, give_up: float):
        self.stop.set()
        found = None
        try:
            if self.hear.poll(give_up):
                found = self.hear.recv()
        except EOFError:
            pass
        self.process.kill()
        self.process.join()
        return found


SPAWN = multiprocessing.get_context("spawn")


# ---- the server ----

class Server:
    def __init__(self, build: pathlib.Path, flags: list[str]):
        self.build, self.address, self.http = build, f"tcp://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        known = subprocess.run([str(build / "contactd"), "--print-config"], capture_output=True, text=True, check=True).stdout
        flags = [f for f in flags if f.split("=")[0][2:] + " = " in known]
        env = {k: v for k, v in os.environ.items() if not k.startswith("CONTACTD_")}
        self.log = tempfile.NamedTemporaryFile("w+", prefix="contactd-hostile-", suffix=".log")
        self.process = subprocess.Popen([str(build / "contactd"), "--stream", self.address, "--http", self.http, *flags], env=env,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://{self.http}/readyz", timeout=5).close()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"hostile.py: {build}/contactd is not ready after 60 s")

    def cpu(self) -> float:
        with open(f"/proc/{self.process.pid}/stat") as file:
            return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) / TICK

    def memory(self, what: str) -> float:
        """MiB; VmRSS: now, VmHWM: at most."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(next(line for line in file if line.startswith(what)).split()[1]) / 1024

    def until_idle(self, give_up: float) -> float | None:
        """s until it began to need less than a tenth of a processor; None: it did not."""
        began = time.monotonic()
        while time.monotonic() - began < give_up:
            at, before = time.monotonic(), self.cpu()
            time.sleep(0.2)
            if self.cpu() - before <= 0.02:
                return at - began
        return None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Hostile:
    def __init__(self, server: Server, tools: pathlib.Path, spec: tuple, timeout: float):
        self.hear, say = SPAWN.Pipe(False)
        hear, self.say = SPAWN.Pipe(False)
        self.process = SPAWN.Process(target=run_scene, args=(server.address, server.http, tools, spec, timeout, say, hear), daemon=True)
        self.process.start()
        self.began = self.next(60)[1]  # of its first message to the server
        self.opened = self.next(300)

    def next(self, timeout: float):
        try:
            return self.hear.recv() if self.hear.poll(timeout) else ("silent", timeout, "no answer")
        except EOFError:
            return "silent", 0, "its client ended"

    def step(self, timeout: float):
        self.say.send(timeout)

    def end(self):
        self.process.kill()
        self.process.join()


# ---- what is measured ----

def milliseconds(seconds: float | None, give_up: float) -> str:
    return f"> {1e3 * give_up:.0f} ms" if seconds is None else f"{1e3 * seconds:.1f} ms"


def quantiles(waits: list[tuple[float, float]] | None, since: float = 0) -> str:
    ms = 1e3 * np.array([wait for began, wait in waits or () if began + wait >= since])
    if not len(ms):
        return "no step was answered"
    return f"p50 {np.median(ms):.2f} ms, p99 {np.quantile(ms, 0.99):.2f} ms, max {ms.max():.1f} ms ({len(ms)} steps)"


def measure_step(found: dict, args: argparse.Namespace, build: pathlib.Path, spec: tuple) -> float:
    server = Server(build, args.flags)
    try:
        neighbour, probe = Aside(run_steps, server.address, 0, 0.005), Aside(run_probe, server.http)
        neighbour.ready()
        before = server.memory("VmRSS")
        scene = Hostile(server, args.tools, spec, args.give_up)
        what, took, said = scene.opened
        found["open"] = f"{took:.2f} s" + ("" if what == "opened" else f": {said}")
        if what == "opened":
            cpu = server.cpu()
            scene.step(args.give_up)
            _, took, said = scene.next(2 * args.give_up + 30)
            found["step"] = f"{1e3 * took:.1f} ms: {said[:300]}"
            time.sleep(0.3)
            found["step_cpu"] = f"{server.cpu() - cpu:.2f} s with its neighbour's"
        waits, probed = neighbour.end(args.give_up), probe.end(args.give_up)
        found["neighbour"] = quantiles(waits, scene.began)
        found["probe"] = "no answer" if not probed else f"worst {1e3 * probed[0]:.0f} ms, {probed[1]}"
        if what == "opened":
            scene.say.send(None)
            scene.next(args.give_up)
            time.sleep(0.5)
        found["memory"] = f"{before:.0f} MiB before, {server.memory('VmHWM'):.0f} at most, {server.memory('VmRSS'):.0f} after"
        scene.end()
        return took
    finally:
        server.kill()


def measure_large(found: dict, args: argparse.Namespace, build: pathlib.Path, spec: tuple) -> None:
    server = Server(build, args.flags)
    try:
        scene = Hostile(server, args.tools, spec, args.give_up)
        if scene.opened[0] != "opened":
            return
        alone = Aside(run_steps, server.address, 6, 0)
        alone.ready()
        time.sleep(1)
        alone_ms = quantiles(alone.end(args.give_up))
        beside = Aside(run_steps, server.address, 6, 0)
        beside.ready()
        scene.step(args.give_up)
        _, took, _ = scene.next(2 * args.give_up)
        found["large"] = f"alone {alone_ms}; beside {quantiles(beside.end(args.give_up))} while it took {took:.1f} s"
        scene.end()
    finally:
        server.kill()


def measure_end(found: dict, args: argparse.Namespace, build: pathlib.Path, spec: tuple, how: str) -> None:
    server = Server(build, [*args.flags, "--spin-us=0"])
    try:
        scene = Hostile(server, args.tools, spec, args.give_up)
        if scene.opened[0] != "opened":
            return
        scene.step(DEADLINE if how == "deadline" else args.give_up)
        time.sleep(0.5)
        if how == "deadline":
            time.sleep(max(0, DEADLINE - 0.5))
            done = server.until_idle(args.give_up)
            _, took, said = scene.next(args.give_up)
            found[how] = f"answered after {1e3 * took:.0f} ms ({said[:300]}), done {milliseconds(done, args.give_up)} after the limit"
        elif how == "killed":
            scene.end()
            found[how] = f"done after {milliseconds(server.until_idle(args.give_up), args.give_up)}"
        elif how == "closed":
            began = time.monotonic()
            try:
                subprocess.run([str(build / "contactctl"), "--server", server.address, "scene", "close", str(scene.opened[2])],
                               capture_output=True, timeout=args.give_up, check=False)
                took = time.monotonic() - began
            except subprocess.TimeoutExpired:
                took = None
            done = server.until_idle(args.give_up)
            found[how] = f"answered after {milliseconds(took, args.give_up)}, done {milliseconds(done, args.give_up)} later"
        else:
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            try:
                server.process.wait(args.give_up)
                found[how] = f"ended with {server.process.returncode} after {time.monotonic() - began:.2f} s (drain {DRAIN} s)"
            except subprocess.TimeoutExpired:
                found[how] = f"still there after {args.give_up:.0f} s"
        scene.end()
    finally:
        server.kill()


def measure(name: str, args: argparse.Namespace, build: pathlib.Path) -> dict:
    found: dict = {"scene": name, "build": str(build)}
    spec = SCENES[name]
    if args.bytes and not isinstance(spec[2], int):
        spec = (spec[0], max(spec[1], args.bytes // 80), *spec[2:])
    print(f"-- {name}: {build}", flush=True)
    took = measure_step(found, args, build, spec)
    if took > 1 and not args.short:  # else it is over before it could be ended
        for how in ("deadline", "killed", "closed", "SIGTERM"):
            measure_end(found, args, build, spec, how)
        measure_large(found, args, build, spec)
    for key, value in found.items():
        if key not in ("scene", "build"):
            print(f"   {key:<10} {value}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--base", type=pathlib.Path, help="another build, measured in turns with the first")
    parser.add_argument("--tools", type=pathlib.Path, help="the build that has bench_hostile; default: --build")
    parser.add_argument("--only", default="", help="a regular expression that names must contain")
    parser.add_argument("--bytes", type=int, help="that the meshes of a scene have together, about")
    parser.add_argument("--give-up", type=float, default=30, help="s that anything may take")
    parser.add_argument("--short", action="store_true", help="the step and its neighbours alone")
    parser.add_argument("--max-step-time", default="10s", help="the server's, where it has one")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    args.tools = args.tools or args.build
    args.flags = [f"--max-step-time={args.max_step_time}", f"--drain={DRAIN}s", "--log-level=info"]
    rows = []
    for name in SCENES:
        if re.search(args.only, name):
            rows += [measure(name, args, build) for build in ([args.base] if args.base else []) + [args.build]]
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
