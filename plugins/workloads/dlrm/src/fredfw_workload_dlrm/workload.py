"""The options of the workload, what it says of itself, and one iteration as a task graph."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

import attrs
import numpy as np
from attrs import frozen

import fredfw
from fredfw import DeviceMesh, GraphBuilder, Label, MemoryUse, Pattern, System, TaskGraph, Work, Workload, units
from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray


@frozen
class Layer:
    """A part of the model that is computed as one task. Everything but the parameters is per sample."""

    name: str  # for traces and messages
    parameters: int  # trainable numbers
    flops: int  # forward floating-point operations, two per multiply-add
    moved: int  # numbers that it reads and writes in forward, parameters excluded
    stored: int  # its outputs, which the backward pass needs


@frozen
class Shape:
    """The shape of a model (Naumov et al. 2019, arXiv 1906.00091)."""

    tables: int  # embedding tables, one for each categorical feature
    embedding_dim: int  # numbers in a row of a table
    rows: tuple[int, ...]  # rows of each table; one number stands for all
    pooling: int  # rows that a sample looks up in each table; their sum is its feature
    bottom_mlp: tuple[int, ...]  # dense features, then the width of each layer; the last one is `embedding_dim`
    top_mlp: tuple[int, ...]  # width of each layer; its input is what the interaction gives
    interaction: str  # `dot`, the products of all pairs of features beside the bottom MLP's output, or `concatenate`
    biases: bool = True  # whether the layers have biases

    def __attrs_post_init__(self) -> None:
        if len(self.bottom_mlp) < 2:
            accepted = "the number of dense features, then the width of each layer, such as [13, 512, 128]"
            raise InputError(f"{list(self.bottom_mlp)} has no layer", key="bottom_mlp", accepted=accepted)
        if self.bottom_mlp[-1] != self.embedding_dim:
            ends = f"{list(self.bottom_mlp)} ends in {self.bottom_mlp[-1]}"
            accepted = f"a list that ends in embedding_dim = {self.embedding_dim}"
            raise InputError(f"{ends}, but an embedding has {self.embedding_dim}", key="bottom_mlp", accepted=accepted)
        if len(self.rows) not in (1, self.tables):
            message = f"{len(self.rows)} numbers for {self.tables} tables"
            raise InputError(message, key="rows", accepted=f"1 or {self.tables} numbers")

    @property
    def bottom(self) -> tuple[Layer, ...]:
        return self._mlp("bottom MLP", self.bottom_mlp)

    @property
    def interacting(self) -> Layer:
        features, width = self.tables + 1, self._interacted
        flops = 2 * features**2 * self.embedding_dim if self.interaction == "dot" else 0
        return Layer("interaction", 0, flops, features * self.embedding_dim + width, width)

    @property
    def top(self) -> tuple[Layer, ...]:
        return self._mlp("top MLP", (self._interacted, *self.top_mlp))

    @property
    def dense(self) -> tuple[Layer, ...]:
        return (*self.bottom, self.interacting, *self.top)

    @property
    def _interacted(self) -> int:
        features = self.tables + 1
        if self.interaction == "concatenate":
            return features * self.embedding_dim
        return self.embedding_dim + features * (features - 1) // 2

    def _mlp(self, name: str, widths: tuple[int, ...]) -> tuple[Layer, ...]:
        return tuple(
            Layer(f"{name} {number}", (inputs + self.biases) * outputs, 2 * inputs * outputs, inputs + outputs, outputs)
            for number, (inputs, outputs) in enumerate(pairwise(widths))
        )


# Rows of the 26 tables of Criteo's data: MLPerf Training v0.7, --max-ind-range=40000000; and of the Kaggle challenge.
_TERABYTE: tuple[int, ...] = (39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10)
_TERABYTE += (2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36)
_KAGGLE: tuple[int, ...] = (1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194)
_KAGGLE += (27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572)

PRESETS: Mapping[str, Shape] = {
    # MLPerf Training v0.7, recommendation: facebookresearch/dlrm, bench/run_and_time.sh
    "mlperf": Shape(26, 128, _TERABYTE, 1, (13, 512, 256, 128), (1024, 1024, 512, 256, 1), "dot"),
    # Naumov et al. 2019: facebookresearch/dlrm, bench/dlrm_s_criteo_kaggle.sh
    "kaggle": Shape(26, 16, _KAGGLE, 1, (13, 512, 256, 64, 16), (512, 256, 1), "dot"),
    # Derived from the compute times and bytes in inputs/workload/DLRM.txt of astra-sim/libra, a file of the authors of
    # Themis (ISCA 2022): at 60 TFLOP/s and 512 samples they are those of exactly these layers. Rows are not published.
    # 100 look-ups of FP16 rows at 1 TB/s take the 419,431 ns of its first line.
    "themis": Shape(
        tables=64,
        embedding_dim=64,
        rows=(1_000_000,),
        pooling=100,
        bottom_mlp=(1600, *(1024,) * 6, 64),
        top_mlp=(*(2048,) * 11, 1),
        interaction="concatenate",
        biases=False,
    ),
}


def placed(shape: Shape, column_shards: int, workers: int) -> tuple[IntArray, FloatArray]:
    """Return ``(workers,)`` numbers that each worker's pieces of tables, dealt in turn, give for a sample, and hold."""
    dim, pieces = shape.embedding_dim, shape.tables * column_shards
    if dim % column_shards:
        message = f"{dim} columns cannot be divided evenly into {column_shards}"
        raise InputError(message, key="column_shards", accepted=f"a divisor of embedding_dim = {dim}")
    if pieces < workers:
        enough = [one for one in range(1, dim + 1) if dim % one == 0 and shape.tables * one >= workers]
        accepted = f"{enough[0]} or more, a divisor of {dim}" if enough else f"dp of at most {shape.tables * dim}"
        message = f"{shape.tables} tables in {pieces} pieces cannot be placed on {workers} workers"
        raise InputError(message, key="column_shards", accepted=accepted)
    columns, owners = dim // column_shards, np.arange(pieces) % workers
    rows = np.resize(np.repeat(np.array(shape.rows, dtype=float), column_shards), pieces)
    parameters = np.zeros(workers)
    np.add.at(parameters, owners, rows * columns)
    return np.bincount(owners, minlength=workers) * columns, parameters


