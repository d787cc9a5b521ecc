"""What a validation found, as a page of a report."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw.experiment.results import Status
from fredfw.report.comparison import MEANINGS as STATUSES
from fredfw.report.pages import again
from fredfw.report.pictures import Axis, Dot, Dots, line_colour
from fredfw.report.shown import Page, Part, Section, Table
from fredfw.validation import sources
from fredfw.validation.report import MEANINGS, validation_report
from fredfw.validation.results import Prediction, Validation

_MOST_DOTS = 1500  # of a picture, so that the file stays small


def validation_page(validation: Validation, command: str) -> Page:
    """Return the page of ``validation``, which ``command`` makes again."""
    _, *report = validation_report(validation)  # without the title
    known = sources.known()
    cited = [
        (name, known[name].cite if name in known else "")
        for name in dict.fromkeys(one.point.source for one in validation.predictions)
    ]
    found = {one.status for one in validation.predictions}
    meanings = [(str(Status.MEASURED), STATUSES[Status.MEASURED])]
    meanings += [(str(status), meaning) for status, meaning in MEANINGS.items() if status in found]
    transports = [(system, _written(chosen)) for system, chosen in validation.transports.items()]
    return Page(
        "Predicted against measured times",
        (f"{len(validation.predictions)} measured times; transport {validation.transport}.",),
        (
            Section("results", "Errors", report),
            Section("pictures", "Predicted over measured", _pictures(validation.predictions)),
            Section("assumptions", "Statuses", (Table(("status", "meaning"), meanings),)),
            Section("references", "References", (Table(("source", "cite"), cited),) if cited else ()),
            Section("provenance", "Models", (Table(("system", "transport"), transports),) if transports else ()),
            again(command),
        ),
    )


def _pictures(predictions: Sequence[Prediction]) -> list[Part]:
    """Return a picture of each system and status: fitted points and others are never mixed.

    A point below the line is predicted to be faster than it is.
    """
    across, up = (Axis(name, "s", log=True) for name in ("measured", "predicted"))
    found: list[Part] = []
    for system, status in dict.fromkeys((one.point.system.title, one.status) for one in predictions):
        mine = [one for one in predictions if (one.point.system.title, one.status) == (system, status)]
        patterns = list(dict.fromkeys(one.point.pattern for one in mine))
        step = -(-len(mine) // _MOST_DOTS)
        dots = [
            Dot(
                one.point.seconds,
                one.seconds,
                f"{one.point.pattern}: measured {across.text(one.point.seconds)}, predicted {up.text(one.seconds)}",
                line_colour(patterns.index(one.point.pattern)),
            )
            for one in mine[::step]
        ]
        legend = [(name, line_colour(number)) for number, name in enumerate(patterns)]
        more = f"; one point of {step}" if step > 1 else ""
        found.append(Dots(f"{system}, {status}; dashed: equal{more}", across, up, dots, legend, diagonal=True))
    return found


def _written(chosen: object) -> str:
    return ", ".join(f"{key} {value}" for key, value in chosen.items()) if isinstance(chosen, dict) else str(chosen)
