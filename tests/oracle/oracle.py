"""What a task graph takes, by the written meaning alone: slow, obvious, and without any code of the simulation.

It follows docs/model.md and the order of a moment in engine/include/fredfw.h. It uses graphs, schedules, fabrics,
routers, admissions and transports as data. The engine does these as well, and the oracle does not:

- repetitions as one volume (``compressed``) where links change meanwhile;
- flows that are let in part by part, and unicasts in place of streams (``Split`` and ``Decompose``);
- transports whose costs depend on more of a call than its pattern, ranks and size;
- sharing policies with a state, and those of plugins;
- computations whose time follows from FLOPs and bytes, which the caller gives in seconds;
- counters, bytes by link, lower bounds, cancelling, copies, and stops on the way.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count, groupby
from random import Random
from typing import TypeVar

import numpy as np
from attrs import Factory, define

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Phase, Schedule
from fredfw.errors import RefusedError, UnsupportedError
from fredfw.fabric import (
    Admission,
    AlwaysStart,
    Call,
    Costs,
    Fabric,
    FlowSet,
    LiveRouter,
    NodeKind,
    Operation,
    Router,
    Routes,
    Start,
    Wait,
    answers,
)
from fredfw.simulation import CircuitPreempt, MaxMin, SharingPolicy, StrictLinks, WeightedMaxMin
from fredfw.workloads import TaskGraph, TaskKind

# At one moment: what has ended, then channels choose and ranks enter, then flows of ranks start.
ENDS, CHOICES, STARTS = 0, 1, 2
STREAMS = TaskKind.LOAD, TaskKind.STORE
# A bandwidth of 0 closes a link.
Change = tuple[float, Mapping[int, float]]
Algorithms = Mapping[Pattern | None, Sequence[CollectiveAlgorithm]]


class Unknown(Exception):
    """What is asked for is not part of the oracle."""


# --- flows that share links


@define(eq=False)
class Flow:
    """Bytes on their way, all at one rate.

    Args:
        sources: Nodes.
        destinations: Nodes.
        size: Bytes of one repetition.
        activity: What it ends with.
        messages: Those that its source sends in the step, or its destination receives, if those are more.
        reductions: Flows of the step that its destination reduces, if it reduces this one.
        tree: What happens to a stream on its way, if it is one.
    """

    sources: tuple[int, ...]
    destinations: tuple[int, ...]
    size: float
    activity: int
    messages: int = 1
    reductions: int = 0
    tree: Operation | None = None
    costs: Costs | None = None
    links: dict[int, float] = Factory(dict)  # share of the rate on each
    latency: float = 0.0
    cap: float = math.inf
    priority: int = 0
    weight: float = 1.0
    volume: float = 0.0  # what is put on the links
    left: float = 0.0
    drained: bool = False


def fair(flows: Sequence[Flow], capacity: Sequence[float]) -> list[float]:
    """Return max-min fair rates by weights: all are raised until a link is full or a cap is reached, as textbooks do."""
    rates, free, left = [0.0] * len(flows), set(range(len(flows))), list(capacity)
    while free:
        load: dict[int, float] = defaultdict(float)  # of each link, for each unit that rates are raised by
        for one in free:
            for link, share in flows[one].links.items():
                load[link] += share * flows[one].weight
        rooms = [left[link] / each for link, each in load.items()]
        rooms += [(flows[one].cap - rates[one]) / flows[one].weight for one in free]
        more = max(min(rooms), 0.0)
        full = {link for link, each in load.items() if left[link] / each <= more * (1 + 1e-12)}
        for link, each in load.items():
            left[link] -= more * each
        for one in list(free):
            flow = flows[one]
            at_cap = (flow.cap - rates[one]) / flow.weight <= more * (1 + 1e-12)
            rates[one] += more * flow.weight
            if at_cap or full & flow.links.keys():
                free.remove(one)
    return rates


def rates_of(
    flows: Sequence[Flow], capacity: Sequence[float], sharing: SharingPolicy, fabric: Fabric
) -> dict[Flow, float]:
    """Return the rate of each flow."""
    if isinstance(sharing, MaxMin | WeightedMaxMin):
        return dict(zip(flows, fair(flows, capacity), strict=True))
    found = dict.fromkeys(flows, 0.0)
    classes = sorted({flow.priority for flow in flows})
    if isinstance(sharing, StrictLinks):
        left = list(capacity)
        for priority in classes:
            mine = [flow for flow in flows if flow.priority == priority]
            for flow, rate in zip(mine, fair(mine, left), strict=True):
                found[flow] = rate
                for link, share in flow.links.items():
                    left[link] -= rate * share
            left = [0.0 if rest < 1e-12 * whole else rest for rest, whole in zip(left, capacity, strict=True)]
        return found
    if not isinstance(sharing, CircuitPreempt):
        raise Unknown(sharing.name)
    if len(classes) < 2:
        return dict(zip(flows, fair(flows, capacity), strict=True))
    running: list[Flow] = []
    taken: set[int] = set()  # switches of higher classes
    for priority in classes:
        mine = [flow for flow in flows if flow.priority == priority and all(capacity[link] for link in flow.links)]
        mine = [flow for flow in mine if not taken & switches(flow, fabric)]
        running += mine
        taken |= {node for flow in mine for node in switches(flow, fabric)}
    return found | dict(zip(running, fair(running, capacity), strict=True))


def switches(flow: Flow, fabric: Fabric) -> set[int]:
    """Return the switches that ``flow`` goes through."""
    nodes = {int(ends[link]) for link in flow.links for ends in (fabric.sources, fabric.destinations)}
    return {node for node in nodes if fabric.kinds[node] == NodeKind.SWITCH}


@define(eq=False)
class Sending:
    """Flows that start together, in activities that end each on their own.

    Args:
        flows: What is sent.
        activities: How many there are.
        ended: Gets the activities that are delivered, as often as some are at one moment.
        drained: Gets those whose bytes have left, if somebody wants to know.
        repeat: How often all is sent, as one volume.
        label: What it is for.
        continues: Whether the repetition before it has just ended.
    """

    flows: list[Flow]
    activities: int
    ended: Callable[[list[int]], None]
    drained: Callable[[list[int]], None] | None = None
    repeat: int = 1
    label: str = ""
    continues: bool = False
    pause: float = 0.0  # between two repetitions, to set up circuits
    begun: bool = False
    pending: list[int] = Factory(list)  # flows of each activity that have not drained
    ends: list[float] = Factory(list)
    open: int = 0  # activities that have not ended
    asked: FlowSet | None = None  # as the admission knows it


class Network:
    """A fabric that carries flows in simulated time; everything is looked at each time."""

    def __init__(
        self, fabric: Fabric, sharing: SharingPolicy, priorities: Mapping[str, int], noise: Random | None
    ) -> None:
        self.fabric, self.sharing, self.noise = fabric, sharing, noise
        self.priorities = priorities
        self.now = 0.0
        self.capacity: list[float] = fabric.bandwidths.tolist()
        self.router: Router = fabric.defaults.router
        self.admission: Admission = fabric.defaults.admission.begin(fabric.network)
        self.flows: list[Flow] = []  # on links, in the order in which they came
        self.owner: dict[Flow, Sending] = {}
        self.active: list[Sending] = []
        self.waiting: list[Sending] = []
        self.calendar: list[tuple[float, int, int, Callable[[], None]]] = []
        self.numbers = count()
        self.paths: dict[object, Routes] = {}
        self.rates: dict[Flow, float] | None = None

    # time

    def at(self, time: float, priority: int, call: Callable[[], None]) -> None:
        """Call at a moment; of equal ones the lowest priority first, then what has become known first."""
        heapq.heappush(self.calendar, (time, priority, next(self.numbers), call))

    def soon(self, priority: int, call: Callable[[], None]) -> None:
        """Call at this moment."""
        self.at(self.now, priority, call)

    def advance(self, until: float = math.inf) -> None:
        """Let everything happen that happens until then."""
        while True:
            due = self.calendar[0][0] if self.calendar else math.inf
            if due <= self.now:
                heapq.heappop(self.calendar)[3]()
                continue
            if self.rates is None:
                self.rates = rates_of(self.flows, self.capacity, self.sharing, self.fabric)
            rates = self.rates
            ends = {flow: self.now + flow.left / rate for flow, rate in rates.items() if rate > 0}
            first = min(ends.values(), default=math.inf)
            moment = min(first, due, until)
            if moment == math.inf:
                return
            for flow, rate in rates.items():
                flow.left -= rate * (moment - self.now)
            self.now = max(self.now, moment)
            if first > moment:
                if due > moment:
                    return
                continue
            late = {flow: end - self.now for flow, end in ends.items()}
            self.take_off(
                [
                    flow
                    for flow in self.flows
                    if flow in late and (late[flow] <= 1e-15 * self.now or late[flow] * rates[flow] <= 1e-11 * flow.volume)
                ]
            )

    # flows

    def routed(self, flow: Flow, router: Router) -> tuple[dict[int, float], float]:
        """Return links and latency of ``flow`` by ``router``, with what the transport adds."""
        key = router, flow.sources, flow.destinations, flow.tree
        if key not in self.paths:
            ends = np.array(flow.sources), np.array(flow.destinations)
            if flow.tree is None:
                self.paths[key] = answers.route(router, self.fabric, *ends)
            else:
                self.paths[key] = answers.tree(router, self.fabric, *ends, flow.tree)
        routes, costs = self.paths[key], flow.costs
        coefficients = np.ones(len(routes.links)) if routes.coefficients is None else routes.coefficients
        links: dict[int, float] = defaultdict(float)
        for link, share in zip(routes.links.tolist(), coefficients.tolist(), strict=True):
            links[link] += share if costs is None else share / of_tier(costs.efficiency, self.tier([link]))
        latency = float(routes.latencies[0])
        if costs is not None and links:
            tier = self.tier(links)
            latency += of_tier(costs.step, tier) + of_tier(costs.message, tier) * flow.messages
        return dict(links), latency

    def tier(self, links: Iterable[int]) -> int:
        """Return the outermost tier of some links."""
        return max(int(self.fabric.tiers[link]) for link in links)

    def is_stuck(self, links: Iterable[int]) -> bool:
        """Return whether one of some links is closed."""
        return any(not self.capacity[link] for link in links)

    def send(self, sending: Sending, costs: Costs | None = None) -> None:
        """Start flows, as soon as the admission lets them."""
        priority, weight = self.priorities.get(sending.label, 0), self.sharing.weight(sending.label)
        for flow in sending.flows:
            flow.costs = costs
            flow.links, flow.latency = self.routed(flow, self.fabric.defaults.router)
            flow.priority, flow.weight = priority, weight
            if self.noise is not None:
                flow.size *= 1 + 1e-12 * self.noise.uniform(-1, 1)
            if costs is not None and flow.links:
                flow.cap = of_tier(costs.cap, self.tier(flow.links))
                if flow.reductions:
                    flow.cap = min(flow.cap, costs.reduction / flow.reductions)
        self.ask(sending)

    def ask(self, sending: Sending) -> None:
        """Ask whether flows may start, on ways round links that are closed."""
        for flow in sending.flows:
            flow.links, flow.latency = self.routed(flow, self.fabric.defaults.router)
            if self.is_stuck(flow.links):
                flow.links, flow.latency = self.routed(flow, self.router)
        if isinstance(self.admission, AlwaysStart) or self.is_outside(sending):
            self.let_in(sending, Start())
            return
        sending.asked = self.flow_set(sending)
        active = [one.asked for one in self.active if one.asked is not None]
        match self.admission.admit(sending.asked, active):
            case Start() as start:
                self.let_in(sending, start)
            case Wait():
                self.waiting.append(sending)
            case other:
                raise Unknown(type(other).__name__)

    def is_outside(self, sending: Sending) -> bool:
        """Return whether flows go over links of memories, which the admission does not know."""
        first = next((link for flow in sending.flows for link in flow.links), -1)
        return first >= len(self.fabric.network.sources)

    def flow_set(self, sending: Sending) -> FlowSet:
        """Return flows as an admission sees them."""
        key = tuple((flow.sources, flow.destinations, tuple(flow.links)) for flow in sending.flows)
        if key not in self.paths:
            links = [np.array(list(flow.links), dtype=np.intp) for flow in sending.flows]
            self.paths[key] = Routes.of(links, [flow.latency for flow in sending.flows])
        caps = np.array([flow.cap for flow in sending.flows])
        return FlowSet(
            self.paths[key],
            np.array([flow.size for flow in sending.flows]),
            np.array([flow.activity for flow in sending.flows], dtype=np.intp),
            sending.activities,
            repeat=sending.repeat,
            caps=None if np.isinf(caps).all() else caps,
            priority=self.priorities.get(sending.label, 0),
            label=sending.label,
            continues=sending.continues,
        )

    def let_in(self, sending: Sending, start: Start) -> None:
        """Let flows in, which may have to be set up."""
        self.active.append(sending)
        if start.caps is not None:
            for flow, cap in zip(sending.flows, start.caps.tolist(), strict=True):
                flow.cap = min(flow.cap, cap)
        sending.open = sending.activities
        sending.pause = 0.0 if start.setup_once else start.setup
        setup = 0.0 if start.setup_once and sending.continues else start.setup
        if setup > 0:
            self.at(self.now + setup, ENDS, partial(self.begin, sending))
        else:
            self.begin(sending)

    def begin(self, sending: Sending) -> None:
        """Put flows on their links; those with nothing to wait for have drained."""
        sending.begun = True
        sending.ends, sending.pending = [self.now] * sending.activities, [0] * sending.activities
        for flow in sending.flows:
            sending.pending[flow.activity] += 1
        empty = [one for one in range(sending.activities) if not sending.pending[one]]
        for one in empty:
            sending.ends[one] += sending.pause * (sending.repeat - 1)
        self.deliver(sending, empty)
        free = []
        for flow in sending.flows:
            self.owner[flow] = sending
            flow.volume = flow.left = flow.size * sending.repeat
            if self.needs_nothing(flow):
                free.append(flow)
            else:
                self.flows.append(flow)
        self.rates = None
        self.drain(sending, free)

    def needs_nothing(self, flow: Flow) -> bool:
        """Return whether a flow has nothing to send, or no link or cap that would take time; it waits for closed links."""
        if self.is_stuck(flow.links):
            return False
        return flow.left <= 0 or (not flow.links and flow.cap == math.inf)

    def take_off(self, flows: Sequence[Flow]) -> None:
        """Note that flows on links have drained."""
        for flow in flows:
            self.flows.remove(flow)
        self.rates = None
        for _, mine in groupby(flows, key=self.owner.__getitem__):
            together = list(mine)
            self.drain(self.owner[together[0]], together)

    def drain(self, sending: Sending, flows: Sequence[Flow]) -> None:
        """Note that flows have drained, which are delivered after their latencies."""
        over = []
        for flow in flows:
            flow.drained = True
            late = flow.latency * sending.repeat + sending.pause * (sending.repeat - 1)
            sending.ends[flow.activity] = max(sending.ends[flow.activity], self.now + late)
            sending.pending[flow.activity] -= 1
            if not sending.pending[flow.activity]:
                over.append(flow.activity)
        self.deliver(sending, sorted(over))

    def deliver(self, sending: Sending, activities: list[int]) -> None:
        """Note when activities will end, all of whose flows have drained."""
        if activities and sending.drained is not None:
            self.soon(ENDS, partial(sending.drained, activities))
        for end, together in groupby(sorted(activities, key=sending.ends.__getitem__), key=sending.ends.__getitem__):
            self.at(end, ENDS, partial(self.complete, sending, list(together)))

    def complete(self, sending: Sending, activities: list[int]) -> None:
        """Note that activities have ended; with the last one those that wait are asked about again."""
        sending.open -= len(activities)
        if not sending.open:
            self.active.remove(sending)
            if sending.asked is not None:
                self.admission.release(sending.asked)
                again, self.waiting = self.waiting, []
                for one in again:
                    self.ask(one)
        sending.ended(activities)

    # links

    def change(self, bandwidths: Mapping[int, float]) -> None:
        """Give links other bandwidths; flows over closed ones go on over others, where there are such."""
        for link, bandwidth in bandwidths.items():
            self.capacity[link] = bandwidth
        self.rates = None
        live = np.array(self.capacity) > 0
        rule = self.fabric.defaults.router
        self.router = rule if live.all() else LiveRouter(rule, live)
        for sending in list(self.active):
            self.take_off([one for one in self.flows if self.owner[one] is sending and self.needs_nothing(one)])
            moved = []
            for flow in sending.flows:
                if flow.drained or not self.is_stuck(flow.links):
                    continue
                links, latency = self.routed(flow, self.router)
                if not self.is_stuck(links):
                    flow.links, flow.latency = links, latency
                    if sending.begun:
                        flow.volume = flow.left
                        moved.append(flow)
            for flow in moved:  # they come after those that are there
                self.flows.remove(flow)
                self.flows.append(flow)
            self.take_off([flow for flow in moved if self.needs_nothing(flow)])


def of_tier(costs: float | Sequence[float], tier: int) -> float:
    """Return what costs at a tier, or at each."""
    return costs if isinstance(costs, int | float) else costs[tier if len(costs) > 1 else 0]


# --- what schedules send


@define
class Part:
    """A flow of a phase in any group: its ends, whether they reduce, and its bytes at each repetition."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]
    reduces: bool
    is_stream: bool
    sizes: list[float]
    messages: int = 1
    reductions: int = 0

    def flow(self, nodes: Sequence[int], step: int, activity: int) -> Flow:
        """Return what it sends in a group of ``nodes``."""
        tree = None
        if self.is_stream:
            ends = len(self.sources), len(self.destinations)
            tree = Operation.MULTICAST if ends[0] == 1 else Operation.REDUCE if ends[1] == 1 else Operation.ALL_REDUCE
        sources, destinations = (tuple(nodes[rank] for rank in ends) for ends in (self.sources, self.destinations))
        size = self.sizes[step]
        return Flow(sources, destinations, size, activity, self.messages, self.reductions, tree)


