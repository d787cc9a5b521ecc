"""One 3D-parallel training iteration of a transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
from attrs import frozen

from fredfw import (
    DeviceMesh,
    GraphBuilder,
    Label,
    MemoryUse,
    System,
    TaskGraph,
    Work,
    Workload,
    limits,
    samples_per_replica,
    units,
)
from fredfw.errors import InputError
from fredfw_workload_transformer.batch import Batch, divided, filling
from fredfw_workload_transformer.model import FP16, PRESETS, Block, Shape, Style
from fredfw_workload_transformer.passes import Passes
from fredfw_workload_transformer.stationary import add_stationary, in_flight, split_chunks
from fredfw_workload_transformer.streaming import add_streaming, group_layers

_OPTIMIZER = 12
"""Bytes per weight: Adam with an FP32 master copy and two moments (Rajbhandari et al. 2020, section 3.1)."""
_MINIBATCH = 16


def _dimension(meaning: str) -> Any:
    return units.option(
        None, validator=units.whole(1), help=f"{meaning}; default: the preset's, required where there is no preset"
    )


def _recomputation(value: object) -> object:
    """Return the word for a truth value."""
    return ("full" if value else "none") if isinstance(value, bool) else value


@frozen
class Transformer(Workload):
    """Training of a GPT-like model with MP x DP x PP workers, in FP16 with FP32 optimizer state.

    Each transformer layer is two tasks (attention, MLP), each followed by an all-reduce over MP, forward and backward
    (Megatron). The logits are computed on the last stage; token look-up, the loss, the optimizer step and the loading
    of tokens take no time. Layers are split evenly over MP, even where that leaves fractions of heads.
    """

    name: ClassVar[str] = "transformer"

    model: str | None = units.option(
        None, validator=attrs.validators.optional(units.one_of(*PRESETS)), help=f"shape preset: {', '.join(PRESETS)}"
    )
    layers: int | None = _dimension("transformer layers")
    hidden: int | None = _dimension("hidden size")
    sequence: int | None = _dimension("tokens in a sample")
    heads: int | None = _dimension("attention heads")
    vocabulary: int | None = _dimension("size of the vocabulary")
    mp: int = units.option(1, validator=units.whole(1), help="workers that split each layer")
    dp: int | None = units.option(None, validator=units.whole(1), help="replicas; default: as many as fit the fabric")
    pp: int = units.option(1, validator=units.whole(1), help="pipeline stages")
    global_batch: int | None = units.option(
        None, validator=units.whole(1), help="samples of an iteration, over all replicas; DP divides it"
    )
    micro_batch: int | None = units.option(
        None, validator=units.whole(1), help="samples in a microbatch; default: follows from microbatches"
    )
    microbatches: int | None = units.option(
        None,
        validator=units.whole(1),
        help="microbatches of a replica; default: follows from micro_batch; without that, with global_batch and pp "
        "above 1, the smallest divisor of the replica's samples that is at least 4 x pp; else 1",
    )
    minibatch: int | None = units.option(
        None,
        validator=units.whole(1),
        help=f"samples of an iteration per replica, instead of global_batch; default without it: {_MINIBATCH}",
    )
    execution: str = units.option(
        "stationary",
        validator=units.one_of("stationary", "streaming"),
        help="stationary: weights stay on the NPUs; streaming: they come from the I/O controllers, layer by layer",
    )
    pipeline: str = units.option(
        "1f1b", validator=units.one_of("1f1b", "gpipe"), help="stationary: order of forward and backward passes"
    )
    zero_stage: int = units.option(
        0,
        validator=units.whole(0),
        help="stationary: ZeRO stage 0 to 3; it shards memory over DP. 1 and 2 move no bytes; 3 gathers the weights of "
        "each layer before each pass over it, and reduces the gradients of each microbatch to shares",
    )
    dp_communication: str = units.option(
        "all-reduce",
        validator=units.one_of("all-reduce", "reduce-scatter+all-gather"),
        help="stationary: how gradients are reduced over DP",
    )
    overlap_dp: bool = units.flag(
        False, help="stationary: reduce layer by layer during the last backward pass, not stage by stage behind it"
    )
    recompute: bool | str = units.option(
        "none",
        converter=_recomputation,
        validator=units.one_of("none", "selective", "full"),
        help="what backward computes again. full, or true: each layer's forward pass, with its communication, to keep "
        "only its input; selective: scores, softmax, dropout and weighted values of attention; none, or false",
    )
    attention: str = units.option(
        "unfused",
        validator=units.one_of("unfused", "fused"),
        help="fused: one kernel keeps the scores on the chip and computes them again in backward (FlashAttention)",
    )
    sequence_parallel: bool = units.flag(
        False,
        help="split layer norms and dropouts over MP, too: a reduce-scatter and an all-gather for each all-reduce",
    )
    interleave: int = units.option(
        1,
        validator=units.whole(1),
        help="stationary, 1f1b: chunks of layers of each stage, which microbatches visit in turn",
    )
    pp_transfer: str = units.option(
        "point-to-point",
        validator=units.one_of("point-to-point", "multicast", "scatter-gather"),
        help="to the next stage: each MP member to its counterpart, the first one to all, or a share from each member "
        "to its counterpart and an all-gather there",
    )
    tasks: str = units.option(
        "blocks",
        validator=units.one_of("blocks", "passes"),
        help="blocks: attention and MLP compute and communicate in turn; passes: all layers of a stage compute, then "
        "communicate, which takes fewer tasks and the same time where nothing else uses those links",
    )
    prefetch: int = units.option(
        1, validator=units.whole(0), help="streaming: groups of layers loaded ahead of the one that computes"
    )
    streams: str = units.option(
        "all",
        validator=units.one_of("all", "needed"),
        help="streaming: each controller's stream goes to all workers, or to the members that need the shard",
    )

    def __attrs_post_init__(self) -> None:
        if self.zero_stage > 3:
            raise InputError(f"{self.zero_stage} is not a ZeRO stage", key="zero_stage", accepted="0, 1, 2 or 3")
        if self.sequence_parallel and self.pp_transfer != "point-to-point":
            raise InputError(
                f"{self.pp_transfer} hands over what every MP member has", key="pp_transfer", accepted="point-to-point"
            )
        if self.interleave > 1 and (self.execution, self.pipeline) != ("stationary", "1f1b"):
            raise InputError("chunks are interleaved", key="interleave", accepted="1, or stationary 1f1b")
        if self.interleave > 1 and self.pp == 1:
            raise InputError("one stage has nothing to interleave", key="interleave", accepted="1, or pp above 1")
        if self.global_batch is not None and self.minibatch is not None:
            raise InputError(
                f"{self.minibatch} is given, and global_batch = {self.global_batch} too",
                key="minibatch",
                accepted="one of the two keys",
            )
        if self.dp is not None or self.global_batch is None:
            self._batch(self.dp or 1)
        # Written out, as a stepwise simulation has them, each layer is a task at least.
        limits.check("tasks", self.shape.layers, key="layers")
        if self.pp > self.shape.layers:
            raise InputError(
                f"{self.pp} pipeline stages for {self.shape.layers} layers",
                key="pp",
                accepted=f"at most {self.shape.layers}",
            )
        if self.pp * self.interleave > self.shape.layers:
            raise InputError(
                f"{self.interleave} chunks on each of {self.pp} stages for {self.shape.layers} layers",
                key="interleave",
                accepted=f"at most {self.shape.layers // self.pp}",
            )

    @property
    def shape(self) -> Shape:
        """The shape of the model: the preset's, where fields do not say otherwise.

        Raises:
            InputError: A dimension that neither gives.
        """
        shape = {} if self.model is None else attrs.asdict(PRESETS[self.model])
        for dimension in attrs.fields_dict(Shape):
            value = getattr(self, dimension)
            if value is not None:
                shape[dimension] = value
            if dimension not in shape:
                accepted = f"a whole number, or model = one of {', '.join(PRESETS)}"
                raise InputError("is missing, and no model is given", key=dimension, accepted=accepted)
        return Shape(**shape)

    @property
    def parameters(self) -> int:
        """Trainable numbers of the model."""
        return self.shape.parameters

    def mesh(self, system: System) -> DeviceMesh:
        """See ``Workload.mesh``.

        Raises:
            InputError: ``dp`` is left open, and not even one replica fits.
        """
        dp = system.npus // (self.mp * self.pp) if self.dp is None else self.dp
        if dp == 0:
            raise InputError(
                f"one replica needs {self.mp} x {self.pp} workers, but there are {system.npus} NPUs",
                key="mp",
                accepted=f"mp x pp of at most {system.npus}",
            )
        return DeviceMesh({"mp": self.mp, "pp": self.pp, "dp": dp})

    def labels(self, system: System) -> Mapping[str, Label]:
        """See ``Workload.labels``; priorities as in the FRED paper: MP before PP before DP."""
        del system
        return {
            "mp": Label(0, "#D55E00"),
            "dp": Label(2, "#E69F00"),
            "pp": Label(1, "#009E73"),
            "stream": Label(colour="#CC79A7"),
        }

    def graph(self, system: System) -> TaskGraph:
        """Return one iteration.

        Raises:
            InputError: Streaming without I/O controllers, or a batch that cannot be divided evenly.
        """
        mesh = self.mesh(system)
        batch = self._batch(mesh.size("dp"))
        # A microbatch is two tasks forward and two backward for each stage, or for each group of streamed layers.
        parts = self.pp if self.execution == "stationary" else self.shape.layers
        deciding = ("microbatches", "micro_batch", "global_batch")
        key = next((one for one in deciding if getattr(self, one) is not None), "minibatch")
        limits.check("tasks", 4 * batch.microbatches * parts * self.interleave, key=key)
        if self.interleave > 1 and batch.microbatches % self.pp:
            raise InputError(
                f"{batch.microbatches} microbatches cannot be interleaved on {self.pp} stages",
                key="interleave",
                accepted=f"1, or a multiple of {self.pp} microbatches",
            )
        passes = Passes(
            GraphBuilder(mesh.ranks),
            mesh,
            self.shape,
            samples=float(batch.micro_batch),
            recompute=str(self.recompute),
            transfer=self.pp_transfer,
            style=self._style,
            sharded=self._sharded(mesh.size("dp")),
            merged=self.tasks == "passes" and not self._sharded(mesh.size("dp")),
        )
        if self.execution == "stationary":
            add_stationary(
                passes,
                microbatches=batch.microbatches,
                schedule=self.pipeline,
                interleave=self.interleave,
                dp_communication=self.dp_communication,
                overlap_dp=self.overlap_dp,
            )
        else:
            if not system.controllers:
                raise InputError(
                    "weights cannot stream into a fabric without I/O controllers",
                    key="execution",
                    accepted="stationary",
                )
            add_streaming(
                passes,
                microbatches=batch.microbatches,
                controllers=system.controllers,
                prefetch=self.prefetch,
                needed=self.streams == "needed",
            )
        return passes.builder.build()

    def memory(self, system: System) -> MemoryUse:
        """Return the memory of the fullest stage.

        Stationary: weights, gradients and optimizer state, sharded over DP from ZeRO stage 3, 2 and 1 on (Rajbhandari
        et al. 2020, arXiv 1910.02054), and the activations of the microbatches in flight. Streaming: ``1 + prefetch``
        groups of weights and of gradients, and the activations of all microbatches; the optimizer state is elsewhere.
        Activations per layer: Korthikanti et al. 2022, equation 2, or 4 with sequence parallelism; without the core of
        attention where that is computed again or fused; just the layer's input with full recomputation.
        """
        batch = self._batch(self.mesh(system).size("dp"))
        stages = range(self.pp)
        if self.execution == "stationary":
            held = split_chunks(self.shape.layers, self.pp, self.interleave)
            uses = [self._stationary_memory(stage, held[stage], batch) for stage in stages]
        else:
            groups = group_layers(self.shape.layers, self.pp)
            uses = [self._streaming_memory([group[stage] for group in groups], batch) for stage in stages]
        return max(uses, key=lambda use: use.total)

    def work(self, system: System) -> Work:
        """Return samples, tokens and model FLOPs of an iteration; a backward pass costs two forward passes.

        The model FLOPs are 72 B s l h^2 (1 + s / 6 h + V / 12 l h), with or without ``recompute`` (Narayanan et al.
        2021, arXiv 2104.04473, appendix; without recomputation as in Korthikanti et al. 2022, arXiv 2205.05198,
        appendix).
        """
        batch = self._batch(self.mesh(system).size("dp"))
        samples, shape = batch.samples, self.shape
        return Work(
            samples,
            tokens=samples * shape.sequence,
            model_flops=3 * shape.flops(samples),
            replicas=batch.replicas,
            microbatches=batch.microbatches,
        )

    def _sharded(self, dp: int) -> bool:
        """Return whether replicas hold shares of the weights, which they gather."""
        return self.execution == "stationary" and self.zero_stage >= 3 and dp > 1

    @property
    def _style(self) -> Style:
        return Style(fused=self.attention == "fused", sequence_parallel=self.sequence_parallel)

    def _batch(self, dp: int) -> Batch:
        if self.global_batch is None:
            samples, default = _MINIBATCH if self.minibatch is None else self.minibatch, 1
        else:
            samples = samples_per_replica(self.global_batch, dp)
            default = filling(samples, self.pp)
        return divided(
            samples, replicas=dp, microbatches=self.microbatches, micro_batch=self.micro_batch, default=default
        )

    def _stationary_memory(self, stage: int, chunks: list[tuple[int, ...]], batch: Batch) -> MemoryUse:
        parameters, dp = sum(map(self._parameters, chunks)), batch.replicas
        fullest = max(self._activations(layers, batch) for layers in chunks)
        held = in_flight(self.pipeline, stage, self.pp, batch.microbatches, self.interleave)
        return MemoryUse(
            weights=parameters * FP16 / (dp if self.zero_stage >= 3 else 1),
            gradients=parameters * FP16 / (dp if self.zero_stage >= 2 else 1),
            optimizer=parameters * _OPTIMIZER / (dp if self.zero_stage >= 1 else 1),
            activations=fullest * held,
        )

    def _streaming_memory(self, groups: list[tuple[int, ...]], batch: Batch) -> MemoryUse:
        buffers = (1 + self.prefetch) * max(self._parameters(layers) for layers in groups) * FP16
        activations = sum(self._activations(layers, batch) for layers in groups) * batch.microbatches
        return MemoryUse(weights=buffers, gradients=buffers, activations=activations, must_fit=False)

    def _blocks(self, layers: tuple[int, ...], samples: float) -> list[Block]:
        return [block for layer in layers for block in self.shape.blocks(layer, samples, self.mp, self._style)]

    def _parameters(self, layers: tuple[int, ...]) -> float:
        """Weights of ``layers`` that one rank holds."""
        return sum(block.parameters for block in self._blocks(layers, 1))

    def _activations(self, layers: tuple[int, ...], batch: Batch) -> float:
        """Bytes that one microbatch keeps on one rank for the backward pass over ``layers``."""
        blocks = self._blocks(layers, batch.micro_batch)
        kept = sum(block.activations for block in blocks)
        if self.recompute == "selective":
            return kept - sum(block.core.activations for block in blocks if block.core is not None)
        if self.recompute == "none":
            return kept
        repeated = [layer for layer in layers if layer < self.shape.layers]
        shares = self.mp if self.sequence_parallel else 1
        inputs = float(batch.micro_batch) * self.shape.sequence * self.shape.hidden * FP16 / shares
        rest = self._blocks(layers[len(repeated) :], batch.micro_batch)
        return len(repeated) * inputs + sum(block.activations for block in rest)
