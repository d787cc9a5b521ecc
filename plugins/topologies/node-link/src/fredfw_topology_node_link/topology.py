"""The topology ``node-link``: its fields, and how a graph becomes a fabric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from attrs import frozen

from fredfw import (
    Capabilities,
    Defaults,
    DimensionOrderRouter,
    Fabric,
    File,
    Level,
    MultipathRouter,
    NodeKind,
    Router,
    ShortestPathRouter,
    Topology,
    units,
)
from fredfw.errors import InputError, nearest
from fredfw_topology_node_link.graph import Graph, read

_KINDS = {kind.name.lower(): kind for kind in NodeKind}
_ROUTERS: dict[str, type[Router]] = {
    one.name: one for one in (ShortestPathRouter, MultipathRouter, DimensionOrderRouter)
}
_OFFERS = "reduces", "multicasts", "circuits"
_OF_GRAPH = "name", "levels", "offers", "local_offers", "router", "notes"
_OF_NODE = "kind", "name", "coordinates", "copies", "reduces"
_OF_EDGE = "bandwidth", "latency", "energy", "tier"
_LEVEL = "size", "kind", "bandwidth", "latency", "two_way", "lanes", "name"


@frozen
class NodeLink(Topology):
    """A network from a graph: JSON node-link data of NetworkX, or GraphML.

    A node has a ``kind``: npu, switch, controller or memory. NPUs are numbered in the order of the file. An edge has a
    ``bandwidth``, and perhaps a ``latency``, an ``energy`` and a ``tier``; quantities are numbers in SI units, or text
    with a unit. An edge of an undirected graph is a link each way, one of a directed graph is one link. Several edges
    between two nodes are links side by side; a message takes the first of them.

    Messages take the fewest hops, unless the graph names another router. Levels and coordinates, which hierarchical
    algorithms need, may be in JSON.
    """

    name: ClassVar[str] = "node-link"

    file: File = units.file(help="JSON or GraphML file with the graph")
    ignore: tuple[str, ...] = units.option((), help="attributes of nodes, edges and of the graph that are passed over")

    def __attrs_post_init__(self) -> None:
        """Read the file.

        Raises:
            InputError: It is not such a graph; names file, place, value and what is accepted.
        """
        _ = self.fabric

    @cached_property
    def fabric(self) -> Fabric:
        """The network of the file."""
        graph = read(self.file.read(), self.file.path)
        return _Builder(graph, self.file.path, frozenset(self.ignore)).fabric()

    def build(self) -> Fabric:
        """Return the network of the file."""
        return self.fabric


@frozen
class _Builder:
    graph: Graph
    file: str
    ignored: frozenset[str]

    def fabric(self) -> Fabric:
        self._check_keys(self.graph.attributes, _OF_GRAPH, "graph")
        numbers = self._numbers()
        kinds, names, flags, places = self._nodes()
        if NodeKind.NPU not in kinds:
            raise self._error("nodes", "there is no npu", "nodes of the kind npu")
        sources, destinations, values = self._links(numbers)
        levels = self._levels()
        attributes = self.graph.attributes
        offers = attributes.get("offers", [])
        if not isinstance(offers, list) or any(one not in _OFFERS for one in offers):
            raise self._error("graph.offers", f"{offers!r} is refused", f"a list of {', '.join(_OFFERS)}")
        return Fabric(
            name=self._text(attributes, "name", "graph") or self.file.replace("\\", "/").rsplit("/", 1)[-1],
            kinds=np.array(kinds),
            sources=sources,
            destinations=destinations,
            bandwidths=values[0],
            latencies=values[1],
            energies=values[2],
            tiers=values[3],
            levels=levels,
            coordinates=self._coordinates(levels, kinds, places),
            offers=Capabilities(**dict.fromkeys(offers, True)),
            local_offers=self._flag(attributes, "local_offers", "graph", default=False),
            copies=flags[:, 0],
            reduces=flags[:, 1],
            defaults=Defaults(router=self._router()),
            node_names=names.__getitem__,
            notes=self._notes(),
        )

    def _numbers(self) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for place, name, attributes in self.graph.nodes:
            self._check_keys(attributes, _OF_NODE, place)
            if name in numbers:
                raise self._error(place, f"{name!r} is there twice", "nodes of different names")
            numbers[name] = len(numbers)
        return numbers

    def _nodes(self) -> tuple[list[NodeKind], list[str], Any, list[Any]]:
        """Return kind, name, the two flags and the coordinates of each node."""
        kinds, names, flags, places = list[NodeKind](), list[str](), list[tuple[bool, bool]](), list[Any]()
        for place, name, attributes in self.graph.nodes:
            kind = attributes.get("kind")
            if kind not in _KINDS:
                message = "is missing" if kind is None else f"{kind!r} is not a kind{nearest(str(kind), _KINDS)}"
                raise self._error(f"{place}.kind", message, ", ".join(_KINDS))
            kinds.append(_KINDS[kind])
            names.append(self._text(attributes, "name", place) or name)
            npu = kind == "npu"
            flags.append(
                (
                    self._flag(attributes, "copies", place, default=npu),
                    self._flag(attributes, "reduces", place, default=npu),
                )
            )
            places.append((place, attributes.get("coordinates")))
        return kinds, names, np.array(flags, dtype=bool).reshape(-1, 2), places

    def _links(self, numbers: Mapping[str, int]) -> tuple[Any, Any, list[Any]]:
        """Return the ends of the links, and their bandwidths, latencies, energies and tiers."""
        ends, rows = list[tuple[int, int]](), list[tuple[float, ...]]()
        for place, source, target, attributes in self.graph.edges:
            self._check_keys(attributes, _OF_EDGE, place)
            for end, name in (("source", source), ("target", target)):
                if name not in numbers:
                    raise self._error(f"{place}.{end}", f"there is no node {name!r}", "the id of a node")
            if source == target:
                raise self._error(place, f"both ends are {source!r}", "two different nodes")
            if "bandwidth" not in attributes:
                raise self._error(f"{place}.bandwidth", "is missing", units.accepted(units.Unit.BYTES_PER_SECOND))
            row = (
                self._quantity(attributes, "bandwidth", units.Unit.BYTES_PER_SECOND, place),
                self._quantity(attributes, "latency", units.Unit.SECONDS, place),
                self._quantity(attributes, "energy", units.Unit.JOULES_PER_BYTE, place),
                self._tier(attributes, place),
            )
            if not row[0]:
                raise self._error(f"{place}.bandwidth", "is 0", "more than 0 B/s")
            both = [(numbers[source], numbers[target])]
            if not self.graph.directed:
                both.append(both[0][::-1])
            ends += both
            rows += [row] * len(both)
        if not ends:
            raise self._error("edges", "there are none", "one or more")
        near, far = np.array(ends).T
        return near, far, list(np.array(rows).T)

    def _tier(self, attributes: Mapping[str, Any], place: str) -> int:
        tier = attributes.get("tier", 0)
        if isinstance(tier, bool) or not isinstance(tier, int) or not 0 <= tier < _TIERS:
            raise self._error(f"{place}.tier", f"{tier!r} is refused", f"a whole number below {_TIERS}")
        return tier

    def _quantity(self, attributes: Mapping[str, Any], key: str, unit: units.Unit, place: str) -> float:
        value = attributes.get(key, 0.0)
        try:
            number = units.parse(value, unit)
        except InputError as error:
            raise self._error(f"{place}.{key}", error.message, error.accepted or "") from None
        if number < 0:
            raise self._error(f"{place}.{key}", f"{value!r} is below 0", units.accepted(unit))
        return number

    def _levels(self) -> tuple[Level, ...]:
        given = self.graph.attributes.get("levels", [])
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise self._error("graph.levels", "is not a list of levels", f"objects with {', '.join(_LEVEL)}")
        levels = []
        for index, one in enumerate(given):
            place = f"graph.levels[{index}]"
            self._check_keys(one, _LEVEL, place)
            for key in ("size", "kind", "bandwidth"):
                if key not in one:
                    raise self._error(f"{place}.{key}", "is missing", f"an object with {', '.join(_LEVEL)}")
            kind = one["kind"]
            if kind not in _LEVEL_KINDS:
                raise self._error(f"{place}.kind", f"{kind!r} is not known", ", ".join(_LEVEL_KINDS))
            levels.append(
                Level(
                    self._whole(one, "size", place),
                    kind,
                    self._quantity(one, "bandwidth", units.Unit.BYTES_PER_SECOND, place),
                    self._quantity(one, "latency", units.Unit.SECONDS, place),
                    two_way=self._flag(one, "two_way", place, default=True),
                    lanes=self._whole(one, "lanes", place),
                    name=self._text(one, "name", place),
                )
            )
        return tuple(levels)

    def _coordinates(self, levels: Sequence[Level], kinds: Sequence[NodeKind], places: Sequence[Any]) -> Any:
        """Return the ``(NPUs, levels)`` coordinates; ``None`` without levels."""
        rows = []
        for kind, (place, given) in zip(kinds, places, strict=True):
            if given is not None and not levels:
                raise self._error(f"{place}.coordinates", "there are no levels", "graph.levels beside coordinates")
            if kind is not NodeKind.NPU or not levels:
                continue
            fits = isinstance(given, list) and len(given) == len(levels)
            if fits:
                pairs = zip(given, levels, strict=True)
                fits = all(type(one) is int and 0 <= one < level.size for one, level in pairs)
            if not fits:
                sizes = [level.size for level in levels]
                message = f"{given!r} are not coordinates in levels of {sizes}"
                raise self._error(f"{place}.coordinates", message, "a position in each level")
            rows.append(given)
        if not levels:
            return None
        if len(np.unique(np.array(rows), axis=0)) < len(rows):
            raise self._error("nodes", "two NPUs have the same coordinates", "different ones")
        return np.array(rows)

    def _router(self) -> Router:
        name = self.graph.attributes.get("router", ShortestPathRouter.name)
        if name not in _ROUTERS:
            raise self._error("graph.router", f"{name!r} is not known", ", ".join(_ROUTERS))
        return _ROUTERS[name]()

    def _notes(self) -> tuple[str, ...]:
        given = self.graph.attributes.get("notes", [])
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise self._error("graph.notes", "is not a list of texts", "a list of texts")
        without = sum("latency" not in attributes for *_, attributes in self.graph.edges)
        if without:
            given = [*given, f"{self.file} has no latency for {without} of {len(self.graph.edges)} edges: 0 s"]
        return tuple(given)

    def _whole(self, table: Mapping[str, Any], key: str, place: str) -> int:
        value = table.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._error(f"{place}.{key}", f"{value!r} is refused", "a whole number of at least 1")
        return value

    def _flag(self, table: Mapping[str, Any], key: str, place: str, *, default: bool) -> bool:
        value = table.get(key, default)
        if not isinstance(value, bool):
            raise self._error(f"{place}.{key}", f"{value!r} is not a truth value", "true or false")
        return value

    def _text(self, table: Mapping[str, Any], key: str, place: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str):
            raise self._error(f"{place}.{key}", f"{value!r} is not text", "text")
        return value

    def _check_keys(self, table: Mapping[str, Any], known: Sequence[str], place: str) -> None:
        for key in table:
            if key not in known and key not in self.ignored:
                accepted = f"{', '.join(known)}; or the name in the field ignore"
                raise self._error(f"{place}.{key}", f"unknown attribute{nearest(key, known)}", accepted)

    def _error(self, key: str, message: str, accepted: str) -> InputError:
        return InputError(message, file=self.file, key=key, accepted=accepted)


_TIERS = 128
_LEVEL_KINDS = "ring", "line", "fully-connected", "switch"
