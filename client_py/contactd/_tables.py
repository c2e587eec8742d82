"""The tables of requests: what is to be sent, what was sent, and by when each must end. For _connection and its parts.

Steps wait and are counted by scene (SceneState: pending, flying, refused); all other requests are here. A request that was
sent stays here until it is answered, also where its caller has given up: the server may have done it.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque

from ._state import Meshes, Request, SceneState
from .errors import ContactdError, ErrorCode, error_for

LATER = {ErrorCode.BUSY, ErrorCode.SHUTTING_DOWN}  # a request refused so is sent again after a while
MOST_ENDS = 2  # of servers, after which what they were at work on is not sent again
ALONE_S = 1.0  # so long is a request alone of those that a server was at work on when it ended

# What a server works on, beside steps.
_WORK = {"StepMany", "CopyScene", "ResetScenes", "RegisterMesh", "AddBody", "AddBodies", "Configure", "ReplaceMesh", "GetSnapshot"}


def delay_of(error: ContactdError) -> float:
    """Seconds until a request refused by one of LATER is sent again."""
    return max(0.002, error.retry_after) * random.uniform(0.5, 1.5)


def server_ended(doing: str, object: str, remedy: str = "") -> ContactdError:
    return error_for(ErrorCode.SERVER_ENDED, f"the server ended twice while it {doing}, which is not sent again: look into "
                     f"its log for what was running{remedy}", object=object)


class Tables:
    """All but the inbox is changed by the holder of the I/O lock alone."""

    def __init__(self) -> None:
        self.meshes = Meshes()
        self.scenes: list[SceneState] = []
        self.waiting: dict[SceneState, None] = {}  # those of them that have something to send, or may not yet; in the order in which they came
        self.inbox: deque[Request] = deque()  # from callers, not yet in the other tables
        self.numbers = itertools.count(1)  # of messages
        self.queue: deque[Request] = deque()  # to send, other than steps
        self.flying: dict[int, Request] = {}  # sent, other than steps
        self.steps: dict[int, Request] = {}  # sent steps, of all scenes
        self.deadlines: list[tuple[float, int, Request]] = []  # a heap
        self._suspect: Request | None = None  # sent, of those that a server was at work on when it ended
        self._alone_until = 0.0
        self.next_suspect_at = 0.0  # when the next may be sent at the latest; 0: none waits

    # ---- in ----

    def empty_inbox(self) -> None:
        while self.inbox:
            self.add(self.inbox[0])  # rather twice than never, should Ctrl-C come in between
            self.inbox.popleft()

    def add(self, request: Request) -> None:
        heapq.heappush(self.deadlines, (request.deadline, id(request), request))
        if request.behind is not None and (request.behind.pending or request.behind.flying):
            request.after = request.behind
        if request.after is not None:
            self._wait(request.after, request)
        elif request.scene is None:
            self.queue.append(request)
        elif request.scene.closed:
            request.fail(error_for(ErrorCode.STALE_HANDLE, "the scene was closed", object=request.scene.label))
        else:
            self._wait(request.scene, request)

    def _wait(self, scene: SceneState, request: Request) -> None:
        self.waiting[scene] = None  # rather without a request than the other way round, should Ctrl-C come in between
        scene.pending.append(request)

    # ---- when servers end ----

    def note_end(self, epoch: int) -> None:
        """The server of this epoch ended without a word. What it was at work on may be why: the oldest step of each scene,
        and each other piece of work. What that happened to twice fails, and is not sent again."""
        at_work = [request for request in self.flying.values() if request.kind in _WORK]
        for scene in self.scenes:
            at_work += itertools.islice((r for r in scene.flying.values() if r not in scene.refused), 1)
        for request in at_work:
            if request.epoch != epoch:
                continue
            request.ends += 1
            if request.ends < MOST_ENDS:
                continue
            if request.scene is None:
                request.fail(server_ended("worked on this", request.kind))
            else:
                request.fail(server_ended(f"computed step {request.scene.number + 1} of this scene", request.scene.label,
                                          ", and step with other input"))

    def must_wait(self, request: Request, now: float) -> bool:
        """Of the requests that a server was at work on when it ended, one is sent after the other, as long as each is
        answered soon: so the one that ends servers is told from those beside it. False: the request is sent now."""
        if not request.ends:
            return False
        other = self._suspect
        if other is None or other is request or other.future.done() or now >= self._alone_until:
            self._suspect, self._alone_until = request, now + ALONE_S
            return False
        self.next_suspect_at = self._alone_until
        return True

    def is_changing(self, scene: SceneState) -> bool:
        """Whether a request that steps must not overtake has no answer yet; its caller may have given up waiting."""
        request = scene.changing
        if request is None:
            return False
        if request.future.done() and request not in self.queue and request not in self.flying.values():
            scene.changing = None
            return False
        return True

    # ---- in order again ----

    def requeue(self, keep_sequence: bool) -> None:
        """Puts what was in flight at the head of the queues, in its old order."""
        flying = [request for request in self.flying.values() if request.ends < MOST_ENDS]
        for request in flying:
            request.is_repeat = True
        self.queue.extendleft(reversed(flying))
        self.flying.clear()
        self.steps.clear()
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
            self.waiting[scene] = None
            scene.pending.extendleft(reversed(flying))

    def mend(self) -> None:
        """After a change that was interrupted: each request is in one table, once."""
        known: set[Request] = set(self.flying.values())
        self.queue = deque(r for r in dict.fromkeys(self.queue) if r not in known)
        known.update(self.queue)
        for scene in self.scenes:
            known.update(scene.flying.values())
            scene.pending = deque(r for r in dict.fromkeys(scene.pending) if r not in known and not r.future.done())
            known.update(scene.pending)
            self.waiting[scene] = None
        if self.inbox and self.inbox[0] in known:
            self.inbox.popleft()

    # ---- out ----

    def expire(self, now: float, unreachable: str) -> None:
        """Fails what is past its deadline. unreachable: why the server is not reached; "" where it is."""
        while self.deadlines:
            deadline, _, request = self.deadlines[0]
            if request.future.done():
                heapq.heappop(self.deadlines)
                continue
            if deadline > now:
                return
            if unreachable:
                error = error_for(ErrorCode.UNREACHABLE, unreachable, object="server", retry=True)
            else:
                error = error_for(ErrorCode.DEADLINE_EXCEEDED, f"no answer to {request.kind} within "
                                  f"{request.deadline - request.began:.3g} s", field="timeout", retry=True,
                                  object=request.scene.label if request.scene else "")
            # What was sent stays in the tables: the server may have done it, and its answer must be taken note of.
            if request.scene is not None:
                request.scene.synced = request.scene.synced and not request.sent
                if not request.sent and request in request.scene.pending:
                    request.scene.pending.remove(request)
            elif request in self.queue:
                self.queue.remove(request)
            elif request.after is not None and request in request.after.pending:
                request.after.pending.remove(request)
            request.fail(error)

    def fail_flying(self, error: ContactdError) -> None:
        """What the server was asked and has not answered."""
        for request in [*self.flying.values(), *self.steps.values()]:
            request.fail(error)

    def fail_all(self, error: ContactdError) -> None:
        self.fail_flying(error)
        for request in [*self.queue, *self.inbox]:
            request.fail(error)
        for _, _, request in [*self.deadlines]:  # also one that was being moved from one table to another
            request.fail(error)
        for scene in self.scenes:
            for request in scene.pending:
                request.fail(error)
            scene.pending.clear()
        self.queue.clear()
