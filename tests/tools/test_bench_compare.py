"""compare.py with made-up bench programs: what it runs in which order, the ratios, the rows that one build lacks, the
limit. Each program takes its numbers from a file in its build, and notes each run in a list that both builds share."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPARE = ROOT / "tests" / "bench" / "compare.py"

# The machine is slow by NOISE[k] in turn k, for both builds.
PROGRAM = f"""#!{sys.executable}
import json, pathlib, sys
build = pathlib.Path(__file__).parents[2]
runs = build.parent / "runs"
rows = json.loads((build / "numbers.json").read_text())
noise = [1, 5, 3, 1, 2]
name = pathlib.Path(__file__).name
if name == "bench_engine":
    scene = sys.argv[sys.argv.index("--only") + 1]
    if "--backend" in sys.argv:
        sys.exit(3)
else:
    scene = name
with runs.open("a") as file:
    file.write(f"{{build.name}} {{scene}}\\n")
turn = sum(line.endswith(f" {{scene}}") for line in runs.read_text().splitlines()) - 1
slow = noise[turn // 2 % len(noise)]
if name == "bench_engine":
    for ms in rows.get(scene, []):
        print(json.dumps({{"scene": scene, "ms": {{"median": ms * slow}}, "hash": rows.get("hash", "ab")}}))
else:
    us = {{"p50": rows["us"] * slow, "p99": rows["us"] * 3 * slow}}
    for scene in ("round_trip_boxes", "round_trip_ping", "all_positions", "small_alone", "small_beside_large"):
        print(json.dumps({{"scene": scene, "us": us}}))
    print(json.dumps({{"scene": "memory", "rss_per_triangle": 20}}))
    print(json.dumps({{"scene": "pipelined_boxes", "steps_per_second": 1e6 / (rows["us"] * slow)}}))
"""
CONTACTD = "#!/bin/sh\n[ \"$1\" = --print-config ] && { echo 'spin-us = 7'; echo 'stream-key = '; exit; }\nexec sleep 1000\n"

CONTACTCTL = "#!/bin/sh\necho \"$3 simulator key=0\"\n"


def make_build(folder: pathlib.Path, **numbers) -> pathlib.Path:
    programs = {"contactd": CONTACTD, "contactctl": CONTACTCTL} | {f"tests/bench/bench_{p}": PROGRAM for p in ("engine", "stream", "neighbour")}
    for path, text in programs.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    (folder / "flags").write_text("cc -O2 / / c++")
    (folder / "numbers.json").write_text(json.dumps(numbers))
    return folder


@pytest.fixture
def compare(tmp_path):
    def run(this: dict, base: dict, *options: str, missing: str = "") -> subprocess.CompletedProcess:
        builds = make_build(tmp_path / "this", **this), make_build(tmp_path / "base", **base)
        if missing:
            (tmp_path / missing).unlink()
        command = [sys.executable, str(COMPARE), "--build", str(builds[0]), "--base", str(builds[1]), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    return run


def rows_of(tmp_path) -> dict[str, dict]:
    return {row["row"]: row for row in json.loads((tmp_path / "this" / "bench.json").read_text())["rows"]}


def cells(done: subprocess.CompletedProcess, row: str) -> list[str]:
    (line,) = re.findall(rf"^\| {row} .*$", done.stdout, re.M)
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_ratios_are_of_one_turn(compare, tmp_path):
    """The machine's noise is many times the difference, and does not show in the ratio."""
    done = compare({"huge": [104, 300]}, {"huge": [100, 400]}, "--rows", "^huge", "--turns", "5")
    assert done.returncode == 0, done.stderr
    row = rows_of(tmp_path)["huge"]
    assert row["ratio"]["median"] == pytest.approx(1.04) and row["ratio"]["spread"] == pytest.approx([1.04, 1.04])
    assert row["base_turns"] == [100, 500, 300, 100, 200] and row["base"]["median"] == 200
    assert row["this"]["median"] == 208 and row["this"]["spread"] == pytest.approx([104, 436.8])
    assert cells(done, "huge") == ["huge", "208 ms", "104-437", "200 ms", "100-420", "1.040", "1.040-1.040", ""]
    assert cells(done, "huge_baseline")[5] == "0.750"


def test_builds_take_turns(compare, tmp_path):
    assert compare({"huge": [1, 1]}, {"huge": [1, 1]}, "--rows", "huge$", "--turns", "4").returncode == 0
    runs = [line.split()[0] for line in (tmp_path / "runs").read_text().splitlines() if line.endswith(" huge")]
    assert runs == ["this", "base", "base", "this", "this", "base", "base", "this"]


def test_all_rows(compare, tmp_path):
    scenes = {scene: [2, 8] for scene in ("bunny_cube_128", "bunny_cube_16", "armadillos", "huge", "batch_1024")}
    done = compare({"us": 110, **scenes}, {"us": 100, **scenes}, "--turns", "3")
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path)
    expected = {scene + suffix for scene in scenes for suffix in ("", "_baseline")}
    streamed = {"round_trip_boxes", "round_trip_boxes_p99", "round_trip_ping", "pipelined_boxes", "all_positions",
                "round_trip_boxes_curve", "round_trip_ping_curve", "all_positions_curve", "small_alone",
                "small_beside_large", "small_beside_large_p99"}
    assert set(rows) == expected | streamed | {"bytes_per_triangle"}  # neither a GPU nor OpenGL is here
    assert all(rows[name]["ratio"]["median"] == pytest.approx(1.1) for name in streamed)
    assert all(rows[name]["ratio"]["median"] == 1 for name in set(rows) - streamed)
    assert json.loads((tmp_path / "this" / "bench.json").read_text())["conditions"]["base_folder"] == str(tmp_path / "base")


