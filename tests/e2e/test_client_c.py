"""The C client as its users have it: programs built with cc and pkg-config, and a simulator whose server is killed."""

from __future__ import annotations

import csv
import os
import shlex
import shutil
import re
import subprocess
import time

import numpy as np
import pytest

from conftest import BUILD, CC, CXX, INSTRUMENTED, ROOT, SLOW, Server
from geometry import UNIT_BOX, as_obj

SIMPLE = ROOT / "client_c" / "examples" / "simple.c"


def pkg_config(folder, *flags: str) -> list[str]:
    out = subprocess.run(["pkg-config", *flags, "--cflags", "--libs", "contactd"], capture_output=True, text=True,
                         check=True, env=os.environ | {"PKG_CONFIG_PATH": str(folder)})
    return shlex.split(out.stdout)


def build_and_run(tmp_path, flags: list[str], *args: str) -> subprocess.CompletedProcess:
    program = tmp_path / "simple"
    subprocess.run([*CC, "-Wall", "-Wextra", "-Werror", str(SIMPLE), *flags, "-o", str(program)],
                   check=True)
    return subprocess.run([str(program), *args], capture_output=True, text=True, timeout=30 * SLOW)


def check_simple(done: subprocess.CompletedProcess) -> None:
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert float(lines[0].split()[1]) == pytest.approx(0.25**3)  # the wedge's corner in the box's
    moved = [float(x) for x in lines[1].split()[6:9]]
    assert moved == pytest.approx([-(0.25**2)] * 3, rel=1e-6)
    assert len(lines) == 2 + 4


def test_simple_is_short():
    assert len(SIMPLE.read_text().splitlines()) <= 60


def test_shared_library(server, binaries, tmp_path):
    check_simple(build_and_run(tmp_path, pkg_config(binaries), server.stream))


def test_static_library(server, binaries, tmp_path):
    """As installed without the shared one."""
    shutil.copy(binaries / "libcontactd.a", tmp_path)
    text = (binaries / "contactd.pc").read_text().replace(f"-L{binaries}", f"-L{tmp_path}")
    (tmp_path / "contactd.pc").write_text(text)
    done = build_and_run(tmp_path, pkg_config(tmp_path, "--static"), server.stream)
    check_simple(done)
    needs = subprocess.run(["ldd", str(tmp_path / "simple")], capture_output=True, text=True, check=True).stdout
    assert "libcontactd" not in needs


