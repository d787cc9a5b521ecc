"""What was measured: one time of one operation on one system."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, ClassVar

from attrs import frozen

from fredfw.collectives import Pattern
from fredfw.validation.systems import System

SENDRECV = "sendrecv"
"""nccl-tests' send and receive: every rank sends to the next one, the last one to the first."""

_BOUNDS = 2**16, 2**20, 2**25
SIZE_CLASSES = ("to 64 KiB", "64 KiB to 1 MiB", "1 to 32 MiB", "above 32 MiB")
"""Of buffers; a size at a bound belongs to the class below it."""
WORK_CLASSES = ("to 1 GFLOP", "1 to 100 GFLOP", "above 100 GFLOP")
"""Of kernels."""


@frozen(kw_only=True)
class Point:
    """A measured time; kinds of points derive from it, and have a module that predicts them."""

    kind: ClassVar[str]

    system: System
    source: str
    """Who measured it."""
    pattern: str
    """What ran."""
    nodes: int
    ranks: int
    """NPUs that took part, as many in each node."""
    seconds: float
    where: str = ""
    """File and line, for messages."""
    stated: str = ""
    """What the table calls the system, where that is another one than the user says."""
    table: str = ""
    """The first 16 hexadecimal digits of the SHA-256 of its table."""

    @property
    def size_class(self) -> str:
        """The class that it is scored in."""
        raise NotImplementedError

    @property
    def same(self) -> tuple[Any, ...]:
        """What is equal for measurements of the same thing, whoever made them."""
        raise NotImplementedError

    @property
    def of(self) -> str:
        """What tells it from others of its system, operation and ranks."""
        return self.size_class

    def facts(self) -> dict[str, Any]:
        """Return what a reader of results must know of it, JSON-ready, without the measured time."""
        names = "source", "pattern", "nodes", "ranks"
        return {"kind": self.kind, "system": self.system.name, **{name: getattr(self, name) for name in names}}


@frozen(kw_only=True)
class CollectivePoint(Point):
    """A collective that was timed alone."""

    kind: ClassVar[str] = "collective"

    size: float
    """Bytes, as nccl-tests counts them: the per-rank buffer, the larger of input and output."""
    library: str = ""
    """Its version, where that is known."""

    @property
    def size_class(self) -> str:
        """One of ``SIZE_CLASSES``."""
        return SIZE_CLASSES[bisect_left(_BOUNDS, self.size)]

    @property
    def of(self) -> str:
        """Its bytes."""
        return f"{self.size:.0f} B"

    @property
    def same(self) -> tuple[Any, ...]:
        """See ``Point.same``."""
        return self.kind, self.system.name, self.pattern, self.nodes, self.ranks, self.size

    def facts(self) -> dict[str, Any]:
        """See ``Point.facts``; sizes are bytes."""
        return {**super().facts(), "size": self.size, "library": self.library}


def pattern_of(name: str) -> Pattern:
    """Return the pattern of an operation as tables call it."""
    return Pattern.POINT_TO_POINT if name == SENDRECV else Pattern(name)


def size_classes(points: Iterable[Point]) -> list[str]:
    """Return the classes of ``points``: those of buffers and of kernels in their order, then others as they come."""
    found = dict.fromkeys(point.size_class for point in points)
    ordered = (*SIZE_CLASSES, *WORK_CLASSES)
    return [one for one in ordered if one in found] + [one for one in found if one not in ordered]
