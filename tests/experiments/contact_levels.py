"""Dingliana 2005, Fig. 7: error of the contact's normal and point by level of the voxel trees, weighted by probability and
surface (equations 9 and 10) beside plain averages (7 and 8).

Each contact is between two balls, a ball and a face of a box, or a corner of a box and a face of another, in random poses,
2 to 20 % of the smaller one's radius deep; normal and point (the intersection's centre of gravity) have closed forms. Scans
are compared with the method exact. All points of a contact are averaged into one, by their weights. The point's error is
relative to the smaller body's radius or half side. "Force" is the direction and centre of the 6-vector, which uses no points.
The paper's own baseline averages lines of centres: "centres, plain".

Weighting is better at all levels, for the mean of all contacts and for scans. A weighted normal is the sum of both bodies' area
vectors, each times the probability that the other body is where this surface is: the gradient of the probable shared volume.
Plain averages count a cube with a corner of the surface like one with a whole face, and a cube that hardly overlaps like one
that lies inside. Points are means of cubes for each pair of groups, and their weights are shares of the gradient, so that their mean is
where the contact's force acts, on both surfaces alike, and not the volume's centre of gravity: for a ball in a face the two differ
by a twelfth of the depth. Weighted averages count settled cubes; plain ones have none.

A contact may have no points on coarse levels: cubes may overlap at their corners while their centres are further apart than
their radii, which are half of their sides. Its volume and 6-vector are there. "With points" is the share that has some."""

from __future__ import annotations

import contactd
import numpy as np
from random_contacts import KINDS, Scene, frame_of, mean_point, random_cases, random_scans, register_scans, shapes

PANELS = 2
FINEST = 6
VARIANTS = {"weighted": {}, "plain": {"plain_average": True}, "centres, weighted": {"center_normals": True},
            "centres, plain": {"center_normals": True, "plain_average": True}}


def errors_by_level(scene: Scene, levels: range) -> dict:
    """(levels, 2) mean errors of each variant, and the share of contacts that have points. At each level all variants are
    compared over the same contacts."""
    out: dict = {name: [] for name in (*VARIANTS, "force", "with points")}
    for level in levels:
        of = {}
        for name, settings in VARIANTS.items():
            settings = {"center_normals": False, "plain_average": False} | settings
            of[name] = scene.answers(mean_point, method="voxtree", voxel_level=FINEST, level=level, max_points=4096, **settings)
        of["force"] = scene.answers(frame_of, center_normals=False, plain_average=False)
        common = set.intersection(*(set(answers) for answers in of.values()))
        for name, answers in of.items():
            out[name].append(scene.errors({i: answers[i] for i in common}).mean(0))
        out["with points"].append(len(common) / len(scene.cases))
    return {name: np.array(values) for name, values in out.items()}


def measure(client: contactd.Client, contacts: int = 1000, scans: int = 1000, levels: range = range(1, FINEST + 1)) -> dict:
    """contacts: of balls and boxes, a third of each kind. scans: contacts of scans, where there are scans."""
    rng = np.random.default_rng(2005)
    meshes = {name: client.register_mesh(*mesh) for name, mesh in shapes().items()}
    cases = {kind: random_cases(kind, -(-contacts // 3), rng) for kind in KINDS}
    cases = {"balls and boxes": sum(cases.values(), [])} | cases
    real = register_scans(client) if scans else {}
    if real:
        cases["scans"] = random_scans(client, scans, rng, real)
    out = {}
    for kind, of in cases.items():
        scene = Scene(client, of, meshes | real)
        out[kind] = errors_by_level(scene, levels) | {"levels": list(levels)}
        out[kind]["exact"] = scene.errors(scene.answers(frame_of, method="exact")).mean(0)
        scene.scene.close()
    return out


def plot(axes, data: dict) -> None:
    for kind, style in (("balls and boxes", "o-"), ("scans", "s--")):
        for name, color in zip(("weighted", "plain", "centres, plain", "force"), ("C0", "C1", "C3", "C2")):
            for axis, errors in zip(axes, data[kind][name].T if kind in data else ()):
                axis.semilogy(data[kind]["levels"], errors, style, color=color, label=f"{name}, {kind}")
    axes[0].set(title="Error of the normal", xlabel="level", ylabel="degrees")
    axes[1].set(title="Error of the point", xlabel="level", ylabel="relative to the smaller body")
    axes[1].legend(fontsize=8)


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for kind, of in data.items():
        for i, level in enumerate(of["levels"]):
            for name in ("weighted", "plain", "centres, plain", "force"):
                out[f"normal, degrees, level {level}, {name}, {kind}"] = float(of[name][i, 0])
                out[f"point, relative, level {level}, {name}, {kind}"] = float(of[name][i, 1])
            out[f"with points, level {level}, {kind}"] = float(of["with points"][i])
    return out


PAPER = {"normal, degrees": "falls with the level; weighted below plain, most on coarse levels",
         "point, relative": "as the normal"}
