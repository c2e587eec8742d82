"""A controller at 1 kHz asks for the contact of two tori of 35,000 triangles, one of which moves: how many answers come within 1 ms, and how
wrong they are; alone, and while another client has a large scene computed.

Each step has a budget of computation; sending, waiting for a thread, encoding and receiving come on top. A step that is late delays the
next one, as in a loop that waits for its answer. The error of the force is that of its vector, relative to exact's."""

from __future__ import annotations

import threading
import time

import contactd
import numpy as np
from motion import at, rotation
from shapes import torus

PANELS = 2
PERIOD = 1e-3  # s


def poses_of(step: int) -> np.ndarray:
    """The moving body's: it turns in the other's ring and drifts to and fro, once in 4 s."""
    phase = 2 * np.pi * step / 4000
    return at(0.55 + 0.05 * np.sin(phase), 0.1 * np.cos(phase), 0.05, rotation(np.array([1.3, 0.2 + 0.3 * np.sin(phase), 0.1])))


def open_pair(client: contactd.Client, mesh: contactd.Mesh, **settings) -> tuple[contactd.Scene, contactd.Body]:
    scene = client.open_scene(**settings)
    scene.add_body(mesh, pose=np.eye(4))
    return scene, scene.add_body(mesh, pose=poses_of(0))


def force_of(result: contactd.StepResult) -> np.ndarray:
    return sum((c.generalized_gradient(c.bodies[1])[:3] for c in result.contacts), np.zeros(3))


def loop(scene: contactd.Scene, body: contactd.Body, steps: int, budget: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """How long each answer took in s, and its force."""
    took, forces = np.empty(steps), []
    next_start = time.perf_counter()
    for i in range(steps):
        start = time.perf_counter()
        result = scene.step(poses={body: poses_of(i)}, want="frame", time_budget=budget)
        took[i] = time.perf_counter() - start
        forces.append(force_of(result))
        next_start = max(next_start + PERIOD, time.perf_counter())
        while (left := next_start - time.perf_counter()) > 0:
            time.sleep(left / 2 if left > 2e-4 else 0)
    return took, forces


class Neighbour(threading.Thread):
    """Another client, which steps a scene of 64 overlapping balls by exact, over and over."""

    def __init__(self, client: contactd.Client, level: int) -> None:
        super().__init__()
        from interruption import heap

        self.scene = client.open_scene(method="exact")
        self.bodies = heap(client, level, self.scene)
        self.ended = threading.Event()
        self.steps = 0

    def run(self) -> None:
        while not self.ended.is_set():
            self.scene.step(want="frame")
            self.steps += 1


def follow(client: contactd.Client, mesh: contactd.Mesh, steps: int, budget: float, level: int) -> dict:
    scene, body = open_pair(client, mesh, method="voxtree", level=level)
    scene.step(want="frame")
    took, forces = loop(scene, body, steps, budget)
    scene.close()
    exact, mover = open_pair(client, mesh, method="exact")
    checked = range(0, steps, max(1, steps // 200))
    errors = []
    for i in checked:
        truth = force_of(exact.step(poses={mover: poses_of(i)}, want="frame"))
        errors.append(np.linalg.norm(forces[i] - truth) / np.linalg.norm(truth))
    exact.close()
    return {"took": took, "error": np.array(errors)}


def measure(client: contactd.Client, seconds: float = 60, budget: float = 300e-6, around: int = 132, level: int = 6,
            balls: int = 4) -> dict:
    """seconds: of each of the two loops. around, balls: detail of the tori and of the neighbour's balls."""
    mesh = client.register_mesh(*torus(0.6, 0.35, around, around))
    steps = max(2, round(seconds / PERIOD))
    alone = follow(client, mesh, steps, budget, level)
    with contactd.connect(client.address, timeout=client.timeout) as other:
        neighbour = Neighbour(other, balls)
        neighbour.start()
        try:
            beside = follow(client, mesh, steps, budget, level)
        finally:
            neighbour.ended.set()
            neighbour.join()
    return {"alone": alone, "beside another client": beside, "neighbour_steps": neighbour.steps}


def plot(axes, data: dict) -> None:
    for name in ("alone", "beside another client"):
        took = np.sort(1e6 * data[name]["took"])
        axes[0].semilogx(took, np.arange(1, len(took) + 1) / len(took), label=name)
        axes[1].plot(data[name]["error"], ".", label=name)
    axes[0].axvline(1e6 * PERIOD, color="grey")
    axes[0].set(title="Answers at 1 kHz", xlabel="us", ylabel="share of answers within")
    axes[1].set(title="Error of the force", xlabel="sampled steps", ylabel="relative", ylim=(0, None))
    for axis in axes:
        axis.legend()


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for name in ("alone", "beside another client"):
        took = 1e6 * data[name]["took"]
        out[f"share of answers within 1 ms, {name}"] = float((took <= 1e6 * PERIOD).mean())
        out[f"median time of an answer in us, {name}"] = float(np.median(took))
        out[f"99th percentile in us, {name}"] = float(np.quantile(took, 0.99))
        out[f"median error of the force, {name}"] = float(np.median(data[name]["error"]))
    return out
