"""Trees that carry their data in pieces, all in lock step: at every step, each edge of every tree carries one piece.

A tree that runs at its own pace gets what links share out among the trees that are on them at that moment, and its
edges get different shares: it waits for its slowest edge, and leaves the others idle. In lock step every edge carries
as many pieces as there are trees on it, and all links that are used equally are done at the same moment. Between the
steps at which the first edges start and those at which they end, one phase repeats.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from attrs import frozen

from fredfw import Phase, in_series
from fredfw.typing import BoolArray, FloatArray, IntArray
from fredfw_collective_forest.trees import Packing

_FILL = 0.005
"""Share of the time that filling and draining may take where a step costs no time of its own."""
_PIECES = 4096


@frozen(eq=False)
class Edges:
    """Directed edges of trees."""

    source: IntArray  # ``(rows,)`` rank that sends
    destination: IntArray  # ``(rows,)`` rank that receives
    tree: IntArray  # ``(rows,)`` tree it belongs to
    start: IntArray  # ``(rows,)`` step at which it carries the first piece of its tree
    reduce: BoolArray  # ``(rows,)`` whether what arrives is added
    link: IntArray  # ``(rows,)`` index of the link, or of what else takes the time

    @classmethod
    def of(cls, packing: Packing, *, up: bool, down: bool) -> Edges:
        """Return the edges of trees that carry data ``up`` to their roots, ``down`` from them, or up and down again."""
        link = {pair: index for index, pair in enumerate(packing.bandwidths)}
        rows = []
        for tree, edges in enumerate(packing.trees):
            root = edges[0][0]
            ready = {root: 0}  # step at which a rank has the first piece of all that is below it
            if up:
                ready |= {child: 0 for _, child in edges}
                for parent, child in reversed(edges):
                    ready[parent] = max(ready[parent], ready[child] + 1)
                rows += [(child, parent, tree, ready[child], True, link[child, parent]) for parent, child in edges]
            if down:
                begin = {root: ready[root]}
                for parent, child in edges:
                    begin[child] = begin[parent] + 1
                    rows.append((parent, child, tree, begin[parent], False, link[parent, child]))
        source, destination, number, start, reduce, used = (np.array(column) for column in zip(*rows, strict=True))
        return cls(source, destination, number, start, reduce, used)

    def loads(self, pieces: int) -> list[tuple[int, IntArray]]:
        """Return, for each run of steps with the same edges, its steps and the rows that are active."""
        times = np.unique(np.append(self.start, self.start + pieces))
        return [
            (int(end - begin), np.flatnonzero((self.start <= begin) & (begin < self.start + pieces)))
            for begin, end in itertools.pairwise(times)
        ]

    def phases(self, pieces: int) -> tuple[Phase, ...]:
        """Return the phases; the pieces of tree ``t`` are chunks ``t * pieces`` and on."""
        begin, phases = 0, []
        for steps, rows in self.loads(pieces):
            phases.append(
                Phase.of(
                    self.source[rows],
                    self.destination[rows],
                    begin - self.start[rows],
                    base=self.tree[rows] * pieces,
                    stride=1,
                    modulus=pieces,
                    reduce=self.reduce[rows],
                    repeat=steps,
                )
            )
            begin += steps
        return in_series(phases)

    def pieces(self, size: float, bandwidths: FloatArray, latency: float) -> int:
        """Return the number of pieces with which trees of ``size`` bytes each are done first; ``bandwidths`` by link.

        With p pieces, a step of the steady state takes size / p x c seconds, c being the most seconds per byte of any
        link for all edges on it, and there are about p such steps. The steps in which only a part of the edges is
        active take f times as long as one of them; there are F of them more than pieces. The sum,
        (p + f) size c / p + (p + F) latency, is least at p = sqrt(f size c / latency). Without latency it falls for
        ever: then p = f / 0.005, so that no more than that share is lost.
        """

        def busiest(links: IntArray) -> float:
            return float((np.bincount(links, minlength=len(bandwidths)) / bandwidths).max())

        last, steady = int(self.start.max()), busiest(self.link)
        runs = self.loads(last + 1)
        partial = sum(busiest(self.link[rows]) * steps for steps, rows in runs if len(rows) < len(self.start))
        fill = partial / steady - last
        most = max(1, math.ceil(fill / _FILL))
        if latency > 0:
            most = min(most, max(1, round(math.sqrt(max(fill, 0.0) * size * steady / latency))))
        # A piece has a byte or more.
        return max(1, min(most, _PIECES, math.floor(size)))
