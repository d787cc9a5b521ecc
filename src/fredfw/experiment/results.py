"""The results that the runner returns: plain data for reports, JSON and embedding programs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
from attrs import Factory, asdict, field, frozen

from fredfw.collectives import Schedule
from fredfw.experiment.document import document
from fredfw.fabric import Bill, Fabric
from fredfw.simulation.bounds import Bound
from fredfw.simulation.demands import Demands
from fredfw.simulation.timeline import Timeline
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import Work


class Status(StrEnum):
    """Where a number comes from."""

    REFERENCE = "reference"
    """Published by another source."""
    MEASURED = "measured"
    """Timed on hardware by another source."""
    SIMULATED = "simulated"
    """Nothing was fitted."""
    CALIBRATED = "calibrated"
    """The cell that a scalar was fitted to."""
    PREDICTED = "predicted"
    """Another cell of a workload that has a fitted scalar."""


@frozen(eq=False, kw_only=True)
class CollectiveResult:
    """One collective on an otherwise idle fabric, in nccl-tests' terms.

    Args:
        pattern: The collective.
        algorithm: Name of the algorithm that ran (the chosen one, where ``auto`` was asked for).
        ranks: Size of the group.
        size: Bytes of the per-rank buffer.
        duration: Seconds.
        steps: Repetitions of all phases of the schedule.
        link_bytes: ``(links,)`` bytes that crossed each link.
        link_utilization: ``(links,)`` share of each link's capacity used over the duration.
        energy: Joules spent on links.
        bound: Seconds that no algorithm can do without, all together and part by part.
        candidates: With ``auto``: seconds of every algorithm that was tried, by name.
        statistics: Counters of the engine: events, solves, cache hits, waits, splits.
        figures: What the fabric's admission counted, for example wavelengths used.
        notes: What a reader must know, for example conflicts that the network met.
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
    """Size / duration, bytes per second."""
    busbw: float
    """algbw x the pattern's bus factor, bytes per second."""
    steps: int
    link_bytes: FloatArray
    link_utilization: FloatArray
    energy: float
    bound: Bound
    candidates: dict[str, float] = field(factory=dict)
    statistics: dict[str, int] = field(factory=dict)
    figures: dict[str, float] = field(factory=dict)
    notes: tuple[str, ...] = ()
    fabric: Fabric
    group: IntArray
    schedule: Schedule

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


@frozen
class Throughput:
    """How much an iteration trains for its time; ``None`` is what is not known.

    Args:
        samples_per_second: Samples over the iteration time.
        tokens_per_second: Tokens over the iteration time.
        mfu: Model FLOPs utilisation: model FLOPs over what all NPUs in use can compute in that time at their peak rate,
            without ``efficiency``. ``None`` too where ``compute_scale`` is below 1: computation is then taken to be
            faster than that peak rate allows.
        npu_time: NPU-seconds: iteration time multiplied by the NPUs in use.
    """

    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    npu_time: float | None = None

    @classmethod
    def of(cls, work: Work | None, seconds: float, *, npus: int, peak: float, compute_scale: float) -> Throughput:
        """Return the throughput of one iteration.

        Args:
            work: What it trains, if that is known.
            seconds: How long it takes.
            npus: NPUs in use.
            peak: Of one NPU, FLOP per second.
            compute_scale: Factor between the compute times used and the roofline.
        """
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


