"""Machines by name: ``presets.toml`` as the values that fields of ``cluster`` have where they are not given."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from fredfw import Transport, units
from fredfw.tables import parse_toml
from fredfw_topology_fully_connected import FullyConnected
from fredfw_topology_switch import Switch
from fredfw_topology_torus import Torus
from fredfw_transport_nccl import Nccl

_INSIDES: Mapping[str, type[Any]] = {one.name: one for one in (FullyConnected, Switch, Torus)}


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    entries = parse_toml(files(__package__).joinpath("presets.toml").read_text(encoding="utf-8"))

    def whole(name: str) -> dict[str, Any]:
        entry: dict[str, Any] = entries[name]
        return {**whole(entry["like"]), "uncertain": [], **entry} if "like" in entry else entry

    return MappingProxyType({name: whole(name) for name in entries})


@cache
def values(name: str) -> dict[str, Any]:
    """Return the value of each field that the preset ``name`` has, in SI units."""
    entry = table()[name]
    inside = dict(entry["node"])
    return {
        "node": _INSIDES[inside.pop("name")](**inside),
        "nics": entry["nics"],
        "nic": units.parse(entry["nic"], units.Unit.BYTES_PER_SECOND),
        "network": entry["network"],
        "rails": entry.get("rails"),
        "radix": entry["radix"],
        "pxn": entry.get("pxn", False),
    }


def brings(name: str) -> tuple[Transport | None, str]:
    entry = table()[name]
    fields = entry.get("transport")
    return None if fields is None else Nccl(**fields), entry["npu"]
