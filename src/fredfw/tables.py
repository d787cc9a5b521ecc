"""Reading tables that a user wrote: what is not a table, a key that is not known and a wrong choice are refused."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from reprlib import Repr
from typing import Any

from fredfw import units
from fredfw.errors import InputError, UnknownNameError, nearest, placed
from fredfw.units import Unit

_SHOWN = 60
_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxlong = 3, 2 * _SHOWN, 2 * _SHOWN
_TYPO = 0.75  # how alike a key and a known one are that differ by a slip of the keyboard


def parse_toml(text: str, *, accepted: str = "a TOML file") -> dict[str, Any]:
    """Return the tables of a TOML document; raises ``InputError`` where it is none."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # more than TOMLDecodeError: integers of many digits, deep nesting
        raise InputError(f"is not TOML: {error}", accepted=accepted) from None


def parse_json(text: str | bytes, *, accepted: str = "JSON") -> Any:
    """Return the value of a JSON document; raises ``InputError`` that names line and column where it is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"line {error.lineno}, column {error.colno}: {error.msg}"
    except RecursionError:
        reason = "nested too deeply"
    except ValueError as error:  # bytes that are no text, integers of many digits
        reason = str(error)
    raise InputError(f"is not JSON: {reason}", accepted=accepted)


def as_table(value: object, key: str, *, accepted: str = "a table") -> Mapping[str, Any]:
    """Return ``value``, whose dotted path is ``key``; raises ``InputError`` where it is not a table."""
    if not isinstance(value, Mapping):
        raise InputError(_wrong(value, "is not a table"), key=key or None, accepted=accepted)
    return value


def check_keys(table: Mapping[str, Any], known: Iterable[str], key: str, *, inside: str | None = None) -> None:
    """Make sure that ``table``, whose dotted path is ``key``, has only ``known`` keys.

    Raises ``UnknownNameError`` with the nearest known one; a key like none is taken for one of the table ``inside``.
    """
    accepted = tuple(known)
    for given in table:
        if given not in accepted:
            name = str(given)
            typo = inside is None or difflib.get_close_matches(name, accepted, cutoff=_TYPO)
            hint = nearest(name, accepted) if typo else f"; did you mean {key}.{inside}.{name}?"
            where = f"{key}.{name}" if key else name
            raise UnknownNameError(f"unknown key{hint}", key=where, accepted=", ".join(accepted) or "no keys")


def as_text(value: object, key: str) -> str:
    """Return ``value``, which the key ``key`` has; raises ``InputError`` unless it is text."""
    if not isinstance(value, str):
        raise InputError(_wrong(value, "is not text"), key=key, accepted="text")
    return value


def as_choice(value: object, choices: Iterable[str], key: str) -> str:
    """Return ``value``, whose dotted path is ``key``; raises ``InputError`` where it is none of ``choices``."""
    accepted = tuple(choices)
    if value not in accepted:
        hint = nearest(value, accepted) if isinstance(value, str) else ""
        raise InputError(f"{value!r} is not known{hint}", key=key, accepted=", ".join(accepted))
    return str(value)


def as_flag(value: object, key: str) -> bool:
    """Return ``value``, which the key ``key`` has; raises ``InputError`` unless it is true or false."""
    if not isinstance(value, bool):
        raise InputError(_wrong(value, "is not a truth value"), key=key, accepted="true or false")
    return value


def as_whole(value: object, key: str, least: int = 0, most: int | None = None) -> int:
    """Return ``value``, which the key ``key`` has; raises ``InputError`` unless it is whole, ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(_wrong(value, "is refused"), key=key, accepted=f"a whole number {limits}")
    return value


def as_quantity(value: object, unit: Unit, key: str, *, exclusive: bool = False) -> float:
    """Return ``value``, a number or text with a unit, in the SI unit of ``unit``.

    Raises ``InputError`` with ``key`` where it is missing, no such quantity, below 0, or 0 where ``exclusive``.
    """
    form = f"{units.accepted(unit)}; {'more than' if exclusive else 'at least'} 0 {unit.value}"
    if value is None:
        raise InputError("is missing", key=key, accepted=form)
    with placed(key=key):
        number = units.parse(value, unit)
    if number < 0 or (exclusive and not number):
        raise InputError(f"{value!r} is too small", key=key, accepted=form)
    return number


def as_tables(value: object, key: str, *, accepted: str = "a list of tables") -> list[tuple[str, Mapping[str, Any]]]:
    """Return each table in the list ``value``, whose dotted path is ``key``, behind its own path.

    Raises ``InputError`` where it is missing or not a list, or something in it is not a table.
    """
    if not isinstance(value, list):
        raise InputError(_wrong(value, "is not a list of tables"), key=key, accepted=accepted)
    return [(f"{key}[{number}]", as_table(one, f"{key}[{number}]")) for number, one in enumerate(value)]


def shown(value: object) -> str:
    """Return a value for a message; aliases of YAML can make a list of any size from a few lines."""
    text = _SHORT.repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _wrong(value: object, what: str) -> str:
    return "is missing" if value is None else f"{shown(value)} {what}"
