"""A class with a field of every kind that a configuration may have."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Literal

import attrs
from attrs import Factory, field, frozen

from fredfw import units


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@frozen
class Inner:
    depth: int = 1
    rate: float = units.bandwidth("1 GB/s")


def shout(text: str) -> str:
    return text.upper()


@frozen
class Thing:
    name: ClassVar[str] = "thing"
    rows: int = units.option(validator=units.at_least(1), help="how many")
    share: float = 1.0
    speed: float = units.bandwidth("750 GB/s", help="how fast")
    bytes_: float = units.quantity(units.Unit.BYTES, 3 * 224 * 224)
    wait: float | None = units.quantity(units.Unit.SECONDS, None, optional=True)
    variant: str = units.option("D", validator=units.one_of("C", "D"))
    label: str = "x"
    maybe: str | None = None
    either: int | str = 0
    wide: bool = False
    colour: Colour = Colour.RED
    mode: Literal["a", "b"] = "a"
    shape: tuple[int, ...] = units.option((8, 8), validator=[units.at_least(1)])
    both: int = units.option(2, validator=[units.at_least(1), units.at_least(2)])
    pair: tuple[int, str] = (0, "")
    rates: Sequence[float] = ()
    members: list[int] = field(factory=list)
    flags: frozenset[str] = frozenset()
    unordered: set[int] = field(factory=set)
    weights: Mapping[str, float] = field(factory=dict)
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    anything: Any = None
    upper: str = field(default="", converter=shout)
    level: int = field(default=0, converter=int)
    bounded: int = field(default=3, validator=attrs.validators.ge(2))
    derived: int = field(default=Factory(lambda self: self.rows, takes_self=True))
    _private: int = 0
    inside: int = field(init=False, default=0)
