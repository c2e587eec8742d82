"""Many servers that look like one: which of them has which scenes, and what moves when one joins, drains or dies.

For client. Scenes fall into buckets. A bucket has a connection of its own (_link) to one server, with its own session, and
moves as a whole: the connection goes to another server and builds its scenes there again, as it does after a restart. So
nothing is lost and no step is computed into two answers. Buckets are spread evenly; of those that a server leaves, each goes
to the server that ranks highest for it (rendezvous hashing) among the least occupied, and a server that joins takes its share
of those that rank it highest, so no other bucket moves.
"""

from __future__ import annotations

import hashlib
import logging
import math
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

import zmq

from . import _wire
from ._addresses import Addresses
from ._keys import Keys
from ._link import Link
from ._state import SceneState
from .errors import ContactdError, ErrorCode, error_for

LOOK_S = 1.0  # between two looks at files; names are asked every tenth time
PROBE_S = 2.0  # for the answer of a server that may be dead
PROBE_AGAIN_S = 0.5, 8.0  # the first pause before a dead server is asked again, and the longest
LOAD_AGE_S = 0.5  # how long a server's word about its load counts
MAX_BUCKETS = 64

log = logging.getLogger("contactd")


@dataclass(eq=False)
class Server:
    address: str
    up: bool = True
    why: str = ""  # it is not up
    is_successor: bool = False  # named by a server that drained, not by the addresses given
    epoch: int = 0
    load: tuple[int, int] = (0, 0)  # scenes open on it, commands in its queue
    asked: float = 0.0  # when it said so
    probe_at: float = 0.0  # when it is to be asked whether it is back
    pause: float = PROBE_AGAIN_S[0]


@dataclass(eq=False)
class Bucket:
    number: int
    server: Server
    link: Link | None = None
    scenes: int = 0  # opened in it


def rank(bucket: int, address: str) -> int:
    """How high a server stands for a bucket: the same for all clients and at all times."""
    return int.from_bytes(hashlib.blake2b(f"{bucket} {address}".encode(), digest_size=8).digest(), "big")


