#!/usr/bin/env python3
"""compare.py - sets a build's times against those of another one, the base, and writes build/bench.json.

    compare.py --base DIR [--build build] [--rows REGEX] [--worst RATIO] [--turns N] [--seconds S] [--meshes DIR]

DIR is what make leaves in build/ of another tree. Each build runs its own bench programs against its own contactd. The
builds take turns: a turn is one run of a bench by each, one right after the other, so that both meet the same noise. Which
build is first alternates. A turn gives one ratio this/base per row, and a row's ratio is the median over the turns: what
slows the machine down for a while does not move it.

All rows are times or bytes, so a ratio above 1 is worse. --rows picks rows by name; what measures none of them is not run.
With --worst, the exit code is 1 if a row's ratio is above RATIO.
"""
import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import statistics
import sys
from typing import Callable

import programs
import scaling

ENGINE_SCENES = ("bunny_cube_128", "bunny_cube_16", "bunny_cube_128_egl", "armadillos", "huge", "batch_1024", *scaling.SCENES)
CUDA_SCENES = ("bunny_cube_128", "armadillos", "huge", "batch_1024")
STREAM_UNITS = {"round_trip_boxes": "us", "round_trip_boxes_p99": "us", "round_trip_ping": "us", "pipelined_boxes": "us",
                "all_positions": "us", "bytes_per_triangle": "bytes"}
CURVE_UNITS = {"round_trip_boxes_curve": "us", "round_trip_ping_curve": "us", "all_positions_curve": "us"}
NEIGHBOUR_UNITS = {"small_alone": "us", "small_beside_large": "us", "small_beside_large_p99": "us"}


@dataclasses.dataclass(frozen=True, eq=False)
class Bench:
    """A bench program with its options. One run gives JSON lines, or None without a device; `values` makes rows of them."""

    name: str
    program: str
    units: dict[str, str]  # of each row
    run: Callable[[pathlib.Path, argparse.Namespace], list[dict] | None]
    values: Callable[[list[dict]], dict[str, float]]


# ---- what the programs print, as rows ----


def engine_values(lines):
    """The scene's own run comes first, then its baseline: the plain instruction set, or the native rasteriser."""
    return {line["scene"] + suffix: line["ms"]["median"] for line, suffix in zip(lines, ("", "_baseline"))}


def cuda_values(lines):
    """The time on the device; of a batch the whole time. The second line is the CPU's, which has rows of its own."""
    return {f"cuda_{line['scene']}": 1e3 * (line["ms"]["median"] if line["scenes"] > 1 else sum(line["phases_ms"].values()))
            for line in lines[:1]}


def stream_values(lines):
    scenes = {line["scene"]: line for line in lines}
    values = {}
    for scene in ("round_trip_boxes", "round_trip_ping", "all_positions"):
        if scene in scenes:
            values[scene], values[f"{scene}_p99"] = scenes[scene]["us"]["p50"], scenes[scene]["us"]["p99"]
    if "pipelined_boxes" in scenes:
        values["pipelined_boxes"] = 1e6 / scenes["pipelined_boxes"]["steps_per_second"]
    if "memory" in scenes:
        values["bytes_per_triangle"] = scenes["memory"]["rss_per_triangle"]
    return values


def curve_values(lines):
    values = stream_values(lines)  # of a build that cannot encrypt there are none
    return {row: values[row.removesuffix("_curve")] for row in CURVE_UNITS if row.removesuffix("_curve") in values}


def neighbour_values(lines):
    times = {line["scene"]: line["us"] for line in lines if "us" in line}
    return {scene: us["p50"] for scene, us in times.items()} | {f"{scene}_p99": us["p99"] for scene, us in times.items()}


# ---- the benches ----


def engine_bench(scene):
    return Bench(scene, "bench_engine", {scene: "ms", f"{scene}_baseline": "ms"}, lambda build, options: (
        programs.engine_runs(build, options.seconds, options.meshes, "--only", scene)), engine_values)


def cuda_bench(scene):
    return Bench(f"cuda_{scene}", "bench_engine", {f"cuda_{scene}": "us"}, lambda build, options: programs.engine_runs(
        build, options.seconds, options.meshes, "--only", scene, "--backend", "cuda", may_lack_backend=True), cuda_values)


BENCHES = [
    *map(engine_bench, ENGINE_SCENES),
    Bench("stream", "bench_stream", STREAM_UNITS, lambda build, options: (
        programs.stream_runs(build, options.seconds, options.meshes)), stream_values),
    Bench("stream_curve", "bench_stream", CURVE_UNITS, lambda build, options: (
        programs.stream_runs(build, options.seconds, options.meshes, encrypted=True)), curve_values),
    Bench("neighbour", "bench_neighbour", NEIGHBOUR_UNITS, lambda build, options: (
        programs.neighbour_runs(build, options.seconds, options.meshes)), neighbour_values),
    *map(cuda_bench, CUDA_SCENES),
]


def pattern(text):
    try:
        return re.compile(text).pattern
    except re.error as wrong:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {wrong}") from None


def chosen(rows):
    """Row -> unit of each bench that has such rows."""
    found = {bench: {row: unit for row, unit in bench.units.items() if re.search(rows, row)} for bench in BENCHES}
    if not any(found.values()):
        names = " ".join(row for bench in BENCHES for row in bench.units)
        raise SystemExit(f"compare: no row has a name that matches \"{rows}\"; the rows are {names}")
    return {bench: units for bench, units in found.items() if units}


