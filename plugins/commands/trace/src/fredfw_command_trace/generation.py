"""Makes an iteration of any number of ranks from the statistics of a twin.

More ranks are copies of the fitted ones: rank ``r`` does what rank ``r mod R`` of ``R`` did. Groups are copied, too;
two kinds get the members of all copies: groups of all ranks, and of the others those that reach furthest, which
are the outermost dimension (usually that of data parallelism). Ranks beyond a number that is no multiple are cut off.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from fredfw import Pattern, TaskGraph, TaskKind, limits
from fredfw.errors import InputError
from fredfw.typing import FloatArray
from fredfw_command_trace.fitting import CONTEXT, NOTHING, Dependencies, EventClass, Part, Statistics

_PATTERNS = tuple(Pattern)
_COLUMNS = "rank", "label", "kind", "pattern", "communicator", "root", "peer"


def generate(statistics: Statistics, ranks: int, seed: int = 0) -> TaskGraph:
    """Return an iteration of so many ranks, the same for the same ``seed``; ``InputError`` where they are too many."""
    limits.check("nodes", ranks, key="ranks")
    steps = sum(len(statistics.classes[one].parts) for one in statistics.sequence)
    limits.check("tasks", steps * -(-ranks // statistics.ranks), key="ranks")
    random = np.random.default_rng(seed)
    sequence = shuffled(statistics.sequence, CONTEXT, random)  # before pools draw, too
    return _Generation(statistics, ranks, random).graph(sequence)


class _Generation:
    def __init__(self, statistics: Statistics, ranks: int, random: Generator) -> None:
        self._statistics, self._ranks, self._random = statistics, ranks, random
        self._fitted: defaultdict[int, list[int]] = defaultdict(list)  # by role: the ranks that had it
        self._members: defaultdict[int, list[int]] = defaultdict(list)  # by role: the ranks that have it
        for rank, role in enumerate(statistics.roles):
            self._fitted[role].append(rank)
        for rank in range(ranks):
            self._members[statistics.roles[rank % statistics.ranks]].append(rank)
        self._growing = _growing(statistics)
        self._pools = {part: _Pool(part.dependencies, random) for cls in statistics.classes for part in cls.parts}
        self._rows: list[tuple[int, ...]] = []  # whole numbers of each node, as in _COLUMNS
        self._values: list[tuple[float, float, float]] = []
        self._before: list[list[int]] = []
        self._communicators: dict[tuple[int, int], int] = {}
        self._tables: list[list[int]] = []
        self._nodes: defaultdict[int, list[int]] = defaultdict(list)  # by role: the first node of each step
        # By role: the class of each step.
        self._history: defaultdict[int, list[int]] = defaultdict(lambda: [NOTHING] * CONTEXT)
        self._past: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # by role and class: its steps
        self._messages: Counter[tuple[int, int]] = Counter()  # sent and not received
        self._pairs: dict[Part, list[tuple[int, int]]] = {}

    def graph(self, sequence: Sequence[int]) -> TaskGraph:
        classes = self._statistics.classes
        counts = np.bincount(sequence, minlength=len(classes)).tolist()
        values = [self._drawn(one, count).tolist() for one, count in zip(classes, counts, strict=True)]
        held: list[int] = []  # receives, until what they receive has been sent
        for number in sequence:
            waiting, held = [number, *held], []
            for one in waiting:
                if self._may_run(classes[one]):
                    self._add(one, values[one].pop())
                else:
                    held.append(one)
        if held:
            raise InputError("receives of messages that nobody sends", accepted="traces of all ranks")
        rows = np.array(self._rows, dtype=np.intp).reshape(-1, len(_COLUMNS))
        columns: dict[str, Any] = dict(zip(_COLUMNS, rows.T, strict=True))
        return TaskGraph.from_columns(
            self._ranks,
            **columns,
            seconds=[one for one, _, _ in self._values],
            flops=[one for _, one, _ in self._values],
            bytes=[one for _, _, one in self._values],
            dependency_offsets=np.cumsum([0, *map(len, self._before)]),
            dependencies=np.array([one for before in self._before for one in before], dtype=np.intp),
            label_names=[f"label {number}" for number in range(self._statistics.labels)],
            communicators=self._tables,
        )

    def _drawn(self, cls: EventClass, count: int) -> FloatArray:
        """Return ``(count, 3)`` values in a random order: one of each part of the distribution, with the same mean."""
        known = cls.quantiles
        places = (np.arange(count) + self._random.random(count)) / max(count, 1) * (len(known) - 1)
        rows = np.column_stack([np.interp(places, np.arange(len(known)), column) for column in known.T])
        sums = rows.sum(axis=0)
        scale = np.divide(cls.means * count, sums, out=np.ones(3), where=sums > 0)
        drawn: FloatArray = self._random.permutation(rows * scale)
        return drawn

    def _may_run(self, cls: EventClass) -> bool:
        return all(
            self._messages[peer, rank] > 0
            for part in cls.parts
            if part.kind is TaskKind.RECEIVE
            for rank, peer in self._messages_of(part)
        )

    def _copies(self, part: Part, values: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Yield each rank of ``part``, the copy that it is in, and which of ``values`` the rank has that it copies."""
        known = dict(zip(self._fitted[part.role], values, strict=True))
        for rank in self._members[part.role]:
            copy, original = divmod(rank, self._statistics.ranks)
            yield rank, copy, known[original]

    def _messages_of(self, part: Part) -> list[tuple[int, int]]:
        """Return each rank of ``part`` with the other rank of its message, where both are there."""
        if part not in self._pairs:
            copies = self._copies(part, part.peers) if part.peers else ()
            peers = ((rank, copy * self._statistics.ranks + peer) for rank, copy, peer in copies)
            self._pairs[part] = [(rank, peer) for rank, peer in peers if peer < self._ranks]
        return self._pairs[part]

    def _add(self, number: int, values: list[float]) -> None:
        cls = self._statistics.classes[number]
        for part in cls.parts:
            members, kind = self._members[part.role], part.kind
            steps = self._nodes[part.role]
            found = self._found(part)
            first = len(self._values)
            peers, groups = dict(self._messages_of(part)), self._groups_of(part)
            noise = np.exp(self._random.normal(0, cls.spread, len(members)) - cls.spread**2 / 2).tolist()
            for position, rank in enumerate(members):
                group, peer = groups.get(rank, -1), peers.get(rank, -1)
                row: tuple[TaskKind, int, int, int, int]
                if kind is TaskKind.COLLECTIVE and len(self._tables[group]) > 1 and part.pattern is not None:
                    root = self._tables[group][part.root % len(self._tables[group])] if part.pattern.rooted else -1
                    row = kind, _PATTERNS.index(part.pattern), group, root, -1
                elif kind in (TaskKind.SEND, TaskKind.RECEIVE) and peer >= 0:
                    row = kind, -1, -1, -1, peer
                else:
                    # That is also what is left of groups and messages that ranks beyond had a part in.
                    row = TaskKind.COMPUTE, -1, -1, -1, -1
                self._rows.append((rank, cls.label, *row))
                self._values.append(_values(row[0], kind, values, noise[position]))
                self._before.append([steps[one] + position for one in found])
            for rank, peer in peers.items():
                pair, change = ((rank, peer), 1) if kind is TaskKind.SEND else ((peer, rank), -1)
                self._messages[pair] += change
            self._past[part.role, number].append(len(steps))
            self._history[part.role].append(number)
            steps.append(first)

    def _found(self, part: Part) -> list[int]:
        """Return the steps of the role of ``part`` that it depends on, as was seen after the same events."""
        wanted = self._pools[part].taken(tuple(self._history[part.role][-CONTEXT:]))
        pasts = ((self._past[part.role, number], between) for number, between in wanted)
        found = {past[-1 - between] for past, between in pasts if between < len(past)}
        if wanted and not found and self._nodes[part.role]:
            found = {len(self._nodes[part.role]) - 1}
        return sorted(found)

    def _groups_of(self, part: Part) -> dict[int, int]:
        fitted, found = self._statistics.ranks, {}
        for rank, copy, group in self._copies(part, part.groups) if part.groups else ():
            grows = group in self._growing
            key = group, -1 if grows else copy
            if key not in self._communicators:
                copies = range(-(-self._ranks // fitted)) if grows else [copy]
                table = [one + each * fitted for each in copies for one in self._statistics.groups[group]]
                self._communicators[key] = len(self._tables)
                self._tables.append([one for one in table if one < self._ranks])
            found[rank] = self._communicators[key]
        return found


class _Pool:
    """What events of one class depended on; each is taken once."""

    def __init__(self, seen: Sequence[tuple[tuple[int, ...], Dependencies]], random: Generator) -> None:
        self._seen = [one for _, one in seen]
        self._by_context: dict[tuple[int, ...], list[int]] = {}  # places in a random order, by each end of a context
        self._used: set[int] = set()
        for place in random.permutation(len(seen)).tolist():
            context = seen[place][0]
            for start in range(len(context) + 1):
                self._by_context.setdefault(context[start:], []).append(place)

    def taken(self, context: tuple[int, ...]) -> Dependencies:
        """Take what was seen after ``context``, or after as much of its end as was seen."""
        while True:
            places = self._by_context.get(context, [])
            while places and places[-1] in self._used:
                places.pop()
            if places or not context:
                break
            context = context[1:]
        self._used.add(places[-1])
        return self._seen[places[-1]]


def _values(kind: TaskKind, meant: TaskKind, values: Sequence[float], noise: float) -> tuple[float, float, float]:
    seconds, flops, size = values
    if kind is TaskKind.COMPUTE:
        return (seconds * noise, flops, size) if meant is TaskKind.COMPUTE else (0.0, 0.0, 0.0)
    # A receive takes what is sent.
    return np.nan, 0.0, 0.0 if kind is TaskKind.RECEIVE else float(round(size))


def _growing(statistics: Statistics) -> set[int]:
    reach = [max(one) - min(one) if 1 < len(one) < statistics.ranks else 0 for one in statistics.groups]
    most = max(reach, default=0)
    return {
        number
        for number, (one, far) in enumerate(zip(statistics.groups, reach, strict=True))
        if len(one) == statistics.ranks or (far and far == most)
    }


def shuffled(sequence: Sequence[int], context: int, random: Generator) -> list[int]:
    """Return a random sequence with the same runs of ``context + 1`` elements as ``sequence``, each as often.

    It is an Eulerian path through the contexts of its elements, drawn by a random tree of last steps (Kandel, Matias,
    Unger, Winkler 1996, "Shuffling biological sequences"; the tree by Wilson's walks).
    """
    if len(sequence) <= context + 1:
        return list(sequence)
    states = [tuple(sequence[place : place + context]) for place in range(len(sequence) - context + 1)]
    following: dict[tuple[int, ...], list[int]] = {}
    for state, element in zip(states, sequence[context:], strict=False):
        following.setdefault(state, []).append(element)
    last = _last_steps(following, states[-1], random)
    for state, elements in following.items():
        if state in last:
            elements.remove(last[state])
        elements[:] = [elements[one] for one in random.permutation(len(elements))]
        if state in last:
            elements.insert(0, last[state])  # taken from the end, so this one is the last
    state, result = states[0], list(states[0])
    while following.get(state):
        element = following[state].pop()
        result.append(element)
        state = (*state, element)[1:]
    return result


def _last_steps(
    following: dict[tuple[int, ...], list[int]], end: tuple[int, ...], random: Generator
) -> dict[tuple[int, ...], int]:
    """Return for each state but ``end`` a random step, such that all of them together lead to ``end``."""
    last: dict[tuple[int, ...], int] = {}
    settled = {end}
    for start in following:
        state = start
        while state not in settled:
            last[state] = following[state][int(random.integers(len(following[state])))]
            state = (*state, last[state])[1:]
        state = start
        while state not in settled:
            settled.add(state)
            state = (*state, last[state])[1:]
    return last