class Servers:
    def __init__(self, addresses: Addresses, make: Callable[[str, "Servers", int], Link], keys: Keys | None, *,
                 placement: str, connections: int | None, timeout: float) -> None:
        self._addresses, self._make, self._keys = addresses, make, keys
        self._placement = placement
        self._lock = threading.RLock()  # no call of a Link's is made with it but leave(), which waits for nothing
        self.moves = 0  # of buckets, from one server to another
        self._ended = threading.Event()
        found, troubles = addresses.look()
        for trouble in troubles:
            log.warning("%s", trouble)
        if not found:
            raise error_for(ErrorCode.UNREACHABLE, "; ".join(troubles) or "there is no address in " +
                            ", ".join(addresses.sources), object="server", field="address", retry=True)
        self.servers = {address: Server(address) for address in found}
        end = time.monotonic() + timeout
        while True:
            self._probe_all(list(self.servers.values()), min(PROBE_S, timeout))
            if self._up() or time.monotonic() >= end:
                break
            time.sleep(0.05)
        if twins := self._twins():
            raise error_for(ErrorCode.CONFLICT, f"{twins[0]} and {twins[1]} are one server: give each server one address",
                            object="server", field="address")
        up = self._up()
        if not up:
            why = "; ".join(f"{s.address}: {s.why}" for s in self.servers.values())
            raise error_for(ErrorCode.UNREACHABLE, f"none of {len(self.servers)} servers answers: {why}", object="server",
                            field="address", retry=True)
        for server in self.servers.values():
            if not server.up:
                log.warning("%s does not answer (%s): its share goes to the others until it does", server.address, server.why)
        # Two for each server, so that one's share can be divided; enough for those that may join.
        n = connections or min(MAX_BUCKETS, max(8 if addresses.changes else 2, 2 * len(found)))
        self.buckets = [Bucket(i, up[0]) for i in range(n)]
        counts = dict.fromkeys(up, 0)
        for bucket in self.buckets:
            bucket.server = self._best(bucket, counts)
            counts[bucket.server] += 1
        self._watcher = threading.Thread(target=self._watch, name="contactd servers", daemon=True)
        self._watcher.start()

    # ---- placing ----

    def _up(self) -> list[Server]:
        return [server for server in self.servers.values() if server.up]

    def _best(self, bucket: Bucket, counts: dict[Server, int]) -> Server:
        """Of the least occupied servers, the one that ranks highest."""
        least = min(counts.values())
        return max((s for s, n in counts.items() if n == least), key=lambda s: rank(bucket.number, s.address))

    def _counts(self) -> dict[Server, int]:
        counts = dict.fromkeys(self._up(), 0)
        for bucket in self.buckets:
            if bucket.server in counts:
                counts[bucket.server] += 1
        return counts

    def link_for(self, scene: SceneState) -> Link:
        """The connection of the bucket that a new scene falls into."""
        if self._placement == "load":
            self._ask_for_load()
        with self._lock:
            if self._placement == "hash" and scene.name:
                at = int.from_bytes(hashlib.blake2b(scene.name.encode(), digest_size=8).digest(), "big")
                bucket = self.buckets[at % len(self.buckets)]
            else:
                server = self._least_loaded()
                bucket = min((b for b in self.buckets if b.server is server), key=lambda b: b.scenes, default=self.buckets[0])
            bucket.scenes += 1
            return self._link_of(bucket)

    def _mine(self) -> dict[Server, int]:
        """This client's scenes on each server that has buckets."""
        mine: dict[Server, int] = {}
        for bucket in self.buckets:
            mine[bucket.server] = mine.get(bucket.server, 0) + bucket.scenes
        return mine

    def _least_loaded(self) -> Server:
        mine = self._mine()
        if self._placement == "hash":
            return min(mine, key=mine.get)  # type: ignore[arg-type]
        server = min(self._few(mine), key=lambda s: (*s.load, mine[s]))
        server.load = server.load[0] + 1, server.load[1]
        return server

    def _few(self, mine: dict[Server, int]) -> list[Server]:
        """Those to choose from: of many servers not all are asked, but the two with the fewest scenes of this client."""
        return sorted(mine, key=mine.get)[:2] if len(mine) > 8 else list(mine)  # type: ignore[arg-type]

    def _ask_for_load(self) -> None:
        now = time.monotonic()
        with self._lock:
            stale = [server for server in self._few(self._mine()) if server.up and now - server.asked > LOAD_AGE_S]
        answers = probe([server.address for server in stale], self._keys, PROBE_S) if stale else []
        with self._lock:
            for server, answer in zip(stale, answers):
                server.asked = now  # where there is no answer, its links will find out
                if not isinstance(answer, ContactdError):
                    server.load = answer["scenes"], answer["queue_depth"]

    def closed(self, scene: SceneState) -> None:
        with self._lock:
            for bucket in self.buckets:
                if bucket.link is scene.link:
                    bucket.scenes -= 1

    def _link_of(self, bucket: Bucket) -> Link:
        if bucket.link is None:
            bucket.link = self._make(bucket.server.address, self, bucket.number)
        return bucket.link

    def link_of_each(self) -> list[tuple[str, Link]]:
        """A connection to each server that has buckets."""
        with self._lock:
            some = {bucket.server: bucket for bucket in reversed(self.buckets)}
            some |= {bucket.server: bucket for bucket in self.buckets if bucket.link is not None}
            return [(server.address, self._link_of(bucket)) for server, bucket in some.items()]

    def visit_each(self) -> Iterator[Link]:
        """A connection to each server that is up, also where no bucket is: for the moment, then."""
        yield from (link for _, link in self.link_of_each())
        with self._lock:
            others = [server.address for server in self._up() if all(bucket.server is not server for bucket in self.buckets)]
        for address in others:
            link = self._make(address, self, 0)
            try:
                yield link
            finally:
                link.close()

    def first(self) -> Link:
        with self._lock:
            return self._link_of(self.buckets[0])

    @property
    def links(self) -> list[Link]:
        with self._lock:
            return [bucket.link for bucket in self.buckets if bucket.link is not None]

    # ---- what happens to servers ----

    def elsewhere(self, number: int, address: str, why: str) -> str:
        """Where a bucket goes whose server at `address` is gone or drains; by its link, which moves there at once. The same
        address where there is no other."""
        with self._lock:
            bucket = self.buckets[number]
            if bucket.server.address == address:  # else it has been given to another already
                self._note_down(bucket.server, why)
                self._empty(bucket.server, bucket)
            return bucket.server.address

    def learn(self, successors: list[str]) -> None:
        """A server that drains named others: those that are new are asked at once, and join when they answer."""
        with self._lock:
            for address in successors:
                if address not in self.servers:
                    log.info("%s is a successor", address)
                    self.servers[address] = Server(address, up=False, why="not asked yet", is_successor=True)

    def _empty(self, server: Server, asking: Bucket | None = None) -> None:
        """Gives its buckets to the others, if there are any; the one that asks goes there by itself."""
        for bucket in self.buckets:
            if bucket.server is server and (counts := self._counts()):
                bucket.server = self._best(bucket, counts)
                self.moves += 1
                if bucket.link is not None and bucket is not asking:
                    bucket.link.leave(bucket.server.address)

    def _note_down(self, server: Server, why: str) -> None:
        if server.up:
            log.warning("%s: %s; what it had goes to the other servers", server.address, why)
        server.up, server.why = False, why
        server.pause = PROBE_AGAIN_S[0]
        server.probe_at = time.monotonic() + server.pause * random.uniform(0.5, 1.5)

    def _note_up(self, server: Server) -> None:
        """It joins: it takes its share of the buckets, those that rank it highest."""
        server.up, server.why = True, ""
        counts = self._counts()
        log.info("%s answers: it takes its share", server.address)
        while True:
            most = max(counts.values())
            if most - counts[server] < 2:
                return
            full = [b for b in self.buckets if not b.server.up or (b.server is not server and counts.get(b.server) == most)]
            bucket = max(full, key=lambda b: rank(b.number, server.address))
            if bucket.server in counts:
                counts[bucket.server] -= 1
            counts[server] += 1
            bucket.server = server
            self.moves += 1
            if bucket.link is not None:
                bucket.link.leave(server.address)

    def _twins(self) -> tuple[str, str] | None:
        seen: dict[int, str] = {}
        for server in self._up():
            if server.epoch in seen:
                return seen[server.epoch], server.address
            seen[server.epoch] = server.address
        return None

    # ---- watching ----

    def _probe_all(self, servers: list[Server], timeout: float) -> None:
        """Asks them all at once; notes who answers, and what."""
        answers = probe([server.address for server in servers], self._keys, timeout)
        for server, answer in zip(servers, answers):
            if isinstance(answer, ContactdError):
                server.up, server.why = False, str(answer)
            else:
                server.epoch, server.load = answer["epoch"], (answer["scenes"], answer["queue_depth"])
                server.up, server.why = bool(answer["ready"]), "" if answer["ready"] else answer["ready_reason"] or "not ready"
            server.asked = time.monotonic()

    def _watch(self) -> None:
        turn = 0
        while not self._ended.wait(min(LOOK_S, PROBE_AGAIN_S[0]) * random.uniform(0.8, 1.2)):
            turn += 1
            try:
                if self._addresses.changes:
                    self._look()
                self._ask_the_dead()
            except Exception:  # nothing of this may end the watch
                log.exception("looking for servers failed")

    def _look(self) -> None:
        found, troubles = self._addresses.look()
        for trouble in troubles:
            log.debug("%s", trouble)
        if not found:
            return  # rather all of the old than none
        with self._lock:
            for address in found:
                if address not in self.servers:
                    log.info("%s is new", address)
                    self.servers[address] = Server(address, up=False, why="not asked yet")
            gone = [server for address, server in self.servers.items() if address not in found and not server.is_successor]
            for server in gone:
                log.info("%s is listed no more: what it has goes to the other servers", server.address)
                del self.servers[server.address]
                server.up = False
                self._empty(server)

    def _ask_the_dead(self) -> None:
        now = time.monotonic()
        with self._lock:
            due = [server for server in self.servers.values() if not server.up and server.probe_at <= now]
        if not due:
            return
        answers = probe([server.address for server in due], self._keys, PROBE_S)
        with self._lock:
            for server, answer in zip(due, answers):
                if isinstance(answer, ContactdError) or not answer["ready"]:
                    server.pause = min(PROBE_AGAIN_S[1], 2 * server.pause)
                    server.probe_at = time.monotonic() + server.pause * random.uniform(0.5, 1.5)
                    continue
                twin = next((s for s in self._up() if s.epoch == answer["epoch"]), None)
                if twin is not None:
                    if "one server" not in server.why:
                        log.warning("%s and %s are one server: only the first is used", twin.address, server.address)
                    server.why = f"one server with {twin.address}"
                    server.probe_at = time.monotonic() + PROBE_AGAIN_S[1]
                    continue
                server.epoch, server.load = answer["epoch"], (answer["scenes"], answer["queue_depth"])
                if server.address in self.servers:
                    self._note_up(server)

    def close(self, wait: bool = True) -> None:
        self._ended.set()
        links = self.links
        for link in links:
            link.close(wait=False)
        if wait:
            for link in links:
                link.close()
            self._watcher.join()

    def facts(self) -> list[dict[str, Any]]:
        with self._lock:
            return [{"address": s.address, "up": s.up, "why": s.why,
                     "scenes": sum(b.scenes for b in self.buckets if b.server is s)} for s in self.servers.values()]


