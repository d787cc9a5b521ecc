"""Memories beside the NPUs: tiers of them, and the network that joins them to the NPUs of any fabric.

They have links and switches of their own, which meet no collective and are numbered behind those of the fabric.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import attrs
import numpy as np
from attrs import evolve, frozen

from fredfw import arrays
from fredfw.errors import InputError, placed
from fredfw.fabric.fabric import Fabric, NodeKind
from fredfw.fabric.flows import Operation, Routes
from fredfw.fabric.routing import merged, no_path, tree_of_paths
from fredfw.typing import IntArray
from fredfw.units import Unit, bandwidth, choice, count, duration, flag, option, quantity

SHARED, ONE_AT_A_TIME = "shared", "one-at-a-time"
NPU, NODE, FABRIC = "npu", "node", "fabric"


def _is_name(_instance: object, attribute: attrs.Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{value!r} is not a name", key=attribute.name, accepted="text that is not empty")


@frozen(kw_only=True)
class MemoryTier:
    """Memories of one kind beside the local memory of the NPUs.

    A transaction of V bytes takes ``latency + V / bandwidth`` where nothing else uses its memory. Reading and writing
    have the whole bandwidth each while they share it; one at a time, they take turns, too.

    Raises:
        InputError: An impossible value, or one that the scope has no use for; names the key.
    """

    name: str = option(validator=_is_name, help="what loads, stores and workloads call it")
    scope: str = choice(
        (NPU, NODE, FABRIC),
        FABRIC,
        help="npu: one memory for each NPU; node: one for each `npus` NPUs; fabric: a pool for all NPUs",
    )
    bandwidth: float = bandwidth(help="of each memory, in each direction")
    latency: float = duration("0 s", help="of each transaction")
    capacity: float | None = quantity(Unit.BYTES, None, exclusive=True, help="of each memory; default: unlimited")
    discipline: str = choice(
        (SHARED, ONE_AT_A_TIME),
        help="shared: transactions share the bandwidth of a memory; one-at-a-time: a memory serves one after the "
        "other, in the order in which they come",
    )
    npus: int | None = count(
        None, help="node: NPUs of each memory; fabric: NPUs below each switch of the lower level; it divides all NPUs"
    )
    memories: int = count(1, help="fabric: memories of the pool, over which all data is striped evenly")
    npu_bandwidth: float | None = quantity(
        Unit.BYTES_PER_SECOND,
        None,
        exclusive=True,
        help="node, fabric: of an NPU's link to the switch above it; default: that of all memories it reaches",
    )
    switch_bandwidth: float | None = quantity(
        Unit.BYTES_PER_SECOND,
        None,
        exclusive=True,
        help="fabric, with npus: of a lower switch's link to the upper one; default: that of all NPUs below it",
    )
    in_network: bool = flag(
        False, help="node, fabric: whether the switches copy what is loaded to several NPUs, and reduce what they store"
    )

    def __attrs_post_init__(self) -> None:
        if self.scope == NODE and self.npus is None:
            raise InputError("is missing", key="npus", accepted="NPUs of each memory, as the scope is node")
        useless = {"memories": self.scope != FABRIC and self.memories > 1}
        for key in ("npus", "npu_bandwidth", "in_network"):
            useless[key] = self.scope == NPU and getattr(self, key) not in (None, False)
        useless["switch_bandwidth"] = self.switch_bandwidth is not None and (self.scope != FABRIC or self.npus is None)
        for key, wrong in useless.items():
            if wrong:
                needed = "scope fabric with npus" if key == "switch_bandwidth" else "another scope"
                message = f"{getattr(self, key)!r} has no meaning for scope {self.scope!r}"
                raise InputError(message, key=key, accepted=f"nothing, or {needed}")

    @property
    def one_at_a_time(self) -> bool:
        """Whether a memory serves one transaction after the other."""
        return self.discipline == ONE_AT_A_TIME

    @property
    def for_all(self) -> bool:
        """Whether it is a pool for all NPUs."""
        return self.scope == FABRIC

    def sharing(self, npus: int) -> int:
        """Return how many of ``npus`` NPUs use the same memories."""
        return {NPU: 1, NODE: self.npus or 1, FABRIC: npus}[self.scope]

    def room(self, npus: int) -> float:
        """Return the bytes that each of ``npus`` NPUs has there; infinite where the capacity is unlimited."""
        return np.inf if self.capacity is None else self.capacity * self.memories / self.sharing(npus)


# A tier, the (NPUs, k) memories that each NPU's data is striped over, (2, NPUs, k, hops) links from them, and back.
_Joined = tuple[MemoryTier, IntArray, IntArray]


@frozen(eq=False)
class MemoryNetwork:
    """The memories of a fabric, and how they are joined to its NPUs."""

    network: Fabric  # the fabric without them
    joined: dict[str, _Joined]  # the tiers by name

    @property
    def tiers(self) -> tuple[MemoryTier, ...]:
        return tuple(tier for tier, *_ in self.joined.values())

    def tier(self, name: str) -> MemoryTier:
        return self.joined[name][0]

    def serving(self, name: str) -> IntArray:
        """Return the ``(NPUs, k)`` nodes of the memories over which tier ``name`` stripes the data of each NPU."""
        return self.joined[name][1]

    def leads(self, nodes: IntArray) -> bool:
        return bool((nodes >= len(self.network.kinds)).any())

    def route(
        self, fabric: Fabric, sources: IntArray, destinations: IntArray, rule: Callable[[IntArray, IntArray], Routes]
    ) -> Routes:
        """Return one route per pair of nodes of ``fabric``; ``rule`` has those of the network without memories."""
        first = len(self.network.kinds)
        own = (sources >= first) | (destinations >= first)
        if not own.any():
            return rule(sources, destinations)
        mine, others = np.flatnonzero(own), np.flatnonzero(~own)
        paths = self._paths(fabric, sources[mine], destinations[mine])
        if not len(others):
            return paths
        return merged([paths, rule(sources[others], destinations[others])], [mine, others])

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        paths = self._paths(fabric, *(one.ravel() for one in np.meshgrid(sources, destinations)))
        return tree_of_paths(fabric, paths, sources, destinations, operation)

    def _paths(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        npus = np.full(len(fabric.kinds), -1)
        npus[fabric.npus] = np.arange(len(fabric.npus))
        counts = np.zeros(len(sources), dtype=np.intp)
        links: list[IntArray] = []
        order: list[IntArray] = []
        for _, serving, both_ways in self.joined.values():
            for memories, ends, ways in zip((sources, destinations), (destinations, sources), both_ways, strict=True):
                serves = (serving[npus[ends]] == memories[:, None]) & (npus[ends] >= 0)[:, None]
                pairs, slots = np.nonzero(serves)
                found = ways[npus[ends[pairs]], slots]
                counts[pairs] = found.shape[1]
                links.append(found.ravel())
                order.append(np.repeat(pairs, found.shape[1]))
        if not counts.all():
            raise no_path(fabric, sources[counts.argmin()], destinations[counts.argmin()])
        by_pair = np.argsort(np.concatenate(order), kind="stable")
        return fabric.paths(arrays.offsets(counts), np.concatenate(links)[by_pair])


def with_memories(fabric: Fabric, tiers: Sequence[MemoryTier]) -> Fabric:
    """Return ``fabric`` with memories, and links and switches that join them to its NPUs.

    Nodes and links keep their numbers; router, admission, transport and levels do not see the memories, of which there
    may be some already. NPUs of a node, or below a switch, have successive numbers. Raises ``InputError``, which names
    the key, for two tiers of one name, or NPUs that a tier cannot be divided among.
    """
    if not tiers:
        return fabric
    base, joining = fabric.network, _Joining(fabric.network)
    found: dict[str, _Joined] = {}
    for index, tier in enumerate([*(() if fabric.memories is None else fabric.memories.tiers), *tiers]):
        with placed(key=f"memories[{index}]"):
            if tier.name in found:
                raise InputError(f"{tier.name!r} is the name of another tier", key="name", accepted="another name")
            found[tier.name] = joining.tier(tier)
    kinds, names, able = zip(*joining.nodes, strict=True)
    names_of = "sources", "destinations", "bandwidths", "latencies"
    added = zip(names_of, zip(*joining.links, strict=True), strict=True)
    columns: dict[str, Any] = {name: np.append(getattr(base, name), values) for name, values in added}
    return evolve(
        base,
        kinds=np.append(base.kinds, kinds),
        **columns,
        energies=np.append(base.energies, np.zeros(len(joining.links))),
        tiers=np.append(base.tiers, np.zeros(len(joining.links), dtype=np.int8)),
        copies=np.append(base.copies, able),
        reduces=np.append(base.reduces, able),
        node_names=partial(_name, base, names),
        memories=MemoryNetwork(base, found),
    )


class _Joining:
    """Collects nodes and links behind those of ``base``."""

    def __init__(self, base: Fabric) -> None:
        self.base = base
        self.nodes: list[tuple[NodeKind, str, bool]] = []  # with a name, and whether it copies and reduces
        self.links: list[tuple[int, int, float, float]] = []  # source, destination, bandwidth, latency

    def tier(self, tier: MemoryTier) -> _Joined:
        npus = self.base.npus
        count = len(npus)
        each = tier.npus or count
        if count % each:
            message = f"{each} does not divide the {count} NPUs of {self.base.name!r}"
            raise InputError(message, key="npus", accepted=f"a divisor of {count}")
        sharing = tier.sharing(count)
        group, below = np.arange(count) // sharing, np.arange(count) // each
        memories = self._nodes(NodeKind.MEMORY, tier.name, count // sharing * tier.memories).reshape(-1, tier.memories)
        if tier.scope == NPU:
            hops = [self._both(memories[:, 0], npus, tier.bandwidth, tier.latency)[:, :, None]]
        else:
            switches = self._nodes(NodeKind.SWITCH, f"{tier.name}.switch", len(memories), tier.in_network)
            ends = memories.ravel(), np.repeat(switches, tier.memories)
            hops = [self._both(*ends, tier.bandwidth, tier.latency).reshape(2, *memories.shape)[:, group]]
            above, own = switches[group], tier.npu_bandwidth or tier.bandwidth * tier.memories
            if tier.for_all and tier.npus is not None:
                leaves = self._nodes(NodeKind.SWITCH, f"{tier.name}.leaf", count // each, tier.in_network)
                hops.append(self._both(switches, leaves, tier.switch_bandwidth or own * each)[:, below, None])
                above = leaves[below]
            hops.append(self._both(above, npus, own)[:, :, None])
        # From the memory to the NPU; the way back has the last one first.
        down, up = np.stack(np.broadcast_arrays(*hops), axis=3)
        return tier, memories[group], np.stack([down, up[:, :, ::-1]])

    def _nodes(self, kind: NodeKind, name: str, count: int, able: bool = False) -> IntArray:
        first = len(self.base.kinds) + len(self.nodes)
        self.nodes += [(kind, f"{name}{index}", able) for index in range(count)]
        return np.arange(first, first + count)

    def _both(self, one: IntArray, other: IntArray, wide: float, late: float = 0.0) -> IntArray:
        """Add links from each of ``one`` to each of ``other``, and back; return them in two rows."""
        first = len(self.base.sources) + len(self.links)
        ends = [array.tolist() for array in np.broadcast_arrays(one, other)]
        for sources, destinations in (ends, reversed(ends)):
            self.links += zip(sources, destinations, repeat(wide), repeat(late))
        return np.arange(first, first + 2 * len(ends[0])).reshape(2, -1)


def _name(fabric: Fabric, more: tuple[str, ...], node: int) -> str:
    count = len(fabric.kinds)
    return fabric.node_name(node) if node < count else more[node - count]