def parts_of(schedule: Schedule, phase: Phase) -> list[Part]:
    """Return the flows of a phase: rows with the same ends that all reduce or all copy are one, and so is a stream."""
    chunk = np.broadcast_to(schedule.chunk_bytes, schedule.chunks).tolist()
    streams = [-1] * len(phase) if phase.stream is None else phase.stream.tolist()
    rows: dict[object, list[int]] = defaultdict(list)
    for row, (stream, *ends) in enumerate(zip(streams, phase.source, phase.destination, phase.reduce, strict=True)):
        rows[(0, *map(int, ends)) if stream < 0 else (1, stream)].append(row)

    def carried(row: int, step: int) -> float:
        first = int(phase.offset[row]) + step * int(phase.stride[row])
        places = (int(phase.base[row]) + (first + one) % int(phase.modulus[row]) for one in range(phase.count[row]))
        return sum(chunk[place] for place in places)

    found = []
    unicasts = [mine for key, mine in rows.items() if key[0] == 0]  # type: ignore[index]  # keys are tuples
    for mine in unicasts + [rows[key] for key in sorted(key for key in rows if key[0])]:  # type: ignore[index,type-var]
        is_stream = streams[mine[0]] >= 0
        ends = (tuple(sorted({int(side[row]) for row in mine})) for side in (phase.source, phase.destination))
        counted = mine[:1] if is_stream else mine  # the rows of a stream name the same bytes
        sizes = [sum(carried(row, step) for row in counted) for step in range(phase.repeat)]
        found.append(Part(*ends, bool(phase.reduce[mine[0]]), is_stream, sizes))
    alone = found[: len(unicasts)]
    for part in alone:
        sent = sum(part.sources == other.sources for other in alone)
        received = [other for other in alone if part.destinations == other.destinations]
        part.messages = max(sent, len(received))
        part.reductions = sum(other.reduces for other in received) if part.reduces else 0
    return found


