"""What an MSCCL file says: for each GPU, thread blocks with steps."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
REDUCES = frozenset({"rrs", "rrc", "rrcs", "re"})  # steps that add
STORES = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})  # steps that write to their destination
LOADS = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})  # steps that read their source
TYPES = SENDS | RECEIVES | {"cpy", "re", "nop"}
PROTOCOLS = "Simple", "LL", "LL128"
SLOTS = 8
"""Sends of a connection that may wait to be received (NCCL_STEPS of nccl's src/include/device.h)."""


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
        """Return thread block and number of each step that others wait for."""
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
        """GPUs."""
        return len(self.gpus)
