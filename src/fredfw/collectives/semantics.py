"""The symbolic check that a schedule does what its pattern promises.

The state says which ranks' contributions are in each rank's copy of each chunk. A pattern is where the chunks start and
where they must end; at the end, a chunk holds the contributions of all ranks that started with it, each once.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from fredfw.collectives.algorithm import CollectiveRequest
from fredfw.collectives.amounts import check_sizes
from fredfw.collectives.schedule import Phase, Schedule, carried, holders
from fredfw.errors import ScheduleError
from fredfw.typing import BoolArray, IntArray


def check(schedule: Schedule, request: CollectiveRequest | None = None) -> None:
    """Replay ``schedule``, every repetition of it, and raise a ``ScheduleError`` unless it carries out its pattern.

    All reads of a repetition happen before its writes. A chunk may be replaced by a copy as often as one likes, but two
    writes to it in one repetition must both add, or both bring the same. Two phases that the DAG does not order must
    not touch the same chunk of the same rank, unless both only read it; turns on a channel do not order them.

    Sizes are compared as ``check_sizes`` does, and nothing else where the ``proof`` is not ``replay``; where a
    ``request`` is given, pattern, group, root and bytes must be its. Where chunks have sizes of their own
    (all-to-all-v), one of no bytes need not arrive. Takes ``(ranks + 10 * phases) * ranks * chunks`` bytes or so.
    """
    check_sizes(schedule, request)
    if schedule.proof != "replay":
        return
    ranks = np.arange(schedule.ranks)[:, None]
    every = np.ones((schedule.ranks, schedule.chunks), dtype=bool)
    start, end = (every if holder is None else ranks == holder for holder in holders(schedule))
    held = start[:, :, None] & np.eye(schedule.ranks, dtype=bool)[:, None, :]
    touched = np.zeros((2, len(schedule.phases), *start.shape), dtype=bool)
    for index, phase in enumerate(schedule.phases):
        for repetition in range(phase.repeat):
            where = f"phase {index}, repetition {repetition}"
            reads, arrivals = _read(held, phase, repetition, where)
            touched[0, index] |= reads
            touched[1, index, arrivals[0], arrivals[1]] = True
            _write(held, arrivals, where)
    _check_races(schedule, *touched)
    if not isinstance(schedule.chunk_bytes, float):
        end = end & (schedule.chunk_bytes > 0)
    goal = start.T  # (chunks, contributors)
    for rank, chunk in np.argwhere(end & (held != goal).any(axis=2)):
        had, wanted = np.flatnonzero(held[rank, chunk]), np.flatnonzero(goal[chunk])
        told = f"after the last phase, rank {rank} has chunk {chunk} with the contributions of ranks {had.tolist()}"
        raise ScheduleError(f"{told}; {schedule.pattern} needs those of {wanted.tolist()}")


# What a repetition delivers: the ``(arrivals,)`` ranks where, which chunk, the ``(arrivals, contributors)`` whose
# contributions are in it, and whether it is added to what is there, instead of replacing it.
_Arrivals: TypeAlias = tuple[IntArray, IntArray, BoolArray, BoolArray]


def _read(held: BoolArray, phase: Phase, repetition: int, where: str) -> tuple[BoolArray, _Arrivals]:
    """Return the ``(ranks, chunks)`` that are read, and what arrives."""
    row, chunk = carried(phase, repetition)
    source = phase.source[row]
    for at in np.flatnonzero(~held[source, chunk].any(axis=1)):
        raise ScheduleError(f"{where}: rank {source[at]} sends chunk {chunk[at]}, which it does not hold")
    reads = np.zeros(held.shape[:2], dtype=bool)
    reads[source, chunk] = True
    stream = np.full(len(phase), -1) if phase.stream is None else phase.stream
    alone = stream[row] < 0
    one = row[alone]
    parts = [(phase.destination[one], chunk[alone], held[source, chunk][alone], phase.reduce[one])]
    for number in np.unique(stream[stream >= 0]):
        carries = np.unique(chunk[stream[row] == number])
        parts.append(_stream(held, phase, np.flatnonzero(stream == number), carries, f"{where}, stream {number}"))
    ranks, chunks, values, adds = map(np.concatenate, zip(*parts, strict=True))
    return reads, (ranks, chunks, values, adds)


def _stream(held: BoolArray, phase: Phase, rows: IntArray, chunks: IntArray, where: str) -> _Arrivals:
    """Return what the in-network transfer of ``rows`` delivers, each of ``chunks`` to each destination."""
    if (phase.count[rows] != len(chunks)).any() or len(np.unique(phase.reduce[rows])) > 1:
        raise ScheduleError(f"{where}: its rows differ in their chunks or in whether they reduce")
    sources, destinations = np.unique(phase.source[rows]), np.unique(phase.destination[rows])
    parts = held[np.ix_(sources, chunks)].sum(axis=0)
    for chunk, contributor in np.argwhere(parts > 1):
        raise ScheduleError(f"{where}: it adds the contribution of rank {contributor} to chunk {chunks[chunk]} twice")
    return (
        np.repeat(destinations, len(chunks)),
        np.tile(chunks, len(destinations)),
        np.tile(parts > 0, (len(destinations), 1)),
        # A destination that is a source has its own part in what arrives already.
        np.repeat(~np.isin(destinations, sources) & phase.reduce[rows[0]], len(chunks)),
    )


def _write(held: BoolArray, arrivals: _Arrivals, where: str) -> None:
    ranks, chunks, values, adding = arrivals
    cell, group = np.unique(ranks * held.shape[1] + chunks, return_inverse=True)
    rank, chunk = np.divmod(cell, held.shape[1])
    last = np.zeros(len(cell), dtype=np.intp)
    last[group] = np.arange(len(group))
    adds = adding[last]
    differ = adding != adds[group]
    differ |= ~adding & (values != values[last[group]]).any(axis=1)
    for at in np.flatnonzero(differ):
        raise ScheduleError(f"{where}: two writes to chunk {chunks[at]} of rank {ranks[at]} conflict")
    before = held[rank, chunk]
    for at in np.flatnonzero(adds & ~before.any(axis=1)):
        raise ScheduleError(f"{where}: rank {rank[at]} adds to chunk {chunk[at]}, which it does not hold")
    total = np.where(adds[:, None], before, False).astype(np.intp)
    np.add.at(total, group[adding], values[adding])
    for at, contributor in np.argwhere(total > 1):
        message = f"{where}: rank {rank[at]} adds the contribution of rank {contributor} to chunk {chunk[at]} twice"
        raise ScheduleError(message)
    held[rank, chunk] = np.where(adds[:, None], total > 0, values[last])


def _check_races(schedule: Schedule, reads: BoolArray, writes: BoolArray) -> None:
    """Refuse phases without an order of which one writes what the other touches; arrays: (phases, ranks, chunks)."""
    phases = len(schedule.phases)
    ordered = np.eye(phases, dtype=bool)
    for index, phase in enumerate(schedule.phases):
        for before in phase.after + phase.room:
            ordered[:, index] |= ordered[:, before]
        for before in phase.behind:  # which may be under way still, but not what it has waited for
            ordered[:, index] |= ordered[:, before] & (np.arange(phases) != before)
    apart = ~ordered & ~ordered.T
    if not apart.any():
        return
    # A product of floats, because NumPy has a fast one only for them; it counts the cells in common.
    written = writes.reshape(phases, schedule.ranks * schedule.chunks).astype(np.float32)
    touched = (reads | writes).reshape(written.shape).astype(np.float32)
    for one, other in np.argwhere((written @ touched.T > 0) & apart):
        rank, chunk = np.argwhere(writes[one] & (reads | writes)[other])[0]
        both = f"phases {min(one, other)} and {max(one, other)} are not ordered"
        raise ScheduleError(f"{both}, and phase {one} writes chunk {chunk} of rank {rank} that both use")
