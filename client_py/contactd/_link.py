"""A connection for callers on any thread, and the thread that works for it. For client, scene and _servers.

The thread that holds the *I/O lock* owns the connection: the socket and the tables of requests. That is the connection's own
thread. While calls that wait for their answers follow each other quickly, it stands aside and the calling threads take the
I/O lock themselves, which saves each call two thread switches. The connection's thread takes the lock back when something
is left to do, or no call came for a while.

Every request ends by its deadline, whatever happens.
"""

from __future__ import annotations

import errno
import math
import os
import threading
import time
from sys import is_finalizing
from typing import Any, Callable

import zmq

from ._addresses import is_port_missing
from ._connection import Connection
from ._keys import Keys
from ._reply import Spin, check_not_ending
from ._schema import UNION_NUMBER
from ._state import Meshes, Message, Request, SceneState
from .errors import ClosedError, ContactdError, ErrorCode, error_for

VERSION = "0.1.0"
GOODBYE_S = 1.0
STOPPED_S = 0.5  # a sleep that ends so late: this process was stopped, as by Ctrl-Z or a debugger
HANDED_OVER_MS = 300  # for libzmq's thread then to hand over what came meanwhile, before a time is found to be over
ASIDE_S = 0.05  # without a call, after which the connection's thread takes the I/O lock again


