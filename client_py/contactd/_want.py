"""What a step is asked for, by name and as the wire's bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from .errors import ErrorCode, error_for

FRAME, GRADIENT, WEIGHTS, FORCES, SPANS, INERTIA, SURFACE, IDS, POINTS = 1, 2, 4, 8, 16, 32, 128, 256, 512  # as the wire has them
WANT = {"volume": 0, "frame": FRAME, "gradient": GRADIENT, "friction": WEIGHTS, "forces": FORCES, "spans": SPANS,
        "inertia": INERTIA, "surface": SURFACE, "ids": IDS, "points": POINTS, "wrench": FRAME, "all": FRAME | GRADIENT | WEIGHTS | FORCES}
Want = Literal["volume", "frame", "gradient", "friction", "forces", "spans", "inertia", "surface", "ids", "points", "wrench", "all"]
DEFAULT_WANT = WANT["frame"] | WANT["gradient"] | WANT["friction"]


def want_bits(want: Want | Sequence[Want] | None) -> int:
    """The wire's bits of a request such as ("gradient", "spans"); "all" is everything but spans, inertia, surface, ids and points."""
    if want is None:
        return DEFAULT_WANT
    if not isinstance(want, (str, Iterable)):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected some of {', '.join(WANT)}, got {want!r}", field="want")
    bits = 0
    for name in (want,) if isinstance(want, str) else want:
        if name not in WANT:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected some of {', '.join(WANT)}, got {name!r}", field="want")
        bits |= WANT[name]
    return bits | (FRAME if bits & (WEIGHTS | INERTIA | SURFACE | IDS | POINTS) else 0)


def not_asked(want: int, name: str) -> Exception:
    asked = next(key for key, bit in WANT.items() if bit == want)
    return error_for(ErrorCode.INVALID_ARGUMENT, f"{name} was not asked for: step(..., want=({asked!r}, ...))",
                     field="want")
