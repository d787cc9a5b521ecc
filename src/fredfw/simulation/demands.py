"""What each communication of a task graph asks of the network, from what its run knew: nothing is simulated again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from attrs import asdict, evolve, frozen

from fredfw.collectives import Schedule
from fredfw.collectives.schedule import turns
from fredfw.fabric import AlwaysStart, Decompose, Fabric, FlowSet, Split, Start
from fredfw.fabric.fabric import tiers_of
from fredfw.keeping import kept
from fredfw.simulation import answers
from fredfw.simulation.assignment import COMPUTE, RECEIVE, SEND, STREAMS, WAIT, Assignment, Groups, Share
from fredfw.simulation.bounds.schedules import sums
from fredfw.typing import FloatArray, IntArray

Bound = tuple[int, ...]
"""What bounds how fast something drains: the first link of each tier whose busiest links are equally busy.

Without links it is a rate that the transport or the admission lets no flow exceed.
"""
_EXACT = 1e-9  # relative: busy alike
STREAM = "stream"  # the algorithm of a load or store


@frozen(eq=False)
class _Time:
    """How long a phase takes alone, in seconds."""

    draining: Mapping[Bound, float] = {}  # by what bounds it
    latency: float = 0.0  # of links
    transport: float = 0.0  # of steps and messages
    setup: float = 0.0  # of the admission

    @property
    def seconds(self) -> float:
        return sum(self.draining.values()) + self.latency + self.transport + self.setup

    def and_then(self, other: _Time) -> _Time:
        added = {link: self.draining.get(link, 0.0) + seconds for link, seconds in other.draining.items()}
        draining = dict(self.draining) | added
        latency, transport = self.latency + other.latency, self.transport + other.transport
        return _Time(draining, latency, transport, self.setup + other.setup)


_seconds = attrgetter("seconds")


@frozen(eq=False, kw_only=True)
class Demand(_Time):
    """What one group of a communication asks of a network that carries nothing but all groups of that communication.

    How long it takes is decided by its longest chain of phases that wait for each other, by all turns of one channel
    where those take longer, or by all bytes of one link where these do: ``draining`` and ``latency`` are of those.
    """

    algorithm: str  # that runs
    ranks: int  # of the group
    links: IntArray  # (l,) that it uses


@frozen(eq=False)
class Carried:
    """What all groups of a communication that have the same plan put on the links."""

    algorithm: str
    size: int  # ranks of a group
    ranks: IntArray  # (k,) distinct ranks that take part in the task
    links: IntArray  # (l,) that carry something
    bytes: FloatArray  # (l,) on each


class Demands:
    """What the tasks of a graph that has run ask of a fabric; found when it is asked for."""

    def __init__(self, tasks: Assignment | None) -> None:
        self._known = tasks
        self._groups: dict[Hashable, Demand] = {}
        self._carried: dict[Hashable, tuple[Carried, ...]] = {}

    def of(self, task: int, rank: int) -> Demand | None:
        """Return what the first group of ``rank`` asks for; ``None`` for a wait, and where nothing is known."""
        tasks = self._known
        if tasks is None or tasks.kinds[task] == WAIT:
            return None
        if tasks.kinds[task] == RECEIVE:
            task = tasks.partners[task]
        table = tasks.groups(task)
        group = int((table.members == rank).any(axis=1).argmax())
        if tasks.kinds[task] in STREAMS:
            flows = tasks.stream(task, table)
            return kept(self._groups, (flows, group), lambda: self._stream(flows, table, group))
        share = next(one for one in tasks.planned(task) if (one.groups.which == group).any())
        return kept(self._groups, (share, group, tasks.repeats[task]), lambda: self._share(task, share, group))

    def carried(self, task: int) -> tuple[Carried, ...]:
        """Return what ``task`` puts on the links, by plan; nothing for a receive, whose send has it."""
        tasks = self._known
        if tasks is None or tasks.kinds[task] in (COMPUTE, RECEIVE, WAIT):
            return ()
        if tasks.kinds[task] in STREAMS:
            table = tasks.table(task)
            flows = tasks.stream(task, table)
            return kept(self._carried, flows, lambda: (self._sum(STREAM, table, table.participants, [flows]),))
        shares = tuple(tasks.planned(task))  # the same for tasks that ask for the same
        key = shares, tasks.repeats[task]
        return kept(self._carried, key, lambda: tuple(self._carry(task, share) for share in shares))

    @property
    def _tasks(self) -> Assignment:
        assert self._known is not None  # whoever asks has made sure
        return self._known

    def _carry(self, task: int, share: Share) -> Carried:
        tasks, part = self._tasks, share.groups
        flows = (one for index in range(len(share.plan.schedule.phases)) for one in self._flows(task, share, index))
        # Both ends of a message have part in it, but only one of them in the send.
        ranks = (tasks.table(task) if tasks.kinds[task] == SEND else part).participants
        return self._sum(share.plan.algorithm, part, ranks, flows)

    def _sum(self, algorithm: str, part: Groups, ranks: IntArray, flows: Iterable[FlowSet]) -> Carried:
        total = np.zeros(len(self._tasks.fabric.bandwidths))
        for one in flows:
            total += _load(one, len(total))
        links = np.flatnonzero(total)
        return Carried(algorithm, part.nodes.shape[1], ranks, links, total[links])

    def _share(self, task: int, share: Share, group: int) -> Demand:
        fabric, lowering, schedule = self._tasks.fabric, self._tasks.lowering, share.plan.schedule
        part = share.groups
        price = lowering.price(schedule, part.nodes)
        watch = _Watch(fabric, self._tiers, int(np.flatnonzero(part.which == group)[0]))
        times = []
        for index, phase in enumerate(schedule.phases):
            took = _Time()
            instead = self._flows(task, share, index, unicasts=True)
            for flows, unicasts in zip(self._flows(task, share, index), instead, strict=True):
                added = None if price is None else price.added(flows.routes, lowering.ends(phase).load)
                took = took.and_then(watch.alone(flows, added, unicasts))
            times.append(took)
        took = max(_longest_chain(schedule, times), _busiest_channel(schedule, times), watch.together, key=_seconds)
        launch = 0.0 if price is None else price.launch * self._tasks.repeats[task]
        took = evolve(took, transport=took.transport + launch)
        return watch.demand(share.plan.algorithm, part.nodes.shape[1], took)

    def _stream(self, flows: FlowSet, table: Groups, group: int) -> Demand:
        watch = _Watch(self._tasks.fabric, self._tiers, group)
        return watch.demand(STREAM, table.members.shape[1], watch.alone(flows, None, None))

    def _flows(self, task: int, share: Share, index: int, *, unicasts: bool = False) -> Iterator[FlowSet]:
        """Yield the flows of phase ``index``, repetition by repetition where those differ."""
        schedule, nodes = share.plan.schedule, share.groups.nodes
        phase, flows = schedule.phases[index], self._tasks.flows(task, share, nodes)
        instead, everybody = unicasts and phase.stream is not None, np.arange(len(nodes))
        for repetition in [-1] if schedule.uniform(phase) else range(phase.repeat):
            yield flows.of(index, repetition, everybody, unicasts=instead)

    @cached_property
    def _tiers(self) -> IntArray:
        """``(links,)`` first link of the tier of each, directions told apart."""
        first = np.zeros(len(self._tasks.fabric.bandwidths), dtype=np.intp)
        for _, links in tiers_of(self._tasks.fabric):
            first[links] = links[0]
        return first

    def __getstate__(self) -> dict[str, Any]:
        return {"_known": None}  # plans and what was built for them are told by identity


def _load(flows: FlowSet, links: int) -> FloatArray:
    return sums(flows.routes, flows.totals, flows.routes.links, links)


class _Watch:
    """How long one group, the ``activity``, takes for its flow sets, beside those of the others."""

    def __init__(self, fabric: Fabric, tiers: IntArray, activity: int) -> None:
        self._fabric, self._tiers, self._activity = fabric, tiers, activity
        self._bytes = np.zeros(len(fabric.bandwidths))
        self._used = np.zeros(len(fabric.bandwidths), dtype=bool)

    @property
    def together(self) -> _Time:
        return self._draining(self._bytes, np.flatnonzero(self._used), 0.0)

    def demand(self, algorithm: str, ranks: int, took: _Time) -> Demand:
        return Demand(algorithm=algorithm, ranks=ranks, links=np.flatnonzero(self._used), **asdict(took))

    def alone(self, flows: FlowSet, added: FloatArray | None, unicasts: FlowSet | None) -> _Time:
        """Return what ``flows`` take, or ``unicasts`` if the admission wants them; ``added`` is the transport's."""
        admission = answers.admission(self._fabric)
        if isinstance(admission, AlwaysStart):
            return self._time(flows, added, None)
        decision = answers.decision(admission, flows, ())
        match decision:
            case Start():
                times = 1 if decision.setup_once else flows.repeat
                return evolve(self._time(flows, added, decision.caps), setup=decision.setup * times)
            case Split():
                took = _Time()
                for which in decision.parts:
                    chosen = np.asarray(which, dtype=np.intp)
                    mine = None if added is None else added[chosen]
                    took = took.and_then(self.alone(flows.part(chosen), mine, None))
                return took
            case Decompose() if unicasts is not None:
                return self._time(unicasts, None, None)
        return self._time(flows, added, None)

    def _time(self, flows: FlowSet, added: FloatArray | None, caps: FloatArray | None) -> _Time:
        routes, own = flows.routes, np.flatnonzero(flows.activity == self._activity)
        load = _load(flows, len(self._bytes))
        self._bytes += load
        if not len(own):
            return _Time()
        limits = (one[own] for one in (caps, flows.caps) if one is not None)
        capped = max((float((flows.totals[own] / one).max()) for one in limits), default=0.0)
        links = np.unique(routes.links_of(own))
        self._used[links] = True
        slowest = int(own[routes.latencies[own].argmax()])
        transport = 0.0 if added is None else float(added[slowest])
        latency = float(routes.latencies[slowest]) - transport
        drained = self._draining(load, links, capped)
        return evolve(drained, latency=latency * flows.repeat, transport=transport * flows.repeat)

    def _draining(self, load: FloatArray, links: IntArray, capped: float) -> _Time:
        """Return how long ``links`` drain their part of ``load``, ``capped`` seconds at least."""
        seconds = load[links] / self._fabric.bandwidths[links]
        most = float(seconds.max(initial=0.0))
        if capped and capped >= most * (1 - _EXACT):  # wider links would not help
            return _Time({(): capped})
        equal = links[seconds >= most * (1 - _EXACT)]
        return _Time({tuple(np.unique(self._tiers[equal]).tolist()): most} if most else {})


