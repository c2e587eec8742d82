#!/usr/bin/env python3
"""polls.py - runs hostile scenes (tests/scenes/hostile.h) in the engine, ends each call, and shows where it does not look whether to end.

    polls.py [--build DIR] [--limit S] [--triangles N] [--only 'WORD...'] [--out FILE]

Makes each scene in a process of its own and ends each call of the engine after --limit s. In the end: the places where a thread ran for
longer than --grace s of processor time without a poll, or a call went on for so long after one, with the scenes that found them.
"""
from __future__ import annotations

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Words of hostile_scene.h. Settings are chosen so that each stage of a method has much to do.
METHODS = {
    "exact": "method=exact",
    "patches": "method=exact patches=1",
    "points": "method=exact max_points=4096",
    "second": "method=exact directions=12 want=47 velocities=1",
    "deformable": "method=exact deformable=1",
    "margin": "method=exact margin=1e9",
    "ldi": "method=ldi resolution=4096",
    "ldi spans": "method=ldi resolution=1024 want=31",
    "ldi points": "method=ldi resolution=512 max_points=4096",
    "cells": "method=ldi pixel_size=0.002 cell_size=0.01",
    "deformable ldi": "method=ldi resolution=256 deformable=1",
    "ebpi": "method=ebpi tolerance_rel=1e-6 ray_budget=268435456",
    "ebpi strict": "method=ebpi tolerance=1e-12 strict=1 ray_budget=4194304",
    "ebpi published": "method=ebpi tolerance_rel=1e-5 allocation=1 ray_budget=4194304 want=71",
    "ebpi directions": "method=ebpi tolerance_rel=1e-4 optimize_directions=1",
    "voxtree": "method=voxtree voxel_level=8 want=7",
    "voxtree refine": "method=voxtree voxel_level=6 refine=1 max_points=4096 want=7",
}
SELF = {"exact", "second", "deformable", "ldi", "ldi spans", "deformable ldi", "points", "ldi points", "cells"}
FLOOR = {"exact", "patches", "points", "second", "deformable"}


class Names:
    """Names the addresses of a program's stacks."""

    def __init__(self, program: pathlib.Path):
        self.program, self.known = str(program), {}
        symbols = subprocess.run(["nm", self.program], capture_output=True, text=True, check=True).stdout.splitlines()
        self.print_stacks = next(int(line.split()[0], 16) for line in symbols if line.endswith(" print_stacks"))

    def of(self, addresses: list[int], print_stacks: int) -> list[list[str]]:
        """Of each address, innermost first; several where functions were inlined. Without libraries and what is outside the engine."""
        base = print_stacks - self.print_stacks
        wanted = [a - base - (i > 0) for i, a in enumerate(addresses)]  # of the call, not of what follows it
        unknown = [a for a in wanted if a not in self.known]
        if unknown:
            said = subprocess.run(["addr2line", "-a", "-f", "-i", "-e", self.program, *[hex(a) for a in unknown if a > 0]],
                                  capture_output=True, text=True, check=True).stdout.splitlines()
            at, names = None, collections.defaultdict(list)
            for line in said:
                if line.startswith("0x"):
                    at, function = int(line, 16), None
                elif function is None:
                    function = line
                else:
                    place = re.search(r"\bgpu/.*", line.split(" (")[0])  # a compiler's cache may have it from another folder
                    if place:
                        names[at].append(f"{function} ({place.group()})")
                    function = None
            for a in unknown:
                self.known[a] = names.get(a, [])
        return [self.known[a] for a in wanted if self.known[a]]


def run_scene(program: pathlib.Path, calls: str, words: str, limit: float, give_up: float) -> tuple[list[dict], str]:
    done = subprocess.run([str(program), "run", calls, str(limit), str(give_up), *words.split()], capture_output=True, text=True,
                          check=False, timeout=20 * give_up + 60)
    lines = []
    for line in done.stdout.splitlines():
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            pass
    return lines, "" if done.returncode in (0, 3) else f"exit code {done.returncode}: {done.stderr[-500:]}"


