"""Transfers that a run of a file makes, and what each waits for: what becomes a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from attrs import define, frozen

from fredfw import Pattern, Phase, Schedule
from fredfw_collective_msccl.layout import Layout

Need = tuple[int, int, bool]
"""A GPU, a transfer of it, and whether it must have received it; else it must have sent its bytes."""
NOTHING: frozenset[Need] = frozenset()


@frozen
class Transfer:
    """Chunks that go from one GPU to another.

    Args:
        source: GPU.
        destination: GPU.
        chunks: Number of each.
        reduces: Whether the destination adds what arrives.
        after: Transfers that must have arrived first.
        behind: Transfers whose bytes must have left first.
        room: Transfers that the destination must be done with first.
        round: How many transfers it ends a chain of, each of which has waited for the arrival of the one before.
    """

    source: int
    destination: int
    chunks: tuple[int, ...]
    reduces: bool
    after: tuple[int, ...]
    behind: tuple[int, ...]
    room: tuple[int, ...]
    round: int


@define(eq=False)
class _Past:
    """What is so when a transfer starts, as bits by transfer.

    Args:
        gone: Whose bytes have left.
        there: Which have arrived.
        arrived: Which have arrived when it has, itself left out.
    """

    gone: int
    there: int
    arrived: int


class Journal:
    """The transfers of a run, in an order in which each comes after those that it waits for.

    Attributes:
        transfers: So far.
    """

    def __init__(self) -> None:
        self.transfers: list[Transfer] = []
        self._pasts: list[_Past] = []

    def add(
        self, source: int, destination: int, chunks: Sequence[int], needs: Iterable[Need], *, reduces: bool = False
    ) -> int:
        """Note a transfer that starts when ``needs`` are met; return its number."""
        needs = self.pruned(needs)
        after = tuple(sorted(one for gpu, one, received in needs if received and gpu != destination))
        behind = tuple(sorted(one for gpu, one, received in needs if not received and gpu == source))
        # A destination that has sent something has room when that has left, which is soon enough when it has arrived.
        room = tuple(sorted({one for gpu, one, received in needs if gpu == destination}))
        others = tuple(one for gpu, one, received in needs if not received and gpu not in (source, destination))
        after = tuple(sorted({*after, *others}))
        past = self._past(needs)
        for _, one, received in needs:
            past.gone |= 1 << one
            if received:
                past.there |= 1 << one
        past.arrived |= past.there
        for one in behind:
            before = self.transfers[one]
            if (before.source, before.destination) == (source, destination):  # on one path nobody overtakes
                past.arrived |= self._pasts[one].arrived | 1 << one
        rounds = [self.transfers[one].round for one in (*after, *room)]
        number = len(self.transfers)
        self.transfers.append(
            Transfer(
                source,
                destination,
                tuple(chunks),
                reduces,
                after,
                behind,
                room,
                max([1 + most for most in rounds] + [self.transfers[one].round for one in behind], default=1),
            )
        )
        self._pasts.append(past)
        return number

    def pruned(self, needs: Iterable[Need]) -> frozenset[Need]:
        """Return ``needs`` without those that others among them bring along."""
        needs = frozenset(needs)
        if len(needs) < 2:
            return needs
        past = self._past(needs)
        return frozenset(
            (gpu, one, received)
            for gpu, one, received in needs
            if not (past.there if received else past.gone) >> one & 1
        )

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
    phases = []
    chunks = layout.chunks
    if layout.pattern is None:
        chunks = max([layout.loop, *(len(one.chunks) for one in transfers)])
    for one in transfers:
        first, count = _runs(one.chunks if layout.pattern is not None else range(len(one.chunks)))
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
        chunks,
        phases,
        owner=layout.owner(),
        origin=layout.origin(),
        root=layout.root,
        proof="none" if layout.pattern is None else "replay" if says_all else "author",
    )


def _runs(chunks: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the first chunk and the length of each run of chunks that follow each other."""
    starts = [0, *(at for at, (one, other) in enumerate(pairwise(chunks), 1) if other != one + 1)]
    ends = [*starts[1:], len(chunks)]
    return [chunks[at] for at in starts], [end - at for at, end in zip(starts, ends, strict=True)]
