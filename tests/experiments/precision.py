"""Wang 2012, Fig. 9, left: the error that `ebpi` achieves against the tolerance asked for, and how often bounds are violated.

The paper tests three polyhedra: a cube whose faces are parallel to the rays, a sharp cone and the armadillo. It draws curves
without numbers. All lie below the diagonal, the cube's nearest to it, the armadillo's farthest. Here a cube, a cone, an
icosahedron and a real mesh each meet a copy of themselves, displaced and, but for the cube, turned. The real mesh is the
armadillo of $CONTACTD_MESHES; without that folder a blob of about as many triangles takes its place. The truth is the method
exact. Tolerances are fractions of that volume.

All curves lie below the diagonal here too, most of them by one to three orders of magnitude: the bound adds up what the
errors of all tiles may be, and these mostly cancel. The cube's error is the smallest here, not the largest: our window ends where the bodies' boxes
stop overlapping, which is in the cube's faces, so that no tile lies across one. Its bound is as large as the others', of a third to a quarter of
the rays. Where the ray budget ends first, the answer says so, and its bound is above the tolerance (hollow marks).

The paper does not say how often its bound is violated. It is no proof, so violations are counted here, of pairs at random:
errors above the bound, as published and strict, each with views along the axes and with the directions that
optimize_directions finds."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import contactd
import numpy as np
from motion import at, rotation
from shapes import blob, box, icosphere

BOUNDS = {"published": False, "strict": True}
VIEWS = {"published": {"strict": False}, "strict": {"strict": True},
         "published, optimised views": {"strict": False, "optimize_directions": True},
         "strict, optimised views": {"strict": True, "optimize_directions": True}}  # of pairs at random
QUOTED = 1e-2  # the tolerance whose figures are quoted, of the volume
MESHES = pathlib.Path(os.environ.get("CONTACTD_MESHES", pathlib.Path(__file__).resolve().parents[2] / ".." / "shared" / "meshes"))


def cone(radius: float, height: float, around: int) -> tuple[np.ndarray, np.ndarray]:
    """About the z axis, its tip at the top; 2 * around triangles."""
    angle = 2 * np.pi * np.arange(around) / around
    rim = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.zeros(around)], 1)
    i, j = np.arange(around), (np.arange(around) + 1) % around
    side = np.stack([i, j, np.full(around, around)], 1)
    base = np.stack([j, i, np.full(around, around + 1)], 1)
    return np.concatenate([rim, [[0, 0, height], [0, 0, 0]]]), np.concatenate([side, base])


def polyhedra() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {"cube": box((-0.5,) * 3, (0.5,) * 3), "cone": cone(0.15, 1.2, 24), "icosahedron": icosphere(0.6, 0)}


def register(client: contactd.Client, real: str) -> dict[str, contactd.Mesh]:
    """real: a file of the folder of meshes; "" or absent: a blob."""
    meshes = {name: client.register_mesh(*shape) for name, shape in polyhedra().items()}
    if real and (MESHES / real).exists():
        meshes[real.split("_")[0]] = client.register_mesh_file(MESHES / real)
    else:
        meshes["blob"] = client.register_mesh(*blob(0.6, 6 if real else 3))
    return meshes


def truth_of(client: contactd.Client, meshes: list, poses: list) -> tuple[float, float]:
    """The volume by `exact` and its bound, m^3."""
    scene = client.open_scene(method="exact")
    for mesh, pose in zip(meshes, poses):
        scene.add_body(mesh, pose=pose)
    contacts = scene.step(want="volume").contacts
    scene.close()
    return (contacts[0].volume, contacts[0].error_bound) if contacts else (0.0, 0.0)


def achieved(client: contactd.Client, tolerances: np.ndarray, real: str) -> dict[str, Any]:
    """By shape and bound, rows by tolerance: error and bound as fractions of the volume, rays, whether the tolerance was
    reached."""
    out: dict[str, Any] = {"tolerance": tolerances}
    for name, mesh in register(client, real).items():
        turn = np.eye(3) if name == "cube" else rotation(np.array([0.4, 0.7, 0.2]))
        size = np.ptp(mesh.bounds, axis=0)
        poses = [np.eye(4), at(*(size * (0.21, 0.13, 0.08)), turn)]
        truth, _ = truth_of(client, [mesh, mesh], poses)
        scene = client.open_scene(tolerance_rel=float(tolerances[0]))
        for pose in poses:
            scene.add_body(mesh, pose=pose)
        for bound, strict in BOUNDS.items():
            rows = []
            for tolerance in tolerances:
                scene.configure(tolerance_rel=float(tolerance), strict=strict)
                result = scene.step(want="volume")
                (contact,) = result.contacts
                rows.append((abs(contact.volume - truth) / truth, contact.error_bound / truth, result.rays,
                             result.ended == "completed"))
            out[f"{name}, {bound}"] = np.array(rows, float).T
        scene.close()
        mesh.remove()
    return out


def random_pairs(client: contactd.Client, pairs: int, finest: float) -> dict[str, Any]:
    """Of pairs at random, deep and near misses, every tenth along the axes: the ratios of error and bound where a contact
    was found, and how many contacts above the tolerance were missed without saying so. Each pair by all of VIEWS."""
    rng = np.random.default_rng(1)
    meshes = [client.register_mesh(*shape) for shape in polyhedra().values()]
    meshes += [client.register_mesh(*blob(0.6, 3, 0.5)), client.register_mesh(*box((-0.7, -0.7, -0.005), (0.7, 0.7, 0.005)))]
    ratios: dict[str, list[float]] = {name: [] for name in VIEWS}
    missed = dict.fromkeys(VIEWS, 0)
    for i in range(pairs):
        two = [meshes[k] for k in rng.integers(0, len(meshes), 2)]
        reach = 0.3 if i % 2 else 0.7
        poses = [at(*rng.uniform(-reach, reach, 3), rotation(rng.normal(size=3) * (2 if i % 10 else 0))) for _ in two]
        tolerance = float(10 ** rng.uniform(np.log10(finest), -1))
        truth, slack = truth_of(client, two, poses)
        for name, settings in VIEWS.items():
            scene = client.open_scene(tolerance=tolerance, **settings)
            for mesh, pose in zip(two, poses):
                scene.add_body(mesh, pose=pose)
            result = scene.step(want="volume")
            scene.close()
            if result.contacts:
                contact = result.contacts[0]
                ratios[name].append(abs(contact.volume - truth) / (contact.error_bound + slack))
            elif result.ended == "completed" and truth > tolerance + slack:
                missed[name] += 1
    for mesh in meshes:
        mesh.remove()
    return {name: {"ratios": np.array(ratios[name]), "missed": missed[name]} for name in VIEWS}


def measure(client: contactd.Client, finest: float = 1e-4, pairs: int = 5000, real: str = "armadillo_86k.ply") -> dict:
    tolerances = np.geomspace(0.1, finest, 1 + round(3 * np.log10(0.1 / finest)))
    return {"achieved": achieved(client, tolerances, real), "random": random_pairs(client, pairs, max(finest, 1e-3))}


PANELS = 2


def plot(axes, data: dict) -> None:
    of = data["achieved"]
    asked = of["tolerance"]
    axes[0].loglog(asked, asked, "k:", label="asked for")
    for i, name in enumerate(name for name in of if name != "tolerance"):
        error, bound, _, reached = of[name]
        color, is_reached = f"C{i // 2}", reached > 0
        axes[0].loglog(asked, np.maximum(error, 1e-9), "-" if "strict" in name else "--", color=color, label=name)
        for which, fill in ((is_reached, color), (~is_reached, "none")):
            axes[0].loglog(asked[which], np.maximum(error[which], 1e-9), "o", color=color, markerfacecolor=fill)
        axes[0].loglog(asked, bound, "-" if "strict" in name else "--", color=color, alpha=0.3)
    axes[0].set(title="Error (pale: its bound; hollow: tolerance not reached)", xlabel="tolerance / volume",
                ylabel="error / volume")
    axes[0].legend(fontsize="small")
    for bound, found in data["random"].items():
        axes[1].semilogy(np.maximum(np.sort(found["ratios"])[::-1], 1e-6), label=bound)
    axes[1].axhline(1, color="k", linestyle=":")
    axes[1].set(title="Pairs at random: above 1 the bound is violated", xlabel="contact, by rank", ylabel="error / bound")
    axes[1].legend()


def numbers(data: dict) -> dict[str, float]:
    out = {}
    asked = data["achieved"]["tolerance"]
    quoted = int(np.abs(np.log(asked / QUOTED)).argmin())
    for name, rows in data["achieved"].items():
        if name == "tolerance":
            continue
        error, bound, rays, reached = rows
        out[f"{name}: error at a tolerance of {asked[quoted]:.0e}"] = float(error[quoted])
        out[f"{name}: bound at a tolerance of {asked[quoted]:.0e}"] = float(bound[quoted])
        out[f"{name}: rays at a tolerance of {asked[quoted]:.0e}"] = float(rays[quoted])
        out[f"{name}: tolerances reached, of {len(asked)}"] = float(reached.sum())
        out[f"{name}: largest error / bound"] = float((error / bound).max())
    for bound, found in data["random"].items():
        ratios = found["ratios"]
        out[f"{bound}: contacts at random"] = len(ratios)
        out[f"{bound}: violations"] = float((ratios > 1).sum())
        out[f"{bound}: contacts missed"] = float(found["missed"])
        out[f"{bound}: worst error / bound"] = float(ratios.max())
        out[f"{bound}: median error / bound"] = float(np.median(ratios))
    return out


PAPER = {"cube, published: largest error / bound": "below 1, the largest", "cone, published: largest error / bound": "below 1",
         "armadillo, published: largest error / bound": "below 1, the smallest", "published: violations": "not counted",
         "published, optimised views: violations": "not counted"}