class Turns:
    """Which phases of a schedule take turns together, and with how many bytes."""

    def __init__(self, schedule: Schedule, parts: Sequence[Sequence[Part]]) -> None:
        self.of: list[int] = []  # the first phase of the turn of each
        first: dict[tuple[int, int], int] = {}
        for index, phase in enumerate(schedule.phases):
            key = phase.channel, phase.turn
            self.of.append(index if phase.channel < 0 or phase.turn < 0 else first.setdefault(key, index))
        self.bytes: dict[int, float] = defaultdict(float)
        if schedule.policy == "smallest-first":
            for index, phase in enumerate(schedule.phases):
                rows = sum(float(schedule.row_bytes(phase, step).sum()) for step in range(phase.repeat))
                self.bytes[self.of[index]] += rows
        self.keeps = schedule.release == "delivered"

    def members(self, turn: int) -> list[int]:
        """Return the phases of a turn."""
        return [index for index, mine in enumerate(self.of) if mine == turn]


class Run:
    """A schedule in groups of nodes.

    Args:
        network: Carries the flows.
        schedule: What each group does.
        groups: Node of each rank of each group.
        label: What the flows are for.
        costs: What the call costs.
        times: How often all is done, where repetitions are one volume.
    """

    def __init__(
        self,
        network: Network,
        schedule: Schedule,
        groups: Sequence[Sequence[int]],
        label: str = "",
        costs: Costs | None = None,
        times: int = 1,
    ) -> None:
        self.network, self.schedule, self.groups, self.label, self.costs = network, schedule, groups, label, costs
        self.phases, self.times = schedule.phases, times
        self.parts = [parts_of(schedule, phase) for phase in schedule.phases]
        self.turns = Turns(schedule, self.parts)
        self.launch = 0.0 if costs is None else costs.launch


