"""What a collective algorithm may know of the fabric: levels, coordinates, capabilities, and links where it asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

import numpy as np
from attrs import astuple, evolve, frozen

from fredfw import arrays
from fredfw.errors import InputError
from fredfw.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from fredfw.fabric.fabric import Fabric

Kind = Literal["ring", "line", "fully-connected", "switch"]
"""How the positions of a level are joined."""
KINDS: tuple[Kind, ...] = "ring", "line", "fully-connected", "switch"
MOST = 16_384
"""Nodes that a group and its switches may have for its links to be looked at."""


@frozen
class Capabilities:
    """What the network does for collectives: combine or copy streams on their way, or take time to set up circuits."""

    reduces: bool = False
    multicasts: bool = False
    circuits: bool = False

    def __or__(self, other: Capabilities) -> Capabilities:
        """Return what one of the two does."""
        return Capabilities(*(one or more for one, more in zip(astuple(self), astuple(other), strict=True)))


@frozen
class Level:
    """One dimension or tier; ``InputError``, which names it, for a field that is not possible.

    Args:
        size: How many positions it has.
        kind: A closed ``ring``, open ``line``, ``fully-connected`` (a link to each), or ``switch`` (one link for all).
        bandwidth: Bytes per second that the slowest member can send to its next while all others do the same; without
            neighbours, to any other position that is as far on for all.
        latency: Seconds from one position to the next (the largest, where they differ or positions are left out).
        two_way: Whether that bandwidth is there in both directions at once.
        lanes: Transfers that can cross one place side by side, each on its own share of the bandwidth: wavelengths.
        name: What people call it: chiplet, package, node, rail, ...; empty for none.
        offers: What the network does for collectives in one line of positions, where that is more than for the group.
    """

    size: int
    kind: Kind
    bandwidth: float
    latency: float = 0.0
    two_way: bool = True
    lanes: int = 1
    name: str = ""
    offers: Capabilities = Capabilities()

    def __attrs_post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"a level of kind {self.kind!r}", key="kind", accepted=", ".join(KINDS))
        for key in ("size", "lanes"):
            arrays.count(key, getattr(self, key))
        for key, least, accepted in (
            ("bandwidth", math.ulp(0.0), "bytes per second, finite and more than 0"),
            ("latency", 0.0, "seconds, finite and not negative"),
        ):
            value = getattr(self, key)
            if not arrays.is_real(value) or not least <= value < math.inf:
                raise InputError(f"{value!r} is refused", key=key, accepted=accepted)

    @property
    def any_to_any(self) -> bool:
        """Whether any other position is the next."""
        return self.kind in ("fully-connected", "switch")

    @property
    def total_bandwidth(self) -> float:
        """Bytes per second that a member can send to all its neighbours in the level together (line: an inner one)."""
        return self.bandwidth * neighbours(self.kind, self.size, two_way=self.two_way)


def neighbours(kind: Kind, size: int, *, two_way: bool) -> int:
    """Return how many links leave a position of a level that is not at an end."""
    if kind == "fully-connected":
        return size - 1
    return 2 if kind in ("ring", "line") and size > 2 and two_way else 1


@frozen(eq=False)
class GroupLinks:
    """The directed links among the members of a group and the switches that join them; NPUs outside have no part.

    Nodes ``0 .. ranks - 1`` are ranks in the group's own order, others switches in the fabric's. Links may be parallel.

    Args:
        ranks: Size of the group.
        nodes: Ranks and switches together.
        sources: ``(links,)`` node each link leaves.
        destinations: ``(links,)`` node each link enters; links come in the order of their two ends.
        bandwidths: ``(links,)`` bytes per second.
        latencies: ``(links,)`` seconds.
        copies: ``(nodes,)`` whether the node may copy a stream for the group on its way.
        reduces: ``(nodes,)`` whether the node may combine streams of the group on their way.
    """

    ranks: int
    nodes: int
    sources: IntArray
    destinations: IntArray
    bandwidths: FloatArray
    latencies: FloatArray
    copies: BoolArray
    reduces: BoolArray

    @classmethod
    def of(cls, fabric: Fabric, members: IntArray, switch: BoolArray) -> GroupLinks | None:
        """Return the links among the NPUs numbered ``members``, over what is a ``switch``; ``None`` for too many.

        All NPUs of a fabric have all its switches. Others have those of the fewest tiers that join them. What leads to
        one neighbour alone is left out. Takes time for the links of the members and of these switches.
        """
        ranks = fabric.npus[members]
        whole = len(ranks) == len(fabric.npus)
        kept = latest = np.sort(ranks)
        links: IntArray = np.zeros(0, dtype=np.intp)
        while len(latest) and len(kept) <= MOST:
            links = np.append(links, arrays.rows_of(*fabric.leaving, latest)[0])
            ends = np.unique(fabric.destinations[links])
            latest = ends[switch[ends] & ~_among(ends, kept)]
            inner = links[_among(fabric.destinations[links], kept)]
            if not whole and len(kept) > len(ranks):
                ends_of = (np.searchsorted(kept, ends[inner]) for ends in (fabric.sources, fabric.destinations))
                part = components(len(kept), *ends_of)[np.searchsorted(kept, ranks)]
                if (part == part[0]).all():
                    break
            kept = np.union1d(kept, latest)
        if len(kept) > MOST:
            return None
        while True:
            links = links[_among(fabric.sources[links], kept) & _among(fabric.destinations[links], kept)]
            one, other = (np.searchsorted(kept, ends[links]) for ends in (fabric.sources, fabric.destinations))
            pairs = np.unique(np.append(one * len(kept) + other, other * len(kept) + one))
            live = (np.bincount(pairs // len(kept), minlength=len(kept)) > 1) | ~switch[kept]
            if live.all():
                break
            kept = kept[live]
        node = np.empty(len(kept), dtype=np.intp)
        node[np.searchsorted(kept, ranks)] = np.arange(len(ranks))
        node[switch[kept]] = np.arange(len(ranks), len(kept))
        sources, destinations = node[one], node[other]
        order = np.lexsort((fabric.latencies[links], fabric.bandwidths[links], destinations, sources))
        kept, links = kept[np.argsort(node)], links[order]
        offers = fabric.offered(ranks)
        speeds = fabric.bandwidths[links], fabric.latencies[links]
        able = fabric.copies[kept] & offers.multicasts, fabric.reduces[kept] & offers.reduces
        return cls(len(ranks), len(kept), sources[order], destinations[order], *speeds, *able)

    @cached_property
    def key(self) -> Hashable:
        """Equal for groups whose links are alike."""
        content = sha256()
        for column in (self.sources, self.destinations, self.bandwidths, self.latencies, self.copies, self.reduces):
            content.update(np.ascontiguousarray(column).data)
        return self.ranks, self.nodes, content.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupLinks) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def joined(self) -> bool:
        """Whether a way leads from each rank to each other, over ranks and switches."""
        ends = self.sources, self.destinations
        for near, far in (ends, ends[::-1]):
            reached, count = np.arange(self.nodes) == 0, 0
            while count != (count := int(reached.sum())):
                reached[far[reached[near]]] = True
            if not reached[: self.ranks].all():
                return False
        return True

    @property
    def direct(self) -> bool:
        """Whether there are no switches among the ranks."""
        return self.nodes == self.ranks


@frozen(eq=False)
class GroupView:
    """A group of NPUs as an algorithm sees it; ranks are ``0 .. size - 1`` in the group's own order.

    Args:
        size: Number of ranks.
        levels: Those of several positions, innermost first, cut to the group; none where it is no full product of them.
        coordinates: ``(size, len(levels))`` positions of the ranks; ``None`` where the group is no full product.
        capabilities: What the network can do for the group.
        independent: Whether levels have their own links, so that a rank can send along all at once; not so in a tree.
        find_links: Returns the links among the group; ``None`` where they are not known.
        servers: ``(size,)`` server of each rank, from 0, where the group is no full product, and in several.
    """

    size: int
    levels: tuple[Level, ...] = ()
    coordinates: IntArray | None = None
    capabilities: Capabilities = Capabilities()
    independent: bool = False
    find_links: Callable[[], GroupLinks | None] | None = None
    servers: IntArray | None = None

    @classmethod
    def of(
        cls,
        members: IntArray,
        levels: tuple[Level, ...],
        coordinates: IntArray | None,
        capabilities: Capabilities = Capabilities(),
        *,
        independent: bool = False,
        find_links: Callable[[], GroupLinks | None] | None = None,
    ) -> GroupView:
        """Return the view of the NPUs ``members`` of a fabric with ``(NPUs, levels)`` ``coordinates``."""
        plain = cls(len(members), capabilities=capabilities, find_links=find_links)
        if coordinates is None or not levels:
            return plain
        inverse = np.empty((len(members), len(levels)), dtype=np.intp)
        cut = []
        for column, level in enumerate(levels):
            place = coordinates[members, column]
            taken = np.zeros(level.size, dtype=bool)
            taken[place] = True
            inverse[:, column] = (np.cumsum(taken) - 1)[place]
            cut.append(_cut(level, np.flatnonzero(taken)))
        sizes = tuple(level.size for level in cut)
        full = math.prod(sizes) == len(members)
        if not full or np.bincount(np.ravel_multi_index(tuple(inverse.T), sizes)).max() > 1:
            return plain
        used = [column for column, size in enumerate(sizes) if size > 1]
        levels = tuple(cut[column] for column in used)
        return evolve(plain, levels=levels, coordinates=inverse[:, used], independent=independent)

    def with_servers(self, servers: IntArray, offers: Capabilities) -> GroupView:
        """Return the view of ranks in several ``(size,)`` servers, within each of which the network ``offers`` more."""
        if self.coordinates is None:
            return evolve(self, servers=np.unique(servers, return_inverse=True)[1])
        if self.capabilities == offers and len(self.levels) > 1:
            return self
        sizes = [level.size for level in self.levels]
        in_order = np.empty(self.size, dtype=np.intp)
        in_order[np.ravel_multi_index(tuple(self.coordinates.T), sizes)] = servers
        grid = in_order.reshape(sizes)
        within = [bool((grid == grid.take([0], axis=place)).all()) for place in range(len(sizes))]
        parts = zip(self.levels, within, strict=True)
        levels = tuple(evolve(level, offers=offers) if one else level for level, one in parts)
        # What is done along the only line is done for all.
        able = self.capabilities | levels[0].offers if len(levels) == 1 else self.capabilities
        return evolve(self, levels=levels, capabilities=able)

    @cached_property
    def links(self) -> GroupLinks | None:
        """The links among the group, worked out at the first look; ``None`` where they are not known, or too many.

        Only an algorithm that sets ``reads_links`` sees them: its schedules are not shared by groups with others.
        """
        return None if self.find_links is None else self.find_links()

    @cached_property
    def without_links(self) -> GroupView:
        """The same view for an algorithm that does not ask for links."""
        return self if self.find_links is None else evolve(self, find_links=None)

    @cached_property
    def key(self) -> Hashable:
        """Equal for views that look the same to an algorithm that does not ask for links."""
        place, servers = (None if one is None else one.tobytes() for one in (self.coordinates, self.servers))
        return self.size, self.levels, place, servers, self.capabilities, self.independent

    @cached_property
    def key_with_links(self) -> Hashable:
        """Equal for views that look the same, and have the same links."""
        return self.key, None if self.links is None else self.links.key

    @property
    def unstructured(self) -> str | None:
        """Why algorithms that need levels cannot serve the group; ``None`` where it has them."""
        reason = "the group is not a full product of positions in the fabric's levels"
        return reason if self.coordinates is None else None

    def require_levels(self) -> IntArray:
        """Return the coordinates; raises ``InputError`` if the group is not a full product of positions."""
        if self.coordinates is None:
            raise InputError(f"the group of {self.size} is not a full product of positions in the fabric's levels")
        return self.coordinates


def _cut(level: Level, positions: IntArray) -> Level:
    """Return ``level`` reduced to the sorted ``positions``; a ring that misses some is a line."""
    if level.any_to_any or len(positions) == level.size:
        return evolve(level, size=len(positions))
    hops = np.diff(positions)
    if level.kind == "ring":
        hops = np.minimum(hops, level.size - hops)
    return evolve(level, size=len(positions), kind="line", latency=level.latency * int(hops.max(initial=1)))


def _among(nodes: IntArray, some: IntArray) -> BoolArray:
    """Return whether each of ``nodes`` is one of ``some``, which are sorted; takes no time for other nodes."""
    found: BoolArray = some[np.minimum(np.searchsorted(some, nodes), len(some) - 1)] == nodes
    return found


def components(nodes: int, one: IntArray, other: IntArray) -> IntArray:
    """Return the lowest of the ``nodes`` that links from ``one`` to ``other`` join each to, whichever way they lead."""
    part = np.arange(nodes)
    while True:  # the lowest number spreads along the links, and from nodes to what they took theirs from
        lowest = part.copy()
        np.minimum.at(lowest, one, part[other])
        np.minimum.at(lowest, other, part[one])
        lowest = lowest[lowest]
        if np.array_equal(lowest, part):
            return part
        part = lowest
