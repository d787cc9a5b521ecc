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
        dependents: For each phase those that come directly after it, or need the room that it makes.
        followers: For each phase those that are directly behind it.
        goes_on: For each phase those that a rank may get ready for when it is done with it.
        admits: For each phase those that a rank may have room for when it is done with it.
        channels: The phases that take turns, by channel.
        turns: The turn of each phase: that of the first phase which has part in it; -1 for one without a channel.
        steps: Repetitions of all phases together.
        last: The phase that comes after all others, directly or through others; -1 if there is none.
    """

    dependents: list[list[int]]
    followers: list[list[int]]
    goes_on: list[list[int]]
    admits: list[list[int]]
    channels: dict[int, IntArray]
    turns: list[int]
    steps: int
    last: int

    @classmethod
    def of(cls, schedule: Schedule) -> Order:
        """Return the order of the phases of ``schedule``."""
        after, behind, room = (_turned(schedule, name) for name in ("after", "behind", "room"))
        dependents = [one + other for one, other in zip(after, room, strict=True)]
        goes_on = [one + other for one, other in zip(after, behind, strict=True)]
        ends = [index for index, others in enumerate(dependents) if not others]
        members = {one: np.array(found) for one, found in channels(schedule).items()}
        last = ends[0] if len(ends) == 1 else -1
        return cls(dependents, behind, goes_on, room, members, turns(schedule), schedule.steps, last)


def _turned(schedule: Schedule, name: str) -> list[list[int]]:
    """Return for each phase those whose field ``name`` has it."""
    found: list[list[int]] = [[] for _ in schedule.phases]
    for index, phase in enumerate(schedule.phases):
        for before in getattr(phase, name):
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
