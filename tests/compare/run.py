#!/usr/bin/env python3
"""run.py - all scenes by all simulators that are installed, each in a process of its own; then the page.

    run.py --build build --out build/compare [--most 120] [--simulators mujoco,drake] [--scenes crates]

CPU time and penetration are those of the runs; nothing else should run beside it.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import pathlib
import platform
import subprocess
import sys
from typing import Any

import page
from measure import SIMULATORS
from worlds import World, worlds

import contactd

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = 4  # of what is kept of measured numbers


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(of) for key, of in value.items()}
    return [rounded(of) for of in value] if isinstance(value, list) else value


def run(world: World, simulator: str, contacts: str, given: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "measure.py"), world.name, simulator, contacts, "--most", str(given.most)]
    if given.seconds:
        command += ["--seconds", str(given.seconds)]
    environment = os.environ | {"CONTACTD_LIBRARY": str(given.build.resolve() / "libcontact.so")}
    module = importlib.import_module(f"by_{simulator}")
    told = {"scene": world.name, "simulator": module.NAME, "contacts": contacts, "version": module.version(), "right": False, "said": {}}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=4 * given.most + 120, env=environment)
    except subprocess.TimeoutExpired:
        return told | {"ended": f"did not end within {4 * given.most + 120:g} s"}
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return told | {"ended": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][:160]}
    return rounded(json.loads(done.stdout.splitlines()[-1]))


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if pathlib.Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def installed(wanted: list[str]) -> tuple[list[str], list[str]]:
    """Those that are there, and those that are not."""
    there, missing = [], []
    for name in wanted:
        try:
            importlib.import_module(f"by_{name}")
            there.append(name)
        except ImportError as e:
            print(f"SKIPPED: {name}: {e}", file=sys.stderr)
            missing.append(name)
    return there, missing


def compare(given: argparse.Namespace) -> dict[str, Any]:
    chosen = [world for name, world in worlds().items() if name in given.scenes]
    simulators, missing = installed(given.simulators)
    runs = []
    for world in chosen:
        for simulator in simulators:
            for contacts in importlib.import_module(f"by_{simulator}").CONTACTS:
                runs.append(run(world, simulator, contacts, given))
                print(page.row(runs[-1], list(runs[-1]["said"])), flush=True)
    scenes = [{"name": w.name, "title": w.title, "right": w.right, "seconds": given.seconds or w.seconds, "rests": w.rests} for w in chosen]
    return {"date": datetime.date.today().isoformat(), "contactd": contactd.__version__, "python": platform.python_version(),
            "processor": processor(), "cores": os.cpu_count(), "missing": missing, "scenes": scenes, "runs": runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/compare"))
    parser.add_argument("--most", type=float, default=120.0, help="s of the clock for each run")
    parser.add_argument("--seconds", type=float, help="to simulate; default: the scenes' own")
    parser.add_argument("--simulators", type=lambda text: text.split(","), default=list(SIMULATORS))
    parser.add_argument("--scenes", type=lambda text: text.split(","), default=list(worlds()))
    given = parser.parse_args()
    data = compare(given)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "compare.json").write_text(page.text_of(data), encoding="utf-8")
    page.write(data, given.out)
    print(f"{given.out}/compare.md")


if __name__ == "__main__":
    main()
