"""Predicts collectives that were timed alone: simulates them on the fabric that stands for the system."""

from __future__ import annotations

from typing import Any

import numpy as np

from fredfw.collectives import CollectiveRequest, Pattern
from fredfw.errors import InputError
from fredfw.experiment.runner import Bench, sharing_of
from fredfw.plugin import configure, schema
from fredfw.plugin.contract import built
from fredfw.plugin.manager import PluginManager
from fredfw.typing import IntArray
from fredfw.validation.points import SENDRECV, CollectivePoint

TOPOLOGY = "cluster"
# What communication libraries do, and no more: "auto" would find what none of them has, and takes minutes to.
_ALGORITHMS: tuple[str | dict[str, Any], ...] = "direct", "ring", {"name": "hierarchical", "chunks": 8}


class Collectives:
    """Simulates each different collective once, and keeps what simulations on one fabric share.

    Args:
        plugins: The topology, and the algorithms that ``auto`` chooses among.
    """

    def __init__(self, plugins: PluginManager) -> None:
        self._plugins = plugins
        registries = plugins.registries
        self._algorithms = tuple(
            configure.choose(one, plugins.collectives, registries=lambda: registries) for one in _ALGORITHMS
        )
        self._benches: dict[tuple[str, int], Bench] = {}
        self._seconds: dict[tuple[str, int, int, str, float], float] = {}

    def check(self, point: CollectivePoint) -> None:
        """Make sure that ``point`` fits the fabric of its system.

        Raises:
            InputError: It has more ranks in a node than there are; names where the point is from.
        """
        try:
            each = self._each(point)
        except InputError as error:
            raise InputError(f"{point.where}: {error}") from None
        if point.ranks > each * point.nodes:
            message = f"{point.ranks} ranks on {point.nodes} nodes of {point.system.preset}"
            raise InputError(message, key=point.where, accepted=f"at most {each} on each")

    def seconds(self, point: CollectivePoint) -> float:
        """Return how long ``point`` takes.

        Raises:
            UnsupportedError: No algorithm can do it.
        """
        key = point.system.preset, point.nodes, point.ranks, point.pattern, point.size
        if key not in self._seconds:
            group = self._group(point)
            if point.pattern == SENDRECV:
                pattern, group = Pattern.POINT_TO_POINT, _farthest(group, point.ranks // point.nodes)
            else:
                pattern = Pattern(point.pattern)
            request = CollectiveRequest(pattern, len(group), point.size)
            self._seconds[key] = self._bench(point).collective(request, group).duration
        return self._seconds[key]

    def _bench(self, point: CollectivePoint) -> Bench:
        key = point.system.preset, point.nodes
        if key not in self._benches:
            cls = self._plugins.topologies.get(TOPOLOGY)
            fields = {"preset": point.system.preset, "nodes": point.nodes}
            fabric = built(configure.build(cls, fields, registries=lambda: self._plugins.registries))
            sharing = sharing_of(fabric, self._plugins)
            self._benches[key] = Bench(fabric, sharing, {None: self._algorithms}, self._plugins, fastest=True)
        return self._benches[key]

    def _each(self, point: CollectivePoint) -> int:
        """Return how many NPUs a node of the system has."""
        return len(self._bench(point).fabric.npus) // point.nodes

    def _group(self, point: CollectivePoint) -> IntArray:
        """Return the NPUs that take part: the first of each node, in node order."""
        first = np.arange(point.nodes)[:, None] * self._each(point)
        members: IntArray = (first + np.arange(point.ranks // point.nodes)).ravel()
        return members


def presets(plugins: PluginManager) -> tuple[str, ...]:
    """Return the presets of the topology ``cluster``, which may be systems; none where it is not installed."""
    if TOPOLOGY not in plugins.topologies:
        return ()
    return tuple(schema.settings(plugins.topologies.get(TOPOLOGY))["preset"].accepted.split(", "))


def _farthest(group: IntArray, each: int) -> IntArray:
    """Return the two neighbours of a ring that are farthest apart: ranks that follow each other in different nodes.

    All ranks send to the next one at once. Each link carries one message each way then, so that the slowest message,
    which is that between nodes, has its links for itself.
    """
    pair: IntArray = group[each - 1 : each + 1] if len(group) > each else group[:2]
    return pair
