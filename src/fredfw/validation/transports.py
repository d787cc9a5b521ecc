"""Which transport predicts a point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fredfw.fabric import IdealTransport, Transport
from fredfw.plugin import configure
from fredfw.plugin.manager import PluginManager
from fredfw.validation.points import CollectivePoint, Point
from fredfw.validation.systems import System


class Transports:
    """Configures a transport for each system.

    A system may have a transport of its own in ``systems.toml``. It predicts collectives where nothing else is asked
    for, and all points where one of that name is asked for without fields. Iterations of training are predicted by
    ``ideal`` otherwise, because the efficiency of NPUs was fitted with it.

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
        self._chosen: dict[tuple[str, str], Transport] = {}

    def of(self, point: Point) -> Transport:
        """Return the transport of ``point``, one for all of its kind and system.

        Raises:
            InputError: It is not installed, or does not take its fields; names ``--transport`` where it was asked for.
        """
        key = point.system.name, point.kind
        if key not in self._chosen:
            self._chosen[key] = self._choose(point.system, collective=point.kind == CollectivePoint.kind)
        return self._chosen[key]

    def _choose(self, system: System, *, collective: bool) -> Transport:
        own = dict(system.transport) or {"name": IdealTransport.name}
        usual = own if collective else {"name": IdealTransport.name}
        table = usual if self._given is None else own if self._given == own["name"] else self._given
        if isinstance(table, str):
            table = {"name": table}
        if isinstance(table, Mapping):
            table = {**table, **self._fields.get(table.get("name", ""), {})}
        key = f"transport of {system.name}" if self._given is None else "--transport"
        registries = self._plugins
        return configure.choose(table, registries.transports, key_prefix=key, registries=lambda: registries.registries)
