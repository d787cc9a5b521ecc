"""What is checked of a workload: the graph of its tasks, the work in it, and that it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from attrs import asdict, frozen

from fredfw.collectives.direct import DirectAlgorithm
from fredfw.errors import InputError, PluginError
from fredfw.simulation import Executor, FlowNetwork, Lowering, MaxMin, Planner, Timeline
from fredfw.testing.conformance import EXACT, NOTHING, ConformanceError, check_all, describe, seeded
from fredfw.testing.fabrics import star
from fredfw.testing.process import Elsewhere, digest
from fredfw.workloads import Npu, System, TaskGraph, TaskKind, Workload, answers

SYSTEM = System(npus=16, controllers=4)
"""The machine that workloads run on unless told otherwise: NPUs and controllers around a switch."""
FLOPS, MEMORY = "flops", "bytes"


@frozen(eq=False, kw_only=True)
class WorkloadCase(Elsewhere[Workload]):
    """A workload and its machine, other ``splits`` of the same work among workers, and totals that must be equal."""

    shows: ClassVar[str] = "the graph"

    system: System = SYSTEM
    splits: Sequence[Workload] = ()
    conserved: Sequence[str] = ()

    @cached_property
    def graph(self) -> TaskGraph:
        """One iteration."""
        return self.subject.graph(self.system)

    @cached_property
    def timeline(self) -> Timeline:
        """One iteration on a star, with direct algorithms."""
        fabric = star(self.system.npus, self.system.controllers)
        network, lowering, sharing = FlowNetwork(fabric, MaxMin()), Lowering(fabric), MaxMin()
        return Executor(
            self.graph,
            fabric=fabric,
            network=network,
            placement=np.arange(self.graph.ranks),
            planner=Planner(fabric, sharing, lowering, {None: (DirectAlgorithm(),)}),
            lowering=lowering,
            compute_seconds=Npu().seconds,
        ).run()

    def task(self, number: int) -> str:
        """Return a task in words."""
        return f"task {number} ({self.graph.names[number]!r})"

    def observed(self) -> str:
        """See ``Elsewhere.observed``."""
        return _content(self.graph)

    def is_acyclic(self) -> None:
        """Every task comes after those it depends on."""
        graph = self.graph
        for task in range(len(graph)):
            late = graph.after(task)[(graph.after(task) >= task) | (graph.after(task) < 0)]
            if late.size:
                message = f"{self.task(task)} depends on task {late[0]}, which does not come before it"
                raise ConformanceError(f"{message}; add tasks with GraphBuilder")

    def workers_fit_the_system(self) -> None:
        """The graph has the workers that ``mesh`` says, and there are NPUs for them."""
        workers = self.subject.mesh(self.system).ranks
        if self.graph.ranks != workers:
            raise ConformanceError(f"mesh() says {workers} workers, graph() has {self.graph.ranks} ranks")
        if workers > self.system.npus:
            raise ConformanceError(f"there are {workers} workers for {self.system.npus} NPUs; give a larger system=")

    def all_ranks_take_part(self) -> None:
        """Every rank does something."""
        ranks = self.graph.ranks
        busy = {int(rank) for members in self.graph.tables for rank in np.ravel(members)}
        idle = sorted(set(range(ranks)) - busy)
        if idle:
            raise ConformanceError(f"rank {idle[0]} has no part in any task (in all, {len(idle)} of {ranks} ranks)")

    def amounts_are_not_negative(self) -> None:
        """FLOPs, bytes and seconds of every task are finite and not negative, and some task does something."""
        graph = self.graph
        for what in ("flops", "bytes", "seconds"):
            values = getattr(graph, what)
            unknown = np.isnan(values) & (what == "seconds")
            for task in np.flatnonzero(~unknown & ~(np.isfinite(values) & (values >= 0)))[:1]:
                raise ConformanceError(f"{self.task(int(task))} has {what} {values[task]}; finite, and not negative")
        if not len(graph):
            raise ConformanceError("the graph has no tasks")

    def memory_is_not_negative(self) -> None:
        """What the fullest NPU needs is finite and not negative."""
        parts = asdict(self.subject.memory(self.system))
        kept = parts.pop("tiers")
        for part, size in (*parts.items(), *kept.items()):
            if not np.isfinite(size) or size < 0:
                raise ConformanceError(f"memory() says {size} bytes of {part}; finite, and not negative")

    def work_and_notes_are_well_formed(self) -> None:
        """The work is a ``Work`` or ``None``, notes and omissions are texts, and all are the same when asked again."""
        for ask in (answers.work, answers.notes, answers.omissions):
            try:
                answer, again = ask(self.subject, self.system), ask(self.subject, self.system)
            except (InputError, PluginError) as error:
                raise ConformanceError(str(error)) from error
            if answer != again:
                raise ConformanceError(f"asked twice, it says {answer!r} and then {again!r}")

    def work_is_conserved(self) -> None:
        """However the work is split among workers, it is the same work."""
        own = _totals(self.subject, self.system, self.graph)
        for other in self.splits:
            theirs = _totals(other, self.system, other.graph(self.system))
            for name in self.conserved:
                if name not in own or name not in theirs:
                    known = ", ".join(sorted(own if name not in own else theirs))
                    raise ConformanceError(f"nothing is called {name!r} in {self}; conserved= may have {known}")
                if not np.isclose(own[name], theirs[name], rtol=EXACT, atol=0):
                    raise ConformanceError(
                        f"{self} has {own[name]:.12g} {name} in all, {describe(other)} has {theirs[name]:.12g}; they "
                        "are to do the same work"
                    )

    def runs_to_the_end(self) -> None:
        """On a small fabric the iteration ends, and the time of every rank is accounted for."""
        timeline = self.timeline
        for rank, seconds in enumerate(np.sum(list(timeline.breakdown_by_rank.values()), axis=0)):
            if not np.isclose(seconds, timeline.duration, rtol=EXACT, atol=0):
                raise ConformanceError(f"of {timeline.duration:g} s, {seconds:g} s of rank {rank} are accounted for")

    def is_deterministic(self) -> None:
        """It describes the same iteration when it is asked again."""
        before = _content(self.graph)
        with seeded(1):
            again = _content(self.subject.graph(self.system))
        if before != again:
            raise ConformanceError("asked twice, graph() differs; it may depend on the fields and the system alone")

    def is_the_same_in_another_process(self) -> None:
        """The iteration is the same in another process, with another hash seed; for the kit's own system."""
        if self.system == SYSTEM:
            super().is_the_same_in_another_process()


