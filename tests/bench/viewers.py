#!/usr/bin/env python3
"""viewers.py - what it costs that a scene is watched: the server's processor time, and how long the simulator's steps take, with
viewers and without them.

    viewers.py [--build DIR] [--viewers N] [--bodies N] [--rate N] [--seconds S] [--turns N] [--browser] [--json FILE]

One simulator steps tori of 7,168 triangles over a slab, all moved, 60 times a second; every fortieth touches it. Spells with viewers and without take turns, so that
both meet the same noise of the machine. A viewer reads GET /v1/scenes/{scene}/live as the page does (with --rate, the page's 15).
--browser: the one viewer is the page in Chromium with software GL, and pictures per second are counted, too
(tests/requirements-page.txt). Prints for each kind of spell, as the median of the turns and their range:

    server    processor time, in % of one core
    step      median, 99th percentile and maximum of the round trip, in ms
    late      steps that began more than a period after their time, of all
    frames    that the viewer who got fewest got in a second; KiB/s for each viewer
"""
from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import math
import multiprocessing
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "client_py"), str(ROOT / "client_py" / "examples"), str(ROOT / "tests" / "bench")]

import contactd  # noqa: E402
import numpy as np  # noqa: E402
import shapes  # noqa: E402
from programs import conditions, free_port  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")
RATE = 60  # steps a second
SETTLE = 2.0  # s between two spells


def processor_time(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


# ---- the simulator, a process of its own ----


def simulate(address: str, n: int, pipe) -> None:
    """Steps until the pipe says None. Whatever else comes is answered by the steps since: when each began, by how much too late that
    was, and how long it took, in s."""
    with contactd.connect(address, timeout=120, wait=60) as client:
        scene = client.open_scene(name="watched")
        mesh = client.register_mesh(*shapes.torus(0.35, 0.15, 128, 28))
        across = math.ceil(math.sqrt(n))
        poses = np.tile(np.eye(4)[:3], (n, 1, 1))
        grid = np.stack(np.divmod(np.arange(n), across), 1).astype(float)
        bodies = [scene.add_body(mesh, pose=pose) for pose in poses]
        slab = np.eye(4)
        slab[:3, 3] = across / 2, across / 2, -0.5
        scene.add_body(client.box((across + 2.0, across + 2.0, 1.0)), pose=slab)
        pipe.send(scene.id)
        height = np.where(np.arange(n) % 40 == 0, 0.145, 0.3)
        rows, due, step = [], time.monotonic(), 0
        while True:
            if pipe.poll():
                if pipe.recv() is None:
                    return
                pipe.send(rows)
                rows = []
            due += 1 / RATE
            time.sleep(max(0.0, due - time.monotonic()))
            began = time.monotonic()
            poses[:, :2, 3] = grid + 0.05 * np.sin(step / 20 + grid[:, ::-1])
            poses[:, 2, 3] = height + 0.004 * np.sin(step / 7 + np.arange(n))
            scene.step(poses=(bodies, poses), want="frame")
            rows.append((began - due, time.monotonic() - began))
            due = max(due, began - 1 / RATE)  # a step that is late does not make all later ones late
            step += 1


# ---- viewers ----


class Reader:
    """Counts frames and bytes of a stream."""

    def __init__(self, address: str, path: str):
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self.connection.request("GET", path)
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise SystemExit(f"viewers.py: {self.answer.status} {self.answer.read().decode()}")
        self.frames = self.bytes = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):  # it was closed
            while line := self.answer.readline():
                self.bytes += len(line)
                self.frames += line == b"event: frame\n"

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.sock and self.connection.sock.shutdown(2)
        self.connection.close()
        self.thread.join()


def watch(address: str, path: str, n: int, pipe) -> None:
    """n viewers in a process of their own, until the pipe says so; answers "count" by frames and bytes of each so far."""
    readers = [Reader(address, path) for _ in range(n)]
    pipe.send("ready")
    while pipe.recv() == "count":
        pipe.send([(reader.frames, reader.bytes) for reader in readers])
    for reader in readers:
        reader.end()


