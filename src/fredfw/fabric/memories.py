"""Memories beside the NPUs: tiers of them, and the network that joins them to the NPUs of any fabric.

The memories have links and switches of their own, so that their traffic meets no collective. What is added comes behind
the nodes and links of the fabric, whose numbers stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
from attrs import evolve, field, frozen

from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric.fabric import Fabric, NodeKind
from fredfw.fabric.flows import Operation, Routes
from fredfw.fabric.routing import tree_of_paths
from fredfw.typing import IntArray
from fredfw.units import Unit, bandwidth, duration, flag, one_of, option, quantity, whole

__all__ = ["MemoryNetwork", "MemoryTier", "with_memories"]

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
    scope: str = option(
        FABRIC,
        validator=one_of(NPU, NODE, FABRIC),
        help="npu: one memory for each NPU; node: one for each `npus` NPUs; fabric: a pool for all NPUs",
    )
    bandwidth: float = bandwidth(help="of each memory, in each direction")
    latency: float = duration("0 s", help="of each transaction")
    capacity: float | None = quantity(
        Unit.BYTES, None, exclusive=True, optional=True, help="of each memory; default: unlimited"
    )
    discipline: str = option(
        SHARED,
        validator=one_of(SHARED, ONE_AT_A_TIME),
        help="shared: transactions share the bandwidth of a memory; one-at-a-time: a memory serves one after the "
        "other, in the order in which they come",
    )
    npus: int | None = option(
        None,
        validator=whole(1),
        help="node: NPUs of each memory; fabric: NPUs below each switch of the lower level; it divides all NPUs",
    )
    memories: int = option(
        1, validator=whole(1), help="fabric: memories of the pool, over which all data is striped evenly"
    )
    npu_bandwidth: float | None = quantity(
        Unit.BYTES_PER_SECOND,
        None,
        exclusive=True,
        optional=True,
        help="node, fabric: of an NPU's link to the switch above it; default: that of all memories it reaches",
    )
    switch_bandwidth: float | None = quantity(
        Unit.BYTES_PER_SECOND,
        None,
        exclusive=True,
        optional=True,
        help="fabric, with npus: of a lower switch's link to the upper one; default: that of all NPUs below it",
    )
    in_network: bool = flag(
        False,
        help="node, fabric: whether the switches copy what is loaded to several NPUs, and reduce what they store",
    )

    def __attrs_post_init__(self) -> None:
        if self.scope == NODE and self.npus is None:
            raise InputError("is missing", key="npus", accepted="NPUs of each memory, as the scope is node")
        useless = {"memories": self.scope != FABRIC and self.memories > 1}
        useless["npus"] = self.scope == NPU and self.npus is not None
        useless["npu_bandwidth"] = self.scope == NPU and self.npu_bandwidth is not None
        useless["in_network"] = self.scope == NPU and self.in_network
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


@frozen(eq=False)
class _Joined:
    """A tier on a fabric.

    Args:
        tier: It.
        serving: ``(NPUs, k)`` nodes of the memories that the data of each NPU is striped over.
        down: ``(NPUs, k, hops)`` links from each of them to the NPU.
        up: ``(NPUs, k, hops)`` links from the NPU to each.
    """

    tier: MemoryTier
    serving: IntArray
    down: IntArray
    up: IntArray


@frozen(eq=False)
class MemoryNetwork:
    """The memories of a fabric, and how they are joined to its NPUs.

    Args:
        network: The fabric without them.
        joined: The tiers.
    """

    network: Fabric
    joined: tuple[_Joined, ...]

    @property
    def tiers(self) -> tuple[MemoryTier, ...]:
        """The tiers, in the order in which they were given."""
        return tuple(one.tier for one in self.joined)

    def tier(self, name: str) -> MemoryTier:
        """Return the tier ``name``; raises ``KeyError``."""
        return self._named(name).tier

    def serving(self, name: str) -> IntArray:
        """Return the ``(NPUs, k)`` nodes of the memories over which tier ``name`` stripes the data of each NPU."""
        return self._named(name).serving

    def leads(self, nodes: IntArray) -> bool:
        """Return whether one of ``nodes`` is a memory or a switch of theirs."""
        return bool((nodes >= len(self.network.kinds)).any())

    def route(
        self,
        fabric: Fabric,
        sources: IntArray,
        destinations: IntArray,
        rule: Callable[[IntArray, IntArray], Routes],
    ) -> Routes:
        """Return one route per pair of nodes of ``fabric``; ``rule`` has those of the network without memories.

        Raises:
            UnsupportedError: A memory does not serve an NPU.
        """
        first = len(self.network.kinds)
        own = (sources >= first) | (destinations >= first)
        if not own.any():
            return rule(sources, destinations)
        mine = self._paths(fabric, sources[own], destinations[own])
        if own.all():
            return mine
        place = np.cumsum(own) - 1
        others = rule(sources[~own], destinations[~own])
        both = Routes.concatenate([mine, others])
        return both.select(np.where(own, place, np.cumsum(~own) - 1 + len(mine)))

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """Return the flow from a memory to several NPUs, or the reduced one from them to a memory.

        Raises:
            UnsupportedError: Its switches do not do that, or it does not serve an NPU.
        """
        paths = self._paths(fabric, *(one.ravel() for one in np.meshgrid(sources, destinations)))
        return tree_of_paths(fabric, paths, sources, destinations, operation)

    def _named(self, name: str) -> _Joined:
        return {one.tier.name: one for one in self.joined}[name]

    def _paths(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """Return the paths from memories to NPUs or back."""
        npus = np.full(len(fabric.kinds), -1)
        npus[fabric.npus] = np.arange(len(fabric.npus))
        counts = np.zeros(len(sources), dtype=np.intp)
        links: list[IntArray] = []
        order: list[IntArray] = []
        for one in self.joined:
            for memories, ends, ways in ((sources, destinations, one.down), (destinations, sources, one.up)):
                serves = (one.serving[npus[ends]] == memories[:, None]) & (npus[ends] >= 0)[:, None]
                pairs, slots = np.nonzero(serves)
                found = ways[npus[ends[pairs]], slots]
                counts[pairs] = found.shape[1]
                links.append(found.ravel())
                order.append(np.repeat(pairs, found.shape[1]))
        if not counts.all():
            pair = int(counts.argmin())
            names = fabric.node_name(int(sources[pair])), fabric.node_name(int(destinations[pair]))
            raise UnsupportedError(f"fabric {fabric.name!r} has no path from {names[0]} to {names[1]}")
        by_pair = np.argsort(np.concatenate(order), kind="stable")
        return fabric.paths(np.append(0, np.cumsum(counts)), np.concatenate(links)[by_pair])


def with_memories(fabric: Fabric, tiers: Sequence[MemoryTier]) -> Fabric:
    """Return ``fabric`` with nodes of kind ``MEMORY``, and links and switches that join them to its NPUs.

    Nodes and links of the fabric keep their numbers; its router, admission, transport and levels do not see the
    memories. NPUs of a node, or below a switch, have successive numbers.

    Args:
        fabric: Any network; one that has memories already gets more.
        tiers: What to add.

    Raises:
        InputError: Two tiers of one name, or NPUs that a tier cannot be divided among; names the key.
    """
    known = () if fabric.memories is None else fabric.memories.tiers
    if not tiers:
        return fabric
    return _Joining(fabric.network).joined((*known, *tiers))


@frozen(eq=False)
class _Names:
    """Names of nodes: those of a fabric, and behind them others."""

    fabric: Fabric
    more: tuple[str, ...]

    def __call__(self, node: int) -> str:
        count = len(self.fabric.kinds)
        return self.fabric.node_name(node) if node < count else self.more[node - count]


@frozen(eq=False)
class _Joining:
    """Collects nodes and links behind those of ``base``."""

    base: Fabric
    kinds: list[NodeKind] = field(factory=list)
    names: list[str] = field(factory=list)
    able: list[bool] = field(factory=list)
    links: dict[str, list[Any]] = field(
        factory=lambda: {"sources": [], "destinations": [], "bandwidths": [], "latencies": []}
    )

    def joined(self, tiers: Sequence[MemoryTier]) -> Fabric:
        found = []
        for index, tier in enumerate(tiers):
            try:
                if tier.name in [one.name for one in tiers[:index]]:
                    raise InputError(f"{tier.name!r} is the name of another tier", key="name", accepted="another name")
                found.append(self._tier(tier))
            except InputError as error:
                raise error.at(key=f"memories[{index}]") from None
        base, able = self.base, np.array(self.able)
        added: dict[str, Any] = {name: np.append(getattr(base, name), values) for name, values in self.links.items()}
        return evolve(
            base,
            kinds=np.append(base.kinds, self.kinds),
            **added,
            energies=np.append(base.energies, np.zeros(len(self.links["sources"]))),
            tiers=np.append(base.tiers, np.zeros(len(self.links["sources"]), dtype=np.int8)),
            copies=np.append(base.copies, able),
            reduces=np.append(base.reduces, able),
            node_names=_Names(base, tuple(self.names)),
            memories=MemoryNetwork(base, tuple(found)),
        )

    def _tier(self, tier: MemoryTier) -> _Joined:
        npus = self.base.npus
        count = len(npus)
        each = tier.npus or count
        if count % each:
            message = f"{each} does not divide the {count} NPUs of {self.base.name!r}"
            raise InputError(message, key="npus", accepted=f"a divisor of {count}")
        if tier.scope == NPU:
            memories = self._nodes(NodeKind.MEMORY, tier.name, count)
            down, up = self._both(memories, npus, tier.bandwidth, tier.latency)
            return _Joined(tier, memories[:, None], down[:, None, None], up[:, None, None])
        below = np.arange(count) // each
        if tier.scope == NODE:
            memories = self._nodes(NodeKind.MEMORY, tier.name, count // each)
            switches = self._nodes(NodeKind.SWITCH, f"{tier.name}.switch", count // each, tier.in_network)
            down, up = self._both(memories, switches, tier.bandwidth, tier.latency)
            to, back = self._both(switches[below], npus, tier.npu_bandwidth or tier.bandwidth)
            ways = np.stack([down[below], to], axis=1), np.stack([back, up[below]], axis=1)
            return _Joined(tier, memories[below][:, None], ways[0][:, None], ways[1][:, None])
        memories = self._nodes(NodeKind.MEMORY, tier.name, tier.memories)
        top = self._nodes(NodeKind.SWITCH, f"{tier.name}.switch", 1, tier.in_network)
        down, up = self._both(memories, np.repeat(top, len(memories)), tier.bandwidth, tier.latency)
        own = tier.npu_bandwidth or tier.bandwidth * tier.memories
        hops_down, hops_up = [np.tile(down, (count, 1))], [np.tile(up, (count, 1))]
        above = np.repeat(top, count)
        if tier.npus is not None:
            leaves = self._nodes(NodeKind.SWITCH, f"{tier.name}.leaf", count // each, tier.in_network)
            wide = tier.switch_bandwidth or own * each
            to, back = self._both(np.repeat(top, len(leaves)), leaves, wide)
            hops_down.append(np.repeat(to[below][:, None], len(memories), axis=1))
            hops_up.append(np.repeat(back[below][:, None], len(memories), axis=1))
            above = leaves[below]
        to, back = self._both(above, npus, own)
        hops_down.append(np.repeat(to[:, None], len(memories), axis=1))
        hops_up.append(np.repeat(back[:, None], len(memories), axis=1))
        return _Joined(
            tier, np.tile(memories, (count, 1)), np.stack(hops_down, axis=2), np.stack(hops_up[::-1], axis=2)
        )

    def _nodes(self, kind: NodeKind, name: str, count: int, able: bool = False) -> IntArray:
        first = len(self.base.kinds) + len(self.kinds)
        self.kinds.extend([kind] * count)
        self.able.extend([able] * count)
        self.names.extend(f"{name}{index}" for index in range(count))
        return np.arange(first, first + count)

    def _both(self, one: IntArray, other: IntArray, wide: float, late: float = 0.0) -> tuple[IntArray, IntArray]:
        """Add links from each of ``one`` to each of ``other``, and back; return both."""
        found = []
        for sources, destinations in ((one, other), (other, one)):
            first = len(self.base.sources) + len(self.links["sources"])
            self.links["sources"].extend(sources.tolist())
            self.links["destinations"].extend(destinations.tolist())
            self.links["bandwidths"].extend([wide] * len(one))
            self.links["latencies"].extend([late] * len(one))
            found.append(np.arange(first, first + len(one)))
        return found[0], found[1]
