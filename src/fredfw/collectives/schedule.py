"""What an algorithm writes: phases of transfers between ranks, as arrays, without links and without times.

Data is cut into numbered chunks. Transfers of a phase start together; it may repeat, each time on other chunks, so that
a ring over 100,000 ranks is one phase and not 99,999. Phases form a DAG.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import ArrayLike

from fredfw import arrays, limits
from fredfw.collectives.pattern import Pattern
from fredfw.errors import ScheduleError
from fredfw.typing import BoolArray, FloatArray, IntArray

COLUMNS = "source", "destination", "base", "offset", "stride", "modulus", "count", "reduce", "stream"
"""What a phase has for each row."""
POLICIES = "fifo", "smallest-first"
RELEASES = "delivered", "drained"
PROOFS = "replay", "author", "none"


@frozen(eq=False)
class Phase:
    """Transfers that start together; all reads of a repetition happen before its writes.

    At repetition ``t`` (from 0), row ``i`` carries from rank ``source[i]`` to ``destination[i]`` the chunks
    ``base[i] + (offset[i] + t * stride[i] + j) mod modulus[i]`` for ``j = 0 .. count[i] - 1``.

    Rows that share a number in ``stream`` are *one* in-network transfer: the network combines the chunks of all its
    sources and delivers the result to all its destinations, over a tree. A destination that is a source gets the result
    in place of its own; another adds it to (``reduce``) or replaces by it (copy) what it holds. A row outside any
    stream is the 1-to-1 case of it. Those of one source and destination are one flow, if all reduce or none does.

    Columns are ``(rows,)``; each row carries at least one chunk, and none twice, else it is a ``ScheduleError``.

    Args:
        base: First chunk of the block the row works in.
        offset: Where in the block repetition 0 starts.
        stride: How far the start moves with each repetition.
        modulus: Chunks in the block.
        count: Chunks carried, from 1 to the whole block.
        reduce: Whether the destination adds what arrives to its own.
        stream: Number of the in-network transfer, -1 for none; or ``None`` if no row is in one.
        repeat: How often the phase runs, one repetition after the other.
        after: Indices of the phases of the same schedule that must be done first.
        channel: Number of the channel on which the phase takes a turn, or -1. In a group, a channel has one at a time.
        turn: Number of the turn that it shares with phases of its channel until all are over; -1 for one of its own.
        behind: Indices of earlier phases whose bytes must have left their sources first, as sends of a thread block.
        room: Indices of earlier phases that the destinations must be done with first, to have a free slot.
    """

    source: IntArray
    destination: IntArray
    base: IntArray
    offset: IntArray
    stride: IntArray
    modulus: IntArray
    count: IntArray
    reduce: BoolArray
    stream: IntArray | None = None
    repeat: int = 1
    after: tuple[int, ...] = ()
    channel: int = -1
    turn: int = -1
    behind: tuple[int, ...] = ()
    room: tuple[int, ...] = ()

    def __attrs_post_init__(self) -> None:
        columns = (self.destination, self.base, self.offset, self.stride, self.modulus, self.count, self.reduce)
        if any(column.shape != self.source.shape for column in columns):
            raise ScheduleError(f"the columns of a phase have shapes {[column.shape for column in columns]}")
        if self.stream is not None and self.stream.shape != self.source.shape:
            raise ScheduleError(f"a phase of {len(self)} rows has streams of shape {self.stream.shape}")
        count, modulus = _distinct(self.count), _distinct(self.modulus)
        if ((count < 1) | (count > modulus)).any():
            row = int(np.flatnonzero((self.count < 1) | (self.count > self.modulus))[0])
            raise ScheduleError(f"row {row} carries {self.count[row]} chunks of a block of {self.modulus[row]}")

    @classmethod
    def of(
        cls,
        source: ArrayLike,
        destination: ArrayLike,
        chunk: ArrayLike,
        *,
        count: ArrayLike = 1,
        base: ArrayLike = 0,
        stride: ArrayLike = 0,
        modulus: ArrayLike | None = None,
        reduce: ArrayLike = False,
        stream: ArrayLike | None = None,
        repeat: int = 1,
        after: tuple[int, ...] = (),
        channel: int = -1,
        turn: int = -1,
        behind: tuple[int, ...] = (),
        room: tuple[int, ...] = (),
    ) -> Phase:
        """Build a phase, broadcasting scalars over the rows; arrays are kept, not copied.

        ``chunk`` is the first chunk of repetition 0, relative to ``base``. Without ``modulus`` nothing wraps.
        """
        if modulus is None:
            modulus = np.asarray(chunk) + np.asarray(count) + np.maximum(stride, 0) * (repeat - 1)
        rows = [np.asarray(row, np.intp) for row in (source, destination, base, chunk, stride, modulus, count)]
        shape = np.broadcast_shapes((1,), *(row.shape for row in rows))
        columns = [row if row.shape == shape else np.broadcast_to(row, shape) for row in rows]
        adds = np.broadcast_to(np.asarray(reduce, dtype=bool), shape)
        streams = None if stream is None else np.broadcast_to(np.asarray(stream, dtype=np.intp), shape)
        given: dict[str, Any] = dict(zip(COLUMNS, (*columns, adds, streams), strict=True))
        return cls(**given, repeat=repeat, after=after, channel=channel, turn=turn, behind=behind, room=room)

    @property
    def waits(self) -> tuple[int, ...]:
        """The phases that it waits for, in whatever way."""
        return self.after + self.behind + self.room

    def __len__(self) -> int:
        return len(self.source)


def _distinct(column: IntArray) -> IntArray:
    """Return one row of a column that repeats it, as scalars that were broadcast do; else the column."""
    return column[:1] if column.strides == (0,) else column


def _bytes(value: ArrayLike) -> float | FloatArray:
    array: FloatArray = np.asarray(value, dtype=np.float64)
    return float(array) if array.ndim == 0 else array


def _phases(phases: Iterable[Phase]) -> tuple[Phase, ...]:
    return tuple(phases)


@frozen(eq=False)
class Schedule:
    """Phases that carry out one pattern; ``ScheduleError`` where they name a rank, chunk or phase that does not exist.

    Args:
        chunk_bytes: Bytes of every chunk, or ``(chunks,)`` bytes of each.
        phases: In an order in which every phase comes after those it depends on.
        owner: ``(chunks,)`` rank where each ends (all-gather, gather: starts); ``None`` where a pattern has none.
        origin: ``(chunks,)`` rank that an all-to-all chunk starts from.
        root: The special rank of a rooted pattern; a point-to-point goes from ``root`` to the other rank.
        policy: Which turn a free channel takes of those with a ready phase: the one ready longest (``fifo``), or with
            the fewest bytes (``smallest-first``), of equal ones the longest ready, then the one declared first.
        release: A turn ends when all it sends is ``delivered``, or ``drained``: the next one's bytes follow directly.
        proof: How it is known that the phases carry out the pattern. ``replay``: they say all that happens to the
            chunks, so ``check`` can replay them. ``author``: who wrote them has proved it, by what ranks do between
            transfers; sizes and sums of bytes are compared. ``none``: nobody says so; results have a note.
    """

    pattern: Pattern
    ranks: int
    chunk_bytes: float | FloatArray = field(converter=_bytes)
    chunks: int
    phases: tuple[Phase, ...] = field(converter=_phases)
    owner: IntArray | None = None
    origin: IntArray | None = None
    root: int = 0
    policy: str = "fifo"
    release: str = "delivered"
    proof: str = "replay"

    def __attrs_post_init__(self) -> None:
        for name, accepted in (("policy", POLICIES), ("release", RELEASES), ("proof", PROOFS)):
            if getattr(self, name) not in accepted:
                raise ScheduleError(f"{name} is {getattr(self, name)!r}, accepted are {', '.join(accepted)}")
        for what in ("chunk_bytes", "owner", "origin"):
            column = getattr(self, what)
            if isinstance(column, np.ndarray) and column.shape != (self.chunks,):
                raise ScheduleError(f"{what} has shape {column.shape} for {self.chunks} chunks")
        for what, ranks in (("owner", self.owner), ("origin", self.origin)):
            if ranks is not None and ranks.size and (ranks.min() < 0 or ranks.max() >= self.ranks):
                raise ScheduleError(f"a chunk has an {what} outside 0..{self.ranks - 1}")
        extents: dict[int, tuple[int, int]] = {}  # of columns, which phases may share
        for index, phase in enumerate(self.phases):
            if any(not 0 <= before < index for before in phase.waits):
                raise ScheduleError(f"phase {index} waits for phases {phase.waits}, not all of which are earlier")
            if phase.repeat < 1:
                raise ScheduleError(f"phase {index} repeats {phase.repeat} times")
            if not len(phase):
                continue
            for column in (phase.source, phase.destination, phase.base):
                if id(column) not in extents:
                    extents[id(column)] = int(column.min()), int(column.max())
            modulus = _distinct(phase.modulus)
            last = extents[id(phase.base)][1] + int(modulus[0]) if len(modulus) == 1 else phase.base + modulus
            for what, (lowest, highest), limit in (
                ("source", extents[id(phase.source)], self.ranks),
                ("destination", extents[id(phase.destination)], self.ranks),
                ("chunk", (extents[id(phase.base)][0], int(np.max(last)) - 1), self.chunks),
            ):
                if lowest < 0 or highest >= limit:
                    raise ScheduleError(f"phase {index} has a {what} outside 0..{limit - 1}")

    @cached_property
    def key(self) -> str:
        """Equal for schedules that do the same; as short for large ones as for small ones."""
        parts = [str(self.pattern), self.ranks, self.chunks, self.chunk_bytes, self.owner, self.origin, self.root]
        parts += [self.policy, self.release, self.proof]
        for phase in self.phases:
            parts += [len(phase), *(getattr(phase, column) for column in COLUMNS)]
            parts += [phase.repeat, phase.after, phase.channel, phase.turn, phase.behind, phase.room]
        content = sha256()
        for part in parts:
            content.update(np.ascontiguousarray(part).data if isinstance(part, np.ndarray) else f"{part};".encode())
        return content.hexdigest()

    @property
    def size(self) -> float:
        """Bytes of all chunks: the request's size, or the sum of every rank's buffer for all-to-all."""
        if isinstance(self.chunk_bytes, float):
            return self.chunk_bytes * self.chunks
        return float(self.chunk_bytes.sum())

    @property
    def steps(self) -> int:
        """Repetitions of all phases together."""
        return sum(phase.repeat for phase in self.phases)

    def row_bytes(self, phase: Phase, repetition: int = 0) -> FloatArray:
        """Return the ``(rows,)`` bytes that each row of ``phase`` carries at ``repetition``."""
        each: float | FloatArray = self.chunk_bytes
        if not isinstance(each, float):
            if not self._even(phase):
                row, chunk = carried(phase, repetition)
                return arrays.totals(row, each[chunk], len(phase))
            each = each[phase.base]
        return phase.count.astype(np.float64) * each

    def uniform(self, phase: Phase) -> bool:
        """Return whether the chunks of each row's block are equal, so that all repetitions carry the same bytes."""
        return phase.repeat == 1 or self._even(phase)

    def _even(self, phase: Phase) -> bool:
        runs = self._runs
        if runs is None or not len(phase) or runs[phase.base.min()] == runs[(phase.base + phase.modulus).max() - 1]:
            return True
        return bool((runs[phase.base] == runs[phase.base + phase.modulus - 1]).all())

    @cached_property
    def _runs(self) -> IntArray | None:
        """Number of the run of equal chunks that each chunk is in; ``None`` if all are equal."""
        if isinstance(self.chunk_bytes, float):
            return None
        return np.cumsum(np.diff(self.chunk_bytes, prepend=self.chunk_bytes[:1]) != 0)


