"""Graphs in files: JSON node-link data and GraphML, as one list of nodes and one of edges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import defusedxml.ElementTree
from attrs import frozen
from defusedxml import DefusedXmlException

from fredfw.errors import InputError
from fredfw.tables import check_keys

FORMS = "JSON node-link data with nodes and edges, or GraphML"
_KEYS = ("directed", "multigraph", "graph", "nodes", "edges", "links")


@frozen
class Graph:
    """A graph as a file has it.

    Args:
        directed: Whether an edge goes one way; otherwise it goes both ways.
        attributes: Of the graph.
        nodes: Place in the file, name, and attributes of each node.
        edges: Place in the file, names of both ends, and attributes of each edge.
    """

    directed: bool
    attributes: Mapping[str, Any]
    nodes: tuple[tuple[str, str, Mapping[str, Any]], ...]
    edges: tuple[tuple[str, str, str, Mapping[str, Any]], ...]


def read(content: bytes) -> Graph:
    """Return the graph in ``content``; raises ``InputError`` that names place and what is accepted."""
    xml = content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    return _graphml(content) if xml else _node_link(content)


def _node_link(content: bytes) -> Graph:
    try:
        data = json.loads(content)
    except json.JSONDecodeError as error:
        raise InputError(f"line {error.lineno}, column {error.colno}: {error.msg}", accepted=FORMS) from None
    except (ValueError, RecursionError) as error:  # bytes that are no text, integers of many digits, deep nesting
        raise InputError(f"is not JSON: {error}", accepted=FORMS) from None
    if not isinstance(data, dict):
        raise InputError("is not a JSON object", accepted=FORMS)
    check_keys(data, _KEYS, "")
    directed = data.get("directed", False)
    if not isinstance(directed, bool):
        raise InputError(f"{directed!r} is not a truth value", key="directed", accepted="true or false")
    called = "edges" if "edges" in data else "links"
    attributes = data.get("graph", {})
    if not isinstance(attributes, dict):
        raise InputError("is not an object", key="graph", accepted="an object of attributes")
    nodes = tuple((place, _name(one, "id", place), _without(one, "id")) for place, one in _entries(data, "nodes"))
    edges = tuple(
        (place, _name(one, "source", place), _name(one, "target", place), _without(one, "source", "target", "key"))
        for place, one in _entries(data, called)
    )
    return Graph(directed, attributes, nodes, edges)


def _entries(data: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    listed = data.get(key)
    if not isinstance(listed, list):
        raise InputError("is missing" if listed is None else "is not a list", key=key, accepted=FORMS)
    for index, one in enumerate(listed):
        if not isinstance(one, dict):
            raise InputError("is not an object", key=f"{key}[{index}]", accepted=FORMS)
        yield f"{key}[{index}]", one


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
