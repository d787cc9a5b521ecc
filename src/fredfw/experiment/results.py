"""What simulations return, as plain data for reports, JSON and embedding programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from statistics import fmean, stdev
from typing import Any

import numpy as np
from attrs import Factory, asdict, field, fields, frozen

from fredfw.collectives import Schedule
from fredfw.errors import InputError, SimulationError
from fredfw.experiment.document import document
from fredfw.fabric import Bill, Fabric
from fredfw.simulation.bounds.collectives import Bound
from fredfw.simulation.demands import Demands
from fredfw.simulation.record import Timeline
from fredfw.simulation.sharing import Samples
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import Work


@frozen
class PathStep:
    """The steps of a critical path whose tasks have the same name but for numbers."""

    name: str  #: Of the tasks; ``#`` for numbers that differ.
    kind: str  #: ``compute``, the label of a communication, or ``waiting``.
    count: int  #: How many steps those are, each repetition of a task counted.
    seconds: float  #: What they take together.
    alone: float  #: What they would take on a network that carried nothing else, about; at most ``seconds``.
    algorithm: str = ""  #: What ran, of a communication.
    ranks: int = 0  #: Of the largest group that communicates, or 0.
    limits: dict[str, float] = field(factory=dict)  #: Parts of ``seconds``, as in ``CriticalPath.by_limit``.
    #: How many began because of what: ``dependency``, ``busy rank``, ``last member`` of a group, ``beginning``.
    begins: dict[str, int] = field(factory=dict)


@frozen
class CriticalPath:
    """From the task that ends last back to the beginning, always to what the task before has waited for.

    All parts are in seconds, the largest first, and add up to ``seconds``.
    """

    seconds: float  #: Of the iteration.
    length: int  #: How many spans of the timeline it goes through.
    steps: tuple[PathStep, ...]  #: What it goes through, with alike ones together.
    by_kind: dict[str, float]  #: ``compute``, the communication of each label, ``waiting``.
    #: By the parameter of the machine, named as in ``Framework.what_if``: ``compute``, the bandwidth of a tier, the
    #: latency of links, the times of the transport. Tiers that bound something equally stand together, joined by
    #: ``and``: one alone makes nothing faster. Others are ``rates that no flow may exceed``, ``waiting``, and
    #: ``network`` where nothing more is known. A communication counts for the links that bound it alone; what
    #: it takes longer beside others, for the link of its group that is busiest over the whole iteration.
    by_limit: dict[str, float]
    by_rank: dict[str, float]  #: By the number of the rank that it goes through; it stays on one as long as it can.
    crowded: float  #: Seconds by which its communication takes longer than alone.


@frozen
class Improvement:
    """What a better parameter does to the time of one run: as its critical path says, and as another run says.

    A parameter that costs time, such as a latency, is divided; the others are multiplied.
    """

    parameter: str  #: What is improved.
    on_path: float  #: Seconds of the critical path that follow from it.
    estimated_exponent: float  #: Per cent of the time per per cent that it is better, as follows from that.
    exponent: float  #: The same from a run with one per cent.
    estimated_seconds: float  #: The time with the whole factor if the critical path stayed what it is.
    seconds: float  #: The time that a run with the whole factor takes.


@frozen
class WhatIf:
    """What would make one run faster."""

    seconds: float  #: The time as it is.
    factor: float  #: How many times better each parameter is made, one at a time.
    improvements: tuple[Improvement, ...]  #: The one that makes it fastest first.


@frozen
class Effect:
    """What one parameter does to the time of one cell."""

    workload: str  # name in the experiment, or the pattern of a collective
    fabric: str
    parameter: str
    seconds: float  # as it is
    less: float  # seconds with less of the parameter
    more: float
    exponent: float  # d ln(time) / d ln(parameter): -1 where all of it is inversely proportional, 0 where none depends

    @property
    def size(self) -> float:
        """The larger of the two changes in seconds, by which parameters are ranked."""
        return max(abs(one - self.seconds) for one in (self.less, self.more))


@frozen
class Interval:
    """Between which values a speed-up is when any one parameter is changed."""

    workload: str
    fabric: str
    speedup: float  # as it is
    low: float
    high: float
    low_by: str  # what was changed then; empty for nothing
    high_by: str


@frozen
class Flip:
    """Two fabrics that change places."""

    workload: str
    faster: str  # the faster fabric, as it is
    slower: str
    causes: tuple[str, ...]  # what makes the slower one the faster


@frozen
class Sensitivity:
    """How far a comparison may be off if machines are."""

    share: float  # of each parameter that was taken away and added, one at a time
    effects: tuple[Effect, ...]  # by cell, the largest first
    intervals: tuple[Interval, ...]  # by cell
    flips: tuple[Flip, ...]  # where a ranking changes


_ROUNDING = 1e-12  # of a time: runs that are no further apart are equal but for the order of their sums


@frozen
class Spread:
    """The iteration times of several runs, in seconds."""

    runs: int  #: How many there are.
    mean: float  #: Of all.
    p50: float  #: The median.
    p99: float  #: What 99 of 100 runs do not exceed, interpolated between runs.
    standard_error: float  #: Of the mean: the standard deviation of the runs over the root of their number.
    seconds: tuple[float, ...]  #: Of each run.

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """Return what iteration times of two or more runs have in common."""
        p50, p99 = np.percentile(seconds, [50, 99]).tolist()
        apart = max(seconds) - min(seconds) > _ROUNDING * max(seconds)
        error = stdev(seconds) / math.sqrt(len(seconds)) if apart else 0.0
        return cls(len(seconds), fmean(seconds), p50, p99, error, tuple(seconds))


@frozen
class Throughput:
    """How much an iteration trains for its time; ``None`` is what is not known."""

    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    # Model FLOPs over what all NPUs in use can compute in that time at their peak rate, without ``efficiency``;
    # ``None``, too, where ``compute_scale`` is below 1: computation is then taken to be faster than that rate allows.
    mfu: float | None = None
    npu_time: float | None = None  # NPU-seconds: iteration time multiplied by the NPUs in use

    @classmethod
    def of(cls, work: Work | None, seconds: float, *, npus: int, peak: float, compute_scale: float) -> Throughput:
        """Return the throughput of an iteration that takes ``seconds`` on ``npus``, of ``peak`` FLOP/s each."""
        cost = npus * seconds
        if work is None or seconds == 0:
            return cls(npu_time=cost)
        tokens = None if work.tokens is None else work.tokens / seconds
        flops = work.model_flops if compute_scale >= 1 else None
        return cls(work.samples / seconds, tokens, None if flops is None else flops / (cost * peak), cost)


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
    """One collective on an otherwise idle fabric, in nccl-tests' terms."""

    pattern: str  #: The collective.
    algorithm: str  #: Name of the algorithm that ran (the chosen one, where ``auto`` was asked for).
    ranks: int  #: Size of the group.
    size: float  #: Bytes of the per-rank buffer.
    duration: float  #: Seconds.
    algbw: float  #: Size / duration, bytes per second.
    busbw: float  #: ``algbw`` x the pattern's bus factor, bytes per second.
    steps: int  #: Repetitions of all phases of the schedule.
    link_bytes: FloatArray = field(repr=False)  #: ``(links,)`` bytes that crossed each link.
    link_utilization: FloatArray = field(repr=False)  #: ``(links,)`` share of each link's capacity over the duration.
    energy: float  #: Joules spent on links.
    bound: Bound  #: Seconds that no algorithm can do without, all together and part by part.
    candidates: dict[str, float] = field(factory=dict)  #: With ``auto``: seconds of all that were simulated to the end.
    slower: dict[str, float] = field(factory=dict, repr=False)  #: With ``auto``: seconds that others take at least.
    refused: dict[str, str] = field(factory=dict, repr=False)  #: With ``auto``: why others were not tried.
    statistics: dict[str, int] = field(factory=dict, repr=False)  #: Of the engine: events, solves, waits, splits.
    figures: dict[str, float] = field(factory=dict)  #: What the fabric's admission counted, such as wavelengths used.
    notes: tuple[str, ...] = ()  #: What a reader must know, for example conflicts that the network met.
    fidelity: str  #: How closely it was simulated.
    fabric: Fabric = field(repr=False)  #: Where it ran.
    group: IntArray  #: ``(ranks,)`` NPU number of each rank.
    schedule: Schedule = field(repr=False)  #: What the algorithm ordered.
    protocol: str = ""  #: By which protocol the transport's library sends, and what chose that; empty without one.

    @property
    def bound_ratio(self) -> float:
        """Duration over the bound: 1 for an algorithm that no other can beat (and where there is nothing to send)."""
        return self.duration / self.bound.seconds if self.bound.seconds else 1.0


