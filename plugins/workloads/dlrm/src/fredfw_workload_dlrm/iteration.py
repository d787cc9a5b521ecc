"""One iteration as a task graph."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import define, field, frozen

from fredfw import GradientBuckets, GraphBuilder, Pattern, TaskGraph
from fredfw.typing import IntArray
from fredfw_workload_dlrm.model import Layer, Shape


@frozen
class Bytes:
    """Bytes of a number."""

    weight: float  # of an MLP
    gradient: float  # of an MLP's weight
    activation: float  # of an activation, and of an embedding on its way
    embedding: float  # of a table


@define
class Iteration:
    """Builds the tasks of an iteration."""

    shape: Shape
    widths: IntArray  # `(workers,)` numbers that each worker's pieces of tables give for a sample
    samples: int  # samples of each worker
    size: Bytes  # bytes of each number
    hidden: bool  # whether the bottom MLP runs beside the all-to-alls
    bucket: float  # bytes of gradients that an all-reduce waits for
    _builder: GraphBuilder = field(init=False)
    _buckets: GradientBuckets = field(init=False)

    def __attrs_post_init__(self) -> None:
        workers = len(self.widths)
        self._builder = GraphBuilder(workers)
        self._buckets = GradientBuckets(self._builder, np.arange(workers), self.bucket)

    def graph(self) -> TaskGraph:
        """Return the iteration.

        Every worker computes one thing at a time: it looks up, then runs the bottom MLP while the embeddings are on
        their way. Backward goes the same way back, and the tables are updated last.
        """
        shape = self.shape
        looked_up = self._tables("look-up", passes=1)
        arrived = self._exchange("embeddings", looked_up)
        before = looked_up if self.hidden else arrived
        for layer in shape.bottom:
            before = self._layer("forward", layer, before)
        before = arrived + before
        for layer in (shape.interacting, *shape.top):
            before = self._layer("forward", layer, before)
        for layer in reversed(shape.top):
            before = self._backward(layer, before)
        before = self._layer("backward", shape.interacting, before)
        returned = self._exchange("gradients of embeddings", before, back=True)
        if not self.hidden:
            before = returned
        for layer in reversed(shape.bottom):
            before = self._backward(layer, before)
        self._buckets.flush()
        self._tables("update", passes=2, after=returned + before)
        return self._builder.build()

    def _tables(self, name: str, *, passes: int, after: Sequence[int] = ()) -> tuple[int, ...]:
        """Add the work on the rows of all workers' samples: an update reads and writes each."""
        samples = self.samples * len(self.widths)
        row = self.shape.pooling * self.size.embedding
        return tuple(
            self._builder.compute(
                f"{name} of embeddings",
                np.flatnonzero(self.widths == width),
                bytes=samples * int(width) * (passes * row + self.size.activation),
                after=after,
            )
            for width in np.unique(self.widths)
        )

    def _exchange(self, name: str, after: tuple[int, ...], *, back: bool = False) -> tuple[int, ...]:
        """Add the all-to-all of the features of all tables, or of their gradients."""
        workers = len(self.widths)
        if workers == 1:
            return after
        group = np.arange(workers)[None, :]
        number = self.samples * self.size.activation
        if (self.widths == self.widths[0]).all():
            total = number * self.shape.tables * self.shape.embedding_dim
            task = self._builder.collective(name, Pattern.ALL_TO_ALL, group, total, label="mp", after=after)
        else:
            sizes = np.repeat(self.widths[:, None] * number, workers, axis=1)
            sizes = sizes.T if back else sizes
            task = self._builder.all_to_all_v(name, group, sizes[None], label="mp", after=after)
        return (task,)

    def _layer(self, direction: str, layer: Layer, after: Sequence[int]) -> tuple[int, ...]:
        passes = 1 if direction == "forward" else 2
        moved = layer.moved * self.samples * self.size.activation + layer.parameters * self.size.weight
        task = self._builder.compute(
            f"{direction} {layer.name}",
            np.arange(len(self.widths)),
            flops=passes * layer.flops * self.samples,
            bytes=passes * moved,
            after=after,
        )
        return (task,)

    def _backward(self, layer: Layer, after: Sequence[int]) -> tuple[int, ...]:
        """Add the backward pass of a layer, and put its gradients into a bucket."""
        done = self._layer("backward", layer, after)
        self._buckets.add(layer.name, layer.parameters * self.size.gradient, *done)
        return done


AT_ONCE = math.inf
"""A bucket that only the end of the backward pass fills."""
