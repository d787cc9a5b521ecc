"""Channels, rank by rank: which turn a rank takes next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from attrs import define

from fredfw.collectives import Schedule
from fredfw.simulation import order
from fredfw.simulation.order import Order
from fredfw.simulation.parties import Parties
from fredfw.simulation.turns import turn_bytes
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
        for one in phase.after + phase.behind:
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

    A group's turns have one order: next goes the turn that was ready first at a node that sends in it, or the one with
    the fewest bytes of those that are ready, where the channel is free. A node follows that order, but for turns in
    which it has no part. Else two ranks could each wait for what the other would send in the turn that it has put last.
    Where a turn lets go of its channel during its latencies, each repetition of its phases is an entry of its own.

    Args:
        keeps: Whether a turn keeps its channel until all its phases are over.
        entries: The phases of each entry of an order: those of a turn, or one.
        entry_of: The entry that each phase belongs to.
        turns: The number of each entry's turn, of ``first``.
        bytes: ``(entries,)`` bytes of the turn of each, where the smallest goes first; else ``None``.
        own_part: ``(nodes,)`` whether each takes part in a phase, by phase.
        part: ``(entries, nodes)`` whether each takes part.
        sends: ``(entries, nodes)`` whether each sends.
        since: ``(entries, nodes)`` since when the turn is ready where an entry of it has not begun; infinite if it is
            not ready.
        first: ``(turns, nodes)`` since when each is ready, whether it has begun or not.
        ready_phases: ``(nodes,)`` whether each phase is ready and has not begun.
        runs: ``(nodes,)`` entry that holds the channel, -1 for none.
        owes: ``(nodes,)`` phases of that entry that each has still to end.
        place: ``(nodes,)`` how far each is in the order of its group.
        order: Entries that each group has begun, in that order.
        changed: Groups where something has changed.
    """

    keeps: bool
    entries: list[list[int]]
    entry_of: dict[int, int]
    turns: list[int]
    bytes: FloatArray | None
    own_part: dict[int, BoolArray]
    part: BoolArray
    sends: BoolArray
    since: FloatArray
    first: FloatArray
    ready_phases: dict[int, BoolArray]
    runs: IntArray
    owes: IntArray
    place: IntArray
    order: list[list[int]]
    changed: set[int]

    @classmethod
    def of(
        cls, schedule: Schedule, order: Order, phases: Sequence[int], parties: Sequence[Parties], groups: int
    ) -> Channel:
        """Return the channel that ``phases`` of ``schedule`` share, with these ``parties``."""
        nodes = np.arange(len(parties[0].sends))
        keeps = schedule.release == "delivered"
        members: dict[int, list[int]] = {}
        for phase in phases:
            members.setdefault(order.turns[phase], []).append(phase)
        entries = list(members.values()) if keeps else [[phase] for phase in phases]
        numbers = {turn: number for number, turn in enumerate(members)}
        own_sends = {phase: one.sends.count(nodes) > 0 for phase, one in zip(phases, parties, strict=True)}
        own_part = {
            phase: own_sends[phase] | (one.receives.count(nodes) > 0)
            for phase, one in zip(phases, parties, strict=True)
        }
        size = None
        if schedule.policy == "smallest-first":
            size = turn_bytes(schedule, order)[[entry[0] for entry in entries]]
        return cls(
            keeps,
            entries,
            {phase: number for number, entry in enumerate(entries) for phase in entry},
            [numbers[order.turns[entry[0]]] for entry in entries],
            size,
            own_part,
            np.array([np.any([own_part[phase] for phase in entry], axis=0) for entry in entries]),
            np.array([np.any([own_sends[phase] for phase in entry], axis=0) for entry in entries]),
            np.full((len(entries), len(nodes)), np.inf),
            np.full((len(members), len(nodes)), np.inf),
            {phase: np.zeros(len(nodes), dtype=bool) for phase in phases},
            np.full(len(nodes), -1),
            np.zeros(len(nodes), dtype=np.intp),
            np.zeros(len(nodes), dtype=np.intp),
            [[] for _ in range(groups)],
            set(),
        )

    @property
    def phases(self) -> Iterable[int]:
        """The phases that share it."""
        return self.entry_of

    def ready(self, phase: int, nodes: IntArray, now: float) -> IntArray:
        """Note that ``nodes`` are ready for ``phase``; return those that need not wait.

        They have no part in it, or are in its turn.
        """
        entry, part = self.entry_of[phase], self.own_part[phase][nodes]
        waiting, running = nodes[part], nodes[~part]
        if self.keeps:
            inside = self.runs[waiting] == entry
            waiting, running = waiting[~inside], np.concatenate([running, waiting[inside]])
        first = self.first[self.turns[entry]]
        first[waiting] = np.minimum(first[waiting], now)
        self.since[entry, waiting] = first[waiting]
        self.ready_phases[phase][waiting] = True
        return running

    def release(self, phase: int, nodes: IntArray) -> None:
        """Note that ``nodes`` let go of the channel, as far as ``phase`` is concerned."""
        nodes = nodes[self.own_part[phase][nodes]]
        self.owes[nodes] -= 1
        self.runs[nodes[self.owes[nodes] == 0]] = -1

    def choose(self) -> list[tuple[int, IntArray]]:
        """Return the phases that begin now, each with the nodes where it does."""
        chosen: list[tuple[int, IntArray]] = []
        ranks = len(self.runs) // len(self.order)
        for group in sorted(self.changed):
            nodes, order = np.arange(group * ranks, (group + 1) * ranks), self.order[group]
            while True:
                self._skip(nodes, order)
                free = nodes[self.runs[nodes] < 0]
                place = self.place[free]
                for one in np.unique(place[place < len(order)]).tolist():
                    able = free[(place == one) & (self.since[order[one], free] < np.inf)]
                    if len(able):
                        self.place[able] += 1
                        chosen += self._begin(order[one], able)
                first = free[place == len(order)]
                since = np.where(self.sends[:, first], self.since[:, first], np.inf).min(axis=1, initial=np.inf)
                if not since.min() < np.inf:
                    break
                if self.bytes is not None:
                    size = np.where(since < np.inf, self.bytes, np.inf)
                    since = np.where(size == size.min(), since, np.inf)
                order.append(int(since.argmin()))  # ties: the phase declared first
        self.changed.clear()
        return chosen

    def _begin(self, entry: int, nodes: IntArray) -> list[tuple[int, IntArray]]:
        """Give the channel to ``entry`` at ``nodes``; return the phases of it that begin."""
        self.since[entry, nodes], self.runs[nodes] = np.inf, entry
        self.owes[nodes] = sum(self.own_part[phase][nodes].astype(np.intp) for phase in self.entries[entry])
        begins = []
        for phase in self.entries[entry]:
            able = nodes[self.ready_phases[phase][nodes]]
            if len(able):
                self.ready_phases[phase][able] = False
                begins.append((phase, able))
        return begins

    def _skip(self, nodes: IntArray, order: list[int]) -> None:
        """Take ``nodes`` past turns in which they have no part."""
        entries = np.array(order, dtype=np.intp)
        while True:
            behind = nodes[self.place[nodes] < len(order)]
            past = behind[~self.part[entries[self.place[behind]], behind]]
            if not len(past):
                return
            self.place[past] += 1
