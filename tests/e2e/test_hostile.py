"""Garbage, truncated and hostile messages, and clients that die in the middle of a frame: the server answers what it can,
drops what it must, keeps its memory, and goes on serving everyone else."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
import urllib.request

import numpy as np
import pytest
import zmq
from conftest import INSTRUMENTED, PATIENCE, SLOW, wait_until
from contactd import _wire
from raw import Raw
from test_bad_input import BOX, Bystander, Setup

GREETING = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x00" + b"NULL" + b"\0" * 16 + b"\0" + b"\0" * 31
PROPERTIES = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0"
READY = bytes([4, len(PROPERTIES)]) + PROPERTIES


@pytest.fixture
def bystander(server):
    bystander = Bystander(server.stream)
    yield bystander
    bystander.finish()


def metrics(server) -> dict[str, float]:
    with urllib.request.urlopen(server.http + "/metrics", timeout=10 * SLOW) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


def shake_hands(s: socket.socket) -> None:
    """As a DEALER does."""

    def take(n: int) -> bytes:
        got = b""
        while len(got) < n:
            part = s.recv(n - len(got))
            assert part, "the server ended the connection"
            got += part
        return got

    s.sendall(GREETING)
    take(64)
    s.sendall(READY)
    flags, size = take(2)
    assert flags == 4 and take(size).startswith(b"\x05READY")


def zmtp(server) -> socket.socket:
    """A TCP connection that has shaken hands."""
    s = socket.create_connection(("127.0.0.1", server.stream_port), timeout=PATIENCE)
    shake_hands(s)
    return s


def frame(data: bytes, more: bool) -> bytes:
    return bytes([3 if more else 2]) + struct.pack(">Q", len(data)) + data


def good_step(setup: Setup) -> tuple[bytes, list[bytes]]:
    """A step as its frames, with the positions in one of their own."""
    arrays = _wire.Arrays()
    update = {"body": setup.soft, "kind": 1, "positions": arrays.add(BOX)}
    arrays.place()
    data = bytes(update["positions"].pop("bytes"))
    update["positions"]["frame"] = 1
    body = {"scene": setup.scene, "sequence": 10**6, "want": 7, "updates": [update]}
    header = _wire.encode("Step", body, request=77, session=setup.raw.session, epoch=setup.raw.epoch)
    return header, [data]


def test_killed_in_the_middle(server, bystander):
    """At every kind of place: in the greeting, the handshake, a frame's length, its data, between two frames."""
    setup = Setup(server.stream)
    header, (data,) = good_step(setup)
    whole = frame(header, True) + frame(data, False)
    raw = (GREETING[:1], GREETING[:30], GREETING, GREETING + READY[:10])
    for piece in raw:
        s = socket.create_connection(("127.0.0.1", server.stream_port), timeout=5 * SLOW)
        s.sendall(piece)
        s.close()
    for cut in (1, 5, 9, 40, 9 + len(header), 9 + len(header) + 4, len(whole) - 1):
        s = zmtp(server)
        s.sendall(whole[:cut])
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, as of a killed process
        s.close()
    announced = zmtp(server)  # a frame announced and never sent
    announced.sendall(b"\x02" + struct.pack(">Q", 1 << 26) + b"x" * 1000)
    assert setup.volume() == pytest.approx(0.5)
    announced.close()
    s = zmtp(server)  # and the whole, to know that the pieces were real: it is a conflict of sequence numbers
    s.sendall(whole)
    answer = b""
    while b"CTD1" not in answer or b"sequence" not in answer:
        part = s.recv(4096)
        assert part, "no answer to the whole message"
        answer += part
    s.close()
    setup.raw.close()


def test_an_absurd_frame_length_ends_the_connection(server, bystander):
    before = resident(server.pid)
    s = zmtp(server)
    s.sendall(b"\x02" + struct.pack(">Q", 1 << 62) + b"x" * 100)
    try:
        while s.recv(4096):
            pass
    except (TimeoutError, ConnectionResetError):
        pass
    s.close()
    assert resident(server.pid) - before < 64 << 20


def test_bytes_that_are_no_zmtp(server, bystander):
    for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"\0" * 500, random.Random(1).randbytes(4096)):
        s = socket.create_connection(("127.0.0.1", server.stream_port), timeout=5 * SLOW)
        s.sendall(data)
        s.settimeout(0.2)
        try:
            while s.recv(4096):
                pass
        except OSError:
            pass
        s.close()