@frozen(eq=False)
class GraphResult:
    """One task graph on a fabric.

    Args:
        fabric: The fabric.
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
        by_limit: By the parameter of the machine, named as ``Framework.what_if`` names it: ``compute``, the bandwidth
            of a tier, the latency of links, the times of the transport. Tiers that bound something equally stand
            together, joined by ``and``: one of them alone makes nothing faster. Beside these there are ``rates that no
            flow may exceed``, ``waiting``, and ``network`` where nothing more is known. A communication counts for the
            links that bound it when it is alone; what it takes longer beside others counts for the link of its group
            that is busiest over the whole iteration.
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


@frozen
class Improvement:
    """What a better parameter does to the time of one run: as its critical path says, and as another run says.

    A parameter that costs time, such as a latency, is divided; the others are multiplied.

    Args:
        parameter: What is improved.
        on_path: Seconds of the critical path that follow from it.
        estimated_exponent: Per cent of the time per per cent that the parameter is better, as follows from that: -0.5
            where one per cent takes half a per cent off.
        exponent: The same from a run with one per cent.
        estimated_seconds: The time with the whole factor if the critical path stayed what it is.
        seconds: The time that a run with the whole factor takes.
    """

    parameter: str
    on_path: float
    estimated_exponent: float
    exponent: float
    estimated_seconds: float
    seconds: float


@frozen
class WhatIf:
    """What would make one run faster.

    Args:
        seconds: The time as it is.
        factor: How many times better each parameter is made, one at a time.
        improvements: The one that makes it fastest first.
    """

    seconds: float
    factor: float
    improvements: tuple[Improvement, ...]


@frozen(eq=False)
class RunResult:
    """One workload on one fabric.

    Args:
        workload: Its name in the experiment.
        fabric_name: The fabric's name in the experiment.
        fabric: The fabric.
        timeline: What happened when.
        placement: ``(workers,)`` NPU number of each rank.
        seconds: Iteration time.
        breakdown: Seconds by cause (mean over the ranks in use): ``compute``, ``bubble``, exposed time by label.
        bytes_by_cause: Bytes summed over all links, by label.
        link_bytes: ``(links,)`` bytes that crossed each link.
        energy: Joules spent on links.
        memory: Bytes one NPU needs, by what they hold (may be empty).
        algorithms: What served each kind of request, for example ``{"mp all-reduce x3": "ring"}``.
        provenance: The resolved configuration of topology, workload, placement, sharing, NPU, fidelity; plugin
            versions. Everything needed to make the numbers again; JSON-ready.
        statistics: Counters of the engine: events, solves, cache hits, waits, splits.
        figures: What the fabric's admission counted, for example wavelengths used.
        notes: What a reader must know, for example that memory would not fit or which conflicts the network met.
        work: What the iteration trains, or ``None`` where the workload does not say.
        throughput: How much that is for its time.
        link_bytes_by_label: ``(links,)`` bytes that crossed each link, by label; they add up to ``link_bytes``.
        omissions: Those of the notes that say what the workload leaves out.
        colours: Of the labels that the workload declares, in their order; empty for one that is free.
        demands: What each communication asks of the network, for whoever wants to know why it took so long.
        critical_path: What the time follows from, where that was asked for.
        what_if: What would make it shorter, where that was asked for.
        bill: What the network costs, item by item; ``None`` where nothing can be said.
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
    throughput: Throughput = Throughput()
    link_bytes_by_label: dict[str, FloatArray] = field(factory=dict)
    omissions: tuple[str, ...] = ()
    colours: dict[str, str] = field(factory=dict)
    demands: Demands | None = field(default=None, repr=False)
    critical_path: CriticalPath | None = None
    what_if: WhatIf | None = None
    bill: Bill | None = None

    @property
    def cost(self) -> float | None:
        """Dollars that the network costs, or ``None`` where the price of a part is not known."""
        return None if self.bill is None else self.bill.dollars

    @property
    def injection_bandwidth(self) -> float:
        """Bytes per second that an NPU in use can send: its links out, those to controllers apart; mean over them."""
        fabric = self.fabric
        peers = np.isin(fabric.destinations, fabric.controllers, invert=True)
        leaving = np.bincount(fabric.sources[peers], weights=fabric.bandwidths[peers], minlength=len(fabric.kinds))
        return float(leaving[fabric.npus[self.placement]].mean())


@frozen
class TierLoad:
    """What the links of one tier carried, in short; ``fredfw.experiment.why`` says more of a run.

    Args:
        name: The ends that they join, and the dimension where NPUs are joined to each other in one of several.
        links: How many there are.
        bandwidth: Of each link, bytes per second.
        mean: Mean utilisation over all of them, 0 to 1.
        highest: That of the hottest link.
        hottest: Its name.
        bytes_by_label: Whose bytes that link carries.
    """

    name: str
    links: int
    bandwidth: float
    mean: float
    highest: float
    hottest: str
    bytes_by_label: dict[str, float]


