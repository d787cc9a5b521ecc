"""How dimensions are written: ``ring 4``, ``FC 8``, ``Switch(8)``, or ASTRA-sim's ``Ring(4)_FullyConnected(8)``."""

from __future__ import annotations

import re
from typing import Any, Literal

import attrs

from fredfw.errors import InputError, nearest

Kind = Literal["ring", "line", "fully-connected", "switch"]
_KINDS: dict[str, Kind] = {
    "ring": "ring",
    "line": "line",
    "fullyconnected": "fully-connected",
    "fc": "fully-connected",
    "switch": "switch",
    "sw": "switch",
}
FORM = (
    'a list such as ["ring 4", "fully-connected 8", "switch 8"] or "Ring(4)_FC(8)_Switch(8)", innermost first; kinds '
    "are ring, line, fully-connected (FC) and switch, sizes 2 or more"
)
_ENTRY = re.compile(r"\s*([^\W\d](?:[\w -]*[^\W\d])?)\s*(?:\(\s*(\d+)\s*\)|\s(\d+))\s*")


def field(default: tuple[str, ...], *, help: str) -> Any:  # noqa: A002  (as in fredfw.units)
    """Declare a field of dimensions, each as this package writes it, ``ring 4``, innermost first.

    What it is given must be dimensions of known kinds with sizes of 2 or more, or an ``InputError`` says so.
    """
    converter = attrs.Converter(_read, takes_field=True)
    return attrs.field(default=default, converter=converter, metadata={"help": help, "accepted": FORM})


def _read(given: object, attribute: attrs.Attribute[Any]) -> tuple[str, ...]:
    key = attribute.name
    if isinstance(given, str):
        given = re.split(r"(?<=\))_|,", given)
    if not isinstance(given, list | tuple) or not given:
        raise InputError(f"{given!r} are not dimensions", key=key, accepted=FORM)
    return tuple(_entry(one, f"{key}[{index}]") for index, one in enumerate(given))


def parts(entry: str) -> tuple[Kind, int]:
    """Return kind and size of a dimension of such a field."""
    kind, size = entry.split()
    return _KINDS[_plain(kind)], int(size)


def _entry(given: object, key: str) -> str:
    match = _ENTRY.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        raise InputError(f"{given!r} is not a dimension", key=key, accepted=FORM)
    kind = _KINDS.get(_plain(match[1]))
    if kind is None:
        hint = nearest(match[1].lower(), ["ring", "line", "fully-connected", "switch"])
        raise InputError(f"{match[1]!r} is not a kind of dimension{hint}", key=key, accepted=FORM)
    digits = (match[2] or match[3]).lstrip("0")
    if digits in ("", "1"):
        raise InputError(f"{given!r} has no neighbours", key=key, accepted=FORM)
    return f"{kind} {digits}"


def _plain(kind: str) -> str:
    return re.sub(r"[\s_-]", "", kind).lower()
