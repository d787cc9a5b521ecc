"""Transfers that a run of a file makes, and what each waits for: the phases of a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from attrs import define

from fredfw import Phase

Need = tuple[int, int, bool]
"""A GPU, a transfer of it, and whether it must have received it; else it must have sent its bytes."""


@define(eq=False)
class _Past:
    """What is so when a transfer starts, as bits by transfer."""

    gone: int  # whose bytes have left
    there: int  # which have arrived
    arrived: int  # which have arrived when it has, itself left out


class Journal:
    """The transfers of a run, each a phase, in an order in which each comes after those that it waits for.

    Args:
        numbered: Whether chunks have numbers; others are only counted.
    """

    def __init__(self, *, numbered: bool) -> None:
        self.phases: list[Phase] = []
        self.ends: list[tuple[int, int]] = []
        """Source and destination of each."""
        self._numbered = numbered
        self._pasts: list[_Past] = []

    def add(
        self, source: int, destination: int, chunks: Sequence[int], needs: Iterable[Need], *, reduces: bool = False
    ) -> int:
        """Note a transfer that starts when ``needs`` are met; return its number."""
        needs = self.pruned(needs)
        past = self._past(needs)
        after: set[int] = set()
        behind: set[int] = set()
        room: set[int] = set()
        for gpu, one, received in needs:
            # A destination that has sent something has room when that has left, which is soon enough when it arrives.
            waits = room if gpu == destination else after if received or gpu != source else behind
            waits.add(one)
            past.gone |= 1 << one
            past.there |= received << one
        past.arrived |= past.there
        for one in behind:
            if self.ends[one] == (source, destination):  # on one path nobody overtakes
                past.arrived |= self._pasts[one].arrived | 1 << one
        first, count = _runs(chunks if self._numbered else range(len(chunks)))
        self.phases.append(
            Phase.of(
                source,
                destination,
                first,
                count=count,
                reduce=reduces,
                after=tuple(sorted(after)),
                behind=tuple(sorted(behind)),
                room=tuple(sorted(room)),
            )
        )
        self.ends.append((source, destination))
        self._pasts.append(past)
        return len(self.phases) - 1

    def pruned(self, needs: Iterable[Need]) -> frozenset[Need]:
        """Return ``needs`` without those that others among them bring along."""
        needs = frozenset(needs)
        if len(needs) < 2:
            return needs
        past = self._past(needs)
        return frozenset(need for need in needs if not (past.there if need[2] else past.gone) >> need[1] & 1)

    def _past(self, needs: Iterable[Need]) -> _Past:
        """Return what is so when ``needs`` are met, they themselves left out unless others bring them along."""
        gone = there = 0
        for _, one, received in needs:
            past = self._pasts[one]
            gone |= past.gone
            there |= past.there | (past.arrived if received else 0)
        return _Past(gone | there, there, there)


def _runs(chunks: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the first chunk and the length of each run of chunks that follow each other."""
    starts = [0, *(at for at, (one, other) in enumerate(pairwise(chunks), 1) if other != one + 1)]
    return [chunks[at] for at in starts], [end - start for start, end in pairwise([*starts, len(chunks)])]
