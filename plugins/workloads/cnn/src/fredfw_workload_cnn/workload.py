"""One data-parallel training iteration of a convolutional network."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import ClassVar, Literal

import numpy as np
from attrs import define, field, frozen

import fredfw
from fredfw import DeviceMesh, GradientBuckets, GraphBuilder, Label, MemoryUse, System, TaskGraph, Work, Workload, units

CLASSES = 1000


@frozen
class Block:
    """A part of a network that is computed as one task. Everything but the parameters is per sample."""

    name: str  # as in the paper that defines the network
    parameters: int  # trainable numbers
    flops: int  # forward floating-point operations of convolutions and linear layers, two per multiply-add
    stored: int  # outputs of its layers (numbers), which the backward pass needs
    moved: int  # numbers that its layers read and write in forward, parameters excluded


@define
class Walk:
    """A feature map, and what the layers since the last block have cost; a ReLU is fused with its layer, and free."""

    channels: int  # channels of the feature map
    size: int  # its height and width
    _costs: Counter[str] = field(factory=Counter, init=False)

    @property
    def elements(self) -> int:
        return self.channels * self.size**2

    def convolution(
        self, channels: int, kernel: int, *, stride: int = 1, padding: int | None = None, norm: bool = False
    ) -> None:
        """A square convolution (padding ``kernel // 2`` by default), with batch normalisation or else with a bias."""
        before = self.elements
        weights = kernel**2 * self.channels * channels
        self._resize(kernel, stride, kernel // 2 if padding is None else padding)
        self.channels = channels
        self._costs["flops"] += 2 * weights * self.size**2
        self._layer(before, weights if norm else weights + channels)
        if norm:
            self._layer(self.elements, 2 * channels)  # scale and shift

    def pool(self, kernel: int, *, stride: int, padding: int = 0) -> None:
        before = self.elements
        self._resize(kernel, stride, padding)
        self._layer(before, 0)

    def linear(self, outputs: int) -> None:
        before = self.elements
        self.channels, self.size = outputs, 1
        self._costs["flops"] += 2 * before * outputs
        self._layer(before, (before + 1) * outputs)

    def fork(self) -> Walk:
        return Walk(self.channels, self.size)

    def join(self, *branches: Walk, how: Literal["add", "concatenate"]) -> None:
        """Add branches to this feature map, or put their channels behind its own."""
        for branch in branches:
            self._costs += branch._costs
            if how == "add":
                self._layer(2 * self.elements, 0)
            else:  # the branches write side by side, which costs nothing
                self.channels += branch.channels

    def block(self, name: str) -> Block:
        """Return the costs since the last call as a block."""
        costs, self._costs = self._costs, Counter()
        return Block(name, *(costs[one] for one in ("parameters", "flops", "stored", "moved")))

    def _resize(self, kernel: int, stride: int, padding: int) -> None:
        self.size = (self.size + 2 * padding - kernel) // stride + 1

    def _layer(self, read: int, parameters: int) -> None:
        self._costs += Counter(parameters=parameters, stored=self.elements, moved=read + self.elements)


def resnet(depths: tuple[int, int, int, int]) -> tuple[Block, ...]:
    """Return a ResNet with ``depths`` bottleneck units in conv2_x to conv5_x.

    Source: He et al. 2016, arXiv 1512.03385, table 1. The first unit of a stage has a projection shortcut, and the
    stride of 2 in its first 1x1 convolution (torchvision's in the 3x3 one: as many parameters, but more FLOPs).
    """
    walk = Walk(channels=3, size=224)
    walk.convolution(64, 7, stride=2, norm=True)
    walk.pool(3, stride=2, padding=1)
    blocks = [walk.block("conv1")]
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for unit in range(depth):
            stride = 2 if stage > 0 and unit == 0 else 1
            shortcut = walk.fork()
            if unit == 0:
                shortcut.convolution(4 * width, 1, stride=stride, norm=True)
            walk.convolution(width, 1, stride=stride, norm=True)
            walk.convolution(width, 3, norm=True)
            walk.convolution(4 * width, 1, norm=True)
            walk.join(shortcut, how="add")
            blocks.append(walk.block(f"conv{stage + 2}_{unit + 1}"))
    walk.pool(7, stride=1)
    walk.linear(CLASSES)
    return (*blocks, walk.block("fc"))


def _classifier(walk: Walk) -> Iterator[Block]:
    for layer, width in enumerate((4096, 4096, CLASSES), start=6):
        walk.linear(width)
        yield walk.block(f"fc{layer}")


def vgg_16() -> tuple[Block, ...]:
    """Return VGG-16 (Simonyan & Zisserman 2015, arXiv 1409.1556, table 1, configuration D)."""
    walk = Walk(channels=3, size=224)
    blocks = []
    for stage, (width, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), start=1):
        for layer in range(1, depth + 1):
            walk.convolution(width, 3)
            if layer == depth:
                walk.pool(2, stride=2)
            blocks.append(walk.block(f"conv{stage}_{layer}"))
    return (*blocks, *_classifier(walk))


def alexnet() -> tuple[Block, ...]:
    """Return AlexNet (Krizhevsky et al. 2012, section 3.5) as one tower: no convolution is split over two GPUs.

    Images have 227 x 227 pixels, for a 55 x 55 map behind the first layer. Local response normalisation is left out.
    """
    walk = Walk(channels=3, size=227)
    blocks = []
    convolutions = ((96, 11, 4, 0, True), (256, 5, 1, 2, True), (384, 3, 1, 1, False), (384, 3, 1, 1, False))
    for layer, (width, kernel, stride, padding, pooled) in enumerate((*convolutions, (256, 3, 1, 1, True)), start=1):
        walk.convolution(width, kernel, stride=stride, padding=padding)
        if pooled:
            walk.pool(3, stride=2)
        blocks.append(walk.block(f"conv{layer}"))
    return (*blocks, *_classifier(walk))


# Output channels of 1x1; 1x1 before 3x3, 3x3; 1x1 before 5x5, 5x5; 1x1 behind the pool (GoogLeNet, table 1).
_INCEPTION: Mapping[str, tuple[int, int, int, int, int, int]] = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def googlenet() -> tuple[Block, ...]:
    """Return GoogLeNet (Szegedy et al. 2015, arXiv 1409.4842, table 1) without the auxiliary classifiers."""
    walk = Walk(channels=3, size=224)
    walk.convolution(64, 7, stride=2)
    walk.pool(3, stride=2, padding=1)
    blocks = [walk.block("conv1")]
    walk.convolution(64, 1)
    walk.convolution(192, 3)
    walk.pool(3, stride=2, padding=1)
    blocks.append(walk.block("conv2"))
    for name, (one, three_reduce, three, five_reduce, five, pooled) in _INCEPTION.items():
        branches = [walk.fork() for _ in range(3)]
        walk.convolution(one, 1)
        branches[0].convolution(three_reduce, 1)
        branches[0].convolution(three, 3)
        branches[1].convolution(five_reduce, 1)
        branches[1].convolution(five, 5)
        branches[2].pool(3, stride=1, padding=1)
        branches[2].convolution(pooled, 1)
        walk.join(*branches, how="concatenate")
        if name in ("3b", "4e"):
            walk.pool(3, stride=2, padding=1)
        blocks.append(walk.block(f"inception {name}"))
    walk.pool(7, stride=1)
    walk.linear(CLASSES)
    return (*blocks, walk.block("linear"))


NETWORKS: Mapping[str, Callable[[], tuple[Block, ...]]] = {
    "resnet-50": cache(partial(resnet, (3, 4, 6, 3))),
    "resnet-101": cache(partial(resnet, (3, 4, 23, 3))),
    "resnet-152": cache(partial(resnet, (3, 8, 36, 3))),
    "vgg-16": cache(vgg_16),
    "alexnet": cache(alexnet),
    "googlenet": cache(googlenet),
}


_MINIBATCH = 16


@frozen
class Cnn(Workload):
    """Data-parallel training of a convolutional network on ImageNet, with stationary weights.

    One task per block (convolution, residual unit, inception module) and direction. Backward costs twice the forward
    pass. The roofline's bytes are the parameters once and all that the layers read and write. Meanwhile each worker
    loads the images of the *next* iteration from an I/O controller, if there are any, which only the end waits for.
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
        return DeviceMesh({"dp": system.npus if self.dp is None else self.dp})

    def labels(self, system: System) -> Mapping[str, Label]:
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
        return Work(samples, model_flops=3 * samples * sum(block.flops for block in self.blocks), replicas=workers)

    def _samples(self, workers: int) -> int:
        return fredfw.samples_per_replica(self.global_batch, workers, self.minibatch, _MINIBATCH)

    def _compute(self, builder: GraphBuilder, direction: str, block: Block, samples: int, after: Sequence[int]) -> int:
        passes = 1 if direction == "forward" else 2
        moved = block.moved * samples * self.activation_bytes + block.parameters * self.weight_bytes
        name, flops = f"{direction} {block.name}", passes * block.flops * samples
        return builder.compute(name, np.arange(builder.ranks), flops=flops, bytes=passes * moved, after=after)
