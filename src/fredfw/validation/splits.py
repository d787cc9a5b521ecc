"""Which points a transport was fitted to: ``splits.toml`` has the rules. All others are held out."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from attrs import frozen

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
    """Takes points of some systems, patterns and sizes; raises ``ValueError`` for sizes that it does not know.

    Args:
        systems: Their names; empty for all.
        patterns: Likewise.
        sizes: ``even powers of two``, or empty for all.
    """

    systems: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    sizes: str = ""

    def __attrs_post_init__(self) -> None:
        """Refuse what is not a rule for sizes."""
        if self.sizes not in ("", EVEN_POWERS):
            raise ValueError(self.sizes)

    def takes(self, point: Point) -> bool:
        """Return whether ``point`` is one of those that are fitted to."""
        if self.systems and point.system.name not in self.systems:
            return False
        if self.patterns and point.pattern not in self.patterns:
            return False
        return not self.sizes or (isinstance(point, CollectivePoint) and is_even_power(point.size))


EVEN_POWERS = "even powers of two"


def is_even_power(size: float) -> bool:
    """Return whether ``size`` is 4^k bytes, as near as nccl-tests comes to it."""
    nearest = round(math.log2(size))
    return nearest % 2 == 0 and abs(size / 2.0**nearest - 1) < _NEAR


@cache
def rules() -> Mapping[str, tuple[Rule, ...]]:
    """Return the rules of ``splits.toml`` by transport."""
    entries = tomllib.loads(files(__package__).joinpath("splits.toml").read_text(encoding="utf-8"))
    return MappingProxyType(
        {
            transport: tuple(
                Rule(tuple(one.get("systems", ())), tuple(one.get("patterns", ())), one.get("sizes", ""))
                for one in listed["fitted"]
            )
            for transport, listed in entries.items()
        }
    )


def part_of(point: Point, transport: str, given: Mapping[str, tuple[Rule, ...]] | None = None) -> Part:
    """Return what ``point`` is to ``transport``.

    Args:
        point: A measured time.
        transport: Name of what predicts it.
        given: The rules by transport, instead of those that come with the product.
    """
    own = (rules() if given is None else given).get(transport)
    if own is None:
        return Part.UNFITTED
    return Part.FITTED if any(rule.takes(point) for rule in own) else Part.HELD_OUT
