"""One data-parallel training iteration of a convolutional network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import (
    DeviceMesh,
    GradientBuckets,
    GraphBuilder,
    Label,
    MemoryUse,
    System,
    TaskGraph,
    Work,
    Workload,
    samples_per_replica,
    units,
)
from fredfw_workload_cnn.networks import NETWORKS, Block

_MINIBATCH = 16


@frozen
class Cnn(Workload):
    """Data-parallel training of a convolutional network on ImageNet, with stationary weights.

    One task per block (convolution, residual unit, inception module) and direction. The backward pass costs twice the
    forward pass (gradients of inputs and of weights). The roofline's bytes are the parameters once and everything that
    the layers read and write. Meanwhile each worker loads the images of the *next* iteration from one I/O controller.
    No task waits for them, but the iteration ends only when they have arrived. Without controllers nothing is loaded.
    """

    name: ClassVar[str] = "cnn"

    model: str = units.choice(NETWORKS, "resnet-152", help="network to train")
    dp: int | None = units.count(None, help="data-parallel workers; default: all NPUs")
    global_batch: int | None = units.count(None, help="samples of an iteration, over all workers; DP divides it")
    minibatch: int | None = units.count(
        None, help=f"samples of an iteration per worker, instead of global_batch; default without it: {_MINIBATCH}"
    )
    overlap_dp: bool = units.flag(
        False, help="all-reduce gradients in buckets during the backward pass, not all at once behind it"
    )
    bucket: float = units.size(
        "25 MiB", help="with overlap_dp: gradients that fill a bucket (default of PyTorch DistributedDataParallel)"
    )
    weight_bytes: float = units.quantity(units.Unit.BYTES, 2, help="per weight (default: FP16)")
    gradient_bytes: float = units.quantity(units.Unit.BYTES, 2, help="per gradient (default: FP16)")
    optimizer_bytes: float = units.quantity(
        units.Unit.BYTES, 8, help="optimizer state per weight (default: SGD, FP32 master copy and momentum)"
    )
    activation_bytes: float = units.quantity(units.Unit.BYTES, 2, help="per activation (default: FP16)")
    input_bytes: float = units.quantity(
        units.Unit.BYTES, 3 * 224 * 224, help="to load per sample (default: 224 x 224 RGB, 8 bits); 0 for no load"
    )

    def __attrs_post_init__(self) -> None:
        self._samples(self.dp or 1)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The network, in forward order."""
        return NETWORKS[self.model]()

    @property
    def parameters(self) -> int:
        """Trainable numbers of the network."""
        return sum(block.parameters for block in self.blocks)

    def mesh(self, system: System) -> DeviceMesh:
        """See ``Workload.mesh``."""
        return DeviceMesh({"dp": system.npus if self.dp is None else self.dp})

    def labels(self, system: System) -> Mapping[str, Label]:
        """See ``Workload.labels``."""
        del system
        return {"load": Label(colour="#F0E442"), "dp": Label(0, "#E69F00")}

    def graph(self, system: System) -> TaskGraph:
        """See ``Workload.graph``; the first task is the load, if there is one."""
        workers = self.mesh(system).ranks
        ranks, samples = np.arange(workers), self._samples(workers)
        builder = GraphBuilder(workers)
        if system.controllers and self.input_bytes:
            name, size = "images of the next iteration", samples * self.input_bytes
            builder.load(name, ranks % system.controllers, ranks[:, None], size, label="load")
        before: tuple[int, ...] = ()
        for block in self.blocks:
            before = (self._compute(builder, "forward", block, samples, before),)
        buckets = GradientBuckets(builder, ranks, self.bucket if self.overlap_dp else math.inf)
        for block in reversed(self.blocks):
            before = (self._compute(builder, "backward", block, samples, before),)
            buckets.add(block.name, block.parameters * self.gradient_bytes, *before)
        buckets.flush()
        return builder.build()

    def memory(self, system: System) -> MemoryUse:
        """See ``Workload.memory``; every layer's output is kept for the backward pass."""
        samples = self._samples(self.mesh(system).ranks)
        return MemoryUse(
            weights=self.parameters * self.weight_bytes,
            gradients=self.parameters * self.gradient_bytes,
            optimizer=self.parameters * self.optimizer_bytes,
            activations=sum(block.stored for block in self.blocks) * samples * self.activation_bytes,
        )

    def work(self, system: System) -> Work:
        """Return samples and model FLOPs of an iteration: three forward passes, of convolutions and linear layers."""
        workers = self.mesh(system).ranks
        samples = self._samples(workers) * workers
        flops = sum(block.flops for block in self.blocks)
        return Work(samples, model_flops=3 * samples * flops, replicas=workers)

    def _samples(self, workers: int) -> int:
        """Return the samples of one worker."""
        return samples_per_replica(self.global_batch, workers, self.minibatch, _MINIBATCH)

    def _compute(self, builder: GraphBuilder, direction: str, block: Block, samples: int, after: Sequence[int]) -> int:
        passes = 1 if direction == "forward" else 2
        moved = block.moved * samples * self.activation_bytes + block.parameters * self.weight_bytes
        name, flops = f"{direction} {block.name}", passes * block.flops * samples
        return builder.compute(name, np.arange(builder.ranks), flops=flops, bytes=passes * moved, after=after)
