"""What a simulation returns: of a collective, of a task graph, of an iteration, of one of several jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
from attrs import field, fields, frozen

from fredfw.collectives import Schedule
from fredfw.experiment.results.reasons import CriticalPath, Effect, WhatIf
from fredfw.fabric import Bill, Fabric
from fredfw.simulation.bounds import Bound
from fredfw.simulation.demands import Demands
from fredfw.simulation.record import Timeline
from fredfw.simulation.sharing import Samples
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import Work

# Of a time: runs that are no further apart are equal but for the order of their sums.
_ROUNDING = 1e-12


@frozen
class Spread:
    """The iteration times of several runs, in seconds.

    Args:
        runs: How many there are.
        mean: Of all.
        p50: The median.
        p99: What 99 of 100 runs do not exceed, interpolated between runs.
        standard_error: Of the mean: the standard deviation of the runs over the root of their number.
        seconds: Of each run.
    """

    runs: int
    mean: float
    p50: float
    p99: float
    standard_error: float
    seconds: tuple[float, ...]

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """Return what iteration times of two or more runs have in common."""
        p50, p99 = np.percentile(seconds, [50, 99]).tolist()
        apart = max(seconds) - min(seconds) > _ROUNDING * max(seconds)
        error = stdev(seconds) / math.sqrt(len(seconds)) if apart else 0.0
        return cls(len(seconds), fmean(seconds), p50, p99, error, tuple(seconds))


@frozen
class Throughput:
    """How much an iteration trains for its time; ``None`` is what is not known.

    ``mfu`` is model FLOPs utilisation: model FLOPs over what all NPUs in use can compute in that time at their peak
    rate, without ``efficiency``. It is ``None`` too where ``compute_scale`` is below 1: computation is then taken to be
    faster than that peak rate allows.
    """

    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    npu_time: float | None = None  # NPU-seconds: iteration time multiplied by the NPUs in use

    @classmethod
    def of(cls, work: Work | None, seconds: float, *, npus: int, peak: float, compute_scale: float) -> Throughput:
        """Return the throughput of an iteration that takes ``seconds`` on ``npus``, of ``peak`` FLOP/s each."""
        cost = npus * seconds
        if work is None or seconds == 0:
            return cls(npu_time=cost)
        flops = work.model_flops if compute_scale >= 1 else None
        return cls(
            samples_per_second=work.samples / seconds,
            tokens_per_second=None if work.tokens is None else work.tokens / seconds,
            mfu=None if flops is None else flops / (cost * peak),
            npu_time=cost,
        )


@frozen
class JobResult:
    """One of several jobs that ran at once; of several runs, times are means."""

    name: str
    workload: str  # name of the plugin
    npus: tuple[int, ...]  # numbers of its NPUs; those that have no rank of it, too
    start: float  # in seconds
    seconds: float  # from then to its end
    alone: float  # what it takes on the same NPUs of the fabric that carries nothing else
    slowdown: float  # ``seconds`` over ``alone``; 1 where it takes no time alone
    iterations: tuple[float, ...]  # seconds of each
    breakdown: dict[str, float]  # seconds by cause, mean over its ranks, with its own labels
    bytes: float  # summed over all links
    bytes_alone: float  # those that it moves alone
    memory: dict[str, float] = field(factory=dict)  # bytes one of its NPUs needs, by what they hold
    work: Work | None = None  # what an iteration trains, where its workload says that
    throughput: Throughput = field(factory=Throughput)  # of all of its iterations
    spread: Spread | None = None  # its times in several runs


@frozen(eq=False, kw_only=True)
class CollectiveResult:
    """One collective on an otherwise idle fabric, in nccl-tests' terms.

    Args:
        pattern: The collective.
        algorithm: Name of the algorithm that ran (the chosen one, where ``auto`` was asked for).
        protocol: By which protocol the transport's library sends, and what chose that; empty where it has none.
        ranks: Size of the group.
        size: Bytes of the per-rank buffer.
        duration: Seconds.
        algbw: Size / duration, bytes per second.
        busbw: ``algbw`` x the pattern's bus factor, bytes per second.
        steps: Repetitions of all phases of the schedule.
        link_bytes: ``(links,)`` bytes that crossed each link.
        link_utilization: ``(links,)`` share of each link's capacity used over the duration.
        energy: Joules spent on links.
        bound: Seconds that no algorithm can do without, all together and part by part.
        candidates: With ``auto``: seconds of every algorithm that was simulated to its end, by name.
        slower: With ``auto``: seconds that others take at least, from a bound or where they were cut off.
        refused: With ``auto``: why others were not tried.
        statistics: Counters of the engine: events, solves, cache hits, waits, splits.
        figures: What the fabric's admission counted, for example wavelengths used.
        notes: What a reader must know, for example conflicts that the network met.
        fidelity: How closely it was simulated.
        fabric: Where it ran.
        group: ``(ranks,)`` NPU number of each rank.
        schedule: What the algorithm ordered.
    """

    pattern: str
    algorithm: str
    ranks: int
    size: float
    duration: float
    algbw: float
    busbw: float
    steps: int
    link_bytes: FloatArray
    link_utilization: FloatArray
    energy: float
    bound: Bound
    candidates: dict[str, float] = field(factory=dict)
    slower: dict[str, float] = field(factory=dict)
    refused: dict[str, str] = field(factory=dict)
    statistics: dict[str, int] = field(factory=dict)
    figures: dict[str, float] = field(factory=dict)
    notes: tuple[str, ...] = ()
    fidelity: str
    fabric: Fabric
    group: IntArray
    schedule: Schedule
    protocol: str = ""

    @property
    def bound_ratio(self) -> float:
        """Duration over the bound: 1 for an algorithm that no other can beat (and where there is nothing to send)."""
        return self.duration / self.bound.seconds if self.bound.seconds else 1.0


@frozen(eq=False)
class CollectiveSweep:
    """One collective at one or more sizes.

    Args:
        results: One for each size.
        fabric: Where they ran.
        provenance: Everything needed to make the numbers again; JSON-ready.
        missing: The sizes that an interrupt left out.
        effects: What parameters do to the time of each result, if that was asked for.
    """

    results: tuple[CollectiveResult, ...]
    fabric: Fabric
    provenance: dict[str, Any]
    missing: tuple[float, ...] = ()
    effects: tuple[tuple[Effect, ...], ...] = ()

    @property
    def average_busbw(self) -> float:
        """The mean bus bandwidth over all sizes, as nccl-tests print it, in bytes per second."""
        return sum(one.busbw for one in self.results) / len(self.results)


@frozen(eq=False)
class GraphResult:
    """One task graph on a fabric.

    Args:
        timeline: What happened when; its ``graph`` has the tasks.
        placement: ``(ranks,)`` NPU number of each rank.
        seconds: Time until the last task has ended.
        breakdown: Seconds by cause (mean over the ranks): ``compute``, ``bubble``, exposed time by label; empty where
            it was not asked for.
        bytes_by_cause: Bytes summed over all links, by label.
        link_bytes: ``(links,)`` bytes that crossed each link.
        link_bytes_by_label: ``(links,)`` bytes that crossed each link, by label; they add up to ``link_bytes``.
        energy: Joules spent on links.
        algorithms: What served each kind of request, for example ``{"mp all-reduce x3": "ring"}``.
        statistics: Counters of the engine: events, solves, cache hits, waits, splits.
        figures: What the fabric's admission counted, for example wavelengths used.
        notes: What a reader must know, for example which conflicts the network met.
        demands: What each communication asks of the network, for whoever wants to know why it took so long.
        samples: What a sharing policy with state has counted over time, for traces.
        spread: The times of several runs; then all but the timeline, the figures and the notes is their mean.
    """

    fabric: Fabric
    timeline: Timeline
    placement: IntArray
    seconds: float
    breakdown: dict[str, float]
    bytes_by_cause: dict[str, float]
    link_bytes: FloatArray
    link_bytes_by_label: dict[str, FloatArray]
    energy: float
    algorithms: dict[str, str]
    statistics: dict[str, int]
    figures: dict[str, float] = field(factory=dict)
    notes: tuple[str, ...] = ()
    demands: Demands | None = field(default=None, repr=False)
    samples: dict[str, Samples] = field(factory=dict, repr=False)
    spread: Spread | None = None


@frozen(eq=False)
class RunResult:
    """One workload on one fabric: what ``GraphResult`` says of it, and more.

    Args:
        workload: Its name in the experiment.
        fabric_name: The fabric's name in the experiment.
        memory: Bytes one NPU needs, by what they hold (may be empty).
        provenance: The resolved configuration of topology, workload, placement, sharing, NPU, fidelity; plugin
            versions. Everything needed to make the numbers again; JSON-ready.
        work: What the iteration trains, or ``None`` where the workload does not say.
        throughput: How much that is for its time.
        omissions: Those of the notes that say what the workload leaves out.
        colours: Of the labels that the workload declares, in their order; empty for one that is free.
        critical_path: What the time follows from, where that was asked for.
        what_if: What would make it shorter, where that was asked for.
        bill: What the network costs, item by item; ``None`` where nothing can be said.
        jobs: What became of each of several jobs, in the order of the experiment; none where it is a single workload.
    """

    workload: str
    fabric_name: str
    fabric: Fabric
    timeline: Timeline
    placement: Any
    seconds: float
    breakdown: dict[str, float]
    bytes_by_cause: dict[str, float]
    link_bytes: FloatArray
    energy: float
    memory: dict[str, float]
    algorithms: dict[str, str]
    provenance: dict[str, Any]
    statistics: dict[str, int]
    figures: dict[str, float] = field(factory=dict)
    notes: tuple[str, ...] = ()
    work: Work | None = None
    throughput: Throughput = field(factory=Throughput)
    link_bytes_by_label: dict[str, FloatArray] = field(factory=dict)
    omissions: tuple[str, ...] = ()
    colours: dict[str, str] = field(factory=dict)
    demands: Demands | None = field(default=None, repr=False)
    critical_path: CriticalPath | None = None
    what_if: WhatIf | None = None
    bill: Bill | None = None
    samples: dict[str, Samples] = field(factory=dict, repr=False)
    jobs: tuple[JobResult, ...] = ()
    spread: Spread | None = None

    @property
    def cost(self) -> float | None:
        """Dollars that the network costs, or ``None`` where the price of a part is not known."""
        return None if self.bill is None else self.bill.dollars

    @property
    def injection_bandwidth(self) -> float:
        """Bytes per second that an NPU in use can send to others, mean over them.

        These are its links out, but for those to controllers and memory tiers.
        """
        return injection_bandwidth(self.fabric, self.placement)


def shared(source: Any, cls: type) -> dict[str, Any]:
    """Return the fields of ``source`` that ``cls`` has by the same name."""
    names = {one.name for one in fields(cls)}
    return {one.name: getattr(source, one.name) for one in fields(type(source)) if one.name in names}


def injection_bandwidth(fabric: Fabric, placement: IntArray) -> float:
    """Return what ``RunResult.injection_bandwidth`` is for ranks on the NPUs numbered ``placement``."""
    fabric = fabric if fabric.memories is None else fabric.memories.network
    peers = np.isin(fabric.destinations, fabric.controllers, invert=True)
    leaving = np.bincount(fabric.sources[peers], weights=fabric.bandwidths[peers], minlength=len(fabric.kinds))
    return float(leaving[fabric.npus[placement]].mean())
