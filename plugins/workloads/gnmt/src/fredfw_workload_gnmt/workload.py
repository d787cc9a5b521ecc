"""One data-parallel training iteration of a translation model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import numpy as np
from attrs import frozen

from fredfw import (
    DeviceMesh,
    GradientBuckets,
    GraphBuilder,
    Label,
    MemoryUse,
    System,
    TaskGraph,
    Work,
    Workload,
    samples_per_replica,
    units,
)
from fredfw_workload_gnmt.model import PRESETS, Layer, Shape

_MINIBATCH = 128
_PRESET = "default: the preset's"


@frozen
class Gnmt(Workload):
    """Data-parallel training of an LSTM encoder and decoder with attention (Wu et al. 2016, arXiv 1609.08144).

    One task per layer and direction. Backward costs twice the forward pass. Gradients are all-reduced layer by layer
    during the backward pass.
    """

    name: ClassVar[str] = "gnmt"

    model: str = units.choice(PRESETS, "wmt16-4", help="preset of the shape")
    encoder_layers: int | None = units.count(None, help=f"LSTM layers; the bidirectional one counts once; {_PRESET}")
    decoder_layers: int | None = units.count(None, help=f"LSTM layers; {_PRESET}")
    hidden: int | None = units.count(None, help=f"units of an LSTM; {_PRESET}")
    vocabulary: int | None = units.count(None, help=f"word pieces; {_PRESET}")
    sequence: int | None = units.count(None, help=f"word pieces of a sentence, in each language; {_PRESET}")
    dp: int | None = units.count(None, help="data-parallel workers; default: all NPUs")
    global_batch: int | None = units.count(
        None, help="pairs of sentences of an iteration, over all workers; DP divides it"
    )
    minibatch: int | None = units.count(
        None, help=f"samples of an iteration per worker, instead of global_batch; default without it: {_MINIBATCH}"
    )
    gradients: str = units.choice(
        ("all", "matrices"),
        help="what is all-reduced: all gradients, or those of the matrices of LSTMs and softmax, without embeddings, "
        "attention and biases",
    )
    overlap_dp: bool = units.flag(True, help="all-reduce gradients during the backward pass, not all at once behind it")
    bucket: float = units.quantity(
        units.Unit.BYTES, 0, help="with overlap_dp: gradients that an all-reduce waits for; 0: each layer has its own"
    )
    weight_bytes: float = units.quantity(units.Unit.BYTES, 2, help="per weight (default: FP16)")
    gradient_bytes: float = units.quantity(units.Unit.BYTES, 2, help="per gradient (default: FP16)")
    optimizer_bytes: float = units.quantity(
        units.Unit.BYTES, 12, help="optimizer state per weight (default: Adam, FP32 master copy and two moments)"
    )
    activation_bytes: float = units.quantity(units.Unit.BYTES, 2, help="per activation (default: FP16)")

    def __attrs_post_init__(self) -> None:
        self._samples(self.dp or 1)

    @property
    def shape(self) -> Shape:
        """The shape of the model: the preset's, where fields do not say otherwise."""
        shape = PRESETS[self.model]
        given = {name: getattr(self, name, None) for name in attrs.fields_dict(Shape)}
        return attrs.evolve(shape, **{name: value for name, value in given.items() if value is not None})

    @property
    def parameters(self) -> int:
        """Trainable numbers of the model."""
        return sum(layer.parameters for layer in self.shape.layers)

    def mesh(self, system: System) -> DeviceMesh:
        """See ``Workload.mesh``."""
        return DeviceMesh({"dp": system.npus if self.dp is None else self.dp})

    def labels(self, system: System) -> Mapping[str, Label]:
        """See ``Workload.labels``."""
        del system
        return {"dp": Label(0, "#E69F00")}

    def graph(self, system: System) -> TaskGraph:
        """See ``Workload.graph``."""
        workers = self.mesh(system).ranks
        samples = self._samples(workers)
        builder = GraphBuilder(workers)
        layers = self.shape.layers
        before: tuple[int, ...] = ()
        for layer in layers:
            before = (self._compute(builder, "forward", layer, samples, before),)
        buckets = GradientBuckets(builder, np.arange(workers), self.bucket if self.overlap_dp else math.inf)
        for layer in reversed(layers):
            before = (self._compute(builder, "backward", layer, samples, before),)
            gradients = layer.parameters if self.gradients == "all" else layer.matrices
            buckets.add(layer.name, gradients * self.gradient_bytes, *before)
        buckets.flush()
        return builder.build()

    def memory(self, system: System) -> MemoryUse:
        """See ``Workload.memory``."""
        stored = sum(layer.stored for layer in self.shape.layers) * self._samples(self.mesh(system).ranks)
        return MemoryUse(
            weights=self.parameters * self.weight_bytes,
            gradients=self.parameters * self.gradient_bytes,
            optimizer=self.parameters * self.optimizer_bytes,
            activations=stored * self.activation_bytes,
        )

    def work(self, system: System) -> Work:
        """Return samples, word pieces of both languages, and model FLOPs: three forward passes of matrix products."""
        workers, shape = self.mesh(system).ranks, self.shape
        samples = self._samples(workers) * workers
        return Work(
            samples,
            tokens=samples * 2 * shape.sequence,
            model_flops=3 * samples * sum(layer.flops for layer in shape.layers),
            replicas=workers,
        )

    def _samples(self, workers: int) -> int:
        """Return the samples of one worker."""
        return samples_per_replica(self.global_batch, workers, self.minibatch, _MINIBATCH)

    def _compute(self, builder: GraphBuilder, direction: str, layer: Layer, samples: int, after: Sequence[int]) -> int:
        passes = 1 if direction == "forward" else 2
        moved = layer.moved * samples * self.activation_bytes + layer.read * self.weight_bytes
        name, flops = f"{direction} {layer.name}", passes * layer.flops * samples
        return builder.compute(name, np.arange(builder.ranks), flops=flops, bytes=passes * moved, after=after)
