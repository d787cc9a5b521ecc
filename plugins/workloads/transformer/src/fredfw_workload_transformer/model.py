"""What a GPT-like transformer costs: parameters, FLOPs and activations, from its shape."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from fredfw_workload_transformer import kernels
from fredfw_workload_transformer.kernels import Pair, Sizes

FP16 = 2
"""Bytes per weight, gradient and activation."""


@frozen
class Core:
    """The attention between its two linear layers (Korthikanti et al. 2022, arXiv 2205.05198, section 5).

    Args:
        flops: Forward floating-point operations.
        activations: Bytes that are kept for the backward pass where it is not computed again.
        again: FLOPs that its backward pass takes beyond twice the forward ones.
        kernels: What it launches.
    """

    flops: float
    activations: float
    again: float
    kernels: Pair


@frozen
class Block:
    """What one rank computes of a part of a layer for one microbatch.

    Args:
        name: ``attention``, ``mlp`` or ``head``.
        parameters: The rank's share of the weights, a number.
        flops: Forward floating-point operations, two per multiply-add.
        activations: Bytes kept for the backward pass.
        reduced: Whether the MP group all-reduces its output in forward and its input's gradient in backward.
        kernels: What it launches.
        core: The part of it that selective recomputation computes again; with fused attention, backward always does.
    """

    name: str
    parameters: float
    flops: float
    activations: float
    reduced: bool
    kernels: Pair
    core: Core | None = None


@frozen
class Style:
    """How the layers are computed, whatever their shape.

    Args:
        fused: Whether attention is one kernel that keeps no scores in memory.
        sequence_parallel: Whether layer norms and dropouts are split over MP along the sequence (Korthikanti et al.
            2022, section 4.2.2).
    """

    fused: bool = False
    sequence_parallel: bool = False


_PLAIN = Style()


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

    def blocks(self, layer: int, samples: float, mp: int, style: Style = _PLAIN) -> tuple[Block, ...]:
        """Return the blocks of layer number ``layer``, for ``samples`` split evenly over ``mp`` ranks (Megatron).

        FLOPs: Narayanan et al. 2021 (arXiv 2104.04473), appendix. Activations: Korthikanti et al. 2022 (arXiv
        2205.05198): section 4.1, a layer norm in each block, which adds up to equation 2, or to equation 4 with
        sequence parallelism; head: section 4.3, logits in FP32. Fused attention keeps no scores.
        """
        h, s = self.hidden, self.sequence
        tokens = samples * s
        spread = mp if style.sequence_parallel else 1
        sizes = Sizes(samples, s, h, self.heads, mp, spread)
        if layer == self.layers:
            head = Block(
                "head",
                parameters=(self.vocabulary * h + s * h + 2 * h) / mp,
                flops=2 * tokens * h * self.vocabulary / mp,
                activations=tokens * (4 * h / spread + 4 * self.vocabulary / mp),
                reduced=False,
                kernels=kernels.head(sizes, self.vocabulary),
            )
            return (head,)
        flops = 4 * tokens * s * h / mp
        core = Core(
            flops=flops,
            activations=0.0 if style.fused else tokens * 5 * self.heads * s / mp,
            again=flops / 2 if style.fused else 0.0,
            kernels=kernels.core(sizes, fused=style.fused),
        )
        scores = 0 if style.fused else 5 * self.heads * s
        attention = Block(
            "attention",
            parameters=(4 * h**2 + 6 * h) / mp,
            flops=(8 * tokens * h**2 + 4 * tokens * s * h) / mp,
            activations=tokens * (5 * h / spread + (8 * h + scores) / mp),
            reduced=True,
            kernels=kernels.attention(sizes) + core.kernels,
            core=core,
        )
        mlp = Block(
            "mlp",
            parameters=(8 * h**2 + 7 * h) / mp,
            flops=16 * tokens * h**2 / mp,
            activations=tokens * (5 * h / spread + 16 * h / mp),
            reduced=True,
            kernels=kernels.mlp(sizes),
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