def probe(addresses: list[str], keys: Keys | None, timeout: float) -> list[dict[str, Any] | ContactdError]:
    """The status of each server, or why there is none. Takes no longer than `timeout` for all of them."""
    answers: list[dict[str, Any] | ContactdError | None] = [None] * len(addresses)
    context, poller, sockets, monitors = zmq.Context(), zmq.Poller(), {}, {}
    try:
        for i, address in enumerate(addresses):
            socket = context.socket(zmq.DEALER)
            socket.linger = 0
            monitor = socket.get_monitor_socket(zmq.EVENT_CONNECT_RETRIED)  # it was refused
            monitors[monitor] = i
            poller.register(monitor, zmq.POLLIN)
            if "[" in address:
                socket.ipv6 = True
            if keys is not None:
                keys.set(socket)
            try:
                socket.connect(address)
            except zmq.ZMQError as e:
                answers[i] = error_for(ErrorCode.INVALID_ARGUMENT, f"not an address: {e.strerror}", field="address")
            sockets[socket] = i
            socket.send(_wire.encode("GetStatus", {}, request=1))
            poller.register(socket, zmq.POLLIN)
        end = time.monotonic() + timeout
        while any(answer is None for answer in answers) and (left := end - time.monotonic()) > 0:
            for socket, _ in poller.poll(math.ceil(left * 1000)):
                poller.unregister(socket)
                if socket in sockets:
                    answers[sockets[socket]] = _status(socket.recv_multipart())
                elif answers[monitors[socket]] is None:
                    answers[monitors[socket]] = error_for(ErrorCode.UNREACHABLE, "nothing listens there", object="server")
    finally:
        for socket in sockets:
            socket.disable_monitor()
            socket.close(0)
        for monitor in monitors:
            monitor.close(0)
        context.term()
    return [error_for(ErrorCode.UNREACHABLE, f"no answer within {timeout:.3g} s", object="server") if answer is None
            else answer for answer in answers]


def _status(frames: list[bytes]) -> dict[str, Any] | ContactdError:
    try:
        answer = _wire.decode(frames)
    except _wire.MalformedMessage as e:
        return error_for(ErrorCode.MALFORMED, f"it answers by another protocol: {e}", object="server")
    if answer.kind != "Status":
        return error_for(answer.body.get("code", ErrorCode.MALFORMED), answer.body.get("message", f"it answers {answer.kind}"),
                         object="server")
    return answer.body
