"""The admission desk: what asks to start is let in, waits, runs in parts, or is replaced by unicasts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, assert_never

import numpy as np
from attrs import define, field

from fredfw.errors import RefusedError, SimulationError
from fredfw.fabric import Admission, AlwaysStart, Decompose, FlowSet, Refuse, Split, Start, Wait
from fredfw.simulation import answers
from fredfw.typing import IntArray

if TYPE_CHECKING:
    from fredfw.simulation.network import FlowNetwork

Completion = Callable[[IntArray], None]
Unicasts = Callable[[], FlowSet]


@define(eq=False)
class Request:
    """Flows that were to start."""

    ticket: int  # names them, and all that they are split into
    flows: FlowSet
    on_complete: Completion  # gets the activities that end
    unicasts: Unicasts | None  # returns what to carry instead
    on_drained: Completion | None = None  # gets the activities whose flows are drained
    carry: tuple[int, int] | None = None  # the run and the carry in the engine that they are as they are
    waited: bool = False


@define(eq=False)
class Turns:
    """Parts of a flow set that run one after the other; an activity ends with the last part that has flows of it."""

    ask: Callable[[Request], None]  # starts a part
    request: Request
    parts: list[FlowSet]
    last: IntArray = field(init=False)  # (activities,) the last part of each
    turn: int = -1  # the part that runs
    unfinished: int = 0  # its activities that have not ended

    def __attrs_post_init__(self) -> None:
        self.last = np.zeros(self.request.flows.activities, dtype=np.intp)
        for turn, part in enumerate(self.parts):
            self.last[part.activity] = turn

    def begin(self) -> None:
        self.turn += 1
        self.unfinished = self.request.flows.activities
        part, whole = self.parts[self.turn], self.request
        unicasts = whole.unicasts and _unicasts_of(part, whole.flows, whole.unicasts)
        self.ask(Request(whole.ticket, part, self.ended, unicasts))

    def ended(self, activities: IntArray) -> None:
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
    """Asks the admission control of a network, and does what it says."""

    def __init__(self, network: FlowNetwork) -> None:
        self._network = network
        self._admission = network.admission
        memories, links = network.fabric.memories, network.fabric.network.sources
        # Links that it decides about, which come first; flows over others, of memories, start at once.
        self._controlled = math.inf if memories is None else len(links)
        self.waiting: list[Request] = []  # will be asked about again when something has ended

    def ask(self, request: Request) -> None:
        network = self._network
        flows = network._detours.around(request.flows)
        if type(self._admission) is AlwaysStart or self._is_outside(flows):
            network._admit(request, flows, _AT_ONCE)
            return
        what, fabric = flows.label or "flows", network.fabric.name
        decision = answers.decision(self._admission, flows, self._active())
        match decision:
            case Start():
                network._admit(request, flows, decision)
            case Wait():
                self._wait(request)
            case Split():
                network._statistics.splits += 1
                parts = [request.flows.part(np.asarray(part, dtype=np.intp)) for part in decision.parts]
                Turns(self.ask, request, parts).begin()
            case Decompose():
                if request.unicasts is None:
                    cannot = f"fabric {fabric!r} cannot carry {what}, and cannot replace it by unicasts"
                    raise SimulationError(f"{cannot}: {decision.reason}")
                network._statistics.decompositions += 1
                self.ask(Request(request.ticket, request.unicasts(), request.on_complete, None, request.on_drained))
            case Refuse():
                raise RefusedError(f"fabric {fabric!r} refuses {what}: {decision.reason}")
            case _:
                assert_never(decision)

    def forget(self, ticket: int) -> None:
        self.waiting = [request for request in self.waiting if request.ticket != ticket]

    def close(self, flows: FlowSet) -> None:
        if type(self._admission) is AlwaysStart or self._is_outside(flows):
            return
        if type(self._admission).release is not Admission.release:
            answers.release(self._admission, flows)
        waiting, self.waiting = self.waiting, []
        for place, request in enumerate(waiting, start=1):
            try:
                self.ask(request)
            except BaseException:
                self.waiting += waiting[place:]  # an error in one does not concern the others
                raise

    def _active(self) -> Sequence[FlowSet]:
        """What runs on links that the admission knows, where that matters to it."""
        if isinstance(self._admission, AlwaysStart):
            return ()
        running = tuple(self._network._active.values())
        return running if self._controlled == math.inf else tuple(one for one in running if not self._is_outside(one))

    def _is_outside(self, flows: FlowSet) -> bool:
        links = flows.routes.links
        return self._controlled < math.inf and len(links) > 0 and bool(links[0] >= self._controlled)

    def _wait(self, request: Request) -> None:
        statistics = self._network._statistics
        statistics.waits += not request.waited
        request.waited = True
        *_, joined = self._network._counts()
        # Between two repetitions, of which some are under way as one, it might not have had to wait.
        statistics.met += request.flows.repeat > 1 or joined > 0
        self.waiting.append(request)
