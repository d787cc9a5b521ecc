"""What a validation found: every point with its prediction, and scores of groups of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from attrs import field, frozen

from fredfw.experiment.document import document
from fredfw.experiment.results import Status
from fredfw.fidelities import EXACT
from fredfw.validation.points import Fold, Part, Point, size_classes, systems

if TYPE_CHECKING:
    from fredfw.report.shown import Page

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
ALL = "all"
STATUS = {Part.FITTED: Status.CALIBRATED, Part.HELD_OUT: Status.PREDICTED, Part.UNFITTED: Status.SIMULATED}


@frozen
class Score:
    """Errors of predicted times; an error ``e`` is a factor of ``1 + e`` too long or too short."""

    points: int
    ratio: float  # median of predicted / measured
    error: float  # geometric mean error, ``exp(mean(|ln(predicted / measured)|)) - 1``
    p90: float  # the error that nine of ten points do not exceed
    worst: float
    absolute: float  # mean absolute error, ``mean(|predicted / measured - 1|)``

    @classmethod
    def of(cls, measured: Sequence[float], predicted: Sequence[float]) -> Score:
        ratios = np.asarray(predicted) / np.asarray(measured)
        errors = np.abs(np.log(ratios))
        ratio, absolute = np.median(ratios), np.abs(ratios - 1).mean()
        error, p90, worst = np.expm1([errors.mean(), np.quantile(errors, 0.9), errors.max()])
        return cls(len(ratios), float(ratio), float(error), float(p90), float(worst), float(absolute))


@frozen
class Prediction:
    """A measured time, and the ``seconds`` that a model and ``ideal`` say; ``part`` is what it is to the model."""

    point: Point
    seconds: float
    ideal: float
    part: Part

    @property
    def status(self) -> Status:
        return STATUS[self.part]

    def facts(self) -> dict[str, Any]:
        return {
            **self.point.facts(),
            "measured": self.point.seconds,
            "predicted": self.seconds,
            "ideal": self.ideal,
            "part": str(self.part),
            "status": str(self.status),
        }


@frozen
class Group:
    """The score of points that belong together."""

    system: str
    pattern: str
    sizes: str  # a class of sizes, or ``all``
    part: Part
    score: Score
    ideal: float  # geometric mean error of ``ideal``
    pooled: float  # geometric mean error of the median of all measurements of the same thing


@frozen
class Validation:
    """Points with their predictions."""

    transports: Mapping[str, Mapping[str, Any]]  # name and fields of what predicts each system, by system
    predictions: tuple[Prediction, ...]
    left_out: Mapping[Fold, tuple[Prediction, ...]] = field(factory=dict)  # of fits without a system or a source
    unvalidated: tuple[str, ...] = ()  # presets of machines that nothing was measured on
    fidelity: str = EXACT  # how closely iterations of training were simulated
    approximated: str = ""  # why that is not ``exact``, where nobody has asked for it; empty otherwise

    @property
    def transport(self) -> str:
        return ", ".join(dict.fromkeys(one["name"] for one in self.transports.values()))

    @property
    def notes(self) -> tuple[str, ...]:
        differ = dict.fromkeys((one.point.source, one.point.stated, one.point.system) for one in self.predictions)
        return tuple(
            f"{source} says that it was measured on {stated}, not on {system.name}, which is simulated"
            for source, stated, system in differ
            if stated
        )

    def groups(self) -> list[Group]:
        """Return the scores by system, pattern, class of sizes and part; of all sizes where there are several."""
        return _groups(self.predictions, self._medians)

    def groups_of(self, left_out: Iterable[Prediction]) -> list[Group]:
        return _groups(left_out, self._medians, by_size=False)

    @property
    def _medians(self) -> Mapping[tuple[Any, ...], float]:
        return pooled(one.point for one in self.predictions)

    def page(self, command: str = "") -> Page:
        from fredfw.validation.report import validation_page  # which needs what is here

        return validation_page(self, command)

    def to_json(self) -> str:
        return document(
            "validation",
            {
                "transports": self.transports,
                "fidelity": self.fidelity,
                "approximated": self.approximated,
                "points": [one.facts() for one in self.predictions],
                "scores": self.groups(),
                "left_out": [
                    {
                        "by": fold.by,
                        "name": fold.name,
                        "points": [one.facts() for one in predictions],
                        "scores": self.groups_of(predictions),
                    }
                    for fold, predictions in self.left_out.items()
                ],
                "notes": self.notes,
                "no_validation_data": self.unvalidated,
            },
        )


def pooled(points: Iterable[Point]) -> Mapping[tuple[Any, ...], float]:
    """Return the median of all measured times of the same thing, by ``Point.same``, which no model can be nearer to."""
    return {same: median(one.seconds for one in equal) for same, equal in grouped(points, lambda one: one.same).items()}


def _groups(
    predictions: Iterable[Prediction], medians: Mapping[tuple[Any, ...], float], *, by_size: bool = True
) -> list[Group]:
    order = {name: place for place, name in enumerate(systems())}
    # Systems in their order, then others, and operations by name.
    ordered = sorted(predictions, key=lambda one: (order.get(one.point.system.name, len(order)), one.point.pattern))
    found = []
    by_title = grouped(ordered, lambda one: (one.point.system.title, one.point.pattern))
    for (system, pattern), together in by_title.items():
        classes = size_classes(one.point for one in together) if by_size else [ALL]
        for sizes in [*classes, *([ALL] if len(classes) > 1 else [])]:
            among = [one for one in together if sizes in (ALL, one.point.size_class)]
            for part, chosen in ((part, [one for one in among if one.part is part]) for part in Part):
                if chosen:
                    times = [(one.seconds, one.ideal, medians[one.point.same]) for one in chosen]
                    measured = [one.point.seconds for one in chosen]
                    score, ideal, middle = (Score.of(measured, seconds) for seconds in zip(*times, strict=True))
                    found.append(Group(system, pattern, sizes, part, score, ideal.error, middle.error))
    return found


def grouped(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    found: dict[K, list[V]] = {}
    for value in values:
        found.setdefault(key(value), []).append(value)
    return found
