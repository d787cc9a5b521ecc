"""Systems that were measured: ``systems.toml`` says which fabric stands for each."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from fredfw.errors import UnknownNameError, nearest

NODE, CLUSTER = "node", "cluster"


@frozen
class System:
    """A machine, as one node or as several.

    Args:
        name: What results call it.
        preset: Of the topology ``cluster``.
        scale: ``node`` or ``cluster``.
        title: For people.
        names: What tables call it, besides ``name`` and ``preset``.
        transport: Name and fields of the transport that predicts it; empty for ``ideal``.
    """

    name: str
    preset: str
    scale: str
    title: str
    names: tuple[str, ...] = ()
    transport: Mapping[str, Any] = field(factory=dict, eq=False)


@cache
def known() -> Mapping[str, System]:
    """Return the systems of ``systems.toml`` by name."""
    text = files(__package__).joinpath("systems.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)
    return MappingProxyType(
        {
            name: System(name, one["preset"], one["scale"], one["title"], tuple(one["names"]), one.get("transport", {}))
            for name, one in entries.items()
        }
    )


def find(name: str, nodes: int, presets: tuple[str, ...] = ()) -> System:
    """Return the system that a table calls ``name``.

    Args:
        name: A system, one of its names, or a preset of the topology ``cluster``.
        nodes: How many took part.
        presets: All that there are; one without a measured system is a system of its own.

    Raises:
        UnknownNameError: None of them.
    """
    scale = NODE if nodes == 1 else CLUSTER
    wanted = name.strip().casefold()
    for one in known().values():
        called = (one.name, one.preset, *one.names)
        if one.scale == scale and wanted in map(str.casefold, called):
            return one
    for preset in presets:
        if wanted == preset.casefold():
            return System(f"{preset}-{scale}", preset, scale, f"{preset} {scale}")
    accepted = [*(one.name for one in known().values() if one.scale == scale), *presets]
    every = {called for one in known().values() for called in (one.name, *one.names)}.union(presets)
    among = "one node" if scale == NODE else f"{nodes} nodes"
    raise UnknownNameError(f"no system {name!r} of {among}{nearest(name, sorted(every))}", accepted=", ".join(accepted))
