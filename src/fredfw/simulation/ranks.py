"""One schedule running in many groups, rank by rank: no rank waits for more than what it sends and receives itself.

A rank is ready for a phase when it is done with all phases that the phase comes after. What it sends then starts; an
in-network stream starts when all of its sources are ready. It is done with the phase when all that it receives in it is
delivered, latency included, and all that it sends in it has drained, latency excluded; a rank without a part in a phase
is done at once. A phase that repeats is so many phases, one after the other. A group ends when all its ranks are done
with all phases.

A channel of a group takes phases in one order on all its ranks, as a communication stream does: that in which ranks
first get there, the phase that was ready first before others. A rank holds the channel until it is done with a phase,
and waits for the next one of that order even where another is ready.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from attrs import define, evolve

from fredfw import limits
from fredfw.collectives import Schedule
from fredfw.fabric import AlwaysStart, FlowSet, Router, Routes
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.parties import Parties
from fredfw.typing import BoolArray, FloatArray, IntArray

# In what order things happen at one moment: first all that ends, then channels choose, then flows start together.
_CHANNELS, _FLOWS = 1, 2


@define(eq=False)
class _Stage:
    """A phase that ranks have begun and not all are through with; nodes and flows as ``Parties`` numbers them.

    Args:
        parties: Who takes part.
        step: ``(nodes,)`` repetition that each is in, -1 before it is ready, all of them once it is through.
        pending: ``(nodes,)`` sends that have not drained and receives that are not delivered, of this repetition.
        absent: ``(flows,)`` nodes that the next start of each waits for.
        started: ``(flows,)`` how often each has started.
        delivered: ``(flows,)`` how often each was delivered.
        unfinished: Nodes that are not through.
    """

    parties: Parties
    step: IntArray
    pending: IntArray
    absent: IntArray
    started: IntArray
    delivered: IntArray
    unfinished: int

    @classmethod
    def of(cls, parties: Parties) -> _Stage:
        nodes, flows = len(parties.sends), len(parties.starters)
        never, none = np.zeros(flows, dtype=np.intp), np.zeros(nodes, dtype=np.intp)
        absent = parties.starters.count(np.arange(flows))
        return cls(parties, none - 1, none, absent, never, never.copy(), nodes)


@define(eq=False)
class _Channel:
    """A channel in every group.

    Args:
        members: Its phases.
        since: ``(phases, nodes)`` when each got ready at a node that has not begun it; infinite if it is not.
        busy: ``(nodes,)`` whether one runs.
        begun: ``(nodes,)`` how many have begun.
        order: Places in ``members`` that each group has begun, in that order.
        groups: Groups where something has changed.
    """

    members: list[int]
    since: FloatArray
    busy: BoolArray
    begun: IntArray
    order: list[list[int]]
    groups: set[int]

    @classmethod
    def of(cls, members: list[int], groups: int, ranks: int) -> _Channel:
        nodes = groups * ranks
        since = np.full((len(members), nodes), np.inf)
        busy, begun = np.zeros(nodes, dtype=bool), np.zeros(nodes, dtype=np.intp)
        return cls(members, since, busy, begun, [[] for _ in range(groups)], set())

    def choose(self, ranks: int) -> list[tuple[int, IntArray]]:
        """Return the phases that can begin now, each with the nodes where it does."""
        chosen = []
        for group in sorted(self.groups):
            nodes, order = np.arange(group * ranks, (group + 1) * ranks), self.order[group]
            while True:
                free = nodes[~self.busy[nodes]]
                position = self.begun[free]
                for place in np.unique(position[position < len(order)]).tolist():
                    row = order[place]
                    able = free[(position == place) & (self.since[row, free] < np.inf)]
                    if len(able):
                        self.since[row, able], self.busy[able] = np.inf, True
                        self.begun[able] += 1
                        chosen.append((self.members[row], able))
                first = self.since[:, free[position == len(order)]].min(axis=1, initial=np.inf)
                if not first.min() < np.inf:
                    break
                order.append(int(first.argmin()))  # ties: the phase declared first
        self.groups.clear()
        return chosen


class RankRun:
    """Runs ``schedule`` in each of ``groups``, every rank at its own pace; the module says by which rule.

    Args:
        network: Carries the flows; its admission is asked flow by flow.
        lowering: Turns phases into flows on the network's fabric.
        schedule: What to run.
        groups: ``(G, ranks)`` node of each rank.
        on_complete: Gets the ``(k,)`` indices of the groups that end, as often as some end at the same time.
        priority: Class of the flows.
        label: What their bytes are accounted to.
        rendezvous: Whether a transfer starts only when its destinations are ready for it too.
    """

    def __init__(
        self,
        network: FlowNetwork,
        lowering: Lowering,
        schedule: Schedule,
        groups: IntArray,
        on_complete: Callable[[IntArray], None],
        *,
        priority: int = 0,
        label: str = "",
        rendezvous: bool = False,
    ) -> None:
        limits.check("phases", schedule.steps)  # each repetition is one
        self._network = network
        self._lowering = lowering
        self._schedule = schedule
        self._groups = groups
        self._on_complete = on_complete
        self._priority = priority
        self._label = label
        self._rendezvous = rendezvous
        self._count, self._ranks = groups.shape
        phases = schedule.phases
        self._dependents: list[list[int]] = [[] for _ in phases]
        for index, phase in enumerate(phases):
            for before in phase.after:
                self._dependents[before].append(index)
        self._missing: dict[int, IntArray] = {}  # phases before each that a node is not done with; once one is done
        self._stages: dict[int, _Stage] = {}
        self._left = np.full(self._count, len(phases) * self._ranks)
        channels: dict[int, list[int]] = {}
        for index, phase in enumerate(phases):
            if phase.channel >= 0:
                channels.setdefault(phase.channel, []).append(index)
        self._channels = {
            number: _Channel.of(members, self._count, self._ranks) for number, members in channels.items()
        }
        self._starting: dict[int, list[IntArray]] = {}  # flows that start at this moment, by phase
        self._calls = 0
        self._due: dict[int, int] = {}  # events
        self._under_way: dict[int, tuple[int, int]] = {}  # tickets of flows, and how many have not arrived

    def start(self) -> None:
        """Start now, in all groups."""
        everybody = np.arange(self._groups.size)
        if not self._schedule.phases:
            self._later(self._on_complete, np.arange(self._count))
        for index, phase in enumerate(self._schedule.phases):
            if not phase.after:
                self._ready(index, everybody)
        self._start_flows()  # at once, so that who starts a collective hears what the admission refuses

    def cancel(self) -> None:
        """Stop now, in all groups; no more of them end."""
        for event in self._due.values():
            self._network.unschedule(event)
        for ticket, _ in self._under_way.values():
            self._network.cancel(ticket)
        self._due.clear()
        self._under_way.clear()

    # --- events

    def _later(self, callback: Callable[..., object], *given: object, delay: float = 0.0, priority: int = 0) -> None:
        self._calls += 1
        call = partial(self._call, self._calls, partial(callback, *given))
        self._due[self._calls] = self._network.schedule(delay, call, priority)

    def _call(self, number: int, callback: Callable[[], object]) -> None:
        del self._due[number]
        callback()

    # --- ranks

    def _ready(self, index: int, nodes: IntArray) -> None:
        """Note that ``nodes`` are done with all that phase ``index`` comes after."""
        number = self._schedule.phases[index].channel
        if number < 0:
            self._go_on(index, nodes)
            return
        channel = self._channels[number]
        channel.since[channel.members.index(index), nodes] = self._network.now
        self._choose_later(number, nodes)

    def _choose_later(self, number: int, nodes: IntArray) -> None:
        # All that ends at this moment must be known before a channel chooses.
        groups = self._channels[number].groups
        if not groups:
            self._later(self._choose, number, priority=_CHANNELS)
        groups.update((nodes // self._ranks).tolist())

    def _choose(self, number: int) -> None:
        for index, nodes in self._channels[number].choose(self._ranks):
            self._go_on(index, nodes)

    def _go_on(self, index: int, nodes: IntArray) -> None:
        """Let ``nodes`` enter their next repetition of phase ``index``, and what they can enter after that."""
        todo = [(index, nodes)]  # not recursion, for a rank may have no part in any number of phases
        while todo:
            index, nodes = todo.pop()
            through = self._enter(index, nodes)
            if not len(through):
                continue
            self._end(index, through)
            for dependent in self._dependents[index]:
                missing = self._missing.get(dependent)
                if missing is None:
                    count = len(self._schedule.phases[dependent].after)
                    missing = self._missing[dependent] = np.full(self._groups.size, count)
                missing[through] -= 1
                ready = through[missing[through] == 0]
                if not len(ready):
                    pass
                elif self._schedule.phases[dependent].channel < 0:
                    todo.append((dependent, ready))
                else:
                    self._ready(dependent, ready)

    def _enter(self, index: int, nodes: IntArray) -> IntArray:
        """Let ``nodes`` enter their next repetition; return those that are through with the phase."""
        stage, repeat = self._stage(index), self._schedule.phases[index].repeat
        parties, through = stage.parties, [nodes[:0]]
        while len(nodes):
            sends, receives = parties.sends.count(nodes), parties.receives.count(nodes)
            stage.step[nodes] += 1
            stage.step[nodes[(sends == 0) & (receives == 0)]] = repeat
            more = stage.step[nodes] < repeat
            through.append(nodes[~more])
            nodes, sends, receives = nodes[more], sends[more], receives[more]
            flows = parties.starts.rows(nodes)
            np.subtract.at(stage.absent, flows, 1)
            self._start_later(index, stage, np.unique(flows[stage.absent[flows] == 0]))
            # A sender may be ahead, and what it has sent is there already.
            owed = stage.delivered[parties.receives.rows(nodes)] <= np.repeat(stage.step[nodes], receives)
            which = np.repeat(np.arange(len(nodes)), receives)[owed]
            stage.pending[nodes] = sends + np.bincount(which, minlength=len(nodes))
            nodes = nodes[stage.pending[nodes] == 0]
        return np.concatenate(through)

    def _stage(self, index: int) -> _Stage:
        stage = self._stages.get(index)
        if stage is None:
            ends = self._lowering.ends(self._schedule.phases[index])
            parties = Parties.of(ends, self._ranks, self._count, rendezvous=self._rendezvous)
            stage = self._stages[index] = _Stage.of(parties)
        return stage

    def _end(self, index: int, nodes: IntArray) -> None:
        """Note that ``nodes`` are through with phase ``index``."""
        stage, number = self._stages[index], self._schedule.phases[index].channel
        stage.unfinished -= len(nodes)
        if not stage.unfinished:
            del self._stages[index]
            self._missing.pop(index, None)
        if number >= 0:
            self._channels[number].busy[nodes] = False
            self._choose_later(number, nodes)
        groups, counts = np.unique(nodes // self._ranks, return_counts=True)
        self._left[groups] -= counts
        done = groups[self._left[groups] == 0]
        if len(done):
            self._later(self._on_complete, done)

    # --- flows

    def _start_later(self, index: int, stage: _Stage, flows: IntArray) -> None:
        """Start ``flows`` of a phase with all that start at this moment; all that they wait for are ready."""
        if not len(flows):
            return
        stage.absent[flows] = stage.parties.starters.count(flows)
        if not self._starting:
            self._later(self._start_flows, priority=_FLOWS)
        self._starting.setdefault(index, []).append(flows)

    def _start_flows(self) -> None:
        starting, self._starting = self._starting, {}
        for index, parts in starting.items():
            flows, stage, phase = np.sort(np.concatenate(parts)), self._stages[index], self._schedule.phases[index]
            repetition = stage.started[flows]
            stage.started[flows] += 1
            if self._schedule.uniform(phase):
                repetition[:] = 0  # they all carry the same
            for one in np.unique(repetition).tolist():
                self._send(index, one, flows[repetition == one])

    def _send(self, index: int, repetition: int, flows: IntArray) -> None:
        """Start ``flows`` of a phase now, with the bytes of ``repetition``."""
        lower = partial(
            self._lowering.phase,
            self._schedule,
            index,
            self._groups,
            priority=self._priority,
            label=self._label,
            repetition=repetition,
        )
        whole, ends = lower(), self._lowering.ends(self._schedule.phases[index])
        streamed = flows % len(ends) >= len(ends.sources)
        if isinstance(self._network.admission, AlwaysStart) or not streamed.any():
            self._carry(index, flows, _each(whole, flows))
            return
        if not streamed.all():
            self._carry(index, flows[~streamed], _each(whole, flows[~streamed]))
        for place in np.flatnonzero(streamed):
            one = flows[place : place + 1]
            self._carry(index, one, _each(whole, one), partial(self._unicasts, lower, index, int(one[0])))

    def _unicasts(self, lower: Callable[..., FlowSet], index: int, stream: int) -> FlowSet:
        """Return what its ends do in place of a stream that the network cannot carry."""
        phase = self._schedule.phases[index]
        group, flow = divmod(stream, len(self._lowering.ends(phase)))
        replaced = self._lowering.replaced(phase)
        chosen = np.flatnonzero(replaced == flow) + group * len(replaced)
        return evolve(_each(lower(unicasts=True), chosen), activity=np.zeros(len(chosen), dtype=np.intp), activities=1)

    def _carry(
        self, index: int, flows: IntArray, carried: FlowSet, unicasts: Callable[[], FlowSet] | None = None
    ) -> None:
        self._calls += 1
        number = self._calls
        ticket = self._network.start(
            carried,
            partial(self._arrived, number, index, flows),
            unicasts=unicasts,
            on_drained=partial(self._drained, index, flows),
        )
        self._under_way[number] = ticket, len(flows)

    def _drained(self, index: int, flows: IntArray, activities: IntArray) -> None:
        sources = self._stages[index].parties.sources
        self._owe_less(index, sources.rows(flows[activities]))

    def _arrived(self, number: int, index: int, flows: IntArray, activities: IntArray) -> None:
        ticket, left = self._under_way[number]
        self._under_way[number] = ticket, left - len(activities)
        if left == len(activities):
            del self._under_way[number]
        self._deliver(index, flows[activities])

    def _deliver(self, index: int, flows: IntArray) -> None:
        stage = self._stages[index]
        stage.delivered[flows] += 1
        destinations = stage.parties.destinations
        nodes, times = destinations.rows(flows), np.repeat(stage.delivered[flows], destinations.count(flows))
        self._owe_less(index, nodes[stage.step[nodes] == times - 1])  # others count it when they get there

    def _owe_less(self, index: int, nodes: IntArray) -> None:
        """Note for each of ``nodes`` the end of a send or receive of its repetition."""
        pending = self._stages[index].pending
        np.subtract.at(pending, nodes, 1)
        free = np.unique(nodes[pending[nodes] == 0])
        if len(free):
            self._go_on(index, free)


def _each(whole: FlowSet, flows: IntArray) -> FlowSet:
    """Return ``(k,)`` ``flows`` of ``whole``, each an activity of its own."""
    every = len(flows) == len(whole.volumes)
    return evolve(
        whole,
        routes=whole.routes if every else whole.routes.select(flows),
        volumes=whole.volumes if every else whole.volumes[flows],
        activity=np.arange(len(flows)),
        activities=len(flows),
        again=partial(_routed, whole, flows),
    )


def _routed(whole: FlowSet, flows: IntArray, router: Router) -> Routes:
    return whole.routed(router).select(flows)
