"""What a transformer costs, from its shape: parameters, FLOPs and activations, and what a pass over a block costs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

import attrs
from attrs import Factory, evolve, field, frozen

from fredfw import Gemm, Kernels
from fredfw.errors import InputError
from fredfw_workload_transformer import kernels
from fredfw_workload_transformer.experts import Routing, uniform_shares
from fredfw_workload_transformer.kernels import ELEMENTWISE, Pair, Sizes

FP16 = 2  # bytes per weight, gradient and activation
OPERATIONS = "operations"
"""Recomputation of every second product, and of all that is neither product nor attention: torchtitan's default."""
_ROUNDED = 256  # Llama's MLPs are as wide as a multiple of this (``multiple_of`` in its published code)


@frozen
class Block:
    """What one rank computes of a part of a layer for one microbatch."""

    name: str  # `embedding`, `attention`, `mlp` or `head`, or that of a part
    parameters: float  # the rank's share of the weights, a number
    flops: float  # forward floating-point operations, two per multiply-add
    activations: float  # bytes kept for the backward pass
    reduced: bool  # whether the MP group all-reduces its output in forward and its input's gradient in backward
    kernels: Pair
    # Attention between its two linear layers, which selective recomputation computes again (Korthikanti et al. 2022,
    # arXiv 2205.05198, section 5); with fused attention, backward always does.
    core: Block | None = None
    repeated: float = 0.0  # FLOPs that its backward pass takes beyond twice the forward ones
    mixture: Mixture | None = None  # the parts of an MLP that consists of experts
    # weights that a pass reads, a number; default: `parameters`
    read: float = field(default=Factory(lambda block: block.parameters, takes_self=True))

    @property
    def kept(self) -> float:
        """Bytes kept where ``OPERATIONS`` are computed again: results of fused attention and of every other product."""
        products = self.kernels.forward.gemms
        attended = 0.0 if self.core is None else products[-1].m * products[-1].k
        return FP16 * (attended + sum(one.batch * one.m * one.n for one in products[::2]))

    @property
    def again(self) -> Kernels:
        """What backward launches where ``OPERATIONS`` are computed again: all but attention and what is kept."""
        forward = self.kernels.forward
        kept = len(forward.gemms[::2]) + len(forward.attentions)
        return Kernels(forward.gemms[1::2], forward.moved, forward.launches - kept)

    @property
    def expert_parameters(self) -> float:
        return self.mixture.experts[0].parameters if self.mixture else 0.0


@frozen(eq=False)
class Mixture:
    """An MLP of experts."""

    router: Block  # chooses experts for each token, behind the norm
    shared: Block | None  # the experts that all tokens go to; they compute while tokens travel
    experts: tuple[Block, ...]  # `ep` blocks: those that a router chooses, as each rank of an EP group has them
    routing: Routing  # where the tokens go


@frozen
class Style:
    """How the layers are computed, whatever their shape."""

    fused: bool = False  # whether attention is one kernel that keeps no scores in memory
    causal: bool = False  # whether that kernel skips the scores of later tokens, which are half of them
    # whether layer norms and dropouts are split over MP along the sequence (Korthikanti et al. 2022, section 4.2.2)
    sequence_parallel: bool = False
    routing: Routing | None = None  # which experts tokens go to; `None`: to all of them alike, which are on one rank
    # whether tied embeddings belong to the look-up, which needs them first; not so, to the head
    embeddings_first: bool = False
    elementwise: str = "fused"  # a key of `ELEMENTWISE`


_PLAIN = Style()


@frozen
class Latent:
    """Multi-head latent attention (DeepSeek-AI 2024, DeepSeek-V2, arXiv 2405.04434, section 2.1)."""

    queries: int  # width that queries are compressed to
    keys_values: int  # width that keys and values are compressed to, together
    width: int  # width of the keys of a head that come from there
    rotary: int  # width of its keys that carry positions; these are the same for all heads
    values: int  # width of the values of a head


_OF_EXPERTS = "top_k", "expert_intermediate", "shared_experts", "dense_layers"


def _divides_heads(shape: Shape, attribute: attrs.Attribute[int | None], value: int | None) -> None:
    if value is not None and shape.heads % value:
        accepted = f"a divisor of the {shape.heads} heads"
        raise InputError(f"{shape.heads} heads cannot share {value}", key=attribute.name, accepted=accepted)


