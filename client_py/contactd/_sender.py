"""Sends requests when they may be sent: in order, with no more steps in flight than the server allows. For _connection."""

from __future__ import annotations

from ._line import Line
from ._state import Request, SceneState
from ._wire import Arrays
from .errors import ContactdError, ErrorCode, error_for


# Requests on their way, beside steps. A server cuts a client for whom too many answers wait, and answers may come faster than
# this thread reads them. Servers have room for 64 and four times their max_in_flight.
MOST_FLYING = 64


class Sender:
    def __init__(self, line: Line) -> None:
        self._line, self._tables = line, line.tables

    def send_ready(self, now: float) -> None:
        """Sends all that may be sent now. The connection may go while it does."""
        line, tables = self._line, self._tables
        if line.target:
            return
        tables.next_suspect_at = 0.0
        while tables.queue and line.is_ready and tables.queue[0].not_before <= now and len(tables.flying) < MOST_FLYING:
            if tables.must_wait(tables.queue[0], now):
                break
            self._send(tables.queue.popleft())
        for scene in list(tables.waiting):
            if not (scene.pending or scene.hold_until):
                del tables.waiting[scene]
                continue
            if scene.hold_until > now:
                continue
            scene.hold_until = 0.0
            while scene.pending and line.is_ready and not scene.gap and not tables.is_changing(scene):
                if scene.pending[0].after is not None:
                    if scene.flying:
                        break
                    scene.changing = scene.pending.popleft()
                    self._send(scene.changing)
                    continue
                limit = 1 if not scene.synced else 1 << 30
                in_flight = len(tables.steps)
                if len(scene.flying) >= limit or in_flight >= (line.session.welcome["max_in_flight"] or 1 << 30):
                    break
                if tables.must_wait(scene.pending[0], now):
                    break
                self._send_step(scene, scene.pending.popleft(), now)

    def _send(self, request: Request) -> None:
        try:
            assert request.build is not None, "steps are built by _send_step"
            body, arrays = request.build()
        except ContactdError as e:
            request.fail(e)
            return
        if not self._fits(request, arrays):
            return
        number = next(self._tables.numbers)
        self._tables.flying[number] = request
        request.sent, request.epoch = True, self._line.session.epoch
        self._line.transmit(request.kind, body, arrays, number)

    def _fits(self, request: Request, arrays: Arrays | None) -> bool:
        """The server drops a connection that sends more than it accepts, so that is not tried."""
        limit = self._line.session.welcome["max_message_bytes"]
        if arrays is not None and limit and arrays.bytes > limit:
            request.fail(error_for(ErrorCode.TOO_LARGE, f"{arrays.bytes} bytes in one message; the server takes "
                                   f"{limit} (its --max-message)", object=request.kind))
            return False
        return True

    def _send_step(self, scene: SceneState, request: Request, now: float) -> None:
        try:
            if scene.error is not None:
                raise scene.error
            for part in request.parts():
                if part.body.removed or part.body.id not in scene.by_id:
                    raise error_for(ErrorCode.STALE_HANDLE, "the body was removed", object=f"body {part.body.id}")
            updates = request.updates if scene.synced else scene.all_updates(request.updates)
        except ContactdError as e:
            request.fail(e)
            return
        if not request.may_be_sent():
            return
        arrays = Arrays()
        messages = [u.message(arrays) for u in updates]
        directions = [d.message(arrays) for d in request.directions]
        velocities = [v.message(arrays) for v in request.velocities]
        sent = None if arrays.empty else arrays
        if not self._fits(request, sent):
            return
        left = int(max(1, min(0xFFFFFFFF, (request.deadline - now) * 1e6)))
        if not request.sequence:
            scene.sequence += 1
            request.sequence = scene.sequence
        awaited = next(iter(scene.flying.values()), request)  # the oldest step without an answer
        body = {"scene": scene.id, "sequence": request.sequence, "received": awaited.sequence - 1, "want": request.want,
                "deadline_us": left, "updates": messages} | request.limits
        if directions:
            body["directions"] = directions
        if velocities:
            body["velocities"] = velocities
        number = next(self._tables.numbers)
        scene.flying[number] = self._tables.steps[number] = request
        request.sent, request.whole = True, not scene.synced
        request.epoch = self._line.session.epoch
        self._line.transmit("Step", body, sent, number)
