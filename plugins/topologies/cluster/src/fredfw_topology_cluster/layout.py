"""Where the nodes and links of a cluster are: arithmetic on the numbers of one node and one tree of switches."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from attrs import frozen

from fredfw import Fabric
from fredfw.typing import IntArray
from fredfw_topology_cluster.network import Network
from fredfw_topology_fat_tree.structure import N


@frozen(eq=False)
class Step:
    """Cables that are a part of the way from NPUs to their leaves; links up first, then those down."""

    lower: IntArray  # ``(cables,)`` node at the end of the NPUs
    upper: IntArray  # ``(cables,)`` node at the end of the leaves
    first: int  # id of the first link up
    npus: int = 1  # how many NPUs share a cable
    by_nic: bool = False  # whether there is a cable for each NIC instead

    def cables(self, npus: N, nics: N) -> N:
        """Return the numbers of the cables that NPUs use with their NICs."""
        return nics if self.by_nic else npus // self.npus

    def up(self, numbers: N) -> N:
        """Return the links up of cables with these ``numbers``."""
        return self.first + numbers

    def down(self, numbers: N) -> N:
        """Return the links down of cables with these ``numbers``."""
        return self.first + len(self.lower) + numbers


class Layout:
    """A cluster's nodes and links.

    Nodes are those of the first node, of the second, and so on; then the PCIe switches (or CPUs) with a root each, the
    network cards (NICs), and the switches tree by tree. Links come in the same order. NPUs, NICs and PCIe switches are
    numbered node by node. A NIC of one NPU without such a switch is part of the NPU.
    """

    def __init__(self, inside: Fabric, network: Network, sharing: int) -> None:
        self.inside, self.network = inside, network  # of one node, and between their NICs
        self.sharing = sharing  # NPUs that share a PCIe switch on the way to their NICs; 0 without such switches
        self.npus = len(inside.npus)  # of a node
        self.own = max(1, network.nics // self.npus)  # NICs that an NPU has, or 1 where it shares one
        self.users = max(1, self.npus // network.nics)  # NPUs that share a NIC, or 1
        self.switches = network.tree.first_nodes[-1] - network.tree.hosts  # of a tree

    @property
    def most(self) -> tuple[int, int]:
        """How many nodes and links there may be, before any array is made."""
        network, tree = self.network, self.network.tree
        npus, nics = network.nodes * self.npus, network.nodes * network.nics
        nodes = network.nodes * len(self.inside.kinds) + 2 * npus + nics + network.trees * self.switches
        links = network.nodes * len(self.inside.sources) + 4 * npus + 2 * nics
        return nodes, links + 2 * network.trees * tree.first_links[-1]

    @cached_property
    def numbers(self) -> IntArray:
        """``(nodes of one node,)`` number of each NPU in its node, -1 for other nodes."""
        numbers = np.full(len(self.inside.kinds), -1)
        numbers[self.inside.npus] = np.arange(self.npus)
        return numbers

    @cached_property
    def npu_nodes(self) -> IntArray:
        """``(NPUs,)`` node of each NPU."""
        first = np.arange(self.network.nodes)[:, None] * len(self.inside.kinds)
        nodes: IntArray = (first + self.inside.npus).ravel()
        return nodes

    @cached_property
    def tiers(self) -> dict[str, IntArray]:
        """Nodes that are neither inside nor switches of the network, by what they are called."""
        npus, nics = len(self.npu_nodes), self.network.nodes * self.network.nics
        parts = npus // self.sharing if self.sharing else 0
        counts = {"pcie": parts, "root": parts, "nic": nics if self.sharing or self.users > 1 else 0}
        first, tiers = self.network.nodes * len(self.inside.kinds), {}
        for name, count in counts.items():
            tiers[name] = np.arange(first, first + count)
            first += count
        return tiers

    @cached_property
    def first_switch(self) -> int:
        """Node number of the first switch."""
        return self.network.nodes * len(self.inside.kinds) + sum(map(len, self.tiers.values()))

    @cached_property
    def ports(self) -> IntArray:
        """``(NICs,)`` node that each NIC is, or is part of."""
        return self.tiers["nic"] if len(self.tiers["nic"]) else np.repeat(self.npu_nodes, self.own)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The cables from NPUs upwards, in order; with PCIe switches, to these, to their roots, and to the NICs."""
        first, nic = self.network.nodes * len(self.inside.sources), self.tiers["nic"]
        if not self.sharing:
            return (Step(self.npu_nodes, np.repeat(nic, self.users), first),) if len(nic) else ()
        pcie, root = self.tiers["pcie"], self.tiers["root"]
        into = Step(self.npu_nodes, np.repeat(pcie, self.sharing), first)
        up = Step(pcie, root, first + 2 * len(self.npu_nodes), self.sharing)
        # One for each NIC, or one for each root where several have the same NIC.
        cables = max(len(root), len(nic))
        ends = np.repeat(root, cables // len(root)), np.repeat(nic, cables // len(nic))
        return into, up, Step(*ends, up.first + 2 * len(root), self.sharing, by_nic=len(nic) >= len(root))

    @cached_property
    def hosts(self) -> IntArray:
        """``(trees, hosts)`` node at each place of a tree, -1 where it is empty."""
        hosts = np.full((self.network.trees, self.network.tree.hosts), -1)
        hosts[self.network.places(np.arange(len(self.ports)))] = self.ports
        return hosts

    @cached_property
    def trunks(self) -> IntArray:
        """``(trees, links of a tree)`` id of each link; those of empty places have none of their own."""
        tree, hosts = self.network.tree, self.hosts
        kept = np.ones((len(hosts), 2, tree.first_links[-1]), dtype=bool)
        kept[:, :, : tree.hosts] = (hosts >= 0)[:, None]
        before = self.network.nodes * len(self.inside.sources) + 2 * sum(len(step.lower) for step in self.steps)
        return (before + np.cumsum(kept) - 1).reshape(len(hosts), -1)

    def trunk_ends(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return ``(links,)`` the node that each link of all trees leaves, the one that it enters, and its level."""
        tree = self.network.tree
        first = self.first_switch + np.arange(len(self.hosts))[:, None] * self.switches
        nodes = np.hstack([self.hosts, first + np.arange(self.switches)])
        sources, destinations = (nodes[:, ends].ravel() for ends in tree.ends())
        kept = (sources >= 0) & (destinations >= 0)
        level = np.repeat(np.arange(tree.height), np.diff(tree.first_links))
        return sources[kept], destinations[kept], np.tile(level, 2 * len(self.hosts))[kept]
