"""The FRED tree: its fields and its links."""

import math
from bisect import bisect_right
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import (
    Bill,
    Capabilities,
    CircuitPreempt,
    Defaults,
    Fabric,
    Level,
    NodeKind,
    Prices,
    Topology,
    limits,
    units,
)
from fredfw.errors import InputError
from fredfw_topology_fred.circuits import POLICIES, Circuits, PortMap
from fredfw_topology_fred.routing import UpDownRouter

NPU_BANDWIDTH = 3e12  # B/s from an NPU to its L1 switch and back (FRED, ISCA 2025)
PAPER_POWER = 179.35  # W of the paper's fabric: 35 chiplets and what else it adds, mainly wires (FRED, ISCA 2025)
_MOST = 32  # switch levels; NumPy has arrays of so many dimensions in all its versions
# B/s from an L1 switch to L2 and back, and whether switches carry out collectives (FRED, ISCA 2025, evaluation).
VARIANTS: Mapping[str, tuple[float, bool]]
VARIANTS = {"A": (1.5e12, False), "B": (1.5e12, True), "C": (12e12, False), "D": (12e12, True)}


@frozen
class Fred(Topology):
    """FRED: NPUs and I/O controllers under a tree of switches that can carry out collectives in the network.

    The defaults are the paper's wafer (ISCA 2025): 4 NPUs below each of 5 L1 switches, which are below one L2 switch;
    NPU to L1 3 TB/s; L1 to L2 1.5 TB/s per L1 switch in the variants A and B, 12 TB/s in C and D; collectives in the
    network in B and D; 18 controllers of 128 GB/s spread over the L1 switches. Every variant copies and combines the
    streams of the controllers in its switches. A switch is a FRED_m(P) down to its microswitches; streams of one class
    that it cannot route together meet a routing conflict. Wires cost 0.063 pJ/bit; the paper gives no energy for I/O,
    which counts as zero here.
    """

    name: ClassVar[str] = "fred"
    scopes: ClassVar[tuple[str, ...]] = ("inter-chiplet",)

    variant: str = units.choice(VARIANTS, "D", help="the paper's configuration, A to D")
    arity: tuple[int, ...] = units.sizes((4, 5), help="NPUs per L1 switch, L1 switches per L2 switch, and so on")
    bandwidths: tuple[float, ...] | None = units.bandwidths(
        None, help="bandwidths of the links from an NPU, from an L1 switch, and so on, each way; default: the variant's"
    )
    in_network: bool | None = units.flag(None, help="whether switches carry out collectives; default: the variant's")
    link_latency: float = units.duration(
        "20 ns", help="latency of each link between an NPU and a switch or two switches"
    )
    link_energy: float = units.energy("0.063 pJ/bit", help="energy per byte and link")
    io_controllers: int = units.count(18, minimum=0, help="number of I/O controllers, spread over the L1 switches")
    io_bandwidth: float = units.bandwidth("128 GB/s", help="bandwidth of each controller, in and out")
    io_latency: float = units.duration("20 ns", help="latency of the link between a controller and its L1 switch")
    middle_switches: int = units.count(3, minimum=2, help="middle switches m of every switch, a FRED_m(P)")
    on_conflict: str = units.choice(POLICIES, "block", help="what is done where a switch cannot route streams together")

    def __attrs_post_init__(self) -> None:
        if (depth := len(self.arity)) > _MOST:
            raise InputError(f"{depth} switch levels", key="arity", accepted=f"1 to {_MOST} of them")
        if len(self.uplinks) != depth:
            what = "no bandwidths" if self.bandwidths is None else f"{len(self.uplinks)} bandwidths"
            message = f"{what} for the {depth} switch levels of arity {list(self.arity)}"
            raise InputError(message, key="bandwidths", accepted=f"{depth} bandwidths, that of an NPU first")

    @property
    def uplinks(self) -> tuple[float, ...]:
        """B/s of the link from an NPU, from an L1 switch, and so on up to the switches below the root."""
        if self.bandwidths is not None:
            return self.bandwidths
        return (NPU_BANDWIDTH, VARIANTS[self.variant][0])[: len(self.arity)]

    def cost(self, prices: Prices | None = None, fabric: Fabric | None = None) -> Bill:
        """See ``Topology.cost``; the paper gives the power of the switches of its own wafer, and no price."""
        bill = Bill.of(fabric or self.build(), self.scopes, prices)
        wafer = (4, 5), (NPU_BANDWIDTH, VARIANTS["D"][0]), 18, 3
        if (self.arity, self.uplinks, self.io_controllers, self.middle_switches) != wafer:
            return bill
        items = (evolve(one, watts=PAPER_POWER) if one.name.startswith("switch ports") else one for one in bill.items)
        return Bill(tuple(items), (*bill.notes, "power of the switches: FRED (ISCA 2025), 35 chiplets"))

    def build(self) -> Fabric:
        """Return the tree: nodes are the NPUs, the switches level by level (the root last), then the controllers."""
        switches = sum(math.prod(self.arity[level:]) for level in range(1, len(self.arity) + 1))
        limits.check("nodes", math.prod(self.arity) + switches, key="arity")
        limits.check("nodes", self.io_controllers, key="io_controllers")
        limits.check("nodes", switches * self.middle_switches, key="middle_switches")
        # Nodes at each level from the NPUs (level 0) to the root, and the number of the first node of each level.
        counts = np.append(np.cumprod(self.arity[::-1])[::-1], 1)
        first = np.concatenate([[0], np.cumsum(counts)])
        tree = int(first[-1])
        level = np.repeat(np.arange(len(self.arity)), counts[:-1])
        child = np.arange(tree - 1)
        parent = first[level + 1] + (child - first[level]) // np.array(self.arity)[level]

        leaves = int(counts[1])
        share, extra = divmod(self.io_controllers, leaves)
        gates = tree + np.arange(self.io_controllers)
        doors = first[1] + np.repeat(np.arange(leaves), share + (np.arange(leaves) < extra))

        links = 2 * np.array([len(child), len(gates)])
        per_link = np.array(self.uplinks)[level]
        kinds = np.repeat(
            [NodeKind.NPU, NodeKind.SWITCH, NodeKind.CONTROLLER], [counts[0], tree - counts[0], len(gates)]
        )
        in_network = VARIANTS[self.variant][1] if self.in_network is None else self.in_network
        sources = np.concatenate([child, parent, gates, doors])
        destinations = np.concatenate([parent, child, doors, gates])
        ports = PortMap(kinds, np.concatenate([parent, [-1], doors]), sources, destinations)
        names = partial(_node_name, tuple(int(one) for one in first))
        return Fabric(
            name=f"FRED-{self.variant}",
            kinds=kinds,
            sources=sources,
            destinations=destinations,
            bandwidths=np.concatenate([per_link, per_link, np.full(links[1], self.io_bandwidth)]),
            latencies=np.repeat([self.link_latency, self.io_latency], links),
            energies=np.repeat([self.link_energy, 0.0], links),
            levels=self._levels(),
            coordinates=np.stack(np.unravel_index(np.arange(counts[0]), self.arity, order="F"), axis=1),
            offers=Capabilities(reduces=in_network, multicasts=in_network),
            copies=kinds == NodeKind.SWITCH,
            reduces=kinds == NodeKind.SWITCH,
            defaults=Defaults(
                router=UpDownRouter(),
                sharing=CircuitPreempt(),
                admission=Circuits(self.middle_switches, ports, names, self.on_conflict),
            ),
            node_names=names,
        )

    def _levels(self) -> tuple[Level, ...]:
        """Return one switch level per tier: an NPU's share of every link on the way up, and the way up and down."""
        below = np.concatenate([[1], np.cumprod(self.arity)[:-1]])
        shares = np.minimum.accumulate(np.array(self.uplinks) / below)
        return tuple(
            Level(size, "switch", float(share), 2 * height * self.link_latency)
            for height, (size, share) in enumerate(zip(self.arity, shares, strict=True), start=1)
        )


def _node_name(first: tuple[int, ...], node: int) -> str:
    """Return ``npu7``, ``L1.2`` (the third L1 switch) or ``controller4``, given the ``first`` node of each level."""
    level = bisect_right(first, node) - 1
    number = node - first[level]
    if level == 0:
        return f"npu{number}"
    return f"controller{number}" if level == len(first) - 1 else f"L{level}.{number}"
