"""Inference with a transformer: prefill, decode, and the KV cache between two pools of NPUs."""

import math
from collections.abc import Mapping
from contextlib import nullcontext
from itertools import chain, pairwise
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

import fredfw
from fredfw import DeviceMesh, GraphBuilder, Kernels, Label, MemoryUse, Pattern, System, TaskGraph, Work, limits, units
from fredfw.errors import InputError
from fredfw.typing import IntArray
from fredfw_workload_transformer.model import FP16, Block, Cost, Style
from fredfw_workload_transformer.shaped import ModelWorkload

PREFILL, DECODE, BOTH, DISAGGREGATED = PHASES = "prefill", "decode", "both", "disaggregated"
FIRST_TOKEN, TOKEN = "first token", "token"
"""Names of the tasks that compute the logits of the first and of a later token."""
_TOKEN_ID = 4  # bytes of a token's number, which the last stage sends to the first one


@frozen
class Latencies:
    """How long users wait, in seconds."""

    ttft: float | None  # to the first token; `None` without prefill
    tpot: float | None  # for each later token, mean; `None` without decode


def latencies(timeline: fredfw.Timeline, steps: int) -> Latencies:
    """Return the latencies of an iteration of ``Inference`` with so many ``steps`` (``Inference.steps``)."""
    names = np.array(timeline.graph.names)[timeline.task]
    first, later = (timeline.end[names == name] for name in (FIRST_TOKEN, TOKEN))
    ttft = float(first.max()) if len(first) else None
    if not len(later):
        return Latencies(ttft, None)
    # The pools of a disaggregated system begin together; elsewhere decode follows prefill.
    after = 0.0 if ttft is None or "kv" in timeline.graph.label_names else ttft
    return Latencies(ttft, (float(later.max()) - after) / steps)