class WholeRun(Run):
    """Phases stay whole: one starts in a group when all that it waits for is over there.

    Repetitions follow each other (``stepwise``), or are one volume; ``ended`` gets groups.
    """

    stepwise = True
    ended: Callable[[list[int]], None]

    def start(self) -> None:
        """Start in all groups."""
        everybody = list(range(len(self.groups)))
        self.left = {group: len(self.phases) for group in everybody}
        self.awaits = {(index, one): len(phase.waits) for index, phase in enumerate(self.phases) for one in everybody}
        self.since: dict[tuple[int, int], float] = {}  # of phases that wait for their channels, in groups
        self.first: dict[tuple[int, int], float] = {}  # when turns were ready first
        self.holder: dict[tuple[int, int], int] = {}  # turns that have channels
        self.owing = set(self.awaits)  # phases that have not let go of their channels
        self.steps: dict[tuple[int, int], int] = {}
        self.choosing: set[int] = set()
        if self.launch:
            self.network.at(self.network.now + self.launch * self.times, ENDS, partial(self.launched, everybody))
        else:
            self.launched(everybody)

    def launched(self, groups: list[int]) -> None:
        """Begin with what waits for nothing."""
        if not self.phases:
            self.network.soon(ENDS, partial(self.ended, groups))
        for index, phase in enumerate(self.phases):
            if not phase.waits:
                self.ready(index, groups)

    def ready(self, index: int, groups: list[int], step: int = 0) -> None:
        """Begin a phase, where it needs no channel or has one."""
        channel, turn = self.phases[index].channel, self.turns.of[index]
        at_once = []
        for group in groups:
            self.steps[index, group] = step
            if channel < 0 or (self.turns.keeps and self.holder.get((channel, group)) == turn):
                at_once.append(group)
            else:
                self.since[index, group] = self.first.setdefault((turn, group), self.network.now)
        if at_once:
            self.begin(index, at_once)
        if len(at_once) < len(groups):
            self.choose_soon(channel)

    def choose_soon(self, channel: int) -> None:
        """Choose when all that ends at this moment is known."""
        if channel not in self.choosing:
            self.choosing.add(channel)
            self.network.soon(CHOICES, partial(self.choose, channel))

    def choose(self, channel: int) -> None:
        """Give a channel to the next turn, in the groups where it is free."""
        self.choosing.remove(channel)
        chosen: dict[int, list[int]] = defaultdict(list)
        for group in range(len(self.groups)):
            ready = [index for index, phase in enumerate(self.phases) if (index, group) in self.since]
            ready = [index for index in ready if self.phases[index].channel == channel]
            if (channel, group) not in self.holder and ready:
                chosen[min(ready, key=lambda one: self.rank(one, self.since[one, group]))].append(group)
        for index, groups in sorted(chosen.items()):
            turn = self.turns.of[index]
            for group in groups:
                self.holder[channel, group] = turn
            for one in self.turns.members(turn) if self.turns.keeps else [index]:
                mine = [group for group in groups if self.since.pop((one, group), None) is not None]
                for step in sorted({self.steps[one, group] for group in mine}):
                    self.begin(one, [group for group in mine if self.steps[one, group] == step])

    def rank(self, index: int, since: float) -> tuple[float, float, int]:
        """Return what a free channel takes the least of."""
        return self.turns.bytes[self.turns.of[index]], since, index

    def begin(self, index: int, groups: list[int]) -> None:
        """Start the flows of a phase, in groups that are all at the same repetition."""
        phase, step = self.phases[index], self.steps[index, groups[0]]
        in_steps = phase.repeat > 1 and (self.stepwise or not self.schedule.uniform(phase))
        repeat = self.times * (1 if in_steps else phase.repeat)
        flows = [
            part.flow(self.groups[group], step, place)
            for place, group in enumerate(groups)
            for part in self.parts[index]
        ]
        is_last = not in_steps or step + 1 == phase.repeat
        # Of repetitions nobody says when they have drained.
        early = phase.repeat * self.times == 1

        def drained(places: list[int]) -> None:
            mine = [groups[place] for place in places]
            if not self.turns.keeps:
                self.let_go(index, mine)
            if early:
                self.wait_less(mine, [one for one, other in enumerate(self.phases) if index in other.behind])

        def ended(places: list[int]) -> None:
            mine = [groups[place] for place in places]
            if is_last:
                self.over(index, mine, early=early)
            elif self.turns.keeps or phase.channel < 0:
                for group in mine:
                    self.steps[index, group] = step + 1
                self.begin(index, mine)
            else:
                self.owing.update((index, group) for group in mine)
                self.ready(index, mine, step + 1)

        continues = in_steps and step > 0
        self.network.send(
            Sending(flows, len(groups), ended, drained, repeat, self.label, continues=continues), self.costs
        )

    def let_go(self, index: int, groups: list[int]) -> None:
        """Free the channel of a phase where nothing of its turn keeps it."""
        channel, turn = self.phases[index].channel, self.turns.of[index]
        for group in groups:
            if channel >= 0 and (index, group) in self.owing:
                self.owing.remove((index, group))
                if not self.turns.keeps or all((one, group) not in self.owing for one in self.turns.members(turn)):
                    del self.holder[channel, group]
                    self.choose_soon(channel)

    def over(self, index: int, groups: list[int], *, early: bool) -> None:
        """Note the end of a phase."""
        self.let_go(index, groups)
        for waits in ("after", "room"):
            self.wait_less(groups, [one for one, other in enumerate(self.phases) if index in getattr(other, waits)])
        if not early:
            self.wait_less(groups, [one for one, other in enumerate(self.phases) if index in other.behind])
        done = []
        for group in groups:
            self.left[group] -= 1
            if not self.left[group]:
                done.append(group)
        if done:
            self.ended(done)

    def wait_less(self, groups: list[int], dependents: list[int]) -> None:
        """Note for phases that one of those that they wait for is over."""
        for one in dependents:
            free = []
            for group in groups:
                self.awaits[one, group] -= 1
                if not self.awaits[one, group]:
                    free.append(group)
            if free:
                self.ready(one, free)


@define(eq=False)
class Order:
    """The turns of a group on a channel, one order for all of its ranks.

    Args:
        turns: The turns, of those that have come up.
        place: How many of them each rank has begun or has no part in.
        first: When turns were ready first, by turn and rank.
        since: The same of those that wait.
        ready: Phases that wait, by rank.
        holds: What each rank has the channel for, and the phases that keep it.
    """

    turns: list[int] = Factory(list)
    place: dict[int, int] = Factory(lambda: defaultdict(int))
    first: dict[tuple[int, int], float] = Factory(dict)
    since: dict[tuple[int, int], float] = Factory(dict)
    ready: dict[int, list[int]] = Factory(lambda: defaultdict(list))
    holds: dict[int, tuple[int, set[int]]] = Factory(dict)