def _longest_chain(schedule: Schedule, times: Sequence[_Time]) -> _Time:
    before: list[tuple[int, bool]] = []  # the phase that each waits for last, and whether only until that is drained
    begun: list[float] = []
    for phase in schedule.phases:
        waits = [(begun[one] + times[one].seconds, one, False) for one in (*phase.after, *phase.room)]
        waits += [(begun[one] + sum(times[one].draining.values()), one, True) for one in phase.behind]
        since, last, early = max(waits, default=(0.0, -1, False))
        before.append((last, early))
        begun.append(since)
    ends = [since + time.seconds for since, time in zip(begun, times, strict=True)]
    total, index, early = _Time(), int(np.argmax(ends)) if ends else -1, False
    while index >= 0:
        total = total.and_then(_Time(times[index].draining) if early else times[index])
        index, early = before[index]
    return total


def _busiest_channel(schedule: Schedule, times: Sequence[_Time]) -> _Time:
    """Return the time of all turns of a channel, the longest of any; a turn takes its longest chain of phases."""
    path: list[_Time] = []  # of the phases of its turn, up to each
    longest: dict[int, _Time] = {}  # by turn
    taken = turns(schedule)
    for index, (phase, time) in enumerate(zip(schedule.phases, times, strict=True)):
        # Unless it is held until all is delivered, it goes on while the last bytes of a phase are on their way.
        held = time if schedule.release == "delivered" else _Time(time.draining)
        before = (path[one] for one in phase.after if taken[one] == taken[index])
        path.append(max(before, key=_seconds, default=_Time()).and_then(held))
        longest[taken[index]] = max(longest.get(taken[index], _Time()), path[index], key=_seconds)
    channels: dict[int, _Time] = {}
    for turn, time in longest.items():
        if turn >= 0:
            channel = schedule.phases[turn].channel
            channels[channel] = channels.get(channel, _Time()).and_then(time)
    return max(channels.values(), key=_seconds, default=_Time())
