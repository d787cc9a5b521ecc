"""What predicts points: a predictor of each kind, and a transport for each system."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from fredfw.experiment.cell.runner import describe
from fredfw.fabric import Fabric, Transport
from fredfw.keeping import kept
from fredfw.plugin import configure
from fredfw.plugin.answers import built
from fredfw.plugin.manager import PluginManager
from fredfw.validation.points import Part, Point, System, part_of

TOPOLOGY = "cluster"  # the topology whose presets are systems


class Transports:
    """Configures a transport for each system.

    The fabric of a system brings one, unless ``systems.toml`` has another. It predicts where nothing else is ``given``,
    a name or a table of a name and fields, and where that is its name alone. ``fields``, by transport, are additions.
    """

    def __init__(
        self, plugins: PluginManager, given: object = None, *, fields: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self._plugins = plugins
        self._given = given
        self._fields = fields or {}
        self._chosen: dict[str, Transport] = {}

    def of(self, point: Point) -> Transport:
        return kept(self._chosen, point.system.name, lambda: self._choose(point.system))

    def _choose(self, system: System) -> Transport:
        # An attrs class, as all plugins are.
        own: Any = self._configured(system.transport, system) if system.transport else None
        own = own or fabric(system, 1, self._plugins).defaults.transport
        table = {"name": self._given} if isinstance(self._given, str) else self._given
        if table not in (None, {"name": own.name}):
            return self._configured(table, system)
        chosen: Transport = evolve(own, **self._fields.get(own.name, {}))
        return chosen

    def _configured(self, table: object, system: System) -> Transport:
        if isinstance(table, Mapping):
            table = {**table, **self._fields.get(table.get("name", ""), {})}
        key = f"transport of {system.name}" if self._given is None else "--transport"
        registries = self._plugins
        return configure.choose(table, registries.transports, key_prefix=key, registries=lambda: registries.registries)


class Predictor:
    """Predicts points of one kind; the transport of its system predicts a point, unless overridden."""

    def __init__(self, plugins: PluginManager, transports: Transports) -> None:
        self._plugins = plugins
        self._transports = transports
        self._known: dict[tuple[Any, ...], float] = {}  # seconds, by ``Point.same``

    def check(self, point: Any) -> None:
        """Make sure that ``point`` can be predicted, without predicting it; raises ``InputError``."""

    def prepare(self, points: Any, tell: Callable[[Any], None]) -> None:
        """Work out those of ``points`` that take long, several at once where that is wanted; ``tell`` of each."""

    def seconds(self, point: Any) -> float:
        return kept(self._known, point.same, lambda: self._predicted(point))

    def _predicted(self, point: Any) -> float:
        raise NotImplementedError

    def model(self, point: Any) -> Mapping[str, Any]:
        return describe(self._transports.of(point))

    def part(self, point: Any) -> Part:
        return part_of(point, self._transports.of(point))


def fabric(system: System, nodes: int, plugins: PluginManager) -> Fabric:
    """Return what stands for so many nodes of ``system``, with the transport that it brings; a user's has its own."""
    if system.fabric is not None:
        return built(system.fabric.topology).with_defaults(name=system.name, **system.fabric.slots)
    fields = {"preset": system.preset, "nodes": nodes}
    return built(configure.build(plugins.topologies.get(TOPOLOGY), fields, registries=lambda: plugins.registries))
