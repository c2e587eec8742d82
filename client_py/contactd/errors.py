"""What can go wrong, as exceptions: one class for each ErrorCode of the protocol, named after it.

NOT_FOUND is NotFoundError, INVALID_MESH is InvalidMeshError, and so on. All derive from
ContactdError and, where Python has a word for it, from that too: a refused mesh, array or argument is a ValueError, an
unknown or closed object a LookupError, a deadline a TimeoutError, a server that cannot be reached a ConnectionError.
"""

from __future__ import annotations

import enum


# catalogue: begin codes
class ErrorCode(enum.IntEnum):
    """Of the protocol; see proto/errors.h."""

    OK = 0
    MALFORMED = 1
    INVALID_ARGUMENT = 2
    NOT_FOUND = 3
    STALE_HANDLE = 4
    FORBIDDEN = 5
    CONFLICT = 6
    PARSE_ERROR = 7
    INVALID_MESH = 8
    WRONG_LENGTH = 9
    NON_FINITE = 10
    OUT_OF_RANGE = 11
    TOO_LARGE = 12
    LIMIT_EXCEEDED = 13
    OUT_OF_MEMORY = 14
    BUSY = 15
    STATE_LOST = 16
    DEADLINE_EXCEEDED = 17
    UNSUPPORTED = 18
    VERSION_MISMATCH = 19
    SHUTTING_DOWN = 20
    DEVICE_ERROR = 21
    INTERNAL = 22
    METHOD_NOT_ALLOWED = 23
    UNREACHABLE = 24
    UNAUTHENTICATED = 25
    TIME_LIMIT = 26
    SERVER_ENDED = 27
    CANCELLED = 28
# catalogue: end codes


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


# catalogue: begin errors
class MalformedError(ContactdError, ValueError):
    """The message could not be understood."""

    code = ErrorCode.MALFORMED


class InvalidArgumentError(ContactdError, ValueError):
    """An argument is invalid."""

    code = ErrorCode.INVALID_ARGUMENT


class NotFoundError(ContactdError, LookupError):
    """No such object."""

    code = ErrorCode.NOT_FOUND


class StaleHandleError(ContactdError, LookupError):
    """The object was closed or deleted."""

    code = ErrorCode.STALE_HANDLE


class ForbiddenError(ContactdError, PermissionError):
    """The object belongs to another client."""

    code = ErrorCode.FORBIDDEN


class ConflictError(ContactdError):
    """The request conflicts with the object's state."""

    code = ErrorCode.CONFLICT


class ParseError(ContactdError, ValueError):
    """The bytes are not a mesh in that format."""

    code = ErrorCode.PARSE_ERROR


class InvalidMeshError(ContactdError, ValueError):
    """The mesh is not a closed, consistently oriented surface around a volume."""

    code = ErrorCode.INVALID_MESH


class WrongLengthError(ContactdError, ValueError):
    """An array has the wrong length."""

    code = ErrorCode.WRONG_LENGTH


class NonFiniteError(ContactdError, ValueError):
    """A number is NaN or infinite."""

    code = ErrorCode.NON_FINITE


class OutOfRangeError(ContactdError, ValueError):
    """A number is outside its range."""

    code = ErrorCode.OUT_OF_RANGE


class TooLargeError(ContactdError, ValueError):
    """The request is larger than the server accepts."""

    code = ErrorCode.TOO_LARGE


class LimitExceededError(ContactdError, ValueError):
    """A configured limit would be exceeded."""

    code = ErrorCode.LIMIT_EXCEEDED


class OutOfMemoryError(ContactdError, MemoryError):
    """Not enough memory."""

    code = ErrorCode.OUT_OF_MEMORY


class BusyError(ContactdError):
    """The queue is full."""

    code = ErrorCode.BUSY


class StateLostError(ContactdError):
    """The server has no state of this session: register again and resend."""

    code = ErrorCode.STATE_LOST


class DeadlineExceededError(ContactdError, TimeoutError):
    """The deadline passed before the answer."""

    code = ErrorCode.DEADLINE_EXCEEDED


class UnsupportedError(ContactdError, NotImplementedError):
    """Not supported by this server."""

    code = ErrorCode.UNSUPPORTED


class VersionMismatchError(ContactdError):
    """The protocol versions do not overlap."""

    code = ErrorCode.VERSION_MISMATCH