@frozen
class Inference(ModelWorkload):
    """Prefill and decode of one batch of requests in FP16, each layer split over TP, layers over PP (Megatron).

    A computation takes its roofline time. Prefill computes all prompts at once, and the logits of each last token. A
    step of decode computes one token of each sequence. Without a scheduler, the batch goes through the pipeline whole.
    """

    name: ClassVar[str] = "inference"

    phase: str = units.choice(
        PHASES,
        BOTH,
        help="prefill: to the first token; decode: one step, at the mean length of the context; both: a batch from "
        "prompt to last token; disaggregated: one pool of NPUs prefills and sends the KV cache to another one, which "
        "decodes other requests meanwhile",
    )
    tp: int = units.count(1, help="workers that split each layer; divides key_value_heads")
    pp: int = units.count(1, help="pipeline stages, of each pool")
    batch: int = units.count(1, help="sequences")
    prompt_tokens: int = units.count(1024, help="tokens of a prompt")
    output_tokens: int = units.count(128, minimum=2, help="tokens of an answer; prefill computes the first one")
    causal: bool = units.flag(
        True, help="attention of prefill skips the scores of later tokens, half of them, as serving systems do"
    )
    decode_tp: int | None = units.count(None, help="disaggregated: tp of the pool that decodes; default: tp")
    decode_batch: int | None = units.count(
        None, help="disaggregated: other sequences, which are decoded; default: batch"
    )
    decode_steps: int | None = units.count(
        None, help="disaggregated: tokens that each of them decodes meanwhile; default: 8"
    )

    def __attrs_post_init__(self) -> None:
        shape = self.shape
        if shape.latent is not None:
            message = f"{self.model!r} caches latent vectors, not keys and values"
            raise InputError(message, key="model", accepted="another model")
        heads = shape.key_value_heads or shape.heads
        for key, value in (("tp", self.tp), ("decode_tp", self.decode_tp)):
            if value is not None and heads % value:
                divisors = ", ".join(str(one) for one in range(1, heads + 1) if heads % one == 0)
                raise InputError(f"{value} workers cannot share {heads} KV heads", key=key, accepted=divisors)
        self.check_stages(self.pp)
        room = shape.sequence - (0 if self.phase == PREFILL else self.output_tokens)
        if self.prompt_tokens > room:
            prompt = f"a prompt of {units.counted(self.prompt_tokens, 'token')}"
            message = f"{prompt} does not fit a sequence of {shape.sequence}"
            longest = f"1 to {room}" if room > 0 else "a smaller output_tokens"
            raise InputError(message, key="prompt_tokens", accepted=f"{longest}, or a greater sequence")
        for key in ("decode_tp", "decode_batch", "decode_steps"):
            if getattr(self, key) is not None and not self._pooled:
                message = f"{getattr(self, key)} is given, and phase is {self.phase}"
                raise InputError(message, key=key, accepted=f"no value, or phase = {DISAGGREGATED}")
        limits.check("tasks", 4 * shape.layers * (self.steps if self._pooled else 1), key="layers")

    @property
    def _pooled(self) -> bool:
        return self.phase == DISAGGREGATED

    @property
    def steps(self) -> int:
        """Steps of decode in an iteration."""
        if self._pooled:
            return 8 if self.decode_steps is None else self.decode_steps
        return {PREFILL: 0, DECODE: 1, BOTH: self.output_tokens - 1}[self.phase]

    @property
    def context(self) -> float:
        """Mean number of tokens whose keys and values a step of decode reads, its own among them."""
        return self.prompt_tokens + self.output_tokens / 2

    def kv_bytes(self, tokens: float, tp: int = 1) -> float:
        """Return the bytes of the KV cache of one sequence in all layers, on each of ``tp`` ranks."""
        return FP16 * self.shape.layers * self.shape.key_value_width * tokens / tp

    def mesh(self, system: System) -> DeviceMesh:
        """See ``Workload.mesh``; the ranks of two pools are along one axis, those of prefill first."""
        if self._pooled:
            return DeviceMesh({"pools": self.pp * (self.tp + self._decode_tp)})
        return DeviceMesh({"tp": self.tp, "pp": self.pp})

    def graph(self, system: System) -> TaskGraph:
        builder = GraphBuilder(self.mesh(system).ranks)
        if self._pooled:
            self._add_pools(builder)
            return builder.build()
        stages = self._stages(0, self.tp)
        last: tuple[int, ...] = ()
        if self.phase in (PREFILL, BOTH):
            last, _ = self._pass(builder, stages, self.batch, last, prefill=True)
        if self.steps:
            with builder.repeated(self.steps) if self.steps > 1 else nullcontext():
                self._pass(builder, stages, self.batch, last, prefill=False)
        return builder.build()

    def labels(self, system: System) -> Mapping[str, Label]:
        return {"tp": Label(priority=0), "pp": Label(priority=1), "kv": Label(priority=2)}

    def memory(self, system: System) -> MemoryUse:
        """Return weights, and the KV cache at its longest, of the fullest stage."""
        prompts, whole = self.batch * self.prompt_tokens, self.prompt_tokens + self.output_tokens
        if not self._pooled:
            return self._memory(self.tp, prompts if self.phase == PREFILL else self.batch * whole)
        prefill = self._memory(self.tp, prompts)
        decode = self._memory(self._decode_tp, self._decode_batch * whole + prompts)  # which arrive meanwhile
        return max(prefill, decode, key=lambda use: use.total)

    def work(self, system: System) -> Work:
        """Return the sequences, and the tokens that the iteration computes, those of prompts among them."""
        prompts = 0 if self.phase == DECODE else self.batch * self.prompt_tokens
        others = self._decode_batch if self._pooled else self.batch
        return Work(self.batch, tokens=prompts + others * self.steps, replicas=1)

    def notes(self, system: System) -> tuple[str, ...]:
        at = f", at {units.counted(self.context, 'token')} of context"
        steps = f"{units.counted(self.steps, 'step')} of decode"
        time = {
            PREFILL: "TTFT",
            DECODE: f"TPOT{at}",
            BOTH: f"TTFT + {self.steps} x TPOT{at}",
            DISAGGREGATED: f"that of the last of prefill, KV transfer and {steps}{at}",
        }
        return (f"inference: the time is {time[self.phase]}",)

    @property
    def _decode_tp(self) -> int:
        return self.tp if self.decode_tp is None else self.decode_tp

    @property
    def _decode_batch(self) -> int:
        return self.batch if self.decode_batch is None else self.decode_batch

    def _stages(self, first: int, tp: int) -> IntArray:
        return first + np.arange(self.pp * tp).reshape(self.pp, tp)

    def _layers(self) -> list[range]:
        bounds = [self.shape.layers * stage // self.pp for stage in range(self.pp + 1)]
        return [range(low, high) for low, high in pairwise(bounds)]

    def _memory(self, tp: int, tokens: int) -> MemoryUse:
        shape, uses = self.shape, []
        for layers in self._layers():
            first, last = layers[0] or shape.first(), layers[-1] + 1
            held = range(first, last + (last == shape.layers))  # with embeddings and head
            weights = sum(block.parameters for layer in held for block in shape.blocks(layer, 1, tp))
            uses.append(MemoryUse(weights=weights * FP16, cache=self.kv_bytes(tokens, tp) * len(layers) / shape.layers))
        return max(uses, key=lambda use: use.total)

    def _pass(
        self, builder: GraphBuilder, stages: IntArray, batch: int, after: tuple[int, ...], *, prefill: bool
    ) -> tuple[tuple[int, ...], list[int]]:
        """Add a pass over all layers; return its last task, and that of the attention of each layer."""
        activations = self._tokens(batch, prefill) * self.shape.hidden * FP16
        attentions: list[int] = []
        what = PREFILL if prefill else DECODE
        for stage, layers in enumerate(self._layers()):
            ranks = stages[stage]
            if stage:
                pairs = np.stack([stages[stage - 1], ranks], axis=1)
                after = (builder.transfer(f"{what} to stage {stage}", pairs, activations, label="pp", after=after),)
            for layer in layers:
                for block in self._blocks(layer, batch, len(ranks), prefill):
                    name = f"{what} layer {layer} {block.name}"
                    one = self._cost(block, batch, len(ranks), prefill)
                    flops, moved = one.flops, one.moved
                    after = (builder.compute(name, ranks, flops=flops, bytes=moved, after=after, kernels=one.kernels),)
                    if block.name == "attention":
                        attentions += after
                    if len(ranks) > 1:
                        group, pattern = ranks[None], Pattern.ALL_REDUCE
                        after = (builder.collective(name, pattern, group, activations, label="tp", after=after),)
        shape, ranks = self.shape, stages[-1]
        read = shape.vocabulary * shape.hidden / len(ranks) * FP16
        gemm = fredfw.Gemm(batch, shape.vocabulary / len(ranks), shape.hidden)
        kernels = Kernels((gemm,), launches=1, graphed=True)
        name = FIRST_TOKEN if prefill else TOKEN
        after = (builder.compute(name, ranks, flops=gemm.flops, bytes=read, after=after, kernels=kernels),)
        if self.pp > 1:
            pairs = np.stack([stages[-1], stages[0]], axis=1)
            after = (builder.transfer(f"{what} to stage 0", pairs, batch * _TOKEN_ID, label="pp", after=after),)
        return after, attentions

    def _tokens(self, batch: int, prefill: bool) -> int:
        return batch * (self.prompt_tokens if prefill else 1)

    def _blocks(self, layer: int, batch: int, tp: int, prefill: bool) -> tuple[Block, ...]:
        style = Style(fused=True, causal=self.causal and prefill)
        return evolve(self.shape, sequence=self._tokens(1, prefill)).blocks(layer, batch, tp, style)

    def _cost(self, block: Block, batch: int, tp: int, prefill: bool) -> Cost:
        """Return what a rank computes and launches, and the bytes of weights and KV cache that it moves.

        In decode the core of attention goes over the whole context, whose cache it reads; prefill writes that of the
        prompts. Products and weights of experts that nobody chose are left out; each token's choice is uniform.
        """
        chosen, core = 1.0, block.core
        if self.shape.experts is not None:
            chosen -= float((1 - self.shape.chosen / self.shape.experts) ** self._tokens(batch, prefill))
        flops, kernels = block.flops, evolve(block.kernels.forward, graphed=True)
        moved = (block.parameters - block.expert_parameters * (1 - chosen)) * FP16
        if block.mixture is not None:
            mixture = block.mixture
            always = [part.kernels.forward.gemms for part in (mixture.router, mixture.shared) if part is not None]
            routed = mixture.experts[0].kernels.forward.gemms
            some = [evolve(one, m=one.m / chosen, batch=one.batch * chosen) for one in routed]
            kernels = evolve(kernels, gemms=(*chain(*always), *some))
        if core is not None:
            moved += self.kv_bytes(batch * (self.prompt_tokens if prefill else self.context), tp) / self.shape.layers
            if not prefill:
                flops += core.flops * (self.context - 1)
                attentions = tuple(evolve(one, keys=self.context) for one in kernels.attentions)
                kernels = evolve(kernels, attentions=attentions)
        return Cost(flops, moved, kernels)

    def _add_pools(self, builder: GraphBuilder) -> None:
        """Add prefill, the KV cache of each layer as soon as that is computed, and the steps of the other pool."""
        prefill = self._stages(0, self.tp)
        decode = self._stages(prefill.size, self._decode_tp)
        _, attentions = self._pass(builder, prefill, self.batch, (), prefill=True)
        size = self.kv_bytes(self.batch * self.prompt_tokens) / self.shape.layers
        common = math.lcm(self.tp, self._decode_tp)
        for stage, layers in enumerate(self._layers()):
            # Heads are cut into as many slices as both pools can tell apart.
            ends = np.repeat(prefill[stage], common // self.tp), np.repeat(decode[stage], common // self._decode_tp)
            pairs, counts = np.unique(np.stack(ends, axis=1), axis=0, return_counts=True)
            for layer in layers:
                name, after = f"KV cache of layer {layer}", (attentions[layer],)
                for slices in np.unique(counts).tolist():
                    builder.transfer(name, pairs[counts == slices], size * slices / common, label="kv", after=after)
        last: tuple[int, ...] = ()
        for _ in range(self.steps):
            last, _ = self._pass(builder, decode, self._decode_batch, last, prefill=False)
