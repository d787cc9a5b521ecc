"""What an MSCCL file says: for each GPU, thread blocks with steps."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
"""Steps that send."""
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
"""Steps that receive."""
REDUCES = frozenset({"rrs", "rrc", "rrcs", "re"})
"""Steps that add."""
STORES = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
"""Steps that write to their destination."""
LOADS = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
"""Steps that read their source."""
TYPES = SENDS | RECEIVES | {"cpy", "re", "nop"}
PROTOCOLS = "Simple", "LL", "LL128"
SLOTS = 8
"""Sends of a connection that may wait to be received (NCCL_STEPS of nccl's src/include/device.h)."""


@frozen
class Place:
    """A part of a GPU's memory.

    Args:
        buffer: ``i`` for input, ``o`` for output, ``s`` for scratch.
        offset: First chunk of it.
    """

    buffer: str
    offset: int


@frozen
class Step:
    """What a thread block does.

    Args:
        type: One of ``TYPES``.
        source: What is read.
        destination: What is written.
        count: Chunks.
        depends: Thread block of the same GPU, and which step of it must be done first; or ``None``.
        awaited: Whether a thread block waits for this step.
    """

    type: str
    source: Place
    destination: Place
    count: int
    depends: tuple[int, int] | None = None
    awaited: bool = False


@frozen
class Block:
    """A thread block, which does its steps in order.

    Args:
        send: GPU that it sends to, -1 for none.
        receive: GPU that it receives from, -1 for none.
        channel: Number of the channel of both.
        steps: In order.
    """

    send: int
    receive: int
    channel: int
    steps: tuple[Step, ...]


@frozen
class Gpu:
    """A GPU.

    Args:
        chunks: Chunks of each buffer, by its letter.
        blocks: In the order of their numbers.
    """

    chunks: Mapping[str, int]
    blocks: tuple[Block, ...]


@frozen
class Program:
    """A collective algorithm.

    Args:
        name: What it is called.
        protocol: One of ``PROTOCOLS``.
        collective: What it carries out, in MSCCL's words; ``custom`` for nothing that MSCCL knows.
        loop: Chunks of the largest buffer.
        channels: How many.
        in_place: Whether input and output are one buffer, as far as the collective has them overlap.
        out_of_place: Whether it also serves buffers that are apart.
        least: Bytes of the smallest buffer that it is for.
        most: Bytes of the largest, 0 for any.
        gpus: In the order of their numbers.
    """

    name: str
    protocol: str
    collective: str
    loop: int
    channels: int
    in_place: bool
    out_of_place: bool
    least: int
    most: int
    gpus: tuple[Gpu, ...]
