"""The engine's library, libcontact, as cffi sees it.

Looked for, in this order: where CONTACTD_LIBRARY says (its path), in this package, in the Python environment, and where systems
have libraries. Beside it is libcontact.cdef.0, the declarations that it was built with; so a library is never read by another
version's.
"""

from __future__ import annotations

import functools
import os
import pathlib
import sys
import sysconfig
from typing import Any

from .errors import ErrorCode, error_for

SOVERSION = 0
REMEDY = "install the wheel or the package libcontact0, or set CONTACTD_LIBRARY to libcontact.so"


def _candidates() -> list[pathlib.Path]:
    if named := os.environ.get("CONTACTD_LIBRARY"):
        return [pathlib.Path(named)]
    folders = [pathlib.Path(__file__).parent / "lib", pathlib.Path(sys.prefix) / "lib", pathlib.Path("/usr/local/lib")]
    if multiarch := sysconfig.get_config_var("MULTIARCH"):
        folders.append(pathlib.Path("/usr/lib") / multiarch)
    return [folder / f"libcontact.so.{SOVERSION}" for folder in [*folders, pathlib.Path("/usr/lib")]]


@functools.cache
def load() -> tuple[Any, Any]:
    """(ffi, library). UNSUPPORTED: there is no library, or no cffi."""
    try:
        import cffi  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise _unsupported("the engine in this process needs the package cffi: pip install cffi") from None
    places = _candidates()
    path = next((path for path in places if path.exists()), None)
    if path is None:
        raise _unsupported(f"there is no libcontact at {' or '.join(map(str, places))}: {REMEDY}")
    cdef = path.resolve().parent / f"libcontact.cdef.{SOVERSION}"
    ffi = cffi.FFI()
    try:
        ffi.cdef(cdef.read_text() + "void free(void *memory);")
        # It stays loaded: at the end of the process its threads may end later than Python's objects.
        library = ffi.dlopen(str(path), os.RTLD_NOW | os.RTLD_NODELETE)
    except OSError as e:
        raise _unsupported(f"{path} cannot be used: {e}: {REMEDY}") from e
    if not hasattr(library, "ct_engine_create"):
        raise _unsupported(f"{path} is not the engine's library, libcontact (libcontactd is the client's): {REMEDY}")
    return ffi, library


def _unsupported(message: str) -> Exception:
    return error_for(ErrorCode.UNSUPPORTED, message, object="engine")
