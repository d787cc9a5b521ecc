"""The collective patterns and their bus-bandwidth factors."""

from enum import StrEnum
from typing import Literal

from fredfw.errors import InputError, nearest

Holder = Literal["all", "root", "owner", "origin"]
"""Who has a chunk: all ranks, the root, the rank that it belongs to, or the one that sends it to that."""


class Pattern(StrEnum):
    """A collective operation, by its usual name."""

    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    ALL_TO_ALL = "all-to-all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"
    POINT_TO_POINT = "point-to-point"

    def bus_factor(self, ranks: int) -> float:
        """Return busbw / algbw for ``ranks`` ranks (nccl-tests, doc/PERFORMANCE.md)."""
        if self is Pattern.ALL_REDUCE:
            return 2 * (ranks - 1) / ranks
        return 1.0 if self in (Pattern.BROADCAST, Pattern.REDUCE, Pattern.POINT_TO_POINT) else (ranks - 1) / ranks

    @property
    def before(self) -> Holder:
        """Who has a chunk, or a part of its sum, before."""
        return _HOLDERS[self][0]

    @property
    def after(self) -> Holder:
        """Who has it after."""
        return _HOLDERS[self][1]

    @property
    def rooted(self) -> bool:
        """Whether one rank is special."""
        return "root" in _HOLDERS[self]

    @property
    def owned(self) -> bool:
        """Whether each chunk belongs to one rank, which starts or ends with it."""
        return "owner" in _HOLDERS[self]


_HOLDERS: dict[Pattern, tuple[Holder, Holder]] = {
    Pattern.ALL_REDUCE: ("all", "all"),
    Pattern.REDUCE_SCATTER: ("all", "owner"),
    Pattern.ALL_GATHER: ("owner", "all"),
    Pattern.ALL_TO_ALL: ("origin", "owner"),
    Pattern.BROADCAST: ("root", "all"),
    Pattern.REDUCE: ("all", "root"),
    Pattern.GATHER: ("owner", "root"),
    Pattern.SCATTER: ("root", "owner"),
    Pattern.POINT_TO_POINT: ("root", "all"),  # of its two ranks
}


def pattern_of(name: Pattern | str) -> Pattern:
    try:
        return Pattern(name)
    except ValueError:
        known = list(Pattern)
        message = f"no collective {name!r}{nearest(str(name), map(str, known))}"
        raise InputError(message, key="pattern", accepted=", ".join(known)) from None
