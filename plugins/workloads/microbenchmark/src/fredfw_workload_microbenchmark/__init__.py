"""The workload ``microbenchmark``: one collective operation and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen

from fredfw import GraphBuilder, Parallelism, Pattern, System, TaskGraph, Workload, hookimpl, units
from fredfw.errors import InputError

fredfw_contract = 1


@frozen
class Microbenchmark(Workload):
    """One collective among the first ``ranks`` workers, ``count`` times back to back, without computation.

    With ``groups`` it runs in several groups at once: of consecutive workers, as model parallelism has them, or strided
    through the workers, as data parallelism has them (with 2 groups one has the even workers). All time is charged to
    the label ``collective``. Rank 0 of a group is the root of a rooted pattern.
    """

    name: ClassVar[str] = "microbenchmark"

    pattern: str = units.option(
        Pattern.ALL_REDUCE.value, validator=units.one_of(*Pattern), help="collective operation to run"
    )
    size: float = units.size("1 GB", help="per-rank buffer, the larger of input and output (nccl-tests)")
    ranks: int | None = units.option(
        None, validator=units.whole(1), help="members of a group; default: as many as there are NPUs for"
    )
    groups: int = units.option(1, validator=units.whole(1), help="groups that run at once")
    layout: str = units.option(
        "consecutive", validator=units.one_of("consecutive", "strided"), help="which workers form a group"
    )
    count: int = units.option(1, validator=units.whole(1), help="repetitions, back to back")

    def parallelism(self, system: System) -> Parallelism:
        """Return MP groups where they are consecutive, and DP groups where they are strided.

        Raises:
            InputError: A point-to-point among any number but two, or more groups than NPUs.
        """
        if self.groups > system.npus:
            raise InputError(
                f"{self.groups} groups for {system.npus} NPUs", key="groups", accepted="at most one per NPU"
            )
        ranks = system.npus // self.groups if self.ranks is None else self.ranks
        if self.pattern == Pattern.POINT_TO_POINT and ranks != 2:
            raise InputError(f"a point-to-point among {ranks} ranks", key="ranks", accepted="2")
        if self.layout == "strided":
            return Parallelism(dp=ranks, pp=self.groups)
        return Parallelism(mp=ranks, dp=self.groups)

    def graph(self, system: System) -> TaskGraph:
        """See ``Workload.graph``."""
        parallelism = self.parallelism(system)
        builder = GraphBuilder(parallelism.workers)
        groups = parallelism.dp_groups() if self.layout == "strided" else parallelism.mp_groups()
        before: tuple[int, ...] = ()
        for repetition in range(self.count):
            task = builder.collective(
                f"{self.pattern} {repetition}",
                Pattern(self.pattern),
                groups,
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
