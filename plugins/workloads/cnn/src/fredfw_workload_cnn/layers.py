"""What the layers of a convolutional network cost, found by walking through it layer by layer."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from attrs import define, field, frozen


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
