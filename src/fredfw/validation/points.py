"""What was measured: one time of one operation on one system."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, ClassVar

from attrs import frozen

from fredfw.validation.systems import System

SENDRECV = "sendrecv"
"""nccl-tests' send and receive: every rank sends to the next one, the last one to the first."""

_KIB, _MIB = 2**10, 2**20
_BOUNDS = (0, 64 * _KIB, _MIB, 32 * _MIB, math.inf)
SIZE_CLASSES = ("to 64 KiB", "64 KiB to 1 MiB", "1 to 32 MiB", "above 32 MiB")
"""Of buffers; a size at a bound belongs to the class below it."""
WORK_CLASSES = ("to 1 GFLOP", "1 to 100 GFLOP", "above 100 GFLOP")
"""Of kernels."""


@frozen(kw_only=True)
class Point:
    """A measured time; kinds of points derive from it, and have a module that predicts them.

    Args:
        system: Where it was measured.
        source: Who measured it.
        pattern: What ran.
        nodes: Of the system, that took part.
        ranks: NPUs that took part, as many in each node.
        seconds: How long it took.
        where: File and line, for messages.
        stated: What the table calls the system, where that is another one than the user says.
        table: The first 16 hexadecimal digits of the SHA-256 of its table.
    """

    kind: ClassVar[str]

    system: System
    source: str
    pattern: str
    nodes: int
    ranks: int
    seconds: float
    where: str = ""
    stated: str = ""
    table: str = ""

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
        """What tells it from others of its system, operation and ranks; its class, unless overridden."""
        return self.size_class

    def facts(self) -> dict[str, Any]:
        """Return what a reader of results must know of it, JSON-ready, without the measured time."""
        return {
            "kind": self.kind,
            "system": self.system.name,
            "source": self.source,
            "pattern": self.pattern,
            "nodes": self.nodes,
            "ranks": self.ranks,
        }


@frozen(kw_only=True)
class CollectivePoint(Point):
    """A collective that was timed alone.

    Args:
        size: Bytes, as nccl-tests counts them: the per-rank buffer, the larger of input and output.
        library: Its version, where that is known.
    """

    kind: ClassVar[str] = "collective"

    size: float
    library: str = ""

    @property
    def size_class(self) -> str:
        """One of ``SIZE_CLASSES``."""
        found = (
            name for name, (low, high) in zip(SIZE_CLASSES, pairwise(_BOUNDS), strict=True) if low < self.size <= high
        )
        return next(found)

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


def size_classes(points: Iterable[Point]) -> list[str]:
    """Return the classes of ``points``: those of buffers and of kernels in their order, then others as they come."""
    found = dict.fromkeys(point.size_class for point in points)
    ordered = (*SIZE_CLASSES, *WORK_CLASSES)
    return [one for one in ordered if one in found] + [one for one in found if one not in ordered]