def carried(phase: Phase, repetition: int) -> tuple[IntArray, IntArray]:
    """Return row and chunk of everything that ``phase`` carries at ``repetition``, row by row."""
    row = np.repeat(np.arange(len(phase)), phase.count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(phase.count) - phase.count, phase.count)
    start = phase.offset + repetition * phase.stride
    chunk: IntArray = phase.base[row] + (start[row] + place) % phase.modulus[row]
    return row, chunk


def holders(schedule: Schedule) -> tuple[IntArray | None, IntArray | None]:
    """Return the ``(chunks,)`` ranks that have each chunk before and after; ``None`` where all have it."""
    before, after = (
        None if holder == "all" else np.broadcast_to(getattr(schedule, holder), schedule.chunks)
        for holder in (schedule.pattern.before, schedule.pattern.after)
    )
    return before, after


def turns(schedule: Schedule) -> list[int]:
    """Return for each phase the first that has part in its turn; -1 for those without a channel."""
    first: dict[tuple[int, int], int] = {}
    return [
        -1 if phase.channel < 0 else index if phase.turn < 0 else first.setdefault((phase.channel, phase.turn), index)
        for index, phase in enumerate(schedule.phases)
    ]


def sequence(first: Schedule, second: Schedule, pattern: Pattern) -> Schedule:
    """Return ``first``, whose channels it has, and then ``second``; ``ScheduleError`` if ranks or chunks differ."""
    if (first.ranks, first.chunks) != (second.ranks, second.chunks):
        message = f"{first.chunks} chunks on {first.ranks} ranks cannot go on as {second.chunks} on {second.ranks}"
        raise ScheduleError(message)
    inner = {index for phase in first.phases for index in phase.after + phase.room}
    last = tuple(index for index in range(len(first.phases)) if index not in inner)
    owner = first.owner if first.owner is not None else second.owner
    return evolve(
        first,
        pattern=pattern,
        phases=[*first.phases, *_moved(second, len(first.phases), _turns(first), first=last)],
        owner=owner if pattern.owned else None,
        root=first.root if first.pattern.rooted else second.root,
        proof=_weakest([first, second]),
    )


