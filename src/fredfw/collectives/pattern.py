"""The collective patterns and their bus-bandwidth factors."""

from __future__ import annotations

from enum import StrEnum

from fredfw.errors import InputError, nearest


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
        if self in (Pattern.BROADCAST, Pattern.REDUCE, Pattern.POINT_TO_POINT):
            return 1.0
        return (ranks - 1) / ranks

    @property
    def rooted(self) -> bool:
        """Whether one rank is special."""
        return self in _ROOTED

    @property
    def owned(self) -> bool:
        """Whether each chunk belongs to one rank, which starts or ends with it."""
        return self in _OWNED


_ROOTED = frozenset({Pattern.BROADCAST, Pattern.REDUCE, Pattern.GATHER, Pattern.SCATTER, Pattern.POINT_TO_POINT})
_OWNED = frozenset({Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER, Pattern.ALL_TO_ALL, Pattern.GATHER, Pattern.SCATTER})


def pattern_of(name: Pattern | str) -> Pattern:
    """Return the pattern ``name``; raises ``InputError`` with the key ``pattern`` where there is none."""
    try:
        return Pattern(name)
    except ValueError:
        known = list(Pattern)
        message = f"no collective {name!r}{nearest(str(name), map(str, known))}"
        raise InputError(message, key="pattern", accepted=", ".join(known)) from None
