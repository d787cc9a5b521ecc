"""The oracle's network: flows that share links, an admission, links that change, and a clock."""

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count, groupby
from random import Random
from typing import Any

import numpy as np
from attrs import Factory, define, evolve

from fredfw import Admission, Costs, Fabric, FlowSet, NodeKind, Operation, Router, Routes
from fredfw.fabric import AlwaysStart, LiveRouter, Start, Wait, answers
from fredfw.simulation import CircuitPreempt, MaxMin, SharingPolicy, StrictLinks, WeightedMaxMin

# At one moment: what has ended, then channels choose and ranks enter, then flows of ranks start.
ENDS, CHOICES, STARTS = 0, 1, 2


class UnknownError(Exception):
    """What is asked for is not part of the oracle."""


@define(eq=False)
class Flow:
    """Bytes on their way, all at one rate."""

    sources: tuple[int, ...]  # nodes
    destinations: tuple[int, ...]  # nodes
    size: float  # bytes of one repetition
    activity: int  # what it ends with
    messages: int = 1  # those that its source sends in the step, or its destination receives, if those are more
    reductions: int = 0  # flows of the step that its destination reduces, if it reduces this one
    tree: Operation | None = None  # what happens to a stream on its way, if it is one
    # Sources and destinations of the unicasts that are routed together with it, and it at place of them.
    beside: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    place: int = 0
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
    """Return max-min fair rates by weights: all rise until a link is full or a cap is reached, as in textbooks."""
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
    flows: Sequence[Flow], capacity: Sequence[float], sharing: SharingPolicy, switches: Sequence[set[int]]
) -> dict[Flow, float]:
    """Return the rate of each flow; each link has ``switches`` at its ends."""
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
        raise UnknownError(sharing.name)
    if len(classes) < 2:
        return dict(zip(flows, fair(flows, capacity), strict=True))
    running: list[Flow] = []
    taken: set[int] = set()  # switches of higher classes
    for priority in classes:
        mine = [flow for flow in flows if flow.priority == priority and all(capacity[link] for link in flow.links)]
        mine = [flow for flow in mine if not any(taken & switches[link] for link in flow.links)]
        running += mine
        taken.update(*(switches[link] for flow in mine for link in flow.links))
    return found | dict(zip(running, fair(running, capacity), strict=True))


@define(eq=False)
class Sending:
    """Flows that start together, in activities that end each on their own."""

    flows: list[Flow]  # what is sent
    activities: int  # how many there are
    ended: Callable[[list[int]], None]  # gets the activities that are delivered, as often as some are at one moment
    drained: Callable[[list[int]], None] | None = None  # gets those whose bytes have left, if somebody wants to know
    repeat: int = 1  # how often all is sent, as one volume
    label: str = ""  # what it is for
    continues: bool = False  # whether the repetition before it has just ended
    pause: float = 0.0  # between two repetitions, to set up circuits
    begun: bool = False
    pending: list[int] = Factory(list)  # flows of each activity that have not drained
    ends: list[float] = Factory(list)
    open: int = 0  # activities that have not ended
    asked: FlowSet | None = None  # as the admission knows it