@frozen(eq=False)
class CollectiveSweep:
    """One collective at one or more sizes."""

    results: tuple[CollectiveResult, ...]  #: One for each size.
    fabric: Fabric = field(repr=False)  #: Where they ran.
    provenance: dict[str, Any] = field(repr=False)  #: Everything needed to make the numbers again; JSON-ready.
    missing: tuple[float, ...] = ()  #: The sizes that an interrupt left out.
    effects: tuple[tuple[Effect, ...], ...] = ()  #: What parameters do to the time of each result, if asked for.

    @property
    def average_busbw(self) -> float:
        """The mean bus bandwidth over all sizes, as nccl-tests print it, in bytes per second."""
        return sum(one.busbw for one in self.results) / len(self.results)


@frozen(eq=False, kw_only=True)
class GraphResult:
    """One task graph on a fabric."""

    fabric: Fabric = field(repr=False)
    timeline: Timeline = field(repr=False)  #: What happened when; its ``graph`` has the tasks.
    placement: IntArray  #: ``(ranks,)`` NPU number of each rank.
    seconds: float  #: Time until the last task has ended.
    #: Seconds by cause, mean over the ranks: ``compute``, ``bubble``, exposed time by label; empty if not asked for.
    breakdown: dict[str, float]
    bytes_by_cause: dict[str, float]  #: Bytes summed over all links, by label.
    link_bytes: FloatArray = field(repr=False)  #: ``(links,)`` bytes that crossed each link.
    link_bytes_by_label: dict[str, FloatArray] = field(repr=False)  #: They add up to ``link_bytes``.
    energy: float  #: Joules spent on links.
    algorithms: dict[str, str]  #: What served each kind of request, for example ``{"mp all-reduce x3": "ring"}``.
    statistics: dict[str, int] = field(repr=False)  #: Counters of the engine: events, solves, waits, splits.
    figures: dict[str, float] = field(factory=dict)  #: What the fabric's admission counted, such as wavelengths used.
    notes: tuple[str, ...] = ()  #: What a reader must know, for example which conflicts the network met.
    demands: Demands | None = field(default=None, repr=False)  #: What each communication asks of the network.
    samples: dict[str, Samples] = field(factory=dict, repr=False)  #: What a sharing policy with state has counted.
    spread: Spread | None = None  #: Of several runs; then all but timeline, figures and notes is their mean.


