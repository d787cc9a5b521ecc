"""What a validation found: tables, pictures, and a page of both."""

from collections.abc import Iterable, Sequence

from fredfw.experiment.results import Status
from fredfw.fabric import IdealTransport
from fredfw.fidelities import ESTIMATE
from fredfw.report.comparison import MEANINGS as STATUSES
from fredfw.report.pages import MOST_DOTS, again
from fredfw.report.pictures import Axis, Curves, Dot, Dots, Series, coloured
from fredfw.report.shown import GAP, Heading, Line, Page, Part, Section, Table, notes_of
from fredfw.validation.points import CollectivePoint, packaged, pattern_of
from fredfw.validation.results import STATUS, Group, Prediction, Validation, grouped
from fredfw.validation.sources import SOURCES

_MOST_RINGS = 200  # of a pattern
_KEYS = "system", "operation", "sizes", "status"
_ERRORS = "points", "ratio", "error %", "P90 %", "worst %", "mean %", "pooled %", "ideal %"
MEANINGS = {
    Status.SIMULATED: "nothing was fitted",
    Status.CALIBRATED: "constants were fitted to these points",
    Status.PREDICTED: "held out: follows from constants fitted to other points",
}
_EXPLANATIONS = (
    "ratio: median of predicted / measured; below 1 the prediction is too fast",
    "error: geometric mean, exp(mean |ln(predicted / measured)|) - 1; P90: of nine in ten points",
    "mean: absolute error, mean |predicted / measured - 1|",
    "pooled: error of the median of all measurements of the same thing, which no model can be below",
)
_ESTIMATED = "iterations are estimated by their longest path, not simulated"
_Row = tuple[tuple[str, ...], Group]
_IDEAL = "ideal: error of the transport ideal, which costs nothing but the bandwidth and the latency of links"


def validation_report(validation: Validation) -> list[Part]:
    only_ideal = validation.transport == IdealTransport.name
    errors = _ERRORS[:-1] if only_ideal else _ERRORS
    rows: list[_Row] = [
        ((one.system, one.pattern, one.sizes, str(STATUS[one.part])), one) for one in validation.groups()
    ]
    title = f"Predicted against measured times, transport {validation.transport}"
    report: list[Part] = [Heading(title), GAP, _table(_KEYS, errors, rows)]
    for by in dict.fromkeys(one.by for one in validation.left_out):
        listed = [(one.name, validation.groups_of(them)) for one, them in validation.left_out.items() if one.by == by]
        rows = [((name, group.system, group.pattern), group) for name, found in listed for group in found]
        title = f"Predictions of a {by} by a fit without it"
        report += [GAP, Heading(title), GAP, _table(("without", *_KEYS[:2]), errors, rows)]
    return [
        *report,
        GAP,
        *(Line(f"{status}: {meaning}") for status, meaning in _meanings(validation)),
        *map(Line, _EXPLANATIONS),
        *([] if only_ideal else [Line(_IDEAL)]),
        *([Line(_ESTIMATED)] if validation.fidelity == ESTIMATE else []),
        *([Line(validation.approximated)] if validation.approximated else []),
        *([Line(f"no validation data: {', '.join(validation.unvalidated)}")] if validation.unvalidated else []),
        *notes_of(validation.notes),
        *(
            Line(f"{Status.MEASURED} by {name}: {cite}" if cite else f"{Status.MEASURED}: {name}")
            for name, cite in _cited(validation)
        ),
    ]


def points_report(validation: Validation) -> list[Part]:
    header = "system", "operation", "nodes", "ranks", "of", "status", "measured (us)", "predicted (us)", "error %"
    rows = []
    for one in validation.predictions:
        point = one.point
        names = point.system.title, point.pattern, str(point.nodes), str(point.ranks), point.of, str(one.status)
        times = f"{point.seconds * 1e6:.6g}", f"{one.seconds * 1e6:.6g}"
        rows.append((*names, *times, f"{100 * (one.seconds / point.seconds - 1):+.1f}"))
    return [Heading("Points"), GAP, Table(header, rows, right=(2, 3, 4, 6, 7, 8), keys=6), GAP]


