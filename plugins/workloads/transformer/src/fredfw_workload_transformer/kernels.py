"""Which kernels the parts of a transformer layer launch: what Megatron-LM runs for a microbatch on one rank.

Bytes: an FP16 number read or written is 2, a mask of a dropout 1. Launches are counted in Megatron-LM of 2021 and 2022,
where bias and GELU, and bias, dropout and residual are fused; a backward pass adds the gradient of each weight and bias
to the sum of the microbatches before.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from fredfw import Gemm, Kernels

_BACKWARD_BYTES = 1.5
"""A backward kernel reads the gradient of its output and its input, and writes that of its input: 3 for 2."""


@frozen
class Pair:
    """Kernels of both directions."""

    forward: Kernels
    backward: Kernels

    def __add__(self, other: Pair) -> Pair:
        """Return the kernels of both."""
        return Pair(self.forward + other.forward, self.backward + other.backward)


@frozen
class Sizes:
    """What the kernels of a layer depend on.

    Args:
        samples: In the microbatch.
        sequence: Tokens in a sample.
        hidden: Hidden size.
        heads: Attention heads of all ranks together.
        mp: Ranks that share the layer.
        spread: Ranks that share what Megatron computes on every rank alike: MP with sequence parallelism, else 1.
    """

    samples: float
    sequence: int
    hidden: int
    heads: int
    mp: int
    spread: int

    @property
    def tokens(self) -> float:
        """Tokens in the microbatch."""
        return self.samples * self.sequence


def core(sizes: Sizes, *, fused: bool) -> Pair:
    """Return the kernels between the two linear layers of attention, which selective recomputation runs again.

    Unfused: scores, softmax, dropout, weighted values. Fused (Dao et al. 2022, FlashAttention, arXiv 2205.14135): one
    kernel that keeps the scores on the chip, and computes them again in its backward pass.
    """
    s, width = sizes.sequence, sizes.hidden / sizes.heads
    batch = sizes.samples * sizes.heads / sizes.mp
    row = 2 * sizes.tokens * sizes.hidden / sizes.mp  # bytes of the queries
    if fused:
        scores, values = (Gemm(s, s, width, batch, width=0), Gemm(s, width, s, batch, width=0))
        again = (scores, *_both((scores, values)))
        return Pair(Kernels((scores, values), 4 * row, launches=1), Kernels(again, 8 * row, launches=2))
    gemms = Gemm(s, s, width, batch), Gemm(s, width, s, batch)
    cells = batch * s * s
    moved = 4 * cells + 5 * cells  # softmax; dropout, with its mask
    return Pair(Kernels(gemms, moved, launches=4), Kernels(_both(gemms), _BACKWARD_BYTES * moved, launches=6))


def attention(sizes: Sizes) -> Pair:
    """Return the kernels of an attention block but for its core."""
    tokens, h, mp = sizes.tokens, sizes.hidden, sizes.mp
    gemms = Gemm(tokens, 3 * h / mp, h), Gemm(tokens, h, h / mp)
    # Bias of queries, keys and values; the transposed result; layer norm; bias, dropout and residual, with a mask
    moved = tokens * h * (12 / mp + 4 / mp + (4 + 7) / sizes.spread)
    return Pair(Kernels(gemms, moved, launches=6), Kernels(_both(gemms), _BACKWARD_BYTES * moved, launches=17))


def mlp(sizes: Sizes) -> Pair:
    """Return the kernels of an MLP block."""
    tokens, h, mp = sizes.tokens, sizes.hidden, sizes.mp
    gemms = Gemm(tokens, 4 * h / mp, h), Gemm(tokens, h, 4 * h / mp)
    moved = tokens * h * (16 / mp + (4 + 7) / sizes.spread)  # bias and GELU of 4 h; layer norm; bias, dropout, residual
    return Pair(Kernels(gemms, moved, launches=5), Kernels(_both(gemms), _BACKWARD_BYTES * moved, launches=17))


def head(sizes: Sizes, vocabulary: int) -> Pair:
    """Return the kernels of the last layer norm, the logits and their loss, which is computed in FP32."""
    columns = vocabulary / sizes.mp
    gemms = (Gemm(sizes.tokens, columns, sizes.hidden),)
    norm, logits = 4 * sizes.tokens * sizes.hidden / sizes.spread, sizes.tokens * columns
    # To FP32, then read and written once more; backward reads FP32 and writes FP16.
    forward = Kernels(gemms, norm + (2 + 4 + 4 + 4) * logits, launches=8)
    return Pair(forward, Kernels(_both(gemms), _BACKWARD_BYTES * norm + (4 + 2) * logits, launches=8))


def _both(gemms: Iterable[Gemm]) -> tuple[Gemm, ...]:
    """Return the products of a backward pass: the gradients of both factors."""
    return tuple(
        Gemm(*shape, one.batch, one.width) for one in gemms for shape in ((one.m, one.k, one.n), (one.k, one.n, one.m))
    )