@frozen(eq=False, kw_only=True)
class RunResult(GraphResult):
    """One workload on one fabric: what ``GraphResult`` says of it, and more."""

    workload: str  #: Its name in the experiment.
    fabric_name: str  #: The fabric's name in the experiment.
    memory: dict[str, float]  #: Bytes one NPU needs, by what they hold (may be empty).
    provenance: dict[str, Any] = field(repr=False)  #: What it takes to make the numbers again; JSON-ready.
    work: Work | None = None  #: What the iteration trains, or ``None`` where the workload does not say.
    throughput: Throughput = field(factory=Throughput)  #: How much that is for its time.
    omissions: tuple[str, ...] = ()  #: Those of the notes that say what the workload leaves out.
    colours: dict[str, str] = field(factory=dict)  #: Of the workload's labels, in order; empty for one that is free.
    critical_path: CriticalPath | None = None  #: What the time follows from, where that was asked for.
    what_if: WhatIf | None = None  #: What would make it shorter, where that was asked for.
    bill: Bill | None = field(default=None, repr=False)  #: What the network costs; ``None`` where that is unknown.
    jobs: tuple[JobResult, ...] = ()  #: Each of several jobs, in the order of the experiment; none of a single one.

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


@frozen
class TierLoad:
    """What the links of one tier carried, in short; ``TierShare`` says more of a run."""

    name: str
    links: int
    bandwidth: float  # of each link, bytes per second
    mean: float  # utilisation over all of them, 0 to 1
    highest: float  # that of the hottest link
    hottest: str  # its name
    bytes_by_label: dict[str, float]  # whose bytes that link carries


_MOST_TIERS = 4  # that a cell holds