_MOST_TIERS = 4  # that a cell holds


@frozen(eq=False)
class Cell:
    """What a comparison needs to know of one run; a stored run holds it.

    Args:
        workload: Name in the experiment.
        fabric: Name in the experiment.
        seconds: Iteration time.
        breakdown: Seconds by cause; they add up to ``seconds``.
        energy: Joules spent on links.
        figures: What the fabric's admission counted.
        notes: What a reader must know.
        statistics: Counters of the engine.
        provenance: Everything needed to make the numbers again; JSON-ready.
        placement: ``(workers,)`` NPU number of each rank.
        algorithms: What served each kind of request.
        injection_bandwidth: Bytes per second that an NPU in use can send, mean over them.
        work: What the iteration trains, or ``None`` where that is not known.
        omissions: Those of the notes that say what the workload leaves out.
        colours: Of the labels that the workload declares, in their order; empty for one that is free.
        memory: Bytes one NPU needs, by what they hold (may be empty).
        throughput: How much the iteration trains for its time.
        cost: Dollars of the network, if they are known.
        tiers: What its busiest tiers carried, the one with the hottest link first.
    """

    workload: str
    fabric: str
    seconds: float
    breakdown: dict[str, float]
    energy: float
    figures: dict[str, float]
    notes: tuple[str, ...]
    statistics: dict[str, int]
    provenance: dict[str, Any]
    placement: tuple[int, ...]
    algorithms: dict[str, str]
    injection_bandwidth: float
    work: Work | None = None
    omissions: tuple[str, ...] = ()
    colours: dict[str, str] = field(factory=dict)
    memory: dict[str, float] = field(factory=dict)
    throughput: Throughput = Throughput()
    cost: float | None = None
    tiers: tuple[TierLoad, ...] = ()

    @classmethod
    def of(cls, result: RunResult) -> Cell:
        """Return the cell that ``result`` is of, without the fabric and what happened on it."""
        from fredfw.experiment.why import tier_shares  # which needs results

        return cls(
            workload=result.workload,
            fabric=result.fabric_name,
            seconds=result.seconds,
            breakdown=result.breakdown,
            energy=result.energy,
            figures=result.figures,
            notes=result.notes,
            statistics=result.statistics,
            provenance=result.provenance,
            placement=tuple(int(npu) for npu in result.placement),
            algorithms=result.algorithms,
            injection_bandwidth=result.injection_bandwidth,
            work=result.work,
            omissions=result.omissions,
            colours=result.colours,
            memory=result.memory,
            throughput=result.throughput,
            cost=result.cost,
            tiers=tuple(
                TierLoad(
                    name=tier.name,
                    links=tier.links,
                    bandwidth=tier.bandwidth,
                    mean=tier.mean,
                    highest=tier.hottest.utilization,
                    hottest=tier.hottest.name,
                    bytes_by_label=tier.hottest.bytes_by_label,
                )
                for tier in tier_shares(result)[:_MOST_TIERS]
            ),
        )


@frozen(eq=False)
class Failure:
    """A cell that has no result.

    Args:
        workload: Name in the experiment.
        fabric: Name in the experiment.
        reason: Why, as an error says it.
        infeasible: Whether the two do not fit each other: memory, divisibility, an algorithm that refuses. Otherwise a
            model or a plugin failed.
        key: The key of the experiment that it is about, if it is about one.
        accepted: What would fit, if that is known.
        workload_template: Name of the workload's table in the experiment; differs from ``workload`` in a sweep.
        workload_settings: The swept fields of the workload, as written.
        fabric_template: Name of the fabric's table in the experiment, likewise.
        fabric_settings: The swept fields of the fabric, as written.
        place: How many rows of the comparison come before it.
    """

    workload: str
    fabric: str
    reason: str
    infeasible: bool
    key: str | None = None
    accepted: str | None = None
    workload_template: str = field(default=Factory(lambda self: self.workload, takes_self=True))
    workload_settings: dict[str, Any] = field(factory=dict)
    fabric_template: str = field(default=Factory(lambda self: self.fabric, takes_self=True))
    fabric_settings: dict[str, Any] = field(factory=dict)
    place: int = 0

    @property
    def status(self) -> str:
        """What it is, in a word, where rows with a result have a ``Status``."""
        return "infeasible" if self.infeasible else "failed"


