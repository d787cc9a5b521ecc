"""How the nodes and links of a dragonfly are numbered: shared by what builds them and what routes over them."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from fredfw import Fabric, NodeKind
from fredfw.errors import UnsupportedError
from fredfw.typing import IntArray


@frozen
class Structure:
    """A dragonfly, up to the routers at which its global links end.

    Nodes are the NPUs, router by router, then the routers, group by group. Links are those from NPUs, those to NPUs,
    the local ones by the router they leave and the one they enter, and the global ones by the group they leave, the
    one they enter, and their number among the links between the two. The two directions of a cable have one number.

    Args:
        p: NPUs per router.
        a: Routers per group.
        groups: How many there are.
        cables: Global links between each two groups, each way; 1 or more, also where there is one group.
    """

    p: int
    a: int
    groups: int
    cables: int

    @classmethod
    def of(cls, fabric: Fabric) -> Structure:
        """Return the structure of a fabric.

        Raises:
            UnsupportedError: It is not a dragonfly.
        """
        if len(fabric.levels) == 3:
            p, a, groups = (level.size for level in fabric.levels)
            near, pairs = groups * a * (2 * p + a - 1), groups * (groups - 1)
            cables = max((len(fabric.sources) - near) // max(pairs, 1), 1)
            one = cls(p, a, groups, cables)
            # Sizes first: what is not a dragonfly may seem to have more links than fit into memory.
            if len(fabric.sources) == near + pairs * cables and one._describes(fabric):
                return one
        raise UnsupportedError(f"fabric {fabric.name!r} is not a dragonfly", accepted="the topology dragonfly")

    def _describes(self, fabric: Fabric) -> bool:
        near, far = self.near_ends()
        leave, enter, _ = self.global_links()
        count = len(near)
        return (
            np.array_equal(fabric.kinds, self.kinds())
            and np.array_equal(fabric.sources[:count], near)
            and np.array_equal(fabric.destinations[:count], far)
            and np.array_equal((fabric.sources[count:] - self.npus) // self.a, leave)
            and np.array_equal((fabric.destinations[count:] - self.npus) // self.a, enter)
        )

    @property
    def routers(self) -> int:
        """Routers of all groups."""
        return self.a * self.groups

    @property
    def npus(self) -> int:
        """NPUs of all routers."""
        return self.p * self.routers

    def kinds(self) -> IntArray:
        """Return the ``(nodes,)`` kinds."""
        return np.repeat(np.array([NodeKind.NPU, NodeKind.SWITCH], dtype=np.intp), [self.npus, self.routers])

    def near_ends(self) -> tuple[IntArray, IntArray]:
        """Return the nodes that all links but the global ones leave, and those that they enter."""
        npu = np.arange(self.npus)
        router = self.npus + npu // self.p
        start = np.repeat(np.arange(self.routers), self.a - 1)
        place = np.tile(np.arange(self.a - 1), self.routers)
        end = start // self.a * self.a + place + (place >= start % self.a)
        return (
            np.concatenate([npu, router, self.npus + start]),
            np.concatenate([router, npu, self.npus + end]),
        )

    def global_links(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return, of each global link, the group that it leaves, the one that it enters, and its number."""
        pair, number = np.divmod(np.arange(self.groups * (self.groups - 1) * self.cables), self.cables)
        start, place = np.divmod(pair, self.groups - 1)
        return start, place + (place >= start), number

    def local_link(self, start: IntArray, end: IntArray) -> IntArray:
        """Return the link between routers of one group; any number where they are the same."""
        place = end % self.a
        link: IntArray = 2 * self.npus + start * (self.a - 1) + place - (place > start % self.a)
        return link

    def global_link(self, start: IntArray, end: IntArray, number: IntArray) -> IntArray:
        """Return the link of a number between groups that differ."""
        first = 2 * self.npus + self.routers * (self.a - 1)
        link: IntArray = first + (start * (self.groups - 1) + end - (end > start)) * self.cables + number
        return link