@frozen(eq=False)
class Cell:
    """What a comparison needs to know of one run, and a store keeps; the fields are those of ``Row``."""

    workload: str
    fabric: str
    seconds: float
    breakdown: dict[str, float]
    energy: float
    figures: dict[str, float]
    notes: tuple[str, ...]
    statistics: dict[str, int]
    provenance: dict[str, Any]
    placement: tuple[int, ...]  # NPU number of each rank
    algorithms: dict[str, str]
    injection_bandwidth: float  # bytes per second that an NPU in use can send to others, mean over them
    work: Work | None = None
    omissions: tuple[str, ...] = ()
    colours: dict[str, str] = field(factory=dict)
    memory: dict[str, float] = field(factory=dict)
    throughput: Throughput = field(factory=Throughput)
    cost: float | None = None
    tiers: tuple[TierLoad, ...] = ()
    jobs: tuple[JobResult, ...] = ()
    spread: Spread | None = None

    @classmethod
    def of(cls, result: RunResult) -> Cell:
        """Return the cell that ``result`` is of, without the fabric and what happened on it."""
        from fredfw.experiment.why import tier_shares  # which needs results

        tiers = tuple(
            TierLoad(one.name, one.links, one.bandwidth, one.mean, hot.utilization, hot.name, hot.bytes_by_label)
            for one, hot in ((one, one.hottest) for one in tier_shares(result)[:_MOST_TIERS])
        )
        return cls(
            **shared(result, cls)
            | {
                "fabric": result.fabric_name,
                "placement": tuple(int(npu) for npu in result.placement),
                "injection_bandwidth": result.injection_bandwidth,
                "cost": result.cost,
                "tiers": tiers,
            }
        )


_WORKLOAD: Any = Factory(lambda self: self.workload, takes_self=True)
_FABRIC: Any = Factory(lambda self: self.fabric, takes_self=True)


@frozen(eq=False)
class Failure:
    """A cell that has no result; names, templates and settings are as in ``Row``."""

    workload: str
    fabric: str
    reason: str  #: Why, as an error says it.
    infeasible: bool  #: Whether the two do not fit each other; otherwise a model or a plugin failed.
    key: str | None = None  #: The key of the experiment that it is about, if it is about one.
    accepted: str | None = None  #: What would fit, if that is known.
    workload_template: str = _WORKLOAD
    workload_settings: dict[str, Any] = field(factory=dict)
    fabric_template: str = _FABRIC
    fabric_settings: dict[str, Any] = field(factory=dict)
    place: int = 0  #: How many rows of the comparison come before it.

    @property
    def status(self) -> str:
        """What it is, in a word, where rows with a result have a ``Status``."""
        return "infeasible" if self.infeasible else "failed"

    @property
    def told(self) -> str:
        """The reason with its key and what is accepted, on one line."""
        where = f"{self.key}: " if self.key else ""
        accepted = f" (accepted: {self.accepted})" if self.accepted else ""
        return f"{where}{' '.join(self.reason.split())}{accepted}"

    def error(self, file: str | None) -> InputError | SimulationError:
        """Return what is raised where the cell of the experiment in ``file`` must have a result."""
        if self.infeasible:
            return InputError(self.reason, file=file, key=self.key, accepted=self.accepted)
        return SimulationError(f"{self.workload} on {self.fabric}: {self.reason}")


class Status(StrEnum):
    """Where a number comes from."""

    REFERENCE = "reference"  #: Published by another source.
    MEASURED = "measured"  #: Timed on hardware by another source.
    SIMULATED = "simulated"  #: Nothing was fitted.
    CALIBRATED = "calibrated"  #: The cell that a scalar was fitted to.
    PREDICTED = "predicted"  #: Another cell of a workload that has a fitted scalar.


