"""Many in one request, on a server or in this process: scenes are copied, reset and closed, bodies added. For client and scene.

A request for several scenes may be sent where no step of theirs is on its way; else there is one for each of them, which waits for
the scene's steps.
"""

from __future__ import annotations

import itertools
from concurrent.futures import Future
from typing import Any, Sequence

from . import _settings
from ._frames import Frames
from ._line import MOST_SCENES
from ._reply import Reply
from ._schema import UNION_NUMBER
from ._state import BodyState, Message, Request, SceneState
from ._wire import Decoded
from .errors import ContactdError, ErrorCode, error_for


class _Apart(ContactdError):
    """The scenes' requests must be sent one by one."""


def knows(link: Any, kind: str) -> bool:
    """Whether the server, or the engine, takes such a message."""
    return bool(link.welcome.get("last_message", 0) >= UNION_NUMBER[kind])


def _parts(states: Sequence[SceneState]) -> list[Sequence[SceneState]]:
    return [states[at:at + MOST_SCENES] for at in range(0, len(states), MOST_SCENES)]


# ---- resets ----


def reset(link: Any, states: Sequence[SceneState], timeout: float) -> None:
    """Raises: UNSUPPORTED where the server is older."""
    if not knows(link, "ResetScenes"):
        raise error_for(ErrorCode.UNSUPPORTED, "the server is too old to reset scenes: step them to the poses and positions that they "
                        "are to have", object="client")
    for part in _parts(states):
        try:
            if len(part) == 1:
                raise _Apart("it waits for its steps")
            link.call(_resetting(link, part, timeout))
        except _Apart:
            link.check_thread()
            futures = []
            for state in part:
                request = _resetting(link, [state], timeout, Future())
                request.after = state
                link.submit(request)
                futures.append(request.future)
            for future in futures:
                future.result()


def _resetting(link: Any, states: Sequence[SceneState], timeout: float, future: Future[Any] | None = None) -> Request:
    def build() -> Message:
        if request.after is None:
            if any(link.is_busy(state) for state in states):
                raise _Apart("steps of these scenes are on their way")
            for state in states:
                state.changing = request
        return {"scenes": [state.id for state in states]}, None

    def done(_: Decoded) -> None:
        for state in states:
            if state.changing is request:
                state.changing = None
            for body in state.bodies:
                body.reset()
            if state.frames is not None:
                state.frames = Frames()

    def refused(_: ContactdError, __: bool) -> None:
        """It is not known which of them were reset: the next step of each sends everything."""
        for state in states:
            if state.changing is request:
                state.changing = None
            state.synced = False

    request = Request("ResetScenes", build, done, timeout=timeout, refused=refused, future=future)
    return request


# ---- copies ----


def copy(link: Any, template: SceneState, count: int, timeout: float) -> list[SceneState] | None:
    """None: the server is older."""
    if not knows(link, "CopyScene"):
        return None
    copies = [SceneState(template.name, {}) for _ in range(count)]
    for part in _parts(copies):
        try:
            link.call(_copying(link, template, part, timeout))
        except BaseException:
            close(link, [state for state in copies if state.id], timeout)
            raise
    return copies


def _copying(link: Any, template: SceneState, copies: Sequence[SceneState], timeout: float) -> Request:
    reply = Reply()

    def build() -> Message:
        return {"scene": template.id, "keys": [state.key for state in copies]}, None

    def done(answer: Decoded) -> None:
        if reply.done():
            return  # given up: `undo` closes them
        body = answer.body
        for state, number in zip(copies, body["scenes"]):
            state.link, state.id = link, number
            state.adopt(_settings.of_answer(body["settings"]), body["running_method"], body["revision"])
            _fill(state, template)
            link.scenes.append(state)

    def undo(answer: Decoded) -> Request:
        return Request("CloseScenes", lambda: ({"scenes": answer.body["scenes"]}, None), timeout=timeout)

    request = Request("CopyScene", build, done, undo=undo, timeout=timeout, future=reply)
    request.after = template
    return request


def _fill(state: SceneState, template: SceneState) -> None:
    """The bodies of a copy, which have the template's numbers."""
    copies: dict[BodyState, BodyState] = {}
    for body in template.bodies:
        made = copies[body] = body.anew([copies[other] for other in body.ignore if other in copies])
        made.id = body.id
        state.add(made)
    for pair, material in template.pairs.items():
        first = min(pair, key=id)
        state.set_pair(copies[first], copies[max(pair, key=id)], material)


# ---- many bodies ----


def add_bodies(scene: SceneState, bodies: list[BodyState], poses: Sequence[Sequence[float]], timeout: float) -> None:
    """Rigid ones that differ in meshes and poses alone, all or none."""
    link, reply = scene.link, Reply()

    def build() -> Message:
        meshes = [0 if body.mesh is None else body.mesh.id for body in bodies]
        shared = {key: value for key, value in bodies[0].message(scene).items() if key not in ("mesh", "kind", "pose", "start")}
        return shared | {"meshes": meshes if len(set(meshes)) > 1 else meshes[:1],
                         "poses": list(itertools.chain.from_iterable(poses))}, None

    def done(answer: Decoded) -> None:
        if reply.done():
            return  # given up: `undo` removes them
        for body, number in zip(bodies, answer.body["bodies"]):
            body.id = number
        scene.add_all(bodies)

    def undo(answer: Decoded) -> Request:
        requests = [Request("RemoveBody", lambda number=number: ({"scene": answer.body["scene"], "body": number}, None),  # type: ignore[misc]
                            timeout=timeout) for number in answer.body["bodies"]]
        for request in requests[1:]:
            link.submit(request)
        return requests[0]

    request = Request("AddBodies", build, done, undo=undo, timeout=timeout, future=reply)
    request.behind = scene
    link.call(request)


# ---- closing ----


def close(link: Any, states: Sequence[SceneState], timeout: float) -> None:
    """Scenes that no caller uses any more."""
    def forget(part: Sequence[SceneState]) -> None:
        gone = {id(state) for state in part}
        link.scenes[:] = [state for state in link.scenes if id(state) not in gone]

    if knows(link, "CloseScenes"):
        for part in _parts(states):
            link.call(Request("CloseScenes", lambda part=part: ({"scenes": [state.id for state in part]}, None),  # type: ignore[misc]
                              lambda _, part=part: forget(part), timeout=timeout))  # type: ignore[misc]
        return
    futures = []
    for state in states:
        request = Request("CloseScene", lambda state=state: ({"scene": state.id}, None),  # type: ignore[misc]
                          lambda _, state=state: forget([state]), timeout=timeout, future=Future())  # type: ignore[misc]
        link.submit(request)
        futures.append(request.future)
    for future in futures:
        future.result()
