"""The collective algorithm ``tree``: reductions up a tree of ranks and broadcasts down."""

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, GroupView, Pattern, Phase, Schedule, in_series, limits, units
from fredfw.typing import IntArray

fredfw_contract = 2


@frozen
class Tree(CollectiveAlgorithm):
    """Trees of ranks: reduce goes up, broadcast goes down, all-reduce does both; fits every group.

    - ``binomial``: the whole vector in ceil(log2 n) steps each way; who has it passes it on in every step.
    - ``binary``: a complete binary tree, in ``chunks`` pieces that follow each other. In one step all edges are busy,
      each with a piece of its own: a rank gets a piece while it sends the one before, and an all-reduce brings pieces
      down while others still go up.
    - ``double-binary``: the same with two trees at once, half the vector each. The root stands above both, and no other
      rank has children in both, so that all send and receive about as much (Sanders, Speck and Traeff, "Two-tree
      algorithms for full bandwidth broadcast, reduction and scan", 2009; NCCL 2.4). The second tree is the first one
      mirrored where n is odd, and shifted by one rank where n is even.
    - ``nodes``: an all-reduce with double binary trees of nodes, and below each node's rank in a tree a chain of the
      others. There are two trees for each position in a node, so that all network cards are used (NCCL's trees).
    """

    name: ClassVar[str] = "tree"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE, Pattern.BROADCAST})
    proportional: ClassVar[bool] = True

    shape: str = units.choice(
        ("binomial", "binary", "double-binary", "nodes"),
        help="binomial: fewest steps; binary: a pipeline; double-binary: a pipeline that uses all bandwidth; nodes: "
        "that of nodes, with chains in them",
    )
    chunks: int = units.count(16, help="pieces that follow each other through each binary tree")

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        shapes = ("binary", "double-binary")
        trees = [cls(), *(cls(shape=shape, chunks=chunks) for shape in shapes for chunks in (4, 16, 64, 256))]
        if pattern is Pattern.ALL_REDUCE:
            trees += [cls(shape="nodes", chunks=chunks) for chunks in (16, 64, 256)]
        return trees

    def served_patterns(self) -> frozenset[Pattern]:
        return frozenset({Pattern.ALL_REDUCE}) if self.shape == "nodes" else self.patterns

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        reason = super().refusal(request, view)
        return view.unstructured if reason is None and self.shape == "nodes" else reason

    def worthwhile(self, view: GroupView) -> bool:
        """See ``CollectiveAlgorithm.worthwhile``: trees of nodes are for nodes in which any position reaches any."""
        nodes = len(view.levels) > 1 and view.levels[0].any_to_any
        return nodes or self.shape != "nodes"

    def undivided(self) -> CollectiveAlgorithm:
        return self if self.shape == "binomial" or self.chunks == 1 else evolve(self, chunks=1)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        n, pattern, root = request.ranks, request.pattern, request.root
        trees = _trees_of_nodes(view) if self.shape == "nodes" else _trees(self.shape, n)
        pieces = 1 if self.shape == "binomial" else self.chunks
        chunks = len(trees) * pieces
        limits.check("phases", chunks, key="chunks")  # as a stepwise simulation has them
        transfers = [
            _transfers(pattern, parent, turn, base=index * pieces) for index, (parent, turn) in enumerate(trees)
        ]
        phases = _pipeline(np.concatenate(transfers, axis=1), root, n, pieces)
        return Schedule(pattern, n, request.size / chunks, chunks, phases, root=root)


def _trees(shape: str, n: int) -> list[tuple[IntArray, IntArray]]:
    """Return trees as ``(n,)`` parents, node 0 its own, and turns: nodes of one get the data in the same step."""
    node = np.arange(n)
    if shape == "binomial":
        low = node & -node  # a node's parent lacks its lowest bit, and serves the most distant child first
        return [(node ^ low, np.unique(-low, return_inverse=True)[1])]
    if shape == "binary":
        parent = np.maximum(node - 1, 0) // 2
        return [(parent, _depths(parent) - 1)]
    parent = _in_order(n)
    turn = _depths(parent) - 1
    # In the second tree, leaves and nodes with children change places; of an odd number of them, one is a leaf in both.
    name = np.concatenate([node[:1], n - node[1:] if n % 2 else node[1:] % (n - 1) + 1])
    node_of = np.argsort(name)
    return [(parent, turn), (name[parent[node_of]], turn[node_of])]


def _trees_of_nodes(view: GroupView) -> list[tuple[IntArray, IntArray]]:
    # For each position in a node. In the trees of position ``c``, the rank at ``c`` is that of its node, and from it a
    # chain goes to ``c + 1``, ...
    inner = view.levels[0].size
    # Ranks node by node, in each by their position; nodes that are near each other follow each other.
    nodes = np.lexsort(view.require_levels().T).reshape(-1, inner)
    found = []
    for position in range(inner):
        chains = np.roll(nodes, -position, axis=1)
        for above, turn in _trees("double-binary", len(nodes)):
            parent, turns = np.empty((2, nodes.size), dtype=np.intp)
            parent[chains[:, 0]] = chains[above, 0]
            parent[chains[:, 1:]] = chains[:, :-1]
            turns[chains] = turn[:, None] + np.arange(inner)
            found.append((parent, turns))
    return found


def _in_order(n: int) -> IntArray:
    """Return the parents in the binary tree that has the nodes 1 to n - 1 in order and node 0 above it."""
    # Odd nodes are leaves, even ones have children. In the tree without end, the parent of ``v`` with lowest bit ``b``
    # is ``v - b`` or ``v + b``, whichever is an odd multiple of ``2 b``; of the nodes above, the first one below n is
    # taken.
    node = np.arange(n)
    low = node & -node
    above: IntArray = (node ^ low) | (low << 1)
    return np.where(above < n, above, node ^ low)


def _depths(parent: IntArray) -> IntArray:
    """Return the number of edges from each node up to node 0."""
    depth = np.zeros_like(parent)
    at = np.arange(len(parent))
    while at.any():
        depth += at > 0
        at = parent[at]
    return depth


def _transfers(pattern: Pattern, parent: IntArray, turn: IntArray, base: int) -> IntArray:
    """Return source, destination, step of the first piece, ``base`` and whether it reduces, by edge."""
    child = np.flatnonzero(parent != np.arange(len(parent)))
    parent, turn = parent[child], turn[child]
    height = int(turn.max()) + 1
    ways = []
    if pattern is not Pattern.BROADCAST:
        ways.append((child, parent, height - 1 - turn, base, True))
    if pattern is not Pattern.REDUCE:
        ways.append((parent, child, turn + (height if pattern is Pattern.ALL_REDUCE else 0), base, False))
    return np.concatenate([np.stack(np.broadcast_arrays(*way)) for way in ways], axis=1)


def _pipeline(transfers: IntArray, root: int, n: int, pieces: int) -> tuple[Phase, ...]:
    """Return the steps in which ``pieces`` follow each other; those with the same busy edges are one phase."""
    source, destination, start, base, reduce = transfers
    phases = []
    for now, until in pairwise(np.unique([start, start + pieces]).tolist()):
        busy = (start <= now) & (now < start + pieces)
        phases.append(
            Phase.of(
                (source[busy] + root) % n,
                (destination[busy] + root) % n,
                now - start[busy],
                base=base[busy],
                stride=1,
                modulus=pieces,
                reduce=reduce[busy],
                repeat=until - now,
            )
        )
    return in_series(phases)
