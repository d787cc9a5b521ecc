"""One 3D-parallel training iteration of a transformer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import attrs
from attrs import frozen

from fredfw import DeviceMesh, File, Label, MemoryUse, System, TaskGraph, Work, limits, samples_per_replica, units
from fredfw.errors import InputError
from fredfw.units import counted
from fredfw_workload_transformer.experts import DISPATCHES, ROUTINGS, UNIFORM, routing_of
from fredfw_workload_transformer.kernels import ELEMENTWISE
from fredfw_workload_transformer.model import FP16, OPERATIONS, Block, Style
from fredfw_workload_transformer.passes import ALL_REDUCE, RING, SCATTER_GATHER, ZIGZAG, Passes, Sharding, check_shard
from fredfw_workload_transformer.shaped import ModelWorkload
from fredfw_workload_transformer.stationary import ZERO_BUBBLE, add_stationary, in_flight, split_chunks
from fredfw_workload_transformer.streaming import add_streaming, group_layers

STATIONARY = "stationary"


def _check_options(workload: Transformer) -> None:
    stationary = workload.execution == STATIONARY
    tier = workload.memory_tier
    if tier is not None and stationary:
        message = f"{tier!r} is not used, as weights stay on the NPUs"
        raise InputError(message, key="memory_tier", accepted='execution = "streaming"')
    if workload.streams == "sharded" and tier is None:
        raise InputError("I/O controllers stream whole shards", key="streams", accepted="all, needed, or memory_tier")
    if workload.zero_stage > 3:
        raise InputError(f"{workload.zero_stage} is not a ZeRO stage", key="zero_stage", accepted="0, 1, 2 or 3")
    if workload.sequence_parallel and workload.pp_transfer != "point-to-point":
        message = f"{workload.pp_transfer} hands over what every MP member has"
        raise InputError(message, key="pp_transfer", accepted="point-to-point")
    if workload.causal and not workload.fused:
        raise InputError("kernels that are not fused compute all scores", key="causal", accepted="attention = fused")
    if workload.cp > 1:
        _check_context(workload)
    elif workload.cp_layout != ZIGZAG:
        raise InputError(f"{workload.cp_layout!r} tokens of one worker are all", key="cp_layout", accepted="cp above 1")
    if workload.pipeline == ZERO_BUBBLE and not stationary:
        raise InputError("only stages that keep their weights form a pipeline", key="pipeline", accepted="1f1b, gpipe")
    shard = workload.dp_shard
    if shard is not None and (workload.zero_stage == 0 or not stationary):
        message = f"{shard} replicas have nothing to share"
        raise InputError(message, key="dp_shard", accepted="a stationary zero_stage of 1 to 3")
    if shard is not None and workload.dp is not None:
        check_shard(shard, workload.dp, workload.ep)
    _check_needs(workload)
    if workload.interleave > 1 and not (stationary and workload.pipeline == "1f1b"):
        raise InputError("chunks are interleaved", key="interleave", accepted="1, or stationary 1f1b")
    if workload.interleave > 1 and workload.pp == 1:
        raise InputError("one stage has nothing to interleave", key="interleave", accepted="1, or pp above 1")


def _check_context(workload: Transformer) -> None:
    cp, sequence = workload.cp, workload.shape.sequence
    if workload.execution != STATIONARY:
        message = f"{workload.execution} execution does not split the {sequence} tokens of a sample"
        raise InputError(message, key="cp", accepted="1, or execution = stationary")
    if sequence % cp:
        message = f"{cp} workers cannot split the {sequence} tokens of a sample evenly"
        raise InputError(message, key="cp", accepted=f"a divisor of {sequence}")
    if workload.cp_layout != ZIGZAG and not workload.skips:
        raise InputError("without a mask all members compute the same", key="cp_layout", accepted="causal = true")
    if workload.skips and workload.cp_layout == ZIGZAG and sequence % (2 * cp):
        message = f"zigzag cannot cut the {sequence} tokens of a sample into 2 x {cp} parts"
        raise InputError(message, key="cp", accepted=f"half of a divisor of {sequence}, or cp_layout = contiguous")
    if workload.tasks != "blocks":
        message = f"tasks = {workload.tasks} has no place for keys and values between computations"
        raise InputError(message, key="cp", accepted="1, or tasks = blocks")


def _check_needs(workload: Transformer) -> None:
    stationary = workload.execution == STATIONARY
    gathers = stationary and workload.zero_stage == 3
    split = workload.cp > 1
    for key, used, need in (
        ("zero_stage", stationary, "execution = stationary"),
        ("overlap_dp", stationary, "execution = stationary"),
        ("dp_communication", stationary, "execution = stationary"),
        ("streams", not stationary, "execution = streaming"),
        ("reshard_after_forward", gathers, "a stationary zero_stage of 3"),
        ("reshard_after_recompute", gathers, "a stationary zero_stage of 3"),
        ("reshard_after_recompute", workload.recompute == "full", "recompute = full"),
        ("recompute", workload.recompute != OPERATIONS or workload.fused, "attention = fused"),
        ("prefetch", gathers or not stationary, "execution = streaming, or a zero_stage of 3"),
        ("cp_communication", split, "cp above 1"),
        ("overlap_cp", split, "cp above 1"),
        ("overlap_cp", workload.cp_communication == RING, f"cp_communication = {RING}"),
    ):
        value, default = getattr(workload, key), getattr(attrs.fields(type(workload)), key).default
        if value != default and not used:
            usual = "" if default is None else f"{json.dumps(default)}, or "
            raise InputError(f"{json.dumps(value)} has no effect here", key=key, accepted=usual + need)
    if gathers and workload.dp_communication == ALL_REDUCE:
        message = f"{ALL_REDUCE} leaves no shares, which ZeRO 3 holds"
        raise InputError(message, key="dp_communication", accepted="no value, or a zero_stage of 0 to 2")


_OPTIMIZER = 12
"""Bytes per weight: Adam with an FP32 master copy and two moments (Rajbhandari et al. 2020, section 3.1)."""
_MINIBATCH = 16
_FILLED = 4
"""Microbatches per pipeline stage from which on bubbles hardly matter (Huang et al. 2019, GPipe, section 2.3)."""
_TRIED = 10**6


def _above_zero(_instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    units.at_least(0)(_instance, attribute, value)
    if value == 0:
        raise InputError(f"{value!r} takes no token", key=attribute.name, accepted="a number above 0")


class Batch(NamedTuple):
    """The samples of one iteration."""

    replicas: int
    microbatches: int  # of each replica
    micro_batch: int  # samples in a microbatch


def filling(samples: int, stages: int) -> int:
    """Return the least divisor of ``samples`` that fills a pipeline, or ``samples`` where there is none."""
    if stages == 1:
        return 1
    small = [one for one in range(1, min(math.isqrt(samples), _TRIED) + 1) if samples % one == 0]
    divisors = (*small, *(samples // one for one in small))
    return min((one for one in divisors if one >= _FILLED * stages), default=samples)


def _recomputation(value: object) -> object:
    return ("full" if value else "none") if isinstance(value, bool) else value


@frozen
class Transformer(ModelWorkload):
    """Training of a transformer with MP x CP x DP x PP workers, in FP16 with FP32 optimizer state.

    Each transformer layer is two tasks (attention, MLP), each followed by an all-reduce over MP, forward and backward
    (Megatron). The logits are computed on the last stage; token look-up, the loss, the optimizer step and the loading
    of tokens take no time. Layers are split evenly over MP, even where that leaves fractions of heads.
    """

    name: ClassVar[str] = "transformer"

    mp: int = units.count(1, help="workers that split each layer")
    dp: int | None = units.count(None, help="replicas; default: as many as fit the fabric")
    pp: int = units.count(1, help="pipeline stages")
    cp: int = units.count(1, help="stationary: workers that split the tokens of each sample")
    ep: int = units.count(1, help="replicas that share the experts of a layer; it divides DP and the experts")
    routing: str = units.choice(
        ROUTINGS,
        help="how tokens choose experts: all alike; zipf: the r-th most popular one has a share in proportion to r ** "
        "-routing_exponent, up to 1 / top_k; file: the shares in routing_file",
    )
    routing_exponent: float | None = units.number(None, minimum=0, at_most=10, help="zipf; default: 1")
    routing_seed: int | None = units.count(None, minimum=0, help="zipf: draws which expert is how popular; default: 0")
    routing_file: File | None = units.file(
        None, help="file: one number for each expert, between spaces, commas or lines; their sum is 1"
    )
    capacity_factor: float | None = units.option(
        None,
        validator=_above_zero,
        help="an expert takes that many times the mean number of tokens from each rank, and drops the rest; default: "
        "any",
    )
    dispatch: str = units.choice(
        DISPATCHES,
        help="how tokens get to experts: in one all-to-all; inside-first: inside nodes to the rank with the receiver's "
        "place, then across; across-first: across once for each node, to the rank with the sender's place, then inside",
    )
    dispatch_node: int | None = units.count(
        None, help="members of an EP group on a node; required unless dispatch is direct, which does not need it"
    )
    global_batch: int | None = units.count(None, help="samples of an iteration, over all replicas; DP divides it")
    micro_batch: int | None = units.count(None, help="samples in a microbatch; default: follows from microbatches")
    microbatches: int | None = units.count(
        None,
        help="microbatches of a replica; default: follows from micro_batch; without that, with global_batch and pp "
        "above 1, the smallest divisor of the replica's samples that is at least 4 x pp; else 1",
    )
    minibatch: int | None = units.count(
        None, help=f"samples of an iteration per replica, instead of global_batch; default without it: {_MINIBATCH}"
    )
    execution: str = units.choice(
        (STATIONARY, "streaming"),
        help="stationary: weights stay on the NPUs; streaming: they come from the I/O controllers or from memory_tier, "
        "layer by layer",
    )
    memory_tier: str | None = units.option(
        None,
        help="streaming: the memory tier that has weights, gradients and optimizer state; default: I/O controllers",
    )
    pipeline: str = units.choice(
        ("1f1b", "gpipe", ZERO_BUBBLE),
        help="stationary: order of forward and backward passes; zb-h1: gradients of weights are passes of their own",
    )
    zero_stage: int = units.count(
        0,
        minimum=0,
        help="stationary: ZeRO stage 0 to 3: what DP members hold a share of, 1: optimizer state, 2: and gradients, "
        "reduced for each microbatch, 3: and weights (FSDP), gathered layer by layer before they are used",
    )
    dp_shard: int | None = units.count(
        None,
        help="ZeRO: consecutive DP members that hold a share each (HSDP: gradients are all-reduced between such "
        "groups); divides dp; default: all",
    )
    reshard_after_forward: bool = units.flag(
        True,
        help="ZeRO 3: gather weights again for backward; false: keep them until the backward pass, and in a pipeline "
        "until the last one",
    )
    reshard_after_recompute: bool = units.flag(
        True,
        help="ZeRO 3, recompute = full: gather weights for recomputation and again for backward (ZeRO-Infinity); "
        "false: once for both (PyTorch)",
    )
    dp_communication: str | None = units.choice(
        (ALL_REDUCE, SCATTER_GATHER),
        None,
        help="stationary: how gradients are reduced over DP; default: all-reduce, with ZeRO reduce-scatter+all-gather. "
        "With ZeRO 1 and 2, all-reduce stands for both, once an iteration",
    )
    cp_communication: str = units.choice(
        (RING, "all-gather"),
        help="how CP members exchange keys and values: from one to the next, or all before attention",
    )
    overlap_cp: bool = units.flag(True, help="ring: send keys and values while attention computes with them")
    overlap_dp: bool = units.flag(
        False, help="stationary: reduce layer by layer during the last backward pass, not stage by stage behind it"
    )
    recompute: bool | str = units.option(
        "none",
        converter=_recomputation,
        validator=units.one_of("none", "selective", OPERATIONS, "full"),
        help="what backward computes again. full, or true: each layer's forward pass, with its communication, to keep "
        "only its input; selective: scores, softmax, dropout and weighted values of attention (Megatron-LM); "
        "operations: every second product, and what is neither product nor attention (torchtitan); none, or false",
    )
    attention: str | None = units.choice(
        ("unfused", "fused"),
        None,
        help="fused: one kernel keeps the scores on the chip and computes them again in backward (FlashAttention); "
        "default: fused for llama, unfused for gpt",
    )
    causal: bool | None = units.flag(
        None,
        help="fused attention skips the scores of later tokens, half of them; model FLOPs count all, as is usual; "
        "default: true where attention is fused",
    )
    elementwise: str = units.choice(
        ELEMENTWISE,
        help="norms, rotary embeddings, activations and dropouts are one kernel each (Megatron-LM, torch.compile), or "
        "one for each operation (eager PyTorch)",
    )
    cp_layout: str = units.choice(
        (ZIGZAG, "contiguous"),
        help="causal, cp: tokens of a CP member; zigzag: part i and the i-th last of 2 x CP parts, which balances the "
        "mask (Llama 3); contiguous: one part, so that the last member computes the most",
    )
    sequence_parallel: bool = units.flag(
        False,
        help="split layer norms and dropouts over MP, too: a reduce-scatter and an all-gather for each all-reduce",
    )
    interleave: int = units.count(
        1, help="stationary, 1f1b: chunks of layers of each stage, which microbatches visit in turn"
    )
    pp_transfer: str = units.choice(
        ("point-to-point", "multicast", "scatter-gather"),
        help="to the next stage: each MP member to its counterpart, the first one to all, or a share from each member "
        "to its counterpart and an all-gather there",
    )
    tasks: str = units.choice(
        ("blocks", "passes"),
        help="blocks: attention and MLP compute and communicate in turn; passes: all layers of a stage compute, then "
        "communicate, which takes fewer tasks and the same time where nothing else uses those links",
    )
    prefetch: int = units.count(
        1,
        minimum=0,
        help="streaming: groups of layers loaded ahead of the one that computes; ZeRO 3: layers gathered ahead of it",
    )
    streams: str = units.choice(
        ("all", "needed", "sharded"),
        help="streaming: each stream goes to all workers, or to the members that need its shard; sharded, with "
        "memory_tier: each member loads and stores its share, which DP gathers and reduces (ZeRO-Infinity)",
    )

    def __attrs_post_init__(self) -> None:
        _check_options(self)
        self._samples(1)
        if self.dp is not None or self.global_batch is None:
            self._batch(self.dp or 1)
        if routing_of(self) is not None and self.tasks != "blocks":
            raise InputError("experts communicate within a layer", key="tasks", accepted="blocks")
        if self.ep > 1 and not self._stationary:
            raise InputError("each EP rank has experts of its own", key="execution", accepted="stationary")
        if self.dp is not None:
            self._check_replicas(self.dp)
        # Written out, as a stepwise simulation has them, each layer is a task at least.
        layers = self.shape.layers
        limits.check("tasks", layers, key="layers")
        self.check_stages(self.pp)
        if self.pp * self.interleave > layers:
            message = f"{self.interleave} chunks on each of {self.pp} stages for {layers} layers"
            raise InputError(message, key="interleave", accepted=f"at most {layers // self.pp}")

    @property
    def parameters(self) -> int:
        """Trainable numbers of the model."""
        return self.shape.parameters

    def mesh(self, system: System) -> DeviceMesh:
        """Return MP, CP, EP, PP and DP, the innermost first; without ``dp``, as many replicas as fit."""
        inner = {"mp": self.mp, "cp": self.cp} if self.cp > 1 else {"mp": self.mp}
        replica = {**inner, "pp": self.pp}
        dp = system.npus // math.prod(replica.values()) if self.dp is None else self.dp
        if dp == 0:
            sizes = " x ".join(map(str, replica.values()))
            message = f"one replica needs {sizes} workers, but there are {system.npus} NPUs"
            raise InputError(message, key="mp", accepted=f"{' x '.join(replica)} of at most {system.npus}")
        if self.ep == 1:
            return DeviceMesh({**replica, "dp": dp})
        self._check_replicas(dp)
        return DeviceMesh({**inner, "ep": self.ep, "pp": self.pp, "dp": dp // self.ep})

    def labels(self, system: System) -> Mapping[str, Label]:
        """See ``Workload.labels``; priorities as in the FRED paper: MP, then PP, then DP; EP and CP follow MP."""
        split = [axis for axis, size in (("ep", self.ep), ("cp", self.cp)) if size > 1]
        priority = {axis: position for position, axis in enumerate(("mp", *split, "pp", "dp"))}
        colours = {"mp": "#D55E00", "ep": "#56B4E9", "cp": "#F0E442", "dp": "#E69F00", "pp": "#009E73"}
        labels = {axis: Label(priority[axis], colour) for axis, colour in colours.items() if axis in priority}
        return {**labels, "stream": Label(colour="#CC79A7")}

    def graph(self, system: System) -> TaskGraph:
        """Return one iteration."""
        mesh = self.mesh(system)
        batch, sharding = self._batch(self._replicas(mesh)), self.sharding(mesh)
        # A microbatch is two tasks forward and two backward for each stage, or for each group of streamed layers.
        parts = self.pp if self._stationary else self.shape.layers
        if sharding.gradients:  # which leave layer by layer
            parts = max(parts, self.shape.layers)
        deciding = ("microbatches", "micro_batch", "global_batch")
        key = next((one for one in deciding if getattr(self, one) is not None), "minibatch")
        limits.check("tasks", 4 * batch.microbatches * parts * self.interleave * self.cp, key=key)
        if self.interleave > 1 and batch.microbatches % self.pp:
            message = f"{batch.microbatches} microbatches cannot be interleaved on {self.pp} stages"
            raise InputError(message, key="interleave", accepted=f"1, or a multiple of {self.pp} microbatches")
        passes = Passes(self, mesh, float(batch.micro_batch))
        if self._stationary:
            add_stationary(passes, batch.microbatches)
        else:
            add_streaming(passes, batch.microbatches, self._source(system))
        return passes.builder.build()

    def memory(self, system: System) -> MemoryUse:
        """Return the memory of the fullest stage.

        Stationary: weights, gradients and optimizer state, sharded over DP from ZeRO stage 3, 2 and 1 on (Rajbhandari
        et al. 2020, arXiv 1910.02054), and the activations of the microbatches in flight. Gradients are whole until
        they are reduced, a layer, a chunk or all at once. Streaming: ``1 + prefetch`` groups of weights and of
        gradients, and the activations of all microbatches; the optimizer state is elsewhere. Activations per layer:
        Korthikanti et al. 2022, equation 2, or 4 with sequence parallelism; without the core of attention where that is
        computed again or fused; just the layer's input with full recomputation.
        """
        mesh = self.mesh(system)
        batch, sharding = self._batch(self._replicas(mesh)), self.sharding(mesh)
        stages, first = range(self.pp), self.shape.first(self.style)
        if self._stationary:
            held = split_chunks(self.shape.layers, self.pp, self.interleave, first)
            uses = [self._stage_memory(stage, held[stage], batch, sharding) for stage in stages]
        else:
            groups = group_layers(self.shape.layers, self.pp, first)
            kept = self._kept(system)
            uses = [self._streaming_memory([group[stage] for group in groups], batch, kept) for stage in stages]
        return max(uses, key=lambda use: use.total)

    def work(self, system: System) -> Work:
        """Return samples, tokens and model FLOPs of an iteration; a backward pass costs two forward passes.

        Those of GPT are 72 B s l h^2 (1 + s / 6 h + V / 12 l h), with any ``recompute`` (Narayanan et al. 2021, arXiv
        2104.04473, and Korthikanti et al. 2022, arXiv 2205.05198, appendices).
        """
        batch = self._batch(self._replicas(self.mesh(system)))
        samples, shape = math.prod(batch), self.shape
        tokens, model_flops = samples * shape.sequence, 3 * shape.flops(samples)
        return Work(samples, tokens, model_flops, replicas=batch.replicas, microbatches=batch.microbatches)

    def notes(self, system: System) -> tuple[str, ...]:
        """Say which NPUs are idle, what does not move, and how unequal the numbers of tokens are that EP ranks take."""
        notes, routing, ranks = [], self.style.routing, self.mesh(system).ranks
        if self.dp is None and ranks < system.npus:
            each = self.mp * self.cp * self.pp
            of = f"of {system.npus} NPUs"
            idle = f"{counted(system.npus - ranks, f'{of} is', f'{of} are')} idle"
            notes.append(f"{idle}: the {each} of a replica do not divide {system.npus}")
        if self.memory_tier is not None:
            notes.append(
                f"the optimizer state stays in {self.memory_tier!r}: its step is done there, and takes no time; on the "
                "NPUs it would have to be loaded and stored in each iteration"
            )
        if routing is not None and self.ep > 1 and self.routing != UNIFORM:
            fullest = f"the fullest of {self.ep} EP ranks"
            notes.append(f"experts: {fullest} takes {routing.imbalance:.4g} times the mean of tokens")
        if routing is not None and routing.dropped > 0:
            notes.append(f"experts: {routing.dropped / routing.top_k:.3%} of the tokens' choices are dropped")
        return tuple(notes)

    def _check_replicas(self, dp: int) -> None:
        if dp % self.ep:
            raise InputError(f"{self.ep} does not divide the {dp} replicas", key="ep", accepted=f"a divisor of {dp}")

    def _replicas(self, mesh: DeviceMesh) -> int:
        return mesh.size("ep") * mesh.size("dp")

    @property
    def _stationary(self) -> bool:
        return self.execution == STATIONARY

    def sharding(self, mesh: DeviceMesh) -> Sharding:
        """Return what replicas hold a share of."""
        dp = self._replicas(mesh)
        shard = dp if self.dp_shard is None else self.dp_shard
        check_shard(shard, dp, mesh.size("ep"))
        return Sharding(mesh, self.zero_stage, shard * mesh.size("cp"))

    def reduction(self, sharding: Sharding) -> str:
        """Return how gradients are reduced over DP."""
        return self.dp_communication or (SCATTER_GATHER if sharding.optimizer else ALL_REDUCE)

    def _source(self, system: System) -> int | str:
        if self.memory_tier is not None:
            return system.memory(self.memory_tier, key="memory_tier").name
        if not system.controllers:
            message = "weights cannot stream into a fabric without I/O controllers"
            raise InputError(message, key="execution", accepted="stationary, or a memory_tier of the fabric")
        return system.controllers

    @property
    def fused(self) -> bool:
        """Whether attention is one kernel."""
        return self.attention == "fused" if self.attention else not self.shape.plain

    @property
    def skips(self) -> bool:
        """Whether attention skips the scores of later tokens."""
        return self.fused if self.causal is None else self.causal

    @property
    def recomputed(self) -> str:
        """What backward computes again; fused attention does so anyway."""
        return "none" if self.recompute == "selective" and self.fused else str(self.recompute)

    @cached_property
    def style(self) -> Style:
        return Style(
            fused=self.fused,
            causal=self.skips,
            elementwise=self.elementwise,
            sequence_parallel=self.sequence_parallel,
            routing=routing_of(self),
            # Where weights are gathered for each layer. The first and the last stage of a pipeline have a copy each.
            embeddings_first=self._stationary and self.zero_stage == 3 and self.pp == 1,
        )

    def _samples(self, dp: int) -> int:
        return samples_per_replica(self.global_batch, dp, self.minibatch, _MINIBATCH)

    def _batch(self, dp: int) -> Batch:
        microbatches, micro_batch, samples = self.microbatches, self.micro_batch, self._samples(dp)
        default = 1 if self.global_batch is None else filling(samples, self.pp)
        if microbatches is not None and micro_batch is not None and microbatches * micro_batch != samples:
            message = f"{microbatches} microbatches of {micro_batch} samples are not the {samples} samples of a replica"
            accepted = f"one of the two keys, or numbers whose product is {samples}"
            raise InputError(message, key="micro_batch", accepted=accepted)
        for key, value in (("microbatches", microbatches), ("micro_batch", micro_batch)):
            if value is not None and samples % value:
                message = f"{value} does not divide the {samples} samples of a replica"
                raise InputError(message, key=key, accepted=f"a divisor of {samples}")
        if micro_batch is None:
            micro_batch = samples // (default if microbatches is None else microbatches)
        return Batch(dp, samples // micro_batch, micro_batch)

    def _stage_memory(self, stage: int, chunks: list[tuple[int, ...]], batch: Batch, sharding: Sharding) -> MemoryUse:
        blocks = [block for layers in chunks for block in self._blocks(layers, 1)]
        experts = sum(block.expert_parameters for block in blocks)
        parameters = sum(block.parameters for block in blocks)
        # What a rank holds where the replicas of a weight share it: experts have fewer replicas.
        shares = (parameters - experts) / sharding.size + experts / sharding.expert_size
        fullest = max(self._activations(layers, batch) for layers in chunks)
        held = in_flight(self.pipeline, stage, self.pp, batch.microbatches, self.interleave)
        weights, gradients = parameters, parameters
        if sharding.weights:  # and what is gathered and reduced, layer by layer; tied embeddings stay
            stay = (-1,) if self.shape.tied and self.style.embeddings_first else ()
            each = sorted(self._parameters((layer,)) for layers in chunks for layer in layers if layer not in stay)
            gathered = each[-1 - self.prefetch :] if self.reshard_after_forward else each
            weights = shares + sum(gathered) + self._parameters(stay)
            gradients = shares + each[-1] + self._parameters(stay)
        elif sharding.gradients and self.reduction(sharding) != ALL_REDUCE:
            # What is reduced at once is whole until then, beside the shares of what has been reduced.
            units = [(layer,) for layers in chunks for layer in layers] if self.overlap_dp else chunks
            gradients = shares + max(map(self._parameters, units))
        return MemoryUse(
            weights=weights * FP16,
            gradients=gradients * FP16,
            optimizer=(shares if sharding.optimizer else parameters) * _OPTIMIZER,
            activations=fullest * held,
            in_flight=held / self.interleave,
        )

    def _kept(self, system: System) -> dict[str, float]:
        """Return what the memory tier has: weights, gradients and optimizer state, once; bytes for each worker."""
        if self.memory_tier is None:
            return {}
        tier = system.memory(self.memory_tier, key="memory_tier")
        return {tier.name: self.parameters * (2 * FP16 + _OPTIMIZER) / self.mesh(system).ranks}

    def _streaming_memory(self, groups: list[tuple[int, ...]], batch: Batch, kept: dict[str, float]) -> MemoryUse:
        buffers = (1 + self.prefetch) * max(map(self._parameters, groups)) * FP16
        held = batch.microbatches
        activations = sum(self._activations(layers, batch) for layers in groups) * held
        return MemoryUse(buffers, buffers, activations=activations, in_flight=held, must_fit=False, tiers=kept)

    def _blocks(self, layers: tuple[int, ...], samples: float) -> list[Block]:
        shape, style = self.shape, self.style
        return [block for layer in layers for block in shape.blocks(layer, samples, self.mp, style)]

    def _parameters(self, layers: tuple[int, ...]) -> float:
        return sum(block.parameters for block in self._blocks(layers, 1))

    def _activations(self, layers: tuple[int, ...], batch: Batch) -> float:
        """Bytes that one microbatch keeps on one rank for the backward pass over ``layers``."""
        samples = batch.micro_batch / self.cp
        blocks = self._blocks(layers, samples)
        kept = sum(block.activations for block in blocks)
        if self.recomputed == "selective":
            return kept - sum(block.core.activations for block in blocks if block.core is not None)
        if self.recomputed == "none":
            return kept
        shares = self.mp if self.sequence_parallel else 1
        each = samples * self.shape.sequence * self.shape.hidden * FP16 / shares  # input of a layer
        repeated = sum(0 <= layer < self.shape.layers for layer in layers)
        kept = sum(block.activations for block in blocks if block.name == "head")
        if self.recomputed == OPERATIONS:
            kept += sum(block.kept for block in blocks if block.name != "head")
        return repeated * each + kept
