#!/usr/bin/env python3
"""told.py - numbers that docs/ names and no other bench, experiment or test prints. Computed in this process.

    told.py [NAME...]

    rays         docs/methods.md, docs/ebpi.md: rays of ebpi for 1 % of two spheres' volume, by allocation
    estimates    docs/ebpi.md, docs/voxtree.md: how often the error is above error_estimate, of random pairs of bodies
    levels       docs/voxtree.md: interval, error and force of voxtree level by level, beside exact
    separations  docs/answers.md: time to find how far apart two bodies are
    tilted       docs/limits.md: from which depth on exact tells a contact of a ball with a slab from none
    embedded     docs/three-places.md: time from connect("embedded") to the first answer
"""
from __future__ import annotations

import pathlib
import statistics
import sys
import time
from typing import Any, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "client_py"), str(ROOT / "client_py" / "examples")]

import contactd  # noqa: E402
import numpy as np  # noqa: E402
import shapes  # noqa: E402


def moved(x: float, y: float = 0, z: float = 0, rotation: np.ndarray | None = None) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3] = np.eye(3) if rotation is None else rotation
    pose[:3, 3] = x, y, z
    return pose


def stepped(client: Any, a: Any, b: Any, pose: np.ndarray, **settings: Any) -> Any:
    scene = client.open_scene(**settings)
    scene.add_body(a, pose=np.eye(4))
    scene.add_body(b, pose=pose)
    result = scene.step(want="frame")
    scene.close()
    return result


def rays(client: Any) -> None:
    ball = client.register_mesh(*shapes.icosphere(1.0, 4))
    fewest = 0
    for strict in (False, True):
        for allocation in ("optimal", "published", "per_pixel"):
            n = stepped(client, ball, ball, moved(1.2, 0.3, 0.1), method="ebpi", tolerance_rel=0.01, allocation=allocation, strict=strict,
                        ray_budget=1 << 23).rays
            fewest = n if allocation == "optimal" else fewest
            print(f"rays: 5,120 triangles each, {allocation}{', strict' if strict else ''}: {n:,}, {n / fewest:.0f} times the fewest")


def random_pairs(client: Any, n: int) -> Iterator[tuple[Any, Any, np.ndarray]]:
    rng = np.random.default_rng(1)
    meshes = [client.register_mesh(*mesh) for mesh in (shapes.icosphere(0.5, 3), shapes.blob(0.5, 3), shapes.torus(0.35, 0.15, 48, 24),
                                                       shapes.box((-0.5, -0.4, -0.3), (0.5, 0.4, 0.3)),
                                                       shapes.box((-0.6, -0.6, -0.05), (0.6, 0.6, 0.05)))]
    for _ in range(n):
        a, b = rng.choice(len(meshes), 2)
        rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        yield meshes[a], meshes[b], moved(*rng.uniform(-0.5, 0.5, 3), rotation * np.sign(np.linalg.det(rotation)))


def estimates(client: Any, n: int = 1000) -> None:
    kinds = {"ebpi, 1 %": {"method": "ebpi", "tolerance_rel": 0.01, "tolerance": 1e-9, "ray_budget": 1 << 19},
             "ebpi, 1 %, strict": {"method": "ebpi", "tolerance_rel": 0.01, "tolerance": 1e-9, "ray_budget": 1 << 19, "strict": True},
             "ebpi, 0.1 %": {"method": "ebpi", "tolerance_rel": 0.001, "tolerance": 1e-9, "ray_budget": 1 << 22},
             "ebpi, 0.1 %, strict": {"method": "ebpi", "tolerance_rel": 0.001, "tolerance": 1e-9, "ray_budget": 1 << 22, "strict": True},
             **{f"voxtree, level {level}": {"method": "voxtree", "level": level, "voxel_level": 7} for level in range(2, 8)}}
    above, total = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0)
    for a, b, pose in random_pairs(client, n):
        volume = sum(contact.volume for contact in stepped(client, a, b, pose, method="exact").contacts)
        for name, settings in kinds.items():
            for contact in stepped(client, a, b, pose, **settings).contacts:
                total[name] += 1
                above[name] += abs(contact.volume - volume) > contact.error_estimate
    for name in kinds:
        print(f"estimates: {name}: of {total[name]} contacts the error is above error_estimate in {above[name]}, {100 * above[name] / total[name]:.1f} %")


