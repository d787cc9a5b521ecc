"""One data-parallel training iteration of a translation model."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import numpy as np
from attrs import frozen

import fredfw
from fredfw import DeviceMesh, GradientBuckets, GraphBuilder, Label, MemoryUse, System, TaskGraph, Work, Workload, units


@frozen
class Layer:
    """A part of the model that is computed as one task. All but the parameters is per sample (a pair of sentences)."""

    name: str  # for traces and messages
    parameters: int  # trainable numbers
    matrices: int  # those of them that are weights of an LSTM or of the softmax
    flops: int  # forward floating-point operations of matrix products, two per multiply-add
    read: int  # parameters that a forward pass reads; those of a time step count as often as there are time steps
    moved: int  # activations that it reads and writes in forward
    stored: int  # activations that the backward pass needs


@frozen
class Shape:
    """The shape of a model (Wu et al. 2016, arXiv 1609.08144, section 3). Embeddings are as wide as an LSTM.

    The first layer of the encoder is bidirectional, so the second one has an input of twice the width. All layers of
    the decoder but the first take the context, what attention gives, beside their input.
    """

    encoder_layers: int  # LSTM layers; the bidirectional one counts once
    decoder_layers: int
    hidden: int  # units of each
    vocabulary: int  # word pieces of each language
    sequence: int  # word pieces of a sentence, in each language
    # whether the first layer of the decoder takes the context of the time step before
    context_first: bool = True
    lstm_biases: int = 1  # bias vectors of an LSTM: 1, or 2 as in cuDNN
    softmax_bias: bool = False  # whether the logits have a bias
    shared_embeddings: bool = False  # whether both languages have one table of embeddings

    @property
    def layers(self) -> tuple[Layer, ...]:
        h = self.hidden
        encoder = [self._lstm("encoder 0", h, directions=2)]
        encoder += [self._lstm(f"encoder {n}", 2 * h if n == 1 else h) for n in range(1, self.encoder_layers)]
        first = self._lstm("decoder 0", h, stepwise=h if self.context_first else 0)
        decoder = [self._lstm(f"decoder {n}", 2 * h) for n in range(1, self.decoder_layers)]
        source = self._embedding("source embedding", self.vocabulary)
        target = self._embedding("target embedding", 0 if self.shared_embeddings else self.vocabulary)
        return (source, *encoder, target, first, self._attention(), *decoder, self._softmax())

    def _embedding(self, name: str, rows: int) -> Layer:
        numbers = self.sequence * self.hidden
        return Layer(name, rows * self.hidden, 0, flops=0, read=0, moved=2 * numbers, stored=numbers)

    def _lstm(self, name: str, inputs: int, *, stepwise: int = 0, directions: int = 1) -> Layer:
        """Inputs of all time steps are one matrix product, the rest one for each, which reads its weights again."""
        h, steps = self.hidden, self.sequence
        once, again = 4 * h * inputs, 4 * h * (stepwise + h)
        return Layer(
            name,
            parameters=directions * (once + again + self.lstm_biases * 4 * h),
            matrices=directions * (once + again),
            flops=directions * 2 * (once + again) * steps,
            read=directions * (once + again * steps),
            # The gates are written and read; then there are the cell and the output.
            moved=directions * (inputs + stepwise + 10 * h) * steps,
            stored=directions * 6 * h * steps,
        )

    def _attention(self) -> Layer:
        """Return normalised additive attention: two projections, and a score of each pair of positions."""
        h, steps = self.hidden, self.sequence
        return Layer(
            "attention",
            parameters=2 * h**2 + 2 * h + 1,
            matrices=0,
            flops=4 * h**2 * steps + 4 * steps**2 * h,
            read=2 * h**2,
            moved=2 * steps**2 * h + 4 * steps * h,
            stored=steps**2 * h + 2 * steps * h,
        )

    def _softmax(self) -> Layer:
        h, v, steps = self.hidden, self.vocabulary, self.sequence
        return Layer(
            "softmax",
            parameters=h * v + v * self.softmax_bias,
            matrices=h * v,
            flops=2 * h * v * steps,
            read=h * v,
            moved=(h + v) * steps,
            stored=v * steps,
        )


PRESETS: Mapping[str, Shape] = {
    # tensorflow/nmt, standard_hparams/wmt16_gnmt_4_layer.json and wmt16_gnmt_8_layer.json, with the 36,548 word pieces
    # that scripts/wmt16_en_de.sh makes (issue 133 there)
    "wmt16-4": Shape(encoder_layers=4, decoder_layers=4, hidden=1024, vocabulary=36548, sequence=50),
    "wmt16-8": Shape(encoder_layers=8, decoder_layers=8, hidden=1024, vocabulary=36548, sequence=50),
    # MLPerf Training v0.6 and v0.7, rnn_translator, as NVIDIA's submissions pad the vocabulary: 160,671,297 parameters
    "mlperf": Shape(4, 4, 1024, 32320, 50, False, lstm_biases=2, softmax_bias=True, shared_embeddings=True),
}


_MINIBATCH = 128
_PRESET = "default: the preset's"


@frozen
class Gnmt(Workload):
    """Data-parallel training of an LSTM encoder and decoder with attention (Wu et al. 2016, arXiv 1609.08144).

    One task per layer and direction. Backward costs twice the forward pass, and all-reduces gradients meanwhile.
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
        return DeviceMesh({"dp": system.npus if self.dp is None else self.dp})

    def labels(self, system: System) -> Mapping[str, Label]:
        return {"dp": Label(0, "#E69F00")}

    def graph(self, system: System) -> TaskGraph:
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
        return fredfw.samples_per_replica(self.global_batch, workers, self.minibatch, _MINIBATCH)

    def _compute(self, builder: GraphBuilder, direction: str, layer: Layer, samples: int, after: Sequence[int]) -> int:
        passes = 1 if direction == "forward" else 2
        moved = layer.moved * samples * self.activation_bytes + layer.read * self.weight_bytes
        name, flops = f"{direction} {layer.name}", passes * layer.flops * samples
        return builder.compute(name, np.arange(builder.ranks), flops=flops, bytes=passes * moved, after=after)