def totals(graph: TaskGraph) -> dict[str, float]:
    """Return ``flops`` and local ``bytes`` of all ranks, and by label the bytes that their groups communicate."""
    sums = {FLOPS: 0.0, MEMORY: 0.0}
    for task in range(len(graph)):
        times, groups = int(graph.repeats[task]), len(graph.tables[graph.members[task]])
        size = float(graph.bytes[task]) * groups * times
        if graph.kinds[task] == TaskKind.COMPUTE:
            sums[FLOPS] += float(graph.flops[task]) * groups * times
            sums[MEMORY] += size
        elif graph.kinds[task] not in (TaskKind.RECEIVE, TaskKind.WAIT):  # a message counts once
            label = graph.label(task)
            sums[label] = sums.get(label, 0.0) + size
    return sums


def check_workload(
    workload: Workload,
    *,
    system: System = SYSTEM,
    splits: Sequence[Workload] = (),
    conserved: Sequence[str] = (FLOPS,),
    plugin: object = None,
    expected_failures: Mapping[str, str] = NOTHING,
) -> None:
    """Check a configured workload on the machine ``system``; see ``check_topology``.

    ``splits`` are configurations that do the same work with other (MP, DP, PP), and ``conserved`` the totals in which
    all must agree: ``flops``, ``bytes`` (of local memory), a label for the bytes that are communicated under it, or a
    field of ``Work``, such as ``samples``.
    """
    case = WorkloadCase(subject=workload, plugin=plugin, system=system, splits=splits, conserved=conserved)
    check_all("workload", case, expected_failures)


def _totals(workload: Workload, system: System, graph: TaskGraph) -> dict[str, float]:
    """Return the ``totals`` of the graph, and what the workload says that it trains."""
    work = workload.work(system)
    trained = {} if work is None else asdict(work, filter=lambda _, value: value is not None)
    return totals(graph) | trained


def _content(graph: TaskGraph) -> str:
    amounts = "kinds", "labels", "flops", "bytes", "seconds", "members", "controllers", "memories", "roots", "partners"
    order = "dependency_offsets", "dependencies", "blocks", "repeats", "splits"
    arrays = [getattr(graph, name) for name in (*amounts, *order)]
    tables = *graph.tables, *graph.controller_tables, *graph.split_tables
    return digest([*arrays, *tables, tuple(graph.names), graph.label_names, graph.memory_names, graph.patterns])
