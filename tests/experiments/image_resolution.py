"""Wang 2012, Fig. 9, right: the rays that a tolerance takes, by the resolution of the image that refinement starts from.

The paper draws, without numbers, the rays for one precision over the image's resolution, with coarsening and without. Without
it they fall at first and rise where the image has more pixels than the tolerance needs rays; with coarsening they stay
low. `ebpi` has no setting for the resolution: it takes the image from the number of triangles, sqrt(n / 2) pixels along the
longer side, 8 to 256 of them. So here the faces of an icosahedron and of a cube are cut into ever smaller triangles. Their shape
stays, edges between coplanar triangles add nothing to the bound, and only the image changes. The body meets a displaced
and turned copy of itself.

The paper's allocation is drawn with coarsening (`published`) and without (`per_pixel`); beside them the optimal one, by the
published bound and by the strict one.

The paper's shape comes out: rays fall from coarse images to fine ones, and from a certain resolution on rise along "one ray for
each pixel" without coarsening, while with it they stay low: at a tenth of the volume an image of 143 pixels takes 36,541 rays
without and 757 with it. At a hundredth that holds from 110 pixels on, where coarsening takes 1.3 to 30 times fewer rays. The optimal
allocation is flat where the paper's falls: a pixel there is sampled uniformly, even if one detail asks for more rays, and ours cuts
only those parts of it that need more. It takes 5 to 230 times fewer rays at a hundredth from images of up to 72 pixels. From
finer ones it begins with about 65 pixels whatever the faces are, where coarsening begins with 8: it takes 0.2 to 1.9 times as many. The strict bound counts the tiles
that an edge touches, also of coplanar triangles, for faces that count as steep; so it takes more rays from finer images."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import Mesh, box, icosphere

SHAPES = {"icosahedron": icosphere(0.5, 0), "cube": box((-0.5,) * 3, (0.5,) * 3)}
TOLERANCES = (0.1, 0.01, 0.001)  # of the volume
CURVES = {"optimal": ("optimal", False), "strict": ("optimal", True), "coarsening": ("published", False),
          "no coarsening": ("per_pixel", False)}  # allocation, whether the bound is strict
EQUAL_FROM = 0.01  # equal parts of the tolerance take too many rays below this


def split_faces(mesh: Mesh, times: int) -> Mesh:
    """Cuts each triangle into 4, this many times; the surface stays."""
    vertices, triangles = mesh
    for _ in range(times):
        edges = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
        unique, inverse = np.unique(edges, axis=0, return_inverse=True)
        a, b, c = triangles.T
        ab, bc, ca = len(vertices) + inverse.reshape(3, -1)
        vertices = np.concatenate([vertices, vertices[unique].mean(1)])
        triangles = np.concatenate([np.stack(t, 1) for t in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))])
    return vertices, triangles


def keys_of(tolerances: tuple[float, ...]) -> dict[str, tuple[str, float]]:
    """The curves' names, of curve and tolerance."""
    return {f"{curve}, {tolerance:g}": (curve, tolerance) for curve, (allocation, _) in CURVES.items()
            for tolerance in tolerances if allocation == "optimal" or tolerance >= EQUAL_FROM}


def measure(client: contactd.Client, splits: int = 7, tolerances: tuple[float, ...] = TOLERANCES) -> dict:
    """By shape: the pixels along an image's side, and rays by bound and tolerance; those of answers that did not reach
    the tolerance are infinite."""
    out: dict = {}
    for name, shape in SHAPES.items():
        pixels, rays = [], {key: [] for key in keys_of(tolerances)}
        for times in range(splits + 1):
            mesh = client.register_mesh(*split_faces(shape, times))
            pixels.append(float(np.clip(np.sqrt(mesh.triangle_count), 8, 256)))  # two bodies
            scene = client.open_scene(tolerance_rel=tolerances[0])
            scene.add_body(mesh, pose=np.eye(4))
            scene.add_body(mesh, pose=at(0.21, 0.13, 0.08, rotation(np.array([0.4, 0.7, 0.2]))))
            for key, (curve, tolerance) in keys_of(tolerances).items():
                allocation, strict = CURVES[curve]
                scene.configure(tolerance_rel=tolerance, strict=strict, allocation=allocation)
                result = scene.step(want="volume")
                rays[key].append(result.rays if result.ended == "completed" else np.inf)
            scene.close()
            mesh.remove()
        out[name] = {"pixels": np.array(pixels)} | {key: np.array(of, float) for key, of in rays.items()}
    return out


PANELS = 2


def plot(axes, data: dict) -> None:
    for panel, (name, of) in zip(axes, data.items()):
        for i, (key, rays) in enumerate((key, rays) for key, rays in of.items() if key != "pixels"):
            style = {"optimal": "o-", "strict": "o--", "coarsening": "s-", "no coarsening": "s:"}[key.split(",")[0]]
            panel.loglog(of["pixels"], rays, style, color=f"C{i}", label=key)
        panel.loglog(of["pixels"], 3 * of["pixels"] ** 2, "k:", label="one ray for each pixel")
        panel.set(title=f"{name}: bound, tolerance / volume", xlabel="pixels along a side", ylabel="rays of three views")
        panel.legend(fontsize="small")


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for name, of in data.items():
        for key, rays in of.items():
            if key == "pixels":
                continue
            best = int(rays.argmin())
            out[f"{name}, {key}: fewest rays"] = float(rays[best])
            out[f"{name}, {key}: pixels at the fewest rays"] = float(of["pixels"][best])
            out[f"{name}, {key}: coarsest image's rays / fewest"] = float(rays[0] / rays[best])
            out[f"{name}, {key}: finest image's rays / fewest"] = float(rays[-1] / rays[best])
    return out


PAPER = {f"{name}, {key}: {which} image's": text for name in SHAPES for key in keys_of(TOLERANCES) for which, text in
         (("coarsest", "above 1"), ("finest", "above 1; with coarsening less so"))}