def look(address: str, scene: int, pipe) -> None:
    """As watch(), with the page: pictures drawn."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[
            "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(f"http://{address}/#scene/{scene}")
        while not page.evaluate("() => window.contactdView?.drawn > 20"):
            time.sleep(0.1)
        pipe.send("ready")
        while pipe.recv() == "count":
            pipe.send([(page.evaluate("() => contactdView.drawn"), 0)])
        browser.close()


# ---- spells ----


def spell(server: subprocess.Popen, simulator, seconds: float, viewers=None) -> dict:
    """What is measured while nothing changes."""
    def count() -> list:
        if viewers:
            viewers.send("count")
        return viewers.recv() if viewers else []

    simulator.send("begin")
    simulator.recv()
    counted, used, began = count(), processor_time(server.pid), time.monotonic()
    time.sleep(seconds)
    now, used, took = count(), processor_time(server.pid) - used, time.monotonic() - began
    simulator.send("end")
    late, steps = np.array(simulator.recv()).T
    told = {"server": 100 * used / took, "p50": 1e3 * np.median(steps), "p99": 1e3 * np.percentile(steps, 99), "max": 1e3 * steps.max(),
            "late": 100 * float(np.mean(late > 1 / RATE)), "steps_per_s": len(steps) / took}
    if counted:
        told["frames_per_s"] = min(b[0] - a[0] for a, b in zip(counted, now)) / took
        told["kib_per_s"] = statistics.mean(b[1] - a[1] for a, b in zip(counted, now)) / took / 1024
    return told


def process(target, *arguments):
    here, there = multiprocessing.Pipe()
    child = multiprocessing.Process(target=target, args=(*arguments, there), daemon=True)
    child.start()
    return child, here


def measure(options: argparse.Namespace) -> dict:
    stream, address = f"tcp://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CONTACTD_")}
    server = subprocess.Popen([str(options.build / "contactd"), "--stream", stream, "--http", address, "--log-level", "error",
                               "--http-viewers", str(max(64, options.viewers))], env=environment)
    try:
        child, simulator = process(simulate, stream, options.bodies)
        scene = simulator.recv()
        alone, watched = [], []
        for _ in range(options.turns):
            time.sleep(SETTLE)
            alone.append(spell(server, simulator, options.seconds))
            path = f"/v1/scenes/{scene}/live?rate={options.rate}"
            audience, viewers = process(look, address, scene) if options.browser else process(watch, address, path, options.viewers)
            viewers.recv()
            time.sleep(SETTLE)
            watched.append(spell(server, simulator, options.seconds, viewers))
            viewers.send("end")
            audience.join()
        simulator.send(None)
        child.join()
    finally:
        server.terminate()
        server.wait()
    return {"conditions": conditions(options.build), "options": {k: str(v) for k, v in vars(options).items()}, "alone": alone, "watched": watched}


def shown(spells: list[dict], key: str) -> str:
    values = sorted(s[key] for s in spells)
    return f"{statistics.median(values):8.3g} ({values[0]:.3g}-{values[-1]:.3g})"


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--bodies", type=int, default=200)
    parser.add_argument("--rate", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    told = measure(options)
    if options.json:
        options.json.write_text(json.dumps(told, indent=1))
    print(f"# {told['conditions']['machine']}; {told['conditions']['commit']}")
    who = "the page" if options.browser else f"{options.viewers} viewers"
    print(f"{'':28}{'alone':>24}{who:>28}")
    rows = (("server, % of a core", "server"), ("step, median, ms", "p50"), ("step, p99, ms", "p99"), ("step, maximum, ms", "max"),
            ("late, % of steps", "late"), ("steps/s", "steps_per_s"), ("frames/s", "frames_per_s"), ("KiB/s of a viewer", "kib_per_s"))
    for title, key in rows:
        alone = shown(told["alone"], key) if key in told["alone"][0] else ""
        print(f"{title:28}{alone:>24}{shown(told['watched'], key):>28}")
    # Of the same number of steps, which a busy machine does not always reach.
    more = [w["server"] - a["server"] * w["steps_per_s"] / a["steps_per_s"] for a, w in zip(told["alone"], told["watched"])]
    print(f"the viewers cost the server {statistics.median(more):.2g} % of a core ({min(more):.2g} to {max(more):.2g})")


if __name__ == "__main__":
    main()
