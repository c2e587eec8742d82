"""The CURVE keys that a client connects with, given as text or as key files (proto/keyfile.h)."""

from __future__ import annotations

import os
import re
import stat

import zmq
from zmq.utils import z85

from .errors import ErrorCode, error_for

_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")
_HEX = re.compile(r"[0-9a-fA-F]{64}")


def _parse(text: str) -> bytes | None:
    """A key as anyone may write it, as Z85. None: it is none."""
    if _HEX.fullmatch(text):
        return bytes(z85.encode(bytes.fromhex(text)))
    return text.encode() if _KEY.fullmatch(text) else None


def _read_key(given: str | os.PathLike[str], field: str, line: str) -> bytes:
    """A file of that name, else a key. `line` is the one of a key file that has the key."""
    given = os.fspath(given)
    if not os.path.exists(given):
        if key := _parse(given):
            return key
        # Not shown: it may be a secret that was copied wrongly.
        raise error_for(ErrorCode.INVALID_ARGUMENT, "neither a key of 40 characters, or 64 hexadecimal digits, nor a file that "
                        "exists; contactctl keys new makes both", object="client", field=field)
    try:
        if line == "secret" and stat.S_IMODE(os.stat(given).st_mode) & 0o027:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"other users may read, or its group change, the secret key in "
                            f"{given}: chmod 600 it", object="client", field=field)
        with open(given, encoding="ascii", errors="replace") as file:
            values = [match[1] for text in file if (match := re.match(rf"\s*{line}\s*=\s*(\S+)\s*$", text))]
    except OSError as e:
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"the key file {given} cannot be read: {e.strerror}",
                        object="client", field=field) from None
    key = _parse(values[0]) if values else None
    if not key:
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"the key file {given} has no line \"{line} = KEY\" with a key of 40 "
                        "characters, or 64 hexadecimal digits: contactctl keys new makes one", object="client", field=field)
    return key


class Keys:
    """Of an encrypted connection: the server's public key, this client's own pair."""

    def __init__(self, server_key: str | os.PathLike[str], client_key: str | os.PathLike[str]) -> None:
        self._server = _read_key(server_key, "server_key", "public")
        self._secret = _read_key(client_key, "client_key", "secret")
        self._public = zmq.curve_public(self._secret)

    def set(self, socket: zmq.Socket[bytes]) -> None:
        socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = self._server, self._public, self._secret

    def __repr__(self) -> str:
        return "<Keys>"  # a secret is not for tracebacks


def keys_of(server_key: str | os.PathLike[str] | None, client_key: str | os.PathLike[str] | None) -> Keys | None:
    """None where neither is given."""
    if not server_key and not client_key:
        return None
    if not server_key or not client_key:
        given, missing = ("server_key", "client_key") if server_key else ("client_key", "server_key")
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"{given} is given without {missing}; an encrypted connection takes "
                        "both", object="client", field=missing)
    return Keys(server_key, client_key)
