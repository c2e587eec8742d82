"""The procedures that set a session with a server up: resumed after a loss, or built anew. For _connection.

A procedure is a generator: it yields messages, one at a time, and is sent their answers. Requests wait until it has ended.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Generator

from . import _settings, _wire
from ._line import Line
from ._state import MeshState, Request, SceneState, material_message, no_self_contact
from ._tables import LATER, MOST_ENDS, delay_of, server_ended
from ._wire import Arrays, Decoded
from .errors import ContactdError, ErrorCode

ESTABLISH_S = 30.0  # for one answer while a session is set up

TypedMessage = tuple[str, dict[str, Any], Arrays | None]
Procedure = Generator[TypedMessage, Decoded, None]

# Repeating these could do them twice, so where their answer was lost with the connection everything is built anew.
_NOT_REPEATABLE = {"OpenScene", "AddBody", "AddBodies", "CopyScene"}
# A mesh of this hash is not there, or only others may use it.
_MUST_UPLOAD = {ErrorCode.NOT_FOUND, ErrorCode.STALE_HANDLE, ErrorCode.FORBIDDEN}


class Setup:
    def __init__(self, line: Line, name: str, lease_s: float) -> None:
        self._line, self._tables, self._state, self._name, self._lease_s = line, line.tables, line.session, name, lease_s
        self._restoring: MeshState | SceneState | None = None  # by the procedure, which may have been cut off
        self._message: Any = None  # TypedMessage
        self._number = 0  # of the message
        self._again_at = 0.0  # when to repeat the message, 0: not
        self._deadline = 0.0  # of its answer

    @property
    def ping_s(self) -> float:
        """Seconds of silence after which the server must be told that this client lives."""
        return self._lease() / 3

    def _lease(self) -> float:
        return max(0.5, self._state.welcome.get("lease_ms", 0) / 1000 or 30.0)

    # ---- running a procedure ----

    def begin(self) -> None:
        """The connection is up."""
        self._begin(self._resume() if self._state.id and self._state.is_whole else self._establish())

    def establish(self) -> None:
        """The server lost the state of the session."""
        self._begin(self._establish())

    def _begin(self, procedure: Procedure) -> None:
        self._line.is_ready = False
        self._state.procedure = procedure
        self._advance(lambda: next(procedure))

    def _advance(self, go: Callable[[], TypedMessage]) -> None:
        try:
            self._message = go()
        except StopIteration:
            self._state.procedure = None
            self._line.note_ready()
            return
        except ContactdError as e:  # this server will not have us: say why, and try again later
            self._state.procedure = None
            self._tables.fail_all(e)
            self._line.lose(str(e))
            return
        self._send()

    def _send(self) -> None:
        self._again_at = 0.0
        self._deadline = time.monotonic() + ESTABLISH_S
        self._number = next(self._tables.numbers)
        kind, body, arrays = self._message
        self._line.transmit(kind, body, arrays, self._number)

    def take(self, answer: Decoded, error: ContactdError | None) -> None:
        """An answer that came while a procedure is under way."""
        line, procedure = self._line, self._state.procedure
        if answer.request != self._number:
            return
        if error is None:
            self._advance(lambda: procedure.send(answer))
        elif error.code == ErrorCode.SHUTTING_DOWN and \
                (address := line.successors.next(line.address, "it drains")) != line.address:
            line.move(address)
        elif error.code in LATER:
            self._again_at = time.monotonic() + delay_of(error)
        else:
            self._advance(lambda: procedure.throw(error))

    # ---- time ----

    def next_time(self) -> float | None:
        """When something has to be done for it; None: never, as it is."""
        if self._state.procedure is not None:
            return self._again_at or self._deadline
        return self._line.last_sent + self.ping_s if self._line.is_ready else None

    def run_timers(self, now: float) -> None:
        if self._state.procedure is not None:
            if self._again_at and now >= self._again_at:
                self._send()
            elif now >= self._deadline:
                self._line.lose("the server did not answer while the session was set up")
        elif self._line.is_ready and now >= self._line.last_sent + self.ping_s:
            self._tables.add(Request("Ping", lambda: ({"nonce": 0}, None), timeout=self._lease()))

    # ---- the procedures ----

    def _resume(self) -> Procedure:
        """After the connection was lost: the same session, if the server still has it."""
        if not any(r.kind in _NOT_REPEATABLE for r in self._tables.flying.values()):
            try:
                yield "Ping", {"nonce": 0}, None
            except ContactdError as e:
                if e.code != ErrorCode.STATE_LOST:
                    raise
            else:
                self._tables.requeue(keep_sequence=True)
                return
        yield from self._establish()

    def _establish(self) -> Procedure:
        """A new session, with everything that the old one had."""
        line, again = self._line, bool(self._state.welcome)
        self._state.id = self._state.epoch = 0
        self._state.is_whole = False
        answer = yield "Hello", {"version": _wire.VERSION, "min_version": _wire.VERSION, "client": self._name,
                                 "lease_ms": round(self._lease_s * 1000)}, None
        self._note_end(answer.body["epoch"])
        self._state.welcome = answer.body
        self._state.id, self._state.epoch = answer.body["session"], answer.body["epoch"]
        self._state.reconnects += again
        if line.successors.are_own and (successors := answer.body.get("successors")):
            line.successors.add(successors, line.address)
        for mesh in self._tables.meshes:
            try:
                self._begin_to_restore(mesh, f"mesh {mesh.name!r}")
                mesh.id = yield from _find_or_register(mesh)
                mesh.error, mesh.ends = None, 0
            except ContactdError as e:
                if e.code == ErrorCode.STATE_LOST:
                    raise
                mesh.error = e
        for scene in list(self._tables.scenes):
            try:
                scene.synced, scene.error, scene.known = False, None, {}
                self._begin_to_restore(scene, scene.label)
                yield from _rebuild(scene)
                scene.ends = 0
                for body in scene.bodies:
                    body.is_doubted = False  # all are as they were registered
            except ContactdError as e:
                if e.code == ErrorCode.STATE_LOST:
                    raise
                scene.error = e
        self._restoring = None
        self._tables.requeue(keep_sequence=False)
        self._state.is_whole = True

    def _note_end(self, epoch: int) -> None:
        """Another server than the last one answers. Unless that one announced its end, what it was at work on is noted."""
        ended, restoring = self._state.welcome.get("epoch", 0), self._restoring
        was_announced, self._state.is_end_announced, self._restoring = self._state.is_end_announced, False, None
        if not ended or ended == epoch or was_announced:
            return
        if restoring is not None:
            restoring.ends += 1
        self._tables.note_end(ended)

    def _begin_to_restore(self, what: MeshState | SceneState, label: str) -> None:
        """Raises: SERVER_ENDED where servers ended over it before; a later one is asked again."""
        if what.ends >= MOST_ENDS:
            what.ends = 0
            raise server_ended("restored this", label)
        self._restoring = what


def _find_or_register(mesh: MeshState) -> Generator[TypedMessage, Decoded, int]:
    """The server's number of the mesh, which is uploaded only where the server does not have it."""
    if "hash" in mesh.info:
        try:
            return int((yield "GetMesh", {"hash": mesh.info["hash"]}, None).body["mesh"])
        except ContactdError as e:
            if e.code not in _MUST_UPLOAD:
                raise
    body, arrays = mesh.message()
    info = (yield "RegisterMesh", body, arrays).body
    mesh.check_made(info)
    return int(info["mesh"])


def _rebuild(scene: SceneState) -> Procedure:
    for body in scene.bodies:
        body.id = 0
    asked = scene.open_message()
    opened = (yield "OpenScene", asked, None).body
    scene.id = opened["scene"]
    _settings.check_known(asked["settings"], opened["settings"])
    scene.adopt(_settings.of_answer(opened["settings"]), opened["running_method"], opened["revision"])
    for body in scene.bodies:
        added = yield "AddBody", body.message(scene), None
        if body.self_contact and not added.body["self_contact"]:
            raise no_self_contact(scene.name)
        body.id = added.body["body"]
    for pair, material in scene.pairs.items():
        yield "SetMaterial", material_message(scene, min(pair, key=id), max(pair, key=id), material), None
    scene.forget_known()
