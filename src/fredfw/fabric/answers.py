"""Routers are asked here, and their answers are checked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from fredfw import limits
from fredfw.answers import Asking, brief, speaks_for
from fredfw.fabric.flows import Operation, Routes
from fredfw.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from fredfw.fabric.fabric import Fabric
    from fredfw.fabric.routing import Router

# The hops of so many pairs are not worth a question, and those of more are estimated from so many of them.
_MANY, _SAMPLE = 50_000, 64
_INTEGER, _FLOAT = np.dtype(np.intp), np.dtype(np.float64)
_INFINITE = np.float64(np.inf).view(np.uint64)
_COLUMNS = {"offsets": "integers", "links": "integers", "latencies": "seconds", "coefficients": "shares"}


def route(router: Router, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
    """Return one route per pair of nodes, as ``Router.route`` does; ``LimitError`` for too many hops."""
    memories = fabric.memories
    if memories is not None:
        network = memories.network
        return memories.route(fabric, sources, destinations, lambda one, other: route(router, network, one, other))
    limits.check("hops", hops(router, fabric, sources, destinations))
    asked = Asking(router, "route")
    with asked:
        answer: object = router.route(fabric, sources, destinations)
    if len(sources) == 1 and _is_path(answer, fabric, int(sources[0]), int(destinations[0])):
        return answer
    return _joining(asked, answer, fabric, sources, destinations)


def hops(router: Router, fabric: Fabric, sources: IntArray, destinations: IntArray) -> int:
    """Return about how many links the routes of many pairs of nodes cross in all, by those of a few; 0 of few pairs."""
    if len(sources) <= _MANY:
        return 0
    few = np.random.default_rng(0).integers(0, len(sources), _SAMPLE)  # even steps may find neighbours alone
    return len(route(router, fabric, sources[few], destinations[few]).links) * len(sources) // _SAMPLE


def path(router: Router, fabric: Fabric, source: int, destination: int) -> Routes:
    """Return the route of one pair; a router whose ``route`` is more derived than its ``path`` is asked for that."""
    leads = fabric.memories is not None and fabric.memories.leads(np.array([source, destination]))
    if leads or not speaks_for(type(router), "path", "route"):
        return route(router, fabric, np.array([source]), np.array([destination]))
    fabric = fabric.network
    asked = Asking(router, "path")
    with asked:
        answer: object = router.path(fabric, source, destination)
    if _is_path(answer, fabric, source, destination):
        return answer
    return _joining(asked, answer, fabric, np.array([source]), np.array([destination]))


def _is_path(answer: object, fabric: Fabric, source: int, destination: int) -> TypeGuard[Routes]:
    """Return whether ``answer`` is one route in the order of its way, in the usual types; others may be right, too."""
    if not isinstance(answer, Routes):
        return False
    shares = answer.coefficients
    columns: list[tuple[object, object]] = [(answer.offsets, _INTEGER), (answer.links, _INTEGER)]
    columns += [(column, _FLOAT) for column in (answer.latencies, shares) if column is not None]
    for column, kind in columns:
        if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype != kind:
            return False
    links, latencies = answer.links, answer.latencies.tolist()
    if answer.offsets.tolist() != [0, len(links)] or len(latencies) != 1 or not 0 <= latencies[0] < math.inf:
        return False
    if not len(links):
        return source == destination and shares is None
    # Unsigned, negative numbers are the largest, and bits of what is not finite are infinity's or more: one pass each.
    if np.maximum.reduce(links.view(np.uintp)) >= len(fabric.bandwidths):
        return False
    if shares is not None and not (len(shares) == len(links) and np.maximum.reduce(shares.view(np.uint64)) < _INFINITE):
        return False
    return source == destination or (fabric.sources[links[0]], fabric.destinations[links[-1]]) == (source, destination)


def _joining(asked: Asking, answer: object, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
    """Return ``answer``, which must be one route on ``fabric`` for each pair, with links that join the two."""
    routes = _checked(asked, answer, fabric, len(sources))
    apart = sources != destinations
    far: IntArray | slice = slice(None) if apart.all() else np.flatnonzero(apart)
    begin, end = routes.offsets[:-1][far], routes.offsets[1:][far]
    if (begin == end).any():
        flow = int(np.flatnonzero(apart)[(begin == end).argmax()])
        raise _misses(asked, fabric, sources[flow], destinations[flow], "has no links")
    for what, link, ends, nodes in (
        ("leaves its source", begin, fabric.sources, sources),
        ("enters its destination", end - 1, fabric.destinations, destinations),
    ):
        # Most routes are paths in order; in others the link at the end is anywhere.
        elsewhere = ends[routes.links[link]] != nodes[far]
        if elsewhere.any():
            loose = np.flatnonzero(apart)[elsewhere]
            counts = routes.offsets[loose + 1] - routes.offsets[loose]
            at_end = ends[routes.links_of(loose)] == np.repeat(nodes[loose], counts)
            found = np.logical_or.reduceat(at_end, np.cumsum(counts) - counts)
            if not found.all():
                flow = int(loose[found.argmin()])
                raise _misses(asked, fabric, sources[flow], destinations[flow], f"has no link that {what}")
    return routes


def tree(router: Router, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
    memories = fabric.memories
    if memories is not None and (memories.leads(sources) or memories.leads(destinations)):
        return memories.tree(fabric, sources, destinations, operation)
    fabric = fabric.network
    asked = Asking(router, "tree")
    with asked:
        answer: object = router.tree(fabric, sources, destinations, operation)
    routes = _checked(asked, answer, fabric, 1)
    if not len(routes.links) and len({*sources.tolist(), *destinations.tolist()}) > 1:
        raise _misses(asked, fabric, sources[0], destinations[-1], "has no links")
    return routes


def _misses(asked: Asking, fabric: Fabric, source: int, destination: int, what: str) -> Exception:
    ends = f"from {fabric.node_name(int(source))} to {fabric.node_name(int(destination))}"
    return asked.wrong(f"returned a route {ends} that {what}", "links that join the two")


def _checked(asked: Asking, answer: object, fabric: Fabric, count: int) -> Routes:
    if not isinstance(answer, Routes):
        raise asked.unexpected(answer, "fredfw.Routes")
    wrong = wrong_routes(answer, fabric, count)
    if wrong is not None:
        raise asked.wrong(f"returned routes with {wrong[0]}", wrong[1])
    return answer


def wrong_routes(routes: Routes, fabric: Fabric, count: int | None = None) -> tuple[str, str] | None:
    """Return what is wrong with so many routes, if that is given, on ``fabric`` and what is expected, if anything."""
    for name, accepted in _COLUMNS.items():
        kinds = "iu" if accepted == "integers" else "fiu"
        column: object = getattr(routes, name)
        if column is None and name == "coefficients":
            continue
        if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind not in kinds:
            return f"{name} {brief(column)}", f"an array of {accepted}"
    offsets, links, latencies, coefficients = routes.offsets, routes.links, routes.latencies, routes.coefficients
    if count is None:
        count = len(latencies)
    if len(offsets) != count + 1:
        return f"{len(offsets)} offsets", f"{count + 1} for {count} routes"
    if offsets[0] != 0 or offsets[-1] != len(links) or (offsets[1:] < offsets[:-1]).any():
        return f"offsets that do not cut its {len(links)} links", "0 to all, in order"
    total = len(fabric.bandwidths)
    if len(links) and not 0 <= links.min() <= links.max() < total:
        link = links[(links < 0) | (links >= total)][0]
        return f"link {link}", f"links 0 to {total - 1} of {fabric.name!r}"
    if len(latencies) != count:
        return f"{len(latencies)} latencies", f"{count}, one for each route"
    if count and not 0 <= latencies.min() <= latencies.max() < np.inf:
        return f"latency {_outside(latencies)}", "seconds, finite and not negative"
    if coefficients is not None:
        if len(coefficients) != len(links):
            return f"{len(coefficients)} coefficients", f"{len(links)}, one per link"
        if len(links) and not 0 <= coefficients.min() <= coefficients.max() < np.inf:
            return f"coefficient {_outside(coefficients)}", "finite shares, 0 or more"
    return None


def _outside(values: FloatArray) -> float:
    return float(values[~((values >= 0) & (values < np.inf))][0])
