"""test_manifold.py - the method exact against manifold3d, the only other library that gives the volume of two meshes'
intersection exactly and says which triangle each of its faces comes from, which gives the gradient.

200 pairs run by default; MANIFOLD_PAIRS=20000 (make manifold) runs more of the same. What fails can be run alone:
MANIFOLD_FIRST=<number of the pair> MANIFOLD_PAIRS=1.

manifold's arithmetic is double, and it moves vertices by up to its tolerance (Manifold.get_tolerance(), about 1e-12 of
the bodies' size). How far that goes is measured: every pair is also computed turned and moved, which does not change the
volume, and its error is taken to be three times the spread of the three volumes. It is never taken to be less than the
tolerance times the intersection's surface.

Gradients agree to 10^-6 of their length, as vectors of all vertices of both bodies, and to 10^-11 m^2 where that is more:
the engine moves vertices to a lattice whose unit is about 10^-11 of the bodies' size, which counts in a contact that is
itself some 10^-6 m deep. Where surfaces nearly coincide,
manifold may cut them apart elsewhere, and its gradient is off by more; so that of a turned copy is computed too, turned
back, and three times the difference of the two is allowed beside. Where surfaces do coincide (the ways "aligned" and
"coincident") gradients are not compared: manifold's faces are those of one of the bodies, while the engine's gradient is
shared by both.

Scanned meshes are in ../shared/meshes, or where CONTACTD_MESHES says; without them their test is skipped.
"""
import functools
import math
import os
import pathlib
import subprocess

import numpy as np
import pytest

manifold3d = pytest.importorskip("manifold3d", reason="manifold3d is not installed; make setup installs it")

PAIRS = int(os.environ.get("MANIFOLD_PAIRS", "200"))
FIRST = int(os.environ.get("MANIFOLD_FIRST", "0"))
CHUNK = 200  # pairs that one run of the driver computes
ROOT = pathlib.Path(__file__).resolve().parents[2]
MESHES = pathlib.Path(os.environ.get("CONTACTD_MESHES", ROOT / ".." / "shared" / "meshes"))


# ---- shapes: (positions as float32, triangles) ----

def box(x, y, z):
    corners = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)]) * np.array([x, y, z]) / 2
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return corners, [t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]


def tetrahedron(size):
    return np.array([[0, 0, 0], [size, 0, 0], [0, size, 0], [0, 0, size]]), [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]


def lathe(n, heights, radius):
    """Rings of n vertices about z, closed by fans; radius(angle, height)."""
    angle = 2 * math.pi * np.arange(n) / n
    rings = [np.stack([radius(angle, z) * np.cos(angle), radius(angle, z) * np.sin(angle), np.full(n, z)], 1)
             for z in heights]
    m = len(heights)
    positions = np.concatenate(rings + [[[0, 0, heights[0]], [0, 0, heights[-1]]]])
    triangles = []
    for i in range(n):
        j = (i + 1) % n
        triangles += [(m * n, j, i), (m * n + 1, (m - 1) * n + i, (m - 1) * n + j)]
        for k in range(m - 1):
            a, b, c, d = k * n + i, k * n + j, (k + 1) * n + j, (k + 1) * n + i
            triangles += [(a, b, c), (a, c, d)]
    return positions, triangles


def ring(n, m, inner, outer, height):
    """A tube about z with a rectangle as its section; inner(angle, z) is the radius of the hole."""
    angle = 2 * math.pi * np.arange(n) / n
    profile = [(z, True) for z in np.linspace(height / 2, -height / 2, m)] + [(-height / 2, False), (height / 2, False)]
    positions, rows = [], len(profile)
    for z, is_inner in profile:
        r = inner(angle, z) if is_inner else np.full(n, outer)
        positions.append(np.stack([r * np.cos(angle), r * np.sin(angle), np.full(n, z)], 1))
    triangles = []
    for i in range(n):
        j = (i + 1) % n
        for k in range(rows):
            a, b, c, d = k * n + i, k * n + j, (k + 1) % rows * n + j, (k + 1) % rows * n + i
            triangles += [(a, b, c), (a, c, d)]
    return np.concatenate(positions), triangles


