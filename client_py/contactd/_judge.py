"""The judge of any simulation: how far bodies were inside each other, by exact intersection volumes, frame by frame.

    report = contactd.judge({"nut": "nut.stl", "bolt": "bolt.stl"}, poses, times=t)
    print(report.worst)                 # worst penetration 160 µm at 0.84 s between nut and bolt
    report.save("judge.html")

From a shell: python -m contactd judge --mesh nut=nut.stl --mesh bolt=bolt.stl --poses poses.csv --html judge.html
"""

from __future__ import annotations

import argparse
import csv
import html
import json
import os
import pathlib
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _arrays
from ._own_engine import own_engine
from .client import Client, Mesh, Unit, mesh_from
from .errors import ContactdError, ErrorCode, error_for
from .result import StepResult
from .scene import Scene

BATCH = 64  # frames that are computed together
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2", "#b58900", "#4a4a4a", "#d0679d", "#2aa198")
MOST_DRAWN = len(COLOURS)
_COLUMNS = ("time", "body", "x", "y", "z", "qx", "qy", "qz", "qw")


@dataclass(frozen=True)
class Worst:
    """The deepest penetration of all frames and pairs; a body wholly inside another comes before all that are not."""

    depth: float  # m
    volume: float  # m^3, of the pair in that frame
    time: float  # s
    frame: int
    bodies: tuple[str, str]
    is_nested: bool  # one of them is wholly inside the other

    def __str__(self) -> str:
        a, b = self.bodies
        if self.is_nested:
            return f"worst penetration: one of {a} and {b} wholly inside the other, {self.volume:.3g} m³, at {self.time:.4g} s"
        return f"worst penetration {length(self.depth)} at {self.time:.4g} s between {a} and {b}"


def length(metres: float) -> str:
    """"160 µm"."""
    for unit, name in ((1.0, "m"), (1e-3, "mm"), (1e-6, "µm"), (1e-9, "nm")):
        if metres >= 0.9995 * unit:  # three digits
            return f"{metres / unit:.3g} {name}"
    return f"{metres:.3g} m"


