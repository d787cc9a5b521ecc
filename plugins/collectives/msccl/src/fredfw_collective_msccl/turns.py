"""A fixed order of the phases of a schedule, in which those take turns that share a channel.

A schedule leaves it to the moment which turn is next on a channel; the steps of an MSCCL file have one order. It is the
one that comes about where each phase takes as long as its bytes.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator

from attrs import define, field

from fredfw import Schedule


@define(eq=False)
class _Turn:
    """Phases that have a channel together, the first of which is ``ready`` then."""

    first: int
    phases: list[int] = field(factory=list)
    bytes: float = 0.0
    ready: float = 0.0
    left: int = 0  # phases that are not over


@define(eq=False)
class _Channel:
    """By turn that is ready and has not had it, phases that are; and the turns that have it, and had it before."""

    waiting: dict[int, list[int]] = field(factory=dict)
    held: _Turn | None = None
    last: tuple[int, ...] = ()


def in_order(schedule: Schedule) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield each phase of ``schedule`` and all that come directly before it, in an order in which those come first."""
    phases = schedule.phases
    sizes = [float(schedule.row_bytes(phase).max(initial=0.0)) * phase.repeat for phase in phases]
    turns = _turns(schedule, sizes)
    dependents: list[list[int]] = [[] for _ in phases]
    missing = [len(phase.waits) for phase in phases]
    for index, phase in enumerate(phases):
        for earlier in phase.waits:
            dependents[earlier].append(index)
    channels: defaultdict[int, _Channel] = defaultdict(_Channel)
    due: list[tuple[float, int]] = []
    now, ready = 0.0, [index for index, count in enumerate(missing) if not count]
    while ready or due or any(channel.waiting for channel in channels.values()):
        begun = []
        for index in ready:
            if phases[index].channel < 0:
                begun.append((index, phases[index].waits))
                continue
            channel, turn = channels[phases[index].channel], turns[index]
            if turn is not channel.held and turn.first not in channel.waiting:
                turn.ready = now
            channel.waiting.setdefault(turn.first, []).append(index)
        for channel in channels.values():
            if channel.held is None and channel.waiting:
                channel.held = min((turns[first] for first in channel.waiting), key=_RANKS[schedule.policy])
            if channel.held is not None:
                begun += [
                    (index, tuple(sorted({*phases[index].waits, *channel.last})))
                    for index in channel.waiting.pop(channel.held.first, [])
                ]
        for index, before in begun:
            yield index, before
            heapq.heappush(due, (now + sizes[index], index))
        ready = []
        now = due[0][0] if due else now
        while due and due[0][0] == now:
            _, over = heapq.heappop(due)
            turn = turns[over]
            turn.left -= 1
            if phases[over].channel >= 0 and not turn.left:
                channel = channels[phases[over].channel]
                channel.held, channel.last = None, tuple(turn.phases)
            for dependent in dependents[over]:
                missing[dependent] -= 1
                if not missing[dependent]:
                    ready.append(dependent)
        ready.sort()


_RANKS: dict[str, Callable[[_Turn], tuple[float, ...]]] = {
    "fifo": lambda turn: (turn.ready, turn.first),
    "smallest-first": lambda turn: (turn.bytes, turn.ready, turn.first),
}
"""What the next turn of a channel has least of, by policy."""


def _turns(schedule: Schedule, sizes: list[float]) -> list[_Turn]:
    """Return the turn of each phase, one of its own for those without a channel."""
    found: dict[tuple[int, int], _Turn] = {}
    turns = []
    for index, phase in enumerate(schedule.phases):
        own = phase.channel < 0 or phase.turn < 0
        turn = _Turn(index) if own else found.setdefault((phase.channel, phase.turn), _Turn(index))
        turn.phases.append(index)
        turn.bytes += sizes[index]
        turn.left += 1
        turns.append(turn)
    return turns
