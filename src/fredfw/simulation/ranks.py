"""One schedule running in many groups, rank by rank: no rank waits for more than what it sends and receives itself.

A rank is ready for a phase when it is done with all phases that the phase comes after or is behind. What it sends then
starts, once its destination is done with those that make room for it; an in-network stream starts when all of its
sources are ready. It is done with the phase when all that it receives in it is
delivered, latency included, and all that it sends in it has drained, latency excluded; a rank without a part in a phase
is done at once. A phase that repeats is so many phases, one after the other. Ranks enter one by one, each when it is
ready for the first phases, and a rank is through when it is done with all phases. A group ends when all its ranks are.

A channel of a group takes turns in one order on all its ranks, as a communication stream does: next comes the one that
was ready first (or is the smallest) at a rank that sends in it and whose channel is free. A rank holds its channel
until it is done with a turn, and waits for the next one of that order even where another is ready. It does not wait for
turns in which it has no part. Where channels are released when turns have drained, a rank holds its channel until what
it sends in a repetition has drained, and each repetition is an entry of that order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from attrs import define, evolve, field

from fredfw import limits
from fredfw.collectives import Schedule
from fredfw.fabric import AlwaysStart, FlowSet, Routes
from fredfw.simulation.channels import Channel, choices
from fredfw.simulation.claims import Claim
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.order import Order
from fredfw.simulation.parties import Parties
from fredfw.simulation.recurrence import Recurrence, Standing, Steps
from fredfw.simulation.waits import NEVER, last_awaited
from fredfw.typing import FloatArray, IntArray

# In what order things happen at one moment: first all that ends, then channels choose, then flows start together.
_CHANNELS, _FLOWS = 1, 2
# So few nodes or flows are looked at one by one; NumPy is slow at them.
_FEW = 16
# By how many roundings of the clock a sum of times may be off.
_TICKS = 4


@define(eq=False)
class _Stage:
    """A phase that ranks have begun and not all are through with; nodes and flows as ``Parties`` numbers them.

    Args:
        parties: Who takes part.
        step: ``(nodes,)`` repetition that each is in, -1 before it is ready, all of them once it is through.
        pending: ``(nodes,)`` sends that have not drained and receives that are not delivered, of this repetition.
        sending: ``(nodes,)`` sends of it that have not drained, where a channel waits for them alone.
        absent: ``(flows,)`` nodes that the next start of each waits for.
        started: ``(flows,)`` how often each has started.
        delivered: ``(flows,)`` how often each was delivered.
        unfinished: Nodes that are not through.
        ahead: Flows and repetitions of what has come before what was sent before it, over a shorter way.
    """

    parties: Parties
    step: IntArray
    pending: IntArray
    sending: IntArray
    absent: IntArray
    started: IntArray
    delivered: IntArray
    unfinished: int
    ahead: set[tuple[int, int]] = field(factory=set)

    @classmethod
    def of(cls, parties: Parties, *, room: bool = False) -> _Stage:
        """Return a phase that nobody has begun; whose first flows wait for ``room`` at their destinations, or not."""
        nodes, flows = len(parties.sends), len(parties.starters)
        never = np.zeros(flows, dtype=np.intp)
        step, pending = np.full(nodes, -1), np.zeros(nodes, dtype=np.intp)
        absent = np.diff(parties.starters.offsets)
        if room:
            absent = absent + np.diff(parties.destinations.offsets)
        return cls(parties, step, pending, pending.copy(), absent, never, never.copy(), nodes)


class RankRun(Claim):
    """Runs ``schedule`` in each of ``groups``, every rank at its own pace; the module says by which rule.

    Where flows meet nobody, nothing is simulated: a recurrence gives the times. As soon as others come to their links,
    or the links change, what is under way then is put on them and goes on flow by flow.

    Args:
        network: Carries the flows; its admission is asked flow by flow.
        lowering: Turns phases into flows on the network's fabric.
        schedule: What to run.
        groups: ``(G, ranks)`` node of each rank.
        on_complete: Gets the ``(k,)`` indices of the groups that end, as often as some end at the same time.
        on_through: Gets the ``(k,)`` nodes that are through, as often as some are at the same time, before their groups
            end; and the mark of the last entry that each has waited for.
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
        on_through: Callable[[IntArray, IntArray], None] | None = None,
        priority: int = 0,
        label: str = "",
        rendezvous: bool = False,
    ) -> None:
        self._network = network
        self._lowering = lowering
        self._schedule = schedule
        self._groups = groups
        self._on_complete = on_complete
        self._on_through = on_through
        self._priority = priority
        self._label = label
        self._rendezvous = rendezvous
        self._count, self._ranks = groups.shape
        phases = schedule.phases
        self._order = lowering.built(partial(Order.of, schedule), None, schedule, Order)
        limits.check("phases", self._order.steps)  # each repetition is one
        self._before = [len(phase.after) + len(phase.behind) for phase in phases]
        self._missing: dict[int, IntArray] = {}  # phases before each that a node is not done with; once one is done
        self._cramped: dict[int, IntArray] = {}  # phases that make room for each that a node is not done with
        self._stages: dict[int, _Stage] = {}
        self._left = np.full(groups.size, len(phases))  # phases that each node is not done with
        self._channels = {
            number: Channel.of(schedule, self._order, members, [self._parties(one) for one in members], self._count)
            for number, members in lowering.built(partial(choices, schedule), None, schedule, choices).items()
        }
        self._channel_of = {one: number for number, channel in self._channels.items() for one in channel.phases}
        self._starting: dict[int, list[IntArray]] = {}  # flows that start at this moment, by phase
        self._through: list[int] = []  # nodes that are so at this moment, and not reported
        self._calls = 0
        self._due: dict[int, int] = {}  # events
        self._under_way: dict[int, tuple[int, int]] = {}  # tickets of flows, and how many have not arrived
        self._ended = np.zeros(groups.size, dtype=bool)  # nodes that are reported
        self._open = np.full(self._count, self._ranks)  # nodes of each group that are not
        self._began = math.nan
        self._entered = np.full(groups.size, math.inf)  # seconds since it began
        self._marks = np.full(groups.size, NEVER)
        self._last = np.full(groups.size, NEVER)  # mark of the last entry that each node waits for, if that is known
        self._foreseen: Recurrence | None = None
        self._foretold: list[int] = []  # calls that end nodes as it says

    def start(self) -> None:
        """Have all nodes enter now."""
        self.enter(np.arange(self._groups.size))
        self._start_flows()  # at once, so that who starts a collective hears what the admission refuses

    def enter(self, nodes: IntArray, marks: IntArray | int = 0) -> None:
        """Have ``(k,)`` ``nodes`` enter now, with marks that are not less than those of earlier entries.

        What launching takes comes before their first flows.
        """
        price = self._lowering.price(self._schedule, self._groups)
        if price is None or price.launch == 0:
            self._launched(nodes, marks)
        else:
            self._later(self._launched, nodes, marks, delay=price.launch)

    def _launched(self, nodes: IntArray, marks: IntArray | int) -> None:
        first = math.isnan(self._began)
        if first:
            self._began = self._network.now
        self._entered[nodes] = self._network.now - self._began
        self._marks[nodes] = marks
        if self._foresee() if first else self._foreseen is not None:
            self._look_ahead()
            return
        if not self._schedule.phases:
            self._report_later(nodes.tolist())
        for index, before in enumerate(self._before):
            if not before:
                self._go_on(index, self._unhindered(index, nodes))

    def cancel(self) -> None:
        """Stop now, in all groups; no more of them end."""
        for event in self._due.values():
            self._network.unschedule(event)
        for ticket, _ in self._under_way.values():
            self._network.cancel(ticket)
        if self._foreseen is not None:
            self._network.release(self)
            self._foreseen = None
        self._due.clear()
        self._under_way.clear()
        self._through.clear()

    # --- events

    def _later(self, callback: Callable[..., object], *given: object, delay: float = 0.0, priority: int = 0) -> None:
        self._calls += 1
        call = partial(self._call, self._calls, partial(callback, *given))
        self._due[self._calls] = self._network.schedule(delay, call, priority)

    def _call(self, number: int, callback: Callable[[], object]) -> None:
        del self._due[number]
        callback()

    # --- ranks

    def _unhindered(self, index: int, nodes: IntArray) -> IntArray:
        """Return those of ``nodes``, ready for phase ``index``, that need not wait for its channel; note the others."""
        number = self._channel_of.get(index)
        if number is None or not len(nodes):
            return nodes
        self._choose_later(number, nodes)
        return self._channels[number].ready(index, nodes, self._network.now)

    def _choose_later(self, number: int, nodes: IntArray) -> None:
        # All that ends at this moment must be known before a channel chooses.
        groups = self._channels[number].changed
        if not groups:
            self._later(self._choose, number, priority=_CHANNELS)
        groups.update((nodes // self._ranks).tolist())

    def _choose(self, number: int) -> None:
        for index, nodes in self._channels[number].choose():
            self._go_on(index, nodes)

    def _go_on(self, index: int, nodes: IntArray) -> None:
        """Let ``nodes`` enter their next repetition of phase ``index``, and what they can enter after that."""
        todo = [(index, nodes)]  # not recursion, for a rank may have no part in any number of phases
        while todo:
            index, nodes = todo.pop()
            through = self._enter(index, nodes) if len(nodes) else nodes
            if not len(through):
                continue
            self._end(index, through)
            for admitted in self._order.admits[index]:
                self._admit(admitted, through)
            for dependent in self._order.goes_on[index]:
                ready = through
                if self._before[dependent] > 1:
                    missing = self._missing_of(dependent)
                    missing[through] -= 1
                    ready = through[missing[through] == 0]
                todo.append((dependent, self._unhindered(dependent, ready)))

    def _enter(self, index: int, nodes: IntArray) -> IntArray:
        """Let ``nodes`` enter their next repetition; return those that are through with the phase."""
        stage, repeat, lets_go_early = (
            self._stage(index),
            self._schedule.phases[index].repeat,
            self._lets_go_early(index),
        )
        if len(nodes) <= _FEW and not lets_go_early:
            return self._enter_few(index, stage, nodes.tolist(), repeat)
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
            ready = np.unique(flows[stage.absent[flows] == 0])
            stage.absent[ready] = parties.starters.count(ready)
            self._start_later(index, ready)
            # A sender may be ahead, and what it has sent is there already.
            owed = stage.delivered[parties.receives.rows(nodes)] <= np.repeat(stage.step[nodes], receives)
            which = np.repeat(np.arange(len(nodes)), receives)[owed]
            stage.pending[nodes] = sends + np.bincount(which, minlength=len(nodes))
            if lets_go_early:
                stage.sending[nodes] = sends
                self._let_go(index, nodes[sends == 0])
            nodes = nodes[stage.pending[nodes] == 0]
            if lets_go_early:
                nodes = self._await_turn(index, nodes)
        return np.concatenate(through)

    def _admit(self, index: int, nodes: IntArray) -> None:
        """Note that ``nodes`` are done with one more of the phases that make room for phase ``index``."""
        phase = self._schedule.phases[index]
        if index not in self._cramped:
            self._cramped[index] = np.full(self._groups.size, len(phase.room))
        cramped = self._cramped[index]
        cramped[nodes] -= 1
        nodes = nodes[cramped[nodes] == 0]
        nodes = nodes[np.isin(nodes % self._ranks, phase.destination)]
        if len(nodes):
            stage = self._stage(index)
            flows = stage.parties.receives.rows(nodes)
            np.subtract.at(stage.absent, flows, 1)
            ready = np.unique(flows[stage.absent[flows] == 0])
            stage.absent[ready] = stage.parties.starters.count(ready)
            self._start_later(index, ready)

    def _lets_go_early(self, index: int) -> bool:
        """Return whether others have the channel of the phase during its latency."""
        number = self._channel_of.get(index)
        return number is not None and not self._channels[number].keeps

    def _let_go(self, index: int, nodes: IntArray) -> None:
        """Have ``nodes`` let go of the channel of phase ``index``."""
        if len(nodes):
            self._channels[self._channel_of[index]].release(index, nodes)
            self._choose_later(self._channel_of[index], nodes)

    def _await_turn(self, index: int, nodes: IntArray) -> IntArray:
        """Let ``nodes``, done with a repetition, wait for the channel again; return those with none to come."""
        more = self._stage(index).step[nodes] + 1 < self._schedule.phases[index].repeat
        self._unhindered(index, nodes[more])
        over: IntArray = nodes[~more]
        return over

    def _enter_few(self, index: int, stage: _Stage, nodes: list[int], repeat: int) -> IntArray:
        """Do the same, node by node."""
        parties, through, starting = stage.parties, [], []
        # Single numbers of the arrays, for which NumPy takes several times as long.
        step, pending, absent, delivered = stage.step.data, stage.pending.data, stage.absent.data, stage.delivered.data
        for node in nodes:
            sends, receives = len(parties.sends.list(node)), parties.receives.list(node)
            at = step[node] + 1 if sends or receives else repeat
            while at < repeat:
                for flow in parties.starts.list(node):
                    absent[flow] -= 1
                    if not absent[flow]:
                        absent[flow] = len(parties.starters.list(flow))
                        starting.append(flow)
                owed = sends
                for flow in receives:
                    owed += delivered[flow] <= at
                pending[node] = owed
                if owed:
                    break
                at += 1
            else:
                through.append(node)
            step[node] = at
        self._start_later(index, np.array(starting, dtype=np.intp))
        return np.array(through, dtype=np.intp)

    def _stage(self, index: int) -> _Stage:
        stage = self._stages.get(index)
        if stage is None:
            room = bool(self._schedule.phases[index].room)
            stage = self._stages[index] = _Stage.of(self._parties(index), room=room)
        return stage

    def _parties(self, index: int) -> Parties:
        phase = self._schedule.phases[index]
        ends, rendezvous = self._lowering.ends(phase), self._rendezvous
        build = partial(Parties.of, ends, self._ranks, self._count, rendezvous=rendezvous)
        return self._lowering.built(build, self._groups, phase, Parties, rendezvous)

    def _end(self, index: int, nodes: IntArray) -> None:
        """Note that ``nodes`` are through with phase ``index``."""
        stage, number = self._stages[index], self._channel_of.get(index)
        stage.unfinished -= len(nodes)
        if not stage.unfinished:
            del self._stages[index]
            self._missing.pop(index, None)
        if number is not None and self._channels[number].keeps:
            self._let_go(index, nodes)
        if len(nodes) <= _FEW:
            left, through = self._left.data, []
            for node in nodes.tolist():
                left[node] -= 1
                if not left[node]:
                    through.append(node)
        else:
            self._left[nodes] -= 1
            through = nodes[self._left[nodes] == 0].tolist()
        if through:
            self._report_later(through)

    def _report_later(self, nodes: list[int]) -> None:
        """Report ``nodes`` with all that are through at this moment."""
        if not self._through:
            self._later(self._report)
        self._through += nodes

    def _report(self) -> None:
        nodes = np.array(sorted(self._through), dtype=np.intp)
        self._through.clear()
        self._tell(nodes, self._close(nodes))

    def _close(self, nodes: IntArray) -> IntArray:
        """Note that ``nodes`` are through; return the groups that they end."""
        self._ended[nodes] = True
        groups, counts = np.unique(nodes // self._ranks, return_counts=True)
        self._open[groups] -= counts
        over: IntArray = groups[self._open[groups] == 0]
        return over

    def _tell(self, nodes: IntArray, groups: IntArray) -> None:
        if self._on_through is not None:
            self._on_through(nodes, self._awaited(nodes))
        if len(groups):
            self._on_complete(groups)

    def _awaited(self, nodes: IntArray) -> IntArray:
        """Return the mark of the last entry that each of ``nodes`` has waited for, which are through."""
        unknown = nodes[self._last[nodes] == NEVER]
        if len(unknown):
            groups = np.unique(unknown // self._ranks)
            marks = self._marks.reshape(self._count, -1)[groups]
            last = last_awaited(self._lowering, self._schedule, marks, rendezvous=self._rendezvous)
            self._last.reshape(self._count, -1)[groups] = last
        return self._last[nodes]

    # --- what is foreseen

    def _foresee(self) -> bool:
        """Let a recurrence say when groups end, if no flow meets another now; return whether it does."""
        network = self._network
        if not network.solver.sharing.local:
            return False
        build = partial(
            Recurrence.of,
            self._lowering,
            network.solver,
            network.bandwidths,
            self._schedule,
            self._groups,
            rendezvous=self._rendezvous,
        )
        named = self._schedule, network.solver.sharing, network.bandwidths, self._rendezvous
        found = self._lowering.built(build, self._groups, *named)
        if found is None:
            return False
        self.links = found.owners >= 0
        if not network.claim(self, self._label):
            return False
        self._foreseen = found
        return True

    def _look_ahead(self) -> None:
        """Note when nodes will be through of which that is known since some have entered now."""
        assert self._foreseen is not None
        ends, elapsed = self._foreseen.ends(self._entered), self._network.now - self._began
        if self._on_through is None:  # then only groups matter
            ends = np.repeat(ends.reshape(self._count, -1).max(axis=1), self._ranks)
        new = np.flatnonzero((self._last == NEVER) & (ends < math.inf))
        if not len(new):
            return
        # They were not known before, so each waits for somebody who has entered now, and with a mark as high as any.
        marks = self._marks.reshape(self._count, -1)
        self._last[new] = np.where(marks < NEVER, marks, -1).max(axis=1)[new // self._ranks]
        new = new[np.argsort(ends[new], kind="stable")]
        times, places = np.unique(ends[new], return_index=True)
        for end, nodes in zip(times.tolist(), np.split(new, places[1:]), strict=True):
            self._later(self._end_foreseen, nodes, delay=end - elapsed)
            self._foretold.append(self._calls)

    def _end_foreseen(self, nodes: IntArray) -> None:
        assert self._foreseen is not None  # as long as it is due
        groups = self._close(nodes)
        if len(groups):
            self.links &= ~np.isin(self._foreseen.owners, groups)
        if self._ended.all():
            self._network.release(self)
            self._foreseen = None
        self._tell(nodes, groups)

    def moved(self) -> list[tuple[Routes, FloatArray]]:
        """See ``Claim.moved``."""
        assert self._foreseen is not None  # it is a claim
        steps = self._foreseen.steps
        return [(steps[index].flows.routes, one.carried) for index, one in self._standings(self._foreseen)]

    def give_up(self) -> None:
        """See ``Claim.give_up``."""
        assert self._foreseen is not None  # it is a claim
        recurrence = self._foreseen
        standings = self._standings(recurrence)
        self._network.release(self)
        self._foreseen = None
        for call in self._foretold:
            if call in self._due:
                self._network.unschedule(self._due.pop(call))
        for index, standing in standings:
            self._resume(index, recurrence.steps[index], standing)
        late = (self._left == 0) & (self._entered < math.inf) & ~self._ended
        if late.any():
            self._report_later(np.flatnonzero(late).tolist())

    def _standings(self, recurrence: Recurrence) -> Iterator[tuple[int, Standing]]:
        """Return how far the phases are that have begun; what is due within rounding has happened."""
        now = self._network.now
        elapsed = math.inf if self._ended.all() else now - self._began + _TICKS * math.ulp(now)
        return recurrence.at(self._entered, elapsed)

    def _resume(self, index: int, steps: Steps, standing: Standing) -> None:
        """Go on with a phase where it stands."""
        phase, parties = self._schedule.phases[index], steps.parties
        through = standing.step == phase.repeat
        self._left -= through
        for dependent in self._order.goes_on[index]:
            self._missing_of(dependent)[through] -= 1
        if through.all():
            return
        stage = self._stages[index] = _Stage.of(parties)
        stage.step, stage.unfinished = standing.step, int((~through).sum())
        stage.started, stage.delivered = standing.started, standing.delivered
        nodes = np.flatnonzero(~through & (standing.step >= 0))
        # Who waits for others to start a flow, and what a node owes in its repetition.
        flows = parties.starts.rows(nodes)
        waiting = np.repeat(standing.step[nodes], parties.starts.count(nodes)) >= standing.started[flows]
        np.subtract.at(stage.absent, flows[waiting], 1)
        for table, so_far in ((parties.sends, standing.drained), (parties.receives, standing.delivered)):
            owed = so_far[table.rows(nodes)] <= np.repeat(standing.step[nodes], table.count(nodes))
            np.add.at(stage.pending, np.repeat(nodes, table.count(nodes))[owed], 1)
        running = np.flatnonzero(standing.started > standing.drained)
        if len(running):
            rest = evolve(self._lowering.each(steps.flows, running), volumes=standing.left[running])
            rest = evolve(rest, priority=self._priority, label=self._label)
            self._carry(index, running, standing.started[running] - 1, rest)
        for flying, delays in standing.arrivals:
            for delay in np.unique(delays).tolist():
                self._later(self._deliver, index, flying[delays == delay], delay=delay)

    def _missing_of(self, index: int) -> IntArray:
        """Return how many of the phases before ``index`` each node is not done with."""
        if index not in self._missing:
            self._missing[index] = np.full(self._groups.size, self._before[index])
        return self._missing[index]

    # --- flows

    def _start_later(self, index: int, flows: IntArray) -> None:
        """Start ``flows`` of a phase with all that start at this moment; all that they wait for are ready."""
        if not len(flows):
            return
        if not self._starting:
            self._later(self._start_flows, priority=_FLOWS)
        self._starting.setdefault(index, []).append(flows)

    def _start_flows(self) -> None:
        starting, self._starting = self._starting, {}
        for index, parts in starting.items():
            flows, stage, phase = np.concatenate(parts), self._stages[index], self._schedule.phases[index]
            flows.sort()
            repetition = stage.started[flows]
            stage.started[flows] += 1
            if self._schedule.uniform(phase):
                self._send(index, 0, flows, repetition)
                continue
            for one in np.unique(repetition).tolist():
                chosen = repetition == one
                self._send(index, one, flows[chosen], repetition[chosen])

    def _send(self, index: int, repetition: int, flows: IntArray, repetitions: IntArray) -> None:
        """Start ``flows`` of a phase now, in their ``repetitions``, with the bytes of ``repetition``."""
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
        each = partial(self._lowering.each, whole)
        if not ends.streams or isinstance(self._network.admission, AlwaysStart):
            self._carry(index, flows, repetitions, each(flows))
            return
        streamed = flows % len(ends) >= len(ends.sources)
        if not streamed.all():
            self._carry(index, flows[~streamed], repetitions[~streamed], each(flows[~streamed]))
        for place in np.flatnonzero(streamed):
            one = flows[place : place + 1]
            unicasts = partial(self._unicasts, lower, index, int(one[0]))
            self._carry(index, one, repetitions[place : place + 1], each(one), unicasts)

    def _unicasts(self, lower: Callable[..., FlowSet], index: int, stream: int) -> FlowSet:
        """Return what its ends do in place of a stream that the network cannot carry."""
        phase = self._schedule.phases[index]
        group, flow = divmod(stream, len(self._lowering.ends(phase)))
        replaced = self._lowering.replaced(phase)
        chosen = np.flatnonzero(replaced == flow) + group * len(replaced)
        return evolve(
            self._lowering.each(lower(unicasts=True), chosen),
            activity=np.zeros(len(chosen), dtype=np.intp),
            activities=1,
        )

    def _carry(
        self,
        index: int,
        flows: IntArray,
        repetitions: IntArray,
        carried: FlowSet,
        unicasts: Callable[[], FlowSet] | None = None,
    ) -> None:
        self._calls += 1
        number = self._calls
        ticket = self._network.start(
            carried,
            partial(self._arrived, number, index, flows, repetitions),
            unicasts=unicasts,
            on_drained=partial(self._drained, index, flows),
            checked=True,
        )
        self._under_way[number] = ticket, len(flows)

    def _drained(self, index: int, flows: IntArray, activities: IntArray) -> None:
        sources = self._stages[index].parties.sources
        chosen = flows if len(activities) == len(flows) else flows[activities]
        if self._lets_go_early(index):
            nodes, sending = sources.rows(chosen), self._stages[index].sending
            np.subtract.at(sending, nodes, 1)
            self._let_go(index, np.unique(nodes[sending[nodes] == 0]))
        if len(chosen) <= _FEW:
            self._owe_less_few(index, [node for flow in chosen.tolist() for node in sources.list(flow)])
        else:
            self._owe_less(index, sources.rows(chosen))

    def _arrived(self, number: int, index: int, flows: IntArray, repetitions: IntArray, activities: IntArray) -> None:
        ticket, left = self._under_way[number]
        self._under_way[number] = ticket, left - len(activities)
        if left == len(activities):
            del self._under_way[number]
        flows, stage = flows[activities], self._stages[index]
        if self._schedule.phases[index].repeat > 1:
            ahead = repetitions[activities] > stage.delivered[flows]
            if ahead.any():
                stage.ahead.update(zip(flows[ahead].tolist(), repetitions[activities][ahead].tolist(), strict=True))
                flows = flows[~ahead]
        self._deliver(index, flows)

    def _deliver(self, index: int, flows: IntArray) -> None:
        """Deliver the next repetition of each of ``flows``, and those that have come ahead of it."""
        stage = self._stages[index]
        self._deliver_one(index, stage, flows)
        while stage.ahead:
            following = {(flow, int(stage.delivered[flow])) for flow in flows.tolist()} & stage.ahead
            if not following:
                return
            stage.ahead -= following
            flows = np.array(sorted(flow for flow, _ in following), dtype=np.intp)
            self._deliver_one(index, stage, flows)

    def _deliver_one(self, index: int, stage: _Stage, flows: IntArray) -> None:
        destinations = stage.parties.destinations
        if len(flows) <= _FEW:
            step, delivered = stage.step.data, stage.delivered.data
            waiting = []
            for flow in flows.tolist():
                repetition = delivered[flow]
                delivered[flow] = repetition + 1
                waiting += [node for node in destinations.list(flow) if step[node] == repetition]
            self._owe_less_few(index, waiting)
            return
        stage.delivered[flows] += 1
        nodes, times = destinations.rows(flows), stage.delivered[flows]
        if len(nodes) > len(flows):
            times = np.repeat(times, destinations.count(flows))
        self._owe_less(index, nodes[stage.step[nodes] == times - 1])  # others count it when they get there

    def _owe_less(self, index: int, nodes: IntArray) -> None:
        """Note for each of ``nodes`` the end of a send or receive of its repetition."""
        pending = self._stages[index].pending
        np.subtract.at(pending, nodes, 1)
        free = np.unique(nodes[pending[nodes] == 0])
        if len(free):
            self._after_repetition(index, free)

    def _owe_less_few(self, index: int, nodes: list[int]) -> None:
        """Do the same, node by node."""
        pending, free = self._stages[index].pending.data, []
        for node in nodes:
            pending[node] -= 1
            if not pending[node]:
                free.append(node)
        if free:
            self._after_repetition(index, np.array(sorted(free), dtype=np.intp))

    def _after_repetition(self, index: int, nodes: IntArray) -> None:
        """Let ``nodes`` go on that are done with a repetition of phase ``index``."""
        if self._lets_go_early(index):
            nodes = self._await_turn(index, nodes)
        if len(nodes):
            self._go_on(index, nodes)
