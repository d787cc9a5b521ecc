"""What is kept of an iteration that was simulated, or could not be."""

from __future__ import annotations

from typing import Any

from attrs import Factory, field, frozen

from fredfw.experiment.results.jobs import JobResult, Spread, Throughput
from fredfw.experiment.results.runs import RunResult, shared
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
