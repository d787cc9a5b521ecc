"""What each communication of a task graph asks of the network, for whoever wants to know why a run took so long.

Nothing is simulated again: plans, routes and flow sets are those that the run has used and that are still known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from attrs import frozen

from fredfw.collectives import Phase
from fredfw.fabric import Fabric, FlowSet
from fredfw.simulation.assignment import COMPUTE, RECEIVE, SEND, STREAMS, Assignment, Share
from fredfw.simulation.bounds import LowerBounds
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.planner import Planner
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import TaskGraph

CAPPED = -1
"""In place of a link: the rates that the transport lets no flow exceed."""
STREAM = "stream"
"""The algorithm of a load or store."""


@frozen(eq=False)
class Demand:
    """What the groups of one communication that have the same plan ask of a network that carries nothing else.

    The phases that decide how long it takes are its longest chain of phases that wait for each other, or all phases of
    one channel where those take longer.

    Args:
        algorithm: What runs.
        size: Ranks of a group.
        ranks: ``(k,)`` distinct ranks that take part.
        links: ``(l,)`` links that carry something.
        bytes: ``(l,)`` bytes on each.
        draining: Seconds that the deciding phases drain, by the link that bounds them, or ``CAPPED``.
        latency: Seconds of the deciding phases in which their last bytes are on their way.
        transport: Seconds that the transport takes for launching, steps and messages.
    """

    algorithm: str
    size: int
    ranks: IntArray
    links: IntArray
    bytes: FloatArray
    draining: Mapping[int, float]
    latency: float
    transport: float

    @property
    def seconds(self) -> float:
        """What it takes alone, about."""
        return sum(self.draining.values()) + self.latency + self.transport


class Demands:
    """The demands of the tasks of a graph; they are found when they are asked for. A copy by pickle knows none.

    Args:
        graph: The tasks, as they were run.
        fabric: Where the bytes travel.
        placement: ``(ranks,)`` NPU number of each rank.
        planner: Has chosen the algorithms.
        lowering: Has turned transfers into flows.
        priorities: Class by label.
        bounds: The lower bounds on the fabric.
    """

    def __init__(
        self,
        graph: TaskGraph,
        *,
        fabric: Fabric,
        placement: IntArray,
        planner: Planner,
        lowering: Lowering,
        priorities: Mapping[str, int],
        bounds: LowerBounds | None = None,
    ) -> None:
        self._fabric, self._lowering = fabric, lowering
        self._assign: Callable[[], Assignment] | None = partial(
            Assignment,
            graph,
            fabric=fabric,
            placement=placement,
            planner=planner,
            lowering=lowering,
            priorities=priorities,
            bounds=bounds,
        )
        # With what the keys name, so that nothing else gets its identity.
        self._known: dict[Hashable, tuple[object, tuple[Demand, ...]]] = {}

    def of(self, task: int) -> tuple[Demand, ...]:
        """Return the demands of ``task``: one for each plan; none for a computation or where nothing is known."""
        if self._assign is None:
            return ()
        tasks = self._tasks
        if tasks.kinds[task] == COMPUTE:
            return ()
        if tasks.kinds[task] == RECEIVE:
            task = tasks.partners[task]
        if tasks.kinds[task] in STREAMS:
            flows = tasks.stream(task, tasks.table(task).whole)
            return self._kept(id(flows), flows, lambda: (self._stream(task, flows),))
        shares = tasks.planned(task)  # the same list for tasks that ask for the same
        times = tasks.repeats[task]
        return self._kept((id(shares), times), shares, lambda: tuple(self._share(task, share) for share in shares))

    def _kept(self, key: Hashable, named: object, make: Callable[[], tuple[Demand, ...]]) -> tuple[Demand, ...]:
        if key not in self._known:
            self._known[key] = named, make()
        return self._known[key][1]

    @cached_property
    def _tasks(self) -> Assignment:
        assert self._assign is not None  # whoever asks has made sure
        return self._assign()

    def _share(self, task: int, share: Share) -> Demand:
        tasks, lowering, bandwidths = self._tasks, self._lowering, self._fabric.bandwidths
        table = tasks.groups(task)
        part = table.whole if share.served is None else table.part(np.flatnonzero(share.served))
        schedule, times = share.plan.schedule, tasks.repeats[task]
        label = tasks.labels[task]
        price = lowering.price(schedule, part.nodes)
        loads = _Loads(len(bandwidths))
        phases: list[_Time] = []
        for index, phase in enumerate(schedule.phases):
            took = _Time()
            for repetition in [None] if schedule.uniform(phase) else range(phase.repeat):
                flows = lowering.phase(
                    schedule,
                    index,
                    part.nodes,
                    priority=tasks.priority[label],
                    label=label,
                    repetition=repetition,
                    times=times,
                )
                added = None
                if price is not None:
                    added = price.added(self._fabric, flows.routes, lowering.ends(phase).load)
                took = took.and_then(loads.add(flows, bandwidths, added))
            phases.append(took)
        deciding = [phases[index] for index in _deciding(schedule.phases, phases)]
        links, moved = loads.used
        draining: dict[int, float] = {}
        for one in deciding:
            for link, seconds in one.draining.items():
                draining[link] = draining.get(link, 0.0) + seconds
        launch = 0.0 if price is None else price.launch * times
        # Both ends of a message have part in it, but only one of them in the send.
        ranks = tasks.table(task).participants if tasks.kinds[task] == SEND else part.ranks
        return Demand(
            share.plan.algorithm,
            part.nodes.shape[1],
            ranks,
            links,
            moved,
            draining,
            sum(one.latency for one in deciding),
            launch + sum(one.transport for one in deciding),
        )

    def _stream(self, task: int, flows: FlowSet) -> Demand:
        loads = _Loads(len(self._fabric.bandwidths))
        took = loads.add(flows, self._fabric.bandwidths, None)
        part = self._tasks.table(task).whole
        return Demand(STREAM, part.nodes.shape[1], part.ranks, *loads.used, took.draining, took.latency, 0.0)

    def __getstate__(self) -> dict[str, Any]:
        # Plans and what was built for them are told by identity, which is another one in a copy.
        return {"_assign": None, "_known": {}}


@frozen
class _Time:
    """How long a phase takes alone.

    Args:
        draining: Seconds by the link that bounds them.
        latency: Of links, seconds.
        transport: Seconds of steps and messages.
    """

    draining: Mapping[int, float] = {}
    latency: float = 0.0
    transport: float = 0.0

    @property
    def seconds(self) -> float:
        return sum(self.draining.values()) + self.latency + self.transport

    def and_then(self, other: _Time) -> _Time:
        draining = dict(self.draining)
        for link, seconds in other.draining.items():
            draining[link] = draining.get(link, 0.0) + seconds
        return _Time(draining, self.latency + other.latency, self.transport + other.transport)


class _Loads:
    """Bytes by link, of one flow set after the other."""

    def __init__(self, links: int) -> None:
        self._bytes = np.zeros(links)

    @property
    def used(self) -> tuple[IntArray, FloatArray]:
        """The links that carry something, and how much."""
        links = np.flatnonzero(self._bytes)
        return links, self._bytes[links]

    def add(self, flows: FlowSet, bandwidths: FloatArray, added: FloatArray | None) -> _Time:
        """Count the bytes of ``flows``, of whose latencies ``added`` are the transport's; return what they take."""
        routes, totals = flows.routes, flows.totals
        if not len(totals):
            return _Time()
        weights = np.repeat(totals, np.diff(routes.offsets))
        if routes.coefficients is not None:
            weights = weights * routes.coefficients
        load = np.bincount(routes.links, weights=weights, minlength=len(bandwidths))
        self._bytes += load
        seconds = load / bandwidths
        link = int(seconds.argmax()) if len(seconds) else CAPPED
        most = float(seconds[link]) if len(seconds) else 0.0
        if flows.caps is not None:
            capped = float((totals / flows.caps).max())
            # Equal ones are the link's, which has a name.
            link, most = (CAPPED, capped) if capped > most else (link, most)
        slowest = int(routes.latencies.argmax())
        transport = 0.0 if added is None else float(added[slowest])
        latency = float(routes.latencies[slowest]) - transport
        return _Time({link: most} if most else {}, latency * flows.repeat, transport * flows.repeat)


def _deciding(phases: Sequence[Phase], times: Sequence[_Time]) -> list[int]:
    """Return the phases of the longest chain, or those of the channel that is busy for longer."""
    before: list[int] = []
    reached: list[float] = []
    for index, phase in enumerate(phases):
        last = max(phase.waits, key=reached.__getitem__, default=-1)
        before.append(last)
        reached.append((reached[last] if last >= 0 else 0.0) + times[index].seconds)
    if not reached:
        return []
    channels: dict[int, list[int]] = {}
    for index, phase in enumerate(phases):
        if phase.channel >= 0:
            channels.setdefault(phase.channel, []).append(index)
    # A channel goes on while the last bytes of a phase are on their way.
    busy = {one: sum(sum(times[index].draining.values()) for index in found) for one, found in channels.items()}
    busiest = max(busy, key=busy.__getitem__, default=None)
    if busiest is not None and busy[busiest] > max(reached):
        return channels[busiest]
    chain, index = [], int(np.argmax(reached))
    while index >= 0:
        chain.append(index)
        index = before[index]
    return chain[::-1]