class Report:
    """Of each frame and of each pair of bodies that overlap in any: arrays (T, p).

    Attributes:
        names: of the bodies.
        times: (T,) s.
        pairs: (p, 2) bodies.
        volume: (T, p) m^3, of the intersection.
        depth: (T, p) m: the mean depth of the deepest of the intersection's connected parts: its volume over the area of the surfaces that
            bound it, the mean of both bodies'.
        patches: (T, p) connected parts of the intersection.
        nested: (T, p) whether one of the bodies, or a part of its surface, is wholly inside the other.
    """

    def __init__(self, names: Sequence[str], times: NDArray[np.float64], pairs: NDArray[np.int64], volume: NDArray[np.float64],
                 depth: NDArray[np.float64], patches: NDArray[np.int64], nested: NDArray[np.bool_]) -> None:
        self.names, self.times, self.pairs = list(names), times, pairs
        self.volume, self.depth, self.patches, self.nested = volume, depth, patches, nested

    @property
    def worst(self) -> Worst | None:
        """None: nothing overlaps."""
        if not self.volume.size or not self.volume.any():
            return None
        key = np.where(self.nested, np.inf, self.depth) if self.nested.any() else self.depth
        candidates = np.argwhere(key == key.max())
        frame, pair = candidates[np.argmax(self.volume[tuple(candidates.T)])].tolist()
        a, b = self.pairs[pair].tolist()
        return Worst(float(self.depth[frame, pair]), float(self.volume[frame, pair]), float(self.times[frame]), frame,
                     (self.names[a], self.names[b]), bool(self.nested[frame, pair]))

    def pair_name(self, pair: int) -> str:
        a, b = self.pairs[pair].tolist()
        return f"{self.names[a]} – {self.names[b]}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the worst, and of each pair its name and its largest depth, volume and number of patches."""
        worst = self.worst
        pairs = [{"bodies": [self.names[k] for k in self.pairs[p].tolist()], "depth": float(self.depth[:, p].max()),
                  "volume": float(self.volume[:, p].max()), "patches": int(self.patches[:, p].max()),
                  "frames": int((self.volume[:, p] > 0).sum()), "nested": bool(self.nested[:, p].any())} for p in range(len(self.pairs))]
        return {"frames": len(self.times), "worst": None if worst is None else {
            "depth": worst.depth, "volume": worst.volume, "time": worst.time, "frame": worst.frame, "bodies": list(worst.bodies),
            "nested": worst.is_nested, "text": str(worst)}, "pairs": pairs}

    def _deepest(self) -> list[int]:
        """The pairs that are drawn."""
        key = np.where(self.nested.any(0), np.inf, self.depth.max(0, initial=0))
        return [int(k) for k in np.argsort(-key, kind="stable")[:MOST_DRAWN]]

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws depths and volumes over time, of the pairs that are deepest. Needs matplotlib: pip install matplotlib."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError("report.plot needs the package matplotlib: pip install matplotlib; report.save draws without it",
                              name="matplotlib") from None
        figure = Figure(figsize=(9, 6), layout="constrained")
        FigureCanvasAgg(figure)
        above, below = figure.subplots(2, 1, sharex=True)
        for colour, pair in zip(COLOURS, self._deepest()):
            above.plot(self.times, 1e6 * self.depth[:, pair], color=colour, label=self.pair_name(pair))
            below.plot(self.times, 1e9 * self.volume[:, pair], color=colour)
        above.set_ylabel("depth, µm")
        below.set_ylabel("volume, mm³")
        below.set_xlabel("time, s")
        above.set_title(str(self.worst) if self.worst else "nothing overlaps")
        if len(self.pairs):
            above.legend(fontsize="small")
        figure.savefig(path, dpi=120)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a page of HTML that needs nothing else: the worst, curves of depth and volume, and a table of all pairs."""
        rows = "".join(
            f"<tr><td>{html.escape(self.pair_name(p))}</td><td>{length(float(self.depth[:, p].max()))}</td>"
            f"<td>{self.times[int(self.depth[:, p].argmax())]:.4g}</td><td>{self.volume[:, p].max() * 1e9:.4g}</td>"
            f"<td>{int(self.patches[:, p].max())}</td><td>{int((self.volume[:, p] > 0).sum())}</td>"
            f"<td>{'yes' if self.nested[:, p].any() else ''}</td></tr>"
            for p in np.argsort(-self.depth.max(0, initial=0), kind="stable").tolist())
        drawn = self._deepest()
        legend = "".join(f'<span style="color:{c}">■</span> {html.escape(self.pair_name(p))} ' for c, p in zip(COLOURS, drawn))
        headline = html.escape(str(self.worst) if self.worst else "nothing overlaps")
        table = ("<table><tr><th>pair<th>deepest<th>at, s<th>largest volume, mm³<th>patches<th>frames in contact<th>nested</tr>"
                 f"{rows}</table>")
        page = (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{headline}</title><style>{_STYLE}</style><h1>{headline}</h1>'
                f"<p>{len(self.times)} frames, {len(self.names)} bodies, {len(self.pairs)} pairs that overlap. Depth: volume over area of the "
                f"surface inside, of the deepest connected part of a pair's intersection.</p><p>{legend}</p>"
                f"{self._curves('depth, µm', 1e6 * self.depth, drawn)}{self._curves('volume, mm³', 1e9 * self.volume, drawn)}{table}</html>")
        pathlib.Path(path).write_text(page, encoding="utf-8")

    def _curves(self, label: str, values: NDArray[np.float64], drawn: list[int]) -> str:
        """An SVG of 860 x 240."""
        top = float(values[:, drawn].max(initial=0)) or 1.0
        begin, end = (float(self.times[0]), float(self.times[-1])) if len(self.times) else (0.0, 1.0)
        x = 60 + 780 * (self.times - begin) / ((end - begin) or 1.0)
        lines = []
        for colour, pair in zip(COLOURS, drawn):
            y = 210 - 190 * values[:, pair] / top
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist()))
            lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        marks = "".join(f'<text x="55" y="{210 - 190 * k / 2 + 4:.0f}" text-anchor="end">{top * k / 2:.3g}</text>'
                        f'<line x1="60" x2="840" y1="{210 - 95 * k}" y2="{210 - 95 * k}" stroke="#ddd"/>' for k in range(3))
        return (f'<svg viewBox="0 0 860 240" role="img" aria-label="{label}">{marks}{"".join(lines)}<text x="60" y="14">{label}</text>'
                f'<text x="60" y="230">{begin:.4g} s</text><text x="840" y="230" text-anchor="end">{end:.4g} s</text></svg>')

    def __repr__(self) -> str:
        return f"<Report of {len(self.times)} frames: {self.worst or 'nothing overlaps'}>"


_STYLE = ("body{font:15px system-ui,sans-serif;max-width:900px;margin:2em auto;color:#222}svg{width:100%;font-size:11px}"
          "table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}"
          "td:first-child,th:first-child{text-align:left}")


def judge(meshes: Mapping[str, Any] | Sequence[Any], poses: Any = None, *, frames: Iterable[Iterable[ArrayLike]] | None = None,
          names: Sequence[str] | None = None, times: ArrayLike | None = None, dt: float | None = None,
          ignore: Sequence[tuple[str, str]] = (), unit: Unit = "m", client: Client | None = None) -> Report:
    """Measures a trajectory.

    Args:
        meshes: of each body, by name or in order: a path of a GLB, glTF, OBJ, OFF, PLY or STL file, (vertices, triangles), or a contactd.Mesh of `client`.
        poses: (T, b, 4, 4), (T, b, 3, 4) or (T, b, 7) with translations and quaternions x y z w; or the path of a file:
            .npz with an array `poses` like that, and `times` if you like; .csv with the columns time, body, x, y, z, qx, qy, qz, qw, a row for each
            body and time, where a body without rows rests at the origin.
        frames: instead of poses, of surfaces that deform: T times the vertices (n, 3) of each body, whose triangles `meshes` has.
        names: of the bodies, where `meshes` has none.
        times: (T,) s; or dt: s between frames; else frames are numbered.
        ignore: pairs of names that are not looked at, such as parts that are pressed together.
        unit: of the meshes' vertices; poses are in metres.
        client: where it is computed; None: an engine in this process.
    Raises: ContactdError: InvalidMeshError names the mesh, WrongLengthError the array, ParseError the file and its line.
    """
    client = client or own_engine()
    known = list(meshes) if isinstance(meshes, Mapping) else [_name_of(m, k) for k, m in enumerate(meshes)]
    names = list(names) if names is not None else known
    if len(names) != len(known):
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected {len(known)} names, one for each mesh, got {len(names)}", field="names")
    _check_ignored(ignore, names)
    given = list(meshes.values()) if isinstance(meshes, Mapping) else list(meshes)
    registered = [mesh_from(client, m, name, unit) for m, name in zip(given, names)]
    if (poses is None) == (frames is None):
        raise error_for(ErrorCode.INVALID_ARGUMENT, "expected poses or frames, one of them", field="poses")
    if isinstance(poses, (str, os.PathLike)):
        poses, times = _read(pathlib.Path(poses), names, times)
    surfaces: list[list[ArrayLike]] = []
    for field, given_by_name in (("poses", poses), ("frames", frames)):
        if isinstance(given_by_name, Mapping):
            raise error_for(ErrorCode.INVALID_ARGUMENT, "expected, of each frame, one for each body in the order of the meshes, got a "
                            f"dictionary of {', '.join(map(str, given_by_name)) or 'nothing'}", field=field)
    if frames is None:
        try:
            poses = np.asarray(poses, float)
        except (TypeError, ValueError) as e:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected an array of numbers: {e}", field="poses") from None
        count = len(poses) if poses.ndim else 0
    else:
        count = len(surfaces := [list(frame) for frame in frames])
        for t, surface in enumerate(surfaces):
            if len(surface) != len(names):
                raise error_for(ErrorCode.WRONG_LENGTH, f"expected {len(names)} arrays of positions, one for each body, got {len(surface)}",
                                object=f"frame {t}", field="frames")
    if times is None:
        times = np.arange(count) * (1.0 if dt is None else _arrays.real(dt, field="dt"))
    with client.open_scene(method="exact", patches=True, name="judge") as scene:
        for k, mesh in enumerate(registered):
            left_out = [scene.bodies[j] for j in range(k) if {(names[j], names[k]), (names[k], names[j])} & set(map(tuple, ignore))]
            scene.add_body(mesh, np.eye(4) if frames is None else None, ignore=left_out)
        if frames is None:
            return judge_scene(scene, poses, names, times)
        rows = [[_arrays.points(v, field=f"frame {t}", object=name, rows=mesh.vertex_count) for v, name, mesh in zip(frame, names, registered)]
                for t, frame in enumerate(surfaces)]
        positions = np.zeros((count, sum(mesh.vertex_count for mesh in registered), 3))
        for place, row in zip(positions, rows):
            np.concatenate(row, out=place)
        return judge_scene(scene, None, names, times, positions)


def _check_ignored(ignore: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    for pair in ignore:
        if isinstance(pair, str) or len(pair) != 2:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"{pair!r} is no pair of names, such as (\"nut\", \"bolt\")", field="ignore")
        if unknown := [name for name in pair if name not in names]:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"there is no body {unknown[0]!r} to ignore; bodies are {', '.join(names)}", field="ignore")


def judge_scene(scene: Scene, poses: Any, names: Sequence[str], times: ArrayLike, positions: ArrayLike | None = None) -> Report:
    """The same of a scene with patches, whose bodies are named and posed, half-spaces too, or deform, in their order."""
    bodies = len(scene.bodies)
    moving = np.asarray(poses if positions is None else positions, float)
    if positions is None and (moving.ndim not in (3, 4) or moving.shape[1] != bodies):
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape (T, {bodies}, 4, 4) or (T, {bodies}, 7), got {moving.shape}", field="poses")
    seconds = np.asarray(times, float)
    if seconds.shape != (len(moving),):
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected {len(moving)} times, one for each frame, got {seconds.shape}", field="times")
    parts: list[list[np.ndarray]] = []
    turned: dict[int, list[int]] = {}  # frames in which a body is inside out or flat
    copies = scene.client.open_scenes(min(BATCH, len(moving)), scene)
    try:
        for at in range(0, len(moving), BATCH):
            steps: list[tuple[Scene, dict[str, Any]]] = [
                (copy, {"want": ("frame", "gradient"), "poses" if positions is None else "positions": (copy.bodies, rows)})
                for copy, rows in zip(copies, moving[at:at + BATCH])]
            for frame, (result, copy) in enumerate(zip(scene.client._step_each(steps), copies), at):
                for body in (w.body for w in result.warnings if w.code in ("BODY_INVERTED", "BODY_COLLAPSED")):
                    turned.setdefault(copy.bodies.index(body), []).append(frame)
                if len(result):
                    parts.append([np.full(len(result), frame), result.body_pairs, result.volumes, _depths(result), result.are_nested])
    finally:
        for copy in copies:
            copy.close()
    for k, at_frames in turned.items():
        warnings.warn(f"{names[k]} is inside out or flat in {len(at_frames)} frames, the first at {seconds[at_frames[0]]:.4g} s: it has no contacts "
                      "there, and the report tells of none", stacklevel=3)
    empty = [np.zeros(0, int), np.zeros((0, 2), int), np.zeros(0), np.zeros(0), np.zeros(0, bool)]
    frames, pairs, volumes, depths, nested = (np.concatenate(column) for column in zip(empty, *parts))
    return _report(names, seconds, bodies, frames, pairs, volumes, depths, nested)


def _depths(result: StepResult) -> NDArray[np.float64]:
    """(n,) m, of each contact. Where one wraps around the other, as a thread does, areas as seen along the normal cancel: so the area is
    that of the surface inside, the mean of both sides; a half-space, which has no vertices, has the area as seen."""
    (begin, count), sizes = result._counts, np.linalg.norm(result.entries.gradient, axis=1)
    inside = np.array([sizes[a:a + n].sum() for a, n in zip(begin.ravel(), count.ravel())]).reshape(-1, 2)
    areas = np.where((count > 0).all(1), inside.mean(1), inside.sum(1))
    return np.asarray(result.volumes / np.maximum(areas, np.maximum(result.areas, 1e-300)))


def _report(names: Sequence[str], times: NDArray[np.float64], bodies: int, frame: np.ndarray, pair: np.ndarray, volume: np.ndarray,
            depth: np.ndarray, nested: np.ndarray) -> Report:
    """Of rows, one for each patch in each frame."""
    codes, column = np.unique(pair[:, 0] * bodies + pair[:, 1], return_inverse=True)
    shape = (len(times), len(codes))
    volumes, depths, patches, inside = np.zeros(shape), np.zeros(shape), np.zeros(shape, int), np.zeros(shape, bool)
    np.add.at(volumes, (frame, column), volume)
    np.maximum.at(depths, (frame, column), depth)
    np.add.at(patches, (frame, column), 1)
    np.logical_or.at(inside, (frame, column), nested.astype(bool))
    return Report(names, times, np.stack([codes // max(bodies, 1), codes % max(bodies, 1)], 1), volumes, depths, patches, inside)


def _name_of(mesh: Any, k: int) -> str:
    if isinstance(mesh, (str, os.PathLike)):
        return pathlib.Path(mesh).stem
    return mesh.name or f"body {k}" if isinstance(mesh, Mesh) else f"body {k}"


# ---- files ----

def _read(path: pathlib.Path, names: Sequence[str], times: ArrayLike | None) -> tuple[np.ndarray, ArrayLike | None]:
    if path.suffix == ".npz":
        arrays = _read_npz(path)
        if "poses" not in arrays:
            raise error_for(ErrorCode.PARSE_ERROR, f"expected an array named poses, got {', '.join(arrays) or 'none'}", object=str(path))
        return arrays["poses"], arrays.get("times") if times is None else times
    if path.suffix == ".csv":
        try:
            return _read_csv(path, names)
        except (UnicodeDecodeError, csv.Error) as e:
            raise error_for(ErrorCode.PARSE_ERROR, f"expected text in UTF-8: {e}", object=str(path)) from None
    raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected a file .npz or .csv, got {path.name}", field="poses")


def _read_npz(path: pathlib.Path) -> dict[str, np.ndarray]:
    try:
        file = np.load(path)
        if isinstance(file, np.ndarray):
            raise ValueError("it holds one array without a name")
        with file:
            return dict(file)
    except (EOFError, ValueError, zipfile.BadZipFile, zlib.error) as e:
        raise error_for(ErrorCode.PARSE_ERROR, f"expected arrays of numbers as numpy.savez writes them: {e}", object=str(path)) from None


def _read_csv(path: pathlib.Path, names: Sequence[str]) -> tuple[np.ndarray, NDArray[np.float64]]:
    place = {name: k for k, name in enumerate(names)}
    rows: dict[float, dict[int, list[float]]] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        reader.fieldnames = [name.rstrip(" \t") for name in reader.fieldnames or ()]
        if missing := [column for column in _COLUMNS if column not in (reader.fieldnames or ())]:
            raise error_for(ErrorCode.PARSE_ERROR, f"expected the columns {', '.join(_COLUMNS)}; {', '.join(missing)} is missing",
                            object=str(path))
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            name = row["body"] if row["body"] in place else (row["body"] or "").rstrip(" \t")
            if name not in place:
                raise error_for(ErrorCode.PARSE_ERROR, f"there is no mesh for {name!r}; there are {', '.join(names)}", object=where)
            try:
                numbers = [float(row[column]) for column in _COLUMNS if column != "body"]
            except (TypeError, ValueError):
                raise error_for(ErrorCode.PARSE_ERROR, f"expected numbers, got {list(row.values())}", object=where) from None
            here = rows.setdefault(numbers[0], {})
            if place[name] in here:
                raise error_for(ErrorCode.PARSE_ERROR, f"{name} is there twice at {numbers[0]:g} s", object=where)
            here[place[name]] = numbers[1:]
    times = np.array(sorted(rows))
    poses = np.zeros((len(times), len(names), 7))
    poses[:, :, 6] = 1
    used = {body for here in rows.values() for body in here}
    for t, time in enumerate(times.tolist()):
        if lost := used - rows[time].keys():
            raise error_for(ErrorCode.PARSE_ERROR, f"at {time:g} s there is no row of {', '.join(names[k] for k in sorted(lost))}",
                            object=str(path))
        for body, numbers in rows[time].items():
            poses[t, body] = numbers
    return poses, times


# ---- from a shell ----

def _named_files(items: Sequence[str]) -> dict[str, str]:
    """Of NAME=FILE, or of a FILE that names its body."""
    files: dict[str, str] = {}
    for item in items:
        name, equals, path = item.partition("=")
        if not equals:
            name, path = pathlib.Path(item).stem, item
        if not name or not path:
            raise ValueError(f"{item} names no {'file' if name else 'body'}, expected NAME=FILE")
        if name in files:
            raise ValueError(f"two bodies are named {name}: give each a name, NAME=FILE")
        files[name] = path
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m contactd judge", description="Measures how far the bodies of a trajectory are inside each "
                                     "other. Exit status: 0; 1 where --limit is passed; 2 for wrong arguments or files, or "
                                     "where matplotlib is missing.")
    parser.add_argument("--mesh", action="append", required=True, metavar="NAME=FILE", help="a body: GLB, glTF, OBJ, OFF, PLY or STL; "
                        "without NAME= it has the file's name")
    parser.add_argument("--poses", required=True, metavar="FILE", help=".npz with poses (T, b, 4, 4) or (T, b, 7), and times; or .csv with "
                        + ", ".join(_COLUMNS))
    parser.add_argument("--unit", default="m", help="of the meshes: m, mm, in and so on")
    parser.add_argument("--ignore", action="append", default=[], metavar="A,B", help="a pair that is not looked at")
    parser.add_argument("--limit", type=float, metavar="M", help="depth in m above which the exit status is 1")
    parser.add_argument("--html", metavar="FILE", help="writes a report")
    parser.add_argument("--plot", metavar="FILE", help="draws curves, with matplotlib")
    parser.add_argument("--json", action="store_true", help="prints JSON")
    given = parser.parse_args(arguments)
    try:
        if given.limit is not None and not given.limit >= 0:
            raise ValueError(f"--limit is {given.limit:g}, expected 0 or more")
        report = judge(_named_files(given.mesh), given.poses, unit=given.unit, ignore=[tuple(pair.split(",")) for pair in given.ignore])
        if given.html:
            report.save(given.html)
        if given.plot:
            report.plot(given.plot)
    except (ContactdError, ImportError, OSError, ValueError) as e:
        parser.exit(2, f"{parser.prog}: {e}\n")
    print(json.dumps(report.to_dict(), indent=2, ensure_ascii=False) if given.json else report.worst or "nothing overlaps")
    worst = report.worst
    return int(given.limit is not None and worst is not None and (worst.is_nested or worst.depth > given.limit))
