"""Why an iteration takes as long as it does: its critical path, and what the tiers of links carried, by label.

Everything is found from the records of a run, when it is asked for; nothing is simulated again.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from attrs import field, frozen

from fredfw.experiment.cell.variation import ALPHAS, COMPUTE, LATENCY, bandwidths_of
from fredfw.experiment.results import CriticalPath, GraphResult, PathStep, RunResult
from fredfw.fabric import Fabric
from fredfw.fabric.fabric import tiers_of
from fredfw.simulation.demands import Demand
from fredfw.simulation.links import RESTART
from fredfw.simulation.record import Timeline
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import TaskKind
from fredfw.workloads.labels import WAITING

RATES = "rates that no flow may exceed"  # what the transport or the admission allows, where links would carry more
NETWORK = "network"  # what bounds communication where nothing more is known
TOGETHER = " and "  # between tiers that bound the same equally: neither alone makes it faster
BEGINNING, DEPENDENCY, BUSY, MEMBER = "beginning", "dependency", "busy rank", "last member"
_EXACT = 1e-9  # relative; what differs by less is rounding
_NUMBER = re.compile(r"\d+")
_NO_LABELS: Mapping[str, FloatArray] = MappingProxyType({})


@frozen
class LinkLoad:
    """What one link carried."""

    link: int  #: Its number in the fabric.
    name: str  #: For people.
    bytes: float  #: How much crossed it.
    utilization: float  #: Share of what its capacity allows over the whole time, 0 to 1.
    bytes_by_label: dict[str, float] = field(factory=dict)  #: Whose those are, where known; no labels without any.


def link_loads(
    fabric: Fabric,
    link_bytes: FloatArray,
    seconds: float,
    top: int | None = None,
    by_label: Mapping[str, FloatArray] = _NO_LABELS,
) -> list[LinkLoad]:
    """Return the links that carried some of ``(links,)`` bytes in ``seconds``, the busiest first, at most ``top``."""
    used = np.flatnonzero(link_bytes)
    utilization = link_bytes[used] / (fabric.bandwidths[used] * seconds)
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
    """What the links of one tier carried."""

    name: str  #: The ends that they join, and the dimension where NPUs are joined to each other in one of several.
    bandwidth: float  #: Of each link, bytes per second.
    links: int  #: How many there are.
    bytes: float  #: Over all of them.
    mean: float  #: Mean utilisation over all of them, 0 to 1.
    bytes_by_label: dict[str, float]  #: Whose bytes those are; labels without any are left out.
    mean_by_label: dict[str, float]  #: The part that each label has in ``mean``.
    hottest: LinkLoad  #: The first link with the highest utilisation, the share of the iteration that it is busy.


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


def critical_path(result: GraphResult) -> CriticalPath:
    """Return the critical path of ``result``."""
    timeline, demands = result.timeline, result.demands
    graph = timeline.graph
    path = []  # spans, the last first
    span = int(timeline.end.argmax()) if len(timeline) else -1
    while span >= 0:
        path.append(span)
        span = int(timeline.trigger[span])
    ranks = _ranks(timeline, path)
    parameters = np.full(len(result.fabric.bandwidths), "", dtype=object)
    for name, links in bandwidths_of(result.fabric).items():
        parameters[links] = name
    limit_of: list[str] = parameters.tolist()
    busy = result.link_bytes / result.fabric.bandwidths
    alike: dict[tuple[str, str], list[PathStep]] = {}  # steps by kind, and name but for numbers
    by_rank: list[tuple[str, float]] = []

    def add(step: PathStep) -> None:
        alike.setdefault((_NUMBER.sub("#", step.name), step.kind), []).append(step)

    def wait(name: str, seconds: float) -> None:
        add(PathStep(name, WAITING, 1, seconds, seconds, limits={WAITING: seconds}))

    for (span, seconds, waited), rank in zip(_seconds(timeline, path), ranks, strict=True):
        task = int(timeline.task[span])
        by_rank += ((str(rank), seconds), (str(rank), waited))
        if waited:
            wait(WAITING, waited)
        alone, demand, kind = seconds, None, COMPUTE
        limits = {COMPUTE: seconds}
        if graph.kinds[task] == TaskKind.WAIT:
            kind, limits = WAITING, {WAITING: seconds}
        elif not timeline.is_compute(span):
            kind, limits = graph.label(task), {NETWORK: seconds}
            demand = None if demands is None else demands.of(task, rank)
        if demand is not None:
            alone, limits = min(demand.seconds, seconds), _parts(demand, seconds, limit_of, busy)
        ran = ("", 0) if demand is None else (demand.algorithm, demand.ranks)
        begins = {_begins(timeline, span): 1}
        add(PathStep(graph.names[task], kind, int(graph.repeats[task]), seconds, alone, *ran, limits, begins))
    down = 0.0 if result.spread else result.seconds - timeline.duration
    if down:
        wait(RESTART, down)
    joined = [_joined(*key, ones) for key, ones in alike.items()]
    steps = sorted(joined, key=lambda one: (-one.seconds, one.name, one.kind))
    return CriticalPath(
        seconds=timeline.duration + down,
        length=len(path),
        steps=tuple(steps),
        by_kind=_totals((one.kind, one.seconds) for one in steps),
        by_limit=_totals(part for one in steps for part in one.limits.items()),
        by_rank=_totals(by_rank),
        crowded=math.fsum(one.seconds - one.alone for one in steps),
    )


def _joined(pattern: str, kind: str, steps: Sequence[PathStep]) -> PathStep:
    """Return ``steps`` whose names differ in numbers alone as one."""
    names = {one.name for one in steps}
    return PathStep(
        name=names.pop() if len(names) == 1 else pattern,
        kind=kind,
        count=sum(one.count for one in steps),
        seconds=math.fsum(one.seconds for one in steps),
        alone=math.fsum(one.alone for one in steps),
        algorithm=" + ".join(dict.fromkeys(one.algorithm for one in steps if one.algorithm)),
        ranks=max(one.ranks for one in steps),
        limits=_totals(part for one in steps for part in one.limits.items()),
        begins=dict(sorted(Counter(begin for one in steps for begin in one.begins).items())),
    )


def _totals(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for name, seconds in parts:
        found.setdefault(name, []).append(seconds)
    sums = {name: math.fsum(listed) for name, listed in found.items()}
    return dict(sorted(((name, one) for name, one in sums.items() if one), key=lambda one: (-one[1], one[0])))


def _seconds(timeline: Timeline, path: list[int]) -> Iterator[tuple[int, float, float]]:
    """Yield each span of ``path`` with its seconds, and those between the end of the one before and its start."""
    for place, span in enumerate(path):
        before = float(timeline.end[path[place + 1]]) if place + 1 < len(path) else 0.0
        start = max(float(timeline.start[span]), before)
        yield span, float(timeline.end[span]) - start, start - before


def _begins(timeline: Timeline, span: int) -> str:
    trigger, task = int(timeline.trigger[span]), int(timeline.task[span])
    if trigger < 0:
        return BEGINNING
    before, own = timeline.ranks[trigger], timeline.ranks[span]
    if not timeline.is_compute(span):
        return DEPENDENCY if before is own or np.isin(own, before).all() else MEMBER
    return DEPENDENCY if int(timeline.task[trigger]) in timeline.graph.after(task) else BUSY


def _parts(demand: Demand, seconds: float, limit_of: list[str], busy: FloatArray) -> dict[str, float]:
    """Return what the ``seconds`` of a group's ``demand`` follow from; ``busy`` is how busy each link was in all."""
    fixed = demand.latency + demand.transport + demand.setup
    drained = demand.seconds - fixed
    scale = min(seconds / fixed, 1.0) if fixed else 1.0
    parts = {LATENCY: demand.latency * scale, ALPHAS: demand.transport * scale, WAITING: demand.setup * scale}
    rest = max(seconds - fixed, 0.0)
    for links, own in demand.draining.items():
        name = TOGETHER.join(dict.fromkeys(limit_of[link] for link in links)) or RATES
        parts[name] = parts.get(name, 0.0) + own * min(rest / drained, 1.0)
    if rest > drained * (1 + _EXACT):  # where it meets others
        name = limit_of[demand.links[busy[demand.links].argmax()]] if len(demand.links) else WAITING
        parts[name] = parts.get(name, 0.0) + rest - drained
    return {name: part for name, part in parts.items() if part}


def _ranks(timeline: Timeline, path: list[int]) -> list[int]:
    """Return a rank of each span of ``path``, which changes as seldom as it can; of several the lowest."""
    found: list[int] = []
    ranks: IntArray | None = None
    stretch = 0  # spans that have no rank yet
    for span in path:
        own = timeline.ranks[span]
        shared = own if ranks is None or ranks is own else np.intersect1d(ranks, own, assume_unique=True)
        if ranks is not None and not len(shared):
            found += [int(ranks[0])] * stretch
            shared, stretch = own, 0
        ranks, stretch = shared, stretch + 1
    return found if ranks is None else found + [int(ranks[0])] * stretch
