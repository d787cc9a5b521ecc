"""What is worked out once, and kept: for good, or as long as there is room."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def kept(known: dict[K, V], key: K, make: Callable[[], V]) -> V:
    if key not in known:
        known[key] = make()
    return known[key]


class Latest(Generic[K, V]):
    """The values that were used last, whose sizes add up to at most ``room``; the last ``least`` in any case."""

    def __init__(self, room: int, size: Callable[[V], int], least: int = 1) -> None:
        self._room = room
        self._size = size
        self._least = least
        self._values: OrderedDict[K, V] = OrderedDict()

    def known(self, key: K) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def keep(self, key: K, value: V) -> V:
        self._values[key] = value
        self._room -= self._size(value)
        while self._room < 0 and len(self._values) > self._least:
            _, oldest = self._values.popitem(last=False)
            self._room += self._size(oldest)
        return value

    def get(self, key: K, make: Callable[[], V]) -> V:
        known = self.known(key)
        return self.keep(key, make()) if known is None else known
