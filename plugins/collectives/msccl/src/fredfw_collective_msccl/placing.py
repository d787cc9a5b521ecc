"""Where the chunks of a schedule are in the buffers of an MSCCL file, in equal pieces."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fredfw import Pattern, Phase, Schedule
from fredfw.errors import UnsupportedError
from fredfw.typing import FloatArray, IntArray
from fredfw_collective_msccl.layout import Layout
from fredfw_collective_msccl.program import Place

_MOST_PIECES = 1 << 15
"""Offsets of MSCCL's steps have 16 bits, one of which is a sign."""
_EXACT = 1e-9


class Placing:
    """The places of the chunks of a schedule, each made of ``pieces``.

    Raises:
        UnsupportedError: They are not made of few equal pieces.
    """

    def __init__(self, schedule: Schedule) -> None:
        pattern, ranks = schedule.pattern, schedule.ranks
        sizes: FloatArray = np.broadcast_to(schedule.chunk_bytes, schedule.chunks)
        whole = float(sizes.sum()) / (ranks if pattern is Pattern.ALL_TO_ALL else 1)
        shares = sizes / whole
        loop = math.lcm(*(Fraction(one).limit_denominator(_MOST_PIECES).denominator for one in np.unique(shares)))
        if pattern.owned:
            loop = math.lcm(loop, ranks)
        self.pieces: IntArray = np.rint(shares * loop).astype(np.intp)
        if loop > _MOST_PIECES or (np.abs(self.pieces - shares * loop) > _EXACT * loop).any():
            raise UnsupportedError(
                f"its chunks are not made of {_MOST_PIECES} equal pieces or fewer",
                accepted="an algorithm that divides the data into equal chunks",
            )
        rooted = pattern in (Pattern.GATHER, Pattern.SCATTER)
        in_place = pattern is not Pattern.ALL_TO_ALL
        self.layout = layout = Layout(pattern, ranks, loop // ranks if rooted else loop, in_place, schedule.root)
        blocks = np.zeros(schedule.chunks, dtype=np.intp)
        if schedule.owner is not None and pattern.owned:
            blocks = schedule.owner + (0 if schedule.origin is None else schedule.origin * ranks)
        together = _together(schedule)
        order = np.array(sorted(range(schedule.chunks), key=lambda one: (blocks[one], together[one])), dtype=np.intp)
        starts = np.cumsum(self.pieces[order]) - self.pieces[order]
        first = np.searchsorted(blocks[order], blocks[order])  # of the same block
        self.number: IntArray = blocks * layout.block  # in the layout, of the first piece of each chunk
        self.number[order] += starts - starts[first]
        self.sizes = [dict.fromkeys("ios", 0) for _ in range(ranks)]
        """Pieces of each buffer of each GPU."""
        firsts = set(self.number.tolist())
        self._before: dict[tuple[int, int], Place] = {}
        self._after: dict[tuple[int, int], Place] = {}
        after = ((slot, chunk) for slot, _, chunk, _ in layout.end())
        for places, slots in ((self._before, layout.start()), (self._after, after)):
            for (gpu, buffer, offset), chunk in slots:
                self.sizes[gpu][buffer] = max(self.sizes[gpu][buffer], offset + 1)
                if chunk in firsts:
                    places[gpu, chunk] = Place(buffer, offset)
        self._places = self._after | self._before

    def place(self, gpu: int, chunk: int) -> Place:
        """Return where ``gpu`` has ``chunk``; what it only passes on is in its scratch."""
        key = gpu, int(self.number[chunk])
        if key not in self._places:
            self._places[key] = Place("s", self.sizes[gpu]["s"])
            self.sizes[gpu]["s"] += int(self.pieces[chunk])
        return self._places[key]

    def copied(self, gpu: int) -> list[tuple[Place, Place, int]]:
        """Return what ``gpu`` copies from its input to its output, and how many pieces."""
        found = []
        for number, count in zip(self.number.tolist(), self.pieces.tolist(), strict=True):
            before, after = self._before.get((gpu, number)), self._after.get((gpu, number))
            if count and before is not None and after is not None and before != after:
                found.append((before, after, count))
        return found


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