_MINIBATCH = 512
_PRESET = "default: the preset's"


@frozen
class Dlrm(Workload):
    """Training of a recommendation model: data-parallel MLPs, model-parallel embedding tables.

    Every worker looks up its pieces of the tables for the samples of all workers. An all-to-all gives each worker the
    embeddings of its own samples; another one returns their gradients. The bottom MLP runs beside both. The gradients
    of the MLPs are all-reduced. Backward costs twice the forward pass. Source: Naumov et al. 2019, arXiv 1906.00091.
    """

    name: ClassVar[str] = "dlrm"

    model: str = units.choice(PRESETS, "mlperf", help="preset of the shape")
    tables: int | None = units.count(None, help=f"embedding tables; {_PRESET}")
    embedding_dim: int | None = units.count(None, help=f"numbers in a row; {_PRESET}")
    rows: tuple[int, ...] | None = units.sizes(None, help=f"rows of each table, or one number for all; {_PRESET}")
    pooling: int | None = units.count(None, help=f"rows that a sample looks up in each table; {_PRESET}")
    bottom_mlp: tuple[int, ...] | None = units.sizes(
        None, help=f"dense features, then the width of each layer, the last one embedding_dim; {_PRESET}"
    )
    top_mlp: tuple[int, ...] | None = units.sizes(None, help=f"width of each layer; {_PRESET}")
    interaction: str | None = units.choice(
        ("dot", "concatenate"),
        None,
        help=f"input of the top MLP: products of all pairs of features, or all features; {_PRESET}",
    )
    biases: bool | None = units.flag(None, help=f"whether the layers of the MLPs have biases; {_PRESET}")
    dp: int | None = units.count(None, help="workers; default: all NPUs")
    column_shards: int = units.count(1, help="pieces of each table, cut by columns; workers take the pieces in turn")
    global_batch: int | None = units.count(
        None, help="samples of an iteration, over all workers; the workers divide it"
    )
    minibatch: int | None = units.count(
        None, help=f"samples of an iteration per worker, instead of global_batch; default without it: {_MINIBATCH}"
    )
    overlap_mp: bool = units.flag(True, help="run the bottom MLP beside the all-to-alls, not before or behind them")
    overlap_dp: bool = units.flag(
        True, help="all-reduce gradients in buckets during the backward pass, not all at once behind it"
    )
    bucket: float = units.quantity(
        units.Unit.BYTES,
        "25 MiB",
        help="with overlap_dp: gradients that fill a bucket (default: that of PyTorch DDP); 0: each layer alone",
    )
    weight_bytes: float = units.quantity(units.Unit.BYTES, 2, help="per weight of the MLPs (default: FP16)")
    gradient_bytes: float = units.quantity(units.Unit.BYTES, 2, help="per gradient of the MLPs (default: FP16)")
    optimizer_bytes: float = units.quantity(
        units.Unit.BYTES, 4, help="optimizer state per weight of the MLPs (default: SGD, FP32 master copy)"
    )
    activation_bytes: float = units.quantity(
        units.Unit.BYTES, 2, help="per activation, and per number in the all-to-alls (default: FP16)"
    )
    embedding_bytes: float = units.quantity(units.Unit.BYTES, 2, help="per number in the tables (default: FP16)")

    def __attrs_post_init__(self) -> None:
        placed(self.shape, self.column_shards, self.dp or 1)
        self.samples(self.dp or 1)

    @property
    def shape(self) -> Shape:
        """The shape of the model; with another number of tables than the preset's, each has their mean of rows."""
        shape = attrs.asdict(PRESETS[self.model])
        given = {name: getattr(self, name) for name in shape if getattr(self, name) is not None}
        if "tables" in given and "rows" not in given:
            shape["rows"] = (round(sum(shape["rows"]) / len(shape["rows"])),)
        return Shape(**(shape | given))

    @property
    def dense_parameters(self) -> int:
        """Trainable numbers of the MLPs."""
        return sum(layer.parameters for layer in self.shape.dense)

    def mesh(self, system: System) -> DeviceMesh:
        return DeviceMesh({"dp": system.npus if self.dp is None else self.dp})

    def labels(self, system: System) -> Mapping[str, Label]:
        """See ``Workload.labels``; the bottleneck of the forward pass comes first."""
        return {"mp": Label(0, "#D55E00"), "dp": Label(1, "#E69F00")}

    def graph(self, system: System) -> TaskGraph:
        return _Iteration(self, self.mesh(system).ranks).graph()

    def memory(self, system: System) -> MemoryUse:
        """See ``Workload.memory``; of the worker with the largest pieces of tables."""
        workers, shape = self.mesh(system).ranks, self.shape
        _, parameters = placed(shape, self.column_shards, workers)
        embeddings = float(parameters.max()) * self.embedding_bytes
        # A sample keeps its dense features and embeddings, and the output of each layer.
        stored = shape.bottom_mlp[0] + shape.tables * shape.embedding_dim + sum(layer.stored for layer in shape.dense)
        return MemoryUse(
            weights=self.dense_parameters * self.weight_bytes + embeddings,
            gradients=self.dense_parameters * self.gradient_bytes,
            optimizer=self.dense_parameters * self.optimizer_bytes,
            activations=stored * self.samples(workers) * self.activation_bytes,
        )

    def work(self, system: System) -> Work:
        """Return samples and model FLOPs of an iteration: three forward passes of the MLPs and the interaction."""
        workers = self.mesh(system).ranks
        samples = self.samples(workers) * workers
        return Work(samples, model_flops=3 * samples * sum(layer.flops for layer in self.shape.dense), replicas=workers)

    def samples(self, workers: int) -> int:
        """Return the samples of one worker."""
        return fredfw.samples_per_replica(self.global_batch, workers, self.minibatch, _MINIBATCH)


