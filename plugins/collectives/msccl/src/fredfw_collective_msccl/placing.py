"""Where the chunks of a schedule are in the buffers of an MSCCL file, in equal pieces."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from attrs import define, field

from fredfw import Pattern, Phase, Schedule
from fredfw.errors import UnsupportedError
from fredfw.typing import FloatArray, IntArray
from fredfw_collective_msccl.layout import Layout
from fredfw_collective_msccl.program import Place

_MOST_PIECES = 1 << 15
"""Offsets of MSCCL's steps have 16 bits, one of which is a sign."""
_EXACT = 1e-9


@define(eq=False)
class Placing:
    """The places of chunks.

    Args:
        layout: Where they are before and after.
        pieces: ``(chunks,)`` equal pieces that each is made of.
        within: ``(chunks,)`` place of its first piece: in its block, or in the buffer where there are no blocks.
        owner: ``(chunks,)`` rank that each belongs to, where the pattern has such.
        origin: ``(chunks,)`` rank that each chunk of an all-to-all comes from.
        scratch: Pieces of scratch of each GPU.
    """

    layout: Layout
    pieces: IntArray
    within: IntArray
    owner: IntArray | None
    origin: IntArray | None
    scratch: list[int]
    _forwarded: dict[tuple[int, int], int] = field(factory=dict)

    @classmethod
    def of(cls, schedule: Schedule) -> Placing:
        """Return the places of the chunks of ``schedule``.

        Raises:
            UnsupportedError: They are not made of few equal pieces.
        """
        pattern, ranks = schedule.pattern, schedule.ranks
        sizes: FloatArray = np.broadcast_to(schedule.chunk_bytes, schedule.chunks)
        whole = float(sizes.sum()) / (ranks if pattern is Pattern.ALL_TO_ALL else 1)
        shares = sizes / whole
        loop = math.lcm(*(Fraction(one).limit_denominator(_MOST_PIECES).denominator for one in np.unique(shares)))
        if pattern.owned:
            loop = math.lcm(loop, ranks)
        pieces = np.rint(shares * loop).astype(np.intp)
        if loop > _MOST_PIECES or (np.abs(pieces - shares * loop) > _EXACT * loop).any():
            raise UnsupportedError(
                f"its chunks are not made of {_MOST_PIECES} equal pieces or fewer",
                accepted="an algorithm that divides the data into equal chunks",
            )
        groups = np.zeros(schedule.chunks, dtype=np.intp)
        if schedule.owner is not None and pattern.owned:
            groups = schedule.owner + (0 if schedule.origin is None else schedule.origin * ranks)
        together = _together(schedule)
        order = np.array(sorted(range(schedule.chunks), key=lambda one: (groups[one], together[one])), dtype=np.intp)
        ends = np.cumsum(pieces[order])
        starts = ends - pieces[order]
        first = np.searchsorted(groups[order], groups[order])  # of the same block
        within = np.empty(schedule.chunks, dtype=np.intp)
        within[order] = starts - starts[first]
        rooted = pattern in (Pattern.GATHER, Pattern.SCATTER)
        layout = Layout(
            pattern, ranks, loop // ranks if rooted else loop, pattern is not Pattern.ALL_TO_ALL, schedule.root
        )
        return cls(layout, pieces, within, schedule.owner, schedule.origin, [0] * ranks)

    def order(self, chunk: int) -> tuple[int, int, int]:
        """Return what orders chunks as they lie, block by block."""
        origin = 0 if self.origin is None else int(self.origin[chunk])
        return origin, 0 if self.owner is None else int(self.owner[chunk]), int(self.within[chunk])

    def place(self, gpu: int, chunk: int) -> Place:
        """Return where ``gpu`` has ``chunk``; what it only passes on is in its scratch."""
        layout, within = self.layout, int(self.within[chunk])
        if self.owner is None or layout.pattern is None or not layout.pattern.owned:
            return Place("i", within)
        owner, block = int(self.owner[chunk]), layout.block
        match layout.pattern:
            case Pattern.ALL_GATHER:
                return Place("o", owner * block + within)
            case Pattern.REDUCE_SCATTER:
                return Place("i", owner * block + within)
            case Pattern.GATHER if gpu == layout.root:
                return Place("o", owner * block + within)
            case Pattern.SCATTER if gpu == layout.root:
                return Place("i", owner * block + within)
            case Pattern.GATHER if gpu == owner:
                return Place("i", within)
            case Pattern.SCATTER if gpu == owner:
                return Place("o", within)
            case Pattern.ALL_TO_ALL:
                assert self.origin is not None  # as in every all-to-all
                origin = int(self.origin[chunk])
                if gpu == origin:
                    return Place("i", owner * block + within)
                if gpu == owner:
                    return Place("o", origin * block + within)
        first = self._forwarded.get((gpu, chunk))
        if first is None:
            first = self._forwarded[gpu, chunk] = self.scratch[gpu]
            self.scratch[gpu] += int(self.pieces[chunk])
        return Place("s", first)

    def kept(self, gpu: int) -> list[int]:
        """Return the chunks that ``gpu`` copies from its input to its output."""
        if self.layout.pattern is not Pattern.ALL_TO_ALL or self.owner is None or self.origin is None:
            return []
        return [int(one) for one in np.flatnonzero((self.owner == gpu) & (self.origin == gpu))]

    def copied(self, gpu: int, chunk: int) -> Place:
        """Return where ``gpu`` copies ``chunk`` to."""
        return Place("o", gpu * self.layout.block + int(self.within[chunk]))

    def sizes(self, gpu: int) -> dict[str, int]:
        """Return the pieces of each buffer of ``gpu``."""
        block, whole = self.layout.block, self.layout.whole
        match self.layout.pattern:
            case Pattern.ALL_TO_ALL:
                input_, output = whole, whole
            case Pattern.ALL_GATHER:
                input_, output = 0, whole
            case Pattern.GATHER:
                input_, output = (0, whole) if gpu == self.layout.root else (block, 0)
            case Pattern.SCATTER:
                input_, output = (whole, 0) if gpu == self.layout.root else (0, block)
            case _:
                input_, output = whole, 0
        return {"i": input_, "o": output, "s": self.scratch[gpu]}


def carried(phase: Phase, row: int, repetition: int) -> IntArray:
    """Return the chunks that a row of ``phase`` carries at ``repetition``."""
    start = phase.offset[row] + repetition * phase.stride[row]
    chunks: IntArray = phase.base[row] + (start + np.arange(phase.count[row])) % phase.modulus[row]
    return chunks


def _together(schedule: Schedule) -> list[list[int]]:
    """Return the numbers of the rows that carry each chunk: those that go the same ways are to lie together."""
    found: list[list[int]] = [[] for _ in range(schedule.chunks)]
    number = 0
    for phase in schedule.phases:
        for repetition in range(phase.repeat):
            for row in range(len(phase)):
                number += 1
                for chunk in carried(phase, row, repetition).tolist():
                    found[chunk].append(number)
    return found
