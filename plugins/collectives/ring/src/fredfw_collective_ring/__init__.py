"""The collective algorithm ``ring``: every rank sends to its next neighbour in the group's order only."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import (
    CollectiveAlgorithm,
    CollectiveRequest,
    GroupView,
    Pattern,
    Phase,
    Schedule,
    in_series,
    limits,
    ring_schedule,
    units,
)
from fredfw.typing import IntArray

fredfw_contract = 2


@frozen
class Ring(CollectiveAlgorithm):
    """Ring: rank ``x`` sends to rank ``x + 1``, the last rank to rank 0; fits every group.

    - Reduce-scatter and all-gather: n - 1 steps of one block each; an all-reduce is one after the other (Patarasuk and
      Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009). With ``rotated``, as many
      rings side by side as the innermost level of the group has positions, each with its share of the data. Each enters
      and leaves every node at positions of its own, so that all network cards carry the same, and goes on to the same
      position of the next node, which is on the same rail (NCCL's channels). Where the group has more ranks in some
      servers than in others, there are as many rings as the fewest.
    - Broadcast and reduce: a pipeline of ``chunks`` pieces along the chain that starts (ends) at the root;
      n - 2 + ``chunks`` steps.
    - Scatter and gather: blocks follow each other along the same chain, each stops at (starts from) its owner; n - 1
      steps.
    - All-to-all: blocks are handed on until they arrive; in step t every rank passes on the n - 1 - t blocks that have
      further to go. This is the one that keeps to the neighbours; it loads a ring of links no more than sending each
      block directly would, but a switch (n - 1) / 2 times.
    """

    name: ClassVar[str] = "ring"
    patterns: ClassVar[frozenset[Pattern]] = frozenset(Pattern) - {Pattern.POINT_TO_POINT}
    proportional: ClassVar[bool] = True

    chunks: int = units.count(16, help="pieces of a broadcast or reduce that follow each other along the chain")
    rotated: bool = units.flag(
        False,
        help="whether an all-reduce, reduce-scatter or all-gather has a ring for each position in a node, "
        "so that all network cards carry the same",
    )

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        if pattern in (Pattern.BROADCAST, Pattern.REDUCE):
            return [cls(chunks=chunks) for chunks in (1, 4, 16, 64, 256)]
        return [cls(), cls(rotated=True)] if pattern in _ROUND else [cls()]

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        if self.rotated and request.pattern in _ROUND and view.servers is None and view.unstructured:
            return view.unstructured
        return super().refusal(request, view)

    def worthwhile(self, view: GroupView) -> bool:
        """See ``CollectiveAlgorithm.worthwhile``: rotated rings are for nodes in which any position reaches any."""
        return not self.rotated or view.servers is not None or (len(view.levels) > 1 and view.levels[0].any_to_any)

    def equivalent(self, view: GroupView) -> CollectiveAlgorithm:
        """See ``CollectiveAlgorithm.equivalent``: in one node, all rotated rings use the same links."""
        return self if not self.rotated or _in_several_nodes(view) else evolve(self, rotated=False)

    def undivided(self) -> CollectiveAlgorithm:
        return self if self.chunks == 1 else evolve(self, chunks=1)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        match request.pattern:
            case Pattern.ALL_REDUCE | Pattern.REDUCE_SCATTER | Pattern.ALL_GATHER:
                if self.rotated and _in_several_nodes(view):
                    return _rotated(request, _nodes(view))
                return ring_schedule(request.pattern, request.size, np.arange(request.ranks)[:, None])
            case Pattern.ALL_TO_ALL:
                return _all_to_all(request)
            case _:
                return _chain(request, self.chunks)


_ROUND = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER})
"""Patterns in which data goes all the way round."""


def _in_several_nodes(view: GroupView) -> bool:
    return view.servers is not None or len(view.levels) > 1


def _nodes(view: GroupView) -> list[IntArray]:
    """Return the ranks of each node, by their position; nodes that are near each other follow each other."""
    if view.servers is not None:
        counts = np.bincount(view.servers)
        return np.split(np.argsort(view.servers, kind="stable"), np.cumsum(counts)[:-1])
    return list(np.lexsort(view.require_levels().T).reshape(-1, view.levels[0].size))


def _rotated(request: CollectiveRequest, nodes: Sequence[IntArray]) -> Schedule:
    # Ring ``c`` has the chunks ``c * n .. c * n + n - 1``; the block of the rank at its place ``p`` is chunk ``p``.
    # What larger nodes have more is inside of all rings, so that its network cards are not used.
    n, pattern = request.ranks, request.pattern
    inner = min(map(len, nodes))
    turns = np.arange(inner)[:, None]
    # One row for each ring, which is the first one moved on by so many positions in every node.
    parts: list[IntArray] = []
    for node, path in zip(nodes, _paths(len(nodes), inner), strict=True):
        row = node[(path + turns) % inner]
        parts += [row[:, :1], np.broadcast_to(node[inner:], (inner, len(node) - inner)), row[:, 1:]]
    rings = np.concatenate(parts, axis=1)
    place = np.tile(np.arange(n), inner)
    base = np.repeat(np.arange(inner) * n, n)
    step = partial(Phase.of, rings.ravel(), np.roll(rings, -1, axis=1).ravel(), base=base, stride=-1, modulus=n)
    scatter = step((place - 1) % n, reduce=True, repeat=n - 1)
    gather = step(place, repeat=n - 1)
    phases = {
        Pattern.ALL_REDUCE: [scatter, gather],
        Pattern.REDUCE_SCATTER: [scatter],
        Pattern.ALL_GATHER: [gather],
    }[pattern]
    owner = rings.ravel() if pattern.owned else None
    return Schedule(pattern, n, request.size / (n * inner), n * inner, in_series(phases), owner=owner)


def _paths(nodes: int, inner: int) -> IntArray:
    """Return the ``(nodes, inner)`` positions along which a ring goes through each node."""
    # It leaves a node at the position at which it enters the next one: downwards from 0 to 1, upwards from 1 to 0, and
    # so on. An odd number of nodes ends with 0 to 1, 1 to 2, 2 to 0; with two positions there is no such way.
    up = np.arange(inner)
    paths = np.where(np.arange(nodes)[:, None] % 2, 1 + up, -up) % inner
    if nodes % 2 and inner > 2:
        paths[-2:] = (1 - up) % inner, (2 + np.append(up[:-2], up[:-3:-1])) % inner
    elif nodes % 2:
        paths[:] = up
    return paths


def _all_to_all(request: CollectiveRequest) -> Schedule:
    """Return the exchange; chunk ``x * n + d`` goes from rank ``x`` to the one ``d`` further."""
    n = request.ranks
    rank = np.arange(n)
    origin, distance = np.divmod(np.arange(n * n), n)
    owner = (origin + distance) % n
    phases = [
        Phase.of(rank, (rank + 1) % n, step + 1, base=(rank - step) % n * n, count=n - 1 - step)
        for step in range(n - 1)
    ]
    chunk_bytes = request.size / n if request.sizes is None else request.sizes[origin, owner]
    return Schedule(request.pattern, n, chunk_bytes, n * n, in_series(phases), owner=owner, origin=origin)


def _chain(request: CollectiveRequest, pieces: int) -> Schedule:
    """Return a rooted pattern along the chain of all ranks; hop ``h`` joins its members ``h`` and ``h + 1``."""
    n, pattern = request.ranks, request.pattern
    inwards = pattern in (Pattern.REDUCE, Pattern.GATHER)
    if not pattern.owned:
        limits.check("phases", n - 2 + pieces, key="chunks")
        limits.check("transfers", (n - 1) * pieces, key="chunks")
    order = (request.root + inwards + np.arange(n)) % n
    chunks, steps = (n, n - 1) if pattern.owned else (pieces, n - 2 + pieces)
    owner = order if inwards else order[::-1]
    hop = np.arange(n - 1)
    phases = []
    for step in range(steps):
        chunk = hop - step if pattern is Pattern.GATHER else step - hop
        busy = hop[(chunk >= 0) & (chunk < chunks)]
        phases.append(Phase.of(order[busy], order[busy + 1], chunk[busy], reduce=pattern is Pattern.REDUCE))
    owned = owner if pattern.owned else None
    return Schedule(pattern, n, request.size / chunks, chunks, in_series(phases), owner=owned, root=request.root)
