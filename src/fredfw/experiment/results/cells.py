"""What is kept of an iteration that was simulated, or could not be."""

from __future__ import annotations

from typing import Any

from attrs import Factory, field, frozen

from fredfw.experiment.results.jobs import JobResult, Throughput
from fredfw.experiment.results.runs import RunResult, shared
from fredfw.experiment.results.spread import Spread
from fredfw.workloads import Work


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
        injection_bandwidth: Bytes per second that an NPU in use can send to others, mean over them.
        work: What the iteration trains, or ``None`` where that is not known.
        omissions: Those of the notes that say what the workload leaves out.
        colours: Of the labels that the workload declares, in their order; empty for one that is free.
        memory: Bytes one NPU needs, by what they hold (may be empty).
        throughput: How much the iteration trains for its time.
        cost: Dollars of the network, if they are known.
        tiers: What its busiest tiers carried, the one with the hottest link first.
        jobs: What became of each of several jobs, in the order of the experiment; none where it is a single workload.
        spread: The times of several runs, whose mean ``seconds`` is.
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

    @property
    def told(self) -> str:
        """The reason with its key and what is accepted, on one line."""
        where = f"{self.key}: " if self.key else ""
        accepted = f" (accepted: {self.accepted})" if self.accepted else ""
        return f"{where}{' '.join(self.reason.split())}{accepted}"
