#!/usr/bin/env python3
"""servers.py - what many servers give a client: scene-steps per second with 1, 2 and 4 servers, the client's own cost of a
step, and how long steps wait when one of three servers is killed.

    servers.py [--build DIR] [--servers 1,2,4] [--scenes N] [--steps N] [--level N] [--json]

Each server computes with one thread on a processor of its own, as long as there are enough; the client runs on any. A scene is
a ball of 20 * 4^level triangles that overlaps a box, stepped by a pose. Steps of all scenes are kept in flight, two of each.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "client_py"), str(ROOT / "client_py" / "examples")]

import contactd  # noqa: E402
import numpy as np  # noqa: E402
import shapes  # noqa: E402

AHEAD = 2


def free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Server:
    def __init__(self, build: pathlib.Path, core: int):
        stream, http = free_ports(2)
        self.stream, self.core = f"tcp://127.0.0.1:{stream}", core
        env = {k: v for k, v in os.environ.items() if not k.startswith("CONTACTD_")}
        self.process = subprocess.Popen(
            [str(build / "contactd"), "--stream", self.stream, "--http", f"127.0.0.1:{http}", "--threads", "1", "--log-level", "error"],
            env=env, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{http}/readyz", timeout=5).close()
                return
            except OSError:
                time.sleep(0.02)
        raise SystemExit("servers.py: a server is not ready after 60 s")


def moved(x: float) -> np.ndarray:
    pose = np.eye(4)
    pose[0, 3] = x
    return pose


class Scenes:
    def __init__(self, client: contactd.Client, n: int, level: int):
        ball, box = client.register_mesh(*shapes.icosphere(1.0, level)), client.register_mesh(*shapes.box((0, 0, 0), (2, 2, 2)))
        self.all = []
        for i in range(n):
            scene = client.open_scene(name=f"scene {i}")
            scene.add_body(ball)
            self.all.append((scene, scene.add_body(box, pose=moved(0.5))))

    def run(self, steps: int, disturb=lambda k: None) -> list[float]:
        """Rounds of one step of each scene; when each step was answered."""
        flying, answered = [], []
        for k in range(steps):
            disturb(k)
            poses = moved(0.4 + 0.3 * (k % 17) / 17)
            flying.append([scene.submit(poses={body: poses}) for scene, body in self.all])
            while len(flying) > (AHEAD - 1 if k + 1 < steps else 0):
                for future in flying.pop(0):
                    future.result()
                    answered.append(time.monotonic())
        return answered


def measure(build: pathlib.Path, n: int, scenes: int, steps: int, level: int, connections: int | None) -> dict[str, float]:
    cores = sorted(os.sched_getaffinity(0))
    servers = [Server(build, cores[i % len(cores)]) for i in range(n)]
    try:
        address = [s.stream for s in servers] if n > 1 else servers[0].stream
        with contactd.connect(address, spin=0, connections=connections) as client:
            load = Scenes(client, scenes, level)
            load.run(max(4, steps // 10))
            cpu, began = time.process_time(), time.monotonic()
            load.run(steps)
            wall, cpu = time.monotonic() - began, time.process_time() - cpu
            return {"servers": n, "cores": min(n, len(cores)), "scenes": scenes, "steps_per_s": scenes * steps / wall,
                    "client_us_per_step": cpu / (scenes * steps) * 1e6}
    finally:
        for server in servers:
            server.process.terminate()
            server.process.wait()


def measure_kill(build: pathlib.Path, scenes: int, steps: int, level: int) -> dict[str, float]:
    """Of three servers, one is killed in the middle: the longest time without any answer, and for that all are there."""
    cores = sorted(os.sched_getaffinity(0))
    servers = [Server(build, cores[i % len(cores)]) for i in range(3)]
    killed: list[float] = []
    try:
        with contactd.connect([s.stream for s in servers], spin=0) as client:
            load = Scenes(client, scenes, level)

            def disturb(k: int) -> None:
                if k == steps // 2:
                    servers[1].process.kill()
                    servers[1].process.wait()
                    killed.append(time.monotonic())

            answered = load.run(steps, disturb)
            assert len(answered) == scenes * steps
            gaps = [b - a for a, b in zip(answered, answered[1:]) if b > killed[0]]
            after = answered[(steps // 2 + 1) * scenes - 1] - killed[0]  # of the first round sent after it
            return {"scenes": scenes, "longest_gap_s": max(gaps), "all_answered_s": after, "moves": client.moves}
    finally:
        for server in servers:
            server.process.terminate()
            server.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--servers", default="1,2,4")
    parser.add_argument("--scenes", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--connections", type=int, help="that the scenes are divided over; default: the client's")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = [measure(args.build, int(n), args.scenes, args.steps, args.level, args.connections) for n in args.servers.split(",")]
    kill = measure_kill(args.build, args.scenes, args.steps, args.level)
    if args.json:
        print(json.dumps({"rows": rows, "kill": kill}))
        return
    print(f"{'servers':>8} {'cores':>6} {'scene-steps/s':>14} {'client us/step':>15}")
    for row in rows:
        print(f"{row['servers']:>8} {row['cores']:>6} {row['steps_per_s']:>14.0f} {row['client_us_per_step']:>15.1f}")
    print(f"one of three killed under load: the longest time without an answer is {kill['longest_gap_s']:.2f} s; "
          f"{kill['all_answered_s']:.2f} s after the kill all {args.scenes} scenes have stepped again")


if __name__ == "__main__":
    main()
