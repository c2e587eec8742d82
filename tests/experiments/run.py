#!/usr/bin/env python3
"""Runs the experiments against a contactd of its own, or the one named, and writes a page with plots and numbers beside
those of the papers.

    run.py --build build --out build/experiments [--server tcp://127.0.0.1:5555] [NAME...]

Each experiment is a module: measure(client) gives its data, plot(axes, data) draws them on PANELS axes (1 if there is no
PANELS), numbers(data) names what to quote, and PAPER has the paper's numbers, by the begin of these names.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Iterator

import contactd
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client_py" / "examples"))  # shapes, sim

NAMES = ("smoothness", "rest", "shallow", "energy", "cost",  # the method exact beside rays
         "traverse", "edge", "rings", "phases",  # Faure 2008
         "one_solve", "snake", "scenes", "deep_start", "momentum", "coulomb",  # Allard 2010
         "precision", "directions", "image_resolution", "turning", "scene_sizes", "obstacle", "nut", "wheels",  # Wang 2012
         "contact_levels", "responses", "interruption", "kilohertz")  # Dingliana 2005


@contextlib.contextmanager
def server_of(build: pathlib.Path) -> Iterator[str]:
    """The address of a contactd that ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/stream"
        process = subprocess.Popen([build / "contactd", "--stream", address, "--http", "off", "--log-level", "warn"])
        try:
            yield address
        finally:
            process.terminate()
            process.wait()


def plain(value):
    """As JSON has it."""
    if isinstance(value, dict):
        return {key: plain(of) for key, of in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def paper_of(experiment, what: str) -> str:
    """What the paper says of one of the numbers; empty if nothing."""
    return next((value for name, value in getattr(experiment, "PAPER", {}).items() if what.startswith(name)), "")


def section(experiment, name: str, numbers: dict[str, float]) -> str:
    """The experiment's part of the page, in Markdown."""
    title, _, text = (experiment.__doc__ or "").partition("\n")
    rows = [f"| {what} | {number:.3g} | {paper_of(experiment, what)} |" for what, number in numbers.items()]
    return "\n".join([f"## {name}", "", title, text, "", f"![{name}]({name}.png)", "", "| | here | paper |",
                      "| --- | --- | --- |", *rows, ""])


def run(client: contactd.Client, name: str, out: pathlib.Path, **options) -> dict[str, float]:
    """Writes NAME.png, NAME.json and NAME.md; returns the numbers to quote. Options are those of the module's measure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    experiment = __import__(name)
    data = experiment.measure(client, **options)
    (out / f"{name}.json").write_text(json.dumps(plain(data)))
    n = getattr(experiment, "PANELS", 1)
    figure, axes = plt.subplots(1, n, figsize=(7 * n, 5), constrained_layout=True)
    experiment.plot(axes, data)
    figure.savefig(out / f"{name}.png", dpi=120)
    plt.close(figure)
    numbers = experiment.numbers(data)
    (out / f"{name}.md").write_text(section(experiment, name, numbers))
    return numbers


def write_page(out: pathlib.Path) -> pathlib.Path:
    """index.md: the parts of all experiments that have run, now or before."""
    parts = [path.read_text() for name in NAMES if (path := out / f"{name}.md").exists()]
    page = out / "index.md"
    page.write_text("# Experiments\n\n" + "\n".join(parts))
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}; default: all")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "experiments")
    parser.add_argument("--server", help="an address; default: a server of its own")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no experiment {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        address = options.server or stack.enter_context(server_of(options.build))
        client = stack.enter_context(contactd.connect(address, timeout=120, wait=120))
        for name in options.names or NAMES:
            begin = time.monotonic()
            for what, number in run(client, name, options.out).items():
                print(f"{what:70} {number:.3g}", flush=True)
            print(f"  {options.out / name}.png, after {time.monotonic() - begin:.0f} s", flush=True)
    print(write_page(options.out))


if __name__ == "__main__":
    main()
