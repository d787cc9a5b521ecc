"""Valiant's routes: by way of an NPU that is chosen at random, so that no traffic pattern is a bad one."""

from typing import ClassVar

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from fredfw import arrays, units
from fredfw.errors import UnsupportedError
from fredfw.fabric.dimension_order import DimensionOrderRouter
from fredfw.fabric.fabric import Fabric, NodeKind
from fredfw.fabric.flows import Operation, Routes
from fredfw.fabric.routing import Router, ShortestPathRouter
from fredfw.typing import IntArray


@frozen
class ValiantRouter(Router):
    """Routes each pair over an NPU that a hash of the two and ``seed`` chooses. Fits every fabric.

    A path leads to that NPU and on from there, along dimensions where the fabric is a product of them. Elsewhere it
    goes over the fewest hops, and ties go to the lowest-numbered links, so that some carry more. Where it comes back to
    a node, the circle is left out (Valiant and Brebner, "Universal schemes for parallel communication", STOC 1981). A
    pair keeps to its path. Trees are those without the detour.
    """

    name: ClassVar[str] = "valiant"

    seed: int = units.count(0, minimum=0, help="another one chooses other NPUs")

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """See ``Router.route``; raises ``UnsupportedError`` where there is no path."""
        minimal = fabric.derived(_minimal)
        chosen = (_hash(sources, destinations, self.seed) % np.uint64(len(fabric.npus))).astype(np.intp)
        middle = np.where(sources == destinations, sources, fabric.npus[chosen])
        halves = minimal.route(fabric, np.append(sources, middle), np.append(middle, destinations))
        # The halves of a flow one after the other.
        both = halves.select(np.arange(2 * len(sources)).reshape(2, -1).T.ravel())
        return fabric.paths(*_without_loops(fabric, both.offsets[::2], both.links, sources))

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``; an all-reduce goes over the nearest switch that combines and copies, if there is one."""
        switches = (fabric.kinds == NodeKind.SWITCH) & fabric.copies & fabric.reduces
        over_switch = operation is Operation.ALL_REDUCE and switches.any()
        minimal = ShortestPathRouter() if over_switch else fabric.derived(_minimal)
        return minimal.tree(fabric, sources, destinations, operation)


def _minimal(fabric: Fabric) -> Router:
    nothing = np.zeros(0, dtype=np.intp)
    try:
        DimensionOrderRouter().route(fabric, nothing, nothing)
    except UnsupportedError:
        return ShortestPathRouter()
    return DimensionOrderRouter()


def _without_loops(fabric: Fabric, offsets: IntArray, links: IntArray, sources: IntArray) -> tuple[IntArray, IntArray]:
    count, flows = np.diff(offsets), np.arange(len(sources))
    # The nodes on the way, one more than links: those of flow f begin at offsets[f] + f.
    begin, flow = offsets[:-1] + flows, np.repeat(flows, count + 1)
    visited = np.empty(len(flow), dtype=np.intp)
    visited[begin] = sources
    inner = np.ones(len(flow), dtype=bool)
    inner[begin] = False
    visited[inner] = fabric.destinations[links]
    node, of = np.unique(flow * len(fabric.kinds) + visited, return_inverse=True)
    if len(node) == len(flow):
        return offsets, links
    last = np.zeros(len(node), dtype=np.intp)
    np.maximum.at(last, of, np.arange(len(flow)))
    # From each node, the way goes on from where it is left for the last time.
    kept = np.zeros(len(links), dtype=bool)
    at, active = last[of[begin]], flows
    while active.size:
        under_way = at < begin[active] + count[active]
        at, active = at[under_way], active[under_way]
        kept[at - active] = True
        at = last[of[at + 1]]
    return arrays.offsets(kept)[offsets], links[kept]


def _hash(sources: IntArray, destinations: IntArray, seed: int) -> NDArray[np.uint64]:
    """Return 64 well-mixed bits for each pair of nodes: outputs of SplitMix64 seeded with each number in turn."""
    # Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    bits = np.full(len(sources), seed % 2**64, dtype=np.uint64)
    for ends in (sources, destinations):
        bits += ends.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
    return bits