def _table(keys: Sequence[str], errors: Sequence[str], rows: Iterable[_Row]) -> Table:
    cells = []
    for names, one in rows:
        score = one.score
        shares = map(percent, (score.error, score.p90, score.worst, score.absolute, one.pooled, one.ideal))
        cells.append((*names, *[str(score.points), f"{score.ratio:.3g}", *shares][: len(errors)]))
    header = (*keys, *errors)
    return Table(header, cells, right=range(len(keys), len(header)), keys=len(keys))


def percent(share: float) -> str:
    return f"{100 * share:.1f}" if share < 1 else f"{100 * share:.0f}"


def validation_page(validation: Validation, command: str) -> Page:
    _, *report = validation_report(validation)  # without the title
    predictions = validation.predictions
    meanings = [(str(Status.MEASURED), STATUSES[Status.MEASURED]), *_meanings(validation)]
    cited = _cited(validation)
    transports = [(system, _written(chosen)) for system, chosen in validation.transports.items()]
    return Page(
        "Predicted against measured times",
        [f"{len(validation.predictions)} measured times; transport {validation.transport}."],
        [
            Section("results", "Errors", report),
            Section("pictures", "Predicted and measured", [*_against(predictions), *_bandwidths(predictions)]),
            Section("assumptions", "Statuses", [Table(("status", "meaning"), meanings)]),
            Section("references", "References", [Table(("source", "cite"), cited)] if cited else []),
            Section("provenance", "Models", [Table(("system", "transport"), transports)] if transports else []),
            again(command),
        ],
    )


def _meanings(validation: Validation) -> list[tuple[str, str]]:
    found = {one.status for one in validation.predictions}
    return [(str(status), meaning) for status, meaning in MEANINGS.items() if status in found]


def _cited(validation: Validation) -> list[tuple[str, str]]:
    known = packaged(SOURCES)
    names = dict.fromkeys(one.point.source for one in validation.predictions)
    return [(name, known[name]["cite"] if name in known else "") for name in names]


def _against(predictions: Sequence[Prediction]) -> list[Part]:
    """Return predicted over measured times of each system and status: fitted points and others are never mixed."""
    across, up = (Axis(name, "s", log=True) for name in ("measured", "predicted"))
    found: list[Part] = []
    for system, status in dict.fromkeys((one.point.system.title, one.status) for one in predictions):
        mine = [one for one in predictions if (one.point.system.title, one.status) == (system, status)]
        colours = coloured(one.point.pattern for one in mine)
        step = -(-len(mine) // MOST_DOTS)
        dots = [
            Dot(
                one.point.seconds,
                one.seconds,
                f"{one.point.pattern}: measured {across.text(one.point.seconds)}, predicted {up.text(one.seconds)}",
                colours[one.point.pattern],
            )
            for one in mine[::step]
        ]
        more = f"; one point of {step}" if step > 1 else ""
        found.append(
            Dots(f"{system}, {status}; dashed: equal{more}", across, up, dots, [*colours.items()], diagonal=True)
        )
    return found


def _bandwidths(predictions: Sequence[Prediction]) -> list[Part]:
    """Return bus bandwidth over size on each system, among the most ranks that were measured there."""
    timed = [(one.point, one.seconds) for one in predictions if isinstance(one.point, CollectivePoint)]
    found: list[Part] = []
    for title, listed in grouped(timed, lambda one: one[0].system.title).items():
        ranks = max(point.ranks for point, _ in listed)
        series = []
        widest = [one for one in listed if one[0].ranks == ranks]
        for pattern, points in grouped(widest, lambda one: one[0].pattern).items():
            factor = pattern_of(pattern).bus_factor(ranks) / 1e9
            measured = [(point.size, factor * point.size / point.seconds) for point, _ in points]
            predicted = {point.size: factor * point.size / seconds for point, seconds in points}
            series.append(
                Series(pattern, sorted(predicted.items()), measured=measured[:: -(-len(measured) // _MOST_RINGS)])
            )
        axes = Axis("size", "B", log=True), Axis("busbw (GB/s)", log=True)
        found.append(Curves(f"{title}, {ranks} ranks: busbw", *axes, series))
    return found


def _written(chosen: object) -> str:
    return ", ".join(f"{key} {value}" for key, value in chosen.items()) if isinstance(chosen, dict) else str(chosen)
