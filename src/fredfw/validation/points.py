"""What was measured, one time of one operation on one system, and whether a transport was fitted to it."""

from __future__ import annotations

import math
import re
import tomllib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

from fredfw.collectives import Pattern
from fredfw.errors import UnknownNameError, nearest
from fredfw.fabric import Transport

if TYPE_CHECKING:  # which brings the workloads
    from fredfw.experiment.file.spec import FabricSpec

NODE, CLUSTER = "node", "cluster"
_MODEL = re.compile(r"[a-z]+\d+")  # of a GPU, such as h100
_NEAR = 0.01  # nccl-tests rounds sizes down to a multiple of the ranks
SENDRECV = "sendrecv"  # nccl-tests' send and receive: every rank sends to the next one, the last one to the first

_BOUNDS = 2**16, 2**20, 2**25
SIZE_CLASSES = ("to 64 KiB", "64 KiB to 1 MiB", "1 to 32 MiB", "above 32 MiB")  # of buffers, bounds included
WORK_CLASSES = ("to 1 GFLOP", "1 to 100 GFLOP", "above 100 GFLOP")  # of kernels


@frozen
class System:
    """A machine, as one node or as several."""

    name: str
    preset: str  # of the topology ``cluster``
    scale: str  # ``node`` or ``cluster``
    title: str
    names: tuple[str, ...] = field(default=(), converter=tuple)  # what tables call it, besides ``name`` and ``preset``
    # Name and fields of the transport that predicts it; empty for what its fabric brings.
    transport: Mapping[str, Any] = field(factory=dict, eq=False)
    fabric: FabricSpec | None = field(default=None, eq=False)  # what stands for it in place of a preset: the user's


@cache
def packaged(name: str) -> Mapping[str, Any]:
    return MappingProxyType(tomllib.loads(files(__package__).joinpath(name).read_text(encoding="utf-8")))


@cache
def systems() -> Mapping[str, System]:
    return MappingProxyType({name: System(name, **entry) for name, entry in packaged("systems.toml").items()})


def splits() -> Mapping[str, Any]:
    return packaged("splits.toml")


def find_system(name: str, nodes: int, presets: tuple[str, ...] = ()) -> System:
    """Return the system of so many nodes that a table calls ``name``; one of ``presets`` need not be measured."""
    scale = NODE if nodes == 1 else CLUSTER
    wanted = name.strip().casefold()
    for one in systems().values():
        if one.scale == scale and wanted in map(str.casefold, (one.name, one.preset, *one.names)):
            return one
    for preset in presets:
        if wanted == preset.casefold():
            return System(f"{preset}-{scale}", preset, scale, f"{preset} {scale}")
    here = [one for one in systems().values() if one.scale == scale]
    called = {name for one in here for name in (one.name, *one.names)}.union(presets)
    among = "one node" if scale == NODE else f"{nodes} nodes"
    message = f"no system {name!r} of {among}{suggestion(name, sorted(called))}"
    raise UnknownNameError(message, accepted=", ".join((*(one.name for one in here), *presets)))


def suggestion(name: str, called: Iterable[str]) -> str:
    """Return what ``nearest`` does, of the same model: V100 is not H100 with a mistake in it."""
    model = _MODEL.search(name.casefold())
    return nearest(name, [one for one in called if model is None or model[0] in one.casefold()])


@frozen(kw_only=True)
class Point:
    """A measured time; kinds of points derive from it, and have a module that predicts them."""

    kind: ClassVar[str]

    system: System
    source: str  # who measured it
    pattern: str  # what ran
    nodes: int
    ranks: int  # NPUs that took part, as many in each node
    seconds: float
    where: str = ""  # file and line, for messages
    stated: str = ""  # what the table calls the system, where that is another one than the user says
    table: str = ""  # the first 16 hexadecimal digits of the SHA-256 of its table

    @property
    def size_class(self) -> str:
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
        names = "source", "pattern", "nodes", "ranks"
        return {"kind": self.kind, "system": self.system.name, **{name: getattr(self, name) for name in names}}


@frozen(kw_only=True)
class CollectivePoint(Point):
    """A collective that was timed alone."""

    kind: ClassVar[str] = "collective"

    size: float  # bytes, as nccl-tests counts them: the per-rank buffer, the larger of input and output
    library: str = ""  # its version, where that is known

    @property
    def size_class(self) -> str:
        return SIZE_CLASSES[bisect_left(_BOUNDS, self.size)]

    @property
    def of(self) -> str:
        return f"{self.size:.0f} B"

    @property
    def same(self) -> tuple[Any, ...]:
        return self.kind, self.system.name, self.pattern, self.nodes, self.ranks, self.size

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "size": self.size, "library": self.library}


def pattern_of(name: str) -> Pattern:
    return Pattern.POINT_TO_POINT if name == SENDRECV else Pattern(name)


def size_classes(points: Iterable[Point]) -> list[str]:
    """Return the classes of ``points``: those of buffers and of kernels in their order, then others as they come."""
    found = dict.fromkeys(point.size_class for point in points)
    ordered = (*SIZE_CLASSES, *WORK_CLASSES)
    return [one for one in ordered if one in found] + [one for one in found if one not in ordered]


class Part(StrEnum):
    """What a point is to a transport."""

    FITTED = "fitted"  # its constants were fitted to this and others
    HELD_OUT = "held out"  # they were fitted to others
    UNFITTED = "not fitted"  # it has no fitted constants


def is_even_power(size: float) -> bool:
    """Return whether ``size`` is 4^k bytes, as near as nccl-tests comes to it."""
    nearest = round(math.log2(size))
    return nearest % 2 == 0 and abs(size / 2.0**nearest - 1) < _NEAR


@frozen(eq=False)
class Fold:
    """A fit of a transport without the measurements of one source or system, which it predicts."""

    transport: str
    by: str  # ``source`` or ``system``
    name: str
    fields: Mapping[str, Any]  # of the transport, that make it use this fit

    def leaves_out(self, point: Point) -> bool:
        return self.name == (point.source if self.by == "source" else point.system.name)


def folds(transports: Collection[str]) -> Iterator[Fold]:
    for transport, entry in splits().items():
        without = entry.get("without", {})
        for by in ("system", "source"):
            for name in without.get(by, ()) if transport in transports else ():
                yield Fold(transport, by, name, {without["field"]: name})


def part_of(point: Point, transport: Transport) -> Part:
    own = splits().get(transport.name)
    if own is None:
        return Part.UNFITTED
    fitted = point.table in transport.fitted_to() and any(_takes(rule, point) for rule in own["fitted"])
    return Part.FITTED if fitted else Part.HELD_OUT


def _takes(rule: Mapping[str, Any], point: Point) -> bool:
    """Return whether ``point`` is one of those that are fitted to; what a rule does not say is all the same."""
    if "sizes" in rule and not (isinstance(point, CollectivePoint) and is_even_power(point.size)):
        return False
    scale, patterns = rule.get("scale", point.system.scale), rule.get("patterns", [point.pattern])
    return point.system.scale == scale and point.pattern in patterns
