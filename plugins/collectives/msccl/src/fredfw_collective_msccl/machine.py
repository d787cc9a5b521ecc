"""GPUs that run symbolically, each thread block on to its next step as soon as it can, until none gets on.

A chunk is its number and whose contributions are in it. Steps are numbered in the order in which they run. What must
come before a step is a mask of such numbers. Two steps that use a chunk, one of which writes it, must be ordered, for
else what comes out depends on which is faster.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from attrs import define, field

from fredfw import Pattern, Phase
from fredfw.errors import InputError
from fredfw_collective_msccl.program import Layout, Place, Slot

# A chunk and the bits of its contributors; ``None`` where nobody knows what is there.
Value: TypeAlias = tuple[int, int] | None
# A GPU, a transfer of it, and whether it must have received it; else it must have sent its bytes.
Need: TypeAlias = tuple[int, int, bool]
Past: TypeAlias = tuple[int, frozenset[Need]]  # steps that have come before, as bits, and what is so of transfers then
START: Past = 0, frozenset()
S = TypeVar("S")
_NAMES = {"i": "input", "o": "output", "s": "scratch"}
_PROVED = "a file whose steps carry out its collective"


@define(eq=False)
class _Moment:
    """What is so when a transfer starts, as bits by transfer."""

    gone: int  # whose bytes have left
    there: int  # which have arrived
    arrived: int  # which have arrived when it has, itself left out


class Journal:
    """The transfers of a run, each a phase, in an order in which each comes after those that it waits for."""

    def __init__(self, *, numbered: bool) -> None:
        self.phases: list[Phase] = []
        self.ends: list[tuple[int, int]] = []  # source and destination of each
        self._numbered = numbered
        self._pasts: list[_Moment] = []

    def add(
        self, source: int, destination: int, chunks: Sequence[int], needs: Iterable[Need], *, reduces: bool = False
    ) -> int:
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
            if self.ends[one] == (source, destination):  # on one path nobody overtakes
                past.arrived |= self._pasts[one].arrived | 1 << one
        first, count = _runs(chunks if self._numbered else range(len(chunks)))
        after_, behind_, room_ = (tuple(sorted(one)) for one in (after, behind, room))
        self.phases.append(
            Phase.of(source, destination, first, count=count, reduce=reduces, after=after_, behind=behind_, room=room_)
        )
        self.ends.append((source, destination))
        self._pasts.append(past)
        return len(self.phases) - 1

    def pruned(self, needs: Iterable[Need]) -> frozenset[Need]:
        """Return ``needs`` without those that others among them bring along."""
        needs = frozenset(needs)
        if len(needs) < 2:
            return needs
        past = self._past(needs)
        return frozenset(need for need in needs if not (past.there if need[2] else past.gone) >> need[1] & 1)

    def _past(self, needs: Iterable[Need]) -> _Moment:
        """Return what is so when ``needs`` are met, they themselves left out unless others bring them along."""
        gone = there = 0
        for _, one, received in needs:
            past = self._pasts[one]
            gone |= past.gone
            there |= past.there | (past.arrived if received else 0)
        return _Moment(gone | there, there, there)


def _runs(chunks: Sequence[int]) -> tuple[list[int], list[int]]:
    starts = [0, *(at for at, (one, other) in enumerate(pairwise(chunks), 1) if other != one + 1)]
    return [chunks[at] for at in starts], [end - start for start, end in pairwise([*starts, len(chunks)])]


class FaultError(Exception):
    """A step that does what it must not."""


class Where(NamedTuple):
    """A step of a file, for messages."""

    gpu: int
    block: int
    step: int

    def __str__(self) -> str:
        return f"GPU {self.gpu}, threadblock {self.block}, step {self.step}"


@define(eq=False)
class Runner(Generic[S]):
    """A thread block, which is at a step and has a past when it is done with the one before."""

    gpu: int
    number: int
    steps: Sequence[S]
    at: int = 0
    past: Past = START

    @property
    def step(self) -> S:
        return self.steps[self.at]

    @property
    def where(self) -> Where:
        return Where(self.gpu, self.number, self.at)


@define(eq=False)
class _Use:
    """The step that wrote a place last, -1 for none, and those that have read it since, as bits."""

    writer: int = -1
    readers: int = 0


@define(eq=False)
class Memory:
    """The buffers of all GPUs, whose sizes in chunks are given by letter."""

    layout: Layout
    _sizes: Sequence[Mapping[str, int]]
    _names: Sequence[Where]  # of the steps, by number
    values: dict[Slot, Value] = field(init=False)
    uses: dict[Slot, _Use] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.values = {slot: (chunk, 1 << slot[0]) for slot, chunk in self.layout.start()}

    def read(self, gpu: int, place: Place, count: int, step: int, before: int) -> list[Value]:
        """Return what ``step`` finds, which comes after the steps ``before``, all as bits."""
        found = []
        for slot, what in self._slots(gpu, place, count):
            if self.layout.pattern is not None and slot not in self.values:
                raise FaultError(f"reads {what}, where nothing has been put")
            use = self.uses.setdefault(slot, _Use())
            self._check_order(use.writer, before, f"reads {what}, which", "writes")
            use.readers |= 1 << step
            found.append(self.values.get(slot))
        return found

    def write(self, gpu: int, place: Place, values: list[Value], step: int, before: int) -> None:
        for (slot, what), value in zip(self._slots(gpu, place, len(values)), values, strict=True):
            use = self.uses.setdefault(slot, _Use())
            self._check_order(use.writer, before, f"writes {what}, which", "writes")
            others = use.readers & ~before & ~(1 << step)
            self._check_order(others.bit_length() - 1, before, f"writes {what}, which", "reads")
            use.writer, use.readers = step, 0
            self.values[slot] = value

    def _check_order(self, other: int, before: int, what: str, does: str) -> None:
        if other >= 0 and not before >> other & 1:
            raise FaultError(f"{what} {self._names[other]} {does}, and nothing says which of them comes first")

    def added(self, values: list[Value], others: list[Value]) -> list[Value]:
        for one, other in zip(values, others, strict=True):
            if one and other and (one[0] != other[0] or one[1] & other[1]):
                twice = ", which counts contributions twice" if one[0] == other[0] else ""
                raise FaultError(f"adds {self.said(other)} to {self.said(one)}{twice}")
        return [one and other and (one[0], one[1] | other[1]) for one, other in zip(values, others, strict=True)]

    def _slots(self, gpu: int, place: Place, count: int) -> list[tuple[Slot, str]]:
        size, name, end = self._sizes[gpu][place.buffer], _NAMES[place.buffer], place.offset + count
        if place.offset < 0 or end > size:
            raise FaultError(f"uses {name} chunks {place.offset} to {end - 1} of GPU {gpu}, which has {size}")
        offsets = range(place.offset, end)
        return [(self.layout.slot(gpu, place.buffer, at), f"{name} chunk {at} of GPU {gpu}") for at in offsets]

    def said(self, value: Value) -> str:
        if value is None:
            return "nothing"
        chunk, mask = value
        if self.layout.pattern is Pattern.ALL_TO_ALL:
            origin, place = divmod(chunk, self.layout.whole)
            return f"chunk {place} of GPU {origin}"
        return f"chunk {chunk} of GPUs {', '.join(str(rank) for rank in range(mask.bit_length()) if mask >> rank & 1)}"


class Machine(ABC, Generic[S]):
    """All GPUs, with the steps of each thread block of each."""

    def __init__(
        self, layout: Layout, sizes: Sequence[Mapping[str, int]], blocks: Iterable[Iterable[Sequence[S]]]
    ) -> None:
        self.runners = [
            [Runner(gpu, number, steps) for number, steps in enumerate(own)] for gpu, own in enumerate(blocks)
        ]
        self.names: list[Where] = []  # of the steps that have run, in that order
        self.memory = Memory(layout, sizes, self.names)
        self.journal = Journal(numbered=layout.pattern is not None)

    @abstractmethod
    def hindered(self, runner: Runner[S]) -> str | None:
        """Return what the step of ``runner`` waits for, in words, or ``None``."""

    @abstractmethod
    def do(self, runner: Runner[S], number: int) -> Past:
        """Do the step of ``runner``, the one of this ``number`` to run; raises ``FaultError``."""

    @abstractmethod
    def unmatched(self) -> tuple[int, str] | None:
        """Return the number of a step that was to meet another, which has not come, and what it does."""

    def transfers(self) -> Sequence[Phase]:
        """Run all steps; return the transfers that they make, of which every order of them makes the same."""
        waiting = [runner for gpu in self.runners for runner in gpu if runner.steps]
        while waiting:
            moved = [runner for runner in waiting if self._go_on(runner)]
            waiting = [runner for runner in waiting if runner.at < len(runner.steps)]
            if waiting and not moved:
                raise _error(waiting[0].where, f"never runs: it waits for {self.hindered(waiting[0])}")
        if (unmatched := self.unmatched()) is not None:
            raise _error(self.names[unmatched[0]], unmatched[1])
        self._check_end()
        return self.journal.phases

    def joined(self, past: Past, other: Past) -> Past:
        """Return what is so when both are."""
        return past[0] | other[0], self.journal.pruned(past[1] | other[1])

    def _go_on(self, runner: Runner[S]) -> bool:
        start = runner.at
        while runner.at < len(runner.steps) and self.hindered(runner) is None:
            self.names.append(runner.where)
            try:
                runner.past = self.do(runner, len(self.names) - 1)
            except FaultError as fault:
                raise _error(runner.where, str(fault)) from None
            runner.at += 1
        return runner.at > start

    def _check_end(self) -> None:
        memory = self.memory
        for slot, place, chunk, contributors in memory.layout.end():
            found, needed = memory.values.get(slot), (chunk, contributors)
            if found != needed:
                what = f"{place} has {memory.said(found)}, and needs {memory.said(needed)}"
                writer = memory.uses[slot].writer if slot in memory.uses else -1
                if writer >= 0:
                    raise _error(self.names[writer], f"leaves wrong data: {what} on GPU {slot[0]}", _PROVED)
                raise InputError(f"GPU {slot[0]}: no step puts it there: {what}", accepted=_PROVED)


def _error(where: Where, what: str, accepted: str | None = None) -> InputError:
    return InputError(f"{where}: {what}", accepted=accepted)
