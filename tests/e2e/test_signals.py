"""Signals, and the log that they open anew: a second SIGTERM ends the server at once, whatever runs. What one
ends is in test_time_limits.py."""

from __future__ import annotations

import pathlib
import signal
import time
import urllib.request

import pytest
from conftest import PATIENCE, SLOW, Server, pause, wait_until
from raw import Raw
from test_bad_input import Setup

UNFINISHED = 7  # exit code


def keep_busy(server: Server) -> Raw:
    """Gives the server a step that takes minutes."""
    setup = Setup(server.stream)
    setup.raw.ok("Configure", {"scene": setup.scene, "settings": {"resolution": (4096,)}})
    for i in range(60):
        setup.add({"kind": 1})
    setup.raw.send("Step", {"scene": setup.scene, "sequence": 1})
    wait_until(lambda: "contactd_lane_depth{lane=\"large\"} 1" in metrics_text(server), "the step begun")
    return setup.raw


def metrics_text(server: Server) -> str:
    with urllib.request.urlopen(server.http + "/metrics", timeout=10 * SLOW) as answer:
        return answer.read().decode()


def end_unfinished(server: Server) -> None:
    """The exit code is not 0, which the fixture that ends it would not accept."""
    server.log_path.rename(server.log_path.with_suffix(".unfinished"))
    server.process = None


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(make_server, second):
    server = make_server("--drain", "1h", "--max-step-time", "1h")
    raw = keep_busy(server)
    server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "finishing what is queued" in server.logs(), "the first signal heard")
    time.sleep(0.5)  # one that comes at once is the same
    assert server.alive()
    server.process.send_signal(second)
    assert server.wait(12) == UNFINISHED
    assert "again: ending at once" in server.logs()
    raw.close()
    end_unfinished(server)


def test_two_signals_at_once_are_one(make_server):
    """timeout(1) sends two, and so does a program that passes on what the terminal tells its server as well."""
    server = make_server()
    pause(server.process)
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        server.process.send_signal(which)
    assert server.wait(30) == 0
    assert "again" not in server.logs()


def test_sighup_opens_the_log_anew(make_server, tmp_path):
    log = tmp_path / "log"
    server = make_server("--log-file", str(log), "--log-level", "debug")
    old = log.rename(tmp_path / "log.1")
    Raw(server.stream).close()
    wait_until(lambda: "opened a session" in old.read_text(), "a line in the renamed file")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: log.exists() and "opened anew" in log.read_text(), "a line in the new file")
    before = old.read_text()
    Raw(server.stream).close()
    wait_until(lambda: "opened a session" in log.read_text(), "a line in the new file")
    assert old.read_text() == before
    log.unlink()
    log.mkdir()  # cannot be opened: the server says so in the old file and goes on
    server.process.send_signal(signal.SIGHUP)
    Raw(server.stream).close()
    assert server.alive()


def test_sighup_without_a_log_file_does_nothing(make_server):
    server = make_server()
    server.process.send_signal(signal.SIGHUP)
    Raw(server.stream).close()
    time.sleep(0.1)
    assert server.alive()


def test_lines_that_a_full_disk_loses_are_counted(make_server, tmp_path):
    log = tmp_path / "log"
    log.symlink_to("/dev/full")
    if not pathlib.Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    server = make_server("--log-file", str(log))
    Raw(server.stream).close()

    def lost() -> int:
        (line,) = [x for x in metrics_text(server).splitlines() if x.startswith("contactd_log_lines_lost_total")]
        return int(line.split()[-1])

    wait_until(lost, "a lost line in the metric")
    log.unlink()
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: log.exists() and "opened anew" in log.read_text(), "the new file", PATIENCE)
    first, second = log.read_text().splitlines()[:2]
    assert f"{lost()} lines could not be written here: No space left on device" in first
    assert "opened anew" in second
