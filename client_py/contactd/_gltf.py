"""A .gltf file and the files beside it that it names, as one file: the server sees no files of this machine. For client."""
from __future__ import annotations

import base64
import json
import pathlib
import urllib.parse

from .errors import ErrorCode, error_for


def embed(path: pathlib.Path, data: bytes) -> bytes:
    """The bytes of the mesh file at `path`; of a glTF text with its buffers in it. What is no glTF text is left as it is.

    Raises: InvalidArgumentError for a buffer that is neither beside the file nor below; OSError.
    """
    if not data[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return data
    try:
        document = json.loads(data)
        buffers = [buffer for buffer in document["buffers"] if not buffer["uri"].startswith("data:")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return data  # the server says what is wrong with it
    for buffer in buffers:
        name = pathlib.PurePosixPath(urllib.parse.unquote(buffer["uri"]))
        if name.is_absolute() or ".." in name.parts or ":" in buffer["uri"]:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"a buffer is at {buffer['uri']!r}, expected a file beside {path.name} or "
                            "below: save the mesh as one file (.glb)", object=f"mesh {path.name}", field="path")
        content = (path.parent / name).read_bytes()
        buffer["uri"] = "data:application/octet-stream;base64," + base64.b64encode(content).decode("ascii")
    return json.dumps(document).encode() if buffers else data
