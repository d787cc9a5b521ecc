"""ASTRA-sim's network file for its analytical backends: what its dimensions are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from attrs import frozen

from fredfw import Dimension
from fredfw.errors import InputError, nearest
from fredfw_topology_astra_sim_network.documents import read_yaml

T = TypeVar("T")

GIGABYTE = 2**30
"""Bytes of what ASTRA-sim calls GB."""
_NANOSECONDS = 1e9
"""In a second: divided by these, decimal numbers stay what they are."""
_KINDS: dict[str, Literal["ring", "fully-connected", "switch"]] = {
    "Ring": "ring",
    "FullyConnected": "fully-connected",
    "Switch": "switch",
}
_MOST = 2**31 - 1
# What its parser takes for a number, and PyYAML for text: 1e3.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@frozen
class Block:
    """One dimension, as the file has it.

    Args:
        topology: ``Ring``, ``FullyConnected`` or ``Switch``.
        npus: Positions.
        bandwidth: Of each link and direction, in units of 2^30 bytes per second.
        latency: Nanoseconds of a link; a message through a switch takes two.
    """

    topology: str
    npus: int
    bandwidth: float
    latency: float

    @property
    def dimension(self) -> Dimension:
        """The same, in SI units: the latency of a dimension is from an NPU to the next, through the switch."""
        kind = _KINDS[self.topology]
        latency = self.latency / _NANOSECONDS * (2 if kind == "switch" else 1)
        return Dimension.of_links(kind, self.npus, self.bandwidth * GIGABYTE, latency)


def read(content: bytes, file: str) -> tuple[Block, ...]:
    """Return the dimensions in a network file, innermost first.

    Raises:
        InputError: It is not YAML, a key is unknown or missing, lists have different lengths, or a value is not what
            its key needs; names file, key, value and what is accepted.
    """
    table = read_yaml(content, file)
    accepted = ", ".join(_KEYS)
    if not isinstance(table, dict):
        raise InputError("is not a network file", file=file, accepted=f"a mapping of {accepted}")
    for key in table:
        if key not in _KEYS:
            raise InputError(
                f"unknown key{nearest(str(key), _KEYS)}", file=file, key=str(key)[:_SHOWN], accepted=accepted
            )
    columns = []
    for key, (convert, form) in _KEYS.items():
        if key not in table:
            raise InputError("is missing", file=file, key=key, accepted=f"a list of {form}, one for each dimension")
        columns.append(_column(table[key], key, convert, form, file))
    lengths = {key: len(column) for key, column in zip(_KEYS, columns, strict=True)}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length} in {key}" for key, length in lengths.items())
        raise InputError(f"the lists have different lengths: {found}", file=file, accepted="one value per dimension")
    return tuple(Block(*values) for values in zip(*columns, strict=True))


def _column(values: Any, key: str, convert: Callable[[Any], T | None], form: str, file: str) -> list[T]:
    if not isinstance(values, list) or not values:
        raise InputError(f"{_shown(values)} is not a list of values", file=file, key=key, accepted=f"a list of {form}")
    column = []
    for index, value in enumerate(values):
        one = convert(value)
        if one is None:
            raise InputError(f"{_shown(value)} is refused", file=file, key=f"{key}[{index}]", accepted=form)
        column.append(one)
    return column


_SHOWN = 60


def _shown(value: Any) -> str:
    """Return a value of the file for a message; aliases can make a list of any size from a few lines."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _kind(value: Any) -> str | None:
    return value if isinstance(value, str) and value in _KINDS else None


def _npus(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 < value <= _MOST else None


def _number(value: Any) -> float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if 0 <= number < math.inf else None


def _positive(value: Any) -> float | None:
    return _number(value) or None


_KEYS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "topology": (_kind, ", ".join(_KINDS)),
    "npus_count": (_npus, "whole numbers of at least 2"),
    "bandwidth": (_positive, "numbers above 0, in GB/s of 2^30 B/s"),
    "latency": (_number, "numbers of at least 0, in ns"),
}
