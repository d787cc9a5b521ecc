"""Which nodes and links a fat tree has, and which links join two of its hosts: arithmetic on numbers alone."""

from __future__ import annotations

from itertools import accumulate
from operator import mul
from typing import Any, TypeVar, cast

import numpy as np
from attrs import define

from fredfw import Fabric, NodeKind
from fredfw.errors import UnsupportedError
from fredfw.typing import BoolArray, IntArray

N = TypeVar("N", int, IntArray)  # a number, or an array of them


@define(slots=False, unsafe_hash=True)
class XGFT:
    """An extended generalized fat tree (Ohring, Ibel, Das and Kumar, "On generalized fat trees", IPPS 1995).

    Level 0 are the hosts. A subtree of level ``i + 1`` is ``children[i]`` subtrees of level ``i`` below its
    ``width[i + 1]`` tops, which are switches. Each top of a subtree of level ``i`` has links up to ``parents[i]`` of
    them, and each of them has one link down to every subtree. Hosts fill the places in order; a switch without hosts
    below it is not built.

    Nodes are the hosts, then the switches level by level, those of a subtree side by side; links are those up, level by
    level, then those down in the same order. So the links between a subtree and all tops of the one above are a run of
    numbers, and a shortest path is the number of the switch at which it turns.
    """

    hosts: int  # how many there are
    # ``(height,)`` subtrees of level ``i`` in one of level ``i + 1``; in the last one, as many as needed
    children: tuple[int, ...]
    parents: tuple[int, ...]  # ``(height,)`` links up from a host, from a switch of level 1, and so on

    def __attrs_post_init__(self) -> None:
        # Python's integers do not overflow, whatever ``of`` climbs.
        self.height = len(self.children)  # levels of switches
        # ``(height + 1,)`` places for hosts in a subtree of each level; its top switches, which are as many as paths
        # from a host below to its top; and subtrees with a host in them
        self.below: tuple[int, ...] = tuple(accumulate(self.children, mul, initial=1))
        self.width: tuple[int, ...] = tuple(accumulate(self.parents, mul, initial=1))
        self.subtrees = tuple(-(-self.hosts // places) for places in self.below)
        # First node of each level, and the number of nodes; first link up from each, and the number of links up.
        self.first_nodes: tuple[int, ...] = tuple(accumulate(map(mul, self.subtrees, self.width), initial=0))
        self.first_links: tuple[int, ...] = tuple(accumulate(map(mul, self.subtrees, self.width[1:]), initial=0))

    @classmethod
    def of(cls, fabric: Fabric) -> XGFT:
        """Return the structure of a fabric, found by climbing from its first host; raises ``UnsupportedError``."""
        children, parents, node = [], [], 0
        while (above := fabric.destinations[(fabric.sources == node) & (fabric.destinations > node)]).size:
            node = int(above.min())
            parents.append(len(above))
            children.append(int(((fabric.destinations == node) & (fabric.sources < node)).sum()))
        tree = cls(len(fabric.npus), tuple(children), tuple(parents))
        if not tree._describes(fabric):
            raise UnsupportedError(f"fabric {fabric.name!r} is not a fat tree", accepted="the topology fat-tree")
        return tree

    def _describes(self, fabric: Fabric) -> bool:
        # Sizes first: what is not a fat tree may seem to have more links than fit into memory.
        sizes = self.first_nodes[-1], 2 * self.first_links[-1], self.subtrees[-1]
        if not self.height or sizes != (len(fabric.kinds), len(fabric.sources), 1):
            return False
        sources, destinations = self.ends()
        return (
            bool((fabric.kinds[: self.hosts] == NodeKind.NPU).all())
            and np.array_equal(fabric.sources, sources)
            and np.array_equal(fabric.destinations, destinations)
        )

    def ends(self) -> tuple[IntArray, IntArray]:
        """Return ``(links,)`` the node that each link leaves, and the one that it enters."""
        lower, upper = [], []
        for level, (children, parents) in enumerate(zip(self.children, self.parents, strict=True)):
            width = self.width[level + 1]
            link = np.arange(self.subtrees[level] * width)
            subtree, top = np.divmod(link, width)
            lower.append(self.first_nodes[level] + link // parents)
            upper.append(self.first_nodes[level + 1] + subtree // children * width + top)
        return np.concatenate(lower + upper), np.concatenate(upper + lower)

    def up(self, level: int, subtree: N, path: N) -> N:
        """Return the link up from a subtree of ``level`` on the way to a switch; ``first_links[-1]`` more is that down.

        ``path`` is ``0 .. width[-1] - 1``: the number of the switch in the top level or, where a way turns before, of
        any above the one where it does.
        """
        width = self.width[level + 1]
        return self.first_links[level] + subtree * width + path // (self.width[-1] // width)

    def hashed(self, sources: N, destinations: N) -> N:
        """Return the path that each pair is sent along."""
        path = pair_hash(sources, destinations) % self.width[-1]
        return cast("N", path if isinstance(path, int) else path.astype(np.intp))

    def walk(self, sources: IntArray, destinations: IntArray, path: IntArray) -> tuple[IntArray, BoolArray]:
        """Return the ``(F, 2 height)`` links of one shortest path from each host to another, and which of them it has.

        Links up come by level, then those down from the top. Raises ``UnsupportedError`` for nodes that are no hosts.
        """
        self._require_hosts(max(sources.max(initial=0), destinations.max(initial=0)))
        links = np.empty((len(sources), 2 * self.height), dtype=np.intp)
        used = np.empty(links.shape, dtype=bool)
        # Level by level, for arrays whose rows are short take far longer.
        for level, places in enumerate(self.below[:-1]):
            start, end = sources // places, destinations // places
            links[:, level] = up = self.up(level, start, path)
            links[:, -1 - level] = self.first_links[-1] + up + (end - start) * self.width[level + 1]
            used[:, level] = used[:, -1 - level] = start != end
        return links, used

    def climb(self, source: int, destination: int, path: int) -> list[int]:
        """Return the links of one shortest path, as ``walk`` does for many."""
        self._require_hosts(max(source, destination))
        up, down = list[int](), list[int]()
        for level, places in enumerate(self.below[:-1]):
            start, end = source // places, destination // places
            if start == end:
                break
            up.append(self.up(level, start, path))
            down.append(self.first_links[-1] + self.up(level, end, path))
        return up + down[::-1]

    def _require_hosts(self, highest: int) -> None:
        if highest >= self.hosts:
            raise UnsupportedError("paths begin and end at hosts", accepted=f"nodes 0 to {self.hosts - 1}")


_ALL = 2**64 - 1


def pair_hash(sources: Any, destinations: Any) -> Any:
    """Return 64 well-mixed bits for a pair of numbers, or for each of arrays: the first output of SplitMix64.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; the seed is ``source * 2**32 +
    destination``, the arithmetic modulo 2**64. It depends on nothing else, Python's hash seed included.
    """
    if not isinstance(sources, int):
        sources, destinations = sources.astype(np.uint64), destinations.astype(np.uint64)
    bits = ((sources << 32) + destinations + 0x9E3779B97F4A7C15) & _ALL
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _ALL
    return bits ^ (bits >> 31)