class RankRun(Run):
    """No rank waits for more than what it sends and receives itself.

    Marks of entries travel with flows as a maximum. ``through`` gets ranks of groups that are through, each with the last
    mark that it has waited for.
    """

    rendezvous = False
    through: Callable[[list[tuple[int, int, int]]], None]

    def begin(self) -> None:
        """Have nobody in it yet."""
        ranks = range(self.schedule.ranks)
        self.at: dict[tuple[int, int, int], int] = {}  # repetition that a rank of a group is in, of a phase
        self.mark: dict[tuple[int, int, int], int] = {}  # the last that it has waited for there
        self.entered: dict[tuple[int, int], int] = {}  # marks of ranks
        self.over: set[tuple[int, int, int]] = set()
        self.started: dict[tuple[int, int, int], int] = defaultdict(int)  # repetitions of flows: group, phase, flow
        self.drained: dict[tuple[int, int, int], int] = defaultdict(int)
        self.arrived: dict[tuple[int, int, int], set[int]] = defaultdict(set)
        self.marks: dict[tuple[int, int, int, int], int] = {}  # that repetitions of flows carry
        self.starting: dict[int, list[tuple[int, int, int]]] = {}  # by phase: repetition, group, flow
        self.leaving: list[tuple[int, int]] = []
        self.choosing: dict[int, set[int]] = defaultdict(set)  # groups, by channel
        self.orders: dict[tuple[int, int], Order] = defaultdict(Order)
        self.sends = [[[f for f, one in enumerate(mine) if rank in one.sources] for rank in ranks] for mine in self.parts]
        self.receives = [
            [[f for f, one in enumerate(mine) if rank in one.destinations] for rank in ranks] for mine in self.parts
        ]
        # A channel whose phases come one after the other anyway leaves no choice.
        before: list[set[int]] = []
        for phase in self.phases:
            before.append({*phase.after, *phase.behind}.union(*(before[one] for one in phase.after + phase.behind)))
        self.channels: dict[int, list[int]] = defaultdict(list)
        for index, phase in enumerate(self.phases):
            self.channels[phase.channel].append(index)
        for channel, mine in list(self.channels.items()):
            if channel < 0 or all(one in before[other] for one, other in zip(mine, mine[1:], strict=False)):
                del self.channels[channel]

    def enter(self, places: list[tuple[int, int, int]]) -> None:
        """Have ranks of groups enter, with their marks; launching takes its time."""
        if self.launch:
            self.network.at(self.network.now + self.launch, ENDS, partial(self.launched, places))
        else:
            self.launched(places)

    def launched(self, places: list[tuple[int, int, int]]) -> None:
        """Begin with what waits for nothing."""
        for group, rank, mark in places:
            self.entered[group, rank] = mark
            if not self.phases:
                self.leave(group, rank)
        for index, phase in enumerate(self.phases):
            if not phase.after and not phase.behind:
                for group, rank, _ in places:
                    self.ready(group, rank, index)

    def has_part(self, index: int, rank: int) -> bool:
        """Return whether a rank sends or receives in a phase."""
        return bool(self.sends[index][rank] or self.receives[index][rank])

    def ready(self, group: int, rank: int, index: int) -> None:
        """Note that a rank is done with all that a phase comes after or is behind."""
        waits = self.phases[index].after + self.phases[index].behind
        marks = [self.mark[group, rank, one] for one in waits]
        self.mark[group, rank, index] = max([self.entered[group, rank], *marks])
        self.await_turn(group, rank, index, 0)

    def await_turn(self, group: int, rank: int, index: int, step: int) -> None:
        """Enter a repetition, or wait for the channel."""
        channel, turn = self.phases[index].channel, self.unit(index)
        if channel not in self.channels or not self.has_part(index, rank):
            self.enter_step(group, rank, index, step)
            return
        order = self.orders[channel, group]
        if self.turns.keeps and rank in order.holds and order.holds[rank][0] == turn:
            self.enter_step(group, rank, index, step)
            return
        order.since[turn, rank] = order.first.setdefault((self.turns.of[index], rank), self.network.now)
        order.ready[rank].append(index)
        self.choose_soon(channel, group)

    def unit(self, index: int) -> int:
        """Return what has its place in the order: a turn; where channels are let go early, each phase by itself."""
        return self.turns.of[index] if self.turns.keeps else index

    def enter_step(self, group: int, rank: int, index: int, step: int) -> None:
        """Enter a repetition: flows start for which all are ready that they wait for."""
        if step == self.phases[index].repeat or not self.has_part(index, rank):
            self.finish(group, rank, index)
            return
        self.at[group, rank, index] = step
        starts = list(self.sends[index][rank])
        if self.rendezvous:
            starts = sorted({*starts, *self.receives[index][rank]})
        for flow in starts:
            self.try_flow(group, index, flow)
        if not self.turns.keeps and not self.sends[index][rank]:
            self.let_go(group, rank, index)
        self.look(group, rank, index)

    def try_flow(self, group: int, index: int, flow: int) -> None:
        """Start the next repetition of a flow, if all that it waits for are ready."""
        part, step, phase = self.parts[index][flow], self.started[group, index, flow], self.phases[index]
        starters = {*part.sources, *(part.destinations if self.rendezvous else ())}
        if step == phase.repeat or any(self.at.get((group, rank, index), -1) < step for rank in starters):
            return
        marks = [self.mark[group, rank, index] for rank in starters]
        if phase.room and step == 0:
            needed = [(group, rank, one) for rank in part.destinations for one in phase.room]
            if not self.over.issuperset(needed):
                return
            marks += [self.mark[one] for one in needed]
        self.started[group, index, flow] += 1
        self.marks[group, index, flow, step] = max(marks)
        if not self.starting:
            self.network.soon(STARTS, self.start_flows)
        self.starting.setdefault(index, []).append((step, group, flow))

    def start_flows(self) -> None:
        """Start flows of phases together; a stream is asked about by itself."""
        starting, self.starting = self.starting, {}
        for index, mine in starting.items():
            uniform = self.schedule.uniform(self.phases[index])
            mine.sort(key=lambda one: (0 if uniform else one[0], one[1:]))
            parts = self.parts[index]
            alike = [list(some) for _, some in groupby(mine, key=lambda one: 0 if uniform else one[0])]
            for some in alike:
                alone = isinstance(self.network.admission, AlwaysStart)
                unicasts = [one for one in some if alone or not parts[one[2]].is_stream]
                streams = [[one] for one in some if one not in unicasts]
                for together in [unicasts] * bool(unicasts) + streams:
                    self.send(index, together)

    def send(self, index: int, which: list[tuple[int, int, int]]) -> None:
        """Start flows, each of which ends by itself."""
        flows = [
            self.parts[index][flow].flow(self.groups[group], step, place)
            for place, (step, group, flow) in enumerate(which)
        ]

        def drained(places: list[int]) -> None:
            for place in places:
                _, group, flow = which[place]
                self.drained[group, index, flow] += 1
            touched = sorted(
                {(which[place][1], rank) for place in places for rank in self.parts[index][which[place][2]].sources}
            )
            for group, rank in touched:
                if not self.turns.keeps and self.has_sent(group, rank, index):
                    self.let_go(group, rank, index)
            for group, rank in touched:
                self.look(group, rank, index)

        def ended(places: list[int]) -> None:
            for place in places:
                step, group, flow = which[place]
                self.arrived[group, index, flow].add(step)
            for place in places:
                _, group, flow = which[place]
                for rank in self.parts[index][flow].destinations:
                    self.look(group, rank, index)

        self.network.send(Sending(flows, len(flows), ended, drained, 1, self.label), self.costs)

    def has_sent(self, group: int, rank: int, index: int) -> bool:
        """Return whether all has drained that a rank sends in its repetition."""
        step = self.at.get((group, rank, index), -1)
        return all(self.drained[group, index, flow] > step for flow in self.sends[index][rank])

    def look(self, group: int, rank: int, index: int) -> None:
        """Have a rank go on that is done with a repetition; what it receives counts in the order in which it was sent."""
        place = group, rank, index
        if place not in self.at or place in self.over or self.is_waiting(group, rank, index):
            return
        step = self.at[place]
        got = all(
            self.arrived[group, index, flow].issuperset(range(step + 1)) for flow in self.receives[index][rank]
        )
        if not got or not self.has_sent(group, rank, index):
            return
        mine = self.sends[index][rank] + self.receives[index][rank]
        self.mark[place] = max([self.mark[place], *(self.marks[group, index, flow, step] for flow in mine)])
        if step + 1 == self.phases[index].repeat or self.turns.keeps:
            self.enter_step(group, rank, index, step + 1)
        else:
            self.await_turn(group, rank, index, step + 1)

    def is_waiting(self, group: int, rank: int, index: int) -> bool:
        """Return whether a rank waits for the channel of a phase."""
        channel = self.phases[index].channel
        return channel in self.channels and index in self.orders[channel, group].ready[rank]

    def finish(self, group: int, rank: int, index: int) -> None:
        """Note that a rank is done with a phase."""
        place = group, rank, index
        self.at[place] = self.phases[index].repeat
        self.over.add(place)
        if self.turns.keeps:
            self.let_go(group, rank, index)
        if all((group, rank, one) in self.over for one in range(len(self.phases))):
            self.leave(group, rank)
        for one, other in enumerate(self.phases):
            if index in other.room:
                for flow in self.receives[one][rank]:
                    self.try_flow(group, one, flow)
        for one, other in enumerate(self.phases):
            waits = {*other.after, *other.behind}
            if index in waits and all((group, rank, before) in self.over for before in waits):
                self.ready(group, rank, one)

    def leave(self, group: int, rank: int) -> None:
        """Note that a rank is through, with all that are at this moment."""
        if not self.leaving:
            self.network.soon(ENDS, self.report)
        self.leaving.append((group, rank))

    def report(self) -> None:
        """Tell who is through."""
        leaving, self.leaving = sorted(self.leaving), []
        last = {
            (group, rank): max([self.entered[group, rank], *(self.mark[group, rank, one] for one in range(len(self.phases)))])
            for group, rank in leaving
        }
        self.through([(*place, last[place]) for place in leaving])

    # channels

    def choose_soon(self, channel: int, group: int) -> None:
        """Choose when all that ends at this moment is known."""
        if not self.choosing[channel]:
            self.network.soon(CHOICES, partial(self.choose, channel))
        self.choosing[channel].add(group)

    def let_go(self, group: int, rank: int, index: int) -> None:
        """Free the channel of a phase at a rank, where nothing of its turn keeps it."""
        channel = self.phases[index].channel
        if channel not in self.channels or not self.has_part(index, rank):
            return
        order = self.orders[channel, group]
        order.holds[rank][1].discard(index)
        if not order.holds[rank][1]:
            del order.holds[rank]
        self.choose_soon(channel, group)

    def choose(self, channel: int) -> None:
        """Have ranks begin the turns that come next in the order of their group, and let that order go on."""
        groups, self.choosing[channel] = sorted(self.choosing[channel]), set()
        begins: list[tuple[int, int, int]] = []
        for group in groups:
            order = self.orders[channel, group]
            while True:
                free = [rank for rank in range(self.schedule.ranks) if rank not in order.holds]
                for rank in range(self.schedule.ranks):
                    while order.place[rank] < len(order.turns) and not self.takes(channel, order.turns[order.place[rank]], rank):
                        order.place[rank] += 1
                last = [rank for rank in free if order.place[rank] == len(order.turns)]
                for place in range(len(order.turns)):
                    for rank in free:
                        turn = order.turns[place]
                        if order.place[rank] == place and rank not in order.holds and (turn, rank) in order.since:
                            begins += self.take(channel, group, turn, rank)
                best = self.next_turn(channel, order, last)
                if best is None:
                    break
                order.turns.append(best)
        for group, rank, index in begins:
            self.enter_step(group, rank, index, self.at.get((group, rank, index), -1) + 1)

    def takes(self, channel: int, turn: int, rank: int) -> bool:
        """Return whether a rank has a part in a turn."""
        return any(self.has_part(one, rank) for one in self.channels[channel] if self.unit(one) == turn)

    def take(self, channel: int, group: int, turn: int, rank: int) -> list[tuple[int, int, int]]:
        """Give a rank the channel for a turn; return its phases that begin."""
        order = self.orders[channel, group]
        order.place[rank] += 1
        del order.since[turn, rank]
        mine = [one for one in self.channels[channel] if self.unit(one) == turn and self.has_part(one, rank)]
        order.holds[rank] = turn, set(mine)
        begins = [one for one in mine if one in order.ready[rank]]
        order.ready[rank] = [one for one in order.ready[rank] if one not in begins]
        return [(group, rank, one) for one in begins]

    def next_turn(self, channel: int, order: Order, last: list[int]) -> int | None:
        """Return the turn that was ready first, or of those with the fewest bytes, at a rank that sends in it."""
        since = {}
        for turn in sorted({self.unit(one) for one in self.channels[channel]}):
            mine = [one for one in self.channels[channel] if self.unit(one) == turn]
            senders = [rank for rank in last if any(self.sends[one][rank] for one in mine)]
            times = [order.since[turn, rank] for rank in senders if (turn, rank) in order.since]
            if times:
                since[turn] = min(times)
        return min(since, key=lambda turn: (self.turns.bytes[self.turns.of[turn]], since[turn], turn), default=None)


