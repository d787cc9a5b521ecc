"""The result of a study: plain data for reports, JSON and embedding programs."""

from __future__ import annotations

from typing import Any

from attrs import asdict, field, frozen

from fredfw.experiment.document import document
from fredfw.experiment.results import TierLoad


@frozen
class Objective:
    """What a study looks for."""

    metric: str  #: Name of the metric.
    unit: str  #: Of its values.
    least: bool  #: Whether the least value is the best one; otherwise the largest is.


@frozen
class StudyPoint:
    """One configuration of one cell, as far as the study got with it."""

    number: int  #: In the space, from 0.
    workload: str  #: Name in the experiment.
    fabric: str  #: Name in the experiment.
    values: dict[str, Any]  #: What it sets, by the name of the dimension, as written.
    rung: str  #: How it was run last: a fidelity, or a rung of the study.
    final: bool = True  #: Whether that is the rung at which results are compared with each other.
    seconds: float | None = None  #: Iteration time; ``None`` where there is no result.
    metrics: dict[str, float] = field(factory=dict)  #: All that are known, by name.
    breakdown: dict[str, float] = field(factory=dict)  #: Seconds by cause; they add up to ``seconds``.
    memory: dict[str, float] = field(factory=dict)  #: Bytes that one NPU needs, by what they hold.
    #: 1 for the best of those at the final rung that keep the limits; with several objectives, 1 for all that no other
    #: one beats, 2 for those that only these beat. ``None`` for all others.
    rank: int | None = None
    reason: str = ""  #: Why there is no result, or which limit it breaks; empty otherwise.
    failed: bool = False  #: Whether a model or a plugin failed, where there is no result; otherwise it does not fit.
    estimated: bool = False  #: Whether the result is an estimate: nothing was simulated.
    tiers: tuple[TierLoad, ...] = ()  #: Its busiest, the one with the hottest link first; empty for an estimate.


@frozen
class RungCount:
    """What was run at one rung."""

    rung: str  #: A fidelity, or a rung of the study.
    cells: int  #: How many points were asked for.
    results: int  #: Of how many there is a result.
    events: int  #: Of the engine, over all results: what they cost, whatever the machine.
    errors: dict[str, RungError] = field(factory=dict)  #: By a later rung, how far its times are from those there.


@frozen
class RungError:
    """How far the times at one rung are from those at another, relative to the latter."""

    points: int  #: That have a result at both.
    median: float  #: Of the differences without their signs.
    largest: float  #: Of the differences, the one that is the farthest from 0, with its sign.


@frozen(eq=False, kw_only=True)
class StudyResult:
    """What a study found."""

    title: str  #: From the study.
    names: tuple[str, ...]  #: The dimensions of the space, in order.
    numeric: tuple[str, ...]  #: Those of them whose values are all numbers.
    objectives: tuple[Objective, ...]  #: One; or several, for a Pareto front.
    limits: dict[str, float]  #: The most, or for a metric where more is better the least, that is allowed of a metric.
    combinations: int  #: How many points there are without the constraints.
    size: int  #: How many points keep the constraints.
    points: tuple[StudyPoint, ...]  #: Those that were run, in the order of the space; each once, as it was run last.
    rungs: tuple[RungCount, ...]  #: What was run, in the order of the first cells.
    sampler: dict[str, Any]  #: The sampler and its fields.
    provenance: dict[str, Any] = field(factory=dict)  #: The resolved study, and the versions used; JSON-ready.
    complete: bool = True  #: Whether the sampler came to its end; an interrupt ends a study before.
    colours: dict[str, str] = field(factory=dict)  #: Of the labels that workloads declare; empty for one that is free.
    approximated: str = ""  #: Why points are not ``exact``, where nobody has asked for that; empty otherwise.
    stored: int = 0  #: How many results came from a store; not in the JSON, since it differs between runs.

    @property
    def best(self) -> tuple[StudyPoint, ...]:
        """The points with a rank, the best first; equal ones in the order of the space."""
        ranked = [(point.rank, point) for point in self.points if point.rank is not None]
        return tuple(point for _, point in sorted(ranked, key=lambda one: one[0]))

    @property
    def front(self) -> tuple[StudyPoint, ...]:
        """The points of rank 1: the best one, or with several objectives those that no other one beats."""
        return tuple(point for point in self.points if point.rank == 1)

    @property
    def without_result(self) -> tuple[StudyPoint, ...]:
        """The points that do not fit, or whose run failed; each has its reason."""
        return tuple(point for point in self.points if point.seconds is None)

    @property
    def failed(self) -> tuple[StudyPoint, ...]:
        """The points whose run failed."""
        return tuple(point for point in self.points if point.failed)

    def to_json(self) -> str:
        """Return the whole study as JSON text: all points, counts and provenance."""
        content = asdict(self)
        del content["stored"]
        return document("study", content)
