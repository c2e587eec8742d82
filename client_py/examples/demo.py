#!/usr/bin/env python3
"""Two simulators, in C and in Python, stream to one contactd server, then a ball slides, then bodies meet by each
method; a table, and pictures in build/demo.

Starts everything itself, on free ports, and ends with a status other than 0 if anything went wrong: a process failed, or
bodies never touched.  demo.py [--mesh-a FILE] [--mesh-b FILE] [--build build] [--out build/demo]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "client_py"), str(ROOT / "client_py" / "examples")]

import contactd  # noqa: E402
from contactd.result import PHASES  # noqa: E402

STEPS = {"press": 240, "settle": 400}
LIMIT_S = 300.0  # for the simulators; they take a quarter of a minute on two idle cores


@dataclass
class Simulator:
    name: str
    what: str
    command: list[str]
    folder: pathlib.Path
    process: subprocess.Popen | None = None

    @property
    def csv(self) -> pathlib.Path:
        return self.folder / f"{self.name}.csv"

    def columns(self) -> dict[str, np.ndarray]:
        with self.csv.open(newline="") as file:
            rows = list(csv.DictReader(file))
        return {key: np.array([float(row[key]) for row in rows]) for key in (rows[0] if rows else ())}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fail(why: str) -> None:
    print(f"demo: {why}", file=sys.stderr)
    raise SystemExit(1)


def start_server(build: pathlib.Path, log: pathlib.Path) -> tuple[subprocess.Popen, str]:
    binary = build / "contactd"
    if not binary.exists():
        fail(f"{binary} does not exist: run make first")
    address = f"tcp://127.0.0.1:{free_port()}"
    with log.open("wb") as file:
        process = subprocess.Popen([str(binary), "--http", f"127.0.0.1:{free_port()}", "--stream", address,
                                    "--max-step-time", f"{LIMIT_S:.0f}s"],  # a busy machine draws slowly
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    try:
        with contactd.connect(address, timeout=10, wait=30) as client:
            server = client.server
    except contactd.ContactdError as e:
        process.kill()
        fail(f"the server did not come up: {e}\n{log.read_text(errors='replace')}")
    print(f"demo: {server['server']} on {address}, backend {server['backend']}, {server['device']}", flush=True)
    return process, address


def run(simulators: list[Simulator], server: subprocess.Popen) -> None:
    """Runs them together, to their end."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
                                "PYTHONPATH": str(ROOT / "client_py")}
    deadline = time.monotonic() + LIMIT_S
    try:
        for s in simulators:
            s.process = subprocess.Popen(s.command, stdin=subprocess.DEVNULL, env=environment)
        while any(s.process.poll() is None for s in simulators):
            if server.poll() is not None:
                fail(f"the server ended with {server.returncode}; see its log")
            for s in simulators:
                if s.process.poll() not in (None, 0):
                    fail(f"{s.name} ended with {s.process.returncode}")
            if time.monotonic() > deadline:
                fail(f"not finished after {LIMIT_S:.0f} s")
            time.sleep(0.05)
    finally:
        for s in simulators:
            if s.process is not None and s.process.poll() is None:
                s.process.kill()
                s.process.wait()
    for s in simulators:
        if s.process.returncode != 0:
            fail(f"{s.name} ended with {s.process.returncode}")


def table(simulators: list[Simulator]) -> None:
    head = f"{'simulator':10} {'steps':>6} {'contacts':>9} {'max volume':>12} {'steps/s':>8}   latency, us: p50 / p99"
    print("\n" + head)
    for s in simulators:
        c = s.columns()
        if not c or not (c["volume"] > 0).any():
            fail(f"{s.name}: its bodies never touched")
        q = lambda key: "{:.0f} / {:.0f}".format(*np.percentile(c[key], [50, 99]))
        rate = 1 / np.mean(c["latency_us"] * 1e-6)
        print(f"{s.name:10} {len(c['step']):6d} {c['contacts'].mean():9.1f} {c['volume'].max() * 1e6:9.3f} ml "
              f"{rate:8.0f}   round trip {q('latency_us')}")
        phases = [p for p in PHASES if p + "_us" in c]
        print(" " * 52 + ", ".join(f"{p} {q(p + '_us')}" for p in phases[:4]))
        print(" " * 52 + ", ".join(f"{p} {q(p + '_us')}" for p in phases[4:]))
    print("\ncontacts: mean of a step; steps/s: of the service, without the simulator's own work; phases: summed over threads,"
          "\nso that together they may be more than the round trip\n")


