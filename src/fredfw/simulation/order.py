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
    """

    dependents: list[list[int]]
    channels: dict[int, IntArray]

    @classmethod
    def of(cls, schedule: Schedule) -> Order:
        """Return the order of the phases of ``schedule``."""
        return cls(dependents(schedule), {one: np.array(members) for one, members in channels(schedule).items()})


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