class Network:
    """A fabric that carries flows in simulated time; everything is looked at each time."""

    def __init__(self, fabric: Fabric, sharing: SharingPolicy, priorities: Mapping[str, int], seed: int | None) -> None:
        self.fabric, self.sharing, self.seed, self.noise = fabric, sharing, seed, Random(seed)
        self.priorities = priorities
        self.now = 0.0
        self.capacity: list[float] = fabric.bandwidths.tolist()
        is_switch = (fabric.kinds == NodeKind.SWITCH).tolist()
        ends = zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True)
        self.switches = [{node for node in pair if is_switch[node]} for pair in ends]
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

    def blurred(self, value: float) -> float:
        """Return a number of bytes or seconds, changed by at most 1e-12; equal ones alike if the seed is even."""
        if self.seed is None:
            return value
        noise = Random(f"{self.seed} {value}") if self.seed % 2 == 0 else self.noise
        return value * (1 + 1e-12 * noise.uniform(-1, 1))

    def soon(self, priority: int, call: Callable[[], None]) -> None:
        self.at(self.now, priority, call)

    def advance(self, until: float = math.inf) -> None:
        while True:
            due = self.calendar[0][0] if self.calendar else math.inf
            if due <= self.now:
                heapq.heappop(self.calendar)[3]()
                continue
            if self.rates is None:
                self.rates = rates_of(self.flows, self.capacity, self.sharing, self.switches)
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
            rest = [(flow, ends[flow] - self.now) for flow in self.flows if flow in ends]
            at_once = 1e-15 * self.now
            self.take_off([one for one, late in rest if late <= at_once or late * rates[one] <= 1e-11 * one.volume])

    # flows

    def routed(self, flow: Flow, router: Router) -> tuple[dict[int, float], float]:
        """Return links and latency of ``flow`` by ``router``, with what the transport adds."""
        sources, destinations = flow.beside or (flow.sources, flow.destinations)
        key = router, sources, destinations, flow.tree
        if key not in self.paths:
            ends = np.array(sources), np.array(destinations)
            if flow.tree is None:
                self.paths[key] = answers.route(router, self.fabric, *ends)
            else:
                self.paths[key] = answers.tree(router, self.fabric, *ends, flow.tree)
        routes, costs = self.paths[key].select(np.array([flow.place])), flow.costs
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
        return max(int(self.fabric.tiers[link]) for link in links)

    def is_stuck(self, links: Iterable[int]) -> bool:
        return any(not self.capacity[link] for link in links)

    def send(self, sending: Sending, costs: Costs | None = None) -> None:
        """Start flows, as soon as the admission lets them."""
        priority, weight = self.priorities.get(sending.label, 0), self.sharing.weight(sending.label)
        for flow in sending.flows:
            flow.costs = costs
            flow.links, flow.latency = self.routed(flow, self.fabric.defaults.router)
            flow.priority, flow.weight = priority, weight
            flow.size = self.blurred(flow.size)
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
                raise UnknownError(type(other).__name__)

    def is_outside(self, sending: Sending) -> bool:
        """Return whether flows go over links of memories, which the admission does not know."""
        first = next((link for flow in sending.flows for link in flow.links), -1)
        return first >= len(self.fabric.network.sources)

    def flow_set(self, sending: Sending) -> FlowSet:
        key = tuple((flow.sources, flow.destinations, tuple(flow.links.items())) for flow in sending.flows)
        if key not in self.paths:
            links = [np.array(list(flow.links), dtype=np.intp) for flow in sending.flows]
            shares = np.array([share for flow in sending.flows for share in flow.links.values()])
            routes = Routes.of(links, [flow.latency for flow in sending.flows])
            self.paths[key] = routes if (shares == 1).all() else evolve(routes, coefficients=shares)
        caps, sizes = np.array([[flow.cap, flow.size] for flow in sending.flows]).reshape(-1, 2).T.copy()
        given: dict[str, Any] = {"repeat": sending.repeat, "label": sending.label, "continues": sending.continues}
        given |= {"caps": None if np.isinf(caps).all() else caps, "priority": self.priorities.get(sending.label, 0)}
        activity = np.array([flow.activity for flow in sending.flows], dtype=np.intp)
        return FlowSet(self.paths[key], sizes, activity, sending.activities, **given)

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
        """Return whether a flow has nothing to send, or no link and no cap; but it waits for closed links."""
        if self.is_stuck(flow.links):
            return False
        return flow.left <= 0 or (not flow.links and flow.cap == math.inf)

    def take_off(self, flows: Sequence[Flow]) -> None:
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
            late = self.blurred(flow.latency) * sending.repeat + sending.pause * (sending.repeat - 1)
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
    return costs if isinstance(costs, int | float) else costs[tier if len(costs) > 1 else 0]
