"""How the nodes and links of a dragonfly(+) are numbered: shared by what builds them and what routes over them."""

from __future__ import annotations

import numpy as np

from fredfw import Fabric
from fredfw.errors import UnsupportedError
from fredfw.typing import FloatArray, IntArray


class Structure:
    """The switches of a dragonfly(+) and the cables between them.

    Nodes are the NPUs, leaf by leaf, then the leaves and then the spines, group by group. Links are those from NPUs,
    those to NPUs, those inside groups, and the cables between groups, by the group they leave, the one they enter and
    their number among the cables between the two. The two directions of a cable have one number. With spines, the links
    inside groups are those up by leaf and spine, then those down in the same order. Without, they are those between
    leaves, by the leaf they leave and the one they enter.
    """

    def __init__(self, npus: int, leaves: int, spines: int, groups: int, cables: int) -> None:
        self.npus = npus  # per leaf
        self.leaves, self.all_leaves = leaves, leaves * groups  # per group, and of all groups
        self.all_npus = npus * self.all_leaves
        self.spines = spines  # per group; 0 where each two leaves of a group are joined and have the cables
        self.gateways = spines or leaves  # switches of a group that have cables
        self.groups = groups
        self.cables = cables  # between each two groups; 1 or more, also where there is one group
        self.switches = self.all_leaves + spines * groups
        self.nodes = self.all_npus + self.switches
        self.local_links = self.all_leaves * (2 * spines if spines else leaves - 1)  # inside all groups
        self.links = 2 * self.all_npus + self.local_links + groups * (groups - 1) * cables

    @classmethod
    def of(cls, fabric: Fabric) -> Structure:
        if len(fabric.levels) == 3:
            npus, leaves, groups = (level.size for level in fabric.levels)
            switches = len(fabric.kinds) - len(fabric.npus)
            spines = switches // groups - leaves
            local, pairs = leaves * groups * (2 * spines if spines else leaves - 1), groups * (groups - 1)
            cables = (len(fabric.sources) - 2 * len(fabric.npus) - local) // max(pairs, 1)
            one = cls(npus, leaves, spines, groups, max(cables, 1))
            # Sizes first: what is something else may seem to have more links than fit into memory.
            counts = len(fabric.kinds), len(fabric.sources)
            if spines >= 0 and counts == (one.nodes, one.links):
                ends = one.ends()
                if np.array_equal(ends[0], fabric.sources) and np.array_equal(ends[1], fabric.destinations):
                    return one
        message = f"the dragonfly-plus-minimal router cannot route fabric {fabric.name!r}"
        raise UnsupportedError(message, accepted="the topology dragonfly-plus")

    def ends(self) -> tuple[IntArray, IntArray]:
        npu = np.arange(self.all_npus)
        above = self.all_npus + npu // self.npus
        if self.spines:
            low, number = np.divmod(np.arange(self.all_leaves * self.spines), self.spines)
            high = self.all_leaves + low // self.leaves * self.spines + number
            local = np.concatenate([low, high]), np.concatenate([high, low])
        else:
            start, place = np.divmod(np.arange(self.all_leaves * (self.leaves - 1)), max(self.leaves - 1, 1))
            local = start, start // self.leaves * self.leaves + place + (place >= start % self.leaves)
        pair, number = np.divmod(np.arange(self.groups * (self.groups - 1) * self.cables), self.cables)
        group, place = np.divmod(pair, max(self.groups - 1, 1))
        other = place + (place >= group)
        first = self.all_npus + (self.all_leaves if self.spines else 0)
        near, far = (
            first + one * self.gateways + self.gateway(one, another, number)
            for one, another in ((group, other), (other, group))
        )
        return (
            np.concatenate([npu, above, self.all_npus + local[0], near]),
            np.concatenate([above, npu, self.all_npus + local[1], far]),
        )

    def gateway(self, group: IntArray, other: IntArray, number: IntArray) -> IntArray:
        # The ports of a group lead once round all other groups, then round them again; every gateway has its share.
        others = self.groups - 1
        port = number * others + other - (other > group)
        place: IntArray = port * self.gateways // (others * self.cables)
        return place

    def cable(self, group: IntArray, other: IntArray, number: IntArray) -> IntArray:
        first = 2 * self.all_npus + self.local_links
        link: IntArray = first + (group * (self.groups - 1) + other - (other > group)) * self.cables + number
        return link

    def up(self, leaf: IntArray, gateway: IntArray) -> IntArray:
        """Return the link from a leaf to a gateway of its group; without spines, any number if they are the same."""
        return self._local(leaf, gateway) if self.spines else self._between(leaf, gateway)

    def down(self, leaf: IntArray, gateway: IntArray) -> IntArray:
        """Return the link from a gateway to a leaf of its group; without spines, any number if they are the same."""
        if self.spines:
            return self._local(leaf, gateway) + self.all_leaves * self.spines
        return self._between(leaf // self.leaves * self.leaves + gateway, leaf % self.leaves)

    def _local(self, leaf: IntArray, gateway: IntArray) -> IntArray:
        return 2 * self.all_npus + leaf * self.spines + gateway

    def _between(self, start: IntArray, place: IntArray) -> IntArray:
        link: IntArray = 2 * self.all_npus + start * (self.leaves - 1) + place - (place > start % self.leaves)
        return link

    def shares(self) -> FloatArray:
        """``(groups, groups, gateways)`` share of the cables of two groups that a gateway of the first has."""
        group, other, number = np.indices((self.groups, self.groups, self.cables)).reshape(3, -1)
        away = group != other
        group, other, number = group[away], other[away], number[away]
        shares = np.zeros((self.groups, self.groups, self.gateways))
        np.add.at(shares, (group, other, self.gateway(group, other, number)), 1 / self.cables)
        return shares
