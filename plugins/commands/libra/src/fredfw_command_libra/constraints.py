"""Linear constraints on the bandwidths of dimensions, as text: ``b0 >= b1``, ``b2 + b3 = 200 GB/s``."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from attrs import frozen

from fredfw import units
from fredfw.errors import InputError, nearest, placed
from fredfw.typing import FloatArray

FORM = (
    "a linear comparison such as 'b0 >= b1', 'b2 + b3 = 200 GB/s', '2 b0 <= b1', 'b0 >= 10 %' (of the budget) or "
    "'b0 >= b1 >= b2'"
)
_SENSE = re.compile(r"(<=|>=|==|=|≤|≥)")
_PLAIN = {"==": "=", "≤": "<=", "≥": ">="}
_TERM = re.compile(r"\s*([+-]?)\s*([^+\-\s][^+\-]*)")
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_FACTOR = re.compile(rf"(?:({_NUMBER})\s*\*?\s*)?([^\W\d][\w.]*)")
_QUANTITY = re.compile(rf"({_NUMBER})\s*(.*)")


@frozen(eq=False)
class Constraint:
    """One comparison: a linear expression of the bandwidths is at most 0, or equal to 0."""

    text: str  # as written
    factors: FloatArray  # ``(dimensions,)`` of the bandwidths
    constant: float  # bytes per second
    share: float  # of the budget
    sense: str  # ``<=`` or ``=``: of the sum of all of these to 0

    def row(self, budget: float) -> tuple[FloatArray, str, float]:
        """Return it for shares of the budget: factors, ``<=`` or ``=``, and the right side."""
        return self.factors, self.sense, -(self.constant / budget + self.share)

    def misses(self, bandwidths: FloatArray) -> float:
        """Return by how many bytes per second ``bandwidths`` miss it; 0 where they meet it."""
        value = float(self.factors @ bandwidths) + self.constant + self.share * float(bandwidths.sum())
        return abs(value) if self.sense == "=" else max(value, 0.0)


def read(texts: Sequence[str], names: Mapping[str, int], count: int, *, key: str) -> tuple[Constraint, ...]:
    """Return the constraints that ``texts`` say of ``count`` dimensions, of which ``names`` mean each a number."""
    found: list[Constraint] = []
    for index, text in enumerate(texts):
        with placed(key=f"{key}[{index}]"):
            found += _read(text, names, count)
    return tuple(found)


def _read(text: object, names: Mapping[str, int], count: int) -> Iterator[Constraint]:
    if not isinstance(text, str):
        raise InputError(f"{text!r} is not a constraint", accepted=FORM)
    sides = _SENSE.split(text)
    if len(sides) < 3:
        raise InputError(f"{text!r} has none of <=, >= and =", accepted=FORM)
    values = [_expression(side, text, names, count) for side in sides[::2]]
    for (left, right), written in zip(pairwise(values), sides[1::2], strict=True):
        sense = _PLAIN.get(written, written)
        lower, upper = (right, left) if sense == ">=" else (left, right)
        difference = lower - upper
        if not difference[:count].any():
            raise InputError(f"{text!r} says nothing about a bandwidth", accepted=FORM)
        constant, share = difference[count:].tolist()
        yield Constraint(text, difference[:count], constant, share, "=" if sense == "=" else "<=")


def _expression(side: str, text: str, names: Mapping[str, int], count: int) -> FloatArray:
    """Return the factors of the bandwidths, then bytes per second, then shares of the budget."""
    total = np.zeros(count + 2)
    at = 0
    while at < len(side.rstrip()):
        match = _TERM.match(side, at)
        if match is None or (at and not match[1]):
            break
        place, value = _term(match[2].strip(), text, names, count)
        total[place] += -value if match[1] == "-" else value
        at = match.end()
    if not side.strip() or at < len(side.rstrip()):
        raise InputError(f"{text!r} is not a linear comparison", accepted=FORM)
    return total


def _term(term: str, text: str, names: Mapping[str, int], count: int) -> tuple[int, float]:
    factor = _FACTOR.fullmatch(term)
    if factor is not None and (factor[2] in names or factor[1] is None):
        if factor[2] not in names:
            message = f"{text!r} names the dimension {factor[2]!r}{nearest(factor[2], names)}"
            raise InputError(message, accepted=", ".join(names))
        return names[factor[2]], float(factor[1] or 1)
    quantity = _QUANTITY.fullmatch(term)
    if quantity is None:
        raise InputError(f"{term!r} in {text!r} is not linear", accepted=FORM)
    if quantity[2] == "%":
        return count + 1, float(quantity[1]) / 100
    if not quantity[2] and float(quantity[1]):
        raise InputError(f"{term!r} in {text!r} has no unit", accepted=f"{term} GB/s, {term} %, or 0")
    try:
        return count, units.parse(term, units.Unit.BYTES_PER_SECOND) if quantity[2] else 0.0
    except InputError as error:
        raise InputError(f"{text!r}: {error.message}", accepted=FORM) from None
