"""Matches answers to requests, and decides which refused requests are sent again. For _connection."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

from . import _settings, _wire
from ._line import Line
from ._session import Setup
from ._state import Request
from ._tables import LATER, delay_of
from ._wire import Decoded
from .errors import ContactdError, ErrorCode, error_for


def error_of(body: dict[str, Any]) -> ContactdError:
    return error_for(body["code"], body["message"], object=body["object"], field=body["field"], retry=body["retry"],
                     retry_after=body["retry_after_ms"] / 1000)


def _number_unused(error: ContactdError) -> bool:
    """A step refused like this did not use up its sequence number; see server/schedule/schedule.h."""
    return (error.code in LATER or error.code == ErrorCode.FORBIDDEN or error.object == "message"  # not understood
            or (error.code == ErrorCode.CONFLICT and error.field == "sequence")
            or (error.code in (ErrorCode.NOT_FOUND, ErrorCode.STALE_HANDLE) and error.field == "scene"))


class Answers:
    def __init__(self, line: Line, setup: Setup) -> None:
        self._line, self._tables, self._setup = line, line.tables, setup

    def take(self, answer: Decoded) -> None:
        line, tables = self._line, self._tables
        number = answer.request
        error = error_of(answer.body) if answer.kind == "Error" else None
        if error is not None and (successors := answer.body.get("successors")):
            line.successors.add(successors, line.address)
            if not number and line.is_ready and not line.target:  # in answer to no request
                line.leave_drained()
                return
        if error is not None and error.code == ErrorCode.SHUTTING_DOWN:
            line.session.is_end_announced = True
        if line.session.procedure is not None:
            self._setup.take(answer, error)
            return
        request = tables.flying.pop(number, None) or tables.steps.get(number)
        if request is None:
            return  # the answer to something that was sent again since
        if error is not None and error.code == ErrorCode.SHUTTING_DOWN and not line.target:
            line.leave_drained()
        if error is not None and _was_done_before(request, error):
            error = None
        if error is not None and (error.code == ErrorCode.STATE_LOST or _is_out_of_step(request, error)):
            if request.scene is None:
                tables.flying[number] = request
            self._setup.establish()
        elif request.scene is not None:
            self._take_step(number, request, answer, error)
        elif error is not None:
            self._take_refusal(request, error)
        else:
            self._take_reply(request, answer)

    def _take_reply(self, request: Request, answer: Decoded) -> None:
        try:
            value = request.done(answer)
        except ContactdError as e:  # the server is too old for what was asked for, and made something else
            if request.undo is not None:
                self._tables.add(request.undo(answer))
            request.fail(e)
            return
        except (KeyError, TypeError, _wire.MalformedMessage):
            request.fail(error_for(ErrorCode.MALFORMED, f"{answer.kind} in answer to {request.kind}", object="server"))
            return
        if request.future.done():
            if request.undo is not None:
                self._tables.add(request.undo(answer))
        else:
            request.future.set_result(value)

    def _take_refusal(self, request: Request, error: ContactdError) -> None:
        if error.code == ErrorCode.STALE_HANDLE and request.mesh in self._tables.meshes:
            self._register_again(request)
            return
        later = time.monotonic() + delay_of(error)
        if error.code in LATER and later < request.deadline and not request.future.done():
            request.not_before = later
            self._tables.queue.appendleft(request)
        else:
            if request.refused is not None:
                request.refused(error, _number_unused(error))
            request.fail(error)

    def _register_again(self, request: Request) -> None:
        """The server dropped the mesh that a request uses: the request is sent again once the mesh is back."""
        mesh = request.mesh
        request.mesh = None  # once

        def registered(answer: Decoded) -> None:
            mesh.id = answer.body["mesh"]
            self._tables.queue.append(request)

        def fail_too(future: Future[Any]) -> None:
            if (error := future.exception()) is not None:
                request.fail(error)

        def upload() -> None:
            again = Request("RegisterMesh", mesh.message, registered, timeout=request.deadline - time.monotonic(),
                            future=Future())
            again.future.add_done_callback(fail_too)
            self._tables.add(again)

        # The server may have it in its state folder.
        stored = Request("GetMesh", lambda: ({"hash": mesh.info["hash"]}, None), registered,
                         timeout=request.deadline - time.monotonic(), future=Future())
        stored.future.add_done_callback(lambda f: upload() if f.exception() else None)
        self._tables.add(stored)

    # ---- steps ----

    def _take_step(self, number: int, request: Request, answer: Decoded, error: ContactdError | None) -> None:
        scene = request.scene
        self._tables.steps.pop(number)
        unused = error is not None and _number_unused(error)
        if unused:
            scene.gap = min(scene.gap or request.sequence, request.sequence)
        if unused and error is not None and (error.code in LATER or request.sequence > scene.gap):
            # Steps behind one refused are refused too: they go again, in order, once all have been answered.
            scene.refused.append(request)
            if error.code in LATER:
                self._tables.waiting[scene] = None
                scene.hold_until = max(scene.hold_until, time.monotonic() + delay_of(error))
        else:
            del scene.flying[number]
            if error is None:
                for update in request.updates:
                    update.body.apply(update)
                scene.synced = scene.synced or request.whole
                scene.number += 1
                body = answer.body
                if body.get("revision", 0) > scene.revision:  # somebody has configured the scene
                    scene.adopt(_settings.of_answer(body["settings"]), body["method"], body["revision"])
            _deliver_step(request, answer, error)
        if scene.gap and len(scene.refused) == len(scene.flying):
            again = [r for r in scene.flying.values() if not r.future.done()]
            scene.sequence, scene.gap = scene.gap - 1, 0
            scene.flying.clear()
            scene.refused.clear()
            for r in again:
                r.sequence, r.sent = 0, False
            self._tables.waiting[scene] = None
            scene.pending.extendleft(reversed(again))


def _was_done_before(request: Request, error: ContactdError) -> bool:
    """What was to be taken away is gone: by the request whose answer was lost with the connection."""
    return (request.is_repeat and request.kind in ("CloseScene", "RemoveBody", "RemoveMesh")
            and error.code in (ErrorCode.STALE_HANDLE, ErrorCode.NOT_FOUND))


def _is_out_of_step(request: Request, error: ContactdError) -> bool:
    """The server expects another number although nothing was refused: only a new scene makes that good."""
    return (request.scene is not None and error.code == ErrorCode.CONFLICT and error.field == "sequence"
            and not request.scene.gap and not request.whole)


def _deliver_step(request: Request, answer: Decoded, error: ContactdError | None) -> None:
    if error is not None:
        request.fail(error)
    elif not request.future.done():
        try:
            request.future.set_result(request.done(answer))
        except (KeyError, TypeError, _wire.MalformedMessage) as e:
            request.fail(error_for(ErrorCode.MALFORMED, f"{answer.kind} in answer to Step: {e}", object="server"))
