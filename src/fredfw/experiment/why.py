"""Why an iteration takes as long as it does: its critical path, and what the tiers of links carried, by label.

Everything is found from the records of a run, when it is asked for; nothing is simulated again.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np
from attrs import define, field, frozen

from fredfw.experiment.results import GraphResult, RunResult
from fredfw.experiment.variation import ALPHAS, COMPUTE, LATENCY, bandwidths_of
from fredfw.fabric import Fabric
from fredfw.fabric.tiers import tiers_of
from fredfw.simulation.demands import CAPPED, Demand
from fredfw.simulation.timeline import Timeline
from fredfw.typing import FloatArray, IntArray

WAITING = "waiting"
"""What is on the path and moves no byte: for a slot, for admission."""
RATES = "rates of the transport"
"""What bounds flows that no link holds back."""
NETWORK = "network"
"""What bounds communication where nothing more is known."""
BEGINNING, DEPENDENCY, BUSY, MEMBER = "beginning", "dependency", "busy rank", "last member"
_NUMBER = re.compile(r"\d+")
_NO_LABELS: Mapping[str, FloatArray] = MappingProxyType({})


@frozen
class LinkLoad:
    """What one link carried.

    Args:
        link: Its number in the fabric.
        name: For people.
        bytes: How much crossed it.
        utilization: Share of what its capacity allows over the whole time, 0 to 1.
        bytes_by_label: Whose bytes those are, where that is known; labels without any are left out.
    """

    link: int
    name: str
    bytes: float
    utilization: float
    bytes_by_label: dict[str, float] = field(factory=dict)


def link_loads(
    fabric: Fabric,
    link_bytes: FloatArray,
    seconds: float,
    top: int | None = None,
    by_label: Mapping[str, FloatArray] = _NO_LABELS,
) -> list[LinkLoad]:
    """Return the links of ``fabric`` that carried something, the busiest first (ties by number), at most ``top``.

    Args:
        fabric: Whose links they are.
        link_bytes: ``(links,)`` bytes.
        seconds: The time they had.
        top: How many to return; all by default.
        by_label: ``(links,)`` bytes of each label.
    """
    used = np.flatnonzero(link_bytes)
    utilization = link_bytes[used] / (fabric.bandwidths[used] * seconds)
    # Stable, so equally busy links stay in the order of their numbers.
    order = np.argsort(-utilization, kind="stable")[:top]
    return [
        LinkLoad(
            int(link),
            fabric.link_name(int(link)),
            float(link_bytes[link]),
            float(share),
            {label: float(moved[link]) for label, moved in by_label.items() if moved[link]},
        )
        for link, share in zip(used[order], utilization[order], strict=True)
    ]


@frozen
class TierShare:
    """What the links of one tier carried.

    Args:
        name: The ends that they join, and the dimension where NPUs are joined to each other in one of several.
        bandwidth: Of each link, bytes per second.
        links: How many there are.
        bytes: Over all of them.
        mean: Mean utilisation over all of them, 0 to 1.
        bytes_by_label: Whose bytes those are; labels without any are left out.
        mean_by_label: The part that each label has in ``mean``.
        hottest: The link with the highest utilisation, which is the share of the iteration that it is busy; the first,
            where several are equal.
    """

    name: str
    bandwidth: float
    links: int
    bytes: float
    mean: float
    bytes_by_label: dict[str, float]
    mean_by_label: dict[str, float]
    hottest: LinkLoad


def tier_shares(result: RunResult) -> list[TierShare]:
    """Return the tiers whose links carried something, the one with the hottest link first."""
    fabric = result.fabric
    tiers = []
    for name, links in tiers_of(fabric):
        used = np.zeros_like(result.link_bytes)
        used[links] = result.link_bytes[links]
        for load in link_loads(fabric, used, result.seconds, 1, result.link_bytes_by_label):
            bandwidth = float(fabric.bandwidths[load.link])  # a tier has one
            capacity = bandwidth * len(links) * result.seconds
            sums = {label: float(moved[links].sum()) for label, moved in result.link_bytes_by_label.items()}
            by_label = {label: moved for label, moved in sums.items() if moved}
            total = float(used.sum())
            mean_by_label = {label: moved / capacity for label, moved in by_label.items()}
            tiers.append(TierShare(name, bandwidth, len(links), total, total / capacity, by_label, mean_by_label, load))
    return sorted(tiers, key=lambda tier: -tier.hottest.utilization)


@frozen
class PathStep:
    """The steps of a critical path whose tasks have the same name but for numbers.

    Args:
        name: Of the tasks; ``#`` for numbers that differ.
        kind: ``compute``, the label of a communication, or ``waiting``.
        count: How many steps those are, each repetition of a task counted.
        seconds: What they take together.
        alone: What they would take on a network that carried nothing else, about; at most ``seconds``.
        algorithm: What ran, of a communication.
        ranks: Of the largest group that communicates, or 0.
        limits: Parts of ``seconds`` by the parameter of the machine that they follow from; see ``CriticalPath``.
        begins: How many of them began because of what: ``dependency``, ``busy rank``, ``last member`` of a group, or
            the ``beginning`` of the iteration.
    """

    name: str
    kind: str
    count: int
    seconds: float
    alone: float
    algorithm: str = ""
    ranks: int = 0
    limits: dict[str, float] = field(factory=dict)
    begins: dict[str, int] = field(factory=dict)


@frozen
class CriticalPath:
    """From the task that ends last back to the beginning, always to what the task before has waited for.

    All parts are in seconds, the largest first, and add up to ``seconds``.

    Args:
        seconds: Of the iteration.
        length: How many spans of the timeline it goes through.
        steps: What it goes through, with alike ones together.
        by_kind: ``compute``, the communication of each label, ``waiting``.
        by_limit: By the parameter of the machine, as ``what_if`` changes them: ``compute``, the bandwidth of a tier,
            the latency of links, the times of the transport. Beside these ``rates of the transport``, ``waiting``, and
            ``network`` where nothing more is known. A communication counts for the links that bound its deciding
            phases when it is alone; what it takes longer beside others counts for the same links.
        by_rank: By the rank that it goes through; it stays on one as long as it can. Keys are numbers of ranks.
        crowded: Seconds by which its communication takes longer than alone.
    """

    seconds: float
    length: int
    steps: tuple[PathStep, ...]
    by_kind: dict[str, float]
    by_limit: dict[str, float]
    by_rank: dict[str, float]
    crowded: float


def critical_path(result: RunResult | GraphResult) -> CriticalPath:
    """Return the critical path of ``result``."""
    timeline, demands = result.timeline, result.demands
    graph = timeline.graph
    path = _spans(timeline)
    limit_of = _limits(result.fabric)
    found: dict[tuple[str, str], _Sum] = {}
    for span, seconds, waited in _seconds(timeline, path):
        task = int(timeline.task[span])
        if waited:
            _sum(found, WAITING, WAITING).add(WAITING, 1, waited, {WAITING: waited}, waited)
        name = graph.names[task]
        pattern = _NUMBER.sub("#", name)
        times = int(graph.repeats[task])
        begins = _begins(timeline, span)
        if timeline.is_compute(span):
            _sum(found, pattern, COMPUTE).add(name, times, seconds, {COMPUTE: seconds}, seconds, begins)
            continue
        one = _sum(found, pattern, graph.label(task))
        demand = None if demands is None else _demand(demands.of(task), timeline.ranks[span])
        if demand is None:
            one.add(name, times, seconds, {NETWORK: seconds}, seconds, begins)
            continue
        one.algorithms[demand.algorithm] = None
        one.ranks = max(one.ranks, demand.size)
        one.add(name, times, seconds, _parts(demand, seconds, limit_of), min(demand.seconds, seconds), begins)
    steps = sorted((one.step(pattern, kind) for (pattern, kind), one in found.items()), key=_longest)
    return CriticalPath(
        seconds=timeline.duration,
        length=len(path),
        steps=tuple(steps),
        by_kind=_totals((one.kind, one.seconds) for one in steps),
        by_limit=_totals(part for one in steps for part in one.limits.items()),
        by_rank=_by_rank(timeline, path),
        crowded=math.fsum(one.seconds - one.alone for one in steps),
    )


@define
class _Sum:
    """Steps with the same name but for numbers."""

    names: set[str] = field(factory=set)
    count: int = 0
    seconds: list[float] = field(factory=list)
    alone: list[float] = field(factory=list)
    limits: dict[str, list[float]] = field(factory=dict)
    begins: Counter[str] = field(factory=Counter)
    algorithms: dict[str, None] = field(factory=dict)
    ranks: int = 0

    def add(
        self, name: str, count: int, seconds: float, limits: Mapping[str, float], alone: float, begins: str = ""
    ) -> None:
        if len(self.names) < 2:
            self.names.add(name)
        self.count += count
        self.seconds.append(seconds)
        self.alone.append(alone)
        for limit, part in limits.items():
            self.limits.setdefault(limit, []).append(part)
        if begins:
            self.begins[begins] += 1

    def step(self, pattern: str, kind: str) -> PathStep:
        return PathStep(
            next(iter(self.names)) if len(self.names) == 1 else pattern,
            kind,
            self.count,
            math.fsum(self.seconds),
            math.fsum(self.alone),
            " + ".join(self.algorithms),
            self.ranks,
            _totals((limit, math.fsum(parts)) for limit, parts in self.limits.items()),
            dict(sorted(self.begins.items())),
        )


def _sum(found: dict[tuple[str, str], _Sum], pattern: str, kind: str) -> _Sum:
    return found.setdefault((pattern, kind), _Sum())


def _longest(step: PathStep) -> tuple[float, str, str]:
    return -step.seconds, step.name, step.kind


def _totals(parts: Iterator[tuple[str, float]]) -> dict[str, float]:
    """Return the sum of each key that has any, the largest first."""
    found: dict[str, list[float]] = {}
    for name, seconds in parts:
        found.setdefault(name, []).append(seconds)
    sums = {name: math.fsum(listed) for name, listed in found.items()}
    return dict(sorted(((name, one) for name, one in sums.items() if one), key=lambda one: (-one[1], one[0])))


def _spans(timeline: Timeline) -> list[int]:
    """Return the spans of the path, the last first."""
    path = []
    span = int(timeline.end.argmax()) if len(timeline) else -1
    while span >= 0:
        path.append(span)
        span = int(timeline.trigger[span])
    return path


def _seconds(timeline: Timeline, path: list[int]) -> Iterator[tuple[int, float, float]]:
    """Yield each span of ``path`` with its seconds, and those between the end of the one before and its start."""
    for place, span in enumerate(path):
        before = float(timeline.end[path[place + 1]]) if place + 1 < len(path) else 0.0
        start = max(float(timeline.start[span]), before)
        yield span, float(timeline.end[span]) - start, start - before


def _begins(timeline: Timeline, span: int) -> str:
    """Return why ``span`` began when it did."""
    trigger, task = int(timeline.trigger[span]), int(timeline.task[span])
    if trigger < 0:
        return BEGINNING
    before, own = timeline.ranks[trigger], timeline.ranks[span]
    if not timeline.is_compute(span):
        alike = before is own or np.isin(own, before).all()
        return DEPENDENCY if alike else MEMBER
    return DEPENDENCY if int(timeline.task[trigger]) in timeline.graph.after(task) else BUSY


def _demand(demands: tuple[Demand, ...], ranks: IntArray) -> Demand | None:
    """Return the demand of the groups that ``ranks`` are in."""
    if len(demands) < 2:
        return demands[0] if demands else None
    return next((one for one in demands if np.isin(ranks[:1], one.ranks).all()), demands[0])


def _limits(fabric: Fabric) -> list[str]:
    """Return the parameter of each link."""
    names = [""] * len(fabric.bandwidths)
    for name, links in bandwidths_of(fabric).items():
        for link in links.tolist():
            names[link] = name
    return names


def _parts(demand: Demand, seconds: float, limit_of: list[str]) -> dict[str, float]:
    """Return what the ``seconds`` that ``demand`` has taken follow from; they add up to that."""
    fixed = demand.latency + demand.transport
    drained = sum(demand.draining.values())
    scale = min(seconds / fixed, 1.0) if fixed else 1.0
    parts = {LATENCY: demand.latency * scale, ALPHAS: demand.transport * scale}
    rest = max(seconds - fixed, 0.0)
    if not drained:
        parts[WAITING] = rest
    for link, own in demand.draining.items():
        name = RATES if link == CAPPED else limit_of[link]
        parts[name] = parts.get(name, 0.0) + rest * (own / drained)
    return {name: part for name, part in parts.items() if part}


def _by_rank(timeline: Timeline, path: list[int]) -> dict[str, float]:
    """Return the seconds of each rank that ``path`` goes through; of several, of the lowest that it can stay on."""
    parts: list[tuple[str, float]] = []
    stretch: list[float] = []
    ranks: IntArray | None = None
    for span, seconds, waited in _seconds(timeline, path):
        own = timeline.ranks[span]
        shared = own if ranks is None else ranks if ranks is own else np.intersect1d(ranks, own, assume_unique=True)
        if not len(shared):
            assert ranks is not None  # the first is of some rank
            parts.append((str(ranks[0]), math.fsum(stretch)))
            stretch, shared = [], own
        stretch += [seconds, waited]
        ranks = shared
    if ranks is not None:
        parts.append((str(ranks[0]), math.fsum(stretch)))
    return _totals(iter(parts))
