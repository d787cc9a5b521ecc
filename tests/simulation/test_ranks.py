"""Rank by rank, against an independent and slow implementation of the rule, and against sums by hand."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from attrs import define, evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from fredfw.collectives import CollectiveRequest, Pattern, Schedule
from fredfw.collectives.schedule import carried
from fredfw.fabric import Fabric, Operation
from fredfw.framework import Framework
from fredfw.simulation import FlowNetwork, Lowering, MaxMin, ScheduleRun
from fredfw.simulation.ranks import RankRun
from fredfw.typing import FloatArray, IntArray

FRAMEWORK = Framework()


@define(eq=False)
class Sent:
    """A flow of the oracle: who sends to whom, and what has become of it."""

    phase: int
    step: int
    sources: frozenset[int]
    destinations: frozenset[int]
    links: dict[int, float]
    latency: float
    left: float
    started: bool = False
    drained: bool = False
    arrival: float = math.inf
    arrived: bool = False

    def drain(self, now: float) -> None:
        self.drained, self.arrival = True, now + self.latency


def flows_of(fabric: Fabric, schedule: Schedule, nodes: IntArray) -> Iterator[Sent]:
    """Yield all flows of a group, without fredfw's lowering."""
    sizes = np.broadcast_to(schedule.chunk_bytes, schedule.chunks)
    for index, phase in enumerate(schedule.phases):
        for step in range(phase.repeat):
            amounts: dict[tuple[frozenset[int], frozenset[int], bool], float] = {}
            rows, chunks = carried(phase, step)
            streams = np.full(len(phase), -1) if phase.stream is None else phase.stream
            for number in np.unique(streams[streams >= 0]):
                of = streams == number
                key = frozenset(phase.source[of].tolist()), frozenset(phase.destination[of].tolist()), True
                amounts[key] = float(sizes[np.unique(chunks[of[rows]])].sum())
            for row in np.flatnonzero(streams < 0).tolist():
                ends = frozenset([int(phase.source[row])]), frozenset([int(phase.destination[row])])
                key = *ends, bool(phase.reduce[row])
                amounts[key] = amounts.get(key, 0.0) + float(sizes[chunks[rows == row]].sum())
            for (sources, destinations, _), amount in amounts.items():
                one, other = (nodes[sorted(ends)] for ends in (sources, destinations))
                if len(one) == len(other) == 1:
                    routes = fabric.router.route(fabric, one, other)
                else:
                    kind = Operation.MULTICAST if len(one) == 1 else Operation.REDUCE
                    kind = kind if 1 in (len(one), len(other)) else Operation.ALL_REDUCE
                    routes = fabric.router.tree(fabric, one, other, kind)
                weights = np.ones(len(routes.links)) if routes.coefficients is None else routes.coefficients
                links: dict[int, float] = {}
                for link, weight in zip(routes.links.tolist(), weights.tolist(), strict=True):
                    links[link] = links.get(link, 0.0) + weight
                yield Sent(index, step, sources, destinations, links, float(routes.latencies[0]), amount)


def fair(fabric: Fabric, flows: list[Sent]) -> list[float]:
    """Return max-min fair rates by raising all of them until a link is full, as textbooks do."""
    rates, free, left = [0.0] * len(flows), set(range(len(flows))), fabric.bandwidths.tolist()
    while free:
        weight: dict[int, float] = {}
        for one in free:
            for link, share in flows[one].links.items():
                weight[link] = weight.get(link, 0.0) + share
        more = min(left[link] / share for link, share in weight.items())
        full = {link for link, share in weight.items() if left[link] / share <= more * (1 + 1e-12)}
        for link, share in weight.items():
            left[link] -= more * share
        for one in list(free):
            rates[one] += more
            if full & flows[one].links.keys():
                free.remove(one)
    return rates


class Group:
    """A group of the oracle: its flows, and which (phase, step, rank) are done."""

    def __init__(self, fabric: Fabric, schedule: Schedule, nodes: IntArray) -> None:
        self.schedule = schedule
        self.flows = list(flows_of(fabric, schedule, nodes))
        self.done: set[tuple[int, int, int]] = set()
        self.end = math.inf

    def ready(self, phase: int, step: int, rank: int) -> bool:
        if step:
            return (phase, step - 1, rank) in self.done
        phases = self.schedule.phases
        return all((one, phases[one].repeat - 1, rank) in self.done for one in phases[phase].after)

    def settle(self, now: float, *, rendezvous: bool) -> bool:
        """Note who is done and start what can; return whether anything has changed."""
        changed = False
        for phase, one in enumerate(self.schedule.phases):
            for step in range(one.repeat):
                mine = [flow for flow in self.flows if (flow.phase, flow.step) == (phase, step)]
                for rank in range(self.schedule.ranks):
                    if (phase, step, rank) in self.done or not self.ready(phase, step, rank):
                        continue
                    sent = all(flow.drained for flow in mine if rank in flow.sources)
                    if sent and all(flow.arrived for flow in mine if rank in flow.destinations):
                        self.done.add((phase, step, rank))
                        changed = True
                for flow in mine:
                    waits = flow.sources | flow.destinations if rendezvous else flow.sources
                    if not flow.started and all(self.ready(phase, step, rank) for rank in waits):
                        flow.started = changed = True
                        if not flow.links or flow.left <= 0:
                            flow.drain(now)
        if len(self.done) == self.schedule.steps * self.schedule.ranks:
            self.end = min(self.end, now)
        return changed