@frozen
class Row:
    """One cell of a comparison: a workload on a fabric.

    Args:
        workload: Name in the experiment.
        fabric: Name in the experiment.
        baseline: The fabric that the speed-up is over.
        seconds: Iteration time.
        speedup: Over the baseline: how many times shorter the iteration is than that of ``baseline_workload`` on
            ``baseline``; ``None`` where that has no result.
        reference_speedup: The published value, or ``None``.
        reference_source: Where that was published, or ``None``.
        status: Where ``seconds`` and ``speedup`` come from.
        breakdown: Seconds by cause; they add up to ``seconds``.
        compute_scale: Factor between the compute times used and the roofline.
        npus: How many NPUs are in use.
        algorithms: What served each kind of request, for example ``{"mp all-reduce x3": "ring"}``.
        fidelity: How it was simulated.
        energy: Joules spent on links.
        figures: What the fabric's admission counted, for example wavelengths used.
        notes: What a reader must know.
        work: What the iteration trains, or ``None`` where the workload does not say.
        throughput: How much that is for its time.
        baseline_workload: The workload that the speed-up is over; the row's own by default.
        workload_template: Name of the workload's table in the experiment; differs from ``workload`` in a sweep.
        workload_settings: The swept fields of the workload, as written.
        fabric_template: Name of the fabric's table in the experiment, likewise.
        fabric_settings: The swept fields of the fabric, as written.
        omissions: Those of the notes that say what the workload leaves out.
        colours: Of the labels that the workload declares, in their order; empty for one that is free.
        memory: Bytes one NPU needs, by what they hold (may be empty).
        cost: Dollars of the network, if they are known.
        tiers: What its busiest tiers carried, the one with the hottest link first.
    """

    workload: str
    fabric: str
    baseline: str
    seconds: float
    speedup: float | None
    reference_speedup: float | None
    reference_source: str | None
    status: Status
    breakdown: dict[str, float]
    npus: int
    algorithms: dict[str, str] = field(factory=dict)
    compute_scale: float = 1.0
    fidelity: str = "compressed"
    energy: float = 0.0
    figures: dict[str, float] = field(factory=dict)
    notes: tuple[str, ...] = ()
    work: Work | None = None
    throughput: Throughput = Throughput()
    baseline_workload: str = field(default=Factory(lambda self: self.workload, takes_self=True))
    workload_template: str = field(default=Factory(lambda self: self.workload, takes_self=True))
    workload_settings: dict[str, Any] = field(factory=dict)
    fabric_template: str = field(default=Factory(lambda self: self.fabric, takes_self=True))
    fabric_settings: dict[str, Any] = field(factory=dict)
    omissions: tuple[str, ...] = ()
    colours: dict[str, str] = field(factory=dict)
    memory: dict[str, float] = field(factory=dict)
    cost: float | None = None
    tiers: tuple[TierLoad, ...] = ()


@frozen
class SavingGroup:
    """The mean of 1 - T_of / T_over over some pairs of cells.

    Args:
        at: The values of the swept fields that make the group, as written.
        saving: The mean, a share of the time; below 0 where more time is needed.
        lowest: The least saving of all pairs.
        highest: The largest one.
        pairs: How many there are.
        reference: The published value, or ``None``.
        reference_source: Where that was published, or ``None``.
    """

    at: dict[str, Any]
    saving: float
    lowest: float
    highest: float
    pairs: int
    reference: float | None = None
    reference_source: str | None = None


