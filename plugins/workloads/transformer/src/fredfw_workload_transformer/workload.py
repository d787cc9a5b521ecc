"""One 3D-parallel training iteration of a transformer."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
from attrs import frozen

from fredfw import GraphBuilder, MemoryUse, Parallelism, System, TaskGraph, Workload, units
from fredfw.errors import InputError
from fredfw_workload_transformer.model import FP16, PRESETS, Block, Shape
from fredfw_workload_transformer.passes import Passes
from fredfw_workload_transformer.stationary import add_stationary, in_flight, split_layers
from fredfw_workload_transformer.streaming import add_streaming, group_layers

_OPTIMIZER = 12
"""Bytes per weight: Adam with an FP32 master copy and two moments (Rajbhandari et al. 2020, section 3.1)."""


def _dimension(meaning: str) -> Any:
    return units.option(
        None, validator=units.whole(1), help=f"{meaning}; default: the preset's, required where there is no preset"
    )


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
    minibatch: int = units.option(16, validator=units.whole(1), help="samples per replica and iteration")
    microbatches: int = units.option(1, validator=units.whole(1), help="equal parts that the minibatch is cut into")
    execution: str = units.option(
        "stationary",
        validator=units.one_of("stationary", "streaming"),
        help="stationary: weights stay on the NPUs; streaming: they come from the I/O controllers, layer by layer",
    )
    pipeline: str = units.option(
        "1f1b", validator=units.one_of("1f1b", "gpipe"), help="stationary: order of forward and backward passes"
    )
    zero_stage: int = units.option(
        0, validator=units.whole(0), help="stationary: ZeRO stage 0 to 3; it shards memory over DP and moves no bytes"
    )
    dp_communication: str = units.option(
        "all-reduce",
        validator=units.one_of("all-reduce", "reduce-scatter+all-gather"),
        help="stationary: how gradients are reduced over DP",
    )
    overlap_dp: bool = units.flag(
        False, help="stationary: reduce layer by layer during the last backward pass, not stage by stage behind it"
    )
    recompute: bool = units.flag(
        False, help="repeat each layer's forward pass, with its all-reduces, in backward, to keep only its input"
    )
    pp_transfer: str = units.option(
        "point-to-point",
        validator=units.one_of("point-to-point", "multicast"),
        help="to the next stage: each MP member to its counterpart, or the first one to all",
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
            raise InputError(f"{self.zero_stage} is no ZeRO stage", key="zero_stage", accepted="0, 1, 2 or 3")
        if self.minibatch % self.microbatches:
            raise InputError(
                f"{self.microbatches} microbatches do not divide a minibatch of {self.minibatch}",
                key="microbatches",
                accepted=f"a divisor of {self.minibatch}",
            )
        if self.pp > self.shape.layers:
            raise InputError(
                f"{self.pp} pipeline stages for {self.shape.layers} layers",
                key="pp",
                accepted=f"at most {self.shape.layers}",
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
                raise InputError("neither it nor a model is given", key=dimension, accepted=accepted)
        return Shape(**shape)

    @property
    def parameters(self) -> int:
        """Trainable numbers of the model."""
        return self.shape.parameters

    def parallelism(self, system: System) -> Parallelism:
        """See ``Workload.parallelism``.

        Raises:
            InputError: ``dp`` is left open, and not even one replica fits.
        """
        dp = system.npus // (self.mp * self.pp) if self.dp is None else self.dp
        if dp == 0:
            raise InputError(
                f"one replica takes {self.mp} x {self.pp} workers, there are {system.npus} NPUs",
                key="mp",
                accepted=f"mp x pp of at most {system.npus}",
            )
        return Parallelism(mp=self.mp, dp=dp, pp=self.pp)

    def graph(self, system: System) -> TaskGraph:
        """Return one iteration.

        Raises:
            InputError: Streaming without I/O controllers.
        """
        parallelism = self.parallelism(system)
        passes = Passes(
            GraphBuilder(parallelism.workers),
            parallelism,
            self.shape,
            samples=self.minibatch / self.microbatches,
            recompute=self.recompute,
            multicast=self.pp_transfer == "multicast",
        )
        if self.execution == "stationary":
            add_stationary(
                passes,
                microbatches=self.microbatches,
                schedule=self.pipeline,
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
                microbatches=self.microbatches,
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
        Activations per layer: Korthikanti et al. 2022, equation 2, or just the layer's input with ``recompute``.
        """
        dp = self.parallelism(system).dp
        stages = range(self.pp)
        if self.execution == "stationary":
            held = split_layers(self.shape.layers, self.pp)
            uses = [self._stationary_memory(stage, held[stage], dp) for stage in stages]
        else:
            groups = group_layers(self.shape.layers, self.pp)
            uses = [self._streaming_memory([group[stage] for group in groups]) for stage in stages]
        return max(uses, key=lambda use: use.total)

    def _stationary_memory(self, stage: int, layers: tuple[int, ...], dp: int) -> MemoryUse:
        parameters = self._parameters(layers)
        return MemoryUse(
            weights=parameters * FP16 / (dp if self.zero_stage >= 3 else 1),
            gradients=parameters * FP16 / (dp if self.zero_stage >= 2 else 1),
            optimizer=parameters * _OPTIMIZER / (dp if self.zero_stage >= 1 else 1),
            activations=self._activations(layers) * in_flight(self.pipeline, stage, self.pp, self.microbatches),
        )

    def _streaming_memory(self, groups: list[tuple[int, ...]]) -> MemoryUse:
        buffers = (1 + self.prefetch) * max(self._parameters(layers) for layers in groups) * FP16
        activations = sum(self._activations(layers) for layers in groups) * self.microbatches
        return MemoryUse(weights=buffers, gradients=buffers, activations=activations, must_fit=False)

    def _blocks(self, layers: tuple[int, ...]) -> list[Block]:
        samples = self.minibatch / self.microbatches
        return [block for layer in layers for block in self.shape.blocks(layer, samples, self.mp)]

    def _parameters(self, layers: tuple[int, ...]) -> float:
        """Weights of ``layers`` that one rank holds."""
        return sum(block.parameters for block in self._blocks(layers))

    def _activations(self, layers: tuple[int, ...]) -> float:
        """Bytes that one microbatch keeps on one rank for the backward pass over ``layers``."""
        shape = self.shape
        if not self.recompute:
            return sum(block.activations for block in self._blocks(layers))
        repeated = [layer for layer in layers if layer < shape.layers]
        inputs = self.minibatch / self.microbatches * shape.sequence * shape.hidden * FP16
        return len(repeated) * inputs + sum(block.activations for block in self._blocks(layers[len(repeated) :]))
