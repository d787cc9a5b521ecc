"""Every workload on every fabric: cells as they are kept, rows, savings, and all of them together."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from attrs import Factory, asdict, field, frozen

from fredfw.experiment.document import document
from fredfw.experiment.results.reasons import Sensitivity
from fredfw.experiment.results.runs import JobResult, RunResult, Spread, Throughput, shared
from fredfw.workloads import Work


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


@frozen(eq=False)
class Failure:
    """A cell that has no result; names, templates and settings are as in ``Row``.

    Args:
        reason: Why, as an error says it.
        infeasible: Whether the two do not fit each other; otherwise a model or a plugin failed.
        key: The key of the experiment that it is about, if it is about one.
        accepted: What would fit, if that is known.
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

    @property
    def told(self) -> str:
        """The reason with its key and what is accepted, on one line."""
        where = f"{self.key}: " if self.key else ""
        accepted = f" (accepted: {self.accepted})" if self.accepted else ""
        return f"{where}{' '.join(self.reason.split())}{accepted}"


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
        jobs: What became of each of several jobs, in the order of the experiment; none where it is a single workload.
        spread: The times of several runs, whose mean ``seconds`` is.
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
    fidelity: str = "exact"
    energy: float = 0.0
    figures: dict[str, float] = field(factory=dict)
    notes: tuple[str, ...] = ()
    work: Work | None = None
    throughput: Throughput = field(factory=Throughput)
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
    jobs: tuple[JobResult, ...] = ()
    spread: Spread | None = None


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
    """A published saving whose author does not say for which group.

    Of a saving by one field, ``between`` has the neighbouring values between which the mean passes the published one.
    """

    saving: float
    source: str
    between: tuple[tuple[Any, Any], ...] = ()


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
    """The matrix of an experiment file.

    Args:
        title: From the experiment.
        baseline: Fabric that speed-ups refer to where a row names no other, as written.
        rows: One per workload and fabric, workload by workload.
        savings: What is compared over many cells.
        provenance: The resolved experiment, plugin names and versions, fidelity; JSON-ready.
        statistics: Counters of the engine over all runs.
        approximated: Why the cells are not ``exact``, where nobody has asked for that; empty otherwise.
        missing: The cells (workload, fabric) that an interrupt left out; then savings that need them are left out too.
        sensitivity: How far it may be off, if that was asked for.
        failures: The cells that have no result, in the order of the experiment.
        stored: How many cells came from a store. It differs between runs, so it is not part of the JSON.
    """

    title: str
    baseline: str
    rows: tuple[Row, ...]
    savings: tuple[Saving, ...] = ()
    provenance: dict[str, Any] = field(factory=dict)
    statistics: dict[str, int] = field(factory=dict)
    approximated: str = ""
    missing: tuple[tuple[str, str], ...] = ()
    sensitivity: Sensitivity | None = None
    failures: tuple[Failure, ...] = ()
    stored: int = 0

    def to_json(self) -> str:
        """Return the whole comparison as JSON text: title, rows, savings, provenance and all else."""
        missing = [{"workload": workload, "fabric": fabric} for workload, fabric in self.missing]
        content = {**asdict(self), "missing": missing}
        del content["stored"]
        return document("comparison", content)
