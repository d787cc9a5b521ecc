"""A task graph on a fabric: which nodes its tasks use, by which algorithms, over which streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, partial

import numpy as np
from attrs import frozen

from fredfw.collectives import CollectiveRequest, Schedule
from fredfw.errors import InputError, UnknownNameError, nearest
from fredfw.fabric import Fabric, FlowSet, MemoryTier, Operation
from fredfw.fidelities import COMPRESSED
from fredfw.keeping import kept
from fredfw.simulation.bounds.collectives import LowerBounds
from fredfw.simulation.choice import Plan, Planner, too_fast
from fredfw.simulation.lowering import Rows, ScheduleFlows
from fredfw.typing import IntArray
from fredfw.workloads import Kernels, TaskGraph, TaskKind
from fredfw.workloads.merging import buffer

# Plain integers: looking up an enum's member costs more than the comparison, and this is the hot path.
COMPUTE, COLLECTIVE = int(TaskKind.COMPUTE), int(TaskKind.COLLECTIVE)
SEND, RECEIVE = int(TaskKind.SEND), int(TaskKind.RECEIVE)
TRANSFER, LOAD = int(TaskKind.TRANSFER), int(TaskKind.LOAD)
WAIT = int(TaskKind.WAIT)
STREAMS = (LOAD, int(TaskKind.STORE))


@frozen(eq=False)
class Groups:
    """All groups of a member table of the graph, or some."""

    which: IntArray  # (k,) their places in the table
    members: IntArray  # (k, n) rank of each member
    nodes: IntArray  # (k, n) node of each

    def __len__(self) -> int:
        return len(self.which)

    @cached_property
    def participants(self) -> IntArray:
        """Distinct ranks of the members, sorted; a slot is a position among them."""
        return np.unique(self.members)

    @cached_property
    def slots(self) -> IntArray:
        """``(k, n)`` slot of each member."""
        return np.searchsorted(self.participants, self.members)

    def part(self, which: IntArray) -> Groups:
        return self if len(which) == len(self) else Groups(which, self.members[which], self.nodes[which])


@frozen(eq=False)
class Share:
    """The groups of a task that one plan serves."""

    plan: Plan
    request: CollectiveRequest
    groups: Groups
    members: IntArray  # (ranks,) NPU numbers of the first group, which stands for all where the plan has a bound
    bounds: LowerBounds

    def too_fast(self, seconds: float, now: float) -> str | None:
        if seconds >= self._ceiling:
            return None
        return too_fast(self.plan.algorithm, self.request, seconds, self._least, now)

    @cached_property
    def _ceiling(self) -> float:
        return self.bounds.ceiling(self.request, self.members)

    @cached_property
    def _least(self) -> float:
        return self.bounds.of(self.request, self.members).seconds


# Of memories and those that they serve: the node of each memory; the nodes that it serves in a group, and which
# ``(streams,)`` groups these are; and how many memories the data of a member is striped over.
_Served = tuple[list[IntArray], list[IntArray], IntArray, int]


class Assignment:
    """The tasks of one graph on a fabric; knows what they will do there without simulating anything."""

    def __init__(
        self,
        graph: TaskGraph,
        *,
        planner: Planner,
        placement: IntArray,  # (ranks,) NPU number of each rank
        priorities: Mapping[str, int] | None = None,  # class by label, 0 the highest; other labels come after all
        fidelity: str = COMPRESSED,  # of the simulation of candidates
    ) -> None:
        self.simulator = planner.simulator
        self.fabric = fabric = planner.simulator.fabric
        self.lowering = planner.simulator.lowering
        _check_controllers(graph, fabric)
        _check_memories(graph, fabric)
        self.graph = graph
        # Lists, because taking one number out of an array costs more than all that is done with it.
        self.kinds: list[int] = graph.kinds.tolist()
        self.repeats: list[int] = graph.repeats.tolist()
        self.bytes: list[float] = graph.bytes.tolist()
        self.labels: list[str] = [graph.label_names[label] for label in graph.labels.tolist()]
        self.partners: list[int] = graph.partners.tolist()
        self._dependencies: list[int] = graph.dependencies.tolist()
        self._offsets: list[int] = graph.dependency_offsets.tolist()
        self._roots: list[int] = graph.roots.tolist()
        self._splits: list[int] = graph.splits.tolist()
        self._members: list[int] = graph.members.tolist()
        self.placement = placement
        self._nodes = fabric.npus[placement]
        self._planner = planner
        self._fidelity = fidelity
        classes = dict(priorities or {})
        lowest = max(classes.values(), default=-1) + 1
        self.priority = {label: classes.get(label, lowest) for label in graph.label_names}
        self.algorithms: dict[str, str] = {}  # of each collective that was planned, by what it is
        self.notes: dict[str, str] = {}  # what a reader of the plans must know
        self._tables: dict[int, Groups] = {}
        self._pairs: dict[tuple[int, int], Groups] = {}
        self._shared: dict[tuple[int, int], IntArray | None] = {}
        self._plans: dict[tuple[object, ...], list[Share]] = {}
        self._serving: dict[tuple[int, tuple[int, ...], bytes], _Served] = {}

    def check_collectives(self) -> None:
        wanted: dict[tuple[object, ...], int] = {
            (self._members[task], partner if partner < 0 else self._members[partner], pattern, self.bytes[task]): task
            for task, (pattern, partner) in enumerate(zip(self.graph.patterns, self.partners, strict=True))
            if pattern is not None and self.kinds[task] != RECEIVE
        }
        wanted |= {(task,): task for task, sizes in enumerate(self._splits) if sizes >= 0}
        for task in wanted.values():
            groups = self.placement[self.groups(task).members]
            for request, which in self._requests(task):
                for view, _ in self.fabric.views(groups if which is None else groups[which]):
                    self._planner.able(request, view)

    def check_streams(self) -> None:
        for task, kind in enumerate(self.kinds):
            if kind in STREAMS:
                self.stream(task, self.table(task))

    def seconds(self, compute_seconds: Callable[[float, float, Kernels | None], float]) -> list[float]:
        """Return the seconds of computations and waits, 0 for others; the function takes flops, bytes and kernels."""
        graph, found = self.graph, []

        @cache
        def of_work(flops: float, size: float, kernels: int) -> float:
            return compute_seconds(flops, size, None if kernels < 0 else graph.kernel_tables[kernels])

        work = zip(graph.flops.tolist(), self.bytes, graph.kernels.tolist(), strict=True)
        for kind, times, given, what in zip(self.kinds, self.repeats, graph.seconds.tolist(), work, strict=True):
            seconds = given if kind in (COMPUTE, WAIT) else 0.0
            if math.isnan(seconds):  # it follows from what is computed
                seconds = of_work(*what)
            found.append(seconds * times if kind == COMPUTE else seconds)
        return found

    def table(self, task: int) -> Groups:
        index = self._members[task]
        known = self._tables.get(index)  # asked often
        if known is None:
            known = self._tables[index] = self._on_nodes(self.graph.tables[index])
        return known

    def _on_nodes(self, members: IntArray) -> Groups:
        members = members if members.ndim == 2 else members[:, None]
        return Groups(np.arange(len(members)), members, self._nodes[members])

    def before(self, task: int) -> list[int]:
        return self._dependencies[self._offsets[task] : self._offsets[task + 1]]

    def groups(self, task: int) -> Groups:
        """Return who communicates in ``task``: those who take part, or both ends of the message of a send."""
        if self.kinds[task] != SEND:
            return self.table(task)
        ends = self._members[task], self._members[self.partners[task]]
        tables = self.graph.tables
        return kept(self._pairs, ends, lambda: self._on_nodes(np.concatenate([tables[one] for one in ends])[None, :]))

    def shared_slots(self, before: int, after: int) -> IntArray | None:
        """Return the slot in ``after`` of each slot of ``before``, -1 for none; ``None`` if all are the same."""

        def find() -> IntArray | None:
            one, other = self.table(before).participants, self.table(after).participants
            if np.array_equal(one, other):
                return None
            place = np.searchsorted(other, one)
            return np.where(other[np.minimum(place, len(other) - 1)] == one, place, -1)

        return kept(self._shared, (self._members[before], self._members[after]), find)

    def planned(self, task: int) -> list[Share]:
        key = self.groups(task), self.graph.patterns[task], self.bytes[task], self.labels[task], self._awaited[task]
        return kept(self._plans, (*key, self._roots[task], self._splits[task]), partial(self._plan, task))

    def _plan(self, task: int) -> list[Share]:
        table, label, awaited = self.groups(task), self.labels[task], self._awaited[task]
        plans: dict[Schedule, tuple[Plan, CollectiveRequest, list[int]]] = {}
        places = self.placement[table.members]
        for request, which in self._requests(task):
            at = places if which is None else places[which]
            for plan, indices in self._planner.plans(request, at, awaited=awaited, fidelity=self._fidelity):
                groups = indices if which is None else which[indices]
                plans.setdefault(plan.schedule, (plan, request, []))[2].extend(groups.tolist())
                self._note(f"{label} {request.pattern} x{request.ranks}", plan.algorithm)
                self.notes |= {note: note for note in plan.notes}
        shares = []
        for plan, request, served in plans.values():
            mine = table.part(np.sort(served))
            shares.append(Share(plan, request, mine, places[mine.which[0]], self.simulator.bounds))
        return sorted(shares, key=lambda share: int(share.groups.which[0]))

    def flows(self, task: int, share: Share, nodes: IntArray, *, by_rank: bool = False) -> ScheduleFlows:
        label, schedule, times = self.labels[task], share.plan.schedule, self.repeats[task]
        return ScheduleFlows(self.lowering, schedule, nodes, by_rank, self.priority[label], label, times)

    def stream(self, task: int, part: Groups) -> FlowSet:
        graph, label = self.graph, self.labels[task]
        volume, activity = self.bytes[task], None
        ends: Rows
        members: Rows
        if graph.memories[task] < 0:
            table = graph.controller_tables[graph.controllers[task]]
            ends, members = self.fabric.controllers[table[part.which]][:, None], part.nodes
        else:
            ends, members, activity, stripes = self._served(task, part)
            volume /= stripes
        is_load, priority, times = self.kinds[task] == LOAD, self.priority[label], self.repeats[task]
        sources, destinations = (ends, members) if is_load else (members, ends)
        operation = Operation.MULTICAST if is_load else Operation.REDUCE
        flows = self.lowering.stream(
            sources, destinations, operation, volume, activity=activity, priority=priority, label=label, times=times
        )
        if len(flows.volumes) > len(ends):
            self._note_unicasts(task)
        return flows

    def memory(self, task: int) -> MemoryTier | None:
        index, memories = int(self.graph.memories[task]), self.fabric.memories
        return None if index < 0 or memories is None else memories.tier(self.graph.memory_names[index])

    def _served(self, task: int, part: Groups) -> _Served:
        index, memories = int(self.graph.memories[task]), self.fabric.memories
        assert memories is not None  # _check_memories has made sure

        def serve() -> _Served:
            serving = memories.serving(self.graph.memory_names[index])
            number = np.searchsorted(self.fabric.npus, part.nodes)
            ends, members, activity = list[IntArray](), list[IntArray](), list[int]()
            for group, nodes in enumerate(part.nodes):
                used = serving[number[group]]
                for memory in np.unique(used):
                    ends.append(np.array([memory]))
                    members.append(nodes[(used == memory).any(axis=1)])
                    activity.append(group)
            return ends, members, np.array(activity), serving.shape[1]

        return kept(self._serving, (index, part.nodes.shape, part.nodes.tobytes()), serve)

    def _note_unicasts(self, task: int) -> None:
        tier = self.memory(task)
        where = "I/O controllers" if tier is None else f"memory tier {tier.name!r}"
        told = (
            f"loads from {where} are a stream for each member, as the switches do not copy"
            if self.kinds[task] == LOAD
            else f"stores to {where} are a stream for each member, as the switches do not reduce; what arrives is not "
            "summed up, and the time of that is left out"
        )
        self.notes.setdefault(told, told)

    @cached_property
    def _awaited(self) -> list[bool]:
        """Which tasks some computation comes after, unless a wait is between; all of a job where one label sends."""
        jobs: list[int] = self.graph.jobs.tolist()
        sends: dict[int, set[str]] = {job: set() for job in jobs}
        for job, label, kind in zip(jobs, self.labels, self.kinds, strict=True):
            if kind not in (COMPUTE, WAIT):
                sends[job].add(label)
        awaited = [len(sends[job]) < 2 for job in jobs]
        for task in reversed(range(len(self.kinds))):
            if self.kinds[task] != WAIT and (awaited[task] or self.kinds[task] == COMPUTE):
                for one in self.before(task):
                    awaited[one] = True
                if self.kinds[task] == RECEIVE:
                    awaited[self.partners[task]] = True
        return awaited

    def _requests(self, task: int) -> Iterator[tuple[CollectiveRequest, IntArray | None]]:
        """Yield what the groups of ``task`` ask for, and which groups that is; ``None`` for all."""
        pattern, ranks, size = self.graph.patterns[task], self.groups(task).members.shape[1], self.bytes[task]
        assert pattern is not None  # the builder gives one to every collective and transfer
        if self._splits[task] < 0:
            yield CollectiveRequest(pattern, ranks, size, self._roots[task]), None
            return
        sizes = self.graph.split_tables[self._splits[task]]
        alike: dict[bytes, list[int]] = {}
        for group, amounts in enumerate(sizes):
            alike.setdefault(amounts.tobytes(), []).append(group)
        for groups in alike.values():
            yield CollectiveRequest(pattern, ranks, buffer(sizes[groups[0]]), sizes=sizes[groups[0]]), np.array(groups)

    def _note(self, what: str, algorithm: str) -> None:
        self.algorithms[what] = " + ".join(sorted({*self.algorithms.get(what, algorithm).split(" + "), algorithm}))


def _check_controllers(graph: TaskGraph, fabric: Fabric) -> None:
    count = len(fabric.controllers)
    for index, controllers in enumerate(graph.controller_tables):
        missing = controllers[(controllers < 0) | (controllers >= count)]
        if missing.size:
            name = graph.names[int(np.argmax(graph.controllers == index))]
            message = f"task {name!r} uses I/O controller {missing[0]}, and {fabric.name!r} has {count} I/O controllers"
            raise InputError(message, accepted=f"0 to {count - 1}" if count else "a fabric with I/O controllers")


def _check_memories(graph: TaskGraph, fabric: Fabric) -> None:
    known = [] if fabric.memories is None else [one.name for one in fabric.memories.tiers]
    for index, name in enumerate(graph.memory_names):
        if name not in known:
            task = graph.names[int(np.argmax(graph.memories == index))]
            message = f"task {task!r} uses the memory tier {name!r}, which {fabric.name!r} does not have"
            accepted = ", ".join(known) or "a fabric with memories"
            raise UnknownNameError(f"{message}{nearest(name, known)}", key="memories", accepted=accepted)
