"""Forward and backward passes over layers as tasks, the part that stationary and streaming execution share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np
from attrs import define, field

from fredfw import GraphBuilder, Parallelism, Pattern
from fredfw.typing import IntArray
from fredfw_workload_transformer.model import FP16, Block, Shape


@define
class Passes:
    """Adds passes of microbatches over layers to a graph; one task covers all MP and DP members of a stage.

    The tasks of a stage form a chain in the order in which they are added, so no rank ever has to choose.

    Args:
        builder: The graph.
        parallelism: MP, DP and PP.
        shape: The model.
        samples: Samples in a microbatch.
        recompute: Whether backward repeats each transformer layer's forward pass, with its all-reduces.
        multicast: Whether the first MP member alone hands activations to all MP members of the next stage, instead of
            each member to its counterpart.
    """

    builder: GraphBuilder
    parallelism: Parallelism
    shape: Shape
    samples: float
    recompute: bool
    multicast: bool
    _layer: tuple[Block, ...] = field(init=False)
    _head: tuple[Block, ...] = field(init=False)
    _ranks: list[IntArray] = field(init=False)
    _mp_groups: list[IntArray] = field(init=False)
    _tails: dict[int, int] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        stages = range(self.parallelism.pp)
        self._layer = self.shape.blocks(0, self.samples, self.parallelism.mp)
        self._head = self.shape.blocks(self.shape.layers, self.samples, self.parallelism.mp)
        self._ranks = [self.parallelism.stage(stage) for stage in stages]
        self._mp_groups = [self.parallelism.mp_groups(stage) for stage in stages]

    def weight_bytes(self, layers: Iterable[int]) -> float:
        """Return the bytes of one rank's share of the weights (or gradients) of ``layers``."""
        return sum(block.parameters * FP16 for layer in layers for block in self._blocks(layer))

    def forward(self, stage: int, layers: Sequence[int], microbatch: int, after: Iterable[int] = ()) -> int:
        """Add the forward pass over ``layers`` on ``stage``, behind ``after``; return its last task."""
        for run, blocks in self._runs(layers):
            with self.builder.repeated(len(run)):
                for block in blocks:
                    self._add(stage, f"forward {_span(run)} {block.name} [{microbatch}]", block, 1, after)
                    after = ()
        return self._tails[stage]

    def backward(self, stage: int, layers: Sequence[int], microbatch: int, after: Iterable[int] = ()) -> int:
        """Add the backward pass over ``layers``, given in backward order; return its last task.

        Gradients of inputs and of weights together cost two forward passes.
        """
        for run, blocks in self._runs(layers):
            with self.builder.repeated(len(run)):
                if self.recompute and blocks is self._layer:
                    for block in blocks:
                        self._add(stage, f"recompute {_span(run)} {block.name} [{microbatch}]", block, 1, after)
                        after = ()
                for block in reversed(blocks):
                    self._add(stage, f"backward {_span(run)} {block.name} [{microbatch}]", block, 2, after)
                    after = ()
        return self._tails[stage]

    def _runs(self, layers: Sequence[int]) -> list[tuple[tuple[int, ...], tuple[Block, ...]]]:
        """Return ``layers`` as runs of layers with equal blocks, and those blocks."""
        runs = (tuple(run) for _, run in groupby(layers, lambda layer: layer < self.shape.layers))
        return [(run, self._blocks(run[0])) for run in runs]

    def hand_over(self, source: int, destination: int, task: int, name: str) -> int:
        """Send ``task``'s result from stage to stage; return the task to wait for (itself within one stage)."""
        if source == destination:
            return task
        grid = self.parallelism.grid
        if self.multicast:
            groups = np.concatenate([grid[:, source, :1], grid[:, destination, :]], axis=1)
        else:
            groups = np.stack([grid[:, source, :].ravel(), grid[:, destination, :].ravel()], axis=1)
        return self.builder.transfer(name, groups, self._activation_bytes, label="pp", after=(task,))

    @property
    def _activation_bytes(self) -> float:
        """Bytes of the activations between two layers: all of them, on every MP member."""
        return self.samples * self.shape.sequence * self.shape.hidden * FP16

    def _blocks(self, layer: int) -> tuple[Block, ...]:
        return self._layer if layer < self.shape.layers else self._head

    def _add(self, stage: int, name: str, block: Block, passes: int, after: Iterable[int]) -> None:
        tail = self._tails.get(stage)
        # Weights are read (or their gradients written) once a pass, activations written and read.
        moved = passes * (block.parameters * FP16 + 2 * block.activations)
        task = self.builder.compute(
            name,
            self._ranks[stage],
            flops=passes * block.flops,
            bytes=moved,
            after=after if tail is None else (tail, *after),
        )
        if block.reduced and self.parallelism.mp > 1:
            task = self.builder.collective(
                name, Pattern.ALL_REDUCE, self._mp_groups[stage], self._activation_bytes, label="mp", after=(task,)
            )
        self._tails[stage] = task


def _span(layers: Sequence[int]) -> str:
    return str(layers[0]) if len(layers) == 1 else f"{layers[0]}..{layers[-1]}"
