"""The topology ``simai``: its fields, how a listing becomes a fabric, and its router."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import (
    Defaults,
    Fabric,
    File,
    MultipathRouter,
    NodeKind,
    Operation,
    Router,
    Routes,
    ShortestPathRouter,
    Topology,
    limits,
    units,
    with_servers,
)
from fredfw.errors import InputError
from fredfw.typing import IntArray
from fredfw_topology_simai.listing import Listing, read


@frozen
class SimaiRouter(Router):
    """Routes over NVLinks between GPUs of one server, and over all shortest paths between servers.

    A server is what links of tier 0 connect; a network of one tier has no servers. Of equally short paths in a server
    the one over the switch with the lowest number is taken, which is the NVSwitch. Trees are those of the router
    ``shortest-path``.
    """

    name: ClassVar[str] = "simai"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """See ``Router.route``; raises ``UnsupportedError`` where there is no path."""
        inside = (fabric.servers[sources] == fabric.servers[destinations]) & fabric.tiers.any()
        parts = []
        for router, chosen in ((ShortestPathRouter(), inside), (MultipathRouter(through_npus=False), ~inside)):
            if chosen.all():
                return router.route(fabric, sources, destinations)
            parts.append(router.route(fabric, sources[chosen], destinations[chosen]))
        order = np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)])
        return Routes.concatenate(parts).select(np.argsort(order))

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``."""
        return ShortestPathRouter().tree(fabric, sources, destinations, operation)


@frozen
class Simai(Topology):
    """The network of a topology file of SimAI, or of ASTRA-sim's ns-3 backend, which is nearly the same.

    Nodes that are not switches are NPUs. A link goes both ways. Messages in a server go over its NVSwitch, others are
    spread over all shortest paths. NPUs forward nothing for others where switches alone connect two of them. The GPUs
    of a server on its NVSwitch, and the servers, are the two levels of a file of SimAI; a file for ns-3 has no levels.
    Error rates are not simulated.
    """

    name: ClassVar[str] = "simai"

    file: File = units.file(help="topology file of SimAI, or of ASTRA-sim for ns-3")

    def __attrs_post_init__(self) -> None:
        """Read the file; raises ``InputError`` as ``listing.read`` does, and where no node is an NPU."""
        if not len(self._npus):
            raise InputError("all nodes are switches", file=self.file.path, accepted="one node or more that is not")

    @cached_property
    def listing(self) -> Listing:
        """What the file has."""
        with self.file.named():
            found = read(self.file.text())
        limits.check("nodes", found.nodes)
        limits.check("links", 2 * len(found.links))
        return found

    @cached_property
    def _npus(self) -> IntArray:
        listing = self.listing
        return np.setdiff1d(np.arange(listing.nodes), (*listing.nvswitches, *listing.switches))

    @property
    def scopes(self) -> tuple[str, ...]:
        """See ``Topology.scopes``; a file for ns-3 does not say what its links join."""
        return ("inter-package", "inter-pod") if self.listing.nvswitches else ()

    def build(self) -> Fabric:
        """Return the network; nodes have the numbers of the file, and links come in its order, there and back."""
        listing = self.listing
        npu = np.isin(np.arange(listing.nodes), self._npus)
        ends = np.array([link[:2] for link in listing.links], dtype=np.intp).reshape(-1, 2)
        values = np.array([link[2:] for link in listing.links]).reshape(-1, 3)
        inside = np.isin(ends, listing.nvswitches).any(axis=1)
        fabric = Fabric(
            name=self.file.name,
            kinds=np.where(npu, NodeKind.NPU, NodeKind.SWITCH),
            sources=ends.ravel(),
            destinations=ends[:, ::-1].ravel(),
            bandwidths=np.repeat(values[:, 0], 2),
            latencies=np.repeat(values[:, 1], 2),
            energies=0.0,
            copies=npu,
            reduces=npu,
            tiers=np.repeat(~inside, 2) if listing.nvswitches else 0,
            defaults=Defaults(router=SimaiRouter()),
            notes=(f"{self.file.path} has error rates, which are not simulated",) if values[:, 2].any() else (),
        )
        return with_servers(fabric, listing.per_server) if self._is_even(fabric) else fabric

    def _is_even(self, fabric: Fabric) -> bool:
        """Return whether the GPUs of each server have successive numbers and a link to the same NVSwitch."""
        own, npus = self.listing.per_server, self._npus
        if not own or len(npus) % own or not np.array_equal(npus, np.arange(len(npus))):
            return False
        upwards = np.isin(fabric.destinations, self.listing.nvswitches) & (fabric.kinds[fabric.sources] == NodeKind.NPU)
        switch = np.full(len(fabric.kinds), -1)
        switch[fabric.sources[upwards]] = fabric.destinations[upwards]
        groups = switch[npus.reshape(-1, own)]
        return own == 1 or bool((groups >= 0).all() and (groups == groups[:, :1]).all())
