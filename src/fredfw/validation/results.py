"""What a validation found: every point with its prediction, and scores of groups of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import asdict, frozen

from fredfw.experiment.document import document
from fredfw.experiment.results import Status
from fredfw.fidelities import EXACT
from fredfw.validation.points import Point, size_classes
from fredfw.validation.scores import Score, pooled
from fredfw.validation.splits import Part
from fredfw.validation.systems import known

if TYPE_CHECKING:
    from fredfw.report.shown import Page

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
ALL = "all"
STATUS = {Part.FITTED: Status.CALIBRATED, Part.HELD_OUT: Status.PREDICTED, Part.UNFITTED: Status.SIMULATED}


@frozen
class Prediction:
    """A measured time, and what a model says of it.

    Args:
        point: What was measured.
        seconds: What the model says.
        ideal: What ``ideal`` says.
        part: Whether the model was fitted to it.
    """

    point: Point
    seconds: float
    ideal: float
    part: Part

    @property
    def status(self) -> Status:
        """Where the predicted time comes from."""
        return STATUS[self.part]

    def facts(self) -> dict[str, Any]:
        """Return it JSON-ready; times are seconds."""
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
    """The score of points that belong together.

    Args:
        system: Title of the system.
        pattern: What ran.
        sizes: A class of sizes, or ``all``.
        part: Whether the model was fitted to them.
        score: Of the model.
        ideal: Geometric mean error of ``ideal``.
        pooled: Geometric mean error of the median of all measurements of the same thing.
    """

    system: str
    pattern: str
    sizes: str
    part: Part
    score: Score
    ideal: float
    pooled: float


@frozen
class LeftOut:
    """What a fit without a system, or without a source, predicts of it.

    Args:
        by: ``system`` or ``source``.
        name: Which one.
        predictions: One for each point.
    """

    by: str
    name: str
    predictions: tuple[Prediction, ...]


@frozen
class Validation:
    """Points with their predictions.

    Args:
        transports: Name and fields of the transport that predicts each system, by system; for other points than
            collectives by system and kind.
        predictions: One for each point.
        left_out: What fits without some measurements predict of them.
        unvalidated: Presets of machines that nothing was measured on.
        fidelity: How closely iterations of training were simulated.
        approximated: Why that is not ``exact``, where nobody has asked for it; empty otherwise.
    """

    transports: Mapping[str, Mapping[str, Any]]
    predictions: tuple[Prediction, ...]
    left_out: tuple[LeftOut, ...] = ()
    unvalidated: tuple[str, ...] = ()
    fidelity: str = EXACT
    approximated: str = ""

    @property
    def transport(self) -> str:
        """The names of all transports."""
        return ", ".join(dict.fromkeys(one["name"] for one in self.transports.values()))

    @property
    def notes(self) -> tuple[str, ...]:
        """Where a table says that it is of another system than the user does."""
        differ = dict.fromkeys((one.point.source, one.point.stated, one.point.system) for one in self.predictions)
        return tuple(
            f"{source} says that it was measured on {stated}, not on {system.name}, which is simulated"
            for source, stated, system in differ
            if stated
        )

    def groups(self) -> list[Group]:
        """Return the scores by system, pattern, class of sizes and part; of all sizes where there are several."""
        return _groups(self.predictions, self._medians)

    def groups_of(self, left_out: LeftOut) -> list[Group]:
        """Return the scores of what was left out, of all sizes together."""
        return _groups(left_out.predictions, self._medians, by_size=False)

    @property
    def _medians(self) -> Mapping[tuple[Any, ...], float]:
        return pooled(one.point for one in self.predictions)

    def page(self, command: str = "") -> Page:
        """Return its page of a report; ``command`` makes it again."""
        from fredfw.validation.report import validation_page  # which needs what is here

        return validation_page(self, command)

    def to_json(self) -> str:
        """Return points and scores as a JSON document; times are seconds, errors are shares."""
        return document(
            "validation",
            {
                "transports": self.transports,
                "fidelity": self.fidelity,
                "approximated": self.approximated,
                "points": [one.facts() for one in self.predictions],
                "scores": [asdict(one) for one in self.groups()],
                "left_out": [
                    {
                        "by": one.by,
                        "name": one.name,
                        "points": [prediction.facts() for prediction in one.predictions],
                        "scores": [asdict(group) for group in self.groups_of(one)],
                    }
                    for one in self.left_out
                ],
                "notes": self.notes,
                "no_validation_data": self.unvalidated,
            },
        )


def _groups(
    predictions: Iterable[Prediction], medians: Mapping[tuple[Any, ...], float], *, by_size: bool = True
) -> list[Group]:
    """Return the scores of ``predictions`` as ``Validation.groups`` does, or those of all sizes alone."""
    order = list(known())
    ordered = sorted(predictions, key=lambda one: _place(one.point, order))
    found = []
    for (system, pattern), together in _by(ordered, lambda one: (one.point.system.title, one.point.pattern)).items():
        classes = size_classes(one.point for one in together) if by_size else [ALL]
        for sizes in [*classes, *([ALL] if len(classes) > 1 else [])]:
            among = [one for one in together if sizes in (ALL, one.point.size_class)]
            for part in Part:
                chosen = [one for one in among if one.part is part]
                if not chosen:
                    continue
                measured = [one.point.seconds for one in chosen]
                score, ideal, median = (
                    Score.of(measured, seconds)
                    for seconds in (
                        [one.seconds for one in chosen],
                        [one.ideal for one in chosen],
                        [medians[one.point.same] for one in chosen],
                    )
                )
                found.append(Group(system, pattern, sizes, part, score, ideal.error, median.error))
    return found


def _place(point: Point, order: Sequence[str]) -> tuple[int, str]:
    """Return where ``point`` is in a table: systems in their ``order``, then others, and operations by name."""
    name = point.system.name
    return order.index(name) if name in order else len(order), point.pattern


def _by(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    found: dict[K, list[V]] = {}
    for value in values:
        found.setdefault(key(value), []).append(value)
    return found
