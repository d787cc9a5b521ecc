"""The workload ``microbenchmark``: one collective operation and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import units
from fredfw.collectives import Pattern
from fredfw.errors import InputError
from fredfw.plugin import hookimpl
from fredfw.workloads import GraphBuilder, Parallelism, System, TaskGraph, Workload


@frozen
class Microbenchmark(Workload):
    """One collective among the first ``ranks`` workers, ``count`` times back to back, without computation.

    All time is charged to the label ``collective``. Rank 0 is the root of a rooted pattern.
    """

    name: ClassVar[str] = "microbenchmark"

    pattern: str = units.option(
        Pattern.ALL_REDUCE.value, validator=units.one_of(*Pattern), help="collective operation to run"
    )
    size: float = units.size("1 GB", help="per-rank buffer, the larger of input and output (nccl-tests)")
    ranks: int | None = units.option(None, validator=units.whole(1), help="members of the group; default: all NPUs")
    count: int = units.option(1, validator=units.whole(1), help="repetitions, back to back")

    def parallelism(self, system: System) -> Parallelism:
        """Return ``ranks`` data-parallel workers.

        Raises:
            InputError: A point-to-point among any number but two.
        """
        ranks = system.npus if self.ranks is None else self.ranks
        if self.pattern == Pattern.POINT_TO_POINT and ranks != 2:
            raise InputError(f"a point-to-point among {ranks} ranks", key="ranks", accepted="2")
        return Parallelism(dp=ranks)

    def graph(self, system: System) -> TaskGraph:
        """See ``Workload.graph``."""
        ranks = self.parallelism(system).workers
        builder = GraphBuilder(ranks)
        group = np.arange(ranks)[None, :]
        before: tuple[int, ...] = ()
        for repetition in range(self.count):
            task = builder.collective(
                f"{self.pattern} {repetition}",
                Pattern(self.pattern),
                group,
                self.size,
                label="collective",
                after=before,
            )
            before = (task,)
        return builder.build()


@hookimpl
def fredfw_workloads() -> Sequence[type[Workload]]:
    """Register the workload."""
    return [Microbenchmark]
