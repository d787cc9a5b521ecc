"""The topology ``node-link``: any graph of nodes and links, as NetworkX writes it."""

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import defusedxml.ElementTree
import numpy as np
from attrs import frozen
from defusedxml import DefusedXmlException

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
from fredfw.tables import (
    as_choice,
    as_flag,
    as_quantity,
    as_table,
    as_tables,
    as_text,
    as_whole,
    check_keys,
    parse_json,
)

__all__ = ["NodeLink"]

fredfw_contract = 2

FORMS = "JSON node-link data with nodes and edges, or GraphML"
_KEYS = ("directed", "multigraph", "graph", "nodes", "edges", "links")


@frozen
class Graph:
    """A graph as a file has it: place in the file, name or names of both ends, and attributes of nodes and edges."""

    directed: bool
    attributes: Mapping[str, Any]
    nodes: tuple[tuple[str, str, Mapping[str, Any]], ...]
    edges: tuple[tuple[str, str, str, Mapping[str, Any]], ...]


def read(content: bytes) -> Graph:
    xml = content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    return _graphml(content) if xml else _node_link(content)


def _node_link(content: bytes) -> Graph:
    data = parse_json(content, accepted=FORMS)
    if not isinstance(data, dict):
        raise InputError("is not a JSON object", accepted=FORMS)
    check_keys(data, _KEYS, "")
    directed = as_flag(data.get("directed", False), "directed")
    called = "edges" if "edges" in data else "links"
    attributes = as_table(data.get("graph", {}), "graph", accepted="an object of attributes")
    places = as_tables(data.get("nodes"), "nodes", accepted=FORMS)
    nodes = tuple((place, _name(one, "id", place), _without(one, "id")) for place, one in places)
    edges = tuple(
        (place, _name(one, "source", place), _name(one, "target", place), _without(one, "source", "target", "key"))
        for place, one in as_tables(data.get(called), called, accepted=FORMS)
    )
    return Graph(directed, attributes, nodes, edges)


def _name(entry: Mapping[str, Any], key: str, place: str) -> str:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int):
        message = "is missing" if value is None else f"{value!r} is not a name"
        raise InputError(message, key=f"{place}.{key}", accepted="text or an integer")
    return str(value)


def _without(entry: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in keys}


