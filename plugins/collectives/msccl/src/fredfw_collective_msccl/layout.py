"""Where the chunks of a collective are before and after, in the buffers of GPUs."""

from __future__ import annotations

from collections.abc import Iterator

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
_SHARED = frozenset({Pattern.ALL_GATHER, Pattern.REDUCE_SCATTER, Pattern.ALL_TO_ALL})
"""Patterns whose loop is that of all blocks together."""

Slot = tuple[int, str, int]
"""GPU, buffer and offset of a chunk's place."""


@frozen
class Layout:
    """The buffers of a collective.

    A chunk has a number, which is that of its schedule. In all-to-all it is origin x loop + its place in the input.

    Args:
        pattern: What is carried out, or ``None`` for something that nobody has said.
        ranks: GPUs.
        loop: What a file says of the chunks of a loop.
        in_place: Whether input and output are one buffer, as far as the pattern has them overlap.
        root: GPU that is special, where the pattern has one.
    """

    pattern: Pattern | None
    ranks: int
    loop: int
    in_place: bool
    root: int = 0

    @property
    def block(self) -> int:
        """Chunks of the block of a rank, where the pattern has blocks."""
        if self.pattern is None or not self.pattern.owned:
            return self.loop
        return self.loop // self.ranks if self.pattern in _SHARED else self.loop

    @property
    def whole(self) -> int:
        """Chunks of the largest buffer of a GPU."""
        return self.block * self.ranks if self.pattern is not None and self.pattern.owned else self.loop

    @property
    def chunks(self) -> int:
        """Chunks of all GPUs together."""
        return self.whole * self.ranks if self.pattern is Pattern.ALL_TO_ALL else self.whole

    def check(self, file: str) -> None:
        """Raise ``InputError`` where the loop cannot be divided among GPUs."""
        if self.pattern in _SHARED and self.loop % self.ranks:
            raise InputError(
                f"{self.loop} chunks cannot be divided among {self.ranks} GPUs",
                file=file,
                key="nchunksperloop",
                accepted=f"a multiple of {self.ranks}",
            )

    def owner(self) -> IntArray | None:
        """Return the ``(chunks,)`` rank that each belongs to."""
        if self.pattern is None or not self.pattern.owned:
            return None
        return np.arange(self.chunks) % self.whole // self.block

    def origin(self) -> IntArray | None:
        """Return the ``(chunks,)`` rank that each chunk of an all-to-all comes from."""
        return np.arange(self.chunks) // self.whole if self.pattern is Pattern.ALL_TO_ALL else None

    def slot(self, gpu: int, buffer: str, offset: int) -> Slot:
        """Return the one name of a place that may have two."""
        if self.in_place and self.pattern is not None:
            mine = gpu * self.block
            match self.pattern, buffer:
                case (Pattern.ALL_GATHER, "i"):
                    return gpu, "o", mine + offset
                case (Pattern.REDUCE_SCATTER, "o"):
                    return gpu, "i", mine + offset
                case (Pattern.GATHER, "i") if gpu == self.root:
                    return gpu, "o", mine + offset
                case (Pattern.SCATTER, "o") if gpu == self.root:
                    return gpu, "i", mine + offset
                case ((Pattern.ALL_REDUCE | Pattern.BROADCAST | Pattern.REDUCE | Pattern.ALL_TO_ALL), "o"):
                    return gpu, "i", offset
        return gpu, buffer, offset

    def start(self) -> Iterator[tuple[Slot, int]]:
        """Yield each place that has a chunk before, and the chunk."""
        for gpu in range(self.ranks):
            for offset, chunk in self._input(gpu):
                yield self.slot(gpu, "i", offset), chunk

    def end(self) -> Iterator[tuple[Slot, str, int, int]]:
        """Yield each place that must have a chunk after, in words, the chunk, and whose contributions as bits."""
        everybody = (1 << self.ranks) - 1
        for gpu in range(self.ranks):
            for offset, chunk in self._output(gpu):
                yield self.slot(gpu, "o", offset), f"output chunk {offset}", chunk, self._needed(chunk, everybody)

    def _needed(self, chunk: int, everybody: int) -> int:
        match self.pattern:
            case Pattern.ALL_REDUCE | Pattern.REDUCE_SCATTER | Pattern.REDUCE:
                return everybody
            case Pattern.ALL_TO_ALL:
                return 1 << chunk // self.whole
            case Pattern.BROADCAST | Pattern.SCATTER:
                return 1 << self.root
            case _:
                return 1 << chunk // self.block

    def _input(self, gpu: int) -> Iterator[tuple[int, int]]:
        match self.pattern:
            case Pattern.ALL_GATHER | Pattern.GATHER:
                yield from enumerate(range(gpu * self.block, (gpu + 1) * self.block))
            case Pattern.ALL_TO_ALL:
                yield from enumerate(range(gpu * self.whole, (gpu + 1) * self.whole))
            case Pattern.BROADCAST | Pattern.SCATTER if gpu != self.root:
                return
            case _:
                yield from enumerate(range(self.whole))

    def _output(self, gpu: int) -> Iterator[tuple[int, int]]:
        match self.pattern:
            case None:
                return
            case Pattern.REDUCE_SCATTER | Pattern.SCATTER:
                yield from enumerate(range(gpu * self.block, (gpu + 1) * self.block))
            case Pattern.ALL_TO_ALL:
                for origin in range(self.ranks):
                    for place in range(self.block):
                        yield origin * self.block + place, origin * self.whole + gpu * self.block + place
            case Pattern.REDUCE | Pattern.GATHER if gpu != self.root:
                return
            case _:
                yield from enumerate(range(self.whole))
