"""Gradients that are all-reduced in buckets during a backward pass."""

from __future__ import annotations

import numpy as np
from attrs import define, field

from fredfw.collectives import Pattern
from fredfw.typing import IntArray
from fredfw.workloads.graph import GraphBuilder


@define
class GradientBuckets:
    """All-reduces gradients as soon as a bucket is full (Li et al. 2020, arXiv 2006.15704, section 3.2).

    Layers are added in the order of the backward pass. Each all-reduce also waits for the one before.

    Args:
        groups: ``(groups, members)`` ranks with the same weights; a single member has nothing to reduce.
        capacity: Bytes that fill a bucket. 0: each layer has its own; infinity: there is one, which ``flush`` reduces.
    """

    builder: GraphBuilder
    groups: IntArray = field(converter=np.atleast_2d)
    capacity: float
    label: str = "dp"
    _pending: float = field(default=0.0, init=False)
    _layer: str = field(default="", init=False)
    _complete: tuple[int, ...] = field(default=(), init=False)
    _reduced: tuple[int, ...] = field(default=(), init=False)

    def add(self, layer: str, size: float, task: int) -> None:
        """Add ``size`` bytes of gradients of ``layer``, complete with ``task``, and reduce a full bucket."""
        self._pending, self._layer, self._complete = self._pending + size, layer, (task,)
        if self._pending >= self.capacity:
            self.flush()

    def flush(self) -> None:
        """Reduce what is in the bucket, behind the last layer that was added."""
        if self._pending and self.groups.shape[1] > 1:
            name, after = f"gradients down to {self._layer}", (*self._complete, *self._reduced)
            task = self.builder.collective(
                name, Pattern.ALL_REDUCE, self.groups, self._pending, label=self.label, after=after
            )
            self._reduced, self._pending = (task,), 0.0