def test_truncated_and_flipped_messages(server, bystander):
    """Thousands of damaged copies of real messages: each gets one answer, none harms."""
    rng = random.Random(7)
    setup = Setup(server.stream)
    raw = setup.raw
    header, frames = good_step(setup)
    seeds = [(header, frames)]
    vertices = _wire.Arrays()
    mesh = {"vertices": vertices.add(BOX), "triangles": vertices.add(np.zeros((12, 3), "<u4")), "name": "x"}
    vertices.place()
    seeds.append((_wire.encode("RegisterMesh", mesh, request=78, session=raw.session, epoch=raw.epoch), []))
    seeds.append((_wire.encode("AddBody", {"scene": setup.scene, "mesh": setup.mesh, "kind": 2, "pose": (1.0,) * 12,
                                           "ignore": (1, 2)}, request=79, session=raw.session, epoch=raw.epoch), []))
    seeds.append((_wire.encode("OpenScene", {"settings": {"resolution": (8, 8, 8)}, "name": "n" * 50}, request=80,
                               session=raw.session, epoch=raw.epoch), []))
    kinds: dict[str, int] = {}
    total = 600 if INSTRUMENTED else 3000
    for round_ in range(total // 100):
        for _ in range(100):
            header, frames = seeds[rng.randrange(len(seeds))]
            header, frames = bytearray(header), list(frames)
            what = rng.randrange(4)
            if what == 0:
                header = header[: rng.randrange(len(header))]
            elif what == 1:
                for _ in range(rng.randint(1, 5)):
                    header[rng.randrange(len(header))] = rng.randrange(256)
            elif what == 2:
                at = rng.randrange(0, len(header) - 4)
                header[at : at + 4] = struct.pack("<I", rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 0xFFFFFFF0]))
            elif frames:
                frames = rng.choice([[], [frames[0][:-1]], [frames[0] + b"x"], [b""], [b"\xff" * 96], frames * 16])
            raw.socket.send_multipart([bytes(header), *frames])
        for _ in range(100):
            answer = raw.receive(30)
            kinds[answer.kind] = kinds.get(answer.kind, 0) + 1
    assert kinds.pop("Error") > total // 2, kinds
    assert raw.ask("Ping", {"nonce": 9}).body["nonce"] == 9
    raw.close()


@pytest.mark.parametrize("messages", [[[b""]], [[b"", b"", b""]], [[b"CTD1"]], [[b"\x08\0\0\0CTD1"]], [[b"\xff\xff\xff\xffCTD1" + b"\xff" * 64]],
                                      [[b"\0" * 100000]], [[b"x"] * 17], [[b"x"] * 18], [[b"x"] * 500], [[b"x", b"y" * 70000]]])
def test_messages_that_are_none(server, bystander, messages):
    raw = Raw(server.stream)
    for message in messages:
        raw.socket.send_multipart(message)
        answer = raw.receive()
        assert answer.kind == "Error" and answer.body["code"] in (1, 12) and answer.body["message"]
    raw.close()


def test_other_socket_types(server, bystander):
    with zmq.Context() as context:
        for kind in (zmq.PUB, zmq.PUSH, zmq.SUB, zmq.PAIR, zmq.REQ):
            s = context.socket(kind)
            s.linger = 0
            s.connect(server.stream)
            try:
                s.send(b"hello", zmq.NOBLOCK)
            except zmq.ZMQError:
                pass
            time.sleep(0.02)
            s.close()


def test_lengths_that_do_not_match_their_frames(server, bystander):
    """An array says how long it is; the frame disagrees, or does not exist."""
    setup = Setup(server.stream)
    data = BOX.tobytes()
    cases = [
        ({"dtype": 1, "count": 24, "frame": 2}, [data]),
        ({"dtype": 1, "count": 24, "frame": 255}, [data]),
        ({"dtype": 1, "count": 25, "frame": 1}, [data]),
        ({"dtype": 1, "count": 2**62, "frame": 1}, [data]),
        ({"dtype": 1, "count": 2**64 - 1, "frame": 1}, [data]),
        ({"dtype": 1, "count": 24, "frame": 1, "bytes": data}, [data[:-4]]),
        ({"dtype": 1, "count": 24, "bytes": data[:-1]}, []),
        ({"dtype": 9, "count": 24, "frame": 1}, [data]),
        ({"dtype": 3, "count": 24, "frame": 1}, [data]),
        ({"dtype": 2, "count": 24, "frame": 1}, [data]),
    ]
    for array, frames in cases:
        body = {"scene": setup.scene, "sequence": setup.sequence + 1, "updates": [{"body": setup.soft, "kind": 1,
                                                                                  "positions": array}]}
        header = _wire.encode("Step", body, request=5, session=setup.raw.session, epoch=setup.raw.epoch)
        setup.raw.socket.send_multipart([header, *frames])
        answer = setup.raw.receive()
        assert answer.kind == "Error" and answer.request == 5, (array, answer.kind)
        assert answer.body["code"] in (1, 9) and answer.body["message"], answer.body
    assert setup.volume() == pytest.approx(0.5)
    setup.raw.close()


