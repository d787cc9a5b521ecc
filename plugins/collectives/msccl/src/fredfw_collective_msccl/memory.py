"""The buffers of GPUs, run symbolically: a chunk is its number and whose contributions are in it.

Steps are numbered in the order in which they run. What must come before a step is a mask of such numbers. Two steps
that use a chunk, one of which writes it, must be ordered, for else what comes out depends on which is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import define

from fredfw_collective_msccl.layout import Layout, Slot

Value: TypeAlias = tuple[int, int] | None
"""A chunk and the bits of its contributors; ``None`` where nobody knows what is there."""

_BUFFERS = {"i": "input", "o": "output", "s": "scratch"}


class FaultError(Exception):
    """A step that does what it must not."""


@define(eq=False)
class _Use:
    """Who has used a place.

    Args:
        writer: Step that wrote it last, -1 for none.
        readers: Steps that have read it since, as bits.
    """

    writer: int = -1
    readers: int = 0


class Memory:
    """The buffers of all GPUs.

    Args:
        layout: What is in them before.
        sizes: Chunks of each buffer by letter, for each GPU.
        name: Returns the name of a step of a number, for messages.
    """

    def __init__(self, layout: Layout, sizes: Sequence[Mapping[str, int]], name: Callable[[int], str]) -> None:
        self._layout, self._sizes, self._name = layout, sizes, name
        self._known = layout.pattern is not None
        self._values: dict[Slot, Value] = {slot: (chunk, 1 << slot[0]) for slot, chunk in layout.start()}
        self._uses: dict[Slot, _Use] = {}

    def read(self, gpu: int, buffer: str, offset: int, count: int, step: int, before: int) -> list[Value]:
        """Return what ``step`` finds, which comes after the steps ``before``.

        Raises:
            FaultError: There is no such place, nothing is there, or it is not known who comes first.
        """
        found = []
        for slot, what in self._slots(gpu, buffer, offset, count):
            if self._known and slot not in self._values:
                raise FaultError(f"reads {what}, where nothing has been put")
            use = self._uses.setdefault(slot, _Use())
            self._ordered(use.writer, before, f"reads {what}, which", "writes")
            use.readers |= 1 << step
            found.append(self._values.get(slot))
        return found

    def write(self, gpu: int, buffer: str, offset: int, values: list[Value], step: int, before: int) -> None:
        """Put ``values`` where ``step`` says, which comes after the steps ``before``; raises as ``read`` does."""
        for (slot, what), value in zip(self._slots(gpu, buffer, offset, len(values)), values, strict=True):
            use = self._uses.setdefault(slot, _Use())
            self._ordered(use.writer, before, f"writes {what}, which", "writes")
            others = use.readers & ~before & ~(1 << step)
            if others:
                self._ordered(others.bit_length() - 1, before, f"writes {what}, which", "reads")
            use.writer, use.readers = step, 0
            self._values[slot] = value

    def _ordered(self, other: int, before: int, what: str, does: str) -> None:
        if other >= 0 and not before >> other & 1:
            raise FaultError(f"{what} {self._name(other)} {does}, and nothing says which of them comes first")

    def added(self, one: list[Value], other: list[Value]) -> list[Value]:
        """Return the sums of chunks.

        Raises:
            FaultError: They are of different chunks, or one contribution would be counted twice.
        """
        return [self._sum(*pair) for pair in zip(one, other, strict=True)]

    def _sum(self, one: Value, other: Value) -> Value:
        if one is None or other is None:
            return None
        if one[0] != other[0]:
            raise FaultError(f"adds {self._said(other)} to {self._said(one)}")
        if one[1] & other[1]:
            raise FaultError(f"adds {self._said(other)} to {self._said(one)}, which counts contributions twice")
        return one[0], one[1] | other[1]

    def missing(self) -> tuple[int, int, str] | None:
        """Return the GPU, the last writer and what is wrong of the first place that has not got what it must have."""
        for slot, what, chunk, needed in self._layout.end():
            found = self._values.get(slot)
            if found != (chunk, needed):
                writer = self._uses[slot].writer if slot in self._uses else -1
                has = "nothing" if found is None else self._said(found)
                return slot[0], writer, f"{what} has {has}, and needs {self._said((chunk, needed))}"
        return None

    def _slots(self, gpu: int, buffer: str, offset: int, count: int) -> list[tuple[Slot, str]]:
        size = self._sizes[gpu].get(buffer, 0)
        name = _BUFFERS.get(buffer, buffer)
        if offset < 0 or offset + count > size:
            last = offset + count - 1
            raise FaultError(f"uses {name} chunks {offset} to {last} of GPU {gpu}, which has {size}")
        places = range(offset, offset + count)
        return [(self._layout.slot(gpu, buffer, at), f"{name} chunk {at} of GPU {gpu}") for at in places]

    def _said(self, value: tuple[int, int]) -> str:
        chunk, mask = value
        ranks = [rank for rank in range(mask.bit_length()) if mask >> rank & 1]
        if self._layout.origin() is not None:
            origin, place = divmod(chunk, self._layout.whole)
            return f"chunk {place} of GPU {origin}"
        return f"chunk {chunk} of GPUs {', '.join(map(str, ranks))}"
