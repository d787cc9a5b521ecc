"""What is checked of a workload: the graph of its tasks, the work in it, and that it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from attrs import asdict, frozen

from fredfw.collectives.direct import DirectAlgorithm
from fredfw.errors import InputError
from fredfw.simulation import Executor, Planner, Simulator, Timeline
from fredfw.testing.conformance import EXACT, NOTHING, Faults, _Tests, check_all, describe, where
from fredfw.testing.fabrics import star
from fredfw.testing.process import Deterministic
from fredfw.workloads import Npu, System, TaskGraph, TaskKind, Workload, answers

SYSTEM = System(npus=16, controllers=4)
"""The machine that workloads run on unless told otherwise: NPUs and controllers around a switch."""
FLOPS, MEMORY = "flops", "bytes"


@frozen(eq=False, kw_only=True)
class WorkloadCase(Deterministic[Workload, System, TaskGraph]):
    """A workload and its machine, other ``splits`` of the same work among workers, and totals that must be equal."""

    shows: ClassVar[str] = "the graph"
    mend: ClassVar[str] = "it may depend on the fields and the system alone"

    system: System = SYSTEM
    splits: Sequence[Workload] = ()
    conserved: Sequence[str] = ()

    @property
    def asked(self) -> list[System]:
        return [self.system]

    def answer(self, question: System) -> TaskGraph:
        return self.subject.graph(question)

    def parts(self, answer: TaskGraph) -> Iterator[object]:
        amounts = "kinds", "labels", "flops", "bytes", "seconds", "members", "controllers", "memories", "roots"
        order = "partners", "dependency_offsets", "dependencies", "blocks", "repeats", "splits"
        yield from (getattr(answer, name) for name in (*amounts, *order))
        yield from (*answer.tables, *answer.controller_tables, *answer.split_tables)
        yield from (tuple(answer.names), answer.label_names, answer.memory_names, answer.patterns)

    @property
    def graph(self) -> TaskGraph:
        return self.answers[0][1]

    @cached_property
    def timeline(self) -> Timeline:
        simulator = Simulator(star(self.system.npus, self.system.controllers))
        return Executor(
            self.graph,
            network=simulator.network(),
            placement=np.arange(self.graph.ranks),
            planner=Planner(simulator, {None: (DirectAlgorithm(),)}),
            compute_seconds=Npu().seconds,
        ).run()

    def task(self, number: int) -> str:
        return f"task {number} ({self.graph.names[number]!r})"

    def is_acyclic(self) -> Faults:
        """Every task comes after those it depends on."""
        graph = self.graph
        for task in range(len(graph)):
            late = graph.after(task)[(graph.after(task) >= task) | (graph.after(task) < 0)]
            if late.size:
                fault = f"{self.task(task)} depends on task {late[0]}, which does not come before it"
                yield f"{fault}; add tasks with GraphBuilder"

    def workers_fit_the_system(self) -> Faults:
        """The graph has the workers that ``mesh`` says, and there are NPUs for them."""
        workers = self.subject.mesh(self.system).ranks
        if self.graph.ranks != workers:
            yield f"mesh() says {workers} workers, graph() has {self.graph.ranks} ranks"
        if workers > self.system.npus:
            yield f"there are {workers} workers for {self.system.npus} NPUs; give a larger system="

    def all_ranks_take_part(self) -> Faults:
        """Every rank does something."""
        ranks = self.graph.ranks
        busy = {int(rank) for members in self.graph.tables for rank in np.ravel(members)}
        idle = sorted(set(range(ranks)) - busy)
        if idle:
            yield f"rank {idle[0]} has no part in any task (in all, {len(idle)} of {ranks} ranks)"

    def amounts_are_not_negative(self) -> Faults:
        """FLOPs, bytes and seconds of every task are finite and not negative, and some task does something."""
        graph = self.graph
        for what in ("flops", "bytes", "seconds"):
            values = getattr(graph, what)
            unknown = np.isnan(values) & (what == "seconds")
            for task in where(~unknown & ~(np.isfinite(values) & (values >= 0))):
                yield f"{self.task(task)} has {what} {values[task]}; finite, and not negative"
        if not len(graph):
            yield "the graph has no tasks"

    def memory_is_not_negative(self) -> Faults:
        """What the fullest NPU needs is finite and not negative."""
        answers.memory(self.subject, self.system)
        return iter(())

    def work_and_notes_are_well_formed(self) -> Faults:
        """The work is a ``Work`` or ``None``, notes and omissions are texts, and all are the same when asked again."""
        for ask in (answers.work, answers.notes, answers.omissions):
            try:
                answer, again = ask(self.subject, self.system), ask(self.subject, self.system)
            except InputError as error:
                yield str(error)
            else:
                if answer != again:
                    yield f"asked twice, it says {answer!r} and then {again!r}"

    def work_is_conserved(self) -> Faults:
        """However the work is split among workers, it is the same work."""
        own = _totals(self.subject, self.system, self.graph)
        for other in self.splits:
            theirs = _totals(other, self.system, other.graph(self.system))
            for name in self.conserved:
                if name not in own or name not in theirs:
                    known = ", ".join(sorted(own if name not in own else theirs))
                    yield f"nothing is called {name!r} in {self}; conserved= may have {known}"
                if not np.isclose(own[name], theirs[name], rtol=EXACT, atol=0):
                    fault = f"{self} has {own[name]:.12g} {name} in all, {describe(other)} has {theirs[name]:.12g}"
                    yield f"{fault}; they are to do the same work"

    def runs_to_the_end(self) -> Faults:
        """On a small fabric the iteration ends, and the time of every rank is accounted for."""
        timeline = self.timeline
        for rank, seconds in enumerate(np.sum(list(timeline.breakdown_by_rank.values()), axis=0)):
            if not np.isclose(seconds, timeline.duration, rtol=EXACT, atol=0):
                yield f"of {timeline.duration:g} s, {seconds:g} s of rank {rank} are accounted for"

    def is_the_same_in_another_process(self) -> Faults:
        """The iteration is the same in another process, with another hash seed; for the kit's own system."""
        return super().is_the_same_in_another_process() if self.system == SYSTEM else iter(())


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


class WorkloadTests(_Tests, case=WorkloadCase, subjects="workloads"):
    """Tests of the configured ``workloads``, on the machine ``system``.

    Where they are the same work split in different ways, ``conserved`` are totals on which all must agree: ``flops``,
    ``bytes`` (of local memory), labels of communication, or fields of ``Work`` such as ``samples``.
    """

    workloads: ClassVar[Sequence[Workload]] = ()
    system: ClassVar[System] = SYSTEM
    conserved: ClassVar[Sequence[str]] = ()

    @classmethod
    def cases(cls) -> Iterator[WorkloadCase]:
        """Yield every workload, beside all that do the same work."""
        splits = cls.workloads if cls.conserved else ()
        return (
            WorkloadCase(subject=one, plugin=cls.plugin, system=cls.system, splits=splits, conserved=cls.conserved)
            for one in cls.workloads
        )


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

    ``splits`` do the same work with other (MP, DP, PP), so that all agree in ``conserved``, as in ``WorkloadTests``.
    """
    case = WorkloadCase(subject=workload, plugin=plugin, system=system, splits=splits, conserved=conserved)
    check_all("workload", case, expected_failures)


def _totals(workload: Workload, system: System, graph: TaskGraph) -> dict[str, float]:
    work = workload.work(system)
    trained = {} if work is None else asdict(work, filter=lambda _, value: value is not None)
    return totals(graph) | trained
