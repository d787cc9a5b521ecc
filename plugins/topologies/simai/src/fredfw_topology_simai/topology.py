"""The topology ``simai``: its fields, and how a listing becomes a fabric."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Fabric, File, NodeKind, Topology, limits, units, with_servers
from fredfw.errors import InputError
from fredfw.typing import IntArray
from fredfw_topology_simai.listing import Listing, read
from fredfw_topology_simai.routing import SimaiRouter


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
        found = read(self.file.text(), self.file.path)
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
        kinds = np.full(listing.nodes, NodeKind.SWITCH)
        kinds[self._npus] = NodeKind.NPU
        ends = np.array([link[:2] for link in listing.links], dtype=np.intp).reshape(-1, 2)
        values = np.array([link[2:] for link in listing.links]).reshape(-1, 3)
        inside = np.isin(ends, listing.nvswitches).any(axis=1)
        fabric = Fabric(
            name=self.file.path.replace("\\", "/").rsplit("/", 1)[-1],
            kinds=kinds,
            sources=ends.ravel(),
            destinations=ends[:, ::-1].ravel(),
            bandwidths=np.repeat(values[:, 0], 2),
            latencies=np.repeat(values[:, 1], 2),
            energies=0.0,
            copies=kinds == NodeKind.NPU,
            reduces=kinds == NodeKind.NPU,
            tiers=np.repeat(~inside, 2) if listing.nvswitches else 0,
            notes=self._notes(values[:, 2].any()),
        )
        fabric = fabric.with_defaults(router=SimaiRouter())
        return with_servers(fabric, listing.per_server) if self._is_even(fabric) else fabric

    def _notes(self, errors: object) -> tuple[str, ...]:
        return (f"{self.file.path} has error rates, which are not simulated",) if errors else ()

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
