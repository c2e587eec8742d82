"""measure.py - runs one scene in one simulator by one kind of contacts, and prints what came of it as JSON; the judge is contactd.judge.

    measure.py crates mujoco hull [--most 120]
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from typing import Any

import numpy as np
from worlds import AT_REST, ENGINE, FLOOR, World, worlds  # which finds contactd, too

import contactd
from shapes import box

SIMULATORS = ("mujoco", "drake", "newton", "pybullet")
FRAMES = 100  # that are judged, evenly over the run
WARM_UP = 5  # steps, of which the first builds caches and compiles


def simulate(world: World, simulator: Any, contacts: str, most: float) -> dict[str, Any]:
    """times, poses (T, b, 7); seconds to prepare, and to step but for the first few steps; most: s of the clock."""
    began = time.perf_counter()
    dt, step, poses = simulator.prepare(world, contacts)
    prepared = time.perf_counter() - began
    steps, rows = round(world.seconds / dt), [poses()]
    wall, processor = [], []
    started, ended = time.perf_counter(), "completed"
    for k in range(steps):
        began, used = time.perf_counter(), time.process_time()
        try:
            step()
        except RuntimeError as e:
            ended = f"stopped: {str(e).splitlines()[0][:120]}"
            break
        if k >= WARM_UP:
            wall.append(time.perf_counter() - began)
            processor.append(time.process_time() - used)
        rows.append(poses())
        if not np.isfinite(rows[-1]).all() or np.abs(rows[-1][:, :3]).max() > 10:
            rows.pop()
            ended = "blew up"
            break
        if time.perf_counter() - started > most:
            ended = f"stopped after {most:g} s"
            break
    return {"dt": dt, "prepare_s": prepared, "ms_a_step": 1e3 * float(np.median(wall or [0])),
            "processor_ms_a_step": 1e3 * float(np.median(processor or [0])), "ended": ended, "steps": len(rows) - 1,
            "times": dt * np.arange(len(rows)), "poses": np.array(rows)}


def judged(world: World, times: np.ndarray, poses: np.ndarray) -> contactd.Report:
    """The floor is a block, which rests."""
    meshes = {body.name: body.mesh for body in world.bodies}
    chosen = np.unique(np.linspace(0, len(times) - 1, FRAMES).round().astype(int))
    rows = poses[chosen]
    if world.has_floor:
        meshes["floor"] = box(*FLOOR)
        rows = np.concatenate([rows, np.tile([0.0, 0, 0, 0, 0, 0, 1], (len(rows), 1, 1))], axis=1)
    return contactd.judge(meshes, rows, times=times[chosen], client=ENGINE())


def fastest_at_the_end(world: World, times: np.ndarray, poses: np.ndarray) -> float:
    """m/s, of bodies' origins over the last twentieth of the run."""
    last = max(2, len(times) // 20)
    moved = np.diff(poses[-last:, world.free(), :3], axis=0)
    return float(np.linalg.norm(moved, axis=2).max() / (times[1] - times[0]))


def measure(world: World, name: str, contacts: str, most: float) -> dict[str, Any]:
    simulator = importlib.import_module(f"by_{name}")
    run = simulate(world, simulator, contacts, most)
    times, poses = run.pop("times"), run.pop("poses")
    out = {"scene": world.name, "simulator": simulator.NAME, "contacts": contacts, "version": simulator.version(), **run}
    if len(times) < 2:
        return out | {"right": False, "said": {}}
    report = judged(world, times, poses)
    said, right = world.outcome(times, poses)
    deepest, nested = report.depth.max(1, initial=0), bool(report.nested.any())
    speed = fastest_at_the_end(world, times, poses)
    right = right and run["ended"] == "completed" and (not world.rests or speed < AT_REST)
    return out | {"said": said, "right": right, "speed_at_end": speed,
                  "nested": nested, "deepest": float(deepest.max()), "deepest_at_end": float(deepest[-1]),
                  "volume_at_end": float(report.volume[-1].sum()), "worst": str(report.worst or "nothing overlaps"),
                  "curve": {"times": report.times.tolist(), "depth": deepest.tolist()}}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scene")
    parser.add_argument("simulator", choices=SIMULATORS)
    parser.add_argument("contacts")
    parser.add_argument("--most", type=float, default=120.0, help="s of the clock, after which a run is stopped")
    parser.add_argument("--seconds", type=float, help="to simulate; default: the scene's")
    given = parser.parse_args()
    world = worlds()[given.scene]
    if given.seconds:
        object.__setattr__(world, "seconds", given.seconds)
    print(json.dumps(measure(world, given.simulator, given.contacts, given.most)))


if __name__ == "__main__":
    main()
