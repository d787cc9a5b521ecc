"""One iteration as a task graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import define, field

from fredfw import GradientBuckets, GraphBuilder, Pattern, TaskGraph
from fredfw.typing import IntArray
from fredfw_workload_dlrm.model import Layer, placed

if TYPE_CHECKING:
    from fredfw_workload_dlrm.workload import Dlrm


@define
class Iteration:
    """Builds the tasks of an iteration."""

    workload: Dlrm
    workers: int
    _samples: int = field(init=False)  # of each worker
    _widths: IntArray = field(init=False)  # `(workers,)` numbers that each worker's pieces of tables give for a sample
    _builder: GraphBuilder = field(init=False)
    _buckets: GradientBuckets = field(init=False)

    def __attrs_post_init__(self) -> None:
        workload = self.workload
        self._widths, _ = placed(workload.shape, workload.column_shards, self.workers)
        self._samples = workload.samples(self.workers)
        self._builder = GraphBuilder(self.workers)
        # Without overlap, only the end of the backward pass fills the bucket.
        capacity = workload.bucket if workload.overlap_dp else math.inf
        self._buckets = GradientBuckets(self._builder, np.arange(self.workers), capacity)

    def graph(self) -> TaskGraph:
        """Return the iteration.

        Every worker computes one thing at a time: it looks up, then runs the bottom MLP while the embeddings are on
        their way. Backward goes the same way back, and the tables are updated last.
        """
        shape, hidden = self.workload.shape, self.workload.overlap_mp
        looked_up = self._tables("look-up", passes=1)
        arrived = self._exchange("embeddings", looked_up)
        before = looked_up if hidden else arrived
        for layer in shape.bottom:
            before = self._layer("forward", layer, before)
        before = arrived + before
        for layer in (shape.interacting, *shape.top):
            before = self._layer("forward", layer, before)
        for layer in reversed(shape.top):
            before = self._backward(layer, before)
        before = self._layer("backward", shape.interacting, before)
        returned = self._exchange("gradients of embeddings", before, back=True)
        if not hidden:
            before = returned
        for layer in reversed(shape.bottom):
            before = self._backward(layer, before)
        self._buckets.flush()
        self._tables("update", passes=2, after=returned + before)
        return self._builder.build()

    def _tables(self, name: str, *, passes: int, after: Sequence[int] = ()) -> tuple[int, ...]:
        """Add the work on the rows of all workers' samples: an update reads and writes each."""
        workload, samples = self.workload, self._samples * self.workers
        row = workload.shape.pooling * workload.embedding_bytes
        return tuple(
            self._builder.compute(
                f"{name} of embeddings",
                np.flatnonzero(self._widths == width),
                bytes=samples * width * (passes * row + workload.activation_bytes),
                after=after,
            )
            for width in np.unique(self._widths).tolist()
        )

    def _exchange(self, name: str, after: tuple[int, ...], *, back: bool = False) -> tuple[int, ...]:
        """Add the all-to-all of the features of all tables, or of their gradients."""
        if self.workers == 1:
            return after
        group, shape = np.arange(self.workers)[None, :], self.workload.shape
        number = self._samples * self.workload.activation_bytes
        if (self._widths == self._widths[0]).all():
            total = number * shape.tables * shape.embedding_dim
            return (self._builder.collective(name, Pattern.ALL_TO_ALL, group, total, label="mp", after=after),)
        sizes = np.repeat(self._widths[:, None] * number, self.workers, axis=1)
        return (self._builder.all_to_all_v(name, group, (sizes.T if back else sizes)[None], label="mp", after=after),)

    def _layer(self, direction: str, layer: Layer, after: Sequence[int]) -> tuple[int, ...]:
        passes, workload = 1 if direction == "forward" else 2, self.workload
        moved = layer.moved * self._samples * workload.activation_bytes + layer.parameters * workload.weight_bytes
        name, flops = f"{direction} {layer.name}", passes * layer.flops * self._samples
        ranks = np.arange(self.workers)
        return (self._builder.compute(name, ranks, flops=flops, bytes=passes * moved, after=after),)

    def _backward(self, layer: Layer, after: Sequence[int]) -> tuple[int, ...]:
        """Add the backward pass of a layer, and put its gradients into a bucket."""
        done = self._layer("backward", layer, after)
        self._buckets.add(layer.name, layer.parameters * self.workload.gradient_bytes, *done)
        return done
