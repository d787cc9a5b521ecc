"""Systems that were measured: ``systems.toml`` says which fabric stands for each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from fredfw.errors import UnknownNameError, nearest

if TYPE_CHECKING:  # which brings the workloads
    from fredfw.experiment.file.spec import FabricSpec

NODE, CLUSTER = "node", "cluster"
_MODEL = re.compile(r"[a-z]+\d+")  # of a GPU, such as h100


@frozen
class System:
    """A machine, as one node or as several."""

    name: str
    preset: str
    """Of the topology ``cluster``."""
    scale: str
    """``node`` or ``cluster``."""
    title: str
    names: tuple[str, ...] = field(default=(), converter=tuple)
    """What tables call it, besides ``name`` and ``preset``."""
    transport: Mapping[str, Any] = field(factory=dict, eq=False)
    """Name and fields of the transport that predicts it; empty for what its fabric brings."""
    fabric: FabricSpec | None = field(default=None, eq=False)
    """What stands for it in place of a preset: the user's."""


@cache
def known() -> Mapping[str, System]:
    """Return the systems of ``systems.toml`` by name."""
    text = files(__package__).joinpath("systems.toml").read_text(encoding="utf-8")
    return MappingProxyType({name: System(name, **entry) for name, entry in tomllib.loads(text).items()})


def find(name: str, nodes: int, presets: tuple[str, ...] = ()) -> System:
    """Return the system of so many nodes that a table calls ``name``; one of ``presets`` need not be measured."""
    scale = NODE if nodes == 1 else CLUSTER
    wanted = name.strip().casefold()
    for one in known().values():
        if one.scale == scale and wanted in map(str.casefold, (one.name, one.preset, *one.names)):
            return one
    for preset in presets:
        if wanted == preset.casefold():
            return System(f"{preset}-{scale}", preset, scale, f"{preset} {scale}")
    here = [one for one in known().values() if one.scale == scale]
    accepted = [*(one.name for one in here), *presets]
    called = {name for one in here for name in (one.name, *one.names)}.union(presets)
    among = "one node" if scale == NODE else f"{nodes} nodes"
    message = f"no system {name!r} of {among}{suggestion(name, sorted(called))}"
    raise UnknownNameError(message, accepted=", ".join(accepted))


def suggestion(name: str, called: Iterable[str]) -> str:
    """Return what ``nearest`` does, of the same model: V100 is not H100 with a mistake in it."""
    model = _MODEL.search(name.casefold())
    return nearest(name, [one for one in called if model is None or model[0] in one.casefold()])
