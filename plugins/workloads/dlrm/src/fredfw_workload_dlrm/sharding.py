"""Which worker holds which pieces of the embedding tables."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray
from fredfw_workload_dlrm.model import Shape


@frozen
class Sharding:
    """Embedding tables, cut by columns into pieces that the workers take in turn.

    Raises:
        InputError: The columns cannot be divided evenly, or there are fewer pieces than workers.
    """

    shape: Shape
    column_shards: int  # pieces of each table; each has all rows and an equal share of the columns
    workers: int

    def __attrs_post_init__(self) -> None:
        dim, tables = self.shape.embedding_dim, self.shape.tables
        if dim % self.column_shards:
            raise InputError(
                f"{dim} columns cannot be divided evenly into {self.column_shards}",
                key="column_shards",
                accepted=f"a divisor of embedding_dim = {dim}",
            )
        if tables * self.column_shards < self.workers:
            enough = [one for one in range(1, dim + 1) if dim % one == 0 and tables * one >= self.workers]
            accepted = f"{enough[0]} or more, a divisor of {dim}" if enough else f"dp of at most {tables * dim}"
            raise InputError(
                f"{tables} tables in {tables * self.column_shards} pieces cannot be placed on {self.workers} workers",
                key="column_shards",
                accepted=accepted,
            )

    @property
    def widths(self) -> IntArray:
        """``(workers,)`` numbers that each worker's pieces give for a sample."""
        pieces = self.shape.tables * self.column_shards
        counts = np.bincount(np.arange(pieces) % self.workers, minlength=self.workers)
        return counts * (self.shape.embedding_dim // self.column_shards)

    @property
    def parameters(self) -> FloatArray:
        """``(workers,)`` numbers in each worker's pieces."""
        rows = np.repeat(np.array(self.shape.rows_of_each, dtype=float), self.column_shards)
        owners = np.arange(len(rows)) % self.workers
        columns = self.shape.embedding_dim // self.column_shards
        held = np.zeros(self.workers)
        np.add.at(held, owners, rows * columns)
        return held
