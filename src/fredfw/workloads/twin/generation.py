"""Makes an iteration of any number of ranks from the statistics of a twin.

More ranks are copies of the fitted ones: rank ``r`` does what rank ``r mod R`` of ``R`` did. Groups keep their size and
there are more of them, but two kinds that grow: groups of all ranks, and of the others those that reach furthest, which
are the outermost dimension (with the usual order of ranks that of data parallelism). They have the members of all
copies. With fewer ranks, or those that are no multiple, what is beyond is cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import define, field
from numpy.random import Generator

from fredfw import limits
from fredfw.collectives.pattern import Pattern
from fredfw.errors import InputError
from fredfw.typing import FloatArray
from fredfw.workloads.graph import TaskGraph
from fredfw.workloads.kinds import TaskKind
from fredfw.workloads.twin.shuffling import shuffled
from fredfw.workloads.twin.statistics import CONTEXT, NOTHING, Dependencies, EventClass, Part, Statistics

_PATTERNS = tuple(Pattern)
_COLUMNS = "rank", "label", "kind", "pattern", "communicator", "root", "peer"


def generate(statistics: Statistics, ranks: int, seed: int = 0) -> TaskGraph:
    """Return an iteration of ``ranks`` ranks; the same one for the same ``seed``.

    Raises:
        InputError: There is not at least one rank, or there are more tasks than the limit.
    """
    if ranks < 1:
        raise InputError(f"{ranks} ranks", key="ranks", accepted="at least 1")
    limits.check("nodes", ranks, key="ranks")
    steps = sum(len(statistics.classes[one].parts) for one in statistics.sequence)
    limits.check("tasks", steps * -(-ranks // statistics.ranks), key="ranks")
    random = np.random.default_rng(seed)
    sequence = shuffled(statistics.sequence, CONTEXT, random)
    return _Generation(statistics, ranks, random).graph(sequence)


@define
class _Generation:
    statistics: Statistics
    ranks: int
    random: Generator
    _members: dict[int, list[int]] = field(factory=dict, init=False)  # ranks by role
    _rows: list[tuple[int, ...]] = field(factory=list, init=False)  # whole numbers of each node, as in _COLUMNS
    _values: list[tuple[float, float, float]] = field(factory=list, init=False)
    _before: list[list[int]] = field(factory=list, init=False)
    _communicators: dict[tuple[int, int], int] = field(factory=dict, init=False)
    _tables: list[list[int]] = field(factory=list, init=False)
    _growing: set[int] = field(init=False)
    _nodes: dict[int, list[int]] = field(factory=dict, init=False)  # by role: the first node of each step
    _pools: dict[Part, _Pool] = field(init=False)
    _history: dict[int, list[int]] = field(factory=dict, init=False)  # by role: the class of each step
    _past: dict[tuple[int, int], list[int]] = field(factory=dict, init=False)  # by role and class: its steps
    _messages: dict[tuple[int, int], int] = field(factory=dict, init=False)  # sent and not received
    _pairs: dict[Part, list[tuple[int, int]]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._growing = _growing(self.statistics)
        self._pools = {
            part: _Pool.of(part.dependencies, self.random) for cls in self.statistics.classes for part in cls.parts
        }
        for rank in range(self.ranks):
            self._members.setdefault(self.statistics.roles[rank % self.statistics.ranks], []).append(rank)

    def graph(self, sequence: Sequence[int]) -> TaskGraph:
        """Return the iteration of events of these classes."""
        classes = self.statistics.classes
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
            self.ranks,
            **columns,
            seconds=[one for one, _, _ in self._values],
            flops=[one for _, one, _ in self._values],
            bytes=[one for _, _, one in self._values],
            dependency_offsets=np.cumsum([0, *map(len, self._before)]),
            dependencies=np.array([one for before in self._before for one in before], dtype=np.intp),
            label_names=[f"label {number}" for number in range(self.statistics.labels)],
            communicators=self._tables,
        )

    def _drawn(self, cls: EventClass, count: int) -> FloatArray:
        """Return ``(count, 3)`` values in a random order: one of each part of the distribution, with the same mean."""
        known = cls.quantiles
        places = (np.arange(count) + self.random.random(count)) / max(count, 1) * (len(known) - 1)
        rows = np.column_stack([np.interp(places, np.arange(len(known)), column) for column in known.T])
        sums = rows.sum(axis=0)
        scale = np.divide(cls.means * count, sums, out=np.ones(3), where=sums > 0)
        drawn: FloatArray = self.random.permutation(rows * scale)
        return drawn

    def _may_run(self, cls: EventClass) -> bool:
        return all(
            self._messages.get((peer, rank), 0) > 0
            for part in cls.parts
            if part.kind is TaskKind.RECEIVE
            for rank, peer in self._messages_of(part)
        )

    def _messages_of(self, part: Part) -> list[tuple[int, int]]:
        """Return each rank of ``part`` with the other rank of its message, where both are there."""
        if part in self._pairs:
            return self._pairs[part]
        own = [rank for rank, role in enumerate(self.statistics.roles) if role == part.role]
        peers = dict(zip(own, part.peers, strict=True)) if part.peers else {}
        found = []
        for rank in self._members.get(part.role, ()) if peers else ():
            copy, original = divmod(rank, self.statistics.ranks)
            peer = copy * self.statistics.ranks + peers[original]
            if peer < self.ranks:
                found.append((rank, peer))
        self._pairs[part] = found
        return found

    def _add(self, number: int, values: list[float]) -> None:
        """Add the nodes of an event of class ``number``."""
        cls = self.statistics.classes[number]
        for part in cls.parts:
            members, kind = self._members.get(part.role, []), part.kind
            steps = self._nodes.setdefault(part.role, [])
            found = self._found(part)
            first = len(self._values)
            peers, groups = dict(self._messages_of(part)), self._groups_of(part)
            noise = np.exp(self.random.normal(0, cls.spread, len(members)) - cls.spread**2 / 2).tolist()
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
                self._messages[pair] = self._messages.get(pair, 0) + change
            self._past.setdefault((part.role, number), []).append(len(steps))
            self._history[part.role].append(number)
            steps.append(first)

    def _found(self, part: Part) -> list[int]:
        """Return the steps of the role of ``part`` that it depends on, as was seen after the same events."""
        wanted = self._pools[part].taken(tuple(self._history.setdefault(part.role, [NOTHING] * CONTEXT)[-CONTEXT:]))
        found = set()
        for number, between in wanted:
            past = self._past.get((part.role, number), ())
            if between < len(past):
                found.add(past[-1 - between])
        if wanted and not found and self._nodes[part.role]:
            found = {len(self._nodes[part.role]) - 1}
        return sorted(found)

    def _groups_of(self, part: Part) -> dict[int, int]:
        """Return the communicator of each rank of ``part``."""
        if not part.groups:
            return {}
        fitted = self.statistics.ranks
        own = [rank for rank, role in enumerate(self.statistics.roles) if role == part.role]
        groups = dict(zip(own, part.groups, strict=True))
        found = {}
        for rank in self._members.get(part.role, ()):
            copy, original = divmod(rank, fitted)
            group = groups[original]
            key = group, -1 if group in self._growing else copy
            if key not in self._communicators:
                copies = range(-(-self.ranks // fitted)) if group in self._growing else [copy]
                table = [one + each * fitted for each in copies for one in self.statistics.groups[group]]
                self._communicators[key] = len(self._tables)
                self._tables.append([one for one in table if one < self.ranks])
            found[rank] = self._communicators[key]
        return found


@define
class _Pool:
    """What events of one class depended on; each is taken once.

    Args:
        seen: Those.
        by_context: Their places by what came before, and by each end of it, in a random order.
        used: Those that are taken.
    """

    seen: Sequence[Dependencies]
    by_context: dict[tuple[int, ...], list[int]]
    used: set[int] = field(factory=set, init=False)

    @classmethod
    def of(cls, seen: Sequence[tuple[tuple[int, ...], Dependencies]], random: Generator) -> _Pool:
        by_context: dict[tuple[int, ...], list[int]] = {}
        for place in random.permutation(len(seen)).tolist():
            context = seen[place][0]
            for start in range(len(context) + 1):
                by_context.setdefault(context[start:], []).append(place)
        return cls([one for _, one in seen], by_context)

    def taken(self, context: tuple[int, ...]) -> Dependencies:
        """Take what was seen after ``context``, or after as much of its end as was seen."""
        while True:
            places = self.by_context.get(context, [])
            while places and places[-1] in self.used:
                places.pop()
            if places or not context:
                break
            context = context[1:]
        self.used.add(places[-1])
        return self.seen[places[-1]]


def _values(kind: TaskKind, meant: TaskKind, values: Sequence[float], noise: float) -> tuple[float, float, float]:
    seconds, flops, size = values
    if kind is TaskKind.COMPUTE:
        return (seconds * noise, flops, size) if meant is TaskKind.COMPUTE else (0.0, 0.0, 0.0)
    # A receive takes what is sent.
    return np.nan, 0.0, 0.0 if kind is TaskKind.RECEIVE else float(round(size))


def _growing(statistics: Statistics) -> set[int]:
    """Return the groups that have more members among more ranks."""
    reach = [max(one) - min(one) if 1 < len(one) < statistics.ranks else 0 for one in statistics.groups]
    most = max(reach, default=0)
    return {
        number
        for number, (one, far) in enumerate(zip(statistics.groups, reach, strict=True))
        if len(one) == statistics.ranks or (far and far == most)
    }