# --- task graphs


@define
class Span:
    """What some ranks did of a task, from when to when; ``trigger`` is the span that made it start, or -1."""

    task: int
    start: float
    end: float
    trigger: int
    ranks: tuple[int, ...]


@define
class Errand:
    """Groups of a communication that begin together."""

    task: int
    groups: list[int]
    start: float
    trigger: int


_Run, K, V = TypeVar("_Run", bound=Run), TypeVar("K"), TypeVar("V")
Entry = tuple[float, int]  # when ranks entered, and the span that let them


class Tasks:
    """A task graph that runs; see ``simulate``."""

    def __init__(
        self,
        graph: TaskGraph,
        network: Network,
        placement: Sequence[int],
        algorithms: Algorithms,
        fidelity: str,
        factors: Callable[[int, int], float],
    ) -> None:
        self.graph, self.network, self.algorithms, self.factors = graph, network, algorithms, factors
        self.fabric = network.fabric.network
        self.nodes = [int(network.fabric.npus[place]) for place in placement]
        self.npus = list(placement)
        by_rank = fidelity.startswith("per-rank")
        self.by_rank = by_rank and network.admission.flow_by_flow
        self.rendezvous, self.compressed = fidelity == "per-rank-rendezvous", fidelity == "compressed"
        self.kinds = [TaskKind(kind) for kind in graph.kinds.tolist()]
        self.groups = [np.atleast_2d(graph.tables[table]).tolist() for table in graph.members.tolist()]
        self.ranks = [sorted({rank for group in groups for rank in group}) for groups in self.groups]
        self.before = [
            [one for one in graph.after(task).tolist() if set(self.ranks[one]) & set(self.ranks[task])]
            for task in range(len(graph))
        ]
        self.spans: list[Span] = []
        self.done: list[set[int]] = [set() for _ in self.kinds]
        self.told: list[set[int]] = [set() for _ in self.kinds]  # ranks that are ready
        self.begun: list[set[int]] = [set() for _ in self.kinds]  # groups
        self.left = [{rank: sum(rank in group for group in groups) for rank in ranks} for groups, ranks in zip(self.groups, self.ranks, strict=True)]
        self.busy: set[int] = set()
        self.freed_by: dict[int, int] = {}
        self.queues: dict[int, deque[tuple[int, float, int, int]]] = defaultdict(deque)
        self.orders = count()
        self.entries: list[Entry] = []
        self.entering: dict[int, dict[tuple[int, int], int]] = {}  # by task: marks of groups and places
        self.runs: dict[tuple[int, int], tuple[RankRun, int]] = {}  # run and its group, by task and group
        self.arrivals: dict[int, Entry] = {}
        self.posted: set[int] = set()
        self.unreceived: dict[int, RankRun] = {}
        self.memories: dict[int, deque[tuple[Sending, Flow]]] = {}  # what waits for those that are busy
        self.schedules: dict[str, Schedule] = {}

    def start(self) -> None:
        """Begin with what waits for nothing."""
        for task in range(len(self.kinds)):
            self.note_ready(task, -1)

    def note_ready(self, task: int, trigger: int) -> None:
        """Begin what ranks of a task can, that have ended all tasks before it."""
        fresh = [
            rank
            for rank in self.ranks[task]
            if rank not in self.told[task]
            and all(rank in self.done[one] for one in self.before[task] if rank in self.ranks[one])
        ]
        if not fresh:
            return
        self.told[task].update(fresh)
        kind, everybody = self.kinds[task], len(self.told[task]) == len(self.ranks[task])
        if kind is TaskKind.COMPUTE:
            self.compute(task, fresh, trigger)
        elif kind is TaskKind.WAIT:
            if everybody:
                end = partial(self.end, task, self.ranks[task], self.ranks[task], self.network.now, trigger)
                self.network.at(self.network.now + float(self.graph.seconds[task]), ENDS, end)
        elif kind is TaskKind.SEND:
            self.send(task, trigger)
        elif kind is TaskKind.RECEIVE:
            self.receive(task, trigger)
        elif self.by_rank and kind not in STREAMS:
            self.enter_soon(task, fresh, trigger)
        else:
            self.gather(task, trigger)

    def end(self, task: int, over: Iterable[int], ranks: Iterable[int], start: float, trigger: int) -> None:
        """Record a span of ranks, some of which are done with the task; go on with what comes after it."""
        self.spans.append(Span(task, start, self.network.now, trigger, tuple(ranks)))
        span = len(self.spans) - 1
        self.done[task].update(over)
        for other in range(task + 1, len(self.kinds)):
            if task in self.before[other]:
                self.note_ready(other, span)

    # computations

    def compute(self, task: int, ranks: list[int], trigger: int) -> None:
        """Start a computation, or have it wait for those before it."""
        if not any(rank in self.busy or self.queues[rank] for rank in ranks):
            self.compute_now(task, ranks, trigger)
            return
        order = next(self.orders)
        for rank in ranks:
            self.queues[rank].append((order, self.network.now, task, trigger))
        self.compute_next(ranks)

    def compute_next(self, ranks: list[int]) -> None:
        """Start the first that waits for each of some ranks; those that begin for the same reason begin together."""
        starting: dict[tuple[int, int], tuple[int, list[int]]] = {}
        for rank in ranks:
            if rank not in self.busy and self.queues[rank]:
                order, since, task, trigger = self.queues[rank].popleft()
                trigger = self.freed_by[rank] if since < self.network.now else trigger
                starting.setdefault((order, trigger), (task, []))[1].append(rank)
        for (_, trigger), (task, mine) in sorted(starting.items()):
            self.compute_now(task, sorted(mine), trigger)

    def compute_now(self, task: int, ranks: list[int], trigger: int) -> None:
        """Let ranks compute."""
        self.busy.update(ranks)
        seconds = float(self.graph.seconds[task]) * self.times(task)
        for factor, mine in _by(ranks, partial(self.factors, task)).items():
            computed = partial(self.computed, task, mine, self.network.now, trigger)
            self.network.at(self.network.now + seconds * factor, ENDS, computed)

    def computed(self, task: int, ranks: list[int], start: float, trigger: int) -> None:
        """Note the end of a computation; ranks go on with what waits for them."""
        self.busy.difference_update(ranks)
        self.freed_by.update(dict.fromkeys(ranks, len(self.spans)))
        self.end(task, ranks, ranks, start, trigger)
        self.compute_next(ranks)

    def times(self, task: int) -> int:
        """Return how often a task is done, where repetitions are one."""
        return int(self.graph.repeats[task])

    # communication in groups

    def gather(self, task: int, trigger: int) -> None:
        """Begin a communication in groups, all of whose members are ready; a transfer in those whose sender is."""
        fresh = []
        for number, group in enumerate(self.groups[task]):
            awaited = group[:1] if self.kinds[task] is TaskKind.TRANSFER else group
            if number not in self.begun[task] and self.told[task].issuperset(awaited):
                fresh.append(number)
        self.begun[task].update(fresh)
        if fresh:
            errand = Errand(task, fresh, self.network.now, trigger)
            if self.kinds[task] in STREAMS:
                self.stream(errand)
            else:
                self.start_groups(errand)

    def start_groups(self, errand: Errand) -> None:
        """Run schedules in groups, those with the same one together."""
        for schedule, mine in self.planned(errand.task, errand.groups):
            run = self.make(WholeRun, errand.task, schedule, mine)
            run.stepwise, run.ended = not self.compressed, partial(self.groups_ended, errand, mine)
            run.start()

    def groups_ended(self, errand: Errand, groups: list[int], which: list[int]) -> None:
        """Note the end of groups, which are over for ranks that have no other group."""
        task = errand.task
        if self.kinds[task] is TaskKind.SEND:
            self.sent(task, (errand.start, errand.trigger))
            self.arrive(task, (errand.start, errand.trigger))
            return
        members = [rank for one in which for rank in self.groups[task][groups[one]]]
        self.members_over(task, members, errand.start, errand.trigger)

    def members_over(self, task: int, members: list[int], start: float, trigger: int) -> None:
        """Note that members of groups are through."""
        for rank in members:
            self.left[task][rank] -= 1
        ranks = sorted(set(members))
        self.end(task, [rank for rank in ranks if not self.left[task][rank]], ranks, start, trigger)

    def members_of(self, task: int) -> list[list[int]]:
        """Return the ranks of the groups that communicate in a task."""
        if self.kinds[task] is not TaskKind.SEND:
            return self.groups[task]
        return [[self.ranks[one][0] for one in (task, int(self.graph.partners[task]))]]

    def planned(self, task: int, groups: list[int]) -> list[tuple[Schedule, list[int]]]:
        """Return schedules of groups, by the first algorithm that can serve each."""
        graph, found = self.graph, dict[Schedule, list[int]]()
        pattern = graph.patterns[task]
        assert pattern is not None
        for group in groups:
            members = [self.npus[rank] for rank in self.members_of(task)[group]]
            split = int(graph.splits[task])
            sizes = None if split < 0 else graph.split_tables[split][group]
            size = float(graph.bytes[task])
            if sizes is not None:  # the largest buffer, with what stays where it is
                size = float(max(sizes.sum(axis=0).max(), sizes.sum(axis=1).max()))
            root = 0 if sizes is not None else int(graph.roots[task])
            request = CollectiveRequest(pattern, len(members), size, root, sizes=sizes)
            view = self.fabric.view(np.array(members))
            candidates = self.algorithms.get(pattern, self.algorithms.get(None, ()))
            schedule = next(one for one in candidates if one.refusal(request, view) is None).plan(request, view)
            found.setdefault(self.schedules.setdefault(schedule.key, schedule), []).append(group)
        return list(found.items())

    def make(self, kind: type[_Run], task: int, schedule: Schedule, groups: list[int]) -> _Run:
        """Return a run of a schedule in groups of a task."""
        members, fabric = self.members_of(task), self.network.fabric
        nodes = [[self.nodes[rank] for rank in members[group]] for group in groups]
        call = Call(str(schedule.pattern), "", schedule.ranks, float(self.graph.bytes[task]))
        costs = fabric.defaults.transport.costs(call, fabric.network)
        return kind(self.network, schedule, nodes, self.graph.label(task), costs, self.times(task))

    # ranks that enter one by one

    def enter_soon(self, task: int, ranks: list[int], trigger: int) -> None:
        """Have ranks enter with all that do at this moment; the receivers of a transfer come with its sender."""
        if not self.entering:
            self.network.soon(CHOICES, self.enter)
        marks, eager = self.entering.setdefault(task, {}), self.kinds[task] is TaskKind.TRANSFER and not self.rendezvous
        self.entries.append((self.network.now, trigger))
        for number, group in enumerate(self.groups[task]):
            for place, rank in enumerate(group):
                if (group[0] if eager else rank) in ranks:
                    marks[number, place] = len(self.entries) - 1

    def enter(self) -> None:
        """Have ranks enter; groups that begin now with the same schedule are one run."""
        entering, self.entering = self.entering, {}
        for task, marks in entering.items():
            fresh = sorted({group for group, _ in marks if (task, group) not in self.runs})
            for schedule, mine in self.planned(task, fresh):
                run = self.make_ranks(task, schedule, mine)
                self.runs.update({(task, group): (run, place) for place, group in enumerate(mine)})
            places: dict[RankRun, list[tuple[int, int, int]]] = {}
            for (group, place), mark in sorted(marks.items()):
                run, number = self.runs[task, group]
                places.setdefault(run, []).append((number, place, mark))
            for run in sorted(places, key=list({one: None for one, _ in self.runs.values()}).index):
                run.enter(places[run])

    def make_ranks(self, task: int, schedule: Schedule, groups: list[int]) -> RankRun:
        """Return a run of a task that nobody has entered."""
        run = self.make(RankRun, task, schedule, groups)
        run.rendezvous, run.through = self.rendezvous, partial(self.through, task, groups)
        run.begin()
        return run

    def through(self, task: int, groups: list[int], places: list[tuple[int, int, int]]) -> None:
        """Note that ranks are through with a communication, each with the last entry that it has waited for."""
        if self.kinds[task] is TaskKind.SEND:
            for _, place, mark in places:
                (self.sent, self.arrive)[place](task, self.entries[mark])
            return
        for mark, mine in sorted(_by(places, lambda one: one[2]).items()):
            members = [self.groups[task][groups[group]][place] for group, place, _ in mine]
            self.members_over(task, members, *self.entries[mark])

    # messages

    def send(self, task: int, trigger: int) -> None:
        """Send a message, whose sender is ready; a rendezvous waits for the receive."""
        [(schedule, _)] = self.planned(task, [0])
        if not self.by_rank:
            self.start_groups(Errand(task, [0], self.network.now, trigger))
            return
        run, receive = self.make_ranks(task, schedule, [0]), int(self.graph.partners[task])
        self.entries.append((self.network.now, trigger))
        mark, places = len(self.entries) - 1, [0]
        if not self.rendezvous or receive in self.posted:
            places.append(1)
        else:
            self.unreceived[receive] = run
        self.network.soon(CHOICES, lambda: run.enter([(0, place, mark) for place in places]))

    def receive(self, task: int, trigger: int) -> None:
        """Note that nothing but the message keeps a receive from its end."""
        run = self.unreceived.get(task)
        if task in self.arrivals:
            self.network.soon(ENDS, partial(self.sent, task, (self.network.now, trigger)))
        elif run is not None:
            self.entries.append((self.network.now, trigger))
            mark = len(self.entries) - 1
            self.network.soon(CHOICES, lambda: run.enter([(0, 1, mark)]))
        else:
            self.posted.add(task)

    def arrive(self, task: int, entry: Entry) -> None:
        """Note that the message of a send has arrived."""
        receive = int(self.graph.partners[task])
        if self.told[receive]:
            self.sent(receive, entry)
        else:
            self.arrivals[receive] = entry

    def sent(self, task: int, entry: Entry) -> None:
        """Note the end of a send or a receive."""
        self.end(task, self.ranks[task], self.ranks[task], *entry)

    # loads and stores

    def stream(self, errand: Errand) -> None:
        """Start the streams between ranks and I/O controllers or memories; some memories serve one after the other."""
        flows, one_at_a_time = self.streams(errand)
        label, times = self.graph.label(errand.task), self.times(errand.task)
        ended = partial(self.groups_ended, errand, errand.groups)
        if not one_at_a_time:
            self.network.send(Sending(flows, len(errand.groups), ended, repeat=times, label=label))
            return
        left = [sum(flow.activity == one for flow in flows) for one in range(len(errand.groups))]
        memories = np.flatnonzero(self.network.fabric.kinds == NodeKind.MEMORY).tolist()
        for flow in flows:
            [memory] = [node for node in (*flow.sources, *flow.destinations) if node in memories]
            group, flow.activity = flow.activity, 0

            def served(_: list[int], memory: int = memory, group: int = group) -> None:
                if self.memories[memory]:
                    self.network.send(self.memories[memory].popleft())
                else:
                    del self.memories[memory]
                left[group] -= 1
                if not left[group]:
                    ended([group])

            sending = Sending([flow], 1, served, repeat=times, label=label)
            if memory in self.memories:
                self.memories[memory].append(sending)
            else:
                self.memories[memory] = deque()
                self.network.send(sending)

    def streams(self, errand: Errand) -> tuple[list[Flow], bool]:
        """Return the flows of loads and stores in groups, and whether their memories serve one after the other."""
        graph, fabric, task = self.graph, self.network.fabric, errand.task
        load, one_at_a_time = self.kinds[task] is TaskKind.LOAD, False
        found: list[tuple[int, list[int], float, int]] = []  # the end, members, bytes and group of each
        for number, group in enumerate(errand.groups):
            nodes = [self.nodes[rank] for rank in self.groups[task][group]]
            if graph.memories[task] < 0:
                controller = graph.controller_tables[graph.controllers[task]][group]
                found.append((int(fabric.controllers[controller]), nodes, float(graph.bytes[task]), number))
                continue
            memories = fabric.memories
            assert memories is not None
            name = graph.memory_names[graph.memories[task]]
            serving, one_at_a_time = memories.serving(name), memories.tier(name).one_at_a_time
            used = [serving[self.npus[rank]].tolist() for rank in self.groups[task][group]]
            for memory in sorted({one for mine in used for one in mine}):
                served = [node for node, mine in zip(nodes, used, strict=True) if memory in mine]
                found.append((memory, served, float(graph.bytes[task]) / serving.shape[1], number))
        flows = []
        for end, members, size, number in found:
            sides = ((end,), tuple(members)) if load else (tuple(members), (end,))
            whole = Flow(*sides, size, number, tree=Operation.MULTICAST if load else Operation.REDUCE)
            try:
                self.network.routed(whole, fabric.defaults.router)
                flows.append(whole)
            except UnsupportedError:  # where switches cannot copy or reduce
                flows += [Flow(*((end,), (one,))[:: 1 if load else -1], size, number) for one in members]
        return flows, one_at_a_time


