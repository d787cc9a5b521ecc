"""What the phases of a schedule wait for, the other way round."""

from __future__ import annotations

from fredfw.collectives import Schedule


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
