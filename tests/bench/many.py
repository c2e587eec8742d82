#!/usr/bin/env python3
"""many.py - the bench of 4,096 scenes of two boxes stepped at once: through loopback in one message and, beside it, as a step
for each scene, and in this process. For bench.py, which runs it by itself:

    many.py SECONDS [ENDPOINT]

Without an endpoint in this process. Prints a line of JSON: scene-steps a second.
"""
import json
import statistics
import sys
import time

import programs

SCENES = 4096
FIGURES = [
    ("many_4096", "4,096 scenes of two boxes, all poses sent, in one message over TCP loopback, Python", "steps/s", 150000.0, False),
    ("many_4096_engine", "the same in this process", "steps/s", 300000.0, False),
]


def rates(step, seconds, least):
    """Scene-steps a second, of each of at least so many calls; the first is left out."""
    step()
    found, until = [], time.monotonic() + seconds
    while len(found) < least or time.monotonic() < until:
        began = time.perf_counter()
        step()
        found.append(SCENES / (time.perf_counter() - began))
    return sorted(found)


def samples(found):
    return {"median": statistics.median(found), "p10": found[len(found) // 10], "p90": found[-1 - len(found) // 10]}


def run(client, seconds):
    import numpy as np
    from geometry import UNIT_BOX

    template = client.open_scene(method="exact")
    box = client.register_mesh(*UNIT_BOX)
    for _ in range(2):
        template.add_body(box, np.eye(4))
    scenes = [template, *client.open_scenes(SCENES - 1, template)]
    poses = np.tile(np.eye(4)[:3], (SCENES, 2, 1, 1))
    poses[:, 1, :, 3] = np.random.default_rng(0).uniform(0.2, 0.8, (SCENES, 3))

    def move():  # bodies at rest would cost nothing
        poses[:, 1, 0, 3] = 1 - poses[:, 1, 0, 3]

    def many():
        move()
        assert len(client.step_many(scenes, poses).volumes) == SCENES

    def each():
        move()
        flying = [scene.submit(poses=(scene.bodies, pose), want="frame") for scene, pose in zip(scenes, poses)]
        assert sum(len(future.result()) for future in flying) == SCENES

    return samples(rates(many, seconds, 5)), each


def measure(build, seconds):
    """As bench.measure."""
    command = [sys.executable, __file__, str(seconds)]
    env = {"PYTHONPATH": f"{programs.ROOT / 'client_py'}:{programs.ROOT / 'tests/e2e'}"}
    (there,) = programs.served_runs(build, ["--backend", "cpu"], lambda endpoint, _: [*command, endpoint], env=env)
    (here,) = programs.json_lines(command, 120, env=env | {"CONTACTD_LIBRARY": str(build / "libcontact.so")})
    return {name: (run["rate"]["median"], (run["rate"]["p10"], run["rate"]["p90"]), run["each"], "a step for each scene")
            for name, run in (("many_4096", there), ("many_4096_engine", here))}


def main():
    import contactd

    seconds, endpoint = float(sys.argv[1]), sys.argv[2:]
    with contactd.connect(endpoint[0], timeout=60, wait=10) if endpoint else contactd.Engine(threads=2, backend="cpu") as client:
        rate, each = run(client, seconds)
        print(json.dumps({"scene": "many_4096", "rate": rate, "each": statistics.median(rates(each, 0, 3)) if endpoint else None}))


if __name__ == "__main__":
    main()