def _by(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    """Return values that have the same key together, in the order of the keys."""
    found: dict[K, list[V]] = {}
    for one in values:
        found.setdefault(key(one), []).append(one)
    return dict(sorted(found.items()))  # type: ignore[type-var]  # keys are numbers


def simulate(
    graph: TaskGraph,
    fabric: Fabric,
    algorithms: Algorithms,
    *,
    placement: Sequence[int] | None = None,
    priorities: Sequence[str] = (),
    fidelity: str = "stepwise",
    changes: Sequence[Change] = (),
    factors: Callable[[int, int], float] = lambda task, rank: 1.0,
    seed: int | None = None,
) -> list[Span] | None:
    """Return the spans of a task graph, in the order of their ends; ``None`` where some tasks never end.

    Args:
        graph: What to do.
        fabric: Where, with its policies.
        algorithms: By pattern, ``None`` for others; the first that can serve a request does.
        placement: NPU of each rank.
        priorities: Labels, the highest class first.
        fidelity: One of the four.
        changes: Links that get other bandwidths: when, and which.
        factors: How many times longer a computation takes on a rank.
        seed: Of the shares by which volumes are changed, at most 1e-12; ``None`` leaves them as they are.

    Raises:
        Unknown: It asks for what is not part of the oracle.
    """
    if changes and fidelity == "compressed":
        raise Unknown("compressed repetitions while links change")
    graph = graph if fidelity == "compressed" else graph.expanded()
    classes = {label: place for place, label in enumerate(priorities)}
    classes = {label: classes.get(label, len(classes)) for label in graph.label_names}
    network = Network(fabric, fabric.defaults.sharing or MaxMin(), classes, None if seed is None else Random(seed))
    places = range(graph.ranks) if placement is None else placement
    tasks = Tasks(graph, network, list(places), algorithms, fidelity, factors)
    tasks.start()
    for time, bandwidths in sorted(changes, key=lambda change: change[0]):
        network.advance(time)
        network.change(bandwidths)
    network.advance()
    over = all(len(done) == len(ranks) for done, ranks in zip(tasks.done, tasks.ranks, strict=True))
    return tasks.spans if over else None