def levels(client: Any, n: int = 300) -> None:
    found: dict[int, list[tuple[float, float, float]]] = {level: [] for level in range(1, 7)}
    violated = 0
    for a, b, pose in random_pairs(client, n):
        exact = stepped(client, a, b, pose, method="exact").contacts
        if not exact or exact[0].volume < 0.01 * min(a.volume, b.volume) or exact[0].is_nested:
            continue
        force = exact[0].generalized_gradient(exact[0].bodies[0])[:3]
        for level, rows in found.items():
            (contact,) = stepped(client, a, b, pose, method="voxtree", level=level, voxel_level=7).contacts
            low, high = contact.interval
            violated += not low - exact[0].error_bound <= exact[0].volume <= high + exact[0].error_bound
            other = contact.generalized_gradient(contact.bodies[0])[:3]
            cosine = force @ other / (np.linalg.norm(force) * np.linalg.norm(other))
            rows.append(((high - low) / exact[0].volume, abs(contact.volume / exact[0].volume - 1), np.degrees(np.arccos(np.clip(cosine, -1, 1)))))
    for level, rows in found.items():
        interval, error, angle = np.mean(rows, axis=0)
        print(f"levels: level {level}, {len(rows)} pairs: interval {interval:.2g} of the volume, error {error:.2g}, {angle:.2g}° between the forces")
    print(f"levels: {violated} intervals violated")


def separations(client: Any) -> None:
    box, blob = client.box((1, 1, 1)), client.register_mesh(*shapes.blob(0.5, 6))
    for name, mesh, gap in (("two boxes", box, 1.1), ("two bodies with bumps of 81,920 triangles", blob, 1.15)):
        times = {}
        for margin in (0.0, 0.5):
            scene = client.open_scene(method="exact", margin=margin)
            scene.add_body(mesh, pose=np.eye(4))
            other = scene.add_body(mesh, pose=moved(gap))
            spent = []
            for k in range(200):
                began = time.perf_counter()
                result = scene.step(poses={other: moved(gap + 1e-5 * k, 0.01, 0.02)}, want="frame")
                spent.append(time.perf_counter() - began)
            assert len(result.separations) == (margin > 0)
            times[margin] = statistics.median(spent)
            scene.close()
        print(f"separations: {name}: {1e6 * (times[0.5] - times[0.0]):.3g} µs, of a step of {1e6 * times[0.5]:.3g} µs")


def tilted(client: Any) -> None:
    vertices, triangles = shapes.icosphere(1.0, 5)
    ball, slab = client.register_mesh(vertices, triangles), client.box((6, 6, 1))
    x, z = np.cos(0.3), np.sin(0.3)
    for name, rotation in (("level", np.eye(3)), ("tilted by 0.3", np.array([[x, 0, z], [0, 1, 0], [-z, 0, x]]))):
        reach = -(vertices @ rotation[:, 2]).min()  # of the ball's lowest vertex; its facets lie inside the ball
        for depth in np.geomspace(1e-6, 1e-2, 33):
            scene = client.open_scene(method="exact")
            scene.add_body(slab, pose=moved(0, 0, 0, rotation))
            scene.add_body(ball, pose=moved(*(rotation @ [0, 0, 0.5 + reach - depth])))
            result = scene.step(want="frame")
            scene.close()
            if any(contact.volume > contact.error_bound for contact in result.contacts):
                print(f"tilted: a ball of radius 1 m on a slab of 6 m, {name}: a contact from {depth:.1g} m of depth on")
                break


def embedded(_: Any) -> None:
    times = []
    for _ in range(10):
        began = time.perf_counter()
        with contactd.connect("embedded"):
            times.append(time.perf_counter() - began)
    print(f"embedded: {1e3 * statistics.median(times):.0f} ms ({1e3 * min(times):.0f}-{1e3 * max(times):.0f}) until a server answers")


ALL = {"rays": rays, "estimates": estimates, "levels": levels, "separations": separations, "tilted": tilted, "embedded": embedded}


def main() -> None:
    client = contactd.Engine()
    for name in sys.argv[1:] or ALL:
        ALL[name](client)


if __name__ == "__main__":
    main()
