"""Where a client's servers are: a list, names of the DNS, or files that are watched. For _servers, which asks again and again."""

from __future__ import annotations

import os
import pathlib
import re
import socket
from collections.abc import Sequence

from .errors import ErrorCode, error_for

_ENDPOINT = re.compile(r"(tcp://(\[[0-9a-fA-F:.%\w]+\]|[^\s\[\]:/*]+):\d{1,5}|ipc://\S+)$")


def is_several(address: str | os.PathLike[str] | Sequence[str]) -> bool:
    """Whether it is more than the address of one server."""
    return not isinstance(address, str) or "," in address or address.startswith(("file:", "dns://"))


def is_endpoint(address: str) -> bool:
    """Whether it is the address of one server."""
    return _ENDPOINT.match(address) is not None and not is_port_missing(address)


def is_port_missing(address: str) -> bool:
    """Whether it is of TCP, but its port is none: ZeroMQ would take 99999 for 34463."""
    port = address.rpartition(":")[2]
    return address.startswith("tcp://") and not (port.isdecimal() and 0 < int(port) <= 65535)


def unknown_name(address: str) -> str | None:
    """Why the host of tcp://HOST:PORT has no address; None: it has one, or it is another kind of address."""
    if not (address.startswith("tcp://") and is_endpoint(address)):
        return None
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    try:
        socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as e:
        return f"the name {host} has no address ({e.strerror}): check it, or give an address in numbers"
    return None


def with_scheme(address: str) -> str:
    """host:port as tcp://host:port; other text as it is."""
    return f"tcp://{address}" if "://" not in address and is_endpoint(f"tcp://{address}") else address


class Addresses:
    """What `connect` was given: addresses and sources of addresses, in a list or between commas.

    tcp://HOST:PORT, HOST:PORT, ipc://PATH    a server
    dns://HOST:PORT                           a server at each address that the name has
    file:PATH                                 a file with an address on each line, or a folder of such files; # begins a comment
    """

    def __init__(self, given: str | Sequence[str]) -> None:
        items = given.split(",") if isinstance(given, str) else list(given)
        self.sources = [with_scheme(str(item).strip()) for item in items]
        if not self.sources or not all(self.sources):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected addresses of servers, got {given!r}", field="address")
        for source in self.sources:
            if source.startswith("dns://"):
                _check(source.replace("dns://", "tcp://", 1), source)
            elif not source.startswith("file:"):
                _check(source, source)
        self.changes = any(source.startswith(("dns://", "file:")) for source in self.sources)
        self._last: dict[str, list[str]] = {}  # of each source, as long as it cannot be asked

    def look(self) -> tuple[list[str], list[str]]:
        """The addresses now, each once, in the order given; and what could not be asked, in words."""
        found: list[str] = []
        troubles: list[str] = []
        for source in self.sources:
            try:
                if source.startswith("file:"):
                    now = _read(pathlib.Path(source.removeprefix("file:")))
                else:
                    now = _resolve(source) if source.startswith("dns://") else [source]
            except (OSError, ValueError) as e:
                troubles.append(f"{source}: {e}")
                now = self._last.get(source, [])
            self._last[source] = now
            found += now
        return list(dict.fromkeys(found)), troubles


def _check(address: str, given: str) -> None:
    if not is_endpoint(address):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"{given!r} is not an address: expected tcp://HOST:PORT, ipc://PATH, "
                        "HOST:PORT, dns://HOST:PORT or file:PATH", field="address")


def _read(path: pathlib.Path) -> list[str]:
    # A name that begins with a dot, or has a suffix that is not a number, is a file that is being written.
    files = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith(".")
                   and (not p.suffix or p.suffix[1:].isdigit())) if path.is_dir() else [path]
    found = []
    for file in files:
        try:
            text = file.read_text()
        except FileNotFoundError:
            if file is path:
                raise
            continue  # its server ended just now
        for line in text.splitlines():
            address = line.partition("#")[0].strip()
            if address and not is_endpoint(address):
                raise ValueError(f"{file} has {address!r}, which is no address")
            if address:
                found.append(address)
    return found


def _resolve(source: str) -> list[str]:
    host, _, port = source.removeprefix("dns://").rpartition(":")
    infos = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    hosts = sorted({str(info[4][0]) for info in infos})
    return [f"tcp://[{h}]:{port}" if ":" in h else f"tcp://{h}:{port}" for h in hosts]
