"""What is written in one option: assignments, sweeps of sizes, groups of NPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from fredfw.errors import InputError
from fredfw.units import Unit, parse

T = TypeVar("T")
_MOST_SIZES = 10_000
# Room for the rounding of a last size that is meant to be the bound itself.
_ROUNDING = 1e-9
_SIZES = "FIRST:LAST:xFACTOR or FIRST:LAST:+STEP, such as 1MB:1GB:x4"


def parse_assignments(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return ``{key: text}`` of ``key=text`` given several times.

    Raises:
        InputError: Not of that form, or a key given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InputError(f"{text!r} is no assignment", key=option, accepted="KEY=VALUE")
        if key in found:
            raise InputError(f"{key!r} is given twice", key=option, accepted="each key once")
        found[key] = value.strip()
    return found


def configured(cls: type[T], assignments: Iterable[str], option: str) -> T:
    """Return the plugin ``cls`` configured by texts such as ``rows=4``, which ``option`` (``--set``) was given.

    Raises:
        InputError: Not of that form, an unknown field, or a value that it does not accept.
    """
    from fredfw.plugin import configure

    return configure.from_text(cls, parse_assignments(assignments, option), key_prefix=option)


def parse_size(text: str, key: str) -> float:
    """Return a size in bytes, more than zero; raises ``InputError`` with ``key``."""
    try:
        size = parse(text, Unit.BYTES)
    except InputError as error:
        # Unlike in an experiment a number is not enough: what is typed says its unit.
        raise InputError(error.message, key=key, accepted="a size such as 64MiB or 1GB") from None
    if size <= 0:
        raise InputError(f"{text!r} is no size", key=key, accepted="more than 0 bytes")
    return size


def parse_sizes(text: str) -> list[float]:
    """Return the sizes in bytes of ``FIRST:LAST:xFACTOR`` (geometric) or ``FIRST:LAST:+STEP`` (arithmetic).

    ``LAST`` is among them if the steps reach it.

    Raises:
        InputError: Not of that form, nothing in it, or more than 10,000 sizes.
    """
    option = "--sizes"
    parts = text.split(":")
    if len(parts) != 3 or parts[2][:1] not in ("x", "+"):
        raise InputError(f"{text!r} is no sweep", key=option, accepted=_SIZES)
    first, last = parse_size(parts[0], option), parse_size(parts[1], option)
    if first > last:
        raise InputError(f"{text!r} goes down", key=option, accepted="FIRST at most LAST")
    if parts[2][0] == "x":
        factor, step = _factor(parts[2][1:]), 0.0
    else:
        factor, step = 1.0, parse_size(parts[2][1:], option)
    sizes: list[float] = []
    size = first
    while size <= last * (1 + _ROUNDING):
        if len(sizes) == _MOST_SIZES:
            raise InputError(f"{text!r} is more than {_MOST_SIZES} sizes", key=option, accepted="larger steps")
        sizes.append(size)
        size = first * factor ** len(sizes) + step * len(sizes)
    return sizes


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    # Also refuses NaN and infinity, of which the second would give one size and no message.
    if not 1 < factor < float("inf"):
        raise InputError(f"{text!r} is no factor", key="--sizes", accepted="a finite number above 1")
    return factor


def parse_group(text: str, npus: int) -> list[int]:
    """Return the NPU numbers of ``0-4,7`` in the order given, for a fabric of ``npus``.

    Raises:
        InputError: Not of that form, or an NPU that is repeated or missing, by number.
    """
    option = "--group"
    accepted = f"different NPUs from 0 to {npus - 1}, such as 0-4,7"
    group: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,18})(?:\s*-\s*([0-9]{1,18}))?\s*", part)
        if match is None:
            raise InputError(f"{part!r} is no NPU and no range", key=option, accepted=accepted)
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise InputError(f"{part.strip()!r} goes down", key=option, accepted=accepted)
        # Checked before the range is written out, which could be as long as memory.
        if last >= npus:
            raise InputError(f"there is no NPU {max(first, npus)}", key=option, accepted=accepted)
        for npu in range(first, last + 1):
            if npu in group:
                raise InputError(f"NPU {npu} is named twice", key=option, accepted=accepted)
            group[npu] = None
    return list(group)
