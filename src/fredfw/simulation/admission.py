"""The admission desk: what asks to start is let in, waits, runs in parts, or is replaced by unicasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import assert_never

import numpy as np
from attrs import define

from fredfw.errors import RefusedError, SimulationError
from fredfw.fabric import Admission, AlwaysStart, Decompose, FlowSet, Refuse, Split, Start, Wait
from fredfw.simulation import answers
from fredfw.simulation.record import Statistics
from fredfw.simulation.rerouting import Detours
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


_AT_ONCE = Start()


class Desk:
    """Asks the admission control of a fabric, and does what it says.

    Args:
        admission: The fabric's, for one simulation.
        admit: Lets a request in, with flows that may take other ways than it says.
        active: Returns the flow sets that were let in and have not ended.
        compressed: Returns whether repetitions are under way that are simulated as one.
        detours: The ways round closed links.
        fabric: Name of the fabric.
        statistics: Counts.
        controlled: Links that it decides about, which come first; flows over others, of memories, start at once.

    Attributes:
        waiting: What will be asked about again when something has ended.
    """

    def __init__(
        self,
        admission: Admission,
        *,
        admit: Callable[[Request, FlowSet, Start], None],
        active: Callable[[], Iterable[FlowSet]],
        compressed: Callable[[], bool],
        detours: Detours,
        fabric: str,
        statistics: Statistics,
        controlled: int,
    ) -> None:
        self.waiting: list[Request] = []
        self._admission = admission
        self._admit = admit
        self._active = active
        self._compressed = compressed
        self._detours = detours
        self._fabric = fabric
        self._statistics = statistics
        self._controlled = controlled
        # What is told of other flows that run matters to nobody where everything starts.
        self._lonely = isinstance(admission, AlwaysStart)

    def ask(self, request: Request) -> None:
        """Do with the flows of ``request`` what the admission says.

        Raises:
            RefusedError: The admission refuses the flows.
            SimulationError: It asks for unicasts where there are none.
            PluginError: It fails, or returns what cannot be done.
        """
        flows = self._detours.around(request.flows)
        if type(self._admission) is AlwaysStart or self._is_outside(flows):
            self._admit(request, flows, _AT_ONCE)
            return
        what = flows.label or "flows"
        active = () if self._lonely else tuple(one for one in self._active() if not self._is_outside(one))
        decision = answers.decision(self._admission, flows, active)
        match decision:
            case Start():
                self._admit(request, flows, decision)
            case Wait():
                self._wait(request)
            case Split():
                self._split(request, decision)
            case Decompose():
                if request.unicasts is None:
                    raise SimulationError(
                        f"fabric {self._fabric!r} cannot carry {what}, and cannot replace it by unicasts: "
                        f"{decision.reason}"
                    )
                self._statistics.decompositions += 1
                self.ask(Request(request.ticket, request.unicasts(), request.on_complete, None, request.on_drained))
            case Refuse():
                raise RefusedError(f"fabric {self._fabric!r} refuses {what}: {decision.reason}")
            case _:
                assert_never(decision)

    def forget(self, ticket: int) -> None:
        """Let go of what waits for ``ticket``."""
        self.waiting = [request for request in self.waiting if request.ticket != ticket]

    def close(self, flows: FlowSet) -> None:
        """Tell the admission that ``flows`` have ended, and do with what waits what can be done now."""
        if type(self._admission) is AlwaysStart or self._is_outside(flows):
            return
        answers.release(self._admission, flows)
        waiting, self.waiting = self.waiting, []
        for place, request in enumerate(waiting, start=1):
            try:
                self.ask(request)
            except BaseException:
                self.waiting += waiting[place:]  # an error in one does not concern the others
                raise

    def _is_outside(self, flows: FlowSet) -> bool:
        """Return whether ``flows`` go over links that the admission does not know."""
        links = flows.routes.links
        return len(links) > 0 and bool(links[0] >= self._controlled)

    def _wait(self, request: Request) -> None:
        """Have ``request`` asked about again."""
        self._statistics.waits += not request.waited
        request.waited = True
        # Between two repetitions it might not have had to wait.
        self._statistics.met += request.flows.repeat > 1 or self._compressed()
        self.waiting.append(request)

    def _split(self, request: Request, split: Split) -> None:
        """Run the parts of ``request`` one after the other."""
        flows = request.flows
        self._statistics.splits += 1
        Turns.of(self.ask, request, [flows.part(np.asarray(part, dtype=np.intp)) for part in split.parts]).begin()
