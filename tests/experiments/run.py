#!/usr/bin/env python3
"""Runs the experiments against a contactd of its own, or the one named, and writes plots and numbers.

    run.py --build build --out build/experiments [--server tcp://127.0.0.1:5555] [NAME...]
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
sys.path.insert(0, str(ROOT / "client_py" / "examples"))  # shapes

NAMES = ("smoothness", "rest", "shallow", "energy", "cost")


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


def run(client: contactd.Client, name: str, out: pathlib.Path) -> dict[str, float]:
    """Writes NAME.png and NAME.json; returns the numbers to quote."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    experiment = __import__(name)
    data = experiment.measure(client)
    (out / f"{name}.json").write_text(json.dumps(plain(data)))
    n = 3 if name == "cost" else 1
    figure, axes = plt.subplots(1, n, figsize=(7 * n, 5), constrained_layout=True)
    experiment.plot(axes, data)
    figure.savefig(out / f"{name}.png", dpi=120)
    plt.close(figure)
    return experiment.numbers(data)


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
        client = stack.enter_context(contactd.connect(address, timeout=120))
        for name in options.names or NAMES:
            begin = time.monotonic()
            for what, number in run(client, name, options.out).items():
                print(f"{what:55} {number:.3g}", flush=True)
            print(f"  {options.out / name}.png, after {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