def curves(simulators: list[Simulator], path: pathlib.Path) -> None:
    plt = _pyplot()
    figure, axes = plt.subplots(len(simulators), 2, figsize=(12, 3.1 * len(simulators)), squeeze=False)
    for (left, right), s in zip(axes, simulators):
        c = s.columns()
        left.fill_between(c["time"], c["volume"] * 1e6, color="#3b7dd8", alpha=0.18, lw=0)
        left.plot(c["time"], c["volume"] * 1e6, color="#3b7dd8", lw=1.4)
        left.set_ylabel("intersection volume, ml")
        left.set_title(s.what, loc="left", fontsize=11)
        right.plot(c["time"], c["force"], color="#d8693b", lw=1.4)
        right.set_ylabel("tool's force, N" if s.name == "press" else "contact force, N")
        for axis in (left, right):
            axis.set_xlabel("time, s")
            axis.set_xlim(c["time"][0], c["time"][-1])
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def slide_curves(path: pathlib.Path, out: pathlib.Path) -> None:
    """The force on a sliding ball by each method; below, what each adds to the trend."""
    from slide import ripple

    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    curve = {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}
    distance = curve.pop("distance") * 1e3
    style = {"ldi_64": ("#9aa0a6", 0.9, "ldi, 64 rays across"), "exact": ("#d8693b", 1.6, "exact")}
    plt = _pyplot()
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 6.4), sharex=True)
    for name, (color, width, label) in style.items():
        mean = curve["exact"].mean()
        upper.plot(distance, curve[name] / mean, color=color, lw=width, label=label)
        lower.plot(distance, 100 * ripple(curve[name]) / mean, color=color, lw=width)
    upper.set_title("a ball slides over a bumpy one: the force on it", loc="left", fontsize=11)
    upper.set_ylabel("force, of its mean")
    upper.legend(frameon=False)
    lower.set_ylabel("beside the trend, %")
    lower.set_xlabel("distance, mm")
    for axis in (upper, lower):
        axis.set_xlim(distance[0], distance[-1])
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(out, dpi=110)
    plt.close(figure)


def scene_picture(arguments: tuple[str, str, str]) -> str:
    """Left: the bodies. Right: the intersection, drawn as the spans that the server found, coloured by direction."""
    import render

    dump, title, out = arguments
    data = np.load(dump)
    palette = [(0.93, 0.55, 0.35), (0.36, 0.56, 0.82), (0.80, 0.80, 0.77), (0.45, 0.68, 0.50), (0.86, 0.72, 0.36),
               (0.66, 0.52, 0.78)]
    n = sum(key.startswith("vertices") for key in data.files)
    solids = [render.Solid(data[f"vertices{i}"].astype(float), data[f"triangles{i}"], palette[i % len(palette)])
              for i in range(n)]
    spans, axes = data["spans"].astype(float), data["axes"]
    pair = data["pair"] if "pair" in data.files else np.array([0, 1])
    shown = [s for s in solids if len(s.triangles) > 12] or solids  # the ground goes on outside the picture
    center, radius = _ball(np.concatenate([s.vertices for s in shown]))
    plt = _pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 6.9))
    left.imshow(render.picture(solids, center, 1.12 * radius, -60, 24))
    left.set_title(title, loc="left", fontsize=12)
    colors = np.array([[0.86, 0.20, 0.18], [0.16, 0.62, 0.27], [0.18, 0.33, 0.88]])
    if len(spans):
        center, radius = _ball(spans.reshape(-1, 3))
    right.imshow(render.picture([solids[i] for i in pair], center, 1.35 * radius, -60, 34, opacity=0.30,
                                spans=(spans, colors[axes.astype(int)])))
    right.set_title(f"what two of them share, as {len(spans)} pieces of rays", loc="left", fontsize=12)
    for k, name in enumerate("rays along x,rays along y,rays along z".split(",")):
        right.plot([], [], color=colors[k], lw=3, label=name)
    right.legend(loc="lower right", fontsize=10, framealpha=0.9)
    for axis in (left, right):
        axis.set_axis_off()
    figure.tight_layout()
    figure.savefig(out, dpi=110)
    plt.close(figure)
    return out


