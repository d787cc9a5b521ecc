"""The cluster: its fields, what they mean together, and the fabric that it builds."""

import math
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import (
    Bill,
    Capabilities,
    Defaults,
    Fabric,
    Level,
    NodeKind,
    OpenAdmission,
    Prices,
    Topology,
    Transport,
    limits,
    units,
)
from fredfw.errors import InputError, placed
from fredfw.typing import FloatArray, IntArray
from fredfw.units import counted
from fredfw_topology_cluster import presets
from fredfw_topology_cluster.network import KINDS, Kind, Layout, Network
from fredfw_topology_cluster.routing import ClusterRouter
from fredfw_transport_nccl import Nccl


@frozen
class Cluster(Topology):
    """Nodes of NPUs, their network cards (NICs), and the switches that connect the nodes.

    What is not given has the value of the preset. The inside of a node is any topology without I/O controllers. A NIC
    serves one NPU or several, and an NPU may have several NICs, which it uses evenly. Where neither number divides the
    other, as after the loss of one of eight, each NPU has an even share of all, as NCCL's channels together do. Links
    between switches have the bandwidth of a NIC.

    Networks: ``rail-optimised`` has a leaf for NIC i of all nodes of a pod, and spines (and cores) above the leaves.
    ``rail-only`` has the rails without a connection between them, and always ``pxn``. ``fat-tree`` has leaves for all
    NICs of some nodes, in node order.

    A preset brings its accelerator, unless [npu] has one, and one of GPUs the transport ``nccl``, with constants for
    them and their network; where ``node`` is given, and with ``transport = "ideal"``, links cost nothing else. Presets,
    with fields that are uncertain in brackets; presets.toml in the package has the sources, and the reasons:

        dgx-a100     8 NPUs, NVSwitch 300 GB/s, 8 NICs 200 Gb/s; as hgx-a100 (nics, nic)
        dgx-h100     8 NPUs, NVSwitch 450 GB/s, 8 NICs 400 Gb/s; as dgx-h200, hgx-h100 and hgx-h200 (nics, nic)
        hgx-b200     8 NPUs, NVSwitch 900 GB/s, 8 NICs 400 Gb/s (nic); as dgx-b200; dgx-b300, hgx-b300 with 800 Gb/s
        gb200-nvl72  72 NPUs, NVSwitch 900 GB/s, 72 NICs 400 Gb/s (nic, rails); gb300-nvl72 with 800 Gb/s
        mi300x       8 NPUs, fully connected, 64 GB/s a link, 8 NICs 400 Gb/s
        p4d, p4de, p5, p5e, p5en, p6-b200               of Amazon, with EFA (network)
        a2, a3-high, a3-mega, a3-ultra, a4              of Google, with TCPX or RoCE (network)
        nd-a100-v4, nd-h100-v5, nd-h200-v5, nd-mi300x-v5    of Azure, with InfiniBand
        tpu-v4       torus 16x16x16, 50 GB/s a link, 4096 NICs 50 Gb/s (nic, network)
        tpu-v5p      torus 16x20x28, 100 GB/s a link, 8960 NICs 50 Gb/s (network)
        trainium2    torus 4x4, 160 GB/s a link, 16 NICs 200 Gb/s (node, network)
        gaudi3       8 NPUs, fully connected, 75 GB/s a link, 8 NICs 600 Gb/s (node, nic, network)

    The NVSwitches of H100, B200 and GB200 combine and copy streams for NPUs of one node (NVLS), those of A100 do not.

    Uncertain in all of them: radix, the ports of a switch, which is chosen to fit the NICs; and latencies, which no
    data sheet states. 25 ns for a link in a node and 500 ns for a link of the network are SimAI's. Several planes of
    NVSwitches that packets are spread over evenly are one switch here.
    """

    name: ClassVar[str] = "cluster"

    preset: str = units.choice(
        presets.table(), "dgx-h100", help="name of the machine that other fields have their values from"
    )
    nodes: int = units.count(16, help="number of nodes")
    node: Topology | None = units.option(  # noqa: RUF009  (declares a field, as those below do)
        None, help="the inside of a node; default: the preset's"
    )
    nics: int | None = units.count(
        None, help="NICs of a node; default: the preset's, or one for each NPU where the node is given"
    )
    nic: float | None = units.bandwidth(
        None, help="bandwidth of a NIC and of each link between switches, per direction; default: the preset's"
    )
    nic_latency: float = units.duration("500 ns", help="latency from an NPU (or its PCIe switch) to a leaf, each way")
    pcie: float | None = units.bandwidth(
        None, help="bandwidth of a PCIe switch (or CPU) between NPUs and NICs, per direction; default: there is none"
    )
    pcie_latency: float = units.duration(0.0, help="latency from an NPU through that switch to a NIC, each way")
    pcie_npus: int = units.count(1, help="NPUs that share such a switch and its bandwidth")
    network: Kind | None = units.choice(  # noqa: RUF009  (as above)
        KINDS, None, help="how NICs are connected; default: the preset's"
    )
    rails: int | None = units.count(
        None,
        help="groups of NICs with leaves of their own; default: the preset's, or one for each NIC of a node; in a "
        "fat-tree as few as the leaves allow",
    )
    pxn: bool | None = units.flag(
        None,
        help="whether a message to another rail first goes to an NPU of its own node that is on that rail, as with "
        "NCCL's PXN; default: the preset's, or false where the node is given",
    )
    sharp: bool = units.flag(
        False,
        help="whether switches between nodes combine and copy streams, as SHARP does; with nccl, on InfiniBand alone",
    )
    radix: int | None = units.count(None, minimum=2, help="number of ports of a switch; default: the preset's")
    oversubscription: float = units.number(
        1.0, minimum=1, help="of the leaves: bandwidth to their NICs, divided by bandwidth to spines"
    )
    link_latency: float = units.duration("500 ns", help="latency of a link between switches, including a switch")
    link_energy: float = units.energy(0.0, help="energy per byte and link outside of the nodes")
    routing: str = units.choice(
        ("spray", "ecmp"),
        help="ecmp: a hash chooses one shortest path for each pair of NICs; spray: packets use all of them evenly",
    )

    def __attrs_post_init__(self) -> None:
        if self.pcie is None and (self.pcie_npus > 1 or self.pcie_latency):
            key = "pcie_npus" if self.pcie_npus > 1 else "pcie_latency"
            raise InputError("there is no PCIe switch", key=key, accepted="with its bandwidth, pcie")
        if not isinstance(self._given("node"), Topology):
            accepted = "a topology; in a file its name, or { name = ..., ... }"
            raise InputError(f"{self.node!r} is not a topology", key="node", accepted=accepted)
        if self.pxn is False and self._given("network") == "rail-only":
            raise InputError("rails that are not connected need it", key="pxn", accepted="true, or another network")
        library, _ = self._brings
        if self.sharp and isinstance(library, Nccl) and library.network != "infiniband":
            message = f"the network of {self.preset!r} is {library.network}"
            raise InputError(message, key="sharp", accepted="false, or a preset with InfiniBand")
        self._check(self._inside)
        _ = self.router  # which refuses networks that do not fit

    def _given(self, key: str) -> Any:
        value = getattr(self, key)
        return presets.values(self.preset)[key] if value is None else value

    @cached_property
    def _inside(self) -> Fabric:
        with placed(key="node"):
            inside: Fabric = self._given("node").build()
        return inside

    @property
    def _nics(self) -> int:
        own = self.node is not None and self.nics is None
        return len(self._inside.npus) if own else int(self._given("nics"))

    @property
    def _cards(self) -> tuple[int, float]:
        """NICs of a node and the bandwidth of each: one for each NPU, with an even share, if they cannot be divided."""
        npus, nics, nic = len(self._inside.npus), self._nics, float(self._given("nic"))
        return (npus, nic * nics / npus) if nics % npus and npus % nics else (nics, nic)

    @property
    def _brings(self) -> tuple[Transport | None, str]:
        return (None, "") if self.node is not None else presets.brings(self.preset)

    @property
    def _rails(self) -> int | None:
        """Return the rails that are asked for; those of a preset are for its NICs."""
        own = self.node is not None or self.nics is not None
        return self.rails if own else self._given("rails")

    def _check(self, inside: Fabric) -> None:
        npus, (nics, _), name = len(inside.npus), self._cards, self._given("node").name
        if len(inside.controllers) or type(inside.defaults.admission) is not OpenAdmission:
            what = "I/O controllers" if len(inside.controllers) else "an admission control of its own"
            message = f"{name!r} has {what}, which a node of a cluster cannot have"
            raise InputError(message, key="node", accepted="a topology of NPUs and switches alone")
        if not npus:
            raise InputError(f"{name!r} has no NPUs", key="node", accepted="a topology with NPUs")
        users = max(1, npus // nics)
        if self.sharp and nics > npus:
            message = f"an NPU has {nics // npus} NICs, of which each would be in another tree"
            raise InputError(message, key="sharp", accepted=f"false, or at most {npus} NICs")
        if npus % self.pcie_npus or (self.pcie_npus % users and users % self.pcie_npus):
            message = f"{self.pcie_npus} NPUs at a PCIe switch do not divide a node of {npus} NPUs with {nics} NICs"
            divisors = [one for one in range(1, npus + 1) if not npus % one and (not one % users or not users % one)]
            raise InputError(message, key="pcie_npus", accepted=", ".join(map(str, divisors)))
        rails, own = self._rails, max(1, nics // npus)
        if rails is not None and rails % own and own % rails:
            message = f"{rails} rails cannot be divided among the {own} NICs of an NPU"
            raise InputError(message, key="rails", accepted=f"a divisor or a multiple of {own}")

    @cached_property
    def router(self) -> ClusterRouter:
        """What routes it, and knows where everything is; raises ``InputError`` where the network cannot be built."""
        network = Network.of(
            self._given("network"),
            self.nodes,
            self._cards[0],
            rails=self._rails,
            radix=self._given("radix"),
            oversubscription=self.oversubscription,
            sprayed=self.routing == "spray",
        )
        own = self.pxn is None and self.node is not None
        pxn = not own and self._given("pxn")
        return ClusterRouter(self._given("node"), network, self.pcie_npus if self.pcie else 0, pxn, self.sharp)

    @property
    def scopes(self) -> tuple[str, ...]:
        """See ``Topology.scopes``; unknown where the links of a node have several, which are one tier here."""
        inside: tuple[str, ...] = self._given("node").scopes
        several = (inside[0], "inter-pod") if len(set(inside)) == 1 else ()
        return inside if self.nodes == 1 else several

    def cost(self, prices: Prices | None = None, fabric: Fabric | None = None) -> Bill:
        """See ``Topology.cost``; PCIe is not in the bill."""
        hosts = np.concatenate(list(self.router.layout.tiers.values())) if self.nodes > 1 else None
        return Bill.of(fabric or self.build(), self.scopes, prices, hosts=hosts)

    def build(self) -> Fabric:
        """Return the cluster; nodes and links come node by node, then what is outside of them. One node is alone."""
        inside, count = self._inside, self.nodes
        levels = inside.levels
        if len(levels) == 1:  # it is called after the node
            levels = (evolve(levels[0], name=levels[0].name or "node"),)
        library, accelerator = self._brings
        if self.sharp and isinstance(library, Nccl):
            library = evolve(library, network="infiniband-sharp")
        defaults = inside.defaults if library is None else evolve(inside.defaults, transport=library)
        if count == 1:
            return evolve(inside, name=self._title, levels=levels, defaults=defaults, accelerator=accelerator)
        layout = self.router.layout
        nodes, links = layout.most
        limits.check("nodes", nodes, key="nodes")
        limits.check("links", links, key="nodes")
        ends, bandwidths, latencies = self._outside(layout)
        first = np.arange(count)[:, None] * len(inside.kinds)
        sources, destinations = (
            np.concatenate([(one + first).ravel(), other])
            for one, other in zip((inside.sources, inside.destinations), ends, strict=True)
        )
        others = layout.first_switch + layout.network.trees * layout.switches - count * len(inside.kinds)
        switches = np.arange(count * len(inside.kinds), count * len(inside.kinds) + others) >= layout.first_switch
        energies = np.full(len(bandwidths), self.link_energy)
        place = inside.coordinates
        if place is not None or layout.npus == 1:
            between = Capabilities(reduces=self.sharp, multicasts=self.sharp)
            levels += tuple(evolve(level, offers=between) for level in self._levels(layout))
        return Fabric(
            name=self._title,
            kinds=np.concatenate([np.tile(inside.kinds, count), np.full(others, NodeKind.SWITCH)]),
            sources=sources,
            destinations=destinations,
            bandwidths=np.concatenate([np.tile(inside.bandwidths, count), bandwidths]),
            latencies=np.concatenate([np.tile(inside.latencies, count), latencies]),
            energies=np.concatenate([np.tile(inside.energies, count), energies]),
            levels=levels,
            coordinates=_coordinates(place, [level.size for level in levels], layout) if levels else None,
            offers=inside.offers,
            local_offers=True,
            copies=np.concatenate([np.tile(inside.copies, count), switches & self.sharp]),
            reduces=np.concatenate([np.tile(inside.reduces, count), switches & self.sharp]),
            defaults=Defaults(router=self.router, sharing=defaults.sharing, transport=defaults.transport),
            tiers=np.repeat([0, 1], [count * len(inside.bandwidths), len(bandwidths)]),
            notes=(*inside.notes, *self._notes(layout.network)),
            node_names=partial(_node_name, layout),
            accelerator=accelerator,
        )

    def _notes(self, network: Network) -> Iterator[str]:
        if network.nics != self._nics:
            yield f"each of the {network.nics} NPUs of a node has an even share of its {counted(self._nics, 'NIC')}"
        asked, built = self.oversubscription, network.oversubscription
        if built is None and asked > 1:
            yield f"oversubscription = {asked:g} changes nothing: each leaf has all nodes, and there are no spines"
        elif built is not None and not math.isclose(asked, built):
            leaf = network.tree.children[0]
            yield (
                f"the leaves are oversubscribed {built:.4g} to 1, not {asked:.4g} to 1: "
                f"a leaf has {leaf} NICs and {round(leaf / built)} links up"
            )

    @property
    def _title(self) -> str:
        what = self.preset if self.node is None else self._inside.name
        return f"{self.nodes} x {what}"

    def _levels(self, layout: Layout) -> tuple[Level, ...]:
        """Return the levels between nodes; what an NPU sends is limited by its NICs, or its part of a PCIe switch."""
        nic = self._cards[1] * layout.network.nics / layout.npus
        rate = nic if self.pcie is None else min(nic, self.pcie / self.pcie_npus)
        return layout.network.levels(rate, nic, self.pcie_latency + self.nic_latency, self.link_latency)

    def _outside(self, layout: Layout) -> tuple[tuple[IntArray, IntArray], FloatArray, FloatArray]:
        nic, steps = self._cards[1], layout.steps
        rates = (nic,) if self.pcie is None else (self.pcie, self.pcie, nic)
        near, far, level = layout.trunk_ends()
        ends = (
            np.concatenate([*(end for step in steps for end in (step.lower, step.upper)), near]),
            np.concatenate([*(end for step in steps for end in (step.upper, step.lower)), far]),
        )
        bandwidths = [np.full(2 * len(step.lower), rate) for step, rate in zip(steps, rates, strict=False)]
        bandwidths.append(nic * np.array(layout.network.bundles)[level])
        lags = zip(steps, (self.pcie_latency, 0.0, 0.0), strict=False)
        latencies = [np.full(2 * len(step.lower), lag) for step, lag in lags]
        latencies.append(np.where(level == 0, self.nic_latency, self.link_latency))
        return ends, np.concatenate(bandwidths), np.concatenate(latencies)


def _coordinates(inside: IntArray | None, sizes: list[int], layout: Layout) -> IntArray:
    within = np.zeros((layout.npus, 0), dtype=np.intp) if inside is None else inside
    count = layout.network.nodes
    node = np.stack(np.unravel_index(np.arange(count), sizes[within.shape[1] :], order="F"), axis=1)
    return np.hstack([np.tile(within, (count, 1)), np.repeat(node, layout.npus, axis=0)])


def _node_name(layout: Layout, node: int) -> str:
    """Return ``node2.npu7``, ``node2.nic1``, or ``leaf3``, ``spine1`` and ``core0`` (of a rail: ``rail2.leaf3``)."""
    network, tree, size = layout.network, layout.network.tree, len(layout.inside.kinds)
    if node < network.nodes * size:
        return f"node{node // size}.{layout.inside.node_name(node % size)}"
    for name, nodes in layout.tiers.items():
        if len(nodes) and node <= nodes[-1]:
            each = len(nodes) // network.nodes
            number = node - int(nodes[0])
            return f"node{number // each}.{name}{number % each}"
    rail, number = divmod(node - layout.first_switch, layout.switches)
    level = bisect_right(tree.first_nodes, number + tree.hosts) - 1
    bundled = "s" if network.bundles[level - 1] > 1 else ""
    switch = f"{('leaf', 'spine', 'core')[level - 1]}{bundled}{number + tree.hosts - tree.first_nodes[level]}"
    return f"rail{rail}.{switch}" if network.trees > 1 else switch