def test_a_client_that_never_reads(server, bystander):
    """Answers pile up to a bound; no other client waits for it, and its memory is given back."""
    setup = Setup(server.stream)
    setup.raw.socket.rcvhwm = 1
    for i in range(3000):
        try:
            setup.raw.socket.send(_wire.encode("GetStatus", {}, request=i), zmq.NOBLOCK)
        except zmq.Again:
            break
    time.sleep(0.3)
    setup.raw.close()
    wait_until(lambda: metrics(server)["contactd_unread_bytes"] < 1 << 16, "the memory of its answers")


def is_probed(server, client: socket.socket) -> bool:
    """By /proc/net/tcp, which may show a line twice or not at all while others come and go."""

    def end(port: int) -> str:
        return f"0100007F:{port:04X}"

    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file]
    ends = [end(server.stream_port), end(client.getsockname()[1])]
    return any(row[5].startswith("02:") for row in rows if row[1:3] == ends)


def test_the_kernel_probes_connections_and_zeromq_does_not(server):
    """A heartbeat of libzmq's that is due on a connection that has ended with its input stopped would end the server."""
    s = zmtp(server)
    wait_until(lambda: is_probed(server, s), "the kernel's probes")
    s.settimeout(1 if INSTRUMENTED else 6)
    with pytest.raises(TimeoutError):
        s.recv(1)  # neither a heartbeat, which came after 5 s, nor the connection's end
    s.settimeout(PATIENCE)
    s.sendall(b"\x04\x0a\x04PING\0\0abc")
    assert s.recv(10, socket.MSG_WAITALL) == b"\x04\x08\x04PONGabc"
    s.close()


def test_pings_in_a_flood_that_ends_in_a_reset(server, bystander):
    """libzmq would end the process where a high-water mark had stopped the connection's input before the reset."""
    flood = (frame(b"x" * 40, False) * 200 + b"\x04\x0a\x04PING\0\0abc") * 40
    for _ in range(20):
        s = zmtp(server)  # it gets the descriptor of the last one, whose messages may still wait
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.setblocking(False)
        with contextlib.suppress(OSError):
            s.send(flood)
        s.close()
        assert server.alive()
    wait_until(lambda: metrics(server)["contactd_connections"] == 1, "all of them gone")
    assert server.alive()


def test_memory_stays(server, bystander):
    """Sessions, scenes and meshes of clients that come and go leave nothing behind."""

    def visit(n):
        for _ in range(n):
            setup = Setup(server.stream)
            setup.raw.ok("CloseScene", {"scene": setup.scene})
            setup.raw.close()

    visit(20)
    before = resident(server.pid)
    visit(5 if INSTRUMENTED else 60)
    assert resident(server.pid) - before < (16 << 20) * (20 if INSTRUMENTED else 1)


def started_with(make_server, tmp_path, soft: int, hard: int):
    """A server that was started with so many open files, and allowed to ask for more up to `hard`."""
    server = make_server(start=False)
    script = tmp_path / "limited"
    script.write_text(f'#!/bin/sh\nulimit -Sn {soft} && ulimit -Hn {hard} && exec "{server.binary}" "$@"\n')
    script.chmod(0o755)
    server.binary = script
    return server.start()


def test_few_open_files_to_start_with(make_server, tmp_path):
    server = started_with(make_server, tmp_path, 64, 4096)
    with open(f"/proc/{server.pid}/limits") as limits:
        (soft,) = [int(line.split()[3]) for line in limits if line.startswith("Max open files")]
    assert 1024 < soft <= 4096  # what --max-sessions needs
    assert "ulimit" not in server.logs()


def test_no_more_files_to_open(make_server, tmp_path):
    """It says so at the start; those connected are served, and others again when there is room."""
    server = started_with(make_server, tmp_path, 64, 64)
    assert "64 files may be open" in server.logs() and "--max-sessions 1024" in server.logs()
    first = Bystander(server.stream)
    crowd = [socket.create_connection(("127.0.0.1", server.stream_port), timeout=5 * SLOW) for _ in range(100)]
    time.sleep(0.3)
    for s in crowd:
        s.close()
    first.finish()
    late = Bystander(server.stream)
    late.finish()
