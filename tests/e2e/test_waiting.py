"""A server that waits: awake for the next message of a brisk client, asleep when there is none."""

from __future__ import annotations

import os
import pathlib
import time

import conftest
import pytest

import contactd


def processor_s(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


QUIET = 0.2 if conftest.INSTRUMENTED else 0.07  # of a core


def share_of_a_core(pid: int, work) -> float:
    began, before = time.monotonic(), processor_s(pid)
    work()
    return (processor_s(pid) - before) / (time.monotonic() - began)


@pytest.mark.parametrize("spin", ["0", "300", "100000"])
def test_an_idle_server_sleeps(make_server, spin):
    """It uses next to nothing of some second; who is awake uses all that others leave of every one."""
    server = make_server("--spin-us", spin)
    with contactd.connect(server.stream) as client:
        for _ in range(200):
            client.ping()
        time.sleep(0.3)
        assert any(share_of_a_core(server.pid, lambda: time.sleep(1.5)) <= QUIET for _ in range(10)), "it was busy"


def test_slow_clients_are_not_waited_for_awake(make_server):
    server = make_server("--spin-us", "5000")
    with contactd.connect(server.stream) as client:

        def ping_slowly():
            for _ in range(75):
                time.sleep(0.02)
                client.ping()

        client.ping()
        # Awake for 5 of 20 ms it would take a quarter.
        assert any(share_of_a_core(server.pid, ping_slowly) <= QUIET + 0.03 for _ in range(10))


def thread_name(task: pathlib.Path) -> str:
    try:
        return (task / "comm").read_text()
    except OSError:
        return ""  # the thread has ended


def zmq_io_thread(pid: int) -> int:
    """The server's only ZeroMQ I/O thread. It takes its name after it has started, which may be after /readyz answers."""
    tasks = pathlib.Path(f"/proc/{pid}/task")

    def named() -> list[int]:
        return [int(task.name) for task in tasks.iterdir() if thread_name(task).startswith("ZMQbg/IO")]

    (thread,) = conftest.wait_until(named, "a thread of the server's with the name of ZeroMQ's I/O thread")
    return thread


def test_its_zmq_thread_is_batch_while_clients_are_brisk(make_server):
    """See proto/zmq_thread.h: while the server busy-polls for the next message, and no longer."""
    server = make_server("--spin-us", "100000")
    io_thread = zmq_io_thread(server.pid)
    with contactd.connect(server.stream) as client:
        for policy, pause in [(os.SCHED_BATCH, 0), (os.SCHED_OTHER, 0.2), (os.SCHED_BATCH, 0)]:

            def has_policy() -> bool:
                client.ping()
                time.sleep(pause)
                return os.sched_getscheduler(io_thread) == policy

            conftest.wait_until(has_policy, f"the scheduling policy {policy}", 60 * conftest.SLOW)


def test_its_zmq_thread_is_not_batch_where_the_server_never_spins(make_server):
    server = make_server("--spin-us", "0")
    io_thread = zmq_io_thread(server.pid)
    with contactd.connect(server.stream) as client:
        for _ in range(100):
            client.ping()
            assert os.sched_getscheduler(io_thread) == os.SCHED_OTHER
