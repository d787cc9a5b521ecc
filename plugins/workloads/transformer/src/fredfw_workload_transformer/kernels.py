"""Which kernels the parts of a transformer layer launch: what Megatron-LM runs for a microbatch on one rank.

Bytes: an FP16 number read or written is 2, a mask of a dropout 1. Launches are counted in Megatron-LM of 2021 and 2022,
where a backward pass adds the gradient of each weight and bias to the sum of the microbatches before. Models like Llama
have no biases and no dropouts.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from fredfw import Attention, Gemm, Kernels

_BACKWARD_BYTES = 1.5
"""A backward kernel reads the gradient of its output and its input, and writes that of its input: 3 for 2."""


@frozen
class Pair:
    """Kernels of both directions."""

    forward: Kernels
    backward: Kernels

    def __add__(self, other: Pair) -> Pair:
        return Pair(self.forward + other.forward, self.backward + other.backward)


# Bytes for each number, and launches, of what is neither product nor attention: of an RMS norm; of rotary embeddings,
# for each number of queries and keys; of SiLU and its product with the other half of a gated MLP; of dropout and
# residual, with the bias where that is no part of the product before.
ELEMENTWISE: Mapping[str, Mapping[str, tuple[int, int]]] = {
    # One kernel each, as Megatron-LM and torch.compile fuse them.
    "fused": {"norm": (4, 1), "rotary": (4, 1), "gated": (6, 1), "behind": (7, 1)},
    # One kernel for each operation of PyTorch 2.5. An RMS norm goes to FP32 (6 bytes), squares (8), takes means (4),
    # scales twice (8 each) and comes back (6); rotary embeddings go to FP32, multiply and come back.
    "eager": {"norm": (40, 8), "rotary": (20, 6), "gated": (10, 2), "behind": (11, 2)},
}


@frozen
class Sizes:
    """What the kernels of a layer depend on."""

    samples: float  # in the microbatch
    sequence: int  # tokens in a sample
    hidden: int
    heads: int  # attention heads of all ranks together
    shared: int  # those of keys and values, which heads share
    keys: float  # width of the keys of a head, which is that of its queries
    values: float  # width of the values of a head
    # inputs and outputs of the linear layers of attention; the last one is behind its core
    projections: tuple[tuple[float, float], ...]
    intermediate: int  # width between the linear layers of the MLP
    plain: bool  # whether layers have biases, dropouts and a GELU, as in GPT; not so, they are like Llama's
    mp: int  # ranks that share the layer
    spread: int  # ranks that share what Megatron computes on every rank alike: MP with sequence parallelism, else 1
    elementwise: Mapping[str, tuple[int, int]]  # how what is neither product nor attention runs

    @property
    def tokens(self) -> float:
        return self.samples * self.sequence


def _pair(gemms: tuple[Gemm, ...], moved: float, forward: float, backward: float) -> Pair:
    """Return the kernels of ``gemms``, of others that move so many bytes forward, and so many launches each way."""
    both = tuple(
        Gemm(*shape, one.batch, one.width) for one in gemms for shape in ((one.m, one.k, one.n), (one.k, one.n, one.m))
    )
    return Pair(Kernels(gemms, moved, forward), Kernels(both, _BACKWARD_BYTES * moved, backward))


def core(sizes: Sizes, *, fused: bool, causal: bool) -> Pair:
    """Return the kernels between the two linear layers of attention, which selective recomputation runs again.

    Unfused: scores, softmax, dropout, weighted values. Fused (Dao et al. 2022, FlashAttention, arXiv 2205.14135): one
    kernel that keeps the scores on the chip, and computes them again in its backward pass. It skips the half of the
    scores that a ``causal`` mask hides (Dao 2023, FlashAttention-2, arXiv 2307.08691, sections 3.1 and 4.1).
    """
    s, batch = sizes.sequence, sizes.samples * sizes.heads / sizes.mp
    if fused:
        width = (sizes.keys + sizes.values) / 2
        once = Attention(sizes.samples, sizes.heads / sizes.mp, sizes.shared / sizes.mp, s, s, width, causal)
        again = evolve(once, passes=2.5)  # the scores once more, and the gradients of both products
        return Pair(Kernels(attentions=(once,), launches=1), Kernels(attentions=(again,), launches=2))
    gemms = Gemm(s, s, sizes.keys, batch), Gemm(s, sizes.values, s, batch)
    cells = batch * s * s
    moved = (4 + 5 * sizes.plain) * cells  # softmax; dropout, with its mask
    return _pair(gemms, moved, 3 + sizes.plain, 5 + sizes.plain)


def attention(sizes: Sizes) -> Pair:
    """Return the kernels of an attention block but for its core."""
    tokens, h, mp, each = sizes.tokens, sizes.hidden, sizes.mp, sizes.elementwise
    *before, (k, n) = sizes.projections
    gemms = *(Gemm(tokens, n / mp, k) for k, n in before), Gemm(tokens, n, k / mp)
    turned, result = (sizes.heads + sizes.shared) * sizes.keys, sizes.heads * sizes.values
    if sizes.plain:
        # Bias of queries, keys and values; the transposed result; layer norm; bias, dropout and residual, with a mask
        wide = turned + sizes.shared * sizes.values + result
        moved = tokens * (4 * wide / mp + (4 + each["behind"][0]) * h / sizes.spread)
        return _pair(gemms, moved, 5 + each["behind"][1], 16 + each["behind"][1])
    # Rotary embedding of queries and keys; the transposed result; norm; residual
    moved = tokens * (each["rotary"][0] * turned / mp + 4 * result / mp + (each["norm"][0] + 6) * h / sizes.spread)
    # Backward: two products and a sum for each matrix, gradients of the norm's input and weights, and a sum of these
    further = each["norm"][1] + each["rotary"][1]
    return _pair(gemms, moved, len(gemms) + 2 + further, 3 * len(gemms) + 4 + further)


def mlp(sizes: Sizes) -> Pair:
    tokens, h, f, mp, each = sizes.tokens, sizes.hidden, sizes.intermediate, sizes.mp, sizes.elementwise
    gemms = Gemm(tokens, (f if sizes.plain else 2 * f) / mp, h), Gemm(tokens, h, f / mp)
    if sizes.plain:
        # Bias and GELU; norm; bias, dropout, residual
        moved = tokens * (4 * f / mp + (4 + each["behind"][0]) * h / sizes.spread)
        return _pair(gemms, moved, 4 + each["behind"][1], 16 + each["behind"][1])
    # SiLU and product; norm; residual
    moved = tokens * (each["gated"][0] * f / mp + (each["norm"][0] + 6) * h / sizes.spread)
    further = each["norm"][1] + each["gated"][1]
    return _pair(gemms, moved, 3 + further, 9 + further)


def router(sizes: Sizes, experts: int, chosen: int) -> Pair:
    """Return the kernels before and behind experts: norm, scores, their softmax and choice, sorting of tokens, sums."""
    tokens, h, norm = sizes.tokens, sizes.hidden, 4 if sizes.plain else sizes.elementwise["norm"][0]
    # Norm; residual; tokens are written once for each expert before, and read so behind
    moved = tokens * ((norm + 6) * h / sizes.spread + 2 * (1 + chosen) * 2 * h / sizes.mp)
    return _pair((Gemm(tokens, experts / sizes.mp, h),), moved, 7, 12)


def experts(sizes: Sizes, local: int) -> Pair:
    """Return the kernels of ``local`` experts, which share the tokens and run as one grouped multiplication each."""
    tokens, h, f = sizes.tokens / local, sizes.hidden, sizes.intermediate / sizes.mp
    gemms = Gemm(tokens, f if sizes.plain else 2 * f, h, local), Gemm(tokens, h, f, local)
    moved = sizes.tokens * (4 if sizes.plain else sizes.elementwise["gated"][0]) * f  # bias and GELU; SiLU and product
    return _pair(gemms, moved, 3, 7)


def head(sizes: Sizes, vocabulary: int) -> Pair:
    """Return the kernels of the last layer norm, the logits and their loss, which is computed in FP32."""
    columns = vocabulary / sizes.mp
    norm, logits = 4 * sizes.tokens * sizes.hidden / sizes.spread, sizes.tokens * columns
    products = _pair((Gemm(sizes.tokens, columns, sizes.hidden),), norm, 8, 8)
    # To FP32, then read and written once more; backward reads FP32 and writes FP16.
    return products + Pair(Kernels((), (2 + 4 + 4 + 4) * logits, 0), Kernels((), (4 + 2) * logits, 0))
