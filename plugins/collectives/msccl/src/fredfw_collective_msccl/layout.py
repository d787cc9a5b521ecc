"""Where the chunks of a collective are before and after, in the buffers of GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from attrs import frozen

from fredfw import Pattern
from fredfw.errors import InputError
from fredfw.typing import IntArray

COLLECTIVES = {
    "allreduce": Pattern.ALL_REDUCE,
    "reducescatter": Pattern.REDUCE_SCATTER,
    "allgather": Pattern.ALL_GATHER,
    "alltoall": Pattern.ALL_TO_ALL,
    "broadcast": Pattern.BROADCAST,
    "reduce": Pattern.REDUCE,
    "gather": Pattern.GATHER,
    "scatter": Pattern.SCATTER,
}
"""Patterns by MSCCL's word for them."""
CUSTOM = "custom"
WORDS = [*COLLECTIVES, CUSTOM]

Slot = tuple[int, str, int]
"""GPU, buffer and offset of a chunk's place."""


@frozen
class Layout:
    """The buffers of a collective.

    A chunk has a number, which is that of its schedule. In all-to-all it is origin x loop + its place in the input.
    """

    pattern: Pattern | None  # None for something that nobody has said
    ranks: int
    loop: int  # what a file says of the chunks of a loop
    in_place: bool  # whether input and output are one buffer, as far as the pattern has them overlap
    root: int = 0

    @property
    def _owned(self) -> bool:
        return self.pattern is not None and self.pattern.owned

    @property
    def _shared(self) -> bool:
        """Whether the loop is that of all blocks together."""
        return self.pattern is not None and self.pattern.owned and not self.pattern.rooted

    @property
    def block(self) -> int:
        """Chunks of the block of a rank, where the pattern has blocks."""
        return self.loop // self.ranks if self._shared else self.loop

    @property
    def whole(self) -> int:
        """Chunks of the largest buffer of a GPU."""
        return self.block * self.ranks if self._owned else self.loop

    @property
    def chunks(self) -> int:
        """Chunks of all GPUs together."""
        return self.whole * self.ranks if self.pattern is Pattern.ALL_TO_ALL else self.whole

    def check(self) -> None:
        """Raise ``InputError`` where the loop cannot be divided among GPUs."""
        if self._shared and self.loop % self.ranks:
            raise InputError(
                f"{self.loop} chunks cannot be divided among {self.ranks} GPUs",
                key="nchunksperloop",
                accepted=f"a multiple of {self.ranks}",
            )

    def owner(self) -> IntArray | None:
        """Return the ``(chunks,)`` rank that each belongs to."""
        return np.arange(self.chunks) % self.whole // self.block if self._owned else None

    def origin(self) -> IntArray | None:
        """Return the ``(chunks,)`` rank that each chunk of an all-to-all comes from."""
        return np.arange(self.chunks) // self.whole if self.pattern is Pattern.ALL_TO_ALL else None

    def slot(self, gpu: int, buffer: str, offset: int) -> Slot:
        """Return the one name of a place that may have two."""
        if not self.in_place or self.pattern is None:
            return gpu, buffer, offset
        gathers = self.pattern in (Pattern.ALL_GATHER, Pattern.GATHER)
        if buffer != ("i" if gathers else "o"):
            return gpu, buffer, offset
        if self.pattern in (Pattern.GATHER, Pattern.SCATTER) and gpu != self.root:
            return gpu, buffer, offset
        part = self.pattern.owned and self.pattern is not Pattern.ALL_TO_ALL  # of the other buffer, or as large
        return gpu, "o" if gathers else "i", offset + (gpu * self.block if part else 0)

    def start(self) -> Iterator[tuple[Slot, int]]:
        """Yield each place that has a chunk before, and the chunk."""
        for gpu in range(self.ranks):
            for offset, chunk in enumerate(self._input(gpu)):
                yield self.slot(gpu, "i", offset), chunk

    def end(self) -> Iterator[tuple[Slot, str, int, int]]:
        """Yield each place that must have a chunk after, in words, the chunk, and whose contributions as bits."""
        for gpu in range(self.ranks):
            for offset, chunk in enumerate(self._output(gpu)):
                yield self.slot(gpu, "o", offset), f"output chunk {offset}", chunk, self._needed(chunk)

    def _needed(self, chunk: int) -> int:
        assert self.pattern is not None  # else nothing is
        match self.pattern.before:
            case "all":
                return (1 << self.ranks) - 1
            case "root":
                return 1 << self.root
            case "owner":
                return 1 << chunk // self.block
            case "origin":
                return 1 << chunk // self.whole

    def _input(self, gpu: int) -> range:
        match self.pattern and self.pattern.before:
            case "root" if gpu != self.root:
                return range(0)
            case "owner":
                return range(gpu * self.block, (gpu + 1) * self.block)
            case "origin":
                return range(gpu * self.whole, (gpu + 1) * self.whole)
            case _:
                return range(self.whole)

    def _output(self, gpu: int) -> Iterable[int]:
        if self.pattern is None or (self.pattern.after == "root" and gpu != self.root):
            return ()
        if self.pattern.after != "owner":
            return range(self.whole)
        origins = range(0, self.chunks, self.whole)  # in an all-to-all, where what each sends begins
        return (origin + gpu * self.block + place for origin in origins for place in range(self.block))
