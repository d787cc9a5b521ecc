"""Flow sets that were asked for, and those that run part by part."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from attrs import define

from fredfw.fabric import FlowSet
from fredfw.typing import IntArray

Completion = Callable[[IntArray], None]
Unicasts = Callable[[], FlowSet]


@define(eq=False)
class Request:
    """Flows that were to start.

    Args:
        ticket: Names them, and all that they are split into.
        flows: What to carry.
        on_complete: Gets the activities that end.
        unicasts: Returns what to carry instead.
        on_drained: Gets the activities whose flows are drained, if somebody wants to know.
        carry: The run and the carry in the engine that they are as they are, if they are.
        waited: Whether they had to wait.
    """

    ticket: int
    flows: FlowSet
    on_complete: Completion
    unicasts: Unicasts | None
    on_drained: Completion | None = None
    carry: tuple[int, int] | None = None
    waited: bool = False


@define(eq=False)
class Turns:
    """Parts of a flow set that run one after the other; an activity ends with the last part that has flows of it.

    Args:
        ask: Starts a part.
        request: The whole.
        parts: In order.
        last: ``(activities,)`` the last part of each.
        turn: The part that runs.
        unfinished: Its activities that have not ended.
    """

    ask: Callable[[Request], None]
    request: Request
    parts: list[FlowSet]
    last: IntArray
    turn: int = -1
    unfinished: int = 0

    @classmethod
    def of(cls, ask: Callable[[Request], None], request: Request, parts: list[FlowSet]) -> Turns:
        """Return the ``parts`` of ``request``, none of which has begun."""
        last = np.zeros(request.flows.activities, dtype=np.intp)
        for turn, part in enumerate(parts):
            last[part.activity] = turn
        return cls(ask, request, parts, last)

    def begin(self) -> None:
        """Start the next part."""
        self.turn += 1
        self.unfinished = self.request.flows.activities
        part, whole = self.parts[self.turn], self.request
        unicasts = whole.unicasts and _unicasts_of(part, whole.flows, whole.unicasts)
        self.ask(Request(whole.ticket, part, self.ended, unicasts))

    def ended(self, activities: IntArray) -> None:
        """Note that ``activities`` of the part have ended."""
        self.unfinished -= len(activities)
        turn = self.turn
        if self.unfinished == 0 and turn + 1 < len(self.parts):
            self.begin()
        done = activities[self.last[activities] == turn]
        if len(done):
            if self.request.on_drained is not None:
                self.request.on_drained(done)
            self.request.on_complete(done)


def _unicasts_of(part: FlowSet, flows: FlowSet, unicasts: Unicasts) -> Unicasts | None:
    """Return what does the same as ``part`` of ``flows``; ``None`` if it lacks flows of an activity that it has."""
    members = np.unique(part.activity)
    if not np.array_equal(part.sizes[members], flows.sizes[members]):
        return None
    return partial(_members_of, unicasts, members)


def _members_of(unicasts: Unicasts, members: IntArray) -> FlowSet:
    everything = unicasts()
    return everything.part(np.flatnonzero(np.isin(everything.activity, members)))
