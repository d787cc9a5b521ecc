"""Conditions on the points of a space: arithmetic and comparisons of names, never executed as Python."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from attrs import field, frozen

from fredfw.errors import InputError, UnknownNameError, nearest

FORM = "arithmetic (+ - * / // % **), comparisons, and, or, not, in, min, max, abs; names of the space and of constants"
_LONGEST = 1000
_LARGEST = 10**30  # of a whole number
_LARGEST_POWER = 64

Term: TypeAlias = Callable[[Mapping[str, Any]], Any]


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > _LARGEST_POWER:
        raise ArithmeticError(f"the power {exponent} is above {_LARGEST_POWER}")
    return base**exponent


_ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_SIGNS: Mapping[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: lambda term: term,
    ast.Not: operator.not_,
}
_COMPARISONS: Mapping[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}


@frozen
class Constraint:
    """A condition that every point of a space keeps."""

    text: str
    names: tuple[str, ...]  # the names of the space and of the constants in it, in the order of their first use
    _term: Term = field(eq=False, repr=False)

    @classmethod
    def parse(cls, text: object, known: Collection[str]) -> Constraint:
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{text!r} is not a constraint", accepted=FORM)
        if len(text) > _LONGEST:
            raise InputError(f"a constraint of {len(text)} characters is too long", accepted=f"at most {_LONGEST}")
        try:
            found: dict[str, None] = {}
            term = _term(ast.parse(text.strip(), mode="eval").body, frozenset(known), found)
        except InputError as error:
            error.message = f"{text!r}: {error.message}"
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            said = error.msg if isinstance(error, SyntaxError) else str(error)
            raise InputError(f"{text!r} is not a constraint: {said}", accepted=FORM) from None
        return cls(text.strip(), tuple(found), term)

    def holds(self, values: Mapping[str, Any]) -> bool:
        try:
            value = self._term(values)
        except (ArithmeticError, TypeError, ValueError) as error:
            at = ", ".join(f"{name} = {values[name]!r}" for name in self.names)
            raise InputError(f"{self.text!r} has no value at {at}: {error}", accepted=FORM) from None
        if not isinstance(value, bool):
            raise InputError(f"{self.text!r} is {value!r}, not true or false", accepted="a comparison")
        return value


def _term(node: ast.AST, known: frozenset[str], found: dict[str, None]) -> Term:
    def inner(one: ast.AST) -> Term:
        return _term(one, known, found)

    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return lambda _: value
        case ast.Name(id=name):
            if name not in known:
                accepted = ", ".join(sorted(known)) or "no names"
                raise UnknownNameError(f"there is no {name!r}{nearest(name, known)}", accepted=accepted)
            found[name] = None
            return lambda values: _number(values[name])
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _SIGNS:
            sign, term = _SIGNS[type(op)], inner(operand)
            return lambda values: sign(term(values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            operation, first, second = _ARITHMETIC[type(op)], inner(left), inner(right)
            return lambda values: _number(operation(_operand(first(values)), _operand(second(values))))
        case ast.BoolOp(op=op, values=parts):
            terms = [inner(part) for part in parts]
            every = all if isinstance(op, ast.And) else any
            return lambda values: every(term(values) for term in terms)
        case ast.Compare(left=left, ops=ops, comparators=comparators) if all(type(op) in _COMPARISONS for op in ops):
            terms = [inner(one) for one in (left, *comparators)]
            chain = list(zip([_COMPARISONS[type(op)] for op in ops], terms, terms[1:], strict=False))
            return lambda values: all(compare(one(values), other(values)) for compare, one, other in chain)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            terms = [inner(part) for part in parts]
            return lambda values: [term(values) for term in terms]
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _FUNCTIONS and parts:
            terms, function = [inner(part) for part in parts], _FUNCTIONS[name]
            return lambda values: function(*(term(values) for term in terms))
    what = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else type(node).__name__
    raise InputError(f"{what} is not allowed", accepted=FORM)


def _operand(value: Any) -> Any:
    if isinstance(value, str | list):
        raise ArithmeticError(f"{value!r} is not a number")
    return value


def _number(value: Any) -> Any:
    """Return ``value``, unless it is a number that is beyond all reason, so that no power takes for ever."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise ArithmeticError("a number has more than 30 digits")
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        raise ArithmeticError("a number is not finite")
    return value