@frozen
class Row:
    """One cell of a comparison: a workload on a fabric."""

    workload: str  #: Name in the experiment.
    fabric: str  #: Name in the experiment.
    baseline: str  #: The fabric that the speed-up is over.
    seconds: float  #: Iteration time.
    speedup: float | None  #: Seconds of ``baseline_workload`` on ``baseline`` over these; ``None`` without them.
    reference_speedup: float | None  #: The published value, or ``None``.
    reference_source: str | None  #: Where that was published, or ``None``.
    status: Status  #: Where ``seconds`` and ``speedup`` come from.
    breakdown: dict[str, float]  #: Seconds by cause; they add up to ``seconds``.
    npus: int  #: How many NPUs are in use.
    algorithms: dict[str, str] = field(factory=dict)  #: By kind of request, such as ``{"mp all-reduce x3": "ring"}``.
    compute_scale: float = 1.0  #: Factor between the compute times used and the roofline.
    fidelity: str = "exact"  #: How it was simulated.
    energy: float = 0.0  #: Joules spent on links.
    figures: dict[str, float] = field(factory=dict)  #: What the fabric's admission counted, such as wavelengths used.
    notes: tuple[str, ...] = ()  #: What a reader must know.
    work: Work | None = None  #: What the iteration trains, or ``None`` where the workload does not say.
    throughput: Throughput = field(factory=Throughput)  #: How much that is for its time.
    baseline_workload: str = _WORKLOAD  #: The workload that the speed-up is over; the row's own by default.
    workload_template: str = _WORKLOAD  #: Name of its table in the experiment; differs from ``workload`` in a sweep.
    workload_settings: dict[str, Any] = field(factory=dict)  #: The swept fields of the workload, as written.
    fabric_template: str = _FABRIC  #: Name of the fabric's table in the experiment, likewise.
    fabric_settings: dict[str, Any] = field(factory=dict)  #: The swept fields of the fabric, as written.
    omissions: tuple[str, ...] = ()  #: Those of the notes that say what the workload leaves out.
    colours: dict[str, str] = field(factory=dict)  #: Of the workload's labels, in order; empty for one that is free.
    memory: dict[str, float] = field(factory=dict)  #: Bytes one NPU needs, by what they hold (may be empty).
    cost: float | None = None  #: Dollars of the network, if they are known.
    tiers: tuple[TierLoad, ...] = ()  #: What its busiest tiers carried, the one with the hottest link first.
    jobs: tuple[JobResult, ...] = ()  #: Each of several jobs, in the order of the experiment; none of a single one.
    spread: Spread | None = None  #: The times of several runs, whose mean ``seconds`` is.


@frozen
class SavingGroup:
    """The mean of 1 - T_of / T_over over some pairs of cells."""

    at: dict[str, Any]  # the values of the swept fields that make the group, as written
    saving: float  # a share of the time; below 0 where more time is needed
    lowest: float  # of all pairs
    highest: float
    pairs: int  # how many there are
    reference: float | None = None  # the published value
    reference_source: str | None = None


@frozen
class SavingClaim:
    """A published saving whose author does not say for which group."""

    saving: float
    source: str
    between: tuple[tuple[Any, Any], ...] = ()  # by one field: neighbours between which the mean passes it


@frozen
class Saving:
    """The time that some fabrics save over others."""

    name: str
    of: str  # name or template of the fabrics that save time
    over: str  # name or template of those they are compared with
    workloads: tuple[str, ...]  # names
    part: str | None  # the label whose exposed time is compared; ``None`` for the whole iteration
    by: tuple[str, ...]  # the swept fields that make groups: none, one or two
    groups: tuple[SavingGroup, ...]  # in the order of the experiment
    claims: tuple[SavingClaim, ...] = ()  # published values that are of no group


@frozen(eq=False)
class Comparison:
    """The matrix of an experiment file."""

    title: str  #: From the experiment.
    baseline: str  #: Fabric that speed-ups refer to where a row names no other, as written.
    rows: tuple[Row, ...]  #: One per workload and fabric, workload by workload.
    savings: tuple[Saving, ...] = ()  #: What is compared over many cells, none of which is missing.
    provenance: dict[str, Any] = field(factory=dict, repr=False)  #: The experiment, versions, fidelity; JSON-ready.
    statistics: dict[str, int] = field(factory=dict, repr=False)  #: Counters of the engine over all runs.
    approximated: str = ""  #: Why the cells are not ``exact``, where nobody has asked for that; empty otherwise.
    missing: tuple[tuple[str, str], ...] = ()  #: (workload, fabric) of the cells that an interrupt left out.
    sensitivity: Sensitivity | None = None  #: How far it may be off, if that was asked for.
    failures: tuple[Failure, ...] = ()  #: The cells that have no result, in the order of the experiment.
    stored: int = 0  #: How many cells came from a store. It differs between runs, so it is not part of the JSON.

    def to_json(self) -> str:
        """Return the whole comparison as JSON text: title, rows, savings, provenance and all else."""
        content = asdict(self)
        content["missing"] = [{"workload": workload, "fabric": fabric} for workload, fabric in self.missing]
        del content["stored"]
        return document("comparison", content)