@frozen
class Shape:
    """The shape of a model: ``layers`` transformer layers, and behind them a head as layer number ``layers``.

    The head holds the final norm and the weights of the logits, which it computes. Embeddings that are not tied to
    these weights are layer number -1, with learned positions. Tied ones and their positions belong to the head or, with
    ``Style.embeddings_first``, to layer -1. Looking tokens up costs nothing here.
    """

    layers: int
    hidden: int
    sequence: int  # tokens in a sample
    heads: int
    vocabulary: int
    # `gpt`: layer norms, biases, dropouts, GELU, learned positions, tied embeddings (Brown et al. 2020, arXiv
    # 2005.14165). `llama`: RMS norms, no biases, no dropouts, a gated MLP (SwiGLU), rotary embeddings, untied
    # embeddings (Touvron et al. 2023, arXiv 2302.13971)
    architecture: str = "gpt"
    # heads of keys and values (Ainslie et al. 2023, GQA, arXiv 2305.13245); default: `heads`
    key_value_heads: int | None = field(default=None, validator=_divides_heads)
    # width between the linear layers of the MLP; default: 4 h, or for `llama` 8/3 h, rounded up to a multiple of 256
    intermediate: int | None = None
    tied_embeddings: bool | None = None  # whether look-up and logits share their weights; default: the architecture's
    latent: Latent | None = None  # widths of multi-head latent attention
    experts: int | None = None  # experts of a layer that a router chooses from; default: none
    top_k: int | None = None  # how many of them each token goes to; default: 1
    expert_intermediate: int | None = None  # width between the linear layers of an expert; default: `intermediate`
    shared_experts: int | None = None  # experts that all tokens go to, beside those; default: 0
    dense_layers: int | None = None  # first layers that have an MLP instead of experts; default: 0

    def __attrs_post_init__(self) -> None:
        for key in _OF_EXPERTS if self.experts is None else ():
            if (value := getattr(self, key)) is not None:
                message = f"{value} is given for a model without experts"
                raise InputError(message, key=key, accepted="no value, or experts = 2 or more")
        if self.experts is not None and self.chosen > self.experts:
            message = f"{self.chosen} of {self.experts} experts cannot be chosen"
            raise InputError(message, key="top_k", accepted=f"1 to {self.experts}")
        if self.dense_layers is not None and self.dense_layers >= self.layers:
            message = f"{self.dense_layers} of {self.layers} layers leave none to experts"
            raise InputError(message, key="dense_layers", accepted=f"0 to {self.layers - 1}")

    @property
    def chosen(self) -> int:
        return self.top_k or 1

    def kind(self, layer: int) -> str:
        """Return ``embedding``, ``dense``, ``experts`` or ``head``; layers of a kind have equal blocks."""
        if layer < 0:
            return "embedding"
        if layer == self.layers:
            return "head"
        return "dense" if self.experts is None or layer < (self.dense_layers or 0) else "experts"

    @property
    def tied(self) -> bool:
        return self.plain if self.tied_embeddings is None else self.tied_embeddings

    def first(self, style: Style = _PLAIN) -> int:
        """Return the number of the first layer: -1 where embeddings have one of their own."""
        return 0 if self.tied and not style.embeddings_first else -1

    @property
    def key_value_width(self) -> float:
        """Numbers of the keys and values of a token, together."""
        sizes = self._sizes(1, 1, _PLAIN)
        return sizes.shared * (sizes.keys + sizes.values)

    @property
    def plain(self) -> bool:
        """Whether the layers are those of GPT, with biases and dropouts."""
        return self.architecture == "gpt"

    @property
    def parameters(self) -> int:
        """Trainable numbers; GPT: 12 h^2 + 13 h per layer, V h + s h for embeddings, 2 h for the final layer norm."""
        layers = range(self.first(), self.layers + 1)
        return round(sum(block.parameters for layer in layers for block in self.blocks(layer, 1, 1)))

    @property
    def active_parameters(self) -> int:
        """Trainable numbers that a token meets: of the experts that a router chooses from, those that it chooses."""
        if self.experts is None:
            return self.parameters
        routed = sum(block.expert_parameters for layer in range(self.layers) for block in self.blocks(layer, 1, 1))
        return self.parameters - round(routed * (1 - self.chosen / self.experts))

    def flops(self, samples: float) -> float:
        """FLOPs of a forward pass; GPT: 24 b s l h^2 (1 + s / 6 h + V / 12 l h), arXiv 2104.04473, appendix."""
        return sum(block.flops for layer in range(self.layers + 1) for block in self.blocks(layer, samples, 1))

    def blocks(self, layer: int, samples: float, mp: int, style: Style = _PLAIN) -> tuple[Block, ...]:
        """Return the blocks of layer number ``layer``, for ``samples`` split evenly over ``mp`` ranks (Megatron).

        FLOPs: two for each weight of a matrix and each token, and 4 s for each token and number of a head's queries, as
        in Narayanan et al. 2021 (arXiv 2104.04473), appendix. Activations: Korthikanti et al. 2022 (arXiv 2205.05198):
        section 4.1, a layer norm in each block, which adds up for GPT to equation 2, or to equation 4 with sequence
        parallelism; head: section 4.3, logits in FP32. Fused attention keeps no scores.
        """
        return _blocks(self, self.kind(layer), samples, mp, style)

    def _sizes(self, samples: float, mp: int, style: Style) -> Sizes:
        h, width, shared = self.hidden, self.hidden / self.heads, self.key_value_heads or self.heads
        keys, values = width, width
        projections: tuple[tuple[float, float], ...] = ((h, h + 2 * shared * width), (h, h))
        if self.latent is not None:
            one = self.latent
            keys, values = one.width + one.rotary, one.values
            projections = (
                (h, one.queries + one.keys_values + one.rotary),
                (one.queries, self.heads * keys),
                (one.keys_values, shared * (one.width + one.values)),
                (self.heads * values, h),
            )
        heads = self.heads, shared, keys, values, projections
        return Sizes(
            *(samples, self.sequence, h, *heads),
            intermediate=self.intermediate or (4 * h if self.plain else -(-8 * h // (3 * _ROUNDED)) * _ROUNDED),
            plain=self.plain,
            mp=mp,
            spread=mp if style.sequence_parallel else 1,
            elementwise=ELEMENTWISE[style.elementwise],
        )

    @property
    def _norm(self) -> int:
        return (2 if self.plain else 1) * self.hidden

    def _normed(self, sizes: Sizes) -> float:
        """Return the bytes that a token keeps of a norm: its input and output, and with dropout a mask."""
        return (5 if self.plain else 4) * self.hidden / sizes.spread

    def _attention(self, sizes: Sizes, style: Style) -> Block:
        tokens, s, mp = sizes.tokens, self.sequence, sizes.mp
        seen = tokens * s / (2 if style.causal else 1)  # scores of a head
        flops = 2 * seen * self.heads * (sizes.keys + sizes.values) / mp
        kept = 0 if style.fused else (5 if self.plain else 2) * self.heads * s  # softmax; dropout, with its mask
        core = Block(
            "core",
            parameters=0.0,
            flops=flops,
            activations=tokens * kept / mp,
            reduced=False,
            kernels=kernels.core(sizes, fused=style.fused, causal=style.causal),
            repeated=2 * seen * self.heads * sizes.keys / mp if style.fused else 0.0,
        )
        matrices = sum(k * n for k, n in sizes.projections)
        biases = sum(n for _, n in sizes.projections) if self.plain else 0
        # Inputs of the norm, of the linear layers and, behind a bias, of the core; the core's result is one of them.
        held = 2 * sum(k for k, _ in sizes.projections[1:]) + 2 * sum(n for _, n in sizes.projections[:-1])
        return Block(
            "attention",
            parameters=(matrices + biases + self._norm) / mp,
            flops=2 * tokens * matrices / mp + flops,
            activations=tokens * (self._normed(sizes) + (held + kept) / mp),
            reduced=True,
            kernels=kernels.attention(sizes) + core.kernels,
            core=core,
        )

    def _mlp(self, sizes: Sizes) -> Block:
        launched, held = kernels.mlp(sizes), self._normed(sizes)
        return self._linear("mlp", sizes, launched, held=held, reduced=True)

    def _experts(self, sizes: Sizes, style: Style) -> Block:
        """Return an MLP of experts; its numbers are those of the rank whose experts get most tokens."""
        assert self.experts is not None
        routing = style.routing or Routing(uniform_shares(self.experts), self.chosen)
        h, tokens, mp, local = self.hidden, sizes.tokens, sizes.mp, self.experts // routing.ep
        width = self.expert_intermediate or sizes.intermediate
        router = Block(
            "router",
            parameters=(self.experts * h + self._norm) / mp,
            flops=2 * tokens * h * self.experts / mp,
            # With what experts sent back, for the gradients of scores.
            activations=tokens * (self._normed(sizes) + 2 * float(routing.kept.sum()) * h / mp),
            reduced=True,
            kernels=kernels.router(sizes, self.experts, self.chosen),
        )
        experts = []
        for load in routing.loads:
            one = evolve(sizes, samples=sizes.samples * float(load), intermediate=width)
            experts.append(self._linear("experts", one, kernels.experts(one, local), count=local, held=2 * h / mp))
        parts, shared = [router, max(experts, key=lambda block: block.flops)], None
        if self.shared_experts:
            wide = evolve(sizes, intermediate=self.shared_experts * width)
            shared = self._linear("shared experts", wide, kernels.experts(wide, 1))
            parts.insert(1, shared)
        return Block(
            "mlp",
            parameters=sum(part.parameters for part in parts),
            flops=sum(part.flops for part in parts),
            activations=sum(part.activations for part in parts),
            reduced=True,
            kernels=sum((part.kernels for part in parts[1:]), start=router.kernels),
            mixture=Mixture(router, shared, tuple(experts), routing),
        )

    def _linear(
        self, name: str, sizes: Sizes, pair: Pair, *, count: int = 1, held: float = 0, reduced: bool = False
    ) -> Block:
        # A gated MLP has two matrices side by side. Each token keeps `held` more bytes. A `reduced` one has a norm.
        matrices, h, width, mp = 2 if self.plain else 3, self.hidden, sizes.intermediate, sizes.mp
        weights = matrices * h * width + (width + h if self.plain else 0)
        return Block(
            name,
            parameters=(count * weights + reduced * self._norm) / mp,
            flops=2 * sizes.tokens * matrices * h * width / mp,
            activations=sizes.tokens * (held + 2 * matrices * width / mp),
            reduced=reduced,
            kernels=pair,
        )

    @property
    def _embeddings(self) -> int:
        """Weights of the look-up: of each token of the vocabulary, and of learned positions."""
        return (self.vocabulary + (self.sequence if self.plain else 0)) * self.hidden

    def _head(self, sizes: Sizes, style: Style) -> Block:
        h, tokens, mp = self.hidden, sizes.tokens, sizes.mp
        whole = (self._embeddings if self.tied else self.vocabulary * h) + self._norm
        return Block(
            "head",
            parameters=(self._norm if self.tied and style.embeddings_first else whole) / mp,
            flops=2 * tokens * h * self.vocabulary / mp,
            activations=tokens * (4 * h / sizes.spread + 4 * self.vocabulary / mp),
            reduced=False,
            kernels=kernels.head(sizes, self.vocabulary),
            read=whole / mp,
        )


# Layers of a kind have equal blocks, and there may be many thousands. Whole numbers and others are told apart.
@lru_cache(maxsize=256, typed=True)
def _blocks(shape: Shape, kind: str, samples: float, mp: int, style: Style) -> tuple[Block, ...]:
    sizes = shape._sizes(samples, mp, style)
    if kind == "embedding":
        return (Block(kind, shape._embeddings / mp, 0.0, 0.0, False, Pair(Kernels(), Kernels()), read=0.0),)
    if kind == "head":
        return (shape._head(sizes, style),)
    mlp = shape._mlp(sizes) if kind == "dense" else shape._experts(sizes, style)
    return shape._attention(sizes, style), mlp


def _llama(layers: int, hidden: int, heads: int, intermediate: int) -> Shape:
    """Return a model of Llama 3: Grattafiori et al. 2024, arXiv 2407.21783, table 3; vocabulary: section 3.2."""
    return Shape(layers, hidden, 8192, heads, 128256, "llama", key_value_heads=8, intermediate=intermediate)


PRESETS: Mapping[str, Shape] = {
    # Turing-NLG (Microsoft Research, 2020; Rajbhandari et al. 2020, arXiv 1910.02054); vocabulary of GPT-2
    "transformer-17b": Shape(layers=78, hidden=4256, sequence=1024, heads=28, vocabulary=50257),
    # Brown et al. 2020, arXiv 2005.14165, table 2.1
    "gpt-3": Shape(layers=96, hidden=12288, sequence=2048, heads=96, vocabulary=50257),
    # Narayanan et al. 2021, arXiv 2104.04473, table 1
    "transformer-1t": Shape(layers=128, hidden=25600, sequence=2048, heads=160, vocabulary=51200),
    "llama-3-8b": _llama(layers=32, hidden=4096, heads=32, intermediate=14336),
    "llama-3-70b": _llama(layers=80, hidden=8192, heads=64, intermediate=28672),
    "llama-3-405b": _llama(layers=126, hidden=16384, heads=128, intermediate=53248),
    # Jiang et al. 2024, arXiv 2401.04088, table 1; layers as wide as those of llama-3-8b
    "mixtral-8x7b": evolve(_llama(32, 4096, 32, 14336), sequence=32768, vocabulary=32000, experts=8, top_k=2),
    # DeepSeek-AI 2024, arXiv 2412.19437, section 4.2, and the published config.json (vocabulary); without the module
    # that predicts a second token
    "deepseek-v3": evolve(
        Shape(layers=61, hidden=7168, sequence=4096, heads=128, vocabulary=129280, architecture="llama"),
        intermediate=18432,
        latent=Latent(queries=1536, keys_values=512, width=128, rotary=64, values=128),
        experts=256,
        top_k=8,
        expert_intermediate=2048,
        shared_experts=1,
        dense_layers=3,
    ),
}


_LAUNCHES = 2  # of a weight gradient: its product, and the addition to the sum of the microbatches before

_NONE = Kernels()


class Way(Enum):
    """What is computed of a block."""

    FORWARD = "forward"
    RECOMPUTE = "recompute"
    BACKWARD = "backward"
    INPUTS = "input gradients"
    WEIGHTS = "weight gradients"

    @property
    def backward(self) -> bool:
        """Whether gradients of inputs are computed."""
        return self in (Way.BACKWARD, Way.INPUTS)


@frozen
class Cost:
    """FLOPs, bytes of local memory and kernels of a computation on one rank."""

    flops: float = 0.0
    moved: float = 0.0
    kernels: Kernels = _NONE

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.moved + other.moved, self.kernels + other.kernels)

    def without(self, part: Cost) -> Cost:
        gemms = list(self.kernels.gemms)
        for gemm in part.kernels.gemms:
            gemms.remove(gemm)
        # Rounded, a difference may be a little below 0.
        moved = max(self.kernels.moved - part.kernels.moved, 0.0)
        attentions = [one for one in self.kernels.attentions if one not in part.kernels.attentions]
        kernels = Kernels(tuple(gemms), moved, self.kernels.launches - part.kernels.launches, tuple(attentions))
        return Cost(self.flops - part.flops, self.moved - part.moved, kernels)


def cost(block: Block, way: Way, *, recompute: str, communications: int) -> Cost:
    """Return the cost of a pass; backward computes ``recompute`` (``selective``, ``OPERATIONS``) again."""
    if way is Way.WEIGHTS:
        return _weight_gradients(block)
    passes, kernels = (2, block.kernels.backward) if way.backward else (1, block.kernels.forward)
    # Weights are read (or their gradients written) once a pass, activations written and read.
    moved = passes * (block.read * FP16 + 2 * block.activations)
    whole = Cost(passes * block.flops, moved, kernels + Kernels(launches=communications))
    if not way.backward:
        return whole
    if block.core is not None:
        whole += Cost(block.core.repeated)
        if recompute == "selective":
            whole += core_cost(block.core, Way.FORWARD, selective=True)
    if recompute == OPERATIONS and block.name != "head":
        whole += Cost(block.again.flops, block.again.moved, block.again)
    return whole if way is Way.BACKWARD else whole.without(_weight_gradients(block))


def core_cost(core: Block, way: Way, *, selective: bool) -> Cost:
    """Return the part of ``cost`` that is between the linear layers of attention."""
    forward = Cost(core.flops, 2 * core.activations, core.kernels.forward)
    if not way.backward:
        return forward
    once = Cost(2 * core.flops + core.repeated, 4 * core.activations, core.kernels.backward)
    return once + forward if selective else once


def _weight_gradients(block: Block) -> Cost:
    """Return the part of a backward pass that the stage before does not wait for."""
    flops, activations, gemms = block.flops, block.activations, block.kernels.forward.gemms
    if block.core is not None:  # it has no weights
        flops, activations = flops - block.core.flops, activations - block.core.activations
        whole = Cost(flops, activations, block.kernels.forward)
        gemms = whole.without(Cost(kernels=block.core.kernels.forward)).kernels.gemms
    products = tuple(Gemm(one.k, one.n, one.m, one.batch, one.width) for one in gemms)
    return Cost(flops, block.read * FP16 + 2 * activations, Kernels(products, launches=_LAUNCHES * len(products)))