class _Iteration:
    def __init__(self, workload: Dlrm, workers: int) -> None:
        self.workload = workload
        self.workers = workers
        # `(workers,)` numbers that each worker's pieces of tables give for a sample
        self._widths, _ = placed(workload.shape, workload.column_shards, workers)
        self._samples = workload.samples(workers)
        self._builder = GraphBuilder(workers)
        # Without overlap, only the end of the backward pass fills the bucket.
        capacity = workload.bucket if workload.overlap_dp else math.inf
        self._buckets = fredfw.GradientBuckets(self._builder, np.arange(workers), capacity)

    def graph(self) -> TaskGraph:
        """The bottom MLP runs while embeddings are on their way. Backward is the reverse, then tables are updated."""
        shape, hidden = self.workload.shape, self.workload.overlap_mp
        looked_up = self._tables("look-up", passes=1)
        arrived = self._exchange("embeddings", looked_up)
        before = looked_up if hidden else arrived
        for layer in shape.bottom:
            before = self._layer("forward", layer, before)
        before = arrived + before
        for layer in (shape.interacting, *shape.top):
            before = self._layer("forward", layer, before)
        for layer in reversed(shape.top):
            before = self._backward(layer, before)
        before = self._layer("backward", shape.interacting, before)
        returned = self._exchange("gradients of embeddings", before, back=True)
        if not hidden:
            before = returned
        for layer in reversed(shape.bottom):
            before = self._backward(layer, before)
        self._buckets.flush()
        self._tables("update", passes=2, after=returned + before)
        return self._builder.build()

    def _tables(self, name: str, *, passes: int, after: Sequence[int] = ()) -> tuple[int, ...]:
        """Add the work on the rows of all workers' samples: an update reads and writes each."""
        workload, samples = self.workload, self._samples * self.workers
        row = workload.shape.pooling * workload.embedding_bytes
        done = []
        for width in np.unique(self._widths).tolist():
            owners, moved = np.flatnonzero(self._widths == width), passes * row + workload.activation_bytes
            size = samples * width * moved
            done.append(self._builder.compute(f"{name} of embeddings", owners, bytes=size, after=after))
        return tuple(done)

    def _exchange(self, name: str, after: tuple[int, ...], *, back: bool = False) -> tuple[int, ...]:
        if self.workers == 1:
            return after
        group, shape = np.arange(self.workers)[None, :], self.workload.shape
        number = self._samples * self.workload.activation_bytes
        if (self._widths == self._widths[0]).all():
            total = number * shape.tables * shape.embedding_dim
            return (self._builder.collective(name, Pattern.ALL_TO_ALL, group, total, label="mp", after=after),)
        sizes = np.repeat(self._widths[:, None] * number, self.workers, axis=1)
        return (self._builder.all_to_all_v(name, group, (sizes.T if back else sizes)[None], label="mp", after=after),)

    def _layer(self, direction: str, layer: Layer, after: Sequence[int]) -> tuple[int, ...]:
        passes, workload = 1 if direction == "forward" else 2, self.workload
        moved = layer.moved * self._samples * workload.activation_bytes + layer.parameters * workload.weight_bytes
        name, flops = f"{direction} {layer.name}", passes * layer.flops * self._samples
        return (self._builder.compute(name, np.arange(self.workers), flops=flops, bytes=passes * moved, after=after),)

    def _backward(self, layer: Layer, after: Sequence[int]) -> tuple[int, ...]:
        done = self._layer("backward", layer, after)
        self._buckets.add(layer.name, layer.parameters * self.workload.gradient_bytes, *done)
        return done