class ShuttingDownError(ContactdError):
    """The server is shutting down."""

    code = ErrorCode.SHUTTING_DOWN


class DeviceError(ContactdError):
    """The compute device failed."""

    code = ErrorCode.DEVICE_ERROR


class InternalError(ContactdError):
    """Internal error."""

    code = ErrorCode.INTERNAL


class MethodNotAllowedError(ContactdError):
    """This resource has no such method."""

    code = ErrorCode.METHOD_NOT_ALLOWED


class UnreachableError(ContactdError, ConnectionError):
    """No server answers."""

    code = ErrorCode.UNREACHABLE


class UnauthenticatedError(ContactdError, PermissionError):
    """The server does not know who asks."""

    code = ErrorCode.UNAUTHENTICATED


class TimeLimitError(ContactdError, TimeoutError):
    """The work took longer than its time limit."""

    code = ErrorCode.TIME_LIMIT


class ServerEndedError(ContactdError, ConnectionError):
    """The server ended while it worked on this, twice."""

    code = ErrorCode.SERVER_ENDED


class CancelledError(ContactdError):
    """Its client took the request back."""

    code = ErrorCode.CANCELLED


_BY_CODE: dict[int, type[ContactdError]] = {
    ErrorCode.MALFORMED: MalformedError,
    ErrorCode.INVALID_ARGUMENT: InvalidArgumentError,
    ErrorCode.NOT_FOUND: NotFoundError,
    ErrorCode.STALE_HANDLE: StaleHandleError,
    ErrorCode.FORBIDDEN: ForbiddenError,
    ErrorCode.CONFLICT: ConflictError,
    ErrorCode.PARSE_ERROR: ParseError,
    ErrorCode.INVALID_MESH: InvalidMeshError,
    ErrorCode.WRONG_LENGTH: WrongLengthError,
    ErrorCode.NON_FINITE: NonFiniteError,
    ErrorCode.OUT_OF_RANGE: OutOfRangeError,
    ErrorCode.TOO_LARGE: TooLargeError,
    ErrorCode.LIMIT_EXCEEDED: LimitExceededError,
    ErrorCode.OUT_OF_MEMORY: OutOfMemoryError,
    ErrorCode.BUSY: BusyError,
    ErrorCode.STATE_LOST: StateLostError,
    ErrorCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    ErrorCode.UNSUPPORTED: UnsupportedError,
    ErrorCode.VERSION_MISMATCH: VersionMismatchError,
    ErrorCode.SHUTTING_DOWN: ShuttingDownError,
    ErrorCode.DEVICE_ERROR: DeviceError,
    ErrorCode.INTERNAL: InternalError,
    ErrorCode.METHOD_NOT_ALLOWED: MethodNotAllowedError,
    ErrorCode.UNREACHABLE: UnreachableError,
    ErrorCode.UNAUTHENTICATED: UnauthenticatedError,
    ErrorCode.TIME_LIMIT: TimeLimitError,
    ErrorCode.SERVER_ENDED: ServerEndedError,
    ErrorCode.CANCELLED: CancelledError,
}

__all__ = ["ContactdError", "ErrorCode", "ClosedError", "MalformedError", "InvalidArgumentError", "NotFoundError",
           "StaleHandleError", "ForbiddenError", "ConflictError", "ParseError", "InvalidMeshError", "WrongLengthError",
           "NonFiniteError", "OutOfRangeError", "TooLargeError", "LimitExceededError", "OutOfMemoryError", "BusyError",
           "StateLostError", "DeadlineExceededError", "UnsupportedError", "VersionMismatchError", "ShuttingDownError",
           "DeviceError", "InternalError", "MethodNotAllowedError", "UnreachableError", "UnauthenticatedError",
           "TimeLimitError", "ServerEndedError", "CancelledError"]
# catalogue: end errors


def error_for(code: ErrorCode | int, message: str, *, object: str = "", field: str = "", retry: bool = False,
              retry_after: float = 0.0) -> ContactdError:
    """The exception for a code; a code newer than this client gives a plain ContactdError."""
    cls = _BY_CODE.get(int(code))
    if cls is None:
        cls, message = ContactdError, f"{message} (error code {int(code)})"
    return cls(message, object=object, field=field, retry=retry, retry_after=retry_after)
