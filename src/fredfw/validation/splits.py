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


@frozen
class Rule:
    """Takes points of some patterns and sizes, of one node or of several; raises ``ValueError`` for other sizes.

    Args:
        scale: ``node`` or ``cluster``; empty for both.
        patterns: Their names; empty for all.
        sizes: ``even powers of two``, or empty for all.
    """

    scale: str = ""
    patterns: tuple[str, ...] = ()
    sizes: str = ""

    def __attrs_post_init__(self) -> None:
        """Refuse what is not a rule for sizes."""
        if self.sizes not in ("", EVEN_POWERS):
            raise ValueError(self.sizes)

    def takes(self, point: Point) -> bool:
        """Return whether ``point`` is one of those that are fitted to."""
        if self.scale not in ("", point.system.scale):
            return False
        if self.patterns and point.pattern not in self.patterns:
            return False
        return not self.sizes or (isinstance(point, CollectivePoint) and is_even_power(point.size))


EVEN_POWERS = "even powers of two"


def is_even_power(size: float) -> bool:
    """Return whether ``size`` is 4^k bytes, as near as nccl-tests comes to it."""
    nearest = round(math.log2(size))
    return nearest % 2 == 0 and abs(size / 2.0**nearest - 1) < _NEAR


@frozen
class Fold:
    """A fit of a transport without some of the measurements, which it predicts.

    Args:
        transport: Its name.
        by: ``source`` or ``system``.
        name: The one that is left out.
        fields: Of the transport, that make it use this fit.
    """

    transport: str
    by: str
    name: str
    fields: Mapping[str, Any]

    def leaves_out(self, point: Point) -> bool:
        """Return whether the fit is without ``point``."""
        return self.name == (point.source if self.by == "source" else point.system.name)


@cache
def _entries() -> Mapping[str, Any]:
    text = files(__package__).joinpath("splits.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


def rules() -> Mapping[str, tuple[Rule, ...]]:
    """Return the rules of ``splits.toml`` by transport."""
    return {
        transport: tuple(
            Rule(one.get("scale", ""), tuple(one.get("patterns", ())), one.get("sizes", "")) for one in entry["fitted"]
        )
        for transport, entry in _entries().items()
    }


def folds(transports: Collection[str]) -> Iterator[Fold]:
    """Yield the fits without a system and those without a source that ``splits.toml`` has for ``transports``."""
    for transport, entry in _entries().items():
        without = entry.get("without", {})
        for by in ("system", "source"):
            for name in without.get(by, ()) if transport in transports else ():
                yield Fold(transport, by, name, {without["field"]: name})


def part_of(point: Point, transport: Transport) -> Part:
    """Return what ``point`` is to ``transport``."""
    own = rules().get(transport.name)
    if own is None:
        return Part.UNFITTED
    if point.table not in transport.fitted_to():
        return Part.HELD_OUT
    return Part.FITTED if any(rule.takes(point) for rule in own) else Part.HELD_OUT
