"""Schedules that run in groups on a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fredfw import limits
from fredfw.collectives import Schedule
from fredfw.fabric import Admission, AlwaysStart, FlowSet
from fredfw.fidelities import COMPRESSED
from fredfw.simulation import engine
from fredfw.simulation.admission import Unicasts
from fredfw.simulation.fidelity import way_of
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.typing import IntArray


@frozen(eq=False)
class ScheduleFlows:
    """The flow sets of a schedule in groups, as an admission or a router is asked about them."""

    lowering: Lowering
    schedule: Schedule
    groups: IntArray  # (G, ranks) node of the fabric of each rank
    by_rank: bool = False  # whether flows start one by one
    priority: int = 0  # class of the flows
    label: str = ""  # what their bytes are accounted to
    times: int = 1  # the whole schedule is done

    def of(self, phase: int, repetition: int, items: IntArray, *, unicasts: bool = False) -> FlowSet:
        """Return the flow set of ``items``: flows, or whole groups; with ``unicasts`` for streams that of all flows."""
        groups = self.groups
        if not self.by_rank and len(items) < len(groups):
            groups = groups[items]
        flows = self.lowering.phase(self, phase, groups, repetition, unicasts=unicasts)
        return self.lowering.each(flows, items) if self.by_rank and not unicasts else flows

    def unicasts(self, phase: int, repetition: int, items: IntArray, admission: Admission) -> Unicasts | None:
        if self.schedule.phases[phase].stream is None:
            return None
        if not self.by_rank:
            return partial(self.of, phase, repetition, items, unicasts=True)
        return None if isinstance(admission, AlwaysStart) else partial(self._exchange, phase, repetition, items)

    def _exchange(self, phase: int, repetition: int, items: IntArray) -> FlowSet:
        ends = self.lowering.ends(self.schedule.phases[phase])
        group, flow = divmod(int(items[0]), len(ends))
        _, replaced, _ = ends.exchanged()
        chosen = np.flatnonzero(replaced == flow) + group * len(replaced)
        whole = self.of(phase, repetition, items, unicasts=True)
        return evolve(self.lowering.each(whole, chosen), activity=np.zeros(len(chosen), dtype=np.intp), activities=1)


class ScheduleRun:
    """Runs a schedule in each of ``(G, ranks)`` nodes of a fabric.

    Phases stay whole, and groups that keep in step are started together; or every rank goes at its own pace, see
    docs/model.md, "Rank by rank".
    """

    def __init__(
        self,
        network: FlowNetwork,
        lowering: Lowering,
        schedule: Schedule,
        groups: IntArray,
        on_complete: Callable[[IntArray], None],  # gets the (k,) indices of groups that end at the same time
        *,
        fidelity: str = COMPRESSED,
        priority: int = 0,
        label: str = "",
        times: int = 1,  # the whole schedule is done, where phases are compressed
    ) -> None:
        self._network = network
        self._on_complete = on_complete
        self._left = len(groups)
        way = way_of(fidelity, network)
        by_rank = way in (engine.BY_RANK, engine.RENDEZVOUS)
        if way != engine.COMPRESSED:
            limits.check("phases", schedule.steps)  # each repetition is one
        self.flows = ScheduleFlows(lowering, schedule, groups, by_rank, priority, label, times)
        self._lowered = lowering.lowered(schedule, groups)  # which the engine reads
        self._number = network._add_run(self, self._lowered, way=way)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_lowered": None}  # the engine of a copy has its own

    def start(self) -> None:
        """Start now, in all groups; what launching takes comes before the first flows."""
        self._network._start_run(self._number)

    def cancel(self) -> None:
        """Stop now, in all groups; no more of them end."""
        self._network._cancel_run(self._number)

    def ended(self, groups: IntArray) -> None:
        """Note that groups have ended."""
        self._left -= len(groups)
        if not self._left:
            del self._network._runs[self._number]
        self._on_complete(groups)
