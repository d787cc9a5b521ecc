"""Which transport predicts a point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from fredfw.fabric import Fabric, Transport
from fredfw.plugin import configure
from fredfw.plugin.answers import built
from fredfw.plugin.manager import PluginManager
from fredfw.validation.points import Point
from fredfw.validation.systems import System

TOPOLOGY = "cluster"
"""The topology whose presets are systems."""


class Transports:
    """Configures a transport for each system.

    The fabric of a system brings one, unless ``systems.toml`` has another. It predicts where nothing else is asked for,
    and where one of that name is asked for without fields.

    Args:
        plugins: Where transports are registered.
        given: A name, or a table of a name and fields, for all systems; ``None`` for what each system has.
        fields: By transport: fields in addition.
    """

    def __init__(
        self, plugins: PluginManager, given: object = None, *, fields: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self._plugins = plugins
        self._given = given
        self._fields = fields or {}
        self._chosen: dict[str, Transport] = {}

    def of(self, point: Point) -> Transport:
        """Return the transport of ``point``, one for all of its system.

        Raises:
            InputError: It is not installed, or does not take its fields; names ``--transport`` where it was asked for.
        """
        name = point.system.name
        if name not in self._chosen:
            self._chosen[name] = self._choose(point.system)
        return self._chosen[name]

    def _choose(self, system: System) -> Transport:
        own: Any = self._own(system)  # an attrs class, as all plugins are
        table = {"name": self._given} if isinstance(self._given, str) else self._given
        if table not in (None, {"name": own.name}):
            return self._configured(table, system)
        fields = self._fields.get(own.name, {})
        chosen: Transport = evolve(own, **fields)
        return chosen

    def _own(self, system: System) -> Transport:
        if system.transport:
            return self._configured(system.transport, system)
        return fabric(system, 1, self._plugins).defaults.transport

    def _configured(self, table: object, system: System) -> Transport:
        if isinstance(table, Mapping):
            table = {**table, **self._fields.get(table.get("name", ""), {})}
        key = f"transport of {system.name}" if self._given is None else "--transport"
        registries = self._plugins
        return configure.choose(table, registries.transports, key_prefix=key, registries=lambda: registries.registries)


def fabric(system: System, nodes: int, plugins: PluginManager) -> Fabric:
    """Return the fabric that stands for so many nodes of ``system``, with the transport that it brings.

    A user's has as many nodes as it has.
    """
    if system.fabric is not None:
        return built(system.fabric.topology).with_defaults(name=system.name, **system.fabric.slots)
    fields = {"preset": system.preset, "nodes": nodes}
    topology = configure.build(plugins.topologies.get(TOPOLOGY), fields, registries=lambda: plugins.registries)
    return built(topology)
