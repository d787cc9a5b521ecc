"""What every picture has in common: it needs matplotlib, and equal results give equal files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from attrs import frozen

from fredfw.errors import InputError
from fredfw.experiment.naming import as_written
from fredfw.units import Unit, parse

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")

# Points: as small as the small print of a paper at the width of its column, not smaller.
SMALL, TITLE = 6.5, 8
FONTS: dict[Any, Any] = {"font.size": 7, "axes.titlesize": 7, "axes.linewidth": 0.6, "hatch.linewidth": 0.5}
TITLE_LETTERS = 52  # in a line of a column's width

_DECADE = 10.0
_ONE_FACTOR = 1.01  # how far apart two factors may be that count as one


@frozen(eq=False)
class Scale:
    """Where the values of a swept field stand on an axis.

    Args:
        numbers: By the value as written: numbers, or quantities in the SI unit of one dimension.
        log: Whether they are all positive, and span a decade or more or grow by one factor, such as 1, 2, 4, 8.
    """

    numbers: dict[str, float]
    log: bool


def scale_of(values: Iterable[Any]) -> Scale | None:
    """Return the scale of ``values``; ``None`` where they are not all numbers, or all quantities of one dimension."""
    found = {as_written(value): _number(value) for value in values}
    known = [one for one in found.values() if one is not None]
    numbers = {text: one[0] for text, one in found.items() if one is not None}
    if not known or len(known) < len(found) or len({unit for _, unit in known}) > 1:
        return None
    if len(set(numbers.values())) < len(numbers):
        return None
    ordered = sorted(numbers.values())
    return Scale(numbers, ordered[0] > 0 and (ordered[-1] >= _DECADE * ordered[0] or _geometric(ordered)))


def _geometric(ordered: Sequence[float]) -> bool:
    factors = [after / before for before, after in pairwise(ordered)]
    return len(factors) > 1 and max(factors) <= _ONE_FACTOR * min(factors)


def _number(value: Any) -> tuple[float, Unit | None] | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), None
    if isinstance(value, str):
        for unit in Unit:
            try:
                return parse(value, unit), unit
            except InputError:
                continue
    return None


@contextmanager
def importing(option: str, what: str = "a picture", package: str = "matplotlib", extra: str = "plot") -> Iterator[None]:
    """Turn a missing ``package`` into an ``InputError`` that says how to get it.

    Args:
        option: Key of the error.
        what: Needs it.
        package: What may be missing.
        extra: Of fredfw, that has it.
    """
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{what} needs {package} ({error})", key=option, accepted=f"pip install 'fredfw[{extra}]'"
        ) from error


def drawn(figure: Figure, file_format: str) -> bytes:
    """Return ``figure`` in ``file_format``, one of ``FORMATS``."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    # Without dates, versions and random ids the same results give the same file.
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
    with rc_context({"svg.hashsalt": "fredfw", **FONTS}):
        figure.savefig(buffer, format=file_format, dpi=200, metadata=metadata)
    return buffer.getvalue()
