#!/usr/bin/env python3
"""flood.py - how long a client's small steps take beside another principal that floods the server, against alone.

    flood.py [--build build] [--seconds 16] [--weight N]

Starts a contactd with two principals, and bench_flood, which times steps alone and beside the flood alternately. Prints
both, and the ratios of their medians and of their 99th percentiles.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import programs


def make_principals(build, folder, weight):
    """The flags of the server, and the variables of the neighbour. The flood's key is FOLDER/flood.key."""
    lines = {}
    for name in ("server", "neighbour", "flood"):
        done = subprocess.run([build / "contactctl", "keys", "new", name], cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=True)
        lines[name] = done.stdout.strip()
    principals = pathlib.Path(folder) / "principals"
    more = f" weight={weight}" if weight != 1 else ""
    principals.write_text(f"{lines['neighbour']}{more}\n{lines['flood']}\n")
    return (["--stream-key", f"{folder}/server.key", "--principals", str(principals)],
            {"CONTACTD_SERVER_KEY": f"{folder}/server.key", "CONTACTD_CLIENT_KEY": f"{folder}/neighbour.key"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=programs.ROOT / "build")
    parser.add_argument("--seconds", type=float, default=16.0, help="of steps alone, and again beside the flood")
    parser.add_argument("--weight", type=int, default=1, help="of the neighbour")
    options = parser.parse_args()
    build = options.build.resolve()
    if missing := [name for name in ("contactd", "contactctl", "tests/bench/bench_flood") if not (build / name).exists()]:
        raise SystemExit(f"flood: {build} has no {', '.join(missing)}: make all bench-tools")
    with tempfile.TemporaryDirectory(prefix="contactd-flood-") as folder:
        flags, env = make_principals(build, folder, options.weight)
        lines = programs.served_runs(build, flags, lambda endpoint, _: [
            str(build / "tests/bench/bench_flood"), endpoint, str(options.seconds), f"{folder}/flood.key"], env=env)
    alone, beside = (line["us"] for line in lines)
    for line in lines:
        print(json.dumps(line))
    print(f"beside the flood: p50 {beside['p50'] / alone['p50']:.2f} x, p99 {beside['p99'] / alone['p99']:.2f} x")


if __name__ == "__main__":
    main()
