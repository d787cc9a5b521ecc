"""What is worked out once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


def kept(known: dict[_K, _V], key: _K, make: Callable[[], _V]) -> _V:
    """Return what is ``known`` under ``key``, which is made where it is not."""
    if key not in known:
        known[key] = make()
    return known[key]