class Link:
    is_here = False  # in this process

    def __init__(self, address: str, *, name: str, lease_s: float, spin_s: float, keys: Keys | None = None,
                 elsewhere: Callable[[str, str], str] | None = None,
                 learn: Callable[[list[str]], None] | None = None, wait_s: float | None = None) -> None:
        """wait_s: how long a server is waited for that nothing listens for yet; None: as long as requests wait.
        elsewhere: given the address of a server that is gone or drains, and why, where to go instead; None: nowhere, unless
        the server names successors. learn: is given these; None: this connection remembers them itself."""
        self._wake_lock = threading.RLock()  # a client that is collected wakes, wherever that happens
        self._io_lock = threading.RLock()
        self._holder = 0  # the thread that holds it
        self._is_aside = False  # the connection's thread waits for `_recall`
        self._was_wanted = False  # the I/O lock, by a call that did not get it
        self._last_held = 0.0  # by a caller
        self._recall = threading.Event()  # the connection's thread is to take it
        self._spin = Spin(spin_s)
        self._is_mid_work = False  # a caller is changing the tables
        self._interrupted = ""  # why one did not finish
        self._is_sleeping = False  # the holder of the I/O lock sleeps, or is about to
        self._closed: ContactdError | None = None
        self._lock = threading.Lock()  # around closing and the inbox's end
        self._pid = os.getpid()

        self.thread = threading.Thread(target=_run, args=(self,), name=f"contactd {address}", daemon=True)
        self._poller = zmq.Poller()
        self._connection = Connection(address, name=name, lease_s=lease_s, keys=keys, poller=self._poller,
                                      elsewhere=elsewhere, learn=learn)
        if wait_s is not None:
            self._connection.patient_until = time.monotonic() + wait_s
        self._tables = self._connection.tables
        self._wake_read, self._wake_write = os.pipe()
        try:
            os.set_blocking(self._wake_read, False)
            os.set_blocking(self._wake_write, False)
            self._poller.register(self._wake_read, zmq.POLLIN)
            if is_port_missing(address):
                raise zmq.ZMQError(errno.EINVAL)
            self._connection.open()
            Spin.own_threads.add(self.thread)
            self.thread.start()
        except BaseException as e:
            Spin.own_threads.discard(self.thread)
            _insist(self._dispose)
            if not isinstance(e, zmq.ZMQError):
                raise
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"{address!r} is not an address: expected HOST:PORT, tcp://HOST:PORT, "
                            f"ipc://PATH or \"embedded\" ({e.strerror})",
                            field="address") from None

    # ---- what is known of the connection ----

    @property
    def address(self) -> str:
        """Of the server of the moment."""
        return self._connection.address

    @property
    def meshes(self) -> Meshes:
        return self._tables.meshes

    @property
    def scenes(self) -> list[SceneState]:
        return self._tables.scenes

    @property
    def welcome(self) -> dict[str, Any]:
        """The server's answer to Hello; empty before the first."""
        return self._connection.session.welcome

    @property
    def session(self) -> tuple[int, int]:
        """Which session of which server's start it is."""
        return self._connection.session.id, self._connection.session.epoch

    def is_changing(self, scene: SceneState) -> bool:
        """By the holder of the I/O lock: whether something that the scene's steps must not overtake has no answer yet."""
        return self._tables.is_changing(scene)

    def is_busy(self, scene: SceneState) -> bool:
        """By the holder of the I/O lock: whether something of the scene is on its way, or it is not on the server as it should be."""
        return self.are_busy([scene])

    def are_busy(self, scenes: list[SceneState]) -> bool:
        """Whether one of them is."""
        for s in scenes:  # a generator would take twice as long
            if s.pending or s.flying or s.gap or s.hold_until or s.closed or not s.synced or s.error is not None \
                    or s.changing is not None and self.is_changing(s):
                return True
        return False

    @property
    def reconnects(self) -> int:
        """Sessions set up after the first."""
        return self._connection.session.reconnects

    @property
    def traceparent(self) -> str | None:
        """Of the messages from now on."""
        return self._connection.traceparent

    @traceparent.setter
    def traceparent(self, value: str | None) -> None:
        self._connection.traceparent = value

    @property
    def closed(self) -> bool:
        return self._connection.is_closing or self._closed is not None or is_finalizing()

    # ---- calls, on any thread ----

    def submit(self, request: Request) -> None:
        self._put(request)
        self._call_for_help()

    def call(self, request: Request, meanwhile: Callable[[], None] | None = None) -> Any:
        """Waits for the answer. `meanwhile` runs once, as soon as the request is sent where that can be."""
        self.check_thread()
        self._put(request)
        try:
            try:
                if self._io_lock.acquire(blocking=False):
                    meanwhile = self._serve(request.future, meanwhile)
                else:
                    self._was_wanted = True
                    self._call_for_help()
            finally:
                self._leave_io()
        finally:
            self._leave_io()  # where Ctrl-C came in the midst of the first
        if meanwhile is not None:
            meanwhile()
        return request.future.result()

    def take_back(self, step: Any, deadline: float) -> None:
        """Asks the server to end the step of this future, if it was sent, and does not wait for that."""
        def build() -> Message:
            number = next((n for n, request in self._tables.steps.items() if request.future is step), None)
            if number is None:
                raise error_for(ErrorCode.NOT_FOUND, "the step has been answered", object="step")
            return {"request": number}, None

        if not self.closed and self.welcome.get("last_message", 0) >= UNION_NUMBER["Cancel"]:
            self.submit(Request("Cancel", build, timeout=max(0.001, deadline - time.monotonic())))

    def check_thread(self) -> None:
        """Waiting on the thread that everyone waits for would never end."""
        if self._holder == threading.get_ident():
            raise error_for(ErrorCode.INVALID_ARGUMENT, "a future's callback runs on the thread that serves the "
                            "connection and must not wait for it: use submit(), or hand the work to another thread")

    def _put(self, request: Request) -> None:
        check_not_ending()
        if os.getpid() != self._pid:
            raise ClosedError("this client belongs to the process that forked this one: connect again here")
        with self._lock:
            if self._closed is not None or self._connection.is_closing:
                raise self._closed or ClosedError("the client is closed")
            self._tables.inbox.append(request)

    def _call_for_help(self) -> None:
        """Something is in the inbox. The holder of the I/O lock looks there before sleeping, and after releasing the lock."""
        if self._is_sleeping:
            self._wake()
        if self._is_aside:
            self._recall.set()

    def leave(self, address: str) -> None:
        """Goes to the server at `address` as soon as what is in flight has been answered."""
        self._connection.target = address
        self._wake()
        self._recall.set()

    def close(self, wait: bool = True) -> None:
        """Closes the scenes on the server (waiting a second at most) and fails what is still in flight."""
        if is_finalizing():
            self._connection.is_closing = True
            return  # the connection's thread stands still; the server sees that it ends
        with self._lock:
            self._connection.is_closing = True
        if os.getpid() == self._pid:
            self._wake()
            self._recall.set()
            if wait and self._holder != threading.get_ident():
                self.thread.join()

    def end(self, error: ContactdError) -> None:
        """Fails what is in flight, and every call from now on, with this error: there will be no server again."""
        with self._lock:
            self._closed = self._closed or error
            self._connection.why_closing = self._closed
            self._connection.is_closing = True
        self._wake()
        self._recall.set()

    def _wake(self) -> None:
        with self._wake_lock:
            if self._wake_write < 0:
                return  # gone; the number may be another file's by now
            try:
                os.write(self._wake_write, b"!")
            except BlockingIOError:
                pass  # awake enough

    # ---- a caller with the I/O lock ----

    def _serve(self, reply: Any, meanwhile: Callable[[], None] | None) -> Callable[[], None] | None:
        """Does the connection's work until the reply is there, or the connection is not; returns `meanwhile` if it did
        not run. Ctrl-C can come at any time: where it interrupts a piece of work, the thread makes that good.
        """
        self._holder = threading.get_ident()
        connection = self._connection
        events: dict[Any, int] = {}
        while connection.is_ready and not connection.is_closing and not self._interrupted:
            try:
                self._is_mid_work = True
                self._work(events)
                self._is_mid_work = False
            except Exception as e:
                raise error_for(_code_of(e), f"the client's connection failed: {e!r}") from e
            finally:
                if self._is_mid_work:
                    self._is_mid_work, self._interrupted = False, "a call was interrupted"
            if meanwhile is not None:
                meanwhile()
                meanwhile = None
            if reply.done() or not connection.is_ready:  # or the connection went just now: the thread makes a new one
                break
            began = time.monotonic()
            events = self._look(began) or self._sleep(0.0)
            if connection.socket.has_message(events):
                self._spin.end(time.monotonic() - began)
        return meanwhile

    def _look(self, now: float) -> dict[Any, int]:
        """Waits awake for a message, for a little."""
        deadlines, inbox, socket = self._tables.deadlines, self._tables.inbox, self._connection.socket
        until = min(now + self._spin.begin(), deadlines[0][0] if deadlines else now)
        while now < until and not inbox:
            if events := socket.peek():
                return events
            os.sched_yield()
            now = time.monotonic()
        return {}

    def _leave_io(self) -> None:
        """Releases the I/O lock, if this thread holds it."""
        if self._holder == threading.get_ident():
            self._last_held = time.monotonic()
            self._holder = 0
        try:
            self._io_lock.release()
        except RuntimeError:  # it has not
            return
        connection, tables = self._connection, self._tables
        if tables.inbox or tables.flying or tables.steps or not connection.is_ready or connection.is_closing or \
                self._interrupted or connection.target:
            self._recall.set()

    # ---- the thread ----

    def _loop(self) -> None:
        goodbye = 0.0
        connection, tables = self._connection, self._tables
        while True:
            with self._io_lock:
                self._holder = threading.get_ident()
                try:
                    while not self._may_stand_aside():
                        self._work(self._sleep(goodbye))
                        now = time.monotonic()
                        if connection.is_closing and not goodbye:
                            goodbye = now + GOODBYE_S
                            connection.say_goodbye(GOODBYE_S)
                        if goodbye and (now >= goodbye or not connection.is_ready or not (tables.flying or tables.queue)):
                            return
                finally:
                    self._holder = 0
                self._recall.clear()
                self._is_aside = True
            self._stand_aside()
            self._is_aside = False

    def _may_stand_aside(self) -> bool:
        """A call came while this thread held the I/O lock, so more may follow; and nothing is left to do."""
        connection, tables = self._connection, self._tables
        if self._interrupted:
            why, self._interrupted = self._interrupted, ""
            connection.start_over(why)
        if not self._was_wanted or tables.flying or tables.steps or tables.queue or not connection.is_ready:
            return False
        if connection.is_closing or connection.target or any(scene.pending for scene in tables.waiting):
            return False
        self._was_wanted = False
        return True

    def _stand_aside(self) -> None:
        self._last_held = time.monotonic()
        while not self._tables.inbox and not self._connection.is_closing and not self._recall.wait(ASIDE_S):
            if not self._holder and time.monotonic() - self._last_held >= ASIDE_S:
                return

    # ---- with the I/O lock ----

    def _sleep(self, goodbye: float) -> dict[Any, int]:
        """Until something comes or has to be done: what came, by socket."""
        self._is_sleeping = True
        try:
            if self._tables.inbox or (self._connection.is_closing and not goodbye):
                wait = 0.0
            else:
                until = self._connection.next_time()
                wait = max(0.0, (min(until, goodbye) if goodbye else until) - time.monotonic())
            end = time.monotonic() + wait
            events = self._poller.poll(math.ceil(wait * 1000))
            if not events and time.monotonic() > end + STOPPED_S:
                events = self._poller.poll(HANDED_OVER_MS)
            return dict(events)
        finally:
            self._is_sleeping = False

    def _work(self, events: dict[Any, int]) -> None:
        if self._wake_read in events:
            os.read(self._wake_read, 4096)
        self._connection.work(events)

    def _dispose(self) -> None:
        self._connection.socket.close_for_good()
        with self._wake_lock:
            ends = self._wake_read, self._wake_write
            self._wake_read = self._wake_write = -1
            for end in ends:
                os.close(end)


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
        link._closed = error = link._closed or error
    _insist(lambda: link._tables.fail_all(error))
    _insist(link._dispose)
