"""Forward and backward passes over layers as tasks, the part that stationary and streaming execution share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np
from attrs import define, field

from fredfw import DeviceMesh, GraphBuilder, Kernels, Pattern
from fredfw.typing import IntArray
from fredfw_workload_transformer.model import FP16, Block, Shape, Style


@define
class Passes:
    """Adds passes of microbatches over layers to a graph; one task covers all MP and DP members of a stage.

    The tasks of a stage form a chain in the order in which they are added, so no rank ever has to choose.

    Args:
        builder: The graph.
        parallelism: MP, DP and PP.
        shape: The model.
        samples: Samples in a microbatch.
        recompute: What backward computes again: ``none``, ``full`` (each transformer layer's forward pass, with its
            communication) or ``selective`` (the core of attention).
        transfer: How activations get to the next stage: ``point-to-point``, ``multicast`` or ``scatter-gather``.
        style: How layers are computed.
        sharded: Whether DP members hold a share of the weights each, and gather a layer's before each pass over it.
        merged: Whether a pass over layers is one computation, and one communication behind it.
    """

    builder: GraphBuilder
    mesh: DeviceMesh
    shape: Shape
    samples: float
    recompute: str
    transfer: str
    style: Style
    sharded: bool = False
    merged: bool = False
    _layer: tuple[Block, ...] = field(init=False)
    _head: tuple[Block, ...] = field(init=False)
    _ranks: list[IntArray] = field(init=False)
    _mp_groups: list[IntArray] = field(init=False)
    _tails: dict[int, int] = field(factory=dict, init=False)
    _merges: dict[tuple[tuple[str, ...], bool], tuple[float, float, Kernels]] = field(factory=dict, init=False)
    _gathers: dict[int, list[int]] = field(factory=lambda: defaultdict(list), init=False)
    _ends: dict[int, list[int]] = field(factory=lambda: defaultdict(list), init=False)

    def __attrs_post_init__(self) -> None:
        stages = range(self.mesh.size("pp"))
        self._layer = self.shape.blocks(0, self.samples, self.mesh.size("mp"), self.style)
        self._head = self.shape.blocks(self.shape.layers, self.samples, self.mesh.size("mp"), self.style)
        self._ranks = [self.mesh.members(pp=stage) for stage in stages]
        self._mp_groups = [self.mesh.groups("mp", pp=stage) for stage in stages]

    def weight_bytes(self, layers: Iterable[int]) -> float:
        """Return the bytes of one rank's share of the weights (or gradients) of ``layers``."""
        return sum(block.parameters * FP16 for layer in layers for block in self._blocks(layer))

    def forward(self, stage: int, layers: Sequence[int], microbatch: int, after: Iterable[int] = ()) -> int:
        """Add the forward pass over ``layers`` on ``stage``, behind ``after``; return its last task."""
        for run, blocks in self._runs(layers):
            self._pass(stage, run, [("forward", blocks)], f"[{microbatch}]", after)
            after = ()
        return self._tails[stage]

    def backward(self, stage: int, layers: Sequence[int], microbatch: int, after: Iterable[int] = ()) -> int:
        """Add the backward pass over ``layers``, given in backward order; return its last task.

        Gradients of inputs and of weights together cost two forward passes.
        """
        for run, blocks in self._runs(layers):
            steps = [("backward", blocks[::-1])]
            if self.recompute == "full" and blocks is self._layer:
                steps.insert(0, ("recompute", blocks))
            self._pass(stage, run, steps, f"[{microbatch}]", after)
            after = ()
        return self._tails[stage]

    def _pass(
        self,
        stage: int,
        run: Sequence[int],
        steps: Sequence[tuple[str, tuple[Block, ...]]],
        suffix: str,
        after: Iterable[int],
    ) -> None:
        """Add a pass over ``run``, layers with equal blocks; ``steps`` are directions with their blocks in order."""
        if self.merged:
            self._merged(stage, run, steps, suffix, after)
            return
        with self.builder.repeated(len(run)):
            for direction, blocks in steps:
                after = self._weights(stage, f"{direction} weights of layer {_span(run)} {suffix}", run, after)
                for block in blocks:
                    self._add(stage, f"{direction} {_span(run)} {block.name} {suffix}", block, direction, after)
                    after = ()

    def _merged(
        self,
        stage: int,
        run: Sequence[int],
        steps: Sequence[tuple[str, tuple[Block, ...]]],
        suffix: str,
        after: Iterable[int],
    ) -> None:
        """Add what ``_pass`` adds as one computation, and one communication of each pattern behind it."""
        key = tuple(direction for direction, _ in steps), run[0] == self.shape.layers
        if key not in self._merges:
            costs = [self._cost(block, direction) for direction, blocks in steps for block in blocks]
            flops, moved, kernels = zip(*costs, strict=True)
            self._merges[key] = sum(flops), sum(moved), sum(kernels, start=Kernels())
        name = f"{steps[-1][0]} {_span(run)} {suffix}"
        with self.builder.repeated(len(run)):
            self._compute(stage, name, self._merges[key], after)
        exchanged = [block for _, blocks in steps for block in blocks if self._reduced(block)]
        for pattern in self._patterns if exchanged else ():
            with self.builder.repeated(len(run) * len(exchanged)):
                self._exchange(stage, name, pattern)

    def _runs(self, layers: Sequence[int]) -> list[tuple[tuple[int, ...], tuple[Block, ...]]]:
        """Return ``layers`` as runs of layers with equal blocks, and those blocks."""
        runs = (tuple(run) for _, run in groupby(layers, lambda layer: layer < self.shape.layers))
        if self.sharded:  # each layer has a gather of its own, which overlaps with the layer before
            runs = ((layer,) for layer in layers)
        return [(run, self._blocks(run[0])) for run in runs]

    def hand_over(self, source: int, destination: int, task: int, name: str) -> int:
        """Send ``task``'s result from stage to stage; return the task to wait for (itself within one stage)."""
        if source == destination:
            return task
        grid, mp, size = self.mesh.grid, self.mesh.size("mp"), self._activation_bytes
        if self.transfer == "multicast":
            groups = np.concatenate([grid[:, source, :1], grid[:, destination, :]], axis=1)
        else:
            groups = np.stack([grid[:, source, :].ravel(), grid[:, destination, :].ravel()], axis=1)
        # With sequence parallelism a member holds no more than its share; without it, members can share the way.
        parts = mp if self.style.sequence_parallel or self.transfer == "scatter-gather" else 1
        sent = self.builder.transfer(name, groups, size / parts, label="pp", after=(task,))
        if self.style.sequence_parallel or parts == 1:
            return sent
        members = self._mp_groups[destination]
        return self.builder.collective(name, Pattern.ALL_GATHER, members, size, label="pp", after=(sent,))

    @property
    def _activation_bytes(self) -> float:
        """Bytes of the activations between two layers: all of them, on every MP member."""
        return self.samples * self.shape.sequence * self.shape.hidden * FP16

    def _blocks(self, layer: int) -> tuple[Block, ...]:
        return self._layer if layer < self.shape.layers else self._head

    def _weights(self, stage: int, name: str, run: Sequence[int], after: Iterable[int]) -> tuple[int, ...]:
        """Return ``after``, and the gather of the weights of ``run`` if the DP members hold a share each.

        Gathers come one after the other, each while the layer before computes.
        """
        if not self.sharded:
            return tuple(after)
        gathers, ends = self._gathers[stage], self._ends[stage]
        gather = self.builder.collective(
            name,
            Pattern.ALL_GATHER,
            self.mesh.groups("dp", pp=stage),
            self.weight_bytes(run),
            label="dp",
            # The buffer is free with the end of the layer before the one that computes.
            after=(*gathers[-1:], *ends[-1:]),
        )
        gathers.append(gather)
        ends.extend(() if stage not in self._tails else (self._tails[stage],))
        return (*after, gather)

    def _add(self, stage: int, name: str, block: Block, direction: str, after: Iterable[int]) -> None:
        """Add the computation of a block, and its communication over MP."""
        *before, behind = self._patterns if self._reduced(block) else (None,)
        for pattern in before:
            after = (self._exchange(stage, name, pattern, after),)
        self._compute(stage, name, self._cost(block, direction), after)
        if behind is not None:
            self._exchange(stage, name, behind)

    def _reduced(self, block: Block) -> bool:
        return block.reduced and self.mesh.size("mp") > 1

    @property
    def _patterns(self) -> tuple[Pattern, ...]:
        """What MP communicates for each block: the last one behind it, the others before."""
        return (Pattern.ALL_GATHER, Pattern.REDUCE_SCATTER) if self.style.sequence_parallel else (Pattern.ALL_REDUCE,)

    def _compute(self, stage: int, name: str, cost: tuple[float, float, Kernels], after: Iterable[int]) -> None:
        """Add a computation of FLOPs, bytes and kernels behind the last task of ``stage``."""
        flops, moved, kernels = cost
        chained, ranks = self._chained(stage, after), self._ranks[stage]
        task = self.builder.compute(name, ranks, flops=flops, bytes=moved, after=chained, kernels=kernels)
        self._tails[stage] = task

    def _exchange(self, stage: int, name: str, pattern: Pattern, after: Iterable[int] = ()) -> int:
        """Add a collective of the activations in the MP groups of ``stage``; return it."""
        chained, groups, size = self._chained(stage, after), self._mp_groups[stage], self._activation_bytes
        self._tails[stage] = self.builder.collective(name, pattern, groups, size, label="mp", after=chained)
        return self._tails[stage]

    def _chained(self, stage: int, after: Iterable[int]) -> tuple[int, ...]:
        tail = self._tails.get(stage)
        return tuple(after) if tail is None else (tail, *after)

    def _cost(self, block: Block, direction: str) -> tuple[float, float, Kernels]:
        """Return FLOPs, bytes and kernels of a pass over ``block``; the host launches its communication, too."""
        passes = 2 if direction == "backward" else 1
        # Weights are read (or their gradients written) once a pass, activations written and read.
        flops, moved = passes * block.flops, passes * (block.parameters * FP16 + 2 * block.activations)
        communication = Kernels(launches=len(self._patterns) if self._reduced(block) else 0)
        if direction != "backward":
            return flops, moved, block.kernels.forward + communication
        kernels = block.kernels.backward + communication
        if block.core is not None:
            flops += block.core.again
            if self.recompute == "selective" and not self.style.fused:
                flops, moved = flops + block.core.flops, moved + 2 * block.core.activations
                kernels += block.core.kernels.forward
        return flops, moved, kernels


def _span(layers: Sequence[int]) -> str:
    return str(layers[0]) if len(layers) == 1 else f"{layers[0]}..{layers[-1]}"
