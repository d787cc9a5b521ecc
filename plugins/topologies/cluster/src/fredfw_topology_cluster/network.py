"""The scale-out network, and where the nodes and links of a cluster are: arithmetic on numbers of a node and a tree."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import Literal

import numpy as np
from attrs import frozen

from fredfw import Fabric, Level
from fredfw.errors import InputError
from fredfw.typing import IntArray
from fredfw_topology_fat_tree import XGFT, FatTree
from fredfw_topology_fat_tree.structure import N

Kind = Literal["rail-optimised", "rail-only", "fat-tree"]
KINDS: tuple[Kind, ...] = "rail-optimised", "rail-only", "fat-tree"


@frozen
class Network:
    """Fat trees whose hosts are the network cards (NICs) of the nodes."""

    # NIC ``j`` of a node is on rail ``j % rails``. The leaves of a tree come pod by pod, and rail by rail in a pod. A
    # pod is the nodes that share leaves. Places that would belong to nodes after the last one are empty. Where packets
    # are sprayed over all shortest paths, the links up of a switch carry the same, and so do all spines (or cores)
    # above the same leaves. Such links are one with their bandwidth together, and such switches are one.
    nodes: int  # how many there are
    nics: int  # of a node
    rails: int  # groups of NICs that have leaves of their own; they divide the NICs
    trees: int  # 1, or ``rails`` where rails are not connected
    pod: int  # nodes of a pod
    tree: XGFT  # the structure of each tree
    bundles: tuple[int, ...]  # ``(height,)`` links that a link from a host, from a leaf, and so on stands for

    @classmethod
    def of(
        cls, kind: str, nodes: int, nics: int, *, rails: int | None, radix: int, oversubscription: float, sprayed: bool
    ) -> Network:
        """Return the network for that many nodes: leaves alone where they suffice, then spines, then cores."""
        # Pods are as large as the leaves allow, and smaller where that makes them alike. A leaf that is not full has as
        # many links up as the ratio needs, rounded up. Spines and cores are not oversubscribed.
        ports = FatTree(radix=radix, levels=2, oversubscription=oversubscription)
        if rails is None:
            divisors = (one for one in range(1, nics + 1) if nics % one == 0)
            most = max(ports.down_ports, 1)  # NICs of a node on a leaf
            rails = nics if kind != "fat-tree" else next(one for one in divisors if nics // one <= most)
        if nics % rails:
            accepted = ", ".join(str(one) for one in range(1, nics + 1) if nics % one == 0)
            raise InputError(f"{rails} rails do not divide the {nics} NICs of a node", key="rails", accepted=accepted)
        trees, own = (rails, 1) if kind == "rail-only" else (1, rails)
        beside = nics // rails  # NICs of a node on one leaf

        def made(pod: int, children: tuple[int, ...], parents: tuple[int, ...]) -> Network:
            hosts = children[0] * -(-nodes // pod) * own
            single = (1,) * len(parents)
            tree = XGFT(hosts, children, single if sprayed else parents)
            return cls(nodes, nics, rails, trees, pod, tree, tuple(accumulate(parents, mul)) if sprayed else single)

        if own == 1 and nodes * beside <= radix:
            return made(nodes, (nodes * beside,), (1,))
        if beside > ports.down_ports:
            have = f"a leaf of {radix} ports has {ports.down_ports} for NICs"
            message = f"{have}, a node has {beside} on each of its {rails} rails"
            least = math.ceil(beside * (1 + 1 / oversubscription))
            raise InputError(message, key="radix", accepted=f"at least {least}, or more rails")
        pod = _even(nodes, ports.down_ports // beside)
        pods = -(-nodes // pod)
        leaf, leaves = pod * beside, pods * own
        up = min(ports.up_ports, math.ceil(leaf / oversubscription - _ROUNDING))
        if leaves <= radix:
            return made(pod, (leaf, leaves), (1, up))
        if not (room := radix // 2 // own):
            accepted = f"at least {2 * own}, or fewer rails"
            raise InputError(f"a spine of {radix} ports cannot connect {own} rails", key="radix", accepted=accepted)
        together = _even(pods, room)
        if (groups := -(-pods // together)) > radix:
            message, most = f"{nodes} nodes do not fit three levels of switches with {radix} ports", room * radix
            accepted = f"1 to {most * (ports.down_ports // beside)}, or a higher radix"
            raise InputError(message, key="nodes", accepted=accepted)
        below = together * own
        return made(pod, (leaf, below, groups), (1, up, below))

    @property
    def beside(self) -> int:
        """NICs of a node on one leaf."""
        return self.nics // self.rails

    @property
    def oversubscription(self) -> float | None:
        """Bandwidth of a leaf to its NICs, divided by that to spines; ``None`` where there are no spines."""
        return None if self.tree.height == 1 else self.tree.children[0] / self._up

    @property
    def _up(self) -> int:
        return self.tree.parents[1] * self.bundles[1]

    def places(self, ports: N) -> tuple[N, N]:
        """Return the tree and the host in it of a NIC, or of each of many, numbered node by node."""
        node, nic = ports // self.nics, ports % self.nics
        among, rail = nic // self.rails, nic % self.rails
        pod, within = node // self.pod, node % self.pod
        tree, leaf = (rail, pod) if self.trees > 1 else (0 * rail, pod * self.rails + rail)
        return tree, (leaf * self.pod + within) * self.beside + among

    def levels(self, rate: float, nic: float, lag: float, link_latency: float) -> tuple[Level, ...]:
        """Return the nodes as levels for algorithms: nodes of a pod, pods that share spines, and groups of those."""
        # ``rate`` is what an NPU sends to its leaf while all do, ``nic`` its share of its NICs, whose rate all links
        # between switches have; ``lag`` is from an NPU to its leaf. Pods that are not alike are one level, as are nodes
        # where nothing is slower beyond the leaves: levels that have their links in common cannot be busy at once.
        tree, first = self.tree, "rail" if self.rails > 1 else "leaf"
        if tree.height == 1:
            return _real(Level(self.nodes, "switch", rate, 2 * lag, name=first))
        top = 2 * (lag + (tree.height - 1) * link_latency)
        name = ("spine", "core")[tree.height - 2]
        # The most nodes of a full pod that one shift of all nodes sends to other pods.
        crossing = min(self.pod, self.nodes - self.pod)
        # What an NPU sends beyond its leaf while so many nodes below it do, spread over all links up.
        share = min(rate, nic * self._up / (crossing * self.beside)) if crossing else rate
        if self.nodes % self.pod or share == rate:
            latency, name = (top, name) if crossing else (2 * lag, first)
            return _real(Level(self.nodes, "switch", share, latency, name=name))
        inside = Level(self.pod, "switch", rate, 2 * lag, name=first)
        pods, together = self.nodes // self.pod, tree.children[1] // (self.rails // self.trees)
        if tree.height == 2 or pods % together:
            return _real(inside, Level(pods, "switch", share, top, name=name))
        spine = Level(together, "switch", share, 2 * (lag + link_latency), name="spine")
        return _real(inside, spine, Level(pods // together, "switch", share, top, name=name))


@frozen(eq=False)
class Step:
    """Cables that are a part of the way from NPUs to their leaves; links up first, then those down."""

    lower: IntArray  # ``(cables,)`` node at the end of the NPUs
    upper: IntArray  # ``(cables,)`` node at the end of the leaves
    first: int  # id of the first link up
    npus: int = 1  # how many NPUs share a cable
    by_nic: bool = False  # whether there is a cable for each NIC instead

    def cables(self, npus: N, nics: N) -> N:
        return nics if self.by_nic else npus // self.npus

    def up(self, numbers: N) -> N:
        return self.first + numbers

    def down(self, numbers: N) -> N:
        return self.first + len(self.lower) + numbers


class Layout:
    """A cluster's nodes and links."""

    # Nodes are those of the first node, of the second, and so on; then the PCIe switches (or CPUs) with a root each,
    # the network cards (NICs), and the switches tree by tree. Links come in the same order. NPUs, NICs and PCIe
    # switches are numbered node by node. A NIC of one NPU without such a switch is part of the NPU.

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
        cables = max(len(root), len(nic))  # one for each NIC, or one for each root where several have the same NIC
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


def _even(count: int, most: int) -> int:
    """Return the size of parts of at most ``most``: alike if at least half of that allows it, else almost alike."""
    divisors = (one for one in range(min(count, most), most // 2, -1) if count % one == 0)
    return next(divisors, -(-count // -(-count // most)))


def _real(*levels: Level) -> tuple[Level, ...]:
    return tuple(level for level in levels if level.size > 1)


_ROUNDING = 1e-9  # links: what a ratio that is not exact in binary adds to a whole number of them
