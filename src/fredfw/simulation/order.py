"""What the phases of a schedule wait for, the other way round."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from fredfw.collectives import Schedule
from fredfw.typing import IntArray


@frozen(eq=False)
class Order:
    """What follows from a schedule alone for whoever runs it.

    Args:
        dependents: For each phase those that come directly after it.
        channels: The phases that take turns, by channel.
        turns: The turn of each phase: that of the first phase which has part in it; -1 for one without a channel.
        steps: Repetitions of all phases together.
        last: The phase that comes after all others, directly or through others; -1 if there is none.
    """

    dependents: list[list[int]]
    channels: dict[int, IntArray]
    turns: list[int]
    steps: int
    last: int

    @classmethod
    def of(cls, schedule: Schedule) -> Order:
        """Return the order of the phases of ``schedule``."""
        after = dependents(schedule)
        ends = [index for index, others in enumerate(after) if not others]
        members = {one: np.array(found) for one, found in channels(schedule).items()}
        return cls(after, members, turns(schedule), schedule.steps, ends[0] if len(ends) == 1 else -1)


def dependents(schedule: Schedule) -> list[list[int]]:
    """Return for each phase those that come directly after it."""
    found: list[list[int]] = [[] for _ in schedule.phases]
    for index, phase in enumerate(schedule.phases):
        for before in phase.after:
            found[before].append(index)
    return found


def channels(schedule: Schedule) -> dict[int, list[int]]:
    """Return the phases that take turns, by channel."""
    found: dict[int, list[int]] = {}
    for index, phase in enumerate(schedule.phases):
        if phase.channel >= 0:
            found.setdefault(phase.channel, []).append(index)
    return found


def turns(schedule: Schedule) -> list[int]:
    """Return for each phase the first that has part in its turn; -1 for those without a channel."""
    first: dict[tuple[int, int], int] = {}
    return [
        -1 if phase.channel < 0 else index if phase.turn < 0 else first.setdefault((phase.channel, phase.turn), index)
        for index, phase in enumerate(schedule.phases)
    ]
