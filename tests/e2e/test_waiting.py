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


@pytest.mark.parametrize("spin", ["0", "300", "100000"])
def test_an_idle_server_sleeps(make_server, spin):
    server = make_server("--spin-us", spin)
    with contactd.connect(server.stream) as client:
        for _ in range(200):
            client.ping()
        time.sleep(0.3)
        before = processor_s(server.pid)
        time.sleep(1.5)
        assert processor_s(server.pid) - before <= 0.1 * conftest.SLOW, "it was busy with nothing to do"


def test_slow_clients_are_not_waited_for_awake(make_server):
    server = make_server("--spin-us", "5000")
    with contactd.connect(server.stream) as client:
        client.ping()
        before = processor_s(server.pid)
        for _ in range(75):
            time.sleep(0.02)
            client.ping()
        # Awake for 5 of 20 ms it would take 0.4 s.
        assert processor_s(server.pid) - before <= 0.15 * conftest.SLOW
