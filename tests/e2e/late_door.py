"""An address of a server where each connection waits for a while before a byte passes: a server that is busy."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Iterator

from conftest import free_port


@contextlib.contextmanager
def late_door(port: int, seconds: float, hold: int = 0) -> Iterator[str]:
    """Leads to `port` on this machine; the context's value is its address. hold: the server's first so many bytes pass at
    once, when all of them have come."""
    open_sockets: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def run(work, *arguments) -> None:
        thread = threading.Thread(target=work, args=arguments)
        thread.start()
        threads.append(thread)  # whoever joins it finds it started

    def copy(source: socket.socket, to: socket.socket, hold: int = 0) -> None:
        held = b""
        try:
            while part := source.recv(65536):
                held += part
                if len(held) >= hold:
                    to.sendall(held)
                    held, hold = b"", 0
        except OSError:
            pass
        for end in source, to:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def lead(outside: socket.socket) -> None:
        time.sleep(seconds)
        try:
            inside = socket.create_connection(("127.0.0.1", port))
        except OSError:
            outside.close()
            return
        open_sockets.append(inside)
        run(copy, outside, inside)
        copy(inside, outside, hold)

    def listen() -> None:
        with contextlib.suppress(OSError):  # it is shut down at the end
            while True:
                outside, _ = door.accept()
                open_sockets.append(outside)
                run(lead, outside)

    with socket.socket() as door:
        door.bind(("127.0.0.1", free_port()))
        door.listen(64)
        run(listen)
        try:
            yield f"tcp://127.0.0.1:{door.getsockname()[1]}"
        finally:
            door.shutdown(socket.SHUT_RDWR)
            threads[0].join()
            while threads:
                for end in open_sockets:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                threads.pop().join()
            for end in open_sockets:
                end.close()