def thread(pitch, depth):
    return lambda angle, z: 0.5 + depth * np.cos(angle - 2 * math.pi * z / pitch)


def blob(rng):
    waves = rng.integers(1, 5, (4, 2))
    sizes = rng.uniform(0, 0.08, 4)

    def radius(angle, z):
        r = math.sqrt(max(0.0, 0.36 - z * z)) + 0.05
        return r * (1 + sum(s * np.cos(a * angle + 6 * b * z) for (a, b), s in zip(waves, sizes)))
    return lathe(24, np.linspace(-0.6, 0.6, 16), radius)


SCANS = ["knight_1k", "nut_2k", "screw_3k", "spot_6k", "bunny_7k", "femur_8k"]


@functools.cache
def scan(name):
    """A binary PLY file of float positions and triangles."""
    data = (MESHES / f"{name}.ply").read_bytes()
    header, body = data.split(b"end_header\n", 1)
    counts = {words[1]: int(words[2]) for words in (line.split() for line in header.decode().splitlines())
              if words[0] == "element"}
    faces = np.frombuffer(body[12 * counts["vertex"]:], [("n", "u1"), ("corners", "<u4", 3)], counts["face"])
    assert (faces["n"] == 3).all()
    return np.frombuffer(body, "<f4", 3 * counts["vertex"]).reshape(-1, 3), faces["corners"].copy()


KINDS = ["box", "tetrahedron", "cone", "plate", "blob", "bolt", "nut", "cylinder", "needle"]


def make(kind, rng):
    shape = {
        "box": lambda: box(*rng.uniform(0.3, 1.5, 3)),
        "tetrahedron": lambda: tetrahedron(rng.uniform(0.6, 1.5)),
        "cone": lambda: lathe(int(rng.integers(5, 40)), [0, 1], lambda a, z: np.full(len(a), 0.6 - 0.55 * z)),
        "plate": lambda: box(2, 2, 10 ** rng.uniform(-4, -1)),
        "blob": lambda: blob(rng),
        "bolt": lambda: lathe(24, np.linspace(-0.5, 0.5, 41), thread(0.25, 0.06)),
        "nut": lambda: ring(24, 21, thread(0.25, 0.06), 1, 0.5),
        "cylinder": lambda: lathe(24, [-0.5, 0, 0.5], lambda a, z: np.full(len(a), 0.4)),
        "needle": lambda: tetrahedron(1)if rng.random() < 0.5 else box(2, 0.01, 0.01),
    }.get(kind, lambda: scan(kind))()
    return np.asarray(shape[0], np.float32), np.asarray(shape[1], np.uint32)


# ---- placements ----

def random_rotation(rng):
    q = rng.normal(size=4)
    w, x, y, z = q / np.linalg.norm(q)
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                     [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                     [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]])


def pose(rotation, translation):
    return np.concatenate([rotation, np.asarray(translation, float)[:, None]], 1)


def apply(p, positions):
    return positions.astype(float) @ p[:, :3].T + p[:, 3]


