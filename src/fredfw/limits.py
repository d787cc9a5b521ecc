"""How much an input may ask for: counted before the work begins, and refused above a limit that the caller can raise.

A plugin that makes something whose size a field decides calls ``check`` with the count first. Graphs, schedules and
fabrics are also checked once they are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from fredfw.errors import InputError, LimitError, UnknownNameError, nearest

DEFAULTS: Mapping[str, int] = MappingProxyType(
    {
        "cells": 10_000,
        "nodes": 2_000_000,
        "links": 20_000_000,
        "tasks": 5_000_000,
        "phases": 500_000,
        "transfers": 100_000_000,
        "flows": 20_000_000,
        "hops": 50_000_000,
        "parts": 50_000,
        "events": 2_000_000,
        "bytes": 1_000_000_000,
        "exact": 100_000_000,
    }
)
"""What is counted, and the most of it that is accepted: cells of an experiment, nodes and links of a fabric, tasks of
an iteration, phases and transfers of a schedule, flows that start at once, hops (links that the routes of those cross),
parts of a switch that is drawn, events of a trace that is written, bytes of a file that is read. Above ``exact``
transfers, which take the engine about 60 s, what runs is simulated ``compressed``, unless a fidelity is asked for."""

_current: ContextVar[Mapping[str, int]] = ContextVar("limits", default=DEFAULTS)
_READABLE = 10**15  # longer numbers say nothing to a reader, and Python refuses to write very long ones


def check(name: str, count: int, *, key: str | None = None) -> None:
    """Raise a ``LimitError`` unless ``count``, which the field ``key`` decides, is within the limit ``name``."""
    limit = _current.get()[name]
    if count > limit:
        shown, enough = (count, count) if count < _READABLE else ("more than 10^15", "COUNT")
        accepted = f"at most {limit}; fredfw --limit {name}={enough} raises the limit"
        raise LimitError(f"{shown} {name} are too many", key=key, accepted=accepted)


def excess(name: str, count: int) -> str | None:
    """Return what ``check`` would say, for the ``refusal`` of an algorithm; ``None`` within the limit."""
    try:
        check(name, count)
    except LimitError as error:
        return f"{error.message}: {error.accepted}"
    return None


def current() -> Mapping[str, int]:
    """Return the limits in use, by name."""
    return _current.get()


@contextmanager
def allowed(limits: Mapping[str, int]) -> Iterator[None]:
    """Use ``limits``, whole numbers by name, in place of the current ones in this block and thread alone."""
    for name, limit in limits.items():
        if name not in DEFAULTS:
            raise UnknownNameError(f"there is no limit {name!r}{nearest(name, DEFAULTS)}", accepted=", ".join(DEFAULTS))
        number: object = limit
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise InputError(f"{limit!r} is not a limit", key=name, accepted="a whole number of at least 1")
    token = _current.set({**_current.get(), **limits})
    try:
        yield
    finally:
        _current.reset(token)
