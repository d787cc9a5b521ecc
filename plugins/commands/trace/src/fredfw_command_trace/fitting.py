"""The statistics that a twin is made from, fitted to an iteration.

Ranks that do the same steps have one role, and a step of a role is one event; a collective that several roles take part
in is one event of all of them. Events are put in an order in which each role goes on for as long as it can.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from attrs import frozen

from fredfw import Pattern, TaskGraph, TaskKind
from fredfw.errors import InputError, UnsupportedError
from fredfw.typing import FloatArray

_T = TypeVar("_T")
_KINDS = TaskKind.COMPUTE, TaskKind.COLLECTIVE, TaskKind.SEND, TaskKind.RECEIVE
_FACTOR = 2.0  # sizes, FLOPs and times of a class lie within this factor
# At most so many quantiles are kept of a class.
_QUANTILES = 32
CONTEXT = 8  # what comes next, and what it depends on, depends on so many events before
NOTHING = -1  # stands for the class of an event before the first one
Dependencies: TypeAlias = tuple[tuple[int, int], ...]


@frozen(eq=False)
class Part:
    """What the ranks of one role have to do with an event."""

    role: int  # their role
    kind: TaskKind  # what they do
    pattern: Pattern | None  # of a collective
    groups: tuple[int, ...]  # number of the group of each rank of the role; empty but for collectives
    root: int  # position of the root in the group
    peers: tuple[int, ...]  # the other rank of a send or receive of each rank of the role; empty for others
    # for each event the classes of the ``CONTEXT`` events of the role right before, ``NOTHING`` before the first
    # one, and what it depends on: classes of events, and how many such ones of the role lie between
    dependencies: Sequence[tuple[tuple[int, ...], Dependencies]]


@frozen(eq=False)
class EventClass:
    """Events that are alike: same kind, roles and groups, and values within a factor of two."""

    parts: tuple[Part, ...]  # one for each role that takes part
    label: int  # number of its label
    quantiles: FloatArray  # ``(Q, 3)`` seconds, FLOPs and bytes at evenly spaced quantiles
    means: FloatArray  # ``(3,)`` of the same
    spread: float  # standard deviation of the logarithm of a computation's time among the ranks of a role


@frozen(eq=False)
class Statistics:
    """What is kept of an iteration."""

    ranks: int  # number of its ranks
    roles: tuple[int, ...]  # role of each rank; the ranks of a role do alike things at the same time
    groups: tuple[tuple[int, ...], ...]  # ranks of each group, in its order
    classes: tuple[EventClass, ...]  # classes of events
    sequence: tuple[int, ...]  # class of each event in turn; only how often what follows what is used of it
    labels: int  # number of labels


class Step(NamedTuple):
    """What one rank has to do with one task."""

    task: int  # its number in the graph
    kind: TaskKind  # what it does
    pattern: Pattern | None  # of a collective
    label: str  # what time is charged to
    values: tuple[float, float, float]  # seconds (NaN where they follow from the others), FLOPs, and bytes
    members: tuple[int, ...]  # the group of a collective, in its order; empty for others
    root: int  # position of the root among them
    peer: int  # the other rank of a send or receive, else -1
    partner: int  # the task that sends what a receive gets, else -1
    before: tuple[int, ...]  # places of the steps of the rank that come directly before it


def programs(graph: TaskGraph) -> list[list[Step]]:
    """Return the steps of each rank of ``graph``, in the same order for ranks that do the same."""
    graph = graph.expanded()
    steps: list[list[Step]] = [[] for _ in range(graph.ranks)]
    places: dict[int, dict[int, int]] = {}  # of each task: the place of its step by rank
    partners, roots = graph.partners.tolist(), graph.roots.tolist()
    labels = [graph.label_names[one] for one in graph.labels.tolist()]
    peers = [int(graph.tables[graph.members[one]].ravel()[0]) if one >= 0 else -1 for one in partners]
    for task in _order(graph):
        kind = TaskKind(int(graph.kinds[task]))
        if kind not in _KINDS:
            message = f"task {graph.names[task]!r} is a {kind.name.lower()}"
            accepted = "computations, collectives, sends and receives, as traces have them"
            raise UnsupportedError(message, accepted=accepted)
        collective = kind is TaskKind.COLLECTIVE
        table = graph.tables[graph.members[task]]
        before: dict[int, list[int]] = {}
        for one in graph.after(task).tolist():
            for rank, place in places[one].items():
                before.setdefault(rank, []).append(place)
        values = float(graph.seconds[task]), float(graph.flops[task]), float(graph.bytes[task])
        pattern = graph.patterns[task] if collective else None
        sent = partners[task] if kind is TaskKind.RECEIVE else -1
        here = {}
        for row in (table if collective else table.reshape(-1, 1)).tolist():
            members = tuple(row) if collective else ()
            for rank in row:
                here[rank] = len(steps[rank])
                inner = tuple(sorted(before.get(rank, ())))
                step = Step(task, kind, pattern, labels[task], values, members, roots[task], peers[task], sent, inner)
                steps[rank].append(step)
        places[task] = here
    return steps


def _order(graph: TaskGraph) -> list[int]:
    """Return the tasks as ranks run them that do one computation at a time, each of which takes as long.

    A rank goes on with what became ready last, so what depends on each other comes in a row. Communication takes no
    time. What became ready at the same time is ordered by what it does, and only then by its number.
    """
    columns = (column.tolist() for column in (graph.labels, graph.flops, graph.bytes))
    alike = list(zip(graph.kinds.tolist(), map(str, graph.patterns), *columns, range(len(graph)), strict=True))
    missing = np.diff(graph.dependency_offsets).tolist()
    dependents: list[list[int]] = [[] for _ in missing]
    for task, partner in enumerate(graph.partners.tolist()):
        for one in graph.after(task).tolist():
            dependents[one].append(task)
        if 0 <= partner < task:  # it receives what an earlier task sends
            dependents[partner].append(task)
            missing[task] += 1
    found: list[int] = []
    tick = 0
    computing: dict[int, list[tuple[int, Any]]] = {}  # by rank: what is ready, the latest first
    communicating: list[Any] = []

    def became_ready(task: int) -> None:
        table = graph.tables[graph.members[task]]
        if graph.kinds[task] == TaskKind.COMPUTE and table.size == 1:
            heappush(computing.setdefault(int(table[0]), []), (-tick, alike[task]))
        else:
            heappush(communicating, alike[task])

    def run(task: int) -> None:
        found.append(task)
        for one in dependents[task]:
            missing[one] -= 1
            if not missing[one]:
                became_ready(one)

    for task, left in enumerate(list(missing)):
        if not left:
            became_ready(task)
    while len(found) < len(graph):
        tick += 1
        while communicating:
            run(heappop(communicating)[-1])
        for task in [heappop(computing[rank])[1][-1] for rank in sorted(computing) if computing[rank]]:
            run(task)
    return found


def fit(graph: TaskGraph) -> Statistics:
    """Return the statistics of ``graph``, which has computations and communication alone."""
    steps = programs(graph)
    if not any(steps):
        raise InputError("the traces have no nodes", accepted="traces with computations or communication")
    roles = _roles(steps)
    order = _in_order(steps, roles)
    if order is None:  # the ranks of some role are not in step
        roles = list(range(len(steps)))
        order = _in_order(steps, roles)
        assert order is not None  # the order of tasks is one
    return _fitted(steps, roles, order)


Event = tuple[tuple[int, int], ...]  # roles that take part, each with the place of its step


def _roles(steps: Sequence[Sequence[Step]]) -> list[int]:
    """Return the role of each rank: the same for those that do the same with ranks of the same roles."""
    colours = _numbered([tuple(_looks(step) for step in own) for own in steps])
    while True:
        met = {_company(step) for own in steps for step in own}
        company = {ranks: tuple(sorted({colours[one] for one in ranks})) for ranks in met}
        finer = _numbered([(colours[one], *(company[_company(step)] for step in own)) for one, own in enumerate(steps)])
        if max(finer) == max(colours):
            return finer
        colours = finer


def _company(step: Step) -> tuple[int, ...]:
    return step.members or ((step.peer,) if step.peer >= 0 else ())


def _looks(step: Step) -> tuple[object, ...]:
    """Return what a step has in common with those of other ranks that do the same, but for the time that it takes."""
    # A receive takes what is sent.
    sizes = () if step.kind is TaskKind.RECEIVE else tuple(map(_bin, step.values[1:]))
    return step.kind, step.pattern, step.label, len(step.members), step.root, sizes


def _bin(value: float) -> int:
    return round(math.log(value, _FACTOR)) if value > 0 else -1000


def _number(known: dict[_T, int], key: _T) -> int:
    return known.setdefault(key, len(known))


def _numbered(keys: Sequence[object]) -> list[int]:
    known: dict[object, int] = {}
    return [_number(known, key) for key in keys]


def _in_order(steps: Sequence[Sequence[Step]], roles: Sequence[int]) -> list[Event] | None:
    """Return the events, each behind those before it on its roles and what it receives; ``None`` if that cannot be."""
    of: dict[tuple[int, int], Event] = {}
    tasks: dict[int, set[tuple[int, int]]] = {}
    sent: dict[tuple[int, int], set[int]] = {}  # tasks whose messages a step receives
    for role, own in zip(roles, steps, strict=True):
        for place, step in enumerate(own):
            tasks.setdefault(step.task, set()).add((role, place))
            if step.partner >= 0:
                sent.setdefault((role, place), set()).add(step.partner)
    for joined in tasks.values():
        event = tuple(sorted({one for part in joined for one in of.get(part, (part,))} | joined))
        if len({role for role, _ in event}) < len(event):
            return None
        of.update(dict.fromkeys(event, event))
    length = {role: len(own) for role, own in zip(roles, steps, strict=True)}
    at = dict.fromkeys(length, 0)
    needs = {part: {of[one] for task in these for one in tasks[task]} for part, these in sent.items()}
    done: set[Event] = set()
    order: list[Event] = []

    def ready(role: int) -> bool:
        if at[role] == length[role]:
            return False
        return all(at[one] == place and needs.get((one, place), done) <= done for one, place in of[role, at[role]])

    current, events = 0, len(set(of.values()))
    while len(order) < events:
        if not ready(current):
            current = next((role for role in at if ready(role)), -1)
            if current < 0:
                return None
        event = of[current, at[current]]
        order.append(event)
        done.add(event)
        for role, _ in event:
            at[role] += 1
    return order


def _fitted(steps: Sequence[Sequence[Step]], roles: Sequence[int], order: Sequence[Event]) -> Statistics:
    ranks: defaultdict[int, list[int]] = defaultdict(list)
    for rank, role in enumerate(roles):
        ranks[role].append(rank)
    own = {(role, place): [steps[rank][place] for rank in ranks[role]] for event in order for role, place in event}
    keys: dict[object, int] = {}
    sequence = [_number(keys, tuple((role, *_common(own[role, place])) for role, place in event)) for event in order]
    turn: dict[tuple[int, int], tuple[int, int]] = {}  # of a step: its class, and which of that class it is
    counts: Counter[tuple[int, int]] = Counter()
    past: defaultdict[int, list[int]] = defaultdict(lambda: [NOTHING] * CONTEXT)  # classes of the steps of a role
    seen: dict[int, list[Event]] = {}
    dependencies: list[list[list[tuple[tuple[int, ...], Dependencies]]]] = [[] for _ in keys]
    for number, event in zip(sequence, order, strict=True):
        seen.setdefault(number, []).append(event)
        listed = []
        for role, place in event:
            earlier = (turn[role, one] for one in own[role, place][0].before)
            found = sorted((cls, counts[role, cls] - which - 1) for cls, which in earlier)
            listed.append((tuple(past[role][-CONTEXT:]), tuple(found)))
        dependencies[number].append(listed)
        for role, place in event:
            past[role].append(number)
            turn[role, place] = number, counts[role, number]
            counts[role, number] += 1
    groups: dict[tuple[int, ...], int] = {}
    labels: dict[str, int] = {}
    classes = tuple(
        _class([[own[part] for part in event] for event in events], events[0], each, groups, labels)
        for events, each in zip(seen.values(), dependencies, strict=True)
    )
    return Statistics(len(steps), tuple(roles), tuple(groups), classes, tuple(sequence), len(labels))


def _class(
    events: Sequence[Sequence[Sequence[Step]]],
    one: Event,
    dependencies: Sequence[Sequence[tuple[tuple[int, ...], Dependencies]]],
    groups: dict[tuple[int, ...], int],
    labels: dict[str, int],
) -> EventClass:
    """Return the class of ``events``, the steps of the ranks of each role that takes part, of which ``one`` is one."""
    parts = []
    for (role, _), own, before in zip(one, events[0], zip(*dependencies, strict=True), strict=True):
        numbers = tuple(_number(groups, step.members) for step in own if step.members)
        peers = tuple(step.peer for step in own if step.peer >= 0)
        parts.append(Part(role, own[0].kind, own[0].pattern, numbers, own[0].root, peers, list(before)))
    values = np.array([[step.values for step in event[0]] for event in events])  # (events, ranks, 3)
    rows, label = values.mean(axis=1), _number(labels, events[0][0][0].label)
    return EventClass(tuple(parts), label, _quantiles(rows), rows.mean(axis=0), _spread(values[:, :, 0]))


def _common(own: Sequence[Step]) -> tuple[object, ...]:
    """Return what a step of a role has in common with others of its class."""
    seconds = _bin(fmean(one.values[0] for one in own))
    return _looks(own[0]), seconds, tuple(one.members for one in own), tuple(one.peer for one in own)


def _quantiles(rows: FloatArray) -> FloatArray:
    """Return ``rows`` at evenly spaced quantiles, in order of time or, without one, of FLOPs and bytes."""
    ordered = rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]
    places = np.linspace(0, len(rows) - 1, min(len(rows), _QUANTILES))
    return np.column_stack([np.interp(places, np.arange(len(rows)), column) for column in ordered.T])


def _spread(seconds: FloatArray) -> float:
    """Return how much ``(events, ranks)`` times differ between ranks."""
    if np.isnan(seconds).any() or not (seconds > 0).all():
        return 0.0
    logarithms = np.log(seconds)
    return float(np.sqrt(logarithms.var(axis=1, ddof=1).mean())) if logarithms.shape[1] > 1 else 0.0
