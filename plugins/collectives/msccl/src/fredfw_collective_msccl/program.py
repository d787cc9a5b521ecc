"""What an MSCCL file says, and where the chunks of its collective are before and after, in the buffers of GPUs."""

from collections.abc import Iterable, Iterator, Mapping

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
}  # by MSCCL's word for them
WORDS = [*COLLECTIVES, "custom"]

Slot = tuple[int, str, int]  # GPU, buffer and offset of a chunk's place


@frozen
class Layout:
    """The buffers of a collective; a chunk has the number of its schedule, in all-to-all origin x loop + its place."""

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
        if self._shared and self.loop % self.ranks:
            message = f"{self.loop} chunks cannot be divided among {self.ranks} GPUs"
            raise InputError(message, key="nchunksperloop", accepted=f"a multiple of {self.ranks}")

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
        apart = self.pattern in (Pattern.GATHER, Pattern.SCATTER) and gpu != self.root
        if apart or buffer != ("i" if gathers else "o"):
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
        contributors = [0] * self.chunks
        for (gpu, _, _), chunk in self.start():
            contributors[chunk] |= 1 << gpu
        for gpu in range(self.ranks):
            for offset, chunk in enumerate(self._output(gpu)):
                yield self.slot(gpu, "o", offset), f"output chunk {offset}", chunk, contributors[chunk]

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


SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
REDUCES = frozenset({"rrs", "rrc", "rrcs", "re"})  # steps that add
STORES = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})  # steps that write to their destination
LOADS = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})  # steps that read their source
TYPES = SENDS | RECEIVES | {"cpy", "re", "nop"}
PROTOCOLS = "Simple", "LL", "LL128"
SLOTS = 8  # sends of a connection that may wait to be received (NCCL_STEPS of nccl's src/include/device.h)


@frozen
class Place:
    """A part of a GPU's memory, from its first chunk on, in buffer ``i`` (input), ``o`` (output) or ``s`` (scratch)."""

    buffer: str
    offset: int


@frozen
class Step:
    """What a thread block does with ``count`` chunks, when another is done with the step that it ``depends`` on."""

    type: str
    source: Place
    destination: Place
    count: int
    depends: tuple[int, int] | None = None


@frozen
class Block:
    """A thread block: the GPU that it sends to, the one that it receives from (-1 for none), on which channel."""

    send: int
    receive: int
    channel: int
    steps: tuple[Step, ...]


@frozen
class Gpu:
    """The chunks of each buffer, by its letter, and the thread blocks in the order of their numbers."""

    chunks: Mapping[str, int]
    blocks: tuple[Block, ...]

    def awaited(self) -> set[tuple[int, int]]:
        return {step.depends for block in self.blocks for step in block.steps if step.depends is not None}


@frozen
class Program:
    """A collective algorithm."""

    name: str
    protocol: str
    collective: str  # in MSCCL's words; custom for nothing that MSCCL knows
    loop: int  # chunks of the largest buffer
    channels: int
    in_place: bool  # whether input and output are one buffer, as far as the collective has them overlap
    out_of_place: bool  # whether it also serves buffers that are apart
    least: int  # bytes of the smallest buffer that it is for
    most: int  # bytes of the largest, 0 for any
    gpus: tuple[Gpu, ...]

    @property
    def ranks(self) -> int:
        return len(self.gpus)
