"""Predicts collectives that were timed alone: simulates them on the fabric that stands for the system."""

import numpy as np

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern
from fredfw.errors import InputError, placed
from fredfw.experiment.cell.bench import Bench
from fredfw.fabric import Fabric
from fredfw.fidelities import EXACT
from fredfw.plugin import configure, schema
from fredfw.plugin.manager import PluginManager
from fredfw.simulation import Simulator, answers
from fredfw.typing import IntArray
from fredfw.units import counted
from fredfw.validation.points import SENDRECV, CollectivePoint, pattern_of
from fredfw.validation.transports import TOPOLOGY, Predictor, Transports, fabric

# What data sheets are judged by, for transports that name no library; "auto" takes minutes and finds what none has.
_USUAL = "direct", "ring", {"name": "hierarchical", "chunks": 1}, {"name": "hierarchical", "chunks": 8}


class Collectives(Predictor):
    """Simulates collectives, and keeps what simulations on one fabric share."""

    def __init__(self, plugins: PluginManager, transports: Transports) -> None:
        super().__init__(plugins, transports)
        self._benches: dict[tuple[str, int, str], Bench] = {}

    def check(self, point: CollectivePoint) -> None:
        try:
            nodes = self._nodes(point)
        except InputError as error:
            raise InputError(f"{point.where}: {error}") from None
        name, each = point.system.preset or point.system.name, min(map(len, nodes))
        message = f"{point.ranks} ranks on {counted(point.nodes, 'node')} of {name}"
        if point.nodes > len(nodes):
            raise InputError(message, key=point.where, accepted=f"at most {counted(len(nodes), 'node')}")
        if point.ranks > each * point.nodes:
            raise InputError(message, key=point.where, accepted=f"at most {each} on each")

    def _predicted(self, point: CollectivePoint) -> float:
        bench, each = self._bench(point), point.ranks // point.nodes
        group = np.concatenate([one[:each] for one in self._nodes(point)[: point.nodes]])
        if point.pattern == SENDRECV:
            # The two neighbours that are farthest apart: as all ranks send at once, and each link carries one message
            # each way, the slowest message, which is that between nodes, has its links for itself.
            group = group[each - 1 : each + 1] if len(group) > each else group[:2]
        request = CollectiveRequest(pattern_of(point.pattern), len(group), point.size)
        with placed(key=point.where):
            return bench.collective(request, group, EXACT).duration

    def _bench(self, point: CollectivePoint) -> Bench:
        transport = self._transports.of(point)
        own = point.system.fabric
        key = point.system.name, 0 if own else point.nodes, repr(transport)
        if key not in self._benches:
            network = fabric(point.system, point.nodes, self._plugins).with_defaults(transport=transport)
            candidates = own.collectives if own and own.collectives else self._algorithms(network)
            self._benches[key] = Bench(network, candidates, self._plugins, fastest=True, worthwhile=True)
        return self._benches[key]

    def _algorithms(self, fabric: Fabric) -> dict[Pattern | None, tuple[CollectiveAlgorithm, ...]]:
        """Return what a point may be served by: what the library of the transport has, where it names any."""
        known, registries = self._plugins.collectives, lambda: self._plugins.registries
        usual = tuple(configure.choose(one, known, registries=registries) for one in _USUAL)
        found = Simulator(fabric).automatic(known)
        for pattern in Pattern:
            if answers.algorithms(fabric.defaults.transport, str(pattern)) is None:
                found[pattern] = usual
        return found

    def _nodes(self, point: CollectivePoint) -> list[IntArray]:
        """Return the NPUs of each node: those of each server, or equal parts of the only one."""
        network = self._bench(point).fabric
        servers = network.servers[network.npus]
        nodes = [np.flatnonzero(servers == one) for one in np.unique(servers)]
        return nodes if len(nodes) > 1 else np.array_split(nodes[0], point.nodes)


def presets(plugins: PluginManager) -> tuple[str, ...]:
    """Return the presets of the topology ``cluster``, which may be systems; none where it is not installed."""
    if TOPOLOGY not in plugins.topologies:
        return ()
    return tuple(schema.settings(plugins.topologies.get(TOPOLOGY))["preset"].accepted.split(", "))