CPP = [*CXX, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def run_cpp(source, binaries, tmp_path, *args: str) -> subprocess.CompletedProcess:
    program = tmp_path / source.stem
    subprocess.run([*CPP, str(source), *pkg_config(binaries), "-o", str(program)], check=True)
    return subprocess.run([str(program), *args], capture_output=True, text=True, timeout=60 * SLOW)


def test_the_cpp_example(server, binaries, tmp_path):
    done = run_cpp(SIMPLE.with_suffix(".cpp"), binaries, tmp_path, server.stream)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [float(line.split()[1]) for line in lines[:2]] == pytest.approx([0.5, 0.25])
    assert lines[2] == "moving body 2 along x changes it by -1 m^2, m^3"
    lost = subprocess.run([str(tmp_path / "simple"), "nonsense"], capture_output=True, text=True, timeout=60 * SLOW)
    assert lost.returncode == 1 and lost.stderr.startswith("simple: INVALID_ARGUMENT: "), lost.stderr


@pytest.mark.parametrize("name", ["client_c/examples/simple.c", "docs/examples/loop.c", "docs/examples/many.c"])
def test_the_examples_have_no_warnings(binaries, name):
    flags = ["-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    done = subprocess.run([*CC, *flags, str(ROOT / name), *pkg_config(binaries)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_cpp_header_names_the_standard_that_it_needs(binaries):
    done = subprocess.run([*CXX, "-std=c++14", "-fsyntax-only", "-include", "contactd.hpp", "-x", "c++", "/dev/null",
                           *pkg_config(binaries, "--cflags")], capture_output=True, text=True)  # fmt: skip
    assert done.returncode != 0 and "contactd.hpp needs C++17 or newer" in done.stderr.splitlines()[1], done.stderr


def test_cpp(server, binaries, tmp_path):
    """Owners, columns, spans, exceptions: what each check of client.cpp says."""
    done = run_cpp(ROOT / "tests" / "e2e" / "client.cpp", binaries, tmp_path, server.stream)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stdout + done.stderr


STRICT = """
#define CONTACTD_STRICT_HANDLES
#include <contactd.h>
int main(void) {
    contactd_scene scene = {0};
    contactd_mesh mesh = {0};
    contactd_body body;
    return contactd_add_body(0, %s, %s, 0, &body) != CONTACTD_INVALID_ARGUMENT;
}
"""


def test_strict_handles(binaries, tmp_path):
    """A mesh in the place of a scene is refused by the compiler; what is right runs with the same library."""
    for name, arguments, is_right in (("right", ("scene", "mesh"), True), ("wrong", ("mesh", "scene"), False)):
        source = tmp_path / f"{name}.c"
        source.write_text(STRICT % arguments)
        built = subprocess.run([*CC, str(source), *pkg_config(binaries), "-o", str(tmp_path / name)],
                               capture_output=True, text=True)
        assert (built.returncode == 0) == is_right, built.stderr
    assert subprocess.run([str(tmp_path / "right")]).returncode == 0
    assert "incompatible type" in built.stderr


LOOP = ROOT / "docs" / "examples" / "loop.c"

# What a loop has: steps that come in any order, an answer that is not there yet, one that is slow, none in flight.
ASLEEP = r"""
#include <contactd.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
static double now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }
#define ASK(call) do { if (call) { printf("%s %s\n", #call, contactd_last_error(client)->message); return 1; } } while (0)
int main(int argc, char **argv) {
    contactd_options options;
    contactd_options_init(&options);
    options.server = argv[argc - 1];
    options.timeout_ms = 120000;
    contactd_client *client;
    if (contactd_connect(&options, &client, NULL)) return 1;
    contactd_scene scene[3];
    contactd_ticket ticket[3], any;
    const contactd_result *result;
    int wait_ms = 7;
    ASK(contactd_wait_any(client, &any));
    ASK(contactd_process(client, &wait_ms));
    printf("%d %d\n", (int)any, wait_ms);
    for (int i = 0; i < 3; i++) ASK(contactd_open_scene(client, "", NULL, &scene[i]));
    for (int i = 0; i < 3; i++) ASK(contactd_step_submit(client, scene[i], NULL, 0, NULL, &ticket[i]));
    for (;;) {
        struct pollfd fd = {contactd_fd(client), POLLIN, 0};
        ASK(contactd_process(client, &wait_ms));
        ASK(contactd_step_try_wait(client, ticket[2], &result));
        if (result) break;
        if (wait_ms < 0) return printf("nothing is due\n"), 1;
        poll(&fd, 1, wait_ms);
    }
    ASK(contactd_wait_any(client, &any));
    printf("%d\n", any == ticket[0] || any == ticket[1]);
    ASK(contactd_step_wait(client, any, &result));
    ASK(contactd_wait_any(client, &any));
    ASK(contactd_step_wait(client, any, &result));
    printf("%d\n", contactd_step_try_wait(client, any, &result) == CONTACTD_NOT_FOUND);
    /* Asleep: nothing is in flight for half a second. */
    const double before = now(CLOCK_PROCESS_CPUTIME_ID), start = now(CLOCK_MONOTONIC);
    int rounds = 0;
    for (; now(CLOCK_MONOTONIC) < start + 0.5; rounds++) {
        struct pollfd fd = {contactd_fd(client), POLLIN, 0};
        ASK(contactd_process(client, &wait_ms));
        poll(&fd, 1, wait_ms < 0 ? 100 : wait_ms);
    }
    printf("%d %d\n", rounds < 50, now(CLOCK_PROCESS_CPUTIME_ID) - before < 0.05);
    contactd_close(&client);
    return 0;
}
"""


def compiled(tmp_path, binaries, source) -> str:
    program = tmp_path / "program"
    subprocess.run([*CC, "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", str(source), *pkg_config(binaries), "-o",
                    str(program)], check=True)
    return str(program)


def test_two_clients_in_one_event_loop(server, binaries, tmp_path):
    done = subprocess.run([compiled(tmp_path, binaries, LOOP), server.stream, "300"], capture_output=True, text=True,
                          timeout=60 * SLOW)
    assert (done.returncode, done.stdout) == (0, "300 and 300 steps\n"), done.stderr


def test_steps_in_an_event_loop(server, binaries, tmp_path):
    (tmp_path / "asleep.c").write_text(ASLEEP)
    done = subprocess.run([compiled(tmp_path, binaries, tmp_path / "asleep.c"), server.stream], capture_output=True, text=True,
                          timeout=60 * SLOW)
    assert done.stdout.split() == ["0", "-1", "1", "1", "1", "1"], done.stdout + done.stderr


def test_steps_of_many_scenes(server, binaries, tmp_path):
    done = subprocess.run([compiled(tmp_path, binaries, ROOT / "tests" / "e2e" / "many.c"), server.stream], capture_output=True,
                          text=True, timeout=60 * SLOW)
    assert (done.returncode, done.stdout) == (0, "0 differences; OUT_OF_RANGE\n"), done.stdout + done.stderr


def test_the_example_of_many_scenes(server, binaries, tmp_path):
    """The balls fall, and land on the floor."""
    program = compiled(tmp_path, binaries, ROOT / "docs" / "examples" / "many.c")
    done = subprocess.run([program, server.stream, "8", "50"], capture_output=True, text=True, timeout=60 * SLOW)
    assert done.returncode == 0, done.stderr
    steps, scenes, contacts, height = re.findall(r"[\d.]+", done.stdout)
    assert (steps, scenes) == ("50", "8") and int(contacts) > 8 and 0.45 < float(height) < 0.5, done.stdout
    nothing = subprocess.run([program, server.stream, "0", "2"], capture_output=True, text=True, timeout=60 * SLOW)
    assert nothing.returncode == 0 and ", 0 contacts" in nothing.stdout, nothing.stderr


def test_simple_without_a_server(binaries, tmp_path):
    done = build_and_run(tmp_path, pkg_config(binaries), "nonsense")
    assert done.returncode == 1 and "INVALID_ARGUMENT" in done.stderr and done.stdout == ""


def settle(server: Server, folder, steps: int, *settings: str) -> subprocess.Popen:
    return subprocess.Popen([str(BUILD / "examples" / "settle"), "--server", server.stream, "--steps", str(steps),
                             *settings, "--csv", str(folder / "settle.csv"), "--dump", str(folder), "--progress"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows(path) -> list[tuple]:
    with path.open(newline="") as file:
        return [(r["step"], r["contacts"], r["volume"], r["force"]) for r in csv.DictReader(file)]


@pytest.mark.parametrize("settings", [(), ("--resolution", "16")])
def test_settle_writes_what_it_did(server, tmp_path, settings):
    process = settle(server, tmp_path, 120, *settings)
    assert process.wait(120 * SLOW) == 0, process.stderr.read()
    data = rows(tmp_path / "settle.csv")
    assert [int(r[0]) for r in data] == list(range(120))
    assert max(float(r[2]) for r in data) > 0
    dump = np.load(tmp_path / "settle.npz")
    assert dump["vertices0"].dtype == np.float32 and dump["triangles0"].max() == len(dump["vertices0"]) - 1
    assert dump["spans"].shape == (len(dump["axes"]), 2, 3) and len(dump["axes"]) > 0
    assert dump["spans"][:, 1].max() <= dump["vertices3"].max() + 1


@pytest.mark.parametrize("settings", [(), ("--resolution", "16")])
def test_a_killed_server_changes_nothing(make_server, tmp_path, settings):
    """SIGKILL twice in mid-stream: each step is answered once, and the trajectory has the same bits as without."""
    server = make_server()
    calm, storm = tmp_path / "calm", tmp_path / "storm"
    calm.mkdir()
    storm.mkdir()
    steps, kills = (120, (50, 100)) if INSTRUMENTED else (400, (50, 200))  # it tells of each fiftieth
    if INSTRUMENTED:  # what rings take there is minutes
        (tmp_path / "box.obj").write_text(as_obj(*UNIT_BOX))
        settings = (*settings, "--mesh-a", str(tmp_path / "box.obj"))
    process = settle(server, calm, steps, *settings)
    assert process.wait(120 * SLOW) == 0, process.stderr.read()
    process = settle(server, storm, steps, *settings)
    killed = 0
    for line in process.stdout:  # "settle: step 50/400, ..."
        if line.split()[2] in (f"{k}/{steps}," for k in kills):
            server.kill()
            killed += 1
            time.sleep(0.2)
            server.start()
    assert process.wait(120 * SLOW) == 0, process.stderr.read()
    assert killed == 2
    assert rows(calm / "settle.csv") == rows(storm / "settle.csv")
