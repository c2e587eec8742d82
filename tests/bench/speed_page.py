#!/usr/bin/env python3
"""speed_page.py - the tables of docs/speed.md, made of docs/speed.json; their words and the figures to reach are bench.py's.

    speed_page.py DOCS [BENCH.json]

With what `make bench` wrote, its figures first replace those in DOCS/speed.json; a figure that it lacks stays, and says of which commit
it is. `make bench OUT=docs` calls it. The prose around the tables is written by hand.
"""
import json
import pathlib
import re
import sys

import bench
import many
import peers
import scaling
from programs import number

FIGURES = {row[0]: row for row in [*bench.FIGURES, *many.FIGURES, *bench.EGL_FIGURES, *scaling.FIGURES, *peers.FIGURES]}
# The figures of each table. CUDA's stand in none until they are measured.
TABLES = {
    "rays": ["bunny_cube_128", "bunny_cube_16", "armadillos", "huge", "bunny_cube_128_egl", "self_20k", "batch_1024", "round_trip_boxes",
             "round_trip_boxes_p99", "round_trip_boxes_curve", "all_positions", "all_positions_curve", "small_beside_large",
             "small_beside_large_p99", "many_4096", "many_4096_engine", "bytes_per_triangle"],
    "small_contacts": [row[0] for row in scaling.FIGURES if row[0] != "exact_stack_40"],
    "exact": ["exact_boxes", "exact_hulls", "exact_bunny_cube", "exact_bunny_cube_deforming", "exact_armadillos", "exact_armadillos_deforming",
              "exact_armadillos_shallow", "exact_armadillos_coincident", "exact_batch_1024"],
    "exact_more": ["manifold_bunny_cube_deforming", "manifold_armadillos", "exact_stack_40", "exact_self_20k", "exact_half_space",
                   "exact_products", "exact_inertia", "exact_patches"],
    "law_and_points": [name for name in FIGURES if name.startswith(("law_", "points_", "surface_"))],
    "others": [name for name in FIGURES if name.startswith(("ebpi_", "cells_", "voxtree_"))],
}
KEPT = ("median", "spread", "speedup", "baseline_is")


def plain(text):
    """With the signs of a page in place of those of a terminal."""
    text = re.sub(r"\^([23])", lambda m: "²³"[int(m[1]) - 2], text)
    text = re.sub(r"^(exact|ebpi|ldi|voxtree): ", r"`\1`: ", text)
    text = re.sub(r"(?<![\w`])(ldi|exact)(?= at | with |'s|$)", r"`\1`", text)
    return re.sub(r"(?<=\d) x (?=\d)", " × ", text).replace("budget of 200 us", "budget of 200 µs")


def digits(value):
    """Three digits, and two at least: 7.0, 0.80."""
    text = number(value)
    return f"{value:#.2g}".rstrip(".") if len(text.lstrip("0.").replace(".", "")) < 2 else text


def quantity(values, unit, show=digits):
    """Of one or two numbers in a figure's unit, in the one that reads best."""
    if unit == "ms" and max(values) < 0.1:
        values, unit = [1e3 * value for value in values], "us"
    elif unit == "us" and min(values) >= 1000:
        values, unit = [value / 1e3 for value in values], "ms"
    return [show(value) for value in values], {"us": " µs", "x": " ×", "": " ×", "%": " %"}.get(unit, f" {unit}")


def measured(name, figure):
    unit, reach, less = FIGURES[name][2:]
    values = [figure["median"], *(figure["spread"] or [])]
    if values[0] is None:  # a range is all that there is
        (low, high), unit = quantity(values[1:], unit)
        return f"{low} to {high}{unit}"
    (median, *spread), unit = quantity(values, unit)
    is_missed = reach is not None and (values[0] > reach if less else values[0] < reach)
    shown = f"**{median}{unit}**" if is_missed else f"{median}{unit}"
    is_spread = len(set(spread)) == 2 and not name.endswith("_p99")  # of a p99 it would be from the median to the worst
    return f"{shown} ({'-'.join(spread)})" if is_spread else shown


def beside(figure, unit):
    speedup, what = figure.get("speedup"), figure.get("baseline_is")
    if not speedup or unit in ("", "x"):  # a ratio has its baseline in its name
        return ""
    if by := re.fullmatch(r"(\w+), (\d+) threads?", what):
        what = f"{'one thread' if by[2] == '1' else by[2] + ' threads'} with{'out AVX2' if by[1] == 'base' else ' ' + by[1].upper()}"
    if speedup >= 1:
        return f"{number(speedup)} × faster than {plain(what)}"
    return f"{number(1 / speedup)} × as {'much' if unit == 'bytes' else 'long'} as {plain(what)}"


def table(names, data):
    figures = {name: data["figures"][name] for name in names if name in data["figures"]}
    notes = list(dict.fromkeys(figure["note"] for figure in figures.values() if "note" in figure))
    has_baselines = any(figure.get("speedup") for figure in figures.values())
    rows = [["figure", "measured (spread)", "to reach", *(["beside a baseline of the same run"] if has_baselines else [])]]
    rows.append(["---"] * len(rows[0]))
    for name, figure in figures.items():
        _, text, unit, reach, _ = FIGURES[name]
        (limit,), suffix = ([""], "") if reach is None else quantity([reach], unit, number)
        mark = "¹²³⁴⁵⁶⁷⁸⁹"[notes.index(figure["note"])] if "note" in figure else ""
        rows.append([plain(text) + mark, measured(name, figure), limit + suffix, *([beside(figure, unit)] if has_baselines else [])])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, *(f"\n{'¹²³⁴⁵⁶⁷⁸⁹'[k]} {note}" for k, note in enumerate(notes))])


def render(page, data):
    """The page with its tables, and the line that says where they are from, made anew."""
    made = {name: table(names, data) for name, names in TABLES.items()}
    made["conditions"] = f"The tables are of commit {data['conditions']['commit']}, on {data['conditions']['machine']}."
    found = re.findall(r"<!-- made of speed.json: (\w+) -->", page)
    if sorted(found) != sorted(made):
        raise SystemExit(f"speed_page.py: the page has places for {found}, and there are {list(made)}")
    return re.sub(r"(<!-- made of speed.json: (\w+) -->\n\n).*?(\n\n<!-- end -->)", lambda m: m[1] + made[m[2]] + m[3], page, flags=re.S)


def taken(data, measured_now):
    """data with what bench.py wrote in place of what there was."""
    was = data["conditions"]["commit"]
    figures = {name: {"note": f"of commit {was}"} | figure for name, figure in data["figures"].items()}
    figures |= {row["figure"]: {key: row[key] for key in KEPT} for row in measured_now["figures"] if row["figure"] in FIGURES}
    return {"conditions": {key: measured_now["conditions"][key] for key in ("machine", "compiler", "commit")}, "figures": figures}


def text_of(data):
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(figure, ensure_ascii=False)}" for name, figure in data["figures"].items())
    return f'{{\n "conditions": {json.dumps(data["conditions"], ensure_ascii=False)},\n "figures": {{\n{rows}\n }}\n}}\n'


def main():
    docs, *benches = map(pathlib.Path, sys.argv[1:])
    data = json.loads((docs / "speed.json").read_text(encoding="utf-8"))
    for path in benches:
        data = taken(data, json.loads(path.read_text(encoding="utf-8")))
    (docs / "speed.json").write_text(text_of(data), encoding="utf-8")
    page = docs / "speed.md"
    page.write_text(render(page.read_text(encoding="utf-8"), data), encoding="utf-8")


if __name__ == "__main__":
    main()
