"""3D parallelism: how worker ranks are numbered, and which of them form the MP, DP and PP groups."""

from __future__ import annotations

import numpy as np
from attrs import field, frozen

from fredfw import limits
from fredfw.errors import InputError
from fredfw.typing import IntArray
from fredfw.units import at_least


@frozen
class Parallelism:
    """MP x DP x PP workers. Rank of worker (mp, dp, pp) is ``mp + MP * (pp + PP * dp)``.

    Consecutive ranks share an MP group, then come the pipeline stages, then the data-parallel replicas: the order in
    which FRED places workers (FRED, section on placement).

    Args:
        mp: Workers that split each layer (model or tensor parallelism).
        dp: Replicas that split the minibatch (data parallelism).
        pp: Pipeline stages (pipeline parallelism).

    Raises:
        InputError: More workers than a fabric may have nodes.
    """

    mp: int = field(default=1, validator=at_least(1))
    dp: int = field(default=1, validator=at_least(1))
    pp: int = field(default=1, validator=at_least(1))

    def __attrs_post_init__(self) -> None:
        limits.check("nodes", self.workers)

    @property
    def workers(self) -> int:
        """Number of ranks."""
        return self.mp * self.dp * self.pp

    @property
    def grid(self) -> IntArray:
        """``(DP, PP, MP)`` rank of each worker."""
        return np.arange(self.workers, dtype=np.intp).reshape(self.dp, self.pp, self.mp)

    def samples_per_replica(self, global_batch: int) -> int:
        """Return the samples of each replica, where all replicas together train ``global_batch`` samples.

        Raises:
            InputError: DP does not divide ``global_batch``; names that key.
        """
        share, rest = divmod(global_batch, self.dp)
        if rest:
            raise InputError(
                f"{global_batch} samples cannot be divided evenly among {self.dp} replicas",
                key="global_batch",
                accepted=f"a multiple of {self.dp}",
            )
        return share

    def stage(self, pp: int) -> IntArray:
        """Return the ``(DP * MP,)`` ranks of pipeline stage ``pp``."""
        return self.grid[:, pp, :].ravel()

    def mp_groups(self, pp: int | None = None) -> IntArray:
        """Return the ``(groups, MP)`` model-parallel groups, of one stage or of all."""
        grid = self.grid if pp is None else self.grid[:, pp, :]
        return grid.reshape(-1, self.mp)

    def dp_groups(self, pp: int | None = None) -> IntArray:
        """Return the ``(groups, DP)`` data-parallel groups, of one stage or of all."""
        grid = self.grid if pp is None else self.grid[:, pp : pp + 1, :]
        return np.ascontiguousarray(grid.reshape(self.dp, -1).T)

    def pp_groups(self) -> IntArray:
        """Return the ``(groups, PP)`` pipelines."""
        return np.ascontiguousarray(self.grid.transpose(0, 2, 1).reshape(-1, self.pp))

    def __str__(self) -> str:
        return f"MP({self.mp})-DP({self.dp})-PP({self.pp})"