def place(way, shapes, rng):
    """Both poses. deep: anyhow, overlapping; grazing: the outermost vertices along a direction just pass each other;
    aligned: not turned, at multiples of 1/4, so that faces coincide; coincident: one pose for both, turned; threaded:
    about one axis; nested: the middle of the second body, which `shrink` has made small, near that of the first."""
    if way == "aligned":
        return [pose(np.eye(3), rng.integers(-2, 3, 3) / 4) for _ in range(2)]
    turn = random_rotation(rng)
    if way == "coincident":
        return [pose(turn, rng.uniform(-1, 1, 3))] * 2
    if way == "threaded":
        by = np.array([0, 0, rng.uniform(-0.3, 0.3)]) + rng.uniform(-0.02, 0.02, 3)
        tilt = np.eye(3) + 0.02 * rng.normal(size=(3, 3))
        tilt, _ = np.linalg.qr(tilt)
        tilt *= np.sign(np.diag(tilt))
        return [pose(turn, [0, 0, 0]), pose(turn @ tilt, turn @ by)]
    poses = [pose(random_rotation(rng), rng.uniform(-0.4, 0.4, 3)) for _ in range(2)]
    if way == "nested":
        middles = [apply(p, s[0]).mean(0) for p, s in zip(poses, shapes)]
        poses[1][:, 3] += middles[0] - middles[1]
    if way == "grazing":
        normal = rng.normal(size=3)
        normal /= np.linalg.norm(normal)
        points = [apply(p, s[0]) for p, s in zip(poses, shapes)]
        top, bottom = points[0][np.argmax(points[0] @ normal)], points[1][np.argmin(points[1] @ normal)]
        poses[1][:, 3] += top - bottom - normal * 10 ** rng.uniform(-5, -1)
    return poses


# ---- the engine ----

def ask_engine(pairs, *arguments):
    text = b""
    for shapes, poses in pairs:
        text += np.array([n for p, t in shapes for n in (len(p), len(t))], np.uint32).tobytes()
        for positions, triangles in shapes:
            text += positions.tobytes() + triangles.tobytes()
        text += np.array(poses, float).tobytes()
    program = os.path.join(os.environ.get("BUILD", "build"), "tests/manifold/pairs")
    return subprocess.run([program, *arguments], input=text, stdout=subprocess.PIPE, check=True).stdout


def run_engine(pairs):
    """[(volume, bound, [gradient of body 0, of body 1])]; bound None: no contact."""
    out = ask_engine(pairs)
    at, answers = 0, []
    for shapes, _ in pairs:
        n_contacts, _ = np.frombuffer(out, np.uint32, 2, at)
        volume, bound = np.frombuffer(out, float, 2, at + 8)
        at += 24
        gradients = []
        for positions, _ in shapes:
            gradients.append(np.frombuffer(out, float, 3 * len(positions), at).reshape(-1, 3))
            at += 24 * len(positions)
        answers.append((volume, bound if n_contacts else None, gradients))
    assert at == len(out)
    return answers


def find_patches(pairs):
    """[[volume of each patch]], the largest first."""
    out = ask_engine(pairs, "patches")
    at, answers = 0, []
    for _ in pairs:
        (n,) = np.frombuffer(out, np.uint32, 1, at)
        answers.append(np.frombuffer(out, float, 2 * n, at + 4)[::2])
        at += 4 + 16 * n
    assert at == len(out)
    return answers


# ---- manifold ----

def intersect(points, triangles):
    """The intersection as a Manifold, and each operand's original id."""
    first = manifold3d.Manifold.reserve_ids(2)
    bodies = [manifold3d.Manifold(manifold3d.Mesh64(p, t.astype(np.uint64), run_index=np.array([0, 3 * len(t)], np.uint64),
                                                    run_original_id=np.array([first + i], np.uint32),
                                                    face_id=np.arange(len(t), dtype=np.uint64)))
              for i, (p, t) in enumerate(zip(points, triangles))]
    return bodies[0] ^ bodies[1], [first, first + 1]


def shrink(shapes, rng):
    """Makes the second body so small that it mostly fits into the first: most are wholly inside, some reach out."""
    inner = shapes[1][0] * np.float32(np.ptp(shapes[0][0], 0).min() / np.ptp(shapes[1][0], 0).max() * 10 ** rng.uniform(-2, 0))
    return [shapes[0], (inner, shapes[1][1])]


