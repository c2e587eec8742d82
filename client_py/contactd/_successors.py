"""Where a connection goes when its server is gone or drains. For _connection."""

from __future__ import annotations

import random
from collections import deque
from typing import Callable

from ._addresses import is_endpoint


class Successors:
    def __init__(self, elsewhere: Callable[[str, str], str] | None, learn: Callable[[list[str]], None] | None) -> None:
        """elsewhere and learn: as of Link."""
        self._elsewhere, self._learn = elsewhere, learn
        self._others: deque[str] = deque()  # without an `elsewhere` of the owner's: known servers, the next one first

    @property
    def are_own(self) -> bool:
        """Whether this connection remembers them itself."""
        return self._learn is None

    @property
    def is_empty(self) -> bool:
        """Whether there is nowhere to go."""
        return self._elsewhere is None

    def add(self, named: str, address: str) -> None:
        """The server at `address` names others that the client may go to, with commas between."""
        found = [a for a in dict.fromkeys(named.split(",")) if is_endpoint(a) and a != address]
        if self._learn is not None:
            self._learn(found)
        elif found and (self._elsewhere is None or self._others):
            random.shuffle(found)  # not all clients to the first
            self._others = deque([*found, *(a for a in self._others if a not in found)])
            self._elsewhere = self._rotate

    def next(self, address: str, why: str) -> str:
        """Where to go from `address`; that itself where there is nothing else."""
        return address if self._elsewhere is None else self._elsewhere(address, why)

    def _rotate(self, address: str, why: str) -> str:
        """One server after the other, of those known but the one at `address`."""
        if address not in self._others:
            self._others.append(address)
        found = next((other for other in self._others if other != address), address)
        self._others.remove(found)
        self._others.append(found)
        return found
