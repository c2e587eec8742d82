"""gpu-check.sh where there is no GPU: what it says when something is missing, fails, or takes too long. nvidia-smi, nvcc
and make are made up here, and make makes up the programs."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "gpu-check.sh"
TOOLS = ("bash awk basename cat chmod cut date dirname env find git grep head ls mkdir mv nproc paste rm sed sha256sum sleep "
         "sort tail tee tr uniq xargs gcc g++").split()
BENCH = ('{"backend":"%s","scene":"%s","scenes":1,"ms":{"median":0.2},"phases_ms":{"raster":0.05},"launches":12,'
         '"uploaded":100,"downloaded":50,"hash":"%s"}')


@pytest.fixture
def tree(tmp_path):
    """A copy of the sources without a repository, and a PATH with no more than the script says it needs."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "gpu").mkdir()
    (tmp_path / "Makefile").write_text("all:\n")
    shutil.copy(SCRIPT, tmp_path / "tests")
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        if found := shutil.which(tool):
            (tmp_path / "bin" / tool).symlink_to(found)
    program(tmp_path, "nvidia-smi", 'case "$*" in *driver*) echo 580.1;; *) echo "Some GPU, 81559 MiB";; esac')
    program(tmp_path, "nvcc", 'echo "Cuda compilation tools, release 13.0, V13.0.1"')
    program(tmp_path, "make", f"""
        for a in "$@"; do case $a in B=*) B=${{a#B=}};; esac; done
        B=$B/tests; mkdir -p $B/gpu $B/bench
        printf '#!/usr/bin/env bash\\n%s\\n' "${{CHECK:-echo 16 checks, 0 failed}}" >$B/gpu/check
        printf '#!/usr/bin/env bash\\ncat bench.json; sleep %s\\n' "${{BENCH_SLEEPS:-0}}" >$B/bench/bench_engine
        chmod +x $B/*/*; echo built; exit ${{MAKE_ENDS:-0}}""")
    bench(tree=tmp_path, hashes=("ab", "ab"))
    return tmp_path


def program(tree, name, script):
    (tree / "bin" / name).write_text("#!/usr/bin/env bash\n" + script + "\n")
    (tree / "bin" / name).chmod(0o755)


def bench(tree, hashes):
    (tree / "bench.json").write_text("".join(BENCH % (b, "pile", h) + "\n" for b, h in zip(("cuda", "cpu"), hashes)))


def start(tree, *flags, **env):
    return subprocess.Popen([tree / "tests" / "gpu-check.sh", *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, start_new_session=True,
                            env={"PATH": str(tree / "bin"), "LC_ALL": "C"} | env)


def run(tree, *flags, **env):
    process = start(tree, *flags, **env)
    said = process.communicate(timeout=120)[0]
    return process.returncode, said, table(tree) if process.returncode in (0, 1) else {}


def table(tree) -> dict[str, str]:
    """What the table says of each part: passed, FAILED or skipped, and why."""
    lines = (tree / "build/gpu-check/results/table.txt").read_text().splitlines()
    return {line[:34].strip(): line[35:] for line in lines if line[35:43].strip() in ("passed", "FAILED", "skipped")}


def test_what_there_is_runs_and_the_rest_is_named(tree):
    code, said, rows = run(tree, "--commit", "v7")
    assert code == 0, said
    assert rows["same bits, traffic, memory"].startswith("passed   16 checks, 0 failed")
    assert rows["engine benches"].startswith("passed") and "same bits" in rows["engine benches"]
    assert rows["profiler ranges"].startswith("passed   16 checks, 0 failed")
    assert rows["compute-sanitizer memcheck"].startswith("skipped  there is no compute-sanitizer")
    assert rows["service"].startswith("skipped") and rows["EGL rasteriser"].startswith("skipped")
    result = said[said.index("==== result"):]
    assert "commit   v7\n" in result and "Some GPU" in result and "580.1" in result and "13.0" in result
    assert "pile: device 50.0 us, wall 200.0 us; CPU 200.0 us" in result


def test_a_copy_is_known_by_its_sum(tree):
    def sum_of():
        said = run(tree)[1]
        return said[said.index("sources' sum is "):].split()[3]

    first = sum_of()
    assert first == sum_of()
    (tree / "gpu" / "new.c").write_text("int x;\n")
    assert first != sum_of()


@pytest.mark.parametrize("missing, says", [("nvidia-smi", "no NVIDIA GPU"), ("make", "no make on PATH"),
                                           ("g++", "no g++ on PATH")])
def test_nothing_to_run_it_with(tree, missing, says):
    (tree / "bin" / missing).unlink()
    code, said, _ = run(tree)
    assert code == 3 and says in said


def test_failures_are_rows_and_the_exit_code(tree):
    code, _, rows = run(tree, CHECK="echo 16 checks, 2 failed; exit 1")
    assert code == 1 and rows["same bits, traffic, memory"].startswith("FAILED   exit code 1")
    assert rows["engine benches"].startswith("passed")
    bench(tree, ("ab", "cd"))
    code, _, rows = run(tree)
    assert code == 1 and rows["bits in the benches"].startswith("FAILED")
    code, _, rows = run(tree, MAKE_ENDS="2")
    assert code == 1 and rows["build of the engine"].startswith("FAILED   exit code 2") and "engine benches" not in rows


def test_memcheck_runs_where_it_is(tree):
    program(tree, "compute-sanitizer", '[ "$2" = memcheck ] && { echo "ERROR SUMMARY: 1 error"; exit 9; }; echo "$*"')
    code, _, rows = run(tree)
    assert code == 1 and rows["compute-sanitizer memcheck"].startswith("FAILED   exit code 9")
    assert rows["compute-sanitizer racecheck"].startswith("passed   --tool racecheck")


def test_time_that_is_over(tree):
    program(tree, "compute-sanitizer", "echo good")
    for within in (12, 80):  # on a busy machine the shorter time may be over before the benches begin
        code, _, rows = run(tree, "--within", str(within), BENCH_SLEEPS="1000")
        if rows.get("engine benches", "skipped").startswith("FAILED"):
            break
    assert code == 1 and "s were over" in rows["engine benches"]
    assert rows["compute-sanitizer memcheck"] == f"skipped  the {within} s of --within are over"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_ended_from_outside(tree, how):
    process = start(tree, BENCH_SLEEPS="1000")
    results = tree / "build/gpu-check/results"
    deadline = time.monotonic() + 60
    while not (results / "bench.json").exists() or not (results / "bench.json").stat().st_size:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(how)
    if how == signal.SIGTERM:
        said = process.communicate(timeout=60)[0]
        assert process.returncode == 1 and "interrupted" in table(tree)["engine benches"] and "==== result" in said
        while list(children_in(tree)):  # a process that was killed may take a moment to go
            assert time.monotonic() < deadline + 60, "it left a process behind"
            time.sleep(0.05)
    else:
        process.wait(60)
        for left in children_in(tree):
            with contextlib.suppress(ProcessLookupError):  # one ends by itself when those before it are gone
                os.kill(left, signal.SIGKILL)
    assert table(tree)["same bits, traffic, memory"].startswith("passed")


def children_in(tree):
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(tree):
                yield int(entry.name)
        except OSError:
            pass
