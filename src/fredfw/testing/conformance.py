"""How checks are run and reported, whatever they are about."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import getfile, isfunction, signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import attrs
import numpy as np

from fredfw.errors import PluginError, nearest

C = TypeVar("C")
Check: TypeAlias = Callable[[C], None]
"""A test of one property of a case, which its name says: it raises if that does not hold."""

NOTHING: Mapping[str, str] = MappingProxyType({})
EXACT = 1e-9
"""Relative difference below which times, rates and sums count as equal."""
PASSES = "holds after all; take it out of expected_failures"
# A plugin's author can do nothing about what is below these.
_NOT_THE_AUTHORS = tuple(str(Path(file).parent) for file in (Path(__file__).parent, np.__file__, getfile(attrs.evolve)))


class ConformanceError(AssertionError):
    """A plugin breaks the contract; the message lists every check that fails, with what to mend."""


def checks_of(cls: type) -> tuple[Check[Any], ...]:
    """Return the checks of a case, those of bases first: its public methods that take and return nothing."""
    members = {name: one for base in reversed(cls.__mro__) for name, one in vars(base).items() if isfunction(one)}
    called = {name: signature(one) for name, one in members.items() if not name.startswith("_")}
    return tuple(
        members[name]
        for name, how in called.items()
        if [*how.parameters] == ["self"] and how.return_annotation in (None, "None")
    )


def check_all(what: str, case: Any, expected_failures: Mapping[str, str]) -> None:
    """Raise a ``ConformanceError`` unless ``case``, and nothing else than is expected, passes all its checks."""
    checks = checks_of(type(case))
    names: dict[str, list[str]] = {}  # by message: one fault may fail several checks, and is reported once
    for message in misuses(checks, expected_failures):
        names.setdefault(message, []).append("expected_failures")
    for check in checks:
        fault = outcome(check, case)
        if check.__name__ in expected_failures:
            fault = None if fault else PASSES
        if fault:
            names.setdefault(fault, []).append(check.__name__)
    if names:
        lines = [
            f"{failed[0]}: {message}" if len(failed) == 1 else f"{message}\n    in {', '.join(failed)}"
            for message, failed in names.items()
        ]
        count = sum(map(len, names.values()))
        raise ConformanceError(f"{what} {case} fails {count} of {len(checks)} checks:\n  " + "\n  ".join(lines))


def misuses(checks: Sequence[Check[Any]], expected_failures: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with ``expected_failures`` themselves."""
    known = [check.__name__ for check in checks]
    for name, reason in expected_failures.items():
        if name not in known:
            yield f"there is no check {name!r}{nearest(name, known)} (accepted: {', '.join(known)})"
        if not reason.strip():
            yield f"{name!r} has no reason; write down why this cannot hold"


def outcome(check: Check[C], case: C) -> str | None:
    """Return why ``check`` fails, or ``None`` if it does not."""
    try:
        check(case)
    except (ConformanceError, PluginError) as failure:
        return str(failure)
    except Exception as error:  # whatever the plugin raises is what its author must see
        text = f"raises {type(error).__name__}: {' '.join(str(error).split())}"
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith(("<", *_NOT_THE_AUTHORS))
        ]
        return f"{text} (at {frames[-1].filename}:{frames[-1].lineno})" if frames else text
    return None


def describe(instance: Any) -> str:
    """Return the name of a plugin's instance, with the fields that differ from their defaults."""
    cls = type(instance)
    name = getattr(cls, "name", cls.__qualname__)
    fields = [one for one in attrs.fields(cls) if one.init]
    try:
        default = cls()
        usual = {one.name: getattr(default, one.name) for one in fields}
    except (TypeError, ValueError):  # a field without a default
        usual = {one.name: one.default for one in fields}
    told = [f"{one}={getattr(instance, one)!r}" for one, value in usual.items() if getattr(instance, one) != value]
    return f"{name}({', '.join(told)})" if told else str(name)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global random generators, which no plugin may depend on, for the block."""
    before = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
