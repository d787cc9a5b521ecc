"""What a validation found: every point with its prediction, and scores of groups of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from attrs import asdict, frozen

from fredfw.experiment.document import document
from fredfw.experiment.results import Status
from fredfw.validation.points import Point, size_classes
from fredfw.validation.scores import Score, pooled
from fredfw.validation.splits import Part
from fredfw.validation.systems import known

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
ALL = "all"
_STATUS = {Part.FITTED: Status.CALIBRATED, Part.HELD_OUT: Status.PREDICTED, Part.UNFITTED: Status.SIMULATED}


@frozen
class Prediction:
    """A measured time, and what a model says of it.

    Args:
        point: What was measured.
        seconds: What the model says.
        part: Whether the model was fitted to it.
    """

    point: Point
    seconds: float
    part: Part

    @property
    def status(self) -> Status:
        """Where the predicted time comes from."""
        return _STATUS[self.part]

    def facts(self) -> dict[str, Any]:
        """Return it JSON-ready; times are seconds."""
        return {
            **self.point.facts(),
            "measured": self.point.seconds,
            "predicted": self.seconds,
            "part": str(self.part),
            "status": str(self.status),
        }


@frozen
class Group:
    """The score of points that belong together.

    Args:
        system: Title of the system.
        pattern: What ran.
        sizes: A class of sizes, or ``all``.
        part: Whether the model was fitted to them.
        score: Of the model.
        pooled: Geometric mean error of the median of all measurements of the same thing.
    """

    system: str
    pattern: str
    sizes: str
    part: Part
    score: Score
    pooled: float


@frozen
class Validation:
    """Points with their predictions.

    Args:
        transport: Name of the model of communication.
        predictions: One for each point.
    """

    transport: str
    predictions: tuple[Prediction, ...]

    def groups(self) -> list[Group]:
        """Return the scores by system, pattern, class of sizes and part; of all sizes where there are several."""
        medians = pooled(one.point for one in self.predictions)
        order = list(known())
        ordered = sorted(self.predictions, key=lambda one: _place(one.point, order))
        groups = []
        operations = _by(ordered, lambda one: (one.point.system.title, one.point.pattern))
        for (system, pattern), together in operations.items():
            classes = size_classes(one.point for one in together)
            for sizes in [*classes, *([ALL] if len(classes) > 1 else [])]:
                among = [one for one in together if sizes in (ALL, one.point.size_class)]
                for part, chosen in _by(among, lambda one: one.part).items():
                    measured = [one.point.seconds for one in chosen]
                    others = Score.of(measured, [medians[one.point.same] for one in chosen])
                    score = Score.of(measured, [one.seconds for one in chosen])
                    groups.append(Group(system, pattern, sizes, part, score, others.error))
        return groups

    def to_json(self) -> str:
        """Return points and scores as a JSON document; times are seconds, errors are shares."""
        return document(
            "validation",
            {
                "transport": self.transport,
                "points": [one.facts() for one in self.predictions],
                "scores": [{**asdict(one, recurse=False), "score": asdict(one.score)} for one in self.groups()],
            },
        )


def _place(point: Point, order: Sequence[str]) -> tuple[int, str]:
    """Return where ``point`` is in a table: systems in their ``order``, then others, and operations by name."""
    name = point.system.name
    return order.index(name) if name in order else len(order), point.pattern


def _by(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    found: dict[K, list[V]] = {}
    for value in values:
        found.setdefault(key(value), []).append(value)
    return found
