"""Open crates, or nested bowls, come to rest in MuJoCo with contactd's contacts, and the judge says how far they sank.

    python client_py/examples/crates.py                      # needs mujoco: pip install mujoco
    python client_py/examples/crates.py --bowls --seconds 1 --html judge.html
    python client_py/examples/crates.py --by mujoco          # MuJoCo's own contacts: of convex hulls

A crate is hollow, and so is a bowl: their convex hulls stack where the things themselves stand in each other."""

from __future__ import annotations

import argparse
import time

import contactd
import numpy as np

Mesh = tuple[np.ndarray, np.ndarray]
STIFF = {"solref": (0.005, 1.0), "solimp": (0.99, 0.999, 1e-4, 0.5, 2.0)}


def revolved(profile: np.ndarray, around: int = 48) -> Mesh:
    """A closed profile of (radius, height), from a point on the axis outwards and back to it, turned about z."""
    inner = profile[1:-1]
    a = 2 * np.pi * np.arange(around) / around
    rings = np.stack([inner[:, :1] * np.cos(a), inner[:, :1] * np.sin(a), np.repeat(inner[:, 1:], around, 1)], -1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(len(inner) - 1), np.arange(around), indexing="ij")
    p, q, r, s = (((i + di) * around + (j + dj) % around).ravel() for di, dj in ((0, 0), (0, 1), (1, 1), (1, 0)))
    n, k, last = len(rings), np.arange(around), (len(inner) - 1) * around
    caps = [np.stack([np.full(around, n), (k + 1) % around, k], 1), np.stack([np.full(around, n + 1), last + k, last + (k + 1) % around], 1)]
    faces = np.concatenate([np.stack([p, q, r], 1), np.stack([p, r, s], 1), *caps])
    return np.concatenate([rings, [[0, 0, profile[0, 1]], [0, 0, profile[-1, 1]]]]), faces


def bowl(radius: float = 0.10, wall: float = 0.008, floor: float = 0.012, foot: float = 0.04, around: int = 48) -> Mesh:
    t = np.linspace(0, np.pi / 2, 10)
    outer = np.stack([foot + (radius - foot) * np.sin(t), (radius - foot) * (1 - np.cos(t))], 1)
    inner = np.stack([foot + (radius - wall - foot) * np.sin(t), floor + (outer[-1, 1] - floor) * (1 - np.cos(t))], 1)[::-1]
    return revolved(np.concatenate([[[0, 0]], outer, inner, [[0, floor]]]), around)


def crate(width: float = 0.2, height: float = 0.1, wall: float = 0.01) -> Mesh:
    """A box without a lid, about its middle: 28 triangles."""
    half, low, high = width / 2, -height / 2, height / 2
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], float)
    rings = [np.column_stack([r * square, np.full(4, z)]) for r, z in
             ((half, low), (half, high), (half - wall, high), (half - wall, low + wall))]
    faces = [(0, 2, 1), (0, 3, 2), (12, 13, 14), (12, 14, 15)]
    for ring in range(3):
        for k in range(4):
            a, b = 4 * ring + k, 4 * ring + (k + 1) % 4
            faces += [(a, b, b + 4), (a, b + 4, a + 4)]
    return np.concatenate(rings), np.array(faces)


def stack(mesh: Mesh, gap: float, first: float, count: int = 3, dt: float = 2e-3) -> str:
    """MJCF of a stack that is a little askew, above a floor."""
    v, f = (" ".join(map(repr, array.ravel().tolist())) for array in mesh)
    bodies = "".join(f'<body name="b{k}" pos="{0.004 * k} {-0.003 * k} {first + gap * k}"><freejoint/><geom name="g{k}" type="mesh" mesh="m" '
                     f'mass="0.5"/></body>' for k in range(count))
    return (f'<mujoco><option timestep="{dt}" integrator="implicitfast" cone="elliptic"/><asset><mesh name="m" vertex="{v}" face="{f}"/></asset>'
            f'<worldbody><geom name="floor" type="plane" size="1 1 .1"/>{bodies}</worldbody></mujoco>')


def main() -> None:
    import contactd.mujoco
    import mujoco

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bowls", action="store_true", help="three nested bowls instead of crates")
    parser.add_argument("--by", choices=("contactd", "mujoco"), default="contactd", help="whose contacts")
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--html", help="where the judge's report goes")
    given = parser.parse_args()
    model = mujoco.MjModel.from_xml_string(stack(bowl(), 0.032, 0.002) if given.bowls else stack(crate(), 0.1, 0.0501))
    data = mujoco.MjData(model)
    contacts = contactd.mujoco.attach(model, data, **STIFF) if given.by == "contactd" else None
    track, began = [], time.perf_counter()
    for _ in range(round(given.seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)
        track.append(data.qpos.copy())
    took = time.perf_counter() - began
    if contacts:
        contacts.detach()
    report = contactd.mujoco.judge(model, np.array(track))
    heights = ", ".join(f"{1e3 * z:.2f}" for z in data.qpos[2::7])
    print(f"{len(track)} steps, {len(track) / took:.0f} a second; heights {heights} mm; fastest {np.abs(data.qvel).max():.1e}")
    print(report.worst or "nothing overlaps")
    print(f"at the end {1e6 * report.depth[-1].max(initial=0):.3g} µm deep")
    if given.html:
        report.save(given.html)


if __name__ == "__main__":
    main()