def test_rows_that_one_build_lacks(compare, tmp_path):
    done = compare({"huge": [1, 1], "armadillos": [3]}, {"huge": [1], "batch_1024": [4]}, "--turns", "3", "--rows",
                   "huge|armadillos$|batch", "--worst", "1.01")
    assert done.returncode == 0, done.stderr
    assert cells(done, "armadillos")[3:6] == ["not in the base", "", ""]
    assert cells(done, "huge_baseline")[3:6] == ["not in the base", "", ""]
    assert cells(done, "batch_1024")[1] == "not in this build" and rows_of(tmp_path)["huge"]["ratio"]["median"] == 1
    assert (tmp_path / "runs").read_text().count("base armadillos") == 1  # once tells that the base has no such row


@pytest.mark.parametrize("worst, code", [("1.03", 1), ("1.05", 0)])
def test_the_limit(compare, worst, code):
    numbers = {"armadillos": [100, 100], "huge": [100, 100]}
    done = compare(numbers | {"huge": [104, 50]}, numbers, "--rows", "arma|huge", "--turns", "3", "--worst", worst)
    assert done.returncode == code, done.stderr
    assert cells(done, "huge")[-1] == ("WORSE" if code else "") and cells(done, "armadillos")[-1] == ""
    if code:
        assert done.stderr.strip().endswith("worse than 1.03 times the base: huge")


@pytest.mark.parametrize("missing", ["base/contactd", "base/tests/bench/bench_engine", "this/tests/bench/bench_engine"])
def test_what_is_not_built_is_named(compare, tmp_path, missing):
    done = compare({"huge": [1, 1]}, {"huge": [1, 1]}, "--rows", "huge", missing=missing)
    build, name = missing.split("/", 1)
    assert done.returncode == 1 and f"{tmp_path / build} has no {name}" in done.stderr
    assert f"make -C {tmp_path} all bench-tools" in done.stderr and not (tmp_path / "runs").exists()


def test_rows_that_are_no_regular_expression(compare):
    done = compare({"huge": [1, 1]}, {"huge": [1, 1]}, "--rows", "huge[")
    assert done.returncode == 2 and "--rows: 'huge[' is no regular expression: unterminated character set" in done.stderr


def test_rows_without_a_base_are_refused_before_anything_is_built(tmp_path):
    done = subprocess.run(["make", "-s", "-C", str(ROOT), "CUDA=0", f"B={tmp_path}/none", "bench", "ROWS=huge"], capture_output=True,
                          text=True, timeout=100, check=False)
    assert done.returncode == 2 and "ROWS, WORST and TURNS need a build to compare with" in done.stderr
    assert not list(tmp_path.rglob("*.o"))


def test_a_program_that_the_base_is_too_old_for(compare, tmp_path):
    """Its tree has a Makefile, but not the program's source."""
    (tmp_path / "Makefile").write_text("")
    (tmp_path / "tests" / "bench").mkdir(parents=True)
    (tmp_path / "tests" / "bench" / "bench_stream.c").write_text("")
    done = compare({"us": 1}, {"us": 1}, "--rows", "small_alone|ping", "--turns", "2",
                   missing="base/tests/bench/bench_neighbour")
    assert done.returncode == 0, done.stderr
    assert cells(done, "small_alone")[3] == "not in the base" and cells(done, "round_trip_ping")[5] == "1.000"


def test_other_bits(compare, tmp_path):
    done = compare({"huge": [1, 1]}, {"huge": [1, 1], "hash": "cd"}, "--rows", "huge", "--turns", "2")
    assert done.returncode == 0 and "huge: the results differ from the base's in some bits" in done.stdout
    assert json.loads((tmp_path / "this" / "bench.json").read_text())["other_bits"] == ["huge"]


def test_no_such_row(compare):
    done = compare({}, {}, "--rows", "hamsters")
    assert done.returncode == 1 and '"hamsters"' in done.stderr and "bunny_cube_128 " in done.stderr


def make(tmp_path, *arguments: str) -> subprocess.CompletedProcess:
    clean = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    command = ["make", "-n", "CUDA=0", "EGL=0", f"B={tmp_path / 'build'}", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, env=clean)


def test_make_passes_the_options_on(tmp_path):
    done = make(tmp_path, "BASE=/else where/build", "ROWS=^a|b$", "WORST=1.03", "TURNS=21")
    assert done.returncode == 0, done.stderr
    assert (f"tests/bench/compare.py --base '/else where/build' --rows '^a|b$' --worst '1.03' --turns '21' "
            f"--build {tmp_path / 'build'}") in done.stdout
    assert "compare.py" not in make(tmp_path).stdout
    done = make(tmp_path, "WORST=1.03")
    assert done.returncode == 2 and "BASE=<folder>" in done.stderr
