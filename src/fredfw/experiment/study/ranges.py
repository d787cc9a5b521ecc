"""What the values of a dimension may be written as: a list, a range, or divisors."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from attrs import frozen

from fredfw import limits
from fredfw.errors import InputError
from fredfw.experiment.naming import repeated
from fredfw.tables import as_choice, as_whole, check_keys

FORM = (
    "a list of values, { from = 1, to = 8, step = 1 }, with factor = 2 or count = 4 in place of step, "
    "or { divisors_of = 1024 }"
)
_RANGE = ("from", "to", "step", "factor", "count", "scale")
_DIVISORS = ("divisors_of", "at_least", "at_most")
KEYS = ("values", *_RANGE, *_DIVISORS)  # of a table that says which values there are

_WRITTEN = re.compile(r"\s*([+-]?[\d.]+(?:[eE][+-]?\d+)?)\s*(\D.*?)?\s*")
_MOST_DIVIDED = 10**12  # so that all of its divisors are found in a second
_DIGITS = 12


def values_of(given: object) -> tuple[Any, ...]:
    if isinstance(given, Mapping):
        given = _of_table(given)
    if not isinstance(given, list) or not given:
        raise InputError(f"{given!r} has no values", accepted=FORM)
    limits.check("cells", len(given))
    # 1, 1.0 and true are equal, and not the same value of a field.
    if found := repeated((type(one), repr(one)) for one in given):
        raise InputError(f"{given[found[0]]!r} is repeated", accepted="different values")
    return tuple(given)


def _of_table(table: Mapping[str, Any]) -> list[Any]:
    check_keys(table, KEYS, "")
    for keys, make in ((("values",), _listed), (_DIVISORS, _divisors)):
        if keys[0] in table:
            for key in table:
                if key not in keys:
                    raise InputError(f"has no part in {keys[0]}", key=key, accepted=", ".join(keys))
            return make(table)
    return _range(table)


def _listed(table: Mapping[str, Any]) -> list[Any]:
    values = table["values"]
    if not isinstance(values, list) or not values:
        raise InputError(f"{values!r} is not a list of values", key="values", accepted="a list of one or more values")
    return values


def _divisors(table: Mapping[str, Any]) -> list[int]:
    number = as_whole(table["divisors_of"], "divisors_of", 1)
    if number > _MOST_DIVIDED:
        raise InputError(f"{number} is too large", key="divisors_of", accepted=f"at most {_MOST_DIVIDED}")
    least = as_whole(table.get("at_least", 1), "at_least", 1)
    most = as_whole(table.get("at_most", number), "at_most", 1)
    small = [one for one in range(1, math.isqrt(number) + 1) if number % one == 0]
    divisors = sorted({*small, *(number // one for one in small)})
    kept = [one for one in divisors if least <= one <= most]
    if not kept:
        raise InputError(f"{number} has no divisor from {least} to {most}", accepted="a wider range")
    return kept


@frozen
class _Amount:
    """A number as it was written."""

    number: Fraction  # exactly
    unit: str  # what is behind it; empty for a number alone
    whole: bool  # whether it was written as a whole number

    @classmethod
    def read(cls, value: object, key: str) -> _Amount:
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(Fraction(value), "", True)
        if isinstance(value, float) and math.isfinite(value):
            return cls(Fraction(repr(value)), "", False)
        written = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
        if written is not None and written[2]:
            try:
                return cls(Fraction(written[1]), written[2], False)
            except ValueError:  # such as two points
                pass
        raise InputError(f"{value!r} is not a number", key=key, accepted="a number, or one with a unit: '100 GB/s'")


def _range(table: Mapping[str, Any]) -> list[Any]:
    for key in ("from", "to"):
        if key not in table:
            raise InputError("is missing", key=key, accepted=FORM)
    first, last = _Amount.read(table["from"], "from"), _Amount.read(table["to"], "to")
    if first.unit != last.unit:
        message = f"{table['to']!r} has another unit than {table['from']!r}"
        raise InputError(message, key="to", accepted=f"the unit {first.unit!r}" if first.unit else "a number alone")
    if last.number < first.number:
        raise InputError(f"{table['to']!r} is below {table['from']!r}", key="to", accepted="the larger of the two")
    scale = as_choice(table.get("scale", "linear"), ("linear", "log"), "scale")
    ways = [key for key in ("step", "factor", "count") if key in table]
    if len(ways) != 1:
        raise InputError(f"has {' and '.join(ways) or 'no step'}", accepted="one of step, factor, count")
    (way,) = ways
    if scale == "log" and way == "step":
        raise InputError("a logarithmic range has no step", key="scale", accepted="factor or count in place of step")
    if (scale == "log" or way == "factor") and first.number <= 0:
        raise InputError(f"{table['from']!r} is not above 0", key="from", accepted="a number above 0")
    if way == "count":
        return _counted(table, first, last, logarithmic=scale == "log")
    by = _Amount.read(table[way], way)
    if by.unit not in ("", first.unit) or (by.unit and way == "factor"):
        accepted = f"the unit {first.unit!r}, or a number alone" if way == "step" else "a number alone"
        raise InputError(f"{table[way]!r} has another unit", key=way, accepted=accepted)
    least = 0 if way == "step" else 1
    if by.number <= least:
        raise InputError(f"{table[way]!r} is not a {way}", key=way, accepted=f"a number above {least}")
    if way == "step":
        count = math.floor((last.number - first.number) / by.number) + 1
        numbers = (first.number + by.number * one for one in range(count))
    else:
        count = math.floor(math.log(last.number / first.number) / math.log(by.number)) + 2  # which a logarithm may miss
        numbers = (first.number * by.number**one for one in range(count))
    limits.check("cells", count if way == "step" else count - 1)
    return [_written(first, one, whole=by.whole or way == "factor") for one in numbers if one <= last.number]


def _counted(table: Mapping[str, Any], first: _Amount, last: _Amount, *, logarithmic: bool) -> list[Any]:
    count = as_whole(table["count"], "count", 2)
    limits.check("cells", count)
    found = []
    for one in range(count):
        share = Fraction(one, count - 1)
        if one in (0, count - 1):
            number = last.number if one else first.number
        elif logarithmic:
            number = Fraction(float(first.number) * float(last.number / first.number) ** float(share))
        else:
            number = first.number + (last.number - first.number) * share
        found.append(_written(first, number, whole=last.whole))
        if first.whole and last.whole and isinstance(found[-1], float):
            values = f"{count} values from {table['from']} to {table['to']}"
            message = f"{values} are not all whole numbers: one is {found[-1]:g}"
            accepted = f"a count that gives whole numbers, or from = {float(first.number)} for values that are not"
            raise InputError(message, key="count", accepted=accepted)
    return found


def _written(first: _Amount, number: Fraction, *, whole: bool) -> Any:
    """Return ``number`` in the form of ``first``: a text with its unit, a whole number where all are, or a float."""
    rounded = float(f"{float(number):.{_DIGITS}g}")
    if not first.unit and not (whole and first.whole and rounded.is_integer()):
        return rounded
    plain = int(rounded) if rounded.is_integer() and abs(rounded) < 10**_DIGITS else rounded
    return f"{plain} {first.unit}" if first.unit else plain
