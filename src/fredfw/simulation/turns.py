"""Channels of groups that keep in step: which turn runs in each group, and which is next."""

from __future__ import annotations

import numpy as np
from attrs import define

from fredfw.collectives import Schedule
from fredfw.simulation.order import Order
from fredfw.typing import BoolArray, FloatArray, IntArray


@define(eq=False)
class Turns:
    """The turns of the phases of a schedule in ``G`` groups.

    Args:
        order: What follows from the schedule.
        keeps: Whether a turn keeps its channel until all its phases are over. Else it lets go of it whenever what it
            sends has drained, but the rest of it goes before turns that come later.
        bytes: ``(phases,)`` bytes of the turn of each, where the channel takes the smallest first; else ``None``.
        since: ``(phases, G)`` since when the turn of each is ready; infinite if the phase is not, or has begun.
        first: ``(G,)`` since when a turn is ready, of those that get ready more than once.
        held: ``(G,)`` turn that holds each channel, -1 for none.
        members: The phases of each turn.
        holds: ``(phases, G)`` whether each has still to let go of its channel.
    """

    order: Order
    keeps: bool
    bytes: FloatArray | None
    since: FloatArray
    first: dict[int, FloatArray]
    held: dict[int, IntArray]
    members: dict[int, list[int]]
    holds: BoolArray

    @classmethod
    def of(cls, schedule: Schedule, order: Order, groups: int) -> Turns:
        """Return the turns of ``schedule``, none of which has begun."""
        members: dict[int, list[int]] = {}
        for index, turn in enumerate(order.turns):
            members.setdefault(turn, []).append(index)
        shape = len(schedule.phases), groups
        return cls(
            order,
            schedule.release == "delivered",
            turn_bytes(schedule, order) if schedule.policy == "smallest-first" else None,
            np.full(shape, np.inf),
            {
                turn: np.full(groups, np.inf)
                for turn, phases in members.items()
                if sum(schedule.phases[index].repeat for index in phases) > 1
            },
            {channel: np.full(groups, -1) for channel in order.channels},
            members,
            np.ones(shape, dtype=bool),
        )

    def withdraw(self) -> None:
        """Forget what is ready."""
        self.since[:] = np.inf

    def ready(self, index: int, groups: IntArray, channel: int, now: float) -> IntArray:
        """Note that phase ``index`` is ready in ``groups``; return those where its turn has the channel already."""
        turn, at_once = self.order.turns[index], groups[:0]
        if turn not in self.first:
            self.since[index, groups] = now
            return at_once
        if self.keeps:
            running = self.held[channel][groups] == turn
            at_once, groups = groups[running], groups[~running]
        first = self.first[turn]
        first[groups] = self.since[index, groups] = np.minimum(first[groups], now)
        return at_once

    def choose(self, channel: int) -> list[tuple[int, IntArray]]:
        """Return the phases that begin now on ``channel``, each with the groups where it does."""
        members, held = self.order.channels[channel], self.held[channel]
        since = self.since[members]
        if self.bytes is not None:
            size = np.where(since < np.inf, self.bytes[members, None], np.inf)
            since = np.where(size == size.min(axis=0), since, np.inf)
        choice = since.argmin(axis=0)  # ties: the phase declared first
        able = (held < 0) & np.isfinite(since.min(axis=0))
        chosen = []
        for position in sorted(set(choice[able].tolist())):
            groups, phase = np.flatnonzero(able & (choice == position)), int(members[position])
            held[groups] = self.order.turns[phase]
            for index in self.members[self.order.turns[phase]] if self.keeps else [phase]:
                begins = groups[self.since[index, groups] < np.inf]
                if len(begins):
                    self.since[index, begins] = np.inf
                    chosen.append((index, begins))
        return chosen

    def leave(self, index: int, groups: IntArray, channel: int) -> bool:
        """Note that phase ``index`` lets go of ``channel`` in ``groups``; return whether it is free in any of them."""
        groups = groups[self.holds[index, groups]]
        self.holds[index, groups] = False
        members = self.members[self.order.turns[index]]
        if len(members) > 1 and self.keeps:
            groups = groups[~self.holds[members][:, groups].any(axis=0)]
        self.held[channel][groups] = -1
        return len(groups) > 0

    def take_again(self, index: int, groups: IntArray) -> None:
        """Note that phase ``index``, which has let go of its channel, has repetitions to come in ``groups``."""
        self.holds[index, groups] = True


def turn_bytes(schedule: Schedule, order: Order) -> FloatArray:
    """Return the ``(phases,)`` bytes that the turn of each phase sends in a group."""
    each = np.array([float(schedule.row_bytes(phase).sum()) * phase.repeat for phase in schedule.phases])
    turn = np.array(order.turns, dtype=np.intp)
    total = np.bincount(np.maximum(turn, 0), each * (turn >= 0), len(each)).astype(float)
    return total[turn]
