"""page.py - the page of the comparison, and its plots, made of what the runs measured (compare.json).

    page.py docs/compare.json docs           # writes docs/compare.md and docs/images/compare-*.png
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any, Callable

COLOURS = {"MuJoCo": "#1b6ca8", "Drake": "#3a7d44", "Newton": "#8e5ea2", "PyBullet": "#b58900"}
DASHES = ("-", "--", ":", "-.")

HEAD = """# Compared with MuJoCo, Drake, Newton and PyBullet

Made by `make compare` from [compare.json](compare.json); run it to get this page of your machine, in `build/compare`. The same three scenes are
simulated by each simulator with each kind of contacts that it has, and with contactd's. Penetration is measured by
[the judge](adapters.md#the-judge-of-any-simulation), exact volumes of the meshes as they are, whoever simulated it.

Of each run: whether it came out right, and by how much not; the speed of the fastest body over the last twentieth, which is 0 at rest; the deepest
penetration of all frames and of the last one (volume over area of the surface inside); the time of a step, by the clock and of processors (medians;
all threads, which says more where other programs share the machine); how much of processors' time a second takes; and what it takes to
prepare, by the clock. Runs that take too long are stopped, and say so. Who is best is said below each table, a peer too.

- MuJoCo: its contacts and contactd's have one `solref` and `solimp` (0.005, 1; 0.99, 0.999, 10⁻⁴), steps of 2 ms. contactd's go
  into its solver, one for each connected part of an intersection; "points" is `points=16, patches=False`: one for each pair of bodies, or if it is
  curved, as the thread's, points with normals of their own.
- Drake: hydroelastic bodies have 10⁸ Pa, tetrahedra made by gmsh, steps of 2 ms. contactd's forces (2·10⁷ N/m³) are explicit here, steps of 0.5 ms.
- Newton: the solver XPBD, 20 iterations, steps of 2 ms, on the processor; it is made for GPUs, where its own contacts are much faster.
- PyBullet: hulls, and convex parts by V-HACD, with a margin of 0.1 mm, steps of 2 ms; what is fixed is a concave mesh. contactd's forces as in Drake.
"""

TABLE = ("| contacts | right? | {said} | at the end, mm/s | deepest, µm | at the end, µm | step, ms | processors, ms | processors for a second, s | prepared in, s |\n"
         + "| --- " * 10 + "|\n")


def name_of(run: dict[str, Any]) -> str:
    return f"{run['simulator']}, {run['contacts']}"


def is_ours(run: dict[str, Any]) -> bool:
    return str(run["contacts"]).startswith("contactd")


def number(value: float) -> str:
    """Three digits, without exponents where they are not needed."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}·10{''.join('⁻' if c == '-' else '⁰¹²³⁴⁵⁶⁷⁸⁹'[int(c)] for c in str(int(exponent)))}"


def seconds_a_second(run: dict[str, Any]) -> float:
    return float(run["processor_ms_a_step"] / 1e3 / run["dt"])


def row(run: dict[str, Any], said: list[str]) -> str:
    if "deepest" not in run:
        return f"| {name_of(run)} | no: {run['ended']} |" + " |" * 8
    verdict = "yes" if run["right"] else "no" if run["ended"] == "completed" else f"no: {run['ended']}"
    told = "; ".join(number(run["said"][key]) for key in said)
    depth = "nested" if run["nested"] else number(1e6 * run["deepest"])
    cells = [name_of(run), verdict, told, number(1e3 * run["speed_at_end"]), depth, number(1e6 * run["deepest_at_end"]), number(run["ms_a_step"]),
             number(run["processor_ms_a_step"]), number(seconds_a_second(run)), number(run["prepare_s"])]
    return "| " + " | ".join(cells) + " |"


BEST: tuple[tuple[str, Callable[[dict[str, Any]], float], str, float], ...] = (
    ("the least time", seconds_a_second, "s of processors for a second", 1.0), ("the least deep", lambda run: run["deepest"], "µm", 1e6),
    ("the least deep at the end", lambda run: run["deepest_at_end"], "µm", 1e6), ("the most at rest", lambda run: run["speed_at_end"], "mm/s", 1e3))


def verdicts(world: dict[str, Any], runs: list[dict[str, Any]]) -> list[str]:
    """Who is best, of those that are right."""
    right = [run for run in runs if run["right"]]
    if not right:
        return ["None came out right."]
    out = []
    for what, key, unit, scale in BEST:
        if what == "the most at rest" and not world["rests"]:
            continue
        ranked = sorted(right, key=key)
        ours = next((run for run in ranked if is_ours(run)), None)
        text = f"- {what}: {name_of(ranked[0])}, {number(scale * key(ranked[0]))} {unit}"
        if ours is None:
            text += "; none with contactd's contacts came out right"
        elif ours is not ranked[0]:
            text += f". contactd's best is {name_of(ours)}, {number(scale * key(ours))} {unit}"
        out.append(text)
    return ["Of those that came out right,\n", *out]


def section(world: dict[str, Any], runs: list[dict[str, Any]]) -> str:
    said = list(next((run["said"] for run in runs if run["said"]), {}))
    lines = [f"## {world['title']}\n", f"{world['seconds']:g} s. Right: {world['right']}.\n",
             TABLE.format(said="; ".join(said)) + "\n".join(row(run, said) for run in runs) + "\n", *verdicts(world, runs), "",
             f"![The deepest penetration over time](images/compare-{world['name']}.png)\n"]
    return "\n".join(lines)


def render(data: dict[str, Any]) -> str:
    """The page."""
    parts = [HEAD]
    for world in data["scenes"]:
        parts.append(section(world, [run for run in data["runs"] if run["scene"] == world["name"]]))
    versions = ", ".join(sorted({run["version"] for run in data["runs"]}))
    missing = f" Not installed, and left out: {', '.join(data['missing'])}." if data["missing"] else ""
    parts.append(f"## Measured with\n\n{versions}, contactd {data['contactd']}, Python {data['python']}; {data['processor']}, {data['cores']} cores, "
                 f"which other programs shared.{missing}\n")
    return "\n".join(parts)


def draw(data: dict[str, Any], folder: pathlib.Path) -> None:
    """A plot of each scene: penetration over time, in a logarithmic scale."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    for world in data["scenes"]:
        figure = Figure(figsize=(9, 4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        for run in data["runs"]:
            if run["scene"] != world["name"] or "curve" not in run:
                continue
            depths = [max(1e6 * depth, 0.1) for depth in run["curve"]["depth"]]
            kinds = list(dict.fromkeys(r["contacts"] for r in data["runs"] if r["simulator"] == run["simulator"]))
            axes.semilogy(run["curve"]["times"], depths, label=name_of(run) + ("" if run["right"] else " (not right)"),
                          color=COLOURS.get(run["simulator"], "#444"), linestyle="-" if run["contacts"] == "contactd" else DASHES[1 + kinds.index(run["contacts"]) % 3],
                          linewidth=2.5 if is_ours(run) else 1.3)
        axes.set(xlabel="time, s", ylabel="deepest penetration, µm (0.1: none)", title=world["title"])
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.savefig(folder / f"compare-{world['name']}.png", dpi=100)


def text_of(data: dict[str, Any]) -> str:
    """The data as JSON, a run on each line."""
    head = json.dumps({key: value for key, value in data.items() if key != "runs"}, indent=1, ensure_ascii=False)
    return head.removesuffix("\n}") + ',\n "runs": [\n' + ",\n".join(json.dumps(run, ensure_ascii=False) for run in data["runs"]) + "\n ]\n}\n"


def write(data: dict[str, Any], folder: pathlib.Path) -> None:
    (folder / "compare.md").write_text(render(data), encoding="utf-8")
    draw(data, folder / "images")


if __name__ == "__main__":
    write(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")), pathlib.Path(sys.argv[2]))
