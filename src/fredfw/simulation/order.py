"""Which phases of a schedule take turns together."""

from __future__ import annotations

from fredfw.collectives import Schedule


def turns(schedule: Schedule) -> list[int]:
    """Return for each phase the first that has part in its turn; -1 for those without a channel."""
    first: dict[tuple[int, int], int] = {}
    return [
        -1 if phase.channel < 0 else index if phase.turn < 0 else first.setdefault((phase.channel, phase.turn), index)
        for index, phase in enumerate(schedule.phases)
    ]
