"""The connection: matches answers to requests, and restores what a server lost.

For client and scene, which make Requests of their calls. The thread that holds the *I/O lock* owns the socket and the tables
of requests. That is the connection's own thread. While calls that wait for their answers follow each other quickly, it
stands aside and the calling threads take the I/O lock themselves, which saves each call two thread switches. The
connection's thread takes the lock back when something is left to do, or no call came for a while.

Every request ends by its deadline, whatever happens. When the connection drops, requests in flight are sent again: to the
same server, which answers repeated steps from its cache, or, where it restarted or forgot the session, after meshes,
scenes and bodies have been built again from _state.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import Any, Callable, Generator

import zmq
import zmq.utils.monitor

from . import _wire
from ._addresses import is_endpoint
from ._keys import Keys
from ._request import Request, Spin
from ._state import BodyState, MeshState, SceneState, no_self_contact, settings_of
from ._wire import Arrays, Decoded
from .errors import ClosedError, ContactdError, ErrorCode, error_for

VERSION = "0.1.0"
HEARTBEAT_MS = 2000
ESTABLISH_S = 30.0  # for one answer while a session is set up
GOODBYE_S = 1.0
REACH_S = 0.25  # for a connection, before another server is asked for
LINGER_MS = 1000  # for the farewell to a server that is left
ASIDE_S = 0.05  # without a call, after which the connection's thread takes the I/O lock again

_HANDSHAKE_FAILED = (zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
                     | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
_MECHANISM_MISMATCH = 0x11000002  # ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH

Procedure = Generator[tuple[str, dict[str, Any], Arrays | None], Decoded, None]

# Repeating these could do them twice, so where their answer was lost with the connection everything is built anew.
_NOT_REPEATABLE = {"OpenScene", "AddBody"}
_LATER = {ErrorCode.BUSY, ErrorCode.SHUTTING_DOWN}
# A mesh of this hash is not there, or only others may use it.
_MUST_UPLOAD = {ErrorCode.NOT_FOUND, ErrorCode.STALE_HANDLE, ErrorCode.FORBIDDEN}


def _number_unused(error: ContactdError) -> bool:
    """A step refused like this did not use up its sequence number; see server/schedule/schedule.h."""
    return (error.code in _LATER or error.code == ErrorCode.FORBIDDEN or error.object == "message"  # not understood
            or (error.code == ErrorCode.CONFLICT and error.field == "sequence")
            or (error.code in (ErrorCode.NOT_FOUND, ErrorCode.STALE_HANDLE) and error.field == "scene"))


class Link:
    def __init__(self, address: str, *, name: str, lease_s: float, spin_s: float, keys: Keys | None = None,
                 elsewhere: Callable[[str, str], str] | None = None,
                 learn: Callable[[list[str]], None] | None = None) -> None:
        """elsewhere: given the address of a server that is gone or drains, and why, where to go instead; None: nowhere, unless
        the server names successors. learn: is given these; None: this connection remembers them itself."""
        self.address, self.name, self.lease_s, self._keys = address, name, lease_s, keys
        self.meshes: list[MeshState] = []
        self.scenes: list[SceneState] = []
        self.welcome: dict[str, Any] = {}
        self.traceparent: str | None = None
        self.reconnects = 0  # sessions set up after the first
        self._inbox: deque[Request] = deque()
        self._wake_lock = threading.RLock()  # a client that is collected wakes, wherever that happens
        self._io_lock = threading.RLock()
        self._holder = 0  # the thread that holds it
        self._aside = False  # the connection's thread waits for `_back`
        self._asked = False  # for the I/O lock, by a call that did not get it
        self._called = 0.0  # when a caller last held it
        self._back = threading.Event()  # the thread is to take it
        self._spin = Spin(spin_s)
        self._mid = False  # a caller is changing the tables
        self._torn = ""  # why one did not finish
        self._sleeping = False  # the holder of the I/O lock sleeps, or is about to
        self._closing = False
        self._closed: ContactdError | None = None
        self._lock = threading.Lock()  # around closing and the inbox's end
        self._pid = os.getpid()

        self._socket: zmq.Socket | None = None
        self._monitor: zmq.Socket | None = None
        self._poller = zmq.Poller()
        self._elsewhere, self._learn = elsewhere, learn
        self._others: deque[str] = deque()  # servers, the next one first; of one that was given a single address
        self._target = ""  # the address to go to as soon as nothing is in flight; "": stay
        # Until when this server must be connected, or another is asked for; 0: it does not matter.
        self._reach_by = time.monotonic() + REACH_S if elsewhere is not None else 0.0
        self._up = False  # connected
        self._ready = False  # connected, and the session is in order
        self._why_not = "nothing answers at this address"
        self._session = self._epoch = 0
        self._is_whole = False  # the session has all meshes and scenes
        self._numbers = itertools.count(1)
        self._queue: deque[Request] = deque()  # to send, other than steps
        self._flying: dict[int, Request] = {}  # sent, other than steps
        self._steps: dict[int, Request] = {}  # sent steps, of all scenes
        self._deadlines: list[tuple[float, int, Request]] = []
        self._procedure: Procedure | None = None
        self._procedure_message: tuple[str, dict[str, Any], Arrays | None] | None = None
        self._procedure_number = 0
        self._procedure_again = 0.0  # when to repeat its message, 0: not
        self._procedure_deadline = 0.0
        self._reopen_at = 0.0
        self._failures = 0
        self._last_sent = 0.0

        self.thread = threading.Thread(target=_run, args=(self,), name=f"contactd {address}", daemon=True)
        self._context = zmq.Context()
        self._wake_read, self._wake_write = os.pipe()
        try:
            os.set_blocking(self._wake_read, False)
            os.set_blocking(self._wake_write, False)
            self._poller.register(self._wake_read, zmq.POLLIN)
            self._open_socket()
            Spin.own_threads.add(self.thread)
            self.thread.start()
        except BaseException as e:
            Spin.own_threads.discard(self.thread)
            _insist(self._dispose)
            if not isinstance(e, zmq.ZMQError):
                raise
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"{address!r} is not an address: {e.strerror}",
                            field="address") from None

    # ---- from any thread ----

    def submit(self, request: Request) -> None:
        self._put(request)
        self._call_for_help()

    def _put(self, request: Request) -> None:
        if os.getpid() != self._pid:
            raise ClosedError("this client belongs to the process that forked this one: connect again here")
        with self._lock:
            if self._closed is not None or self._closing:
                raise self._closed or ClosedError("the client is closed")
            self._inbox.append(request)

    def _call_for_help(self) -> None:
        """Something is in the inbox. The holder of the I/O lock looks there before sleeping, and after releasing the lock."""
        if self._sleeping:
            self._wake()
        if self._aside:
            self._back.set()

    @property
    def closed(self) -> bool:
        return self._closing or self._closed is not None

    def check_thread(self) -> None:
        """Waiting on the thread that everyone waits for would never end."""
        if self._holder == threading.get_ident():
            raise error_for(ErrorCode.INVALID_ARGUMENT, "a future's callback runs on the thread that serves the "
                            "connection and must not wait for it: use submit(), or hand the work to another thread")

    def call(self, request: Request, meanwhile: Callable[[], None] | None = None) -> Any:
        """Waits for the answer. `meanwhile` runs once, as soon as the request is sent where that can be."""
        self.check_thread()
        self._put(request)
        try:
            try:
                if self._io_lock.acquire(blocking=False):
                    meanwhile = self._serve(request.future, meanwhile)
                else:
                    self._asked = True
                    self._call_for_help()
            finally:
                self._leave()
        finally:
            self._leave()  # where Ctrl-C came in the midst of the first
        if meanwhile is not None:
            meanwhile()
        return request.future.result()

    def _leave(self) -> None:
        """Releases the I/O lock, if this thread holds it."""
        if self._holder == threading.get_ident():
            self._called = time.monotonic()
            self._holder = 0
        try:
            self._io_lock.release()
        except RuntimeError:  # it has not
            return
        if self._inbox or self._flying or self._steps or not self._ready or self._closing or self._torn or self._target:
            self._back.set()

    def _serve(self, reply: Any, meanwhile: Callable[[], None] | None) -> Callable[[], None] | None:
        """Does the connection's work until the reply is there, or the connection is not; returns `meanwhile` if it did
        not run. Ctrl-C can come at any time: where it tears a piece of work apart, the thread makes that good.
        """
        self._holder = threading.get_ident()
        events: dict[Any, int] = {}
        while self._ready and not self._closing and not self._torn:
            try:
                self._mid = True
                self._work(events)
                self._mid = False
            except Exception as e:
                raise error_for(_code_of(e), f"the client's connection failed: {e!r}") from e
            finally:
                if self._mid:
                    self._mid, self._torn = False, "a call was interrupted"
            if meanwhile is not None:
                meanwhile()
                meanwhile = None
            if reply.done() or not self._ready:  # or the connection went just now: the thread makes a new one
                break
            began = time.monotonic()
            events = self._look(began) or self._sleep(0.0)
            if self._socket in events:
                self._spin.end(time.monotonic() - began)
        return meanwhile

    def _look(self, now: float) -> dict[Any, int]:
        """Waits awake for a message, for a little."""
        until = min(now + self._spin.begin(), self._deadlines[0][0] if self._deadlines else now)
        while now < until and not self._inbox:
            if self._socket.get(zmq.EVENTS) & zmq.POLLIN:
                return {self._socket: zmq.POLLIN}
            os.sched_yield()
            now = time.monotonic()
        return {}

    def leave(self, address: str) -> None:
        """Goes to the server at `address` as soon as what is in flight has been answered."""
        self._target = address
        self._wake()
        self._back.set()

    def close(self, wait: bool = True) -> None:
        """Closes the scenes on the server (waiting a second at most) and fails what is still in flight."""
        with self._lock:
            self._closing = True
        if os.getpid() == self._pid:
            self._wake()
            self._back.set()
            if wait and self._holder != threading.get_ident():
                self.thread.join()

    def _wake(self) -> None:
        with self._wake_lock:
            if self._wake_write < 0:
                return  # gone; the number may be another file's by now
            try:
                os.write(self._wake_write, b"!")
            except BlockingIOError:
                pass  # awake enough

    # ---- the thread ----

    def _loop(self) -> None:
        goodbye = 0.0
        while True:
            with self._io_lock:
                self._holder = threading.get_ident()
                try:
                    while not self._may_stand_aside():
                        self._work(self._sleep(goodbye))
                        now = time.monotonic()
                        if self._closing and not goodbye:
                            goodbye = now + GOODBYE_S
                            self._say_goodbye()
                        if goodbye and (now >= goodbye or not self._ready or not (self._flying or self._queue)):
                            return
                finally:
                    self._holder = 0
                self._back.clear()
                self._aside = True
            self._stand_aside()
            self._aside = False

    def _may_stand_aside(self) -> bool:
        """A call came while this thread held the I/O lock, so more may follow; and nothing is left to do."""
        if self._torn:
            self._mend()
        if not self._asked or self._flying or self._steps or self._queue or not self._ready or self._closing:
            return False
        if self._target:
            return False
        if any(scene.pending for scene in self.scenes):
            return False
        self._asked = False
        return True

    def _mend(self) -> None:
        """A caller's work was torn apart: what is in the books is put in order, and all else begun anew."""
        why, self._torn = self._torn, ""
        known: set[Request] = set(self._flying.values())
        self._queue = deque(r for r in dict.fromkeys(self._queue) if r not in known)
        known.update(self._queue)
        for scene in self.scenes:
            known.update(scene.flying.values())
            scene.pending = deque(r for r in dict.fromkeys(scene.pending) if r not in known and not r.future.done())
            known.update(scene.pending)
        if self._inbox and self._inbox[0] in known:
            self._inbox.popleft()
        self._session = 0
        self._lost(why)

    def _stand_aside(self) -> None:
        self._called = time.monotonic()
        while not self._inbox and not self._closing and not self._back.wait(ASIDE_S):
            if not self._holder and time.monotonic() - self._called >= ASIDE_S:
                return

    # ---- with the I/O lock ----

    def _sleep(self, goodbye: float) -> dict[Any, int]:
        """Until something comes or has to be done: what came, by socket."""
        self._sleeping = True
        try:
            wait = 0.0 if self._inbox or (self._closing and not goodbye) else self._wait(goodbye)
            return dict(self._poller.poll(wait * 1000))
        finally:
            self._sleeping = False

    def _work(self, events: dict[Any, int]) -> None:
        """One round: takes what has come, sends what can be sent."""
        if self._wake_read in events:
            os.read(self._wake_read, 4096)
        if self._monitor in events:
            self._watch()
        if self._socket in events:
            self._receive()
        while self._inbox:
            self._accept(self._inbox[0])  # rather twice than never, should Ctrl-C come in between
            self._inbox.popleft()
        now = time.monotonic()
        self._expire(now)
        self._tend(now)
        if self._ready:
            self._pump(now)

    def _wait(self, goodbye: float) -> float:
        now = time.monotonic()
        times = [now + 3600]
        if self._deadlines:
            times.append(self._deadlines[0][0])
        if goodbye:
            times.append(goodbye)
        if self._reopen_at:
            times.append(self._reopen_at)
        if self._reach_by:
            times.append(self._reach_by)
        if self._procedure is not None:
            times.append(self._procedure_again or self._procedure_deadline)
        if self._ready:
            times.append(self._last_sent + self._lease() / 3)
            times += [s.hold_until for s in self.scenes if s.hold_until]
            if self._queue:
                times.append(self._queue[0].not_before)
        return max(0.0, min(times) - now)

    def _lease(self) -> float:
        return max(0.5, self.welcome.get("lease_ms", 0) / 1000 or 30.0)

    def _accept(self, request: Request) -> None:
        heapq.heappush(self._deadlines, (request.deadline, id(request), request))
        if request.after is not None:
            request.after.pending.append(request)
        elif request.scene is None:
            self._queue.append(request)
        elif request.scene.closed:
            self._fail(request, error_for(ErrorCode.STALE_HANDLE, "the scene was closed", object=_scene(request.scene)))
        else:
            request.scene.pending.append(request)

    def _expire(self, now: float) -> None:
        while self._deadlines:
            deadline, _, request = self._deadlines[0]
            if request.future.done():
                heapq.heappop(self._deadlines)
                continue
            if deadline > now:
                return
            if not self._ready:
                error = error_for(ErrorCode.UNREACHABLE, f"{self.address}: {self._why_not}", object="server",
                                  retry=True)
            else:
                error = error_for(ErrorCode.DEADLINE_EXCEEDED, f"no answer to {request.kind} within "
                                  f"{request.deadline - request.began:.3g} s", field="timeout", retry=True,
                                  object=_scene(request.scene) if request.scene else "")
            # What was sent stays in the books: the server may have done it, and its answer must be taken note of.
            if request.scene is not None:
                request.scene.synced = request.scene.synced and not request.sent
                if not request.sent and request in request.scene.pending:
                    request.scene.pending.remove(request)
            elif request in self._queue:
                self._queue.remove(request)
            elif request.after is not None and request in request.after.pending:
                request.after.pending.remove(request)
            self._fail(request, error)

    # ---- the socket ----

    def _open_socket(self) -> None:
        self._socket = socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        socket.immediate = 1
        if "[" in self.address:  # not for names: they would be looked up as IPv6 first
            socket.ipv6 = True
        socket.sndhwm = socket.rcvhwm = 1000
        socket.reconnect_ivl = 50 + random.randrange(50)
        socket.reconnect_ivl_max = 1000
        socket.heartbeat_ivl = HEARTBEAT_MS
        socket.heartbeat_timeout = 3 * HEARTBEAT_MS
        self._monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
                                                   | _HANDSHAKE_FAILED)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._poller.register(socket, zmq.POLLIN)
        if self._keys is not None:
            self._keys.set(socket)
        socket.connect(self.address)

    def _close_socket(self) -> None:
        if self._socket is None:
            return
        self._poller.unregister(self._monitor)
        self._poller.unregister(self._socket)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)
        self._socket = self._monitor = None

    def _watch(self) -> None:
        while self._monitor is not None and self._monitor.poll(0):
            message = zmq.utils.monitor.recv_monitor_message(self._monitor)
            event = message["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._up, self._reach_by = True, 0.0
                self._why_not = "connected, but no contactd server answers"
                self._begin(self._resume() if self._session and self._is_whole else self._establish())
            elif event == zmq.EVENT_DISCONNECTED:
                self._lost("the connection was lost")
            elif event & _HANDSHAKE_FAILED:
                self._refused(event, message["value"])

    def _refused(self, event: int, value: int) -> None:
        """ZeroMQ gives up a connection that was refused for a reason: whoever waits is told, and it is tried again."""
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            why = ("it does not know this client's key: the public key belongs into the list of principals that it was "
                   "started with (--principals)")
        elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == _MECHANISM_MISMATCH:
            why = ("it asks for a key: give server_key and client_key" if self._keys is None else
                   "it does not encrypt: leave out server_key and client_key, or start it with --stream-key")
        else:
            self._lost("the handshake was ended" if self._keys is None else
                       "the encrypted handshake was ended: check server_key, the server's public key")
            return
        self._lost(f"the server refuses the connection: {why}")
        self._fail_all(error_for(ErrorCode.UNAUTHENTICATED, f"{self.address} refuses the connection: {why}",
                                 object="client", field="client_key" if self._keys else "server_key"))

    def _lost(self, why: str) -> None:
        """Starts over with a new socket, so that nothing of the old connection can arrive late."""
        self._close_socket()
        self._up = self._ready = False
        self._why_not = why
        self._procedure = None
        self._failures += 1
        delay = min(1.0, 0.01 * 2 ** min(self._failures, 7)) * random.uniform(0.5, 1.0)
        self._reopen_at = time.monotonic() + delay
        if self._elsewhere is not None and not self._reach_by:
            self._reach_by = time.monotonic() + REACH_S

    def _move(self, address: str) -> None:
        """To another server, where a new session begins. What is in flight is sent again there."""
        if self._up and self._ready:  # it may go on without us
            self._socket.linger = LINGER_MS
            for scene in self.scenes:
                if scene.id:
                    self._transmit("CloseScene", {"scene": scene.id}, None, next(self._numbers))
        self._target = ""
        self.address, self._session, self._is_whole = address, 0, False
        for mesh in self.meshes:
            mesh.error = None
        self._lost(f"going to {address}")
        self._failures = 0
        self._reopen_at, self._reach_by = time.monotonic(), time.monotonic() + REACH_S

    def _tend(self, now: float) -> None:
        if self._reopen_at and now >= self._reopen_at:
            self._reopen_at = 0.0
            self._open_socket()
        if self._reach_by and now >= self._reach_by and not self._closing:
            self._reach_by = 0.0
            if (address := self._target or self._elsewhere(self.address, self._why_not)) != self.address:
                self._move(address)
            else:
                self._reach_by = now + REACH_S
        elif self._target and self._ready and not (self._steps or self._flying) and not self._closing:
            self._move(self._target)
        if self._procedure is not None:
            if self._procedure_again and now >= self._procedure_again:
                self._send_procedure()
            elif now >= self._procedure_deadline:
                self._lost("the server did not answer while the session was set up")
        elif self._ready and now >= self._last_sent + self._lease() / 3:
            self._accept(Request("Ping", lambda: ({"nonce": 0}, None), timeout=self._lease()))

    def _transmit(self, kind: str, body: dict[str, Any], arrays: Arrays | None, number: int) -> None:
        frames: list[Any] = []
        if arrays is not None:
            arrays.place()
            frames = arrays.frames
        header = _wire.encode(kind, body, request=number, session=self._session, epoch=self._epoch,
                              traceparent=self.traceparent)
        try:
            if frames:
                self._socket.send_multipart([header, *frames], zmq.NOBLOCK, copy=False)
            else:
                self._socket.send(header, zmq.NOBLOCK)
        except zmq.Again:  # the pipe is full, or the connection just went: what was not sent is sent again
            if self._up:
                self._lost("the server takes nothing more: it ended, or it hangs")
        self._last_sent = time.monotonic()

    def _receive(self) -> None:
        while self._socket is not None:
            try:
                frames: list[Any] = [self._socket.recv(zmq.NOBLOCK)]
            except zmq.Again:
                return
            while self._socket.get(zmq.RCVMORE):
                frames.append(self._socket.recv(copy=False).buffer)
            try:
                answer = _wire.decode(frames)
            except _wire.MalformedMessage as e:
                error = error_for(ErrorCode.MALFORMED, f"{self.address} sent what is no answer of this protocol: {e}",
                                  object="server")
                for request in [*self._flying.values(), *self._steps.values()]:
                    self._fail(request, error)
                self._lost("the server sent what is no answer of this protocol")
                return
            self._take(answer)
            if not (self._flying or self._steps or self._procedure):
                return  # nothing more can come, and asking is a system call

    # ---- sessions ----

    def _begin(self, procedure: Procedure) -> None:
        self._ready = False
        self._procedure = procedure
        self._advance(lambda: next(procedure))

    def _advance(self, go: Callable[[], tuple[str, dict[str, Any], Arrays | None]]) -> None:
        try:
            self._procedure_message = go()
        except StopIteration:
            self._procedure = None
            if self._up:
                self._ready = True
                self._failures = 0
            return
        except ContactdError as e:  # this server will not have us: say why, and try again later
            self._procedure = None
            self._fail_all(e)
            self._lost(str(e))
            return
        self._send_procedure()

    def _send_procedure(self) -> None:
        self._procedure_again = 0.0
        self._procedure_deadline = time.monotonic() + ESTABLISH_S
        self._procedure_number = next(self._numbers)
        kind, body, arrays = self._procedure_message
        self._transmit(kind, body, arrays, self._procedure_number)

    def _resume(self) -> Procedure:
        """After the connection was lost: the same session, if the server still has it."""
        if not any(r.kind in _NOT_REPEATABLE for r in self._flying.values()):
            try:
                yield "Ping", {"nonce": 0}, None
            except ContactdError as e:
                if e.code != ErrorCode.STATE_LOST:
                    raise
            else:
                self._repeat(keep_sequence=True)
                return
        yield from self._establish()

    def _establish(self) -> Procedure:
        """A new session, with everything that the old one had."""
        again = bool(self.welcome)
        self._session = self._epoch = 0
        self._is_whole = False
        answer = yield "Hello", {"version": _wire.VERSION, "min_version": _wire.VERSION, "client": self.name,
                                 "lease_ms": round(self.lease_s * 1000)}, None
        self.welcome = answer.body
        self._session, self._epoch = answer.body["session"], answer.body["epoch"]
        self.reconnects += again
        if self._learn is None and (successors := answer.body.get("successors")):
            self._follow(successors)
        for mesh in self.meshes:
            try:
                mesh.id = yield from _find_or_register(mesh)
                mesh.error = None
            except ContactdError as e:
                if e.code == ErrorCode.STATE_LOST:
                    raise
                mesh.error = e
        for scene in list(self.scenes):
            try:
                scene.synced, scene.error, scene.by_id = False, None, {}
                for body in scene.bodies:
                    body.id = 0
                opened = (yield "OpenScene", scene.open_message(), None).body
                scene.id = opened["scene"]
                scene.adopt(settings_of(opened["settings"]), opened["running_method"], opened["revision"])
                for body in scene.bodies:
                    added = yield "AddBody", body.message(scene), None
                    if body.self_contact and not added.body["self_contact"]:
                        raise no_self_contact(scene.name)
                    body.id = added.body["body"]
                scene.by_id = {b.id: b for b in scene.bodies}
            except ContactdError as e:
                if e.code == ErrorCode.STATE_LOST:
                    raise
                scene.error = e
        self._repeat(keep_sequence=False)
        self._is_whole = True

    def _repeat(self, keep_sequence: bool) -> None:
        """Puts what was in flight at the head of the queues, in its old order."""
        self._queue.extendleft(reversed(self._flying.values()))
        self._flying.clear()
        self._steps.clear()
        for scene in self.scenes:
            flying = list(scene.flying.values())
            scene.flying.clear()
            scene.refused.clear()
            scene.gap, scene.hold_until = 0, 0.0
            if not keep_sequence:
                flying = [request for request in flying if not request.future.done()]
                scene.sequence = 0
                for request in flying:
                    request.sequence = 0
            scene.pending.extendleft(reversed(flying))

    # ---- sending ----

    def _pump(self, now: float) -> None:
        if self._target:
            return
        while self._queue and self._ready and self._queue[0].not_before <= now:
            self._send(self._queue.popleft())
        for scene in self.scenes:
            if scene.hold_until > now:
                continue
            scene.hold_until = 0.0
            while scene.pending and self._ready and not scene.gap and not self._is_changing(scene):
                if scene.pending[0].after is not None:
                    if scene.flying:
                        break
                    scene.changing = scene.pending.popleft()
                    self._send(scene.changing)
                    continue
                limit = 1 if not scene.synced else 1 << 30
                if len(scene.flying) >= limit or len(self._steps) >= (self.welcome["max_in_flight"] or 1 << 30):
                    break
                self._send_step(scene, scene.pending.popleft(), now)

    def _is_changing(self, scene: SceneState) -> bool:
        """Whether a request that steps must not overtake has no answer yet; its caller may have given up waiting."""
        request = scene.changing
        if request is None:
            return False
        if request.future.done() and request not in self._queue and request not in self._flying.values():
            scene.changing = None
            return False
        return True

    def _send(self, request: Request) -> None:
        try:
            body, arrays = request.build()
        except ContactdError as e:
            self._fail(request, e)
            return
        if not self._fits(request, arrays):
            return
        number = next(self._numbers)
        self._flying[number] = request
        request.sent = True
        self._transmit(request.kind, body, arrays, number)

    def _fits(self, request: Request, arrays: Arrays | None) -> bool:
        """The server drops a connection that sends more than it accepts, so that is not tried."""
        limit = self.welcome["max_message_bytes"]
        if arrays is not None and limit and arrays.bytes > limit:
            self._fail(request, error_for(ErrorCode.TOO_LARGE, f"{arrays.bytes} bytes in one message; the server takes "
                                          f"{limit} (its --max-message)", object=request.kind))
            return False
        return True

    def _send_step(self, scene: SceneState, request: Request, now: float) -> None:
        try:
            if scene.error is not None:
                raise scene.error
            for part in request.updates + request.directions + request.velocities:
                if part.body.removed or part.body.id not in scene.by_id:
                    raise error_for(ErrorCode.STALE_HANDLE, "the body was removed", object=_body(part.body))
            updates = request.updates if scene.synced else scene.all_updates(request.updates)
        except ContactdError as e:
            self._fail(request, e)
            return
        arrays = Arrays()
        messages = [u.message(arrays) for u in updates]
        directions = [d.message(arrays) for d in request.directions]
        velocities = [v.message(arrays) for v in request.velocities]
        if arrays.empty:
            arrays = None
        if not self._fits(request, arrays):
            return
        left = max(1, min(0xFFFFFFFF, int((request.deadline - now) * 1e6)))
        if not request.sequence:
            scene.sequence += 1
            request.sequence = scene.sequence
        body = {"scene": scene.id, "sequence": request.sequence, "want": request.want, "deadline_us": left,
                "updates": messages} | request.limits
        if directions:
            body["directions"] = directions
        if velocities:
            body["velocities"] = velocities
        number = next(self._numbers)
        scene.flying[number] = self._steps[number] = request
        request.sent, request.whole = True, not scene.synced
        self._transmit("Step", body, arrays, number)

    # ---- successors ----

    def _follow(self, successors: str) -> None:
        """The server drains, and names others that the client may go to."""
        found = [a for a in dict.fromkeys(successors.split(",")) if is_endpoint(a) and a != self.address]
        if self._learn is not None:
            self._learn(found)
        elif found and (self._elsewhere is None or self._others):
            random.shuffle(found)  # not all clients to the first
            self._others = deque([*found, *(a for a in self._others if a not in found)])
            self._elsewhere = self._next

    def _next(self, address: str, why: str) -> str:
        """One server after the other, of those known but the one at `address`."""
        if address not in self._others:
            self._others.append(address)
        found = next((other for other in self._others if other != address), address)
        self._others.remove(found)
        self._others.append(found)
        return found

    # ---- answers ----

    def _take(self, answer: Decoded) -> None:
        number = answer.request
        error = _error(answer.body) if answer.kind == "Error" else None
        if error is not None and (successors := answer.body.get("successors")):
            self._follow(successors)
            if not number and self._ready and not self._target:  # in answer to no request
                address = self._elsewhere(self.address, "it drains") if self._elsewhere is not None else self.address
                self._target = address if address != self.address else ""
                return
        if self._procedure is not None:
            if number == self._procedure_number:
                self._take_procedure(answer, error)
            return
        request = self._flying.pop(number, None) or self._steps.get(number)
        if request is None:
            return  # the answer to something that was sent again since
        if error is not None and error.code == ErrorCode.SHUTTING_DOWN and self._elsewhere is not None and not self._target:
            address = self._elsewhere(self.address, "it drains")
            self._target = address if address != self.address else ""
        if error is not None and (error.code == ErrorCode.STATE_LOST or self._out_of_step(request, error)):
            if request.scene is None:
                self._flying[number] = request
            self._begin(self._establish())
        elif request.scene is not None:
            self._take_step(number, request, answer, error)
        elif error is not None:
            self._take_refusal(request, error)
        else:
            try:
                value = request.done(answer)
            except (KeyError, TypeError):
                self._fail(request, error_for(ErrorCode.MALFORMED, f"{answer.kind} in answer to {request.kind}",
                                              object="server"))
                return
            if request.future.done():
                if request.undo is not None:
                    self._accept(request.undo(answer))
            else:
                request.future.set_result(value)

    def _out_of_step(self, request: Request, error: ContactdError) -> bool:
        """The server expects another number although nothing was refused: only a new scene makes that good."""
        return (request.scene is not None and error.code == ErrorCode.CONFLICT and error.field == "sequence"
                and not request.scene.gap and not request.whole)

    def _take_procedure(self, answer: Decoded, error: ContactdError | None) -> None:
        procedure = self._procedure
        if error is None:
            self._advance(lambda: procedure.send(answer))
        elif error.code == ErrorCode.SHUTTING_DOWN and self._elsewhere is not None and \
                (address := self._elsewhere(self.address, "it drains")) != self.address:
            self._move(address)
        elif error.code in _LATER:
            self._procedure_again = time.monotonic() + _delay(error)
        else:
            self._advance(lambda: procedure.throw(error))

    def _take_refusal(self, request: Request, error: ContactdError) -> None:
        mesh = request.mesh
        if error.code == ErrorCode.STALE_HANDLE and mesh in self.meshes:
            request.mesh = None  # once

            def registered(answer: Decoded) -> None:
                mesh.id = answer.body["mesh"]
                self._queue.append(request)

            def upload() -> None:
                again = Request("RegisterMesh", mesh.message, registered, timeout=request.deadline - time.monotonic(),
                                future=Future())
                again.future.add_done_callback(lambda f: f.exception() and self._fail(request, f.exception()))
                self._accept(again)

            # The server may have it in its state folder.
            stored = Request("GetMesh", lambda: ({"hash": mesh.info["hash"]}, None), registered,
                             timeout=request.deadline - time.monotonic(), future=Future())
            stored.future.add_done_callback(lambda f: f.exception() and upload())
            self._accept(stored)
            return
        later = time.monotonic() + _delay(error)
        if error.code in _LATER and later < request.deadline and not request.future.done():
            request.not_before = later
            self._queue.appendleft(request)
        else:
            self._fail(request, error)

    def _take_step(self, number: int, request: Request, answer: Decoded, error: ContactdError | None) -> None:
        scene = request.scene
        self._steps.pop(number)
        unused = error is not None and _number_unused(error)
        if unused:
            scene.gap = min(scene.gap or request.sequence, request.sequence)
        if unused and (error.code in _LATER or request.sequence > scene.gap):
            # Steps behind one refused are refused too: they go again, in order, once all have been answered.
            scene.refused.append(request)
            if error.code in _LATER:
                scene.hold_until = max(scene.hold_until, time.monotonic() + _delay(error))
        else:
            del scene.flying[number]
            if error is None:
                for update in request.updates:
                    update.body.apply(update)
                scene.synced = scene.synced or request.whole
                scene.number += 1
                body = answer.body
                if body.get("revision", 0) > scene.revision:  # somebody has configured the scene
                    scene.adopt(settings_of(body["settings"]), body["method"], body["revision"])
            self._deliver_step(request, answer, error)
        if scene.gap and len(scene.refused) == len(scene.flying):
            again = [r for r in scene.flying.values() if not r.future.done()]
            scene.sequence, scene.gap = scene.gap - 1, 0
            scene.flying.clear()
            scene.refused.clear()
            for r in again:
                r.sequence, r.sent = 0, False
            scene.pending.extendleft(reversed(again))

    def _deliver_step(self, request: Request, answer: Decoded, error: ContactdError | None) -> None:
        if error is not None:
            self._fail(request, error)
        elif not request.future.done():
            try:
                request.future.set_result(request.done(answer))
            except (KeyError, TypeError, _wire.MalformedMessage) as e:
                self._fail(request, error_for(ErrorCode.MALFORMED, f"{answer.kind} in answer to Step: {e}",
                                              object="server"))

    # ---- endings ----

    def _fail(self, request: Request, error: ContactdError) -> None:
        if not request.future.done():
            request.future.set_exception(error)

    def _fail_all(self, error: ContactdError) -> None:
        for request in [*self._flying.values(), *self._steps.values(), *self._queue, *self._inbox]:
            self._fail(request, error)
        for _, _, request in [*self._deadlines]:  # also one that was being moved from one table to another
            self._fail(request, error)
        for scene in self.scenes:
            for request in scene.pending:
                self._fail(request, error)
            scene.pending.clear()
        self._queue.clear()

    def _say_goodbye(self) -> None:
        self._fail_all(ClosedError("the client was closed"))
        for scene in self.scenes:
            if scene.id and self._ready:
                self._accept(Request("CloseScene", lambda s=scene: ({"scene": s.id}, None), timeout=GOODBYE_S))
        if self._ready:
            self._pump(time.monotonic())

    def _dispose(self) -> None:
        self._close_socket()
        self._context.term()
        with self._wake_lock:
            ends = self._wake_read, self._wake_write
            self._wake_read = self._wake_write = -1
            for end in ends:
                os.close(end)


def _find_or_register(mesh: MeshState) -> Generator[tuple[str, dict[str, Any], Arrays | None], Decoded, int]:
    """The server's number of the mesh, which is uploaded only where the server does not have it."""
    if "hash" in mesh.info:
        try:
            return (yield "GetMesh", {"hash": mesh.info["hash"]}, None).body["mesh"]
        except ContactdError as e:
            if e.code not in _MUST_UPLOAD:
                raise
    body, arrays = mesh.message()
    return (yield "RegisterMesh", body, arrays).body["mesh"]


def _code_of(error: BaseException) -> ErrorCode:
    return ErrorCode.OUT_OF_MEMORY if isinstance(error, MemoryError) else ErrorCode.INTERNAL


def _insist(work: Callable[[], Any]) -> Any:
    """For what must be done before a thread ends: where there is no memory for it, again a moment later."""
    while True:
        try:
            return work()
        except MemoryError:
            time.sleep(0.001)


def _run(link: Link) -> None:
    error: ContactdError = _insist(lambda: ClosedError("the client was closed"))
    try:
        link._loop()
    except BaseException as e:  # a defect here must not leave callers waiting
        cause = e
        error = _insist(lambda: error_for(_code_of(cause), f"the client's connection thread failed: {cause!r}"))
        error.__cause__ = e
    Spin.own_threads.discard(link.thread)
    with link._lock:
        link._closed = error
    _insist(lambda: link._fail_all(error))
    _insist(link._dispose)


def _error(body: dict[str, Any]) -> ContactdError:
    return error_for(body["code"], body["message"], object=body["object"], field=body["field"], retry=body["retry"],
                     retry_after=body["retry_after_ms"] / 1000)


def _delay(error: ContactdError) -> float:
    return max(0.002, error.retry_after) * random.uniform(0.5, 1.5)


def _scene(scene: SceneState) -> str:
    return f"scene {scene.id}"


def _body(body: BodyState) -> str:
    return f"body {body.id}"
