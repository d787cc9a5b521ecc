"""Which entries a rank waits for in a schedule that the ranks of a group enter one by one, whatever its flows take."""

from __future__ import annotations

from functools import partial

import numpy as np

from fredfw.collectives import Schedule
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.parties import Parties
from fredfw.typing import IntArray

NEVER = np.iinfo(np.intp).max
"""Mark of who has not entered."""


def last_awaited(lowering: Lowering, schedule: Schedule, marks: IntArray, *, rendezvous: bool) -> IntArray:
    """Return the highest mark among the ranks that each waits for until it is done with all phases, itself included.

    It is what the recurrence of times says of flows that take no time.

    Args:
        lowering: Knows the ends of flows.
        schedule: What is run.
        marks: ``(G, ranks)`` mark of the entry of each rank, ``NEVER`` for those that have not entered.
        rendezvous: Whether a flow waits for its destinations too.

    Returns:
        ``(G, ranks)``, ``NEVER`` for those that wait for somebody who has not entered.
    """
    highest = marks.max(axis=1, keepdims=True)
    if (marks == highest).all():
        return marks
    uses = np.zeros(len(schedule.phases), dtype=np.intp)
    for phase in schedule.phases:
        np.add.at(uses, list(phase.waits), 1)
    done: dict[int, IntArray] = {}
    last = marks
    for index, phase in enumerate(schedule.phases):
        ready = room = marks
        for one in phase.after + phase.behind:
            ready = np.maximum(ready, done[one])
        for one in phase.room:
            room = np.maximum(room, done[one])
        for one in phase.waits:
            uses[one] -= 1
            if not uses[one]:
                del done[one]
        build = partial(Parties.of, lowering.ends(phase), schedule.ranks, 1, rendezvous=rendezvous)
        parties = lowering.built(build, None, phase, Parties, rendezvous)
        for repetition in range(phase.repeat):
            through = _step(parties, ready, room if phase.room and not repetition else None)
            if np.array_equal(through, ready):
                break
            ready = through
        last = np.maximum(last, ready)
        if (last == highest).all():
            break
        if uses[index]:
            done[index] = ready
    return last


def _step(parties: Parties, ready: IntArray, room: IntArray | None = None) -> IntArray:
    """Return the highest mark that ``(G, ranks)`` ranks wait for in a step that they are ready for with these.

    Where there are marks of the ``room`` that ranks have for it, flows wait for that at their destinations.
    """
    if not len(parties.starters):
        return ready
    begin = np.maximum.reduceat(ready[:, parties.starters.values], parties.starters.offsets[:-1], axis=1)
    if room is not None:
        table = parties.destinations
        begin = np.maximum(begin, np.maximum.reduceat(room[:, table.values], table.offsets[:-1], axis=1))
    through = ready.copy()
    for table in (parties.sends, parties.receives):
        nodes = np.flatnonzero(np.diff(table.offsets))
        highest = np.maximum.reduceat(begin[:, table.values], table.offsets[nodes], axis=1)
        through[:, nodes] = np.maximum(through[:, nodes], highest)
    return through
