"""What a validation found, as tables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from fredfw.experiment.results import Status
from fredfw.report.layout import StackedTable
from fredfw.validation import sources
from fredfw.validation.results import Validation

_COLUMNS = ("system", "operation", "sizes", "status", "points", "ratio", "error %", "P90 %", "worst %", "pooled %")
_LEFT = 4
_MEANINGS = {
    Status.SIMULATED: "nothing was fitted",
    Status.CALIBRATED: "constants were fitted to these points",
    Status.PREDICTED: "held out: follows from constants fitted to other points",
}
_EXPLANATIONS = (
    "ratio: median of predicted / measured; below 1 the prediction is too fast",
    "error: geometric mean, exp(mean |ln(predicted / measured)|) - 1; P90: of nine in ten points",
    "pooled: error of the median of all measurements of the same thing, which no model can be below",
)


def validation_report(validation: Validation) -> list[RenderableType]:
    """Return scores by system, operation, sizes and status, and what they mean."""
    table = StackedTable(keys=_LEFT)
    for index, name in enumerate(_COLUMNS):
        table.add_column(name, no_wrap=True, justify="left" if index < _LEFT else "right")
    groups = validation.groups()
    statuses = {one.part: one.status for one in validation.predictions}
    for one in groups:
        score = one.score
        names = one.system, one.pattern, one.sizes, statuses[one.part]
        errors = map(percent, (score.error, score.p90, score.worst, one.pooled))
        table.add_row(*names, str(score.points), f"{score.ratio:.3g}", *errors)
    return [
        Text(f"Predicted against measured times, transport {validation.transport}", style="bold"),
        Text(),
        table,
        Text(),
        *(Text(f"{status}: {_MEANINGS[status]}") for status in _MEANINGS if status in statuses.values()),
        *map(Text, _EXPLANATIONS),
        *_cited(one.point.source for one in validation.predictions),
    ]


def percent(share: float) -> str:
    """Return ``share`` in per cent, with three digits or all before the point."""
    return f"{100 * share:.1f}" if share < 1 else f"{100 * share:.0f}"


def _cited(names: Iterable[str]) -> list[Text]:
    known = sources.known()
    return [
        Text(f"{Status.MEASURED} by {name}: {known[name].cite}" if name in known else f"{Status.MEASURED}: {name}")
        for name in dict.fromkeys(names)
    ]
