"""The networks, layer by layer, for ImageNet (1000 classes); nothing here is typed in as a total.

What layers cost is found by walking through a network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Literal

from attrs import define, field, frozen

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
    """A feature map on its way through a network, and what the layers since the last block have cost.

    A ReLU is taken to be fused with the layer before it and costs nothing.
    """

    channels: int  # channels of the feature map
    size: int  # its height and width
    _costs: Counter[str] = field(factory=Counter, init=False)

    @property
    def elements(self) -> int:
        """Numbers in the feature map."""
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
        """A maximum or average over square windows."""
        before = self.elements
        self._resize(kernel, stride, padding)
        self._layer(before, 0)

    def linear(self, outputs: int) -> None:
        """A fully connected layer with bias."""
        before = self.elements
        self.channels, self.size = outputs, 1
        self._costs["flops"] += 2 * before * outputs
        self._layer(before, (before + 1) * outputs)

    def fork(self) -> Walk:
        """Return a branch that starts from this feature map; give it back to ``join``."""
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

    Source: He et al. 2016, arXiv 1512.03385, table 1. The first unit of a stage has a projection shortcut, and its
    first 1x1 convolution has the stride of 2 (later versions, such as torchvision's, have it in the 3x3 one: the
    same parameters, but more FLOPs).
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
    for layer, width in enumerate((4096, 4096, CLASSES), start=6):
        walk.linear(width)
        blocks.append(walk.block(f"fc{layer}"))
    return tuple(blocks)


def alexnet() -> tuple[Block, ...]:
    """Return AlexNet (Krizhevsky et al. 2012, section 3.5) as one tower: no convolution is split over two GPUs.

    Images have 227 x 227 pixels, which is what the 55 x 55 map behind the first layer needs. Local response
    normalisation has no parameters and is left out.
    """
    walk = Walk(channels=3, size=227)
    blocks = []
    convolutions = ((96, 11, 4, 0, True), (256, 5, 1, 2, True), (384, 3, 1, 1, False), (384, 3, 1, 1, False))
    for layer, (width, kernel, stride, padding, pooled) in enumerate((*convolutions, (256, 3, 1, 1, True)), start=1):
        walk.convolution(width, kernel, stride=stride, padding=padding)
        if pooled:
            walk.pool(3, stride=2)
        blocks.append(walk.block(f"conv{layer}"))
    for layer, width in enumerate((4096, 4096, CLASSES), start=6):
        walk.linear(width)
        blocks.append(walk.block(f"fc{layer}"))
    return tuple(blocks)


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
