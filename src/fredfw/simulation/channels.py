"""Channels, rank by rank: which phase a rank takes next of those that take turns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from attrs import define

from fredfw.collectives import Schedule
from fredfw.simulation import order
from fredfw.simulation.parties import Parties
from fredfw.typing import BoolArray, FloatArray, IntArray

# Which of more phases come after each other is not looked for; it takes the square of their number.
_PHASES = 10_000


def ancestors(schedule: Schedule) -> list[int] | None:
    """Return for each phase those that are done before it can begin, as bits of a number; ``None`` for too many."""
    if len(schedule.phases) > _PHASES:
        return None
    found: list[int] = []
    for phase in schedule.phases:
        bits = 0
        for one in phase.after:
            bits |= found[one] | 1 << one
        found.append(bits)
    return found


def choices(schedule: Schedule) -> dict[int, list[int]]:
    """Return the phases of each channel; none of channels whose phases come one after the other anyway."""
    channels = order.channels(schedule)
    before = ancestors(schedule) if channels else None
    if before is None:
        return channels
    return {
        number: members
        for number, members in channels.items()
        if not all(before[later] >> one & 1 for one, later in pairwise(members))
    }


@define(eq=False)
class Channel:
    """A channel in every group; nodes as ``Parties`` numbers them.

    A group's phases have one order: the phase goes next that was ready first at a node that sends in it, of those where
    the channel is free. A node follows that order, but for phases in which it has no part. Else two ranks could each
    wait for what the other would send in the phase that it has put last.

    Args:
        phases: Its phases.
        part: ``(phases, nodes)`` whether each takes part.
        sends: ``(phases, nodes)`` whether each sends.
        since: ``(phases, nodes)`` when each got ready for what it has not begun; infinite if it is not.
        busy: ``(nodes,)`` whether one runs.
        place: ``(nodes,)`` how far each is in the order of its group.
        order: Places in ``phases`` that each group has begun, in that order.
        changed: Groups where something has changed.
    """

    phases: list[int]
    part: BoolArray
    sends: BoolArray
    since: FloatArray
    busy: BoolArray
    place: IntArray
    order: list[list[int]]
    changed: set[int]

    @classmethod
    def of(cls, phases: list[int], parties: Sequence[Parties], groups: int) -> Channel:
        """Return the channel that ``phases`` share, with these ``parties``."""
        nodes = np.arange(len(parties[0].sends))
        sends = np.array([one.sends.count(nodes) > 0 for one in parties])
        part = sends | np.array([one.receives.count(nodes) > 0 for one in parties])
        busy, place = np.zeros(len(nodes), dtype=bool), np.zeros(len(nodes), dtype=np.intp)
        return cls(phases, part, sends, np.full(part.shape, np.inf), busy, place, [[] for _ in range(groups)], set())

    def ready(self, phase: int, nodes: IntArray, now: float) -> IntArray:
        """Note that ``nodes`` are ready for ``phase``; return those that have no part in it and need not wait."""
        row = self.phases.index(phase)
        waiting = self.part[row, nodes]
        self.since[row, nodes[waiting]] = now
        idle: IntArray = nodes[~waiting]
        return idle

    def release(self, phase: int, nodes: IntArray) -> None:
        """Note that ``nodes`` are done with ``phase``."""
        self.busy[nodes[self.part[self.phases.index(phase), nodes]]] = False

    def choose(self) -> list[tuple[int, IntArray]]:
        """Return the phases that begin now, each with the nodes where it does."""
        chosen = []
        ranks = len(self.busy) // len(self.order)
        for group in sorted(self.changed):
            nodes, order = np.arange(group * ranks, (group + 1) * ranks), self.order[group]
            while True:
                self._skip(nodes, order)
                free = nodes[~self.busy[nodes]]
                place = self.place[free]
                for one in np.unique(place[place < len(order)]).tolist():
                    row = order[one]
                    able = free[(place == one) & (self.since[row, free] < np.inf)]
                    if len(able):
                        self.since[row, able], self.busy[able] = np.inf, True
                        self.place[able] += 1
                        chosen.append((self.phases[row], able))
                first = free[place == len(order)]
                since = np.where(self.sends[:, first], self.since[:, first], np.inf).min(axis=1, initial=np.inf)
                if not since.min() < np.inf:
                    break
                order.append(int(since.argmin()))  # ties: the phase declared first
        self.changed.clear()
        return chosen

    def _skip(self, nodes: IntArray, order: list[int]) -> None:
        """Take ``nodes`` past phases in which they have no part."""
        rows = np.array(order, dtype=np.intp)
        while True:
            behind = nodes[self.place[nodes] < len(order)]
            past = behind[~self.part[rows[self.place[behind]], behind]]
            if not len(past):
                return
            self.place[past] += 1