def _moved(x: float, y: float, z: float, degrees: float = 0.0) -> np.ndarray:
    """A pose: turned about (1, 2, 1), then moved."""
    axis = np.array([1, 2, 1]) / np.sqrt(6)
    across, angle = np.cross(np.eye(3), -axis), np.radians(degrees)
    pose = np.eye(4)
    pose[:3, :3] += np.sin(angle) * across + (1 - np.cos(angle)) * across @ across
    pose[:3, 3] = x, y, z
    return pose


def method_pictures(address: str, out: pathlib.Path) -> None:
    """What each method finds, drawn by the server: patches and gradients, rays, cubes, normals."""
    import shapes

    with contactd.connect(address, name="pictures") as client:
        def scene(meshes, poses, **settings) -> contactd.Scene:
            scene = client.open_scene(**settings)
            for mesh, pose in zip(meshes, poses):
                scene.add_body(client.register_mesh(*mesh), pose=pose)
            scene.step()
            return scene

        ball, box = shapes.icosphere(0.6, 4), shapes.box((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5))
        pair = [np.eye(4), _moved(0.75, 0.25, 0.3, 25)]
        stool = scene([shapes.blob(1.0, 4), shapes.stool(1.2, 0.9)], [np.eye(4), _moved(0.1, 0, 1.15, 8)], method="exact",
                      patches=True)
        rays = scene([box, ball], [np.eye(4), _moved(0.3, 0.2, 0.75)], method="ebpi", tolerance_rel=0.003)
        trees = scene([ball, box], pair, method="voxtree", level=4)
        pictures = {
            "exact_patches": (stool, ("bodies", "contacts", "gradients", "axes"), {}),
            "ebpi_rays": (rays, ("bodies", "rays", "axes"), {"contact": rays.bodies, "elevation": 30, "opacity": 0.2}),
            "voxtree_nodes": (trees, ("nodes", "axes"), {}),
            "voxtree_normals": (trees, ("bodies", "normals", "axes"), {"contact": trees.bodies}),
        }
        for name, (of, show, view) in pictures.items():
            try:
                (out / f"{name}.png").write_bytes(of.snapshot(show=show, **view))
            except contactd.errors.UnsupportedError as e:
                print(f"demo: the server draws no pictures: {e}", file=sys.stderr)
                return


def _ball(points: np.ndarray) -> tuple[np.ndarray, float]:
    center = (points.min(0) + points.max(0)) / 2
    return center, float(np.linalg.norm(points - center, axis=1).max())


def _pyplot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mesh-a", help="used by both simulators instead of their own first mesh")
    parser.add_argument("--mesh-b", help="instead of their second")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("BUILD", ROOT / "build")))
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    out = args.out or args.build / "demo"
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("*.png"), *out.glob("*.csv"), *out.glob("*.npz")]:
        old.unlink()
    began = time.monotonic()

    server, address = start_server(args.build, out / "server.log")
    try:
        meshes = [f for name in ("mesh_a", "mesh_b") if getattr(args, name)
                  for f in (f"--{name.replace('_', '-')}", os.path.abspath(getattr(args, name)))]

        def simulator(name: str, what: str, program: list[str]) -> Simulator:
            command = [*program, "--server", address, "--steps", str(STEPS[name]), "--csv", str(out / f"{name}.csv"),
                       "--dump", str(out), "--progress", *meshes]
            return Simulator(name, what, command, out)

        simulators = [
            simulator("settle", "settle (C): rigid bodies fall and come to rest", [str(args.build / "examples" / "settle")]),
            simulator("press", "press (Python): a soft body pressed and twisted by a rigid tool",
                      [sys.executable, str(ROOT / "client_py" / "examples" / "press.py")]),
        ]
        run(simulators, server)
        slide = Simulator("slide", "", [sys.executable, str(ROOT / "client_py" / "examples" / "slide.py"),
                                        "--server", address, "--csv", str(out / "slide.csv")], out)
        run([slide], server)
        method_pictures(address, out)
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            status = server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            status = server.wait()
    if status != 0:
        fail(f"the server ended with {status}; see {out / 'server.log'}")

    table(simulators)
    curves(simulators, out / "curves.png")
    slide_curves(slide.csv, out / "slide.png")
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        list(pool.map(scene_picture, [(str(out / f"{s.name}.npz"), s.what, str(out / f"{s.name}.png"))
                                      for s in simulators]))
    for picture in sorted(out.glob("*.png")):
        print(f"demo: {picture}")
    print(f"demo: done in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
