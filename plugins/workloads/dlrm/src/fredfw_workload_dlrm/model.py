"""What a deep learning recommendation model costs: parameters, FLOPs and bytes, from its shape."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from attrs import frozen

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
    """The shape of a model (Naumov et al. 2019, arXiv 1906.00091).

    Raises:
        InputError: The last layer of the bottom MLP is not as wide as an embedding, or ``rows`` has another length.
    """

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
            message = f"{ends}, but an embedding has {self.embedding_dim}"
            raise InputError(message, key="bottom_mlp", accepted=accepted)
        if len(self.rows) not in (1, self.tables):
            message = f"{len(self.rows)} numbers for {self.tables} tables"
            raise InputError(message, key="rows", accepted=f"1 or {self.tables} numbers")

    @property
    def bottom(self) -> tuple[Layer, ...]:
        """The layers of the bottom MLP."""
        return self._mlp("bottom MLP", self.bottom_mlp)

    @property
    def interacting(self) -> Layer:
        """The interaction of the features; it has no parameters."""
        features, width = self.tables + 1, self._interacted
        flops = 2 * features**2 * self.embedding_dim if self.interaction == "dot" else 0
        return Layer("interaction", 0, flops, features * self.embedding_dim + width, width)

    @property
    def top(self) -> tuple[Layer, ...]:
        """The layers of the top MLP."""
        return self._mlp("top MLP", (self._interacted, *self.top_mlp))

    @property
    def dense(self) -> tuple[Layer, ...]:
        """All layers that every worker has, in forward order."""
        return (*self.bottom, self.interacting, *self.top)

    @property
    def _interacted(self) -> int:
        """Numbers that the interaction gives per sample."""
        features = self.tables + 1
        if self.interaction == "concatenate":
            return features * self.embedding_dim
        return self.embedding_dim + features * (features - 1) // 2

    def _mlp(self, name: str, widths: tuple[int, ...]) -> tuple[Layer, ...]:
        return tuple(
            Layer(
                f"{name} {number}",
                parameters=(inputs + self.biases) * outputs,
                flops=2 * inputs * outputs,
                moved=inputs + outputs,
                stored=outputs,
            )
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
    """Place pieces of tables, which have an equal share of the columns each, on the workers in turn.

    Return ``(workers,)`` numbers that each worker's pieces give for a sample, and numbers in them; raises
    ``InputError`` where columns cannot be divided evenly, or there are fewer pieces than workers.
    """
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
