"""The options of the workload, and what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs
from attrs import frozen

from fredfw import DeviceMesh, Label, MemoryUse, System, TaskGraph, Work, Workload, samples_per_replica, units
from fredfw_workload_dlrm.iteration import Iteration
from fredfw_workload_dlrm.model import PRESETS, Shape, placed

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
        workers = self.dp or 1
        self.samples(workers)
        placed(self.shape, self.column_shards, workers)

    @property
    def shape(self) -> Shape:
        """The shape of the model: the preset's, where fields do not say otherwise.

        A preset's rows are no use for another number of tables. Then each table has their mean.

        Raises:
            InputError: A list that does not fit the others.
        """
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
        """See ``Workload.mesh``."""
        return DeviceMesh({"dp": system.npus if self.dp is None else self.dp})

    def labels(self, system: System) -> Mapping[str, Label]:
        """See ``Workload.labels``; the bottleneck of the forward pass comes first."""
        del system
        return {"mp": Label(0, "#D55E00"), "dp": Label(1, "#E69F00")}

    def graph(self, system: System) -> TaskGraph:
        """Return one iteration.

        Raises:
            InputError: There are fewer pieces of tables than workers, or a batch cannot be divided evenly.
        """
        return Iteration(self, self.mesh(system).ranks).graph()

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
        flops = sum(layer.flops for layer in self.shape.dense)
        return Work(samples, model_flops=3 * samples * flops, replicas=workers)

    def samples(self, workers: int) -> int:
        """Return the samples of one worker."""
        return samples_per_replica(self.global_batch, workers, self.minibatch, _MINIBATCH)
