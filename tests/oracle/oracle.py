"""What a task graph takes, by the written meaning alone: slow, obvious, and without any code of the simulation.

It follows docs/model.md and the order of a moment in engine/include/fredfw.h. It uses graphs, schedules, fabrics,
routers, admissions and transports as data. The engine does these as well, and the oracle does not:

- repetitions as one volume (``compressed``) where links change meanwhile;
- flows that are let in part by part, and unicasts in place of streams (``Split`` and ``Decompose``);
- admissions that look at which routes are the same object, or rank by rank at what has started at the same moment;
- transports whose costs depend on more of a call than its pattern, ranks and size;
- sharing policies with a state, and those of plugins;
- computations whose time follows from FLOPs and bytes, or varies: they have their seconds;
- counters, bytes by link, lower bounds, cancelling, copies, and stops on the way.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TypeVar

import numpy as np
from attrs import define
from oracle_network import CHOICES, ENDS, Flow, Network, Sending, UnknownError
from oracle_schedules import RankRun, Run, WholeRun

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Schedule
from fredfw.errors import UnsupportedError
from fredfw.fabric import Call, Fabric, IdealTransport, NodeKind, Operation
from fredfw.fidelities import COMPRESSED, RENDEZVOUS, STEPWISE
from fredfw.simulation import MaxMin
from fredfw.workloads import TaskGraph, TaskKind

STREAMS = TaskKind.LOAD, TaskKind.STORE
# When links get other bandwidths, and which; one of 0 closes a link.
Change = tuple[float, Mapping[int, float]]
Algorithms = Mapping[Pattern | None, Sequence[CollectiveAlgorithm]]


@define
class Span:
    """What some ranks did of a task, from when to when; ``trigger`` is the span that made it start, or -1."""

    task: int
    start: float
    end: float
    trigger: int
    ranks: tuple[int, ...]


_Run = TypeVar("_Run", bound=Run)
Entry = tuple[float, int]  # when ranks entered, and the span that let them


class Tasks:
    """A task graph that runs; see ``simulate``."""

    def __init__(
        self, graph: TaskGraph, network: Network, placement: Sequence[int], algorithms: Algorithms, fidelity: str
    ) -> None:
        self.graph, self.network, self.algorithms = graph, network, algorithms
        self.fabric = network.fabric.network
        self.nodes = [int(network.fabric.npus[place]) for place in placement]
        self.npus = list(placement)
        by_rank = fidelity not in (COMPRESSED, STEPWISE)
        self.by_rank = by_rank and network.admission.flow_by_flow
        self.rendezvous, self.compressed = fidelity == RENDEZVOUS, fidelity == COMPRESSED
        self.kinds = [TaskKind(kind) for kind in graph.kinds.tolist()]
        self.groups: list[list[list[int]]] = [
            np.atleast_2d(graph.tables[table]).tolist() for table in graph.members.tolist()
        ]
        self.ranks = [sorted({rank for group in groups for rank in group}) for groups in self.groups]
        self.before = [
            [one for one in graph.after(task).tolist() if set(self.ranks[one]) & set(self.ranks[task])]
            for task in range(len(graph))
        ]
        self.spans: list[Span] = []
        self.done: list[set[int]] = [set() for _ in self.kinds]
        self.told: list[set[int]] = [set() for _ in self.kinds]  # ranks that are ready
        self.begun: list[set[int]] = [set() for _ in self.kinds]  # groups
        self.left = [
            {rank: sum(rank in group for group in groups) for rank in ranks}
            for groups, ranks in zip(self.groups, self.ranks, strict=True)
        ]
        self.busy: set[int] = set()
        self.freed_by: dict[int, int] = {}
        self.queues: dict[int, deque[tuple[int, float, int, int]]] = defaultdict(deque)
        self.orders = count()
        self.entries: list[Entry] = []
        self.entering: dict[int, dict[tuple[int, int], int]] = {}  # by task: marks of groups and places
        self.runs: dict[tuple[int, int], tuple[RankRun, int]] = {}  # run and its group, by task and group
        self.arrivals: dict[int, Entry] = {}
        self.posted: set[int] = set()
        self.unreceived: dict[int, RankRun] = {}
        self.memories: dict[int, deque[Sending]] = {}  # what waits for those that are busy
        self.schedules: dict[tuple[str, str], Schedule] = {}

    def note_ready(self, task: int, trigger: int) -> None:
        """Begin what ranks of a task can, that have ended all tasks before it."""
        fresh = [
            rank
            for rank in self.ranks[task]
            if rank not in self.told[task]
            and all(rank in self.done[one] for one in self.before[task] if rank in self.ranks[one])
        ]
        if not fresh:
            return
        self.told[task].update(fresh)
        kind, everybody = self.kinds[task], len(self.told[task]) == len(self.ranks[task])
        if kind is TaskKind.COMPUTE:
            self.compute(task, fresh, trigger)
        elif kind is TaskKind.WAIT:
            if everybody:
                end = partial(self.end, task, self.ranks[task], self.ranks[task], self.network.now, trigger)
                self.network.at(self.network.now + self.network.blurred(float(self.graph.seconds[task])), ENDS, end)
        elif kind is TaskKind.SEND:
            self.send(task, trigger)
        elif kind is TaskKind.RECEIVE:
            self.receive(task, trigger)
        elif self.by_rank and kind not in STREAMS:
            self.enter_soon(task, fresh, trigger)
        else:
            self.gather(task, trigger)

    def end(self, task: int, over: Iterable[int], ranks: Iterable[int], start: float, trigger: int) -> None:
        """Record a span of ranks, some of which are done with the task; go on with what comes after it."""
        self.spans.append(Span(task, start, self.network.now, trigger, tuple(ranks)))
        span = len(self.spans) - 1
        self.done[task].update(over)
        for other in range(task + 1, len(self.kinds)):
            if task in self.before[other]:
                self.note_ready(other, span)

    # computations

    def compute(self, task: int, ranks: list[int], trigger: int) -> None:
        """Start a computation, or have it wait for those before it."""
        order = next(self.orders)
        for rank in ranks:
            self.queues[rank].append((order, self.network.now, task, trigger))
        self.compute_next(ranks)

    def compute_next(self, ranks: list[int]) -> None:
        """Start the first that waits for each of some ranks; those that begin for the same reason begin together."""
        starting: dict[tuple[int, int], tuple[int, list[int]]] = {}
        for rank in ranks:
            if rank not in self.busy and self.queues[rank]:
                order, since, task, trigger = self.queues[rank].popleft()
                trigger = self.freed_by[rank] if since < self.network.now else trigger
                starting.setdefault((order, trigger), (task, []))[1].append(rank)
        for (_, trigger), (task, mine) in sorted(starting.items()):
            self.compute_now(task, sorted(mine), trigger)

    def compute_now(self, task: int, ranks: list[int], trigger: int) -> None:
        self.busy.update(ranks)
        seconds = float(self.graph.seconds[task]) * self.times(task)
        computed = partial(self.computed, task, ranks, self.network.now, trigger)
        self.network.at(self.network.now + self.network.blurred(seconds), ENDS, computed)

    def computed(self, task: int, ranks: list[int], start: float, trigger: int) -> None:
        self.busy.difference_update(ranks)
        self.freed_by.update(dict.fromkeys(ranks, len(self.spans)))
        self.end(task, ranks, ranks, start, trigger)
        self.compute_next(ranks)

    def times(self, task: int) -> int:
        return int(self.graph.repeats[task])

    # communication in groups

    def gather(self, task: int, trigger: int) -> None:
        """Begin a communication in groups, all of whose members are ready; a transfer in those whose sender is."""
        fresh = []
        for number, group in enumerate(self.groups[task]):
            awaited = group[:1] if self.kinds[task] is TaskKind.TRANSFER else group
            if number not in self.begun[task] and self.told[task].issuperset(awaited):
                fresh.append(number)
        self.begun[task].update(fresh)
        if fresh:
            (self.stream if self.kinds[task] in STREAMS else self.start_groups)(task, fresh, trigger)

    def start_groups(self, task: int, groups: list[int], trigger: int) -> None:
        """Run schedules in groups, those with the same one together."""
        for schedule, mine in self.planned(task, groups):
            run = self.make(WholeRun, task, schedule, mine)
            run.stepwise = not self.compressed
            run.ended = partial(self.groups_ended, task, mine, (self.network.now, trigger))
            run.start()

    def groups_ended(self, task: int, groups: list[int], entry: Entry, which: list[int]) -> None:
        """Note the end of groups, which are over for ranks that have no other group."""
        if self.kinds[task] is TaskKind.SEND:
            self.sent(task, entry)
            self.arrive(task, entry)
            return
        self.members_over(task, [rank for one in which for rank in self.groups[task][groups[one]]], *entry)

    def members_over(self, task: int, members: list[int], start: float, trigger: int) -> None:
        for rank in members:
            self.left[task][rank] -= 1
        ranks = sorted(set(members))
        self.end(task, [rank for rank in ranks if not self.left[task][rank]], ranks, start, trigger)

    def members_of(self, task: int) -> list[list[int]]:
        if self.kinds[task] is not TaskKind.SEND:
            return self.groups[task]
        return [[self.ranks[one][0] for one in (task, int(self.graph.partners[task]))]]

    def planned(self, task: int, groups: list[int]) -> list[tuple[Schedule, list[int]]]:
        """Return schedules of groups, by the first algorithm that can serve each; in the order of all groups."""
        graph, found = self.graph, dict[Schedule, list[int]]()
        pattern, split, size = graph.patterns[task], int(graph.splits[task]), float(graph.bytes[task])
        assert pattern is not None
        for group, ranks in enumerate(self.members_of(task)):
            members = [self.npus[rank] for rank in ranks]
            sizes = None if split < 0 else graph.split_tables[split][group]
            if sizes is not None:  # the largest buffer, with what stays where it is
                size = float(max(sizes.sum(axis=0).max(), sizes.sum(axis=1).max()))
            root = 0 if sizes is not None else int(graph.roots[task])
            request = CollectiveRequest(pattern, len(members), size, root, sizes=sizes)
            view = self.fabric.view(np.array(members))
            candidates = self.algorithms.get(pattern, self.algorithms.get(None, ()))
            algorithm = next(one for one in candidates if one.refusal(request, view) is None)
            schedule = algorithm.plan(request, view)
            # Equal schedules go together, but where calls cost something, which depends on the algorithm.
            name = "" if isinstance(self.network.fabric.defaults.transport, IdealTransport) else str(algorithm)
            found.setdefault(self.schedules.setdefault((schedule.key, name), schedule), []).append(group)
        asked = [(schedule, [group for group in mine if group in groups]) for schedule, mine in found.items()]
        return [(schedule, mine) for schedule, mine in asked if mine]

    def make(self, kind: type[_Run], task: int, schedule: Schedule, groups: list[int]) -> _Run:
        members, fabric = self.members_of(task), self.network.fabric
        nodes = [[self.nodes[rank] for rank in members[group]] for group in groups]
        call = Call(str(schedule.pattern), "", schedule.ranks, float(self.graph.bytes[task]))
        costs = fabric.defaults.transport.costs(call, fabric.network)
        return kind(self.network, schedule, nodes, self.graph.label(task), costs, self.times(task))

    # ranks that enter one by one

    def enter_soon(self, task: int, ranks: list[int], trigger: int) -> None:
        """Have ranks enter with all that do at this moment; the receivers of a transfer come with its sender."""
        if not self.entering:
            self.network.soon(CHOICES, self.enter)
        marks, eager = self.entering.setdefault(task, {}), self.kinds[task] is TaskKind.TRANSFER and not self.rendezvous
        self.entries.append((self.network.now, trigger))
        for number, group in enumerate(self.groups[task]):
            for place, rank in enumerate(group):
                if (group[0] if eager else rank) in ranks:
                    marks[number, place] = len(self.entries) - 1

    def enter(self) -> None:
        """Have ranks enter; groups that begin now with the same schedule are one run."""
        entering, self.entering = self.entering, {}
        for task, marks in entering.items():
            fresh = sorted({group for group, _ in marks if (task, group) not in self.runs})
            for schedule, mine in self.planned(task, fresh):
                run = self.make_ranks(task, schedule, mine)
                self.runs.update({(task, group): (run, place) for place, group in enumerate(mine)})
            places: dict[RankRun, list[tuple[int, int, int]]] = {}
            for (group, place), mark in sorted(marks.items()):
                run, number = self.runs[task, group]
                places.setdefault(run, []).append((number, place, mark))
            for run in sorted(places, key=list({one: None for one, _ in self.runs.values()}).index):
                run.enter(places[run])

    def make_ranks(self, task: int, schedule: Schedule, groups: list[int]) -> RankRun:
        """Return a run of a task that nobody has entered."""
        run = self.make(RankRun, task, schedule, groups)
        run.rendezvous, run.through = self.rendezvous, partial(self.through, task, groups)
        run.begin()
        return run

    def through(self, task: int, groups: list[int], places: list[tuple[int, int, int]]) -> None:
        """Note that ranks are through with a communication, each with the last entry that it has waited for."""
        if self.kinds[task] is TaskKind.SEND:
            for _, place, mark in places:
                (self.sent, self.arrive)[place](task, self.entries[mark])
            return
        for last in sorted({mark for _, _, mark in places}):
            members = [self.groups[task][groups[group]][place] for group, place, mark in places if mark == last]
            self.members_over(task, members, *self.entries[last])

    # messages

    def send(self, task: int, trigger: int) -> None:
        """Send a message, whose sender is ready; a rendezvous waits for the receive."""
        [(schedule, _)] = self.planned(task, [0])
        if not self.by_rank:
            self.start_groups(task, [0], trigger)
            return
        run, receive = self.make_ranks(task, schedule, [0]), int(self.graph.partners[task])
        self.entries.append((self.network.now, trigger))
        mark, places = len(self.entries) - 1, [0]
        if not self.rendezvous or receive in self.posted:
            places.append(1)
        else:
            self.unreceived[receive] = run
        self.network.soon(CHOICES, lambda: run.enter([(0, place, mark) for place in places]))

    def receive(self, task: int, trigger: int) -> None:
        """Note that nothing but the message keeps a receive from its end."""
        run = self.unreceived.get(task)
        if task in self.arrivals:
            self.network.soon(ENDS, partial(self.sent, task, (self.network.now, trigger)))
        elif run is not None:
            self.entries.append((self.network.now, trigger))
            mark = len(self.entries) - 1
            self.network.soon(CHOICES, lambda: run.enter([(0, 1, mark)]))
        else:
            self.posted.add(task)

    def arrive(self, task: int, entry: Entry) -> None:
        receive = int(self.graph.partners[task])
        if self.told[receive]:
            self.sent(receive, entry)
        else:
            self.arrivals[receive] = entry

    def sent(self, task: int, entry: Entry) -> None:
        self.end(task, self.ranks[task], self.ranks[task], *entry)

    # loads and stores

    def stream(self, task: int, groups: list[int], trigger: int) -> None:
        """Start the streams between ranks and I/O controllers or memories; some memories serve one after the other."""
        flows, one_at_a_time = self.streams(task, groups)
        label, times = self.graph.label(task), self.times(task)
        ended = partial(self.groups_ended, task, groups, (self.network.now, trigger))
        if not one_at_a_time:
            self.network.send(Sending(flows, len(groups), ended, repeat=times, label=label))
            return
        left = [sum(flow.activity == one for flow in flows) for one in range(len(groups))]
        memories = np.flatnonzero(self.network.fabric.kinds == NodeKind.MEMORY).tolist()
        for flow in flows:
            [memory] = [node for node in (*flow.sources, *flow.destinations) if node in memories]
            group, flow.activity = flow.activity, 0

            def served(_: list[int], memory: int = memory, group: int = group) -> None:
                if self.memories[memory]:
                    self.network.send(self.memories[memory].popleft())
                else:
                    del self.memories[memory]
                left[group] -= 1
                if not left[group]:
                    ended([group])

            sending = Sending([flow], 1, served, repeat=times, label=label)
            if memory in self.memories:
                self.memories[memory].append(sending)
            else:
                self.memories[memory] = deque()
                self.network.send(sending)

    def streams(self, task: int, groups: list[int]) -> tuple[list[Flow], bool]:
        """Return the flows of loads and stores in groups, and whether their memories serve one after the other."""
        graph, fabric = self.graph, self.network.fabric
        load, one_at_a_time = self.kinds[task] is TaskKind.LOAD, False
        found: list[tuple[int, list[int], float, int]] = []  # the end, members, bytes and group of each
        for number, group in enumerate(groups):
            nodes = [self.nodes[rank] for rank in self.groups[task][group]]
            if graph.memories[task] < 0:
                controller = graph.controller_tables[graph.controllers[task]][group]
                found.append((int(fabric.controllers[controller]), nodes, float(graph.bytes[task]), number))
                continue
            memories = fabric.memories
            assert memories is not None
            name = graph.memory_names[graph.memories[task]]
            serving, one_at_a_time = memories.serving(name), memories.tier(name).one_at_a_time
            used = [serving[self.npus[rank]].tolist() for rank in self.groups[task][group]]
            for memory in sorted({one for mine in used for one in mine}):
                served = [node for node, mine in zip(nodes, used, strict=True) if memory in mine]
                found.append((memory, served, float(graph.bytes[task]) / serving.shape[1], number))
        flows = []
        for end, members, size, number in found:
            ends = [(end,), tuple(members)]
            whole = Flow(ends[not load], ends[load], size, number)
            whole.tree = Operation.MULTICAST if load else Operation.REDUCE
            try:
                self.network.routed(whole, fabric.defaults.router)
                flows.append(whole)
            except UnsupportedError:  # where switches cannot copy or reduce
                alone = [((end,), (one,)) for one in members]
                flows += [Flow(pair[not load], pair[load], size, number) for pair in alone]
        return flows, one_at_a_time


def simulate(
    graph: TaskGraph,
    fabric: Fabric,
    algorithms: Algorithms,
    *,
    placement: Sequence[int] | None = None,
    priorities: Sequence[str] = (),
    fidelity: str = "stepwise",
    changes: Sequence[Change] = (),
    seed: int | None = None,
) -> list[Span] | None:
    """Return the spans of a task graph, in the order of their ends; ``None`` where some tasks never end.

    Algorithms are by pattern, ``None`` for others; the first that can serve a request does. The highest class of labels
    is first. Changes are when which links get other bandwidths. With a seed volumes, latencies and durations change
    by shares of at most 1e-12, equal ones alike where it is even.
    """
    if changes and fidelity == COMPRESSED:
        raise UnknownError("compressed repetitions while links change")
    graph = graph if fidelity == COMPRESSED else graph.expanded()
    classes = {label: place for place, label in enumerate(priorities)}
    classes = {label: classes.get(label, len(classes)) for label in graph.label_names}
    network = Network(fabric, fabric.defaults.sharing or MaxMin(), classes, seed)
    places = range(graph.ranks) if placement is None else placement
    tasks = Tasks(graph, network, list(places), algorithms, fidelity)
    for task in range(len(graph)):
        tasks.note_ready(task, -1)
    for time, bandwidths in sorted(changes, key=lambda change: change[0]):
        network.advance(time)
        network.change(bandwidths)
    network.advance()
    over = all(len(done) == len(ranks) for done, ranks in zip(tasks.done, tasks.ranks, strict=True))
    return tasks.spans if over else None