def oracle(fabric: Fabric, schedule: Schedule, groups: IntArray, *, rendezvous: bool = False) -> FloatArray:
    """Return when each group ends: one event after the other, everything looked at each time."""
    runs = [Group(fabric, schedule, nodes) for nodes in groups]
    flows = [flow for run in runs for flow in run.flows]
    now = 0.0
    while True:
        for flow in flows:
            flow.arrived |= flow.arrival <= now * (1 + 1e-13)  # what is due within rounding is due together
        while any(run.settle(now, rendezvous=rendezvous) for run in runs):
            for flow in flows:
                flow.arrived |= flow.arrival <= now
        active = [flow for flow in flows if flow.started and not flow.drained]
        rates = fair(fabric, active)
        ends = [now + flow.left / rate for flow, rate in zip(active, rates, strict=True)]
        arrivals = [flow.arrival for flow in flows if flow.drained and not flow.arrived]
        if not ends and not arrivals:
            return np.array([run.end for run in runs])
        then = min(ends + arrivals)
        for flow, rate, end in zip(active, rates, ends, strict=True):
            flow.left -= rate * (then - now)
            if end <= then * (1 + 1e-13):
                flow.drain(then)
        now = then


def simulated(fabric: Fabric, schedule: Schedule, groups: IntArray, kind: str = "per-rank") -> FloatArray:
    network, ends = FlowNetwork(fabric, MaxMin()), np.full(len(groups), np.nan)

    def ended(done: IntArray) -> None:
        ends[done] = network.now

    lowering = Lowering(fabric)
    if kind == "stepwise":
        ScheduleRun(network, lowering, schedule, groups, ended, stepwise=True).start()
    else:
        RankRun(network, lowering, schedule, groups, ended, rendezvous=kind == "rendezvous").start()
    network.advance()
    assert network.idle
    return ends


def by(algorithm: str, fabric: Fabric, members: IntArray, pattern: Pattern, **fields: object) -> Schedule:
    request = CollectiveRequest(pattern, members.shape[1], 1200.0)
    one = FRAMEWORK.plugins.collectives.get(algorithm)(**fields)
    return one.plan(request, fabric.view(members[0]))


def fabric(topology: str, **fields: object) -> Fabric:
    return FRAMEWORK.topology(topology, link_bandwidth=100.0, link_latency=0.25, **fields).build()


def uneven(on: Fabric, seed: int) -> Fabric:
    """Return ``on`` with bandwidths and latencies of all kinds."""
    random, links = np.random.default_rng(seed), len(on.bandwidths)
    return evolve(
        on, bandwidths=100.0 * random.uniform(0.5, 1.5, links), latencies=random.choice([0.0, 0.1, 0.7], links)
    )


MESH = fabric("mesh2d", rows=2, columns=4, io_controllers=False)
TREE = fabric("fat-tree", npus=8, levels=2, radix=4)
SWITCH = fabric("switch", npus=8)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([MESH, TREE, SWITCH]),
    st.sampled_from(["ring", "recursive-halving-doubling", "hierarchical", "direct", "tree"]),
    st.permutations(range(8)),
    st.sampled_from([(1, 8), (1, 4), (2, 4), (2, 3)]),
    st.booleans(),
    st.integers(0, 1000),
)
def test_every_group_ends_when_the_rule_says(
    on: Fabric, algorithm: str, order: list[int], shape: tuple[int, int], rendezvous: bool, seed: int
) -> None:
    members = np.array(order)[: shape[0] * shape[1]].reshape(shape)
    on = uneven(on, seed)
    pattern = Pattern.ALL_TO_ALL if algorithm == "direct" else Pattern.ALL_REDUCE
    fields = {"chunks": 1} if algorithm in ("ring", "tree") else {}
    one = FRAMEWORK.plugins.collectives.get(algorithm)(**fields)
    if one.refusal(CollectiveRequest(pattern, shape[1], 1200.0), on.view(members[0])) is not None:
        return
    schedule, groups = by(algorithm, on, members, pattern, **fields), on.npus[members]
    schedule = evolve(schedule, phases=[evolve(phase, channel=-1) for phase in schedule.phases])
    expected = oracle(on, schedule, groups, rendezvous=rendezvous)
    found = simulated(on, schedule, groups, "rendezvous" if rendezvous else "per-rank")
    assert found == pytest.approx(expected, rel=1e-9)
