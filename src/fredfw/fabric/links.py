"""The links among the members of a group, for algorithms that follow them."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from fredfw import arrays
from fredfw.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from fredfw.fabric.fabric import Fabric


MOST = 16_384
"""Nodes that a group and its switches may have for its links to be looked at."""


@frozen(eq=False)
class GroupLinks:
    """The directed links among the members of a group and the switches that join them; NPUs outside have no part.

    Nodes ``0 .. ranks - 1`` are the ranks, in the group's own order. The others are switches, in the order of the
    fabric's nodes. A link is there as often as the fabric has it.

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

        All NPUs of a fabric have all its switches. Others have those of the fewest tiers that join them: switches next
        to a member, then those next to these, until there is a way from each member to each other, or no more switch.
        What leads to one neighbour alone is left out. Takes time for the links of the members and of these switches.
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
        return cls(
            len(ranks),
            len(kept),
            sources[order],
            destinations[order],
            fabric.bandwidths[links],
            fabric.latencies[links],
            fabric.copies[kept] & offers.multicasts,
            fabric.reduces[kept] & offers.reduces,
        )

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