def run_manifold(shapes, poses, rng):
    """(volume, its error, the intersection's surface)"""
    volumes, surface = [], 0
    for copy in range(3):
        turn = pose(np.eye(3), [0, 0, 0]) if copy == 0 else pose(random_rotation(rng), rng.uniform(-0.5, 0.5, 3))
        points = [apply(turn, apply(p, s[0])) for p, s in zip(poses, shapes)]
        both, _ = intersect(points, [s[1] for s in shapes])
        assert both.status() == manifold3d.Error.NoError
        volumes.append(both.volume())
        surface = max(surface, both.surface_area())
        tolerance = both.get_tolerance()
    return volumes[0], max(3 * (max(volumes) - min(volumes)), tolerance * surface), surface


def gradients_of(shapes, poses):
    """dV/dx of all vertices: each face of the intersection counts to the corners of the triangle that it comes from, by
    the barycentric coordinates of its middle. None where manifold does not say which triangle that is."""
    points = [apply(p, s[0]) for p, s in zip(poses, shapes)]
    both, ids = intersect(points, [s[1] for s in shapes])
    mesh = both.to_mesh64()
    corners = mesh.vert_properties[:, :3][mesh.tri_verts]
    area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
    middle = corners.mean(1)
    gradients = [np.zeros((len(p), 3)) for p in points]
    for run, original in enumerate(mesh.run_original_id):
        body = ids.index(original)
        part = slice(mesh.run_index[run] // 3, mesh.run_index[run + 1] // 3)
        vertices = shapes[body][1][mesh.face_id[part]]
        a, b, c = (points[body][vertices[:, k]] for k in range(3))
        normal = np.cross(b - a, c - a)
        size = (normal * normal).sum(1)
        weight = np.stack([(np.cross(c - b, middle[part] - b) * normal).sum(1) / size,
                           (np.cross(a - c, middle[part] - c) * normal).sum(1) / size,
                           (np.cross(b - a, middle[part] - a) * normal).sum(1) / size])
        for k in range(3):
            np.add.at(gradients[body], vertices[:, k], weight[k][:, None] * area[part])
    return gradients


def gradient_error_of(shapes, poses, gradients, rng):
    """By how much manifold's gradient is off, as a vector of all vertices: see the top of the file."""
    turn = random_rotation(rng)
    turned = gradients_of(shapes, [pose(turn @ p[:, :3], turn @ p[:, 3]) for p in poses])
    return 3 * math.sqrt(sum(((t @ turn - g) ** 2).sum() for t, g in zip(turned, gradients)))


# ---- the test ----

WAYS = ["deep", "grazing", "deep", "aligned", "deep", "grazing", "coincident", "threaded", "nested"]


def pair_of(number):
    """Pair `number` depends on nothing but its number."""
    rng = np.random.default_rng(number)
    way = WAYS[number % len(WAYS)]
    kinds = ["bolt", "nut"] if way == "threaded" else [KINDS[k] for k in rng.integers(0, len(KINDS), 2)]
    shapes = [make(k, rng) for k in kinds]
    if way == "coincident" and number % 3:
        shapes[1] = shapes[0]
    if way == "nested":
        shapes = shrink(shapes, rng)
    return "%d: %s, %s %s" % (number, way, *kinds), way, shapes, place(way, shapes, rng)


SCAN_WAYS = ["deep", "grazing", "nested", "coincident"]


def scanned_pair_of(number):
    """The same with a scanned mesh, or two."""
    rng = np.random.default_rng([number, 2])
    way = SCAN_WAYS[number % len(SCAN_WAYS)]
    kinds = [SCANS[rng.integers(0, len(SCANS))], (SCANS + KINDS)[rng.integers(0, len(SCANS) + len(KINDS))]]
    shapes = [make(k, rng) for k in kinds]
    if way == "coincident":
        shapes[1] = shapes[0]
    if way == "nested":
        shapes = shrink(shapes, rng)
    return "scanned %d: %s, %s %s" % (number, way, *kinds), way, shapes, place(way, shapes, rng)


@pytest.fixture(params=["generated", "scanned"])
def pairs_of(request):
    """(makes a pair from its number, how many pairs)"""
    missing = [name for name in SCANS if not (MESHES / f"{name}.ply").exists()]
    if request.param == "scanned" and missing:
        pytest.skip("no scanned meshes %s in %s" % (", ".join(missing), MESHES))
    return (pair_of, PAIRS) if request.param == "generated" else (scanned_pair_of, max(1, PAIRS // 4))  # larger meshes


def test_pairs(pairs_of):
    make_pair, n_pairs = pairs_of
    ratios, errors, gradient_errors, contacts = [], [], [], 0
    for first in range(FIRST, FIRST + n_pairs, CHUNK):
        pairs = [make_pair(i) for i in range(first, min(first + CHUNK, FIRST + n_pairs))]
        answers = run_engine([(shapes, poses) for _, _, shapes, poses in pairs])
        for i, ((name, way, shapes, poses), (volume, bound, gradients)) in enumerate(zip(pairs, answers)):
            expected, unsure, surface = run_manifold(shapes, poses, np.random.default_rng([first + i, 1]))
            if bound is None:  # none, or so little that the engine cannot tell it from none
                assert expected <= unsure + 1e-10, (name, expected, unsure)
                continue
            contacts += 1
            error = abs(volume - expected)
            assert error <= bound + unsure, (name, volume, expected, bound, unsure)
            ratios.append(error / (bound + unsure))
            errors.append(error / volume)
            if way in ("aligned", "coincident"):
                continue
            reference = gradients_of(shapes, poses)
            size = math.sqrt(sum((r * r).sum() for r in reference))
            off = math.sqrt(sum(((g - r) ** 2).sum() for g, r in zip(gradients, reference)))
            own = gradient_error_of(shapes, poses, reference, np.random.default_rng([first + i, 3]))
            gradient_errors.append(off / size)
            assert off <= max(1e-6 * size, 1e-11) + own, (name, off / size, own / size)
    print("%d pairs, %d in contact; volume: relative error %.1e (median %.1e), %.2f of what is allowed; gradient: %.1e of "
          "its size (median %.1e)" % (n_pairs, contacts, max(errors), np.median(errors), max(ratios),
                                      max(gradient_errors), np.median(gradient_errors)))
    assert n_pairs < 50 or contacts > 0.6 * n_pairs


def test_patches(pairs_of):
    """The pieces are manifold's, which are the connected parts of the intersection's surface: a cavity is one, too, with a
    negative volume, and belongs to a piece."""
    make_pair, n_pairs = pairs_of
    several = 0
    for first in range(FIRST, FIRST + n_pairs, CHUNK):
        pairs = [make_pair(i) for i in range(first, min(first + CHUNK, FIRST + n_pairs))]
        for (name, way, shapes, poses), volumes in zip(pairs, find_patches([p[2:] for p in pairs])):
            both, _ = intersect([apply(p, s[0]) for p, s in zip(poses, shapes)], [s[1] for s in shapes])
            unsure = 1e-9 + 10 * both.get_tolerance() * both.surface_area()
            parts = sorted((part.volume() for part in both.decompose()), reverse=True)
            assert sum(volumes) == pytest.approx(sum(parts), abs=unsure), name
            if way in ("aligned", "coincident") or any(part < -unsure for part in parts):
                continue  # what touches may be joined there; which piece a cavity belongs to, manifold does not say
            several += len(volumes) > 1
            large = [v for v in volumes if v > 2 * unsure], [v for v in parts if v > 2 * unsure]
            for mine, theirs in zip(*large):
                assert mine == pytest.approx(theirs, abs=unsure), (name, volumes, parts)
            assert all(v < 4 * unsure for more in large for v in more[min(map(len, large)):]), (name, volumes, parts)
    print("%d pairs have several patches" % several)
    assert n_pairs < 100 or several > n_pairs / 50
