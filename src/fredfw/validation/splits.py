"""Which points a transport was fitted to: ``splits.toml`` has the rules. All others are held out."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from attrs import frozen

from fredfw.fabric import Transport
from fredfw.validation.points import CollectivePoint, Point

# nccl-tests rounds sizes down to a multiple of the ranks.
_NEAR = 0.01


class Part(StrEnum):
    """What a point is to a transport."""

    FITTED = "fitted"
    """Its constants were fitted to this and others."""
    HELD_OUT = "held out"
    """They were fitted to others."""
    UNFITTED = "not fitted"
    """It has no fitted constants."""


EVEN_POWERS = "even powers of two"
"""The only ``sizes`` of a rule."""


def is_even_power(size: float) -> bool:
    """Return whether ``size`` is 4^k bytes, as near as nccl-tests comes to it."""
    nearest = round(math.log2(size))
    return nearest % 2 == 0 and abs(size / 2.0**nearest - 1) < _NEAR


@frozen(eq=False)
class Fold:
    """A fit of a transport without the measurements of one source or system, which it predicts."""

    transport: str
    by: str
    """``source`` or ``system``."""
    name: str
    fields: Mapping[str, Any]
    """Of the transport, that make it use this fit."""

    def leaves_out(self, point: Point) -> bool:
        """Return whether the fit is without ``point``."""
        return self.name == (point.source if self.by == "source" else point.system.name)


@cache
def _entries() -> Mapping[str, Any]:
    text = files(__package__).joinpath("splits.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


def folds(transports: Collection[str]) -> Iterator[Fold]:
    """Yield the fits without a system and those without a source that ``splits.toml`` has for ``transports``."""
    for transport, entry in _entries().items():
        without = entry.get("without", {})
        for by in ("system", "source"):
            for name in without.get(by, ()) if transport in transports else ():
                yield Fold(transport, by, name, {without["field"]: name})


def part_of(point: Point, transport: Transport) -> Part:
    """Return what ``point`` is to ``transport``."""
    own = _entries().get(transport.name)
    if own is None:
        return Part.UNFITTED
    fitted = point.table in transport.fitted_to() and any(_takes(rule, point) for rule in own["fitted"])
    return Part.FITTED if fitted else Part.HELD_OUT


def _takes(rule: Mapping[str, Any], point: Point) -> bool:
    """Return whether ``point`` is one of those that are fitted to; what a rule does not say is all the same."""
    if "sizes" in rule and not (isinstance(point, CollectivePoint) and is_even_power(point.size)):
        return False
    return point.system.scale == rule.get("scale", point.system.scale) and (
        point.pattern in rule.get("patterns", [point.pattern])
    )