@frozen
class SavingClaim:
    """A published saving whose author does not say for which group.

    Args:
        saving: The published value.
        source: Where it was published.
        between: Of a saving by one field: the neighbouring values between which the mean passes the published one.
    """

    saving: float
    source: str
    between: tuple[tuple[Any, Any], ...] = ()


@frozen
class Saving:
    """The time that some fabrics save over others.

    Args:
        name: From the experiment.
        of: Name or template of the fabrics that save time.
        over: Name or template of those they are compared with.
        workloads: The names of the workloads.
        part: The label whose exposed time is compared; ``None`` for the whole iteration.
        by: The swept fields that make groups: none, one or two.
        groups: In the order of the experiment.
        claims: Published values that are of no group.
    """

    name: str
    of: str
    over: str
    workloads: tuple[str, ...]
    part: str | None
    by: tuple[str, ...]
    groups: tuple[SavingGroup, ...]
    claims: tuple[SavingClaim, ...] = ()


@frozen
class Effect:
    """What one parameter does to the time of one cell.

    Args:
        workload: Name in the experiment, or the pattern of a collective.
        fabric: Name of the fabric.
        parameter: What was changed.
        seconds: The time as it is.
        less: The time with less of the parameter.
        more: The time with more of it.
        exponent: d ln(time) / d ln(parameter) between the two: -1 where all of the time is inversely proportional to a
            bandwidth, 1 where it is proportional to a latency, 0 where the parameter does not matter.
    """

    workload: str
    fabric: str
    parameter: str
    seconds: float
    less: float
    more: float
    exponent: float


@frozen
class Interval:
    """Between which values a speed-up is when any one parameter is changed.

    Args:
        workload: Name in the experiment.
        fabric: Name in the experiment.
        speedup: As it is.
        low: The least.
        high: The largest.
        low_by: What was changed then; empty for nothing.
        high_by: Likewise.
    """

    workload: str
    fabric: str
    speedup: float
    low: float
    high: float
    low_by: str
    high_by: str


@frozen
class Flip:
    """Two fabrics that change places.

    Args:
        workload: Name in the experiment.
        faster: The faster fabric, as it is.
        slower: The slower one.
        causes: What makes the slower one the faster.
    """

    workload: str
    faster: str
    slower: str
    causes: tuple[str, ...]


@frozen
class Sensitivity:
    """How far a comparison may be off if machines are.

    Args:
        share: Of each parameter that was taken away and added, one at a time.
        effects: By cell, the largest first.
        intervals: By cell.
        flips: Where a ranking changes.
    """

    share: float
    effects: tuple[Effect, ...]
    intervals: tuple[Interval, ...]
    flips: tuple[Flip, ...]


@frozen(eq=False)
class Comparison:
    """The matrix of an experiment file.

    Args:
        title: From the experiment.
        baseline: Fabric that speed-ups refer to where a row names no other, as written.
        rows: One per workload and fabric, workload by workload.
        savings: What is compared over many cells.
        provenance: The resolved experiment, plugin names and versions, fidelity; JSON-ready.
        statistics: Counters of the engine over all runs.
        fidelity_difference: Largest relative difference between the iteration times of the rows and the compressed
            ones, where both were run, else ``None``.
        missing: The cells (workload, fabric) that an interrupt left out; then savings that need them are left out too.
        sensitivity: How far it may be off, if that was asked for.
        failures: The cells that have no result, in the order of the experiment.
    """

    title: str
    baseline: str
    rows: tuple[Row, ...]
    savings: tuple[Saving, ...] = ()
    provenance: dict[str, Any] = field(factory=dict)
    statistics: dict[str, int] = field(factory=dict)
    fidelity_difference: float | None = None
    missing: tuple[tuple[str, str], ...] = ()
    sensitivity: Sensitivity | None = None
    failures: tuple[Failure, ...] = ()

    def to_json(self) -> str:
        """Return the whole comparison as JSON text: title, rows, savings, provenance and all else."""
        missing = [{"workload": workload, "fabric": fabric} for workload, fabric in self.missing]
        return document("comparison", {**asdict(self), "missing": missing})