def lacks(build, bench):
    """Whether the build's tree is too old to have the program. Ends the comparison if it was only not built."""
    missing = [name for name in ("contactd", f"tests/bench/{bench.program}") if not (build / name).exists()]
    tree = build.parent
    if missing and (tree / "Makefile").exists() and not (tree / f"tests/bench/{bench.program}.c").exists():
        return True
    if missing:
        raise SystemExit(f"compare: {build} has no {' and no '.join(missing)}: \"make -C {tree} all bench-tools\" builds "
                         f"what is missing, with the same CUDA=, EGL= and CFLAGS= as here")
    return False


# ---- turns ----


@dataclasses.dataclass
class Measured:
    """Of one bench: a dict of rows per turn, and the hashes of the results, which are the same in all runs of a build."""

    turns: list[dict[str, float]] = dataclasses.field(default_factory=list)
    hashes: dict[str, set[str]] = dataclasses.field(default_factory=lambda: collections.defaultdict(set))

    def add(self, bench, lines):
        self.turns.append(bench.values(lines or []))
        for line in lines or []:
            if "hash" in line:
                self.hashes[line["scene"]].add(line["hash"])
                if len(self.hashes[line["scene"]]) > 1:
                    raise SystemExit(f"compare: the runs of {line['scene']} do not give the same bits")


def tell_progress(text):
    """One line that is written over and over, where somebody sees it."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def take_turns(bench, build, base, options):
    """This build's and the base's runs. A build that measures no row of the bench in the first turn runs no other turn."""
    measured = {folder: Measured() for folder in (build, base)}
    running = [folder for folder in (build, base) if not lacks(folder, bench)]
    for turn in range(options.turns):
        tell_progress(f"{bench.name}: turn {turn + 1} of {options.turns}")
        for folder in running if turn % 2 == 0 else running[::-1]:
            measured[folder].add(bench, bench.run(folder, options))
        running = [folder for folder in running if measured[folder].turns[0]]
        if not running:
            break
    tell_progress("")
    return measured[build], measured[base]


# ---- the table ----


def summary(values):
    """The median, and the spread: the 10th and the 90th percentile."""
    if not values:
        return None
    low, *_, high = statistics.quantiles(values, n=10, method="inclusive") if len(values) > 1 else 2 * values
    return {"median": statistics.median(values), "spread": [low, high]}


def row_of(row, unit, this, base):
    """None where neither build measures the row: there is no GPU, or no OpenGL."""
    values, base_values = ([turn[row] for turn in measured.turns if row in turn] for measured in (this, base))
    if not values and not base_values:
        return None
    pairs = zip(this.turns, base.turns)
    ratios = [mine[row] / other[row] for mine, other in pairs if row in mine and row in other]
    return {"row": row, "unit": unit, "this": summary(values), "base": summary(base_values), "ratio": summary(ratios),
            "this_turns": values, "base_turns": base_values, "ratio_turns": ratios}


def text_of(found, unit, absent):
    if found is None:
        return absent, ""
    return f"{programs.number(found['median'])} {unit}", "-".join(programs.number(v) for v in found["spread"])


def table(rows, worst):
    lines = []
    for row in rows:
        ratio = row["ratio"]
        ratio_text = ("", "") if ratio is None else (
            f"{ratio['median']:.3f}", "-".join(f"{v:.3f}" for v in ratio["spread"]))
        lines.append((row["row"], *text_of(row["this"], row["unit"], "not in this build"),
                      *text_of(row["base"], row["unit"], "not in the base"), *ratio_text,
                      "WORSE" if is_worse(row, worst) else ""))
    return programs.text_table(("row", "this", "spread", "base", "spread", "this/base", "spread", ""), lines)


def is_worse(row, worst):
    return worst is not None and row["ratio"] is not None and row["ratio"]["median"] > worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=programs.ROOT / "build")
    parser.add_argument("--base", type=pathlib.Path, required=True, help="the folder of the other build")
    parser.add_argument("--rows", type=pattern, default="", help="a regular expression; all rows where not given")
    parser.add_argument("--worst", type=float, help="the largest ratio that is not an error")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each run")
    parser.add_argument("--meshes", default=programs.MESHES)
    options = parser.parse_args()
    if options.turns < 1:
        parser.error("--turns: expected 1 or more")
    build, base = options.build.resolve(), options.base.resolve()
    benches = chosen(options.rows)
    for folder in (build, base):
        for bench in benches:
            lacks(folder, bench)
    if not os.path.isdir(options.meshes):
        print(f"no meshes at {options.meshes} (CONTACTD_MESHES): generated bodies of the same size instead")
    of_base = {"folder": str(base), **programs.build_conditions(base, base.parent)}
    where = programs.conditions(build) | {f"base_{key}": value for key, value in of_base.items()}
    for key, value in where.items():
        print(f"{key}: {value}")

    rows, other_bits = [], []
    for bench, units in benches.items():
        this, other = take_turns(bench, build, base, options)
        rows += filter(None, (row_of(row, unit, this, other) for row, unit in units.items()))
        other_bits += [name for name in this.hashes if name in other.hashes and this.hashes[name] != other.hashes[name]]
    print(f"\n{table(rows, options.worst)}\n")
    for name in other_bits:
        print(f"{name}: the results differ from the base's in some bits")
    out = build / "bench.json"
    out.write_text(json.dumps({"conditions": where, "turns": options.turns, "seconds": options.seconds, "rows": rows,
                               "other_bits": other_bits}, indent=1) + "\n")
    print(f"written: {out}")
    worse = [row["row"] for row in rows if is_worse(row, options.worst)]
    if worse:
        raise SystemExit(f"compare: worse than {options.worst:g} times the base: {', '.join(worse)}")


if __name__ == "__main__":
    main()
