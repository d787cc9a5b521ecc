"""A task graph on a fabric: which nodes its tasks use, by which algorithms, over which streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from attrs import frozen

from fredfw.collectives import CollectiveRequest, Schedule
from fredfw.errors import InputError, UnknownNameError, nearest
from fredfw.fabric import Fabric, FlowSet, MemoryTier, Operation
from fredfw.fidelities import COMPRESSED
from fredfw.simulation.bounds import LowerBounds
from fredfw.simulation.choice import Plan, Planner, too_fast
from fredfw.simulation.lowering import Lowering
from fredfw.typing import BoolArray, IntArray
from fredfw.workloads import Kernels, TaskGraph, TaskKind
from fredfw.workloads.merging import buffer

# Plain integers: looking up an enum's member costs more than the comparison, and this is the hot path.
COMPUTE, COLLECTIVE = int(TaskKind.COMPUTE), int(TaskKind.COLLECTIVE)
SEND, RECEIVE = int(TaskKind.SEND), int(TaskKind.RECEIVE)
TRANSFER, LOAD = int(TaskKind.TRANSFER), int(TaskKind.LOAD)
WAIT = int(TaskKind.WAIT)
STREAMS = (LOAD, int(TaskKind.STORE))


@frozen(eq=False)
class Part:
    """Some groups of a table."""

    groups: IntArray  # (k,) which ones
    members: IntArray  # (k, n) rank of each member
    nodes: IntArray  # (k, n) node of each member

    @property
    def ranks(self) -> IntArray:
        """Distinct ranks of the members, sorted."""
        return np.unique(self.members)


@frozen(eq=False)
class Table:
    """A member table of the graph, seen from its participants."""

    groups: IntArray  # (G, n) ranks
    nodes: IntArray  # (G, n) node of each
    participants: IntArray  # (slots,) distinct ranks, sorted; a slot is a position in it
    slots: IntArray  # (G, n) slot of each member
    whole: Part  # all groups

    @classmethod
    def of(cls, members: IntArray, nodes: IntArray) -> Table:
        """Return the table of ``(G, n)`` or ``(ranks,)`` ``members``, of which rank ``r`` is on node ``nodes[r]``."""
        groups = members if members.ndim == 2 else members[:, None]
        participants, slots = np.unique(groups, return_inverse=True)
        whole = Part(np.arange(len(groups)), groups, nodes[groups])
        return cls(groups, whole.nodes, participants, slots.reshape(groups.shape), whole)

    @property
    def everybody(self) -> IntArray:
        """All slots."""
        return np.arange(len(self.participants))

    def part(self, groups: IntArray) -> Part:
        """Return ``(k,)`` distinct ``groups``."""
        return self.whole if len(groups) == len(self.groups) else Part(groups, self.groups[groups], self.nodes[groups])


@frozen(eq=False)
class Share:
    """The groups of a task that one plan serves."""

    plan: Plan
    request: CollectiveRequest
    served: BoolArray | None  # (G,) which groups of the task's table, or None for all
    first: int  # of them; it stands for all where the plan is compared with its bound
    members: IntArray  # (ranks,) NPU numbers of the first
    bounds: LowerBounds

    def part(self, table: Table) -> Part:
        """Return the groups, of the task's ``table``."""
        return table.whole if self.served is None else table.part(np.flatnonzero(self.served))

    def too_fast(self, seconds: float, now: float) -> str | None:
        """Return a note where no algorithm can do in ``seconds``, until ``now``, what the first group is to do."""
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
    """The tasks of one graph on a fabric; knows what they will do there without simulating anything.

    Args:
        graph: What to do.
        fabric: Where the bytes travel.
        placement: ``(ranks,)`` NPU number of each rank.
        planner: Chooses the collective algorithms.
        lowering: Turns transfers into flows.
        priorities: Class by label, 0 the highest; other labels come after all of them.
        bounds: The lower bounds on the fabric, if there are some that know it already.
        fidelity: How candidates for the collectives are simulated.

    Raises:
        InputError: A load or store uses an I/O controller or a memory tier that the fabric does not have.
    """

    def __init__(
        self,
        graph: TaskGraph,
        *,
        fabric: Fabric,
        placement: IntArray,
        planner: Planner,
        lowering: Lowering,
        priorities: Mapping[str, int] | None = None,
        bounds: LowerBounds | None = None,
        fidelity: str = COMPRESSED,
    ) -> None:
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
        self.fabric = fabric
        self.placement = placement
        self._nodes = fabric.npus[placement]
        self._planner = planner
        self._fidelity = fidelity
        self.lowering = lowering
        self._bounds = LowerBounds(fabric) if bounds is None else bounds
        classes = dict(priorities or {})
        lowest = max(classes.values(), default=-1) + 1
        self.priority = {label: classes.get(label, lowest) for label in graph.label_names}
        self.algorithms: dict[str, str] = {}  # of each collective that was planned, by what it is
        self.notes: dict[str, str] = {}  # what a reader of the plans must know
        self._tables: dict[int, Table] = {}
        self._pairs: dict[tuple[int, int], Table] = {}
        self._shared: dict[tuple[int, int], IntArray | None] = {}
        self._plans: dict[tuple[object, ...], list[Share]] = {}
        self._serving: dict[tuple[int, tuple[int, ...], bytes], _Served] = {}

    def check_collectives(self) -> None:
        """Raise ``UnsupportedError`` unless there is an algorithm for every collective."""
        wanted: dict[tuple[object, ...], int] = {
            (self._members[task], partner if partner < 0 else self._members[partner], pattern, self.bytes[task]): task
            for task, (pattern, partner) in enumerate(zip(self.graph.patterns, self.partners, strict=True))
            if pattern is not None and self.kinds[task] != RECEIVE
        }
        wanted |= {(task,): task for task, sizes in enumerate(self._splits) if sizes >= 0}
        for task in wanted.values():
            groups = self.placement[self.groups(task).groups]
            for request, which in self._requests(task):
                for view, _ in self.fabric.views(groups if which is None else groups[which]):
                    self._planner.able(request, view)

    def check_streams(self) -> None:
        """Raise ``UnsupportedError`` unless there are links for every load and store."""
        for task, kind in enumerate(self.kinds):
            if kind in STREAMS:
                self.stream(task, self.table(task).whole)

    def seconds(self, compute_seconds: Callable[[float, float, Kernels | None], float]) -> list[float]:
        """Return how long each task takes that is a computation or a wait; 0 for others.

        An NPU takes ``compute_seconds`` for ``(flops, bytes, kernels)``, where the graph does not say.
        """
        graph = self.graph
        known: dict[tuple[float, float, int], float] = {}
        found = []
        rows = zip(self.kinds, graph.seconds.tolist(), graph.flops.tolist(), graph.kernels.tolist(), strict=True)
        for task, (kind, given, flops, kernels) in enumerate(rows):
            seconds = given if kind in (COMPUTE, WAIT) else 0.0
            if kind in (COMPUTE, WAIT) and given != given:  # it follows from what is computed
                work = flops, self.bytes[task], kernels
                if work not in known:
                    known[work] = compute_seconds(*work[:2], None if kernels < 0 else graph.kernel_tables[kernels])
                seconds = known[work]
            found.append(seconds * self.repeats[task] if kind == COMPUTE else seconds)
        return found

    def table(self, task: int) -> Table:
        """Return who takes part in ``task``."""
        index = self._members[task]
        known = self._tables.get(index)
        if known is None:
            known = self._tables[index] = Table.of(self.graph.tables[index], self._nodes)
        return known

    def before(self, task: int) -> list[int]:
        """Return the tasks that ``task`` depends on."""
        return self._dependencies[self._offsets[task] : self._offsets[task + 1]]

    def groups(self, task: int) -> Table:
        """Return who communicates in ``task``: those who take part, or both ends of the message of a send."""
        if self.kinds[task] != SEND:
            return self.table(task)
        ends = self._members[task], self._members[self.partners[task]]
        known = self._pairs.get(ends)
        if known is None:
            members = np.concatenate([self.graph.tables[one] for one in ends])[None, :]
            known = self._pairs[ends] = Table.of(members, self._nodes)
        return known

    def shared_slots(self, before: int, after: int) -> IntArray | None:
        """Return the slot in ``after`` of each slot of ``before``, -1 for none; ``None`` if all are the same."""
        key = self._members[before], self._members[after]
        if key not in self._shared:
            one, other = self.table(before).participants, self.table(after).participants
            if np.array_equal(one, other):
                self._shared[key] = None
            else:
                place = np.searchsorted(other, one)
                found = other[np.minimum(place, len(other) - 1)] == one
                self._shared[key] = np.where(found, place, -1)
        return self._shared[key]

    def planned(self, task: int) -> list[Share]:
        """Return the plans of a task's groups, see ``Planner.plans``; equal schedules share one."""
        label, awaited = self.labels[task], self._awaited[task]
        table = self.groups(task)
        key = table, self.graph.patterns[task], self.bytes[task], label, awaited, self._roots[task], self._splits[task]
        known = self._plans.get(key)
        if known is not None:
            return known
        plans: dict[Schedule, tuple[Plan, CollectiveRequest, list[int]]] = {}
        places = self.placement[table.groups]
        for request, which in self._requests(task):
            mine = places if which is None else places[which]
            for plan, indices in self._planner.plans(request, mine, awaited=awaited, fidelity=self._fidelity):
                groups = indices if which is None else which[indices]
                plans.setdefault(plan.schedule, (plan, request, []))[2].extend(groups.tolist())
                self._note(f"{label} {request.pattern} x{request.ranks}", plan.algorithm)
                self.notes |= {note: note for note in plan.notes}
        everybody = table.whole.groups
        known = self._plans[key] = []
        for plan, request, members in sorted(plans.values(), key=lambda share: min(share[2])):
            first = min(members)
            served = None if len(plans) == 1 else np.isin(everybody, members)
            known.append(Share(plan, request, served, first, places[first], self._bounds))
        return known

    def stream(self, task: int, part: Part) -> FlowSet:
        """Return the flows of ``part`` of a load or store; each group is an activity."""
        graph = self.graph
        load, label = self.kinds[task] == LOAD, self.labels[task]
        volume, activity = self.bytes[task], None
        ends: Sequence[IntArray] | IntArray
        members: Sequence[IntArray] | IntArray
        if graph.memories[task] < 0:
            table = graph.controller_tables[graph.controllers[task]]
            ends, members = self.fabric.controllers[table[part.groups]][:, None], part.nodes
        else:
            ends, members, activity, stripes = self._served(task, part)
            volume /= stripes
        flows = self.lowering.stream(
            ends if load else members,
            members if load else ends,
            Operation.MULTICAST if load else Operation.REDUCE,
            volume,
            activity=activity,
            priority=self.priority[label],
            label=label,
            times=self.repeats[task],
        )
        if len(flows.volumes) > len(ends):
            self._note_unicasts(task)
        return flows

    def memory(self, task: int) -> MemoryTier | None:
        """Return the memory tier that a load or store uses, ``None`` for I/O controllers."""
        index, memories = int(self.graph.memories[task]), self.fabric.memories
        return None if index < 0 or memories is None else memories.tier(self.graph.memory_names[index])

    def _served(self, task: int, part: Part) -> _Served:
        key = int(self.graph.memories[task]), part.nodes.shape, part.nodes.tobytes()
        known = self._serving.get(key)
        if known is None:
            memories = self.fabric.memories
            assert memories is not None  # _check_memories has made sure
            serving = memories.serving(self.graph.memory_names[key[0]])
            number = np.searchsorted(self.fabric.npus, part.nodes)
            ends, members, activity = list[IntArray](), list[IntArray](), list[int]()
            for group, nodes in enumerate(part.nodes):
                used = serving[number[group]]
                for memory in np.unique(used):
                    ends.append(np.array([memory]))
                    members.append(nodes[(used == memory).any(axis=1)])
                    activity.append(group)
            known = self._serving[key] = ends, members, np.array(activity), serving.shape[1]
        return known

    def _note_unicasts(self, task: int) -> None:
        """Note that the streams of ``task`` are one for each member, as the network cannot copy or reduce them."""
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
        """Which tasks some computation comes after, directly or through others; all of a job where one label sends.

        What comes after a wait, such as the next iteration of a job, does not count.
        """
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
        pattern, ranks, size = self.graph.patterns[task], self.groups(task).groups.shape[1], self.bytes[task]
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
        names = {*self.algorithms.get(what, algorithm).split(" + "), algorithm}
        self.algorithms[what] = " + ".join(sorted(names))


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
            raise UnknownNameError(
                f"task {task!r} uses the memory tier {name!r}, which {fabric.name!r} does not have"
                f"{nearest(name, known)}",
                key="memories",
                accepted=", ".join(known) or "a fabric with memories",
            )
