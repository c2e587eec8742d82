"""Bodies of scenes, as callers hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _state
from ._state import BodyState

if TYPE_CHECKING:
    from .scene import Scene


class Body:
    """A body of a scene. Equal and of equal hash whenever it is the same body, so it can be the key of a dictionary."""

    __slots__ = ("scene", "_state")

    def __init__(self, scene: "Scene", state: BodyState) -> None:
        self.scene, self._state = scene, state

    @property
    def id(self) -> int:
        """The server's number of it; differs after the server restarts."""
        return self._state.id

    @property
    def kind(self) -> str:
        """"rigid", "deformable" or "half-space"."""
        return {_state.RIGID: "rigid", _state.HALF_SPACE: "half-space"}.get(self._state.kind, "deformable")

    @property
    def vertices(self) -> int:
        """Number of vertices of its mesh, as registered: without Mesh.closing_vertices."""
        return self._state.vertices

    def remove(self, timeout: float | None = None) -> None:
        """Takes it out of the scene."""
        self.scene.remove_body(self, timeout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and other._state == self._state

    def __hash__(self) -> int:
        return hash(self._state)

    def __str__(self) -> str:
        return f"body {self._state.id}"

    def __repr__(self) -> str:
        return f"<Body {self._state.id} of {self.scene}, {self.kind}, {self.vertices} vertices>"
