"""What a GPT-like transformer costs: parameters, FLOPs and activations, from its shape."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

FP16 = 2
"""Bytes per weight, gradient and activation."""


@frozen
class Block:
    """What one rank computes of a part of a layer for one microbatch.

    Args:
        name: ``attention``, ``mlp`` or ``head``.
        parameters: The rank's share of the weights, a number.
        flops: Forward floating-point operations, two per multiply-add.
        activations: Bytes kept for the backward pass.
        reduced: Whether the MP group all-reduces its output in forward and its input's gradient in backward.
    """

    name: str
    parameters: float
    flops: float
    activations: float
    reduced: bool


@frozen
class Shape:
    """The shape of a model: ``layers`` transformer layers, and behind them a head as layer number ``layers``.

    The head holds the embeddings (tied with the output layer), the position embeddings and the final layer norm, and
    computes the logits. Looking tokens up costs nothing here.
    """

    layers: int
    hidden: int
    sequence: int
    heads: int
    vocabulary: int

    @property
    def parameters(self) -> int:
        """Trainable numbers: 12 h^2 + 13 h per layer, V h + s h for embeddings, 2 h for the final layer norm."""
        return round(sum(block.parameters for layer in range(self.layers + 1) for block in self.blocks(layer, 1, 1)))

    def flops(self, samples: float) -> float:
        """Return the FLOPs of a forward pass over ``samples``: 24 b s l h^2 (1 + s / 6 h + V / 12 l h).

        Source: Narayanan et al. 2021, arXiv 2104.04473, appendix.
        """
        return sum(block.flops for layer in range(self.layers + 1) for block in self.blocks(layer, samples, 1))

    def blocks(self, layer: int, samples: float, mp: int) -> tuple[Block, ...]:
        """Return the blocks of layer number ``layer``, for ``samples`` split evenly over ``mp`` ranks (Megatron).

        FLOPs: Narayanan et al. 2021 (arXiv 2104.04473), appendix. Activations: Korthikanti et al. 2022 (arXiv
        2205.05198): section 4.1, a layer norm in each block, which adds up to equation 2; head: section 4.3, logits in
        FP32.
        """
        h, s = self.hidden, self.sequence
        tokens = samples * s
        if layer == self.layers:
            head = Block(
                "head",
                parameters=(self.vocabulary * h + s * h + 2 * h) / mp,
                flops=2 * tokens * h * self.vocabulary / mp,
                activations=tokens * (4 * h + 4 * self.vocabulary / mp),
                reduced=False,
            )
            return (head,)
        attention = Block(
            "attention",
            parameters=(4 * h**2 + 6 * h) / mp,
            flops=(8 * tokens * h**2 + 4 * tokens * s * h) / mp,
            activations=tokens * (5 * h + (8 * h + 5 * self.heads * s) / mp),
            reduced=True,
        )
        mlp = Block(
            "mlp",
            parameters=(8 * h**2 + 7 * h) / mp,
            flops=16 * tokens * h**2 / mp,
            activations=tokens * (5 * h + 16 * h / mp),
            reduced=True,
        )
        return attention, mlp


PRESETS: Mapping[str, Shape] = {
    # Turing-NLG (Microsoft Research, 2020; Rajbhandari et al. 2020, arXiv 1910.02054); vocabulary of GPT-2
    "transformer-17b": Shape(layers=78, hidden=4256, sequence=1024, heads=28, vocabulary=50257),
    # Brown et al. 2020, arXiv 2005.14165, table 2.1
    "gpt-3": Shape(layers=96, hidden=12288, sequence=2048, heads=96, vocabulary=50257),
    # Narayanan et al. 2021, arXiv 2104.04473, table 1
    "transformer-1t": Shape(layers=128, hidden=25600, sequence=2048, heads=160, vocabulary=51200),
}