def parallel(parts: Sequence[Schedule]) -> Schedule:
    """Return a schedule in which all ``parts`` run side by side, each on chunks of its own and in turns of its own.

    ``ScheduleError`` where they differ in their pattern, group, root or channel policy.
    """
    if len({(part.pattern, part.ranks, part.root) for part in parts}) != 1:
        raise ScheduleError("parts side by side must be of one pattern, one group and one root")
    if len({(part.policy, part.release) for part in parts}) != 1:
        raise ScheduleError("parts side by side must be of one channel policy, and release channels alike")
    phases: list[Phase] = []
    chunks = turns = 0
    for part in parts:
        phases += _moved(part, len(phases), turns, chunks)
        chunks += part.chunks
        turns += _turns(part)
    equal = len({part.chunk_bytes if isinstance(part.chunk_bytes, float) else None for part in parts}) == 1
    chunk_bytes = parts[0].chunk_bytes
    if not equal or not isinstance(chunk_bytes, float):
        chunk_bytes = np.concatenate([np.broadcast_to(part.chunk_bytes, part.chunks) for part in parts])
    return evolve(
        parts[0],
        chunk_bytes=chunk_bytes,
        chunks=chunks,
        phases=phases,
        owner=_concatenated(part.owner for part in parts),
        origin=_concatenated(part.origin for part in parts),
        proof=_weakest(parts),
    )


