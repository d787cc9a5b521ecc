"""Transfers that a run of a file makes, and what each waits for: what becomes a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from attrs import define, frozen

from fredfw import Pattern, Phase, Schedule
from fredfw_collective_msccl.layout import Layout

Need = tuple[int, int, bool]
"""A GPU, a transfer of it, and whether it must have received it; else it must have sent its bytes."""


@frozen
class Transfer:
    """Numbered chunks that go from one GPU to another."""

    source: int
    destination: int
    chunks: tuple[int, ...]
    reduces: bool  # whether the destination adds what arrives
    after: tuple[int, ...]  # transfers that must have arrived first
    behind: tuple[int, ...]  # transfers whose bytes must have left first
    room: tuple[int, ...]  # transfers that the destination must be done with first


@define(eq=False)
class _Past:
    """What is so when a transfer starts, as bits by transfer."""

    gone: int  # whose bytes have left
    there: int  # which have arrived
    arrived: int  # which have arrived when it has, itself left out


class Journal:
    """The transfers of a run, in an order in which each comes after those that it waits for."""

    def __init__(self) -> None:
        self.transfers: list[Transfer] = []
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
            before = self.transfers[one]
            if (before.source, before.destination) == (source, destination):  # on one path nobody overtakes
                past.arrived |= self._pasts[one].arrived | 1 << one
        waited = (tuple(sorted(ones)) for ones in (after, behind, room))
        self.transfers.append(Transfer(source, destination, tuple(chunks), reduces, *waited))
        self._pasts.append(past)
        return len(self.transfers) - 1

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


def schedule(
    transfers: Sequence[Transfer], layout: Layout, pattern: Pattern, size: float, *, says_all: bool = False
) -> Schedule:
    """Return the schedule of ``transfers``, each a phase of its own, for buffers of ``size`` bytes.

    It ``says_all`` where nothing happens to chunks but that they are sent, and then it can be replayed.
    """
    known = layout.pattern is not None
    phases = []
    for one in transfers:
        first, count = _runs(one.chunks if known else range(len(one.chunks)))
        phases.append(
            Phase.of(
                one.source,
                one.destination,
                first,
                count=count,
                reduce=one.reduces,
                after=one.after,
                behind=one.behind,
                room=one.room,
            )
        )
    return Schedule(
        pattern,
        layout.ranks,
        size / layout.whole,
        layout.chunks if known else max([layout.loop, *(len(one.chunks) for one in transfers)]),
        phases,
        owner=layout.owner(),
        origin=layout.origin(),
        root=layout.root,
        proof=("replay" if says_all else "author") if known else "none",
    )


def _runs(chunks: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the first chunk and the length of each run of chunks that follow each other."""
    starts = [0, *(at for at, (one, other) in enumerate(pairwise(chunks), 1) if other != one + 1)]
    return [chunks[at] for at in starts], [end - start for start, end in pairwise([*starts, len(chunks)])]