def scenes(kinds: list[str], triangles: int):
    for kind in kinds:
        for name, words in METHODS.items():
            places = ["pair", "same", "aside", "crowd", *(["self"] if name in SELF else []), *(["floor"] if name in FLOOR else [])]
            for place in places:
                size = f"triangles={triangles // 200} bodies=500" if place == "crowd" else f"triangles={triangles}"
                yield f"{kind} {place} {name}", f"shape={kind} place={place} {size} {words}"


def run(args: argparse.Namespace) -> int:
    program = args.build / "tests/bench/bench_hostile"
    names = Names(program)
    kinds = subprocess.run([str(program), "kinds"], capture_output=True, text=True, check=True).stdout.split()
    todo = [(label, "step", words) for label, words in scenes(kinds, args.triangles)]
    todo += [(f"{kind} {calls}", calls, f"shape={kind} place=pair triangles={args.triangles * 10} method=ldi resolution=4")
             for kind in kinds for calls in ("files", "repair", "all")]
    if args.only:
        todo = [t for t in todo if all(word in t[0].split() for word in args.only.split())]
    todo = todo[args.part::args.parts]
    found: dict[str, dict] = {}
    bad = 0
    for label, calls, words in todo:
        began = time.monotonic()
        lines, failed = run_scene(program, calls, words, args.limit, args.give_up)
        stacks = next((line for line in lines if "stacks" in line), {"stacks": [], "print_stacks": "0x0"})
        lines = [line for line in lines if "call" in line]
        worst = max(lines, key=lambda c: max(c.get("longest", 99), c.get("goes_on", 99)), default=None)
        late = [c for c in lines if max(c.get("longest", 99), c.get("goes_on", 99)) > args.grace]
        bad += bool(late) or bool(failed)
        step = next((c for c in lines if c["call"] == "step"), worst) or {}
        print(f"{'late ' if late else 'WRONG' if failed else 'ok   '} {label}: {time.monotonic() - began:.1f} s; {step.get('call')}: {step.get('status')} "
              f"after {step.get('seconds', 0):.2f} s ({step.get('message', '')[:150]}); longest without a poll {1e3 * (worst or {}).get('longest', -1):.1f} ms, "
              f"went on for {1e3 * max([c.get('goes_on', -1) for c in lines], default=-1):.1f} ms {failed}", flush=True)
        for c in late:
            print(f"        {c['call']}: {c['status']}, {1e3 * c.get('longest', -1):.1f} ms without a poll while {c.get('phase')}, went on for "
                  f"{1e3 * c.get('goes_on', -1):.1f} ms", flush=True)
        for stack in stacks["stacks"]:
            if stack["since"] < args.grace:
                continue
            frames = names.of([int(f, 16) for f in stack["frames"]], int(stacks["print_stacks"], 16))
            key = ("after the end: " if stack["after"] else "") + (" < ".join(f[-1].split(" (")[0] for f in frames[:2]) or "outside the engine")
            frames = [name for names_ in frames for name in names_]
            entry = found.setdefault(key, {"samples": 0, "worst": 0, "scenes": {}, "frames": frames})
            entry["samples"] += 1
            if stack["since"] > entry["worst"]:
                entry["worst"], entry["frames"] = stack["since"], frames
            entry["scenes"][label] = max(entry["scenes"].get(label, 0), stack["since"])
    lines = []
    for key, entry in sorted(found.items(), key=lambda item: -item[1]["worst"]):
        scenes_ = sorted(entry["scenes"].items(), key=lambda item: -item[1])
        lines.append(f"\n{1e3 * entry['worst']:.0f} ms {key}  ({entry['samples']} samples, {len(scenes_)} scenes, worst: "
                     + "; ".join(f"{s} {1e3 * t:.0f} ms" for s, t in scenes_[:4]) + ")")
        lines += [f"        {frame}" for frame in entry["frames"][:10]]
    text = "\n".join(lines)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")
    return 1 if bad else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--limit", type=float, default=0.3, help="of each call, s")
    parser.add_argument("--give-up", type=float, default=3, help="s after which a call hangs")
    parser.add_argument("--grace", type=float, default=0.01, help="s of processor time without a poll, or after the end, that are reported")
    parser.add_argument("--triangles", type=int, default=4000)
    parser.add_argument("--only", help="words that a scene's label must have")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1, help="runs each parts-th scene from the part-th on")
    parser.add_argument("--out", type=pathlib.Path)
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