def _concatenated(columns: Iterable[IntArray | None]) -> IntArray | None:
    known = [column for column in columns if column is not None]
    return np.concatenate(known) if known else None


def _moved(schedule: Schedule, phases: int, turns: int, chunks: int = 0, *, first: tuple[int, ...] = ()) -> list[Phase]:
    """Return the phases of ``schedule`` behind so many others; those that wait for none come after ``first``."""
    # Phases that share a column, as a reduce-scatter and its all-gather do, go on sharing it.
    bases = {id(phase.base): phase.base for phase in schedule.phases}
    bases = {key: base + chunks if chunks else base for key, base in bases.items()}
    found = []
    for phase in schedule.phases:
        waits = phase.after, phase.behind, phase.room
        after, behind, room = (tuple(one + phases for one in part) for part in waits)
        turn = phase.turn if phase.turn < 0 else phase.turn + turns
        base = bases[id(phase.base)]
        found.append(evolve(phase, base=base, after=after or first, behind=behind, room=room, turn=turn))
    return found


def _turns(schedule: Schedule) -> int:
    return 1 + max((phase.turn for phase in schedule.phases), default=-1)


def _weakest(parts: Sequence[Schedule]) -> str:
    return max((part.proof for part in parts), key=PROOFS.index)


def in_series(phases: Iterable[Phase]) -> tuple[Phase, ...]:
    """Return ``phases``, each after the one before it."""
    return tuple(evolve(phase, after=(index - 1,) if index else ()) for index, phase in enumerate(phases))


def pipelined(schedule: Schedule, chunks: int) -> Schedule:
    """Return ``schedule`` done ``chunks`` times side by side, in turns on its channels: a pipeline of equal shares."""
    if chunks == 1:
        return schedule
    limits.check("phases", len(schedule.phases) * chunks, key="chunks")
    limits.check("transfers", sum(map(len, schedule.phases)) * chunks, key="chunks")
    return parallel([evolve(schedule, chunk_bytes=schedule.chunk_bytes / chunks)] * chunks)
