"""Predicts points of all kinds: each kind has a predictor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fredfw.errors import InputError
from fredfw.experiment.progress import Progress
from fredfw.plugin.manager import PluginManager
from fredfw.validation.collectives import Collectives
from fredfw.validation.points import CollectivePoint, Point
from fredfw.validation.results import Prediction, Validation
from fredfw.validation.splits import part_of

TRANSPORT = "ideal"


class Predictor(Protocol):
    """Predicts points of one kind."""

    def check(self, point: Any) -> None:
        """Make sure that ``point`` can be predicted, without predicting it; raises ``InputError``."""

    def seconds(self, point: Any) -> float:
        """Return how long ``point`` takes; equal points are worked out once."""


def predictors(plugins: PluginManager) -> Mapping[str, Predictor]:
    """Return a predictor for each kind of points."""
    return {CollectivePoint.kind: Collectives(plugins)}


def validate(points: Sequence[Point], plugins: PluginManager, *, progress: Progress | None = None) -> Validation:
    """Predict every one of ``points``.

    All points are checked before the first one is predicted.

    Args:
        points: What was measured.
        plugins: The topology, the algorithms.
        progress: Called with (points that are done, points, what is predicted) now and then.

    Raises:
        InputError: There are no points, or one does not fit its system.
        SimulationError: The model misbehaved.
    """
    if not points:
        raise InputError("there are no measured times to compare with", accepted="one or more")
    by_kind = predictors(plugins)
    for point in points:
        by_kind[point.kind].check(point)
    found = []
    for done, point in enumerate(points):
        if progress:
            progress(done, len(points), f"{point.pattern} on {point.system.title}")
        found.append(Prediction(point, by_kind[point.kind].seconds(point), part_of(point, TRANSPORT)))
    if progress:
        progress(len(points), len(points), "")
    return Validation(TRANSPORT, tuple(found))
