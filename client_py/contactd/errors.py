"""What can go wrong, as exceptions: one class for each ErrorCode of the protocol, named after it.

NOT_FOUND is NotFoundError, INVALID_MESH is InvalidMeshError, and so on; the classes follow the schema. All derive from
ContactdError and, where Python has a word for it, from that too: a refused mesh, array or argument is a ValueError, an
unknown or closed object a LookupError, a deadline a TimeoutError, a server that cannot be reached a ConnectionError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._schema import ErrorCode

__all__ = ["ContactdError", "ErrorCode", "ClosedError"]


class ContactdError(Exception):
    """Any failure of a request.

    Attributes:
        code: the ErrorCode, or None where there is none for it (ClosedError).
        object: what the request was about, e.g. "body 4"; may be empty.
        field: the argument at fault, e.g. "positions"; may be empty.
        message: expected, actual and remedy.
        retry: the same request may succeed later.
        retry_after: seconds to wait before that; 0 where the server does not say.
    """

    code: ErrorCode | None = None

    def __init__(self, message: str, *, object: str = "", field: str = "", retry: bool = False,
                 retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.message, self.object, self.field = message, object, field
        self.retry, self.retry_after = retry, retry_after

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.object, self.field) if part)
        name = self.code.name if self.code is not None else type(self).__name__
        return f"{name}: {where + ': ' if where else ''}{self.message}"


class ClosedError(ContactdError, ConnectionError):
    """The client was closed, or belongs to another process."""


_VALUE = ("MALFORMED", "INVALID_ARGUMENT", "PARSE_ERROR", "INVALID_MESH", "WRONG_LENGTH", "NON_FINITE", "OUT_OF_RANGE",
          "TOO_LARGE", "LIMIT_EXCEEDED")
_BASES: dict[str, type] = {name: ValueError for name in _VALUE} | {
    "NOT_FOUND": LookupError, "STALE_HANDLE": LookupError, "FORBIDDEN": PermissionError, "UNAUTHENTICATED": PermissionError, "OUT_OF_MEMORY": MemoryError,
    "DEADLINE_EXCEEDED": TimeoutError, "UNSUPPORTED": NotImplementedError,
    "TIME_LIMIT": TimeoutError, "UNREACHABLE": ConnectionError, "SERVER_ENDED": ConnectionError,
}


def _class_of(code: ErrorCode) -> type[ContactdError]:
    words = code.name.split("_")
    if words[-1] == "ERROR":
        words.pop()
    name = "".join(word.capitalize() for word in words) + "Error"
    bases = (ContactdError, _BASES[code.name]) if code.name in _BASES else (ContactdError,)
    return type(name, bases, {"code": code, "__module__": __name__, "__doc__": f"{code.name} ({code.value})."})


_BY_CODE: dict[int, type[ContactdError]] = {int(code): _class_of(code) for code in ErrorCode if code.name != "OK"}
for _class in _BY_CODE.values():
    globals()[_class.__name__] = _class
    __all__.append(_class.__name__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[ContactdError]: ...


def error_for(code: ErrorCode | int, message: str, **more: object) -> ContactdError:
    """The exception for a code; a code newer than this client gives a plain ContactdError."""
    cls = _BY_CODE.get(int(code))
    if cls is None:
        return ContactdError(f"{message} (error code {int(code)})", **more)  # type: ignore[arg-type]
    return cls(message, **more)  # type: ignore[arg-type]