def _graphml(content: bytes) -> Graph:
    try:
        # NetworkX reads with the parser of the standard library, which follows entities.
        defusedxml.ElementTree.fromstring(content, forbid_dtd=True)
    except DefusedXmlException as error:
        raise InputError(f"has a DTD or an entity: {error}", accepted="GraphML without them") from None
    except defusedxml.ElementTree.ParseError as error:
        raise InputError(f"is not XML: {error}", accepted=FORMS) from None
    import networkx

    try:
        graph = networkx.parse_graphml(content.decode("utf-8-sig"))
    except (networkx.NetworkXException, ValueError, KeyError, TypeError, StopIteration) as error:
        raise InputError(f"is not GraphML: {error}", accepted=FORMS) from None
    nodes = tuple((f"node {name!r}", str(name), attributes) for name, attributes in graph.nodes(data=True))
    edges = tuple(
        (f"edge {source!r} to {target!r}", str(source), str(target), _without(attributes, "id"))
        for source, target, attributes in graph.edges(data=True)
    )
    return Graph(graph.is_directed(), _without(graph.graph, "node_default", "edge_default"), nodes, edges)


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
        _ = self.fabric

    @cached_property
    def fabric(self) -> Fabric:
        """The network of the file."""
        with self.file.named():
            return self._fabric(read(self.file.read()))

    def build(self) -> Fabric:
        return self.fabric

    def _fabric(self, graph: Graph) -> Fabric:
        attributes = graph.attributes
        self._check_keys(attributes, _OF_GRAPH, "graph")
        kinds, names, flags, places = self._nodes(graph)
        sources, destinations, values = self._links(graph)
        levels = self._levels(attributes.get("levels", []))
        offers = attributes.get("offers", [])
        if not isinstance(offers, list) or any(one not in _OFFERS for one in offers):
            raise _wrong("graph.offers", f"{offers!r} is refused", f"a list of {', '.join(_OFFERS)}")
        router = as_choice(attributes.get("router", ShortestPathRouter.name), _ROUTERS, "graph.router")
        return Fabric(
            name=_text(attributes, "name", "graph") or self.file.name,
            kinds=np.array(kinds),
            sources=sources,
            destinations=destinations,
            bandwidths=values[0],
            latencies=values[1],
            energies=values[2],
            tiers=values[3],
            levels=levels,
            coordinates=_coordinates(levels, kinds, places),
            offers=Capabilities(**dict.fromkeys(offers, True)),
            local_offers=as_flag(attributes.get("local_offers", False), "graph.local_offers"),
            copies=flags[:, 0],
            reduces=flags[:, 1],
            defaults=Defaults(router=_ROUTERS[router]()),
            node_names=names.__getitem__,
            notes=self._notes(graph),
        )

    def _nodes(self, graph: Graph) -> tuple[list[NodeKind], list[str], Any, list[Any]]:
        """Return kind, name, the two flags, and the place and the coordinates of each node."""
        kinds, names, flags, places = list[NodeKind](), list[str](), list[list[bool]](), list[Any]()
        seen = set[str]()
        for place, name, attributes in graph.nodes:
            self._check_keys(attributes, _OF_NODE, place)
            if name in seen:
                raise _wrong(place, f"{name!r} is there twice", "nodes of different names")
            seen.add(name)
            if (kind := attributes.get("kind")) is None:
                raise _wrong(f"{place}.kind", "is missing", ", ".join(_KINDS))
            kinds.append(_KINDS[as_choice(kind, _KINDS, f"{place}.kind")])
            names.append(_text(attributes, "name", place) or name)
            able = {key: attributes.get(key, kind == "npu") for key in ("copies", "reduces")}
            flags.append([as_flag(one, f"{place}.{key}") for key, one in able.items()])
            places.append((place, attributes.get("coordinates")))
        if NodeKind.NPU not in kinds:
            raise _wrong("nodes", "there is no npu", "nodes of the kind npu")
        return kinds, names, np.array(flags, dtype=bool), places

    def _links(self, graph: Graph) -> tuple[Any, Any, list[Any]]:
        """Return the ends of the links, and their bandwidths, latencies, energies and tiers."""
        numbers = {name: number for number, (_, name, _) in enumerate(graph.nodes)}
        ends, rows = list[tuple[int, int]](), list[tuple[float, ...]]()
        for place, source, target, attributes in graph.edges:
            self._check_keys(attributes, _OF_EDGE, place)
            for end, name in (("source", source), ("target", target)):
                if name not in numbers:
                    raise _wrong(f"{place}.{end}", f"there is no node {name!r}", "the id of a node")
            if source == target:
                raise _wrong(place, f"both ends are {source!r}", "two different nodes")
            quantities = [_quantity(attributes, key, unit, place) for key, unit in _QUANTITIES.items()]
            tier = as_whole(attributes.get("tier", 0), f"{place}.tier", 0, _TIERS - 1)
            ends.append((numbers[source], numbers[target]))
            rows.append((*quantities, tier))
        if not ends:
            raise _wrong("edges", "there are none", "one or more")
        both, columns = np.array(ends), np.array(rows)
        if not graph.directed:
            both, columns = np.stack([both, both[:, ::-1]], axis=1).reshape(-1, 2), np.repeat(columns, 2, axis=0)
        return both[:, 0], both[:, 1], list(columns.T)

    def _levels(self, given: Any) -> tuple[Level, ...]:
        accepted = f"with {', '.join(_LEVEL)}"
        levels = []
        for place, one in as_tables(given, "graph.levels", accepted=f"objects {accepted}"):
            self._check_keys(one, _LEVEL, place)
            for key in ("size", "kind", "bandwidth"):
                if key not in one:
                    raise _wrong(f"{place}.{key}", "is missing", f"an object {accepted}")
            as_choice(one["kind"], _LEVEL_KINDS, f"{place}.kind")
            levels.append(
                Level(
                    as_whole(one["size"], f"{place}.size", 1, sys.maxsize),
                    one["kind"],
                    _quantity(one, "bandwidth", units.Unit.BYTES_PER_SECOND, place),
                    _quantity(one, "latency", units.Unit.SECONDS, place),
                    two_way=as_flag(one.get("two_way", True), f"{place}.two_way"),
                    lanes=as_whole(one.get("lanes", 1), f"{place}.lanes", 1, sys.maxsize),
                    name=_text(one, "name", place),
                )
            )
        return tuple(levels)

    def _notes(self, graph: Graph) -> tuple[str, ...]:
        given = graph.attributes.get("notes", [])
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise _wrong("graph.notes", "is not a list of texts", "a list of texts")
        if without := sum("latency" not in attributes for *_, attributes in graph.edges):
            given = [*given, f"{self.file.path} has no latency for {without} of {len(graph.edges)} edges: 0 s"]
        return tuple(given)

    def _check_keys(self, table: Mapping[str, Any], known: Sequence[str], place: str) -> None:
        for key in table:
            if key not in known and key not in self.ignore:
                accepted = f"{', '.join(known)}; or the name in the field ignore"
                raise _wrong(f"{place}.{key}", f"unknown attribute{nearest(key, known)}", accepted)


def _coordinates(levels: Sequence[Level], kinds: Sequence[NodeKind], places: Sequence[Any]) -> Any:
    """Return the ``(NPUs, levels)`` coordinates; ``None`` without levels."""
    sizes = [level.size for level in levels]
    rows = []
    for kind, (place, given) in zip(kinds, places, strict=True):
        if given is not None and not levels:
            raise _wrong(f"{place}.coordinates", "there are no levels", "graph.levels beside coordinates")
        if kind is not NodeKind.NPU or not levels:
            continue
        fits = isinstance(given, list) and len(given) == len(levels)
        if not fits or not all(type(one) is int and 0 <= one < size for one, size in zip(given, sizes, strict=True)):
            message = f"{given!r} are not coordinates in levels of {sizes}"
            raise _wrong(f"{place}.coordinates", message, "a position in each level")
        rows.append(given)
    if not levels:
        return None
    if len(np.unique(np.array(rows), axis=0)) < len(rows):
        raise _wrong("nodes", "two NPUs have the same coordinates", "different ones")
    return np.array(rows)


def _quantity(table: Mapping[str, Any], key: str, unit: units.Unit, place: str) -> float:
    exclusive = unit is units.Unit.BYTES_PER_SECOND
    return as_quantity(table.get(key, None if exclusive else 0.0), unit, f"{place}.{key}", exclusive=exclusive)


def _text(table: Mapping[str, Any], key: str, place: str) -> str:
    return as_text(table.get(key, ""), f"{place}.{key}")


def _wrong(key: str, message: str, accepted: str) -> InputError:
    return InputError(message, key=key, accepted=accepted)


_QUANTITIES = {
    "bandwidth": units.Unit.BYTES_PER_SECOND,
    "latency": units.Unit.SECONDS,
    "energy": units.Unit.JOULES_PER_BYTE,
}
_TIERS = 128
_LEVEL_KINDS = "ring", "line", "fully-connected", "switch"
