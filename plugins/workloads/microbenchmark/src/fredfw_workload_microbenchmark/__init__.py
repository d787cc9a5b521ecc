"""The workload ``microbenchmark``: one collective operation and nothing else."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import DeviceMesh, GraphBuilder, Pattern, System, TaskGraph, Workload, limits, units
from fredfw.errors import InputError
from fredfw.typing import IntArray

fredfw_contract = 2


@frozen
class Microbenchmark(Workload):
    """One collective among the first ``ranks`` workers, ``count`` times back to back, without computation.

    With ``groups`` it runs in several groups at once: of consecutive workers (model parallelism), or strided through
    them (data parallelism). ``stride`` and ``spacing`` give any other regular layout: member ``j`` of group ``g`` is
    worker ``g * spacing + j * stride``. The label is ``collective``, the root of a rooted pattern rank 0 of a group.
    """

    name: ClassVar[str] = "microbenchmark"

    pattern: str = units.choice(Pattern, Pattern.ALL_REDUCE.value, help="collective operation to run")
    size: float = units.size("1 GB", help="per-rank buffer, the larger of input and output (nccl-tests)")
    ranks: int | None = units.count(None, help="members of a group; default: as many as there are NPUs for")
    groups: int = units.count(1, help="groups that run at once")
    layout: str = units.choice(("consecutive", "strided"), help="which workers form a group")
    stride: int | None = units.count(
        None, help="from one member of a group to the next, in workers; default: the layout's"
    )
    spacing: int | None = units.count(
        None, help="from the first member of a group to that of the next; default likewise"
    )
    count: int = units.count(1, help="repetitions, back to back")

    def mesh(self, system: System) -> DeviceMesh:
        """Return MP groups if consecutive, DP groups if strided; by ``stride`` or ``spacing``, up to the last one."""
        ranks = self._ranks(system)
        if self.stride is None and self.spacing is None:
            if self.layout == "strided":
                return DeviceMesh({"pp": self.groups, "dp": ranks})
            return DeviceMesh({"mp": ranks, "dp": self.groups})
        return DeviceMesh({"dp": int(self._table(ranks).max()) + 1})

    def _ranks(self, system: System) -> int:
        if self.groups > system.npus:
            message = f"{self.groups} groups for {system.npus} NPUs"
            raise InputError(message, key="groups", accepted="at most one per NPU")
        ranks = system.npus // self.groups if self.ranks is None else self.ranks
        if self.pattern == Pattern.POINT_TO_POINT and ranks != 2:
            raise InputError(f"a point-to-point among {ranks} ranks", key="ranks", accepted="2")
        limits.check("nodes", ranks * self.groups, key="ranks")
        return ranks

    def _table(self, ranks: int) -> IntArray:
        """Return the ``(groups, ranks)`` workers."""
        stride, spacing = (self.groups, 1) if self.layout == "strided" else (1, ranks)
        stride, spacing = self.stride or stride, self.spacing or spacing
        key = "stride" if self.spacing is None else "spacing"
        limits.check("nodes", spacing * (self.groups - 1) + stride * (ranks - 1) + 1, key=key)
        table = spacing * np.arange(self.groups)[:, None] + stride * np.arange(ranks)
        if len(np.unique(table)) < table.size:
            message = f"groups of {ranks} workers with a stride of {stride} and a spacing of {spacing} share workers"
            accepted = "a stride and a spacing that give each group workers of its own"
            raise InputError(message, key=key, accepted=accepted)
        return table

    def graph(self, system: System) -> TaskGraph:
        limits.check("tasks", self.count, key="count")
        builder = GraphBuilder(self.mesh(system).ranks)
        groups, pattern = self._table(self._ranks(system)), Pattern(self.pattern)
        before: tuple[int, ...] = ()
        for repetition in range(self.count):
            name = f"{pattern} {repetition}"
            before = (builder.collective(name, pattern, groups, self.size, label="collective", after=before),)
        return builder.build()
