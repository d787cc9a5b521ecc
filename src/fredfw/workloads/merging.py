"""Nodes of traces, one for each rank and operation, become the tasks of a graph.

A collective becomes one task of all its members, a send is matched with its receive, and then tasks are sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from heapq import heappop, heappush
from typing import Any

import numpy as np
from attrs import frozen

from fredfw import arrays
from fredfw.answers import brief
from fredfw.collectives.pattern import Pattern
from fredfw.errors import InputError
from fredfw.typing import AnyArray, BoolArray, FloatArray, IntArray
from fredfw.units import counted
from fredfw.workloads.kinds import ROW, TaskKind
from fredfw.workloads.labels import ACCEPTED, COMPUTE, EMPTY, RESERVED

PATTERNS = tuple(Pattern)
_MESSAGES = TaskKind.SEND, TaskKind.RECEIVE
_STREAMS = TaskKind.LOAD, TaskKind.STORE
_KINDS = TaskKind.COMPUTE, TaskKind.COLLECTIVE, *_MESSAGES, *_STREAMS
_LONG = 60  # characters of a name in an error; tracers put whole signatures there
# What is charged to where nodes have no labels.
_LABELS = COMPUTE, "communication"
_WHOLE = {
    **dict.fromkeys(("kind", "rank", "dependency_offsets", "dependencies", "label")),
    **dict.fromkeys(("pattern", "communicator", "root", "peer"), -1),
    **dict.fromkeys(("tag", "split_offsets", "memory"), 0),
}
_REAL = {"seconds": np.nan, "flops": 0.0, "bytes": 0.0, "splits": 0.0}
"""Columns of numbers, and what stands for those that are not given."""


@frozen(eq=False)
class Columns:
    """``N`` nodes of traces, checked one by one; see ``TaskGraph.from_columns``."""

    ranks: int
    rank: IntArray
    kind: IntArray
    dependency_offsets: IntArray
    dependencies: IntArray
    seconds: FloatArray
    flops: FloatArray
    bytes: FloatArray
    label: IntArray
    label_names: tuple[str, ...]
    pattern: IntArray
    communicator: IntArray
    communicators: tuple[IntArray, ...]
    root: IntArray
    peer: IntArray
    tag: IntArray
    split_offsets: IntArray
    splits: FloatArray
    memory: IntArray
    memory_names: tuple[str, ...]
    names: Sequence[str] | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Columns:
        groups, names = given["communicators"], given["names"]
        if isinstance(groups, str) or not isinstance(groups, Iterable):
            raise InputError(f"{brief(groups)} is refused", key="communicators", accepted="lists of ranks")
        if names is not None and not isinstance(names, Sized):
            raise InputError(f"{brief(names)} is refused", key="names", accepted="a list of texts")
        kinds = _numbers("kind", given["kind"])
        lengths = {"split_offsets": len(kinds) + 1, "splits": 0}
        filled = {**given}
        if given["label"] is None:
            filled |= {"label": kinds != TaskKind.COMPUTE, "label_names": given["label_names"] or _LABELS}
        found: dict[str, AnyArray] = {}
        for name, missing in (_WHOLE | _REAL).items():
            if filled[name] is None and missing is not None:
                found[name] = np.full(lengths.get(name, len(kinds)), missing)
            else:
                found[name] = _numbers(name, filled[name], real=name in _REAL)
        return cls(
            ranks=arrays.count("ranks", given["ranks"]),
            communicators=tuple(_numbers("communicators", one) for one in groups),
            label_names=_texts("label_names", filled["label_names"]),
            memory_names=_texts("memory_names", given["memory_names"]),
            names=given["names"],
            **found,
        )

    def __len__(self) -> int:
        return len(self.kind)

    def node(self, number: int | np.intp) -> str:
        name = "" if self.names is None else f" {_shortened(str(self.names[int(number)]))!r}"
        return f"node {number}{name} of rank {self.rank[number]}"

    def check(self) -> None:
        count, nodes = len(self), counted(len(self), "node")
        each = ("rank", "seconds", "flops", "bytes", "label", "pattern", "communicator", "root", "peer", "tag")
        for key in (*each, "memory", "names"):
            values: Sized | None = getattr(self, key)
            if values is not None and len(values) != count:
                raise InputError(f"{counted(len(values), 'value')} for {nodes}", key=key, accepted=str(count))
        for key, offsets, most in (
            ("dependency_offsets", self.dependency_offsets, len(self.dependencies)),
            ("split_offsets", self.split_offsets, len(self.splits)),
        ):
            grows = len(offsets) == count + 1 and offsets[0] == 0 and (np.diff(offsets) >= 0).all()
            if not grows or offsets[-1] != most:
                message = f"{counted(len(offsets), 'offset')} of {counted(most, 'value')} for {nodes}"
                accepted = f"{count + 1} numbers that grow from 0 to {most}, of which node i has those from i to i + 1"
                raise InputError(message, key=key, accepted=accepted)
        everybody = np.ones(count, dtype=bool)
        messages, collectives = np.isin(self.kind, _MESSAGES), self.kind == TaskKind.COLLECTIVE
        self._check_whole("rank", everybody, self.ranks)
        kinds = ", ".join(f"{one.value} ({one.name.lower()})" for one in _KINDS)
        refuse(~np.isin(self.kind, _KINDS), lambda node: f"{self.node(node)} has kind {self.kind[node]}", "kind", kinds)
        self._check_whole("label", everybody, len(self.label_names))
        self._check_labels()
        self._check_whole("pattern", collectives, len(PATTERNS))
        self._check_whole("communicator", collectives, len(self.communicators))
        self._check_whole("peer", messages, self.ranks)
        self._check_whole("memory", np.isin(self.kind, _STREAMS), len(self.memory_names))
        for key in ("seconds", "flops", "bytes"):
            self._check_amounts(key, getattr(self, key))
        if _impossible(self.splits).any():
            raise InputError("sizes that are no numbers of bytes", key="splits", accepted="finite and not negative")
        itself = messages & (self.peer == self.rank)
        refuse(itself, lambda node: f"{self.node(node)} is a message to itself", "peer", "another rank")
        before, after = self.dependencies, np.repeat(np.arange(count), np.diff(self.dependency_offsets))
        refuse(
            (before < 0) | (before >= count),
            lambda edge: f"{self.node(after[edge])} depends on node {before[edge]}, which does not exist",
            "dependencies",
            f"0 to {count - 1}",
        )
        refuse(
            self.rank[before] != self.rank[after],
            lambda edge: f"{self.node(after[edge])} depends on {self.node(before[edge])}",
            "dependencies",
            "nodes of the same rank; ranks wait for each other by messages and collectives",
        )

    def _check_labels(self) -> None:
        if "" in self.label_names:
            raise InputError(f"label {self.label_names.index('')} is empty", key="label_names", accepted=EMPTY)
        reserved = [number for number, name in enumerate(self.label_names) if name in RESERVED]
        refuse(
            np.isin(self.label, reserved) & (self.kind != TaskKind.COMPUTE),
            lambda node: f"{self.node(node)} communicates and has the label {self.label_names[self.label[node]]!r}",
            "label",
            ACCEPTED,
        )

    def _check_amounts(self, key: str, values: FloatArray) -> None:
        wrong = _impossible(values)
        if key == "seconds":
            wrong &= ~np.isnan(values)
        refuse(wrong, lambda node: f"{self.node(node)} has {key} {values[node]}", key, "finite and not negative")

    def _check_whole(self, key: str, nodes: BoolArray, limit: int) -> None:
        values: IntArray = getattr(self, key)
        wrong = nodes & ((values < 0) | (values >= limit))
        accepted = f"0 to {limit - 1}" if limit else "nothing, since there are none"
        refuse(wrong, lambda node: f"node {node} has {key} {values[node]}", key, accepted)


def refuse(wrong: BoolArray, what: Callable[[int], str], key: str, accepted: str) -> None:
    if wrong.any():
        raise InputError(what(int(wrong.argmax())), key=key, accepted=accepted)


def _impossible(amounts: FloatArray) -> BoolArray:
    return ~(np.isfinite(amounts) & (amounts >= 0))


def _shortened(name: str) -> str:
    return name if len(name) <= _LONG else f"{name[: _LONG - 3]}..."


def _numbers(key: str, values: object, *, real: bool = False) -> AnyArray:
    array: AnyArray | None = arrays.real(values) if real else arrays.whole(values)
    if array is None or array.ndim != 1:
        accepted = "an array of numbers" if real else "an array of whole numbers"
        raise InputError(f"{brief(values)} is refused", key=key, accepted=accepted)
    return array


def _texts(key: str, values: object) -> tuple[str, ...]:
    texts = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (None,)
    if not all(isinstance(one, str) for one in texts):
        raise InputError(f"{brief(values)} is refused", key=key, accepted="a list of texts")
    return texts


_COLLECTIVE, _SEND, _RECEIVE = int(TaskKind.COLLECTIVE), int(TaskKind.SEND), int(TaskKind.RECEIVE)
_ALL_TO_ALL, _POINT_TO_POINT = PATTERNS.index(Pattern.ALL_TO_ALL), PATTERNS.index(Pattern.POINT_TO_POINT)
# What an error lists at most.
_LISTED = 10


class Names(Sequence[str]):
    """Names of tasks, each of which is a node of a trace; made when they are asked for where the nodes have none."""

    def __init__(self, nodes: IntArray, names: Sequence[str] | None, kinds: IntArray) -> None:
        self._nodes = nodes  # (T,) the first of each task
        self._names = names  # those of the nodes
        self._kinds = kinds  # (T,) values of TaskKind

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, task: Any) -> Any:
        if isinstance(task, slice):
            return [self[one] for one in range(*task.indices(len(self)))]
        node = int(self._nodes[task])
        if self._names is None:
            return f"{TaskKind(int(self._kinds[task])).name.lower()} {node}"
        return str(self._names[node])


class Merged:
    """The tasks that nodes become, numbered like the first node of each."""

    def __init__(self, columns: Columns) -> None:
        count = len(columns)
        self.columns = columns  # the nodes
        self.leaders = np.arange(count)  # (N,) first node of the task that each node is part of
        self.partners = np.full(count, -1)  # (N,) for sends and receives the node at the other end
        self.roots = np.zeros(count, dtype=np.intp)  # (N,) for collectives position of the root in the communicator
        self.positions = np.zeros(count, dtype=np.intp)  # (N,) for collectives that of the rank

    def merge_collectives(self) -> None:
        """Find the nodes of each collective: the k-th of each member of a communicator is the same one."""
        one = self.columns
        nodes = np.flatnonzero(one.kind == _COLLECTIVE)
        if not len(nodes):
            return
        sizes = np.array([len(members) for members in one.communicators])
        communicator, rank, pattern = one.communicator[nodes], one.rank[nodes], one.pattern[nodes]
        self.positions[nodes] = self._places(nodes, rank, "rank")
        rooted = np.array([pattern.rooted for pattern in PATTERNS])[pattern]
        given = nodes[rooted & (one.root[nodes] >= 0)]
        self.roots[given] = self._places(given, one.root[given], "root")
        # Which of the collectives of its rank on the communicator each is.
        order = np.lexsort((rank, communicator))
        begins = arrays.starts(communicator[order], rank[order])
        turn = np.empty(len(nodes), dtype=np.intp)
        turn[order] = np.arange(len(nodes)) - np.repeat(begins, np.diff(begins, append=len(nodes)))
        order = np.lexsort((turn, communicator))
        first = arrays.starts(communicator[order], turn[order])
        counts = np.diff(first, append=len(nodes))
        short = counts != sizes[communicator[order][first]]
        if short.any():
            calling = np.split(nodes[order], first[1:])[short.argmax()]
            raise self._incomplete(calling, int(turn[order][first[short.argmax()]]))
        self.leaders[nodes[order]] = np.repeat(np.minimum.reduceat(nodes[order], first), counts)
        for key, values in (("pattern", one.pattern), ("bytes", one.bytes), ("root", self.roots)):
            differs = values[nodes] != values[self.leaders[nodes]]
            if differs.any():
                node = int(nodes[differs.argmax()])
                leader = int(self.leaders[node])
                own = f"{self._collective(node)} has {key} {self._shown(key, node)}"
                other = f"{self._collective(leader)} has {self._shown(key, leader)}"
                same = f"they are the same collective of communicator {one.communicator[node]}"
                raise InputError(f"{own}, and {other}: {same}", key=key, accepted="the same for all members")

    def _shown(self, key: str, node: int) -> str:
        one = self.columns
        if key == "pattern":
            return str(PATTERNS[one.pattern[node]])
        if key == "bytes":
            return f"{one.bytes[node]:.15g}"
        return str(one.communicators[one.communicator[node]][self.roots[node]])

    def _places(self, nodes: IntArray, ranks: IntArray, key: str) -> IntArray:
        one = self.columns
        keys = []
        for number, members in enumerate(one.communicators):
            wrong = members[(members < 0) | (members >= one.ranks)]
            if wrong.size or not members.size:
                what = f"communicator {number} has rank {wrong[0]}" if wrong.size else f"communicator {number} is empty"
                raise InputError(what, key="communicators", accepted=f"ranks 0 to {one.ranks - 1}")
            keys.append(number * one.ranks + members)
        every = np.concatenate(keys)
        order = np.argsort(every, kind="stable")
        twice = np.flatnonzero(np.diff(every[order]) == 0)
        if twice.size:
            number, rank = divmod(int(every[order][twice[0]]), one.ranks)
            what = f"communicator {number} has rank {rank} twice"
            raise InputError(what, key="communicators", accepted="each rank once")
        asked = one.communicator[nodes] * one.ranks + ranks
        place = np.minimum(np.searchsorted(every[order], asked), len(every) - 1)
        missing = every[order][place] != asked
        if missing.any():
            which = int(missing.argmax())
            node, number = int(nodes[which]), int(one.communicator[nodes[which]])
            lacks, key = ("that rank", "communicator") if key == "rank" else (f"its root {ranks[which]}", key)
            message = f"{one.node(node)} is a collective of communicator {number}, which does not have {lacks}"
            raise InputError(message, key=key, accepted=f"one of {_listed(one.communicators[number].tolist())}")
        begins = np.cumsum([0, *map(len, keys)])[:-1]
        places: IntArray = order[place] - begins[one.communicator[nodes]]
        return places

    def _incomplete(self, calling: IntArray, turn: int) -> InputError:
        number = int(self.columns.communicator[calling[0]])
        lacking = np.setdiff1d(self.columns.communicators[number], self.columns.rank[calling])
        ranks, call = ("ranks", "call") if len(lacking) > 1 else ("rank", "calls")
        what = f"{self._collective(int(calling[0]))}, number {turn} of communicator {number}"
        message = f"{what}, waits for {ranks} {_listed(lacking.tolist())}, which {call} only {turn} there"
        accepted = "all members of a communicator call each of its collectives"
        return InputError(message, key="communicator", accepted=accepted)

    def _collective(self, node: int) -> str:
        return f"{PATTERNS[self.columns.pattern[node]]} ({self.columns.node(node)})"

    def match_messages(self) -> None:
        """Pair the k-th send from a rank to another with a tag with the k-th receive of it."""
        one = self.columns
        sends, receives = np.flatnonzero(one.kind == _SEND), np.flatnonzero(one.kind == _RECEIVE)
        sent = np.stack([one.rank[sends], one.peer[sends], one.tag[sends]])
        received = np.stack([one.peer[receives], one.rank[receives], one.tag[receives]])
        by_send, by_receive = np.lexsort(sent[::-1]), np.lexsort(received[::-1])
        if not np.array_equal(sent[:, by_send], received[:, by_receive]):
            raise self._unmatched(sends, sent, receives, received)
        self.partners[sends[by_send]], self.partners[receives[by_receive]] = receives[by_receive], sends[by_send]
        expected, given = one.bytes, one.bytes[self.partners]
        larger = (one.kind == _RECEIVE) & (expected > 0) & (expected < given)
        if larger.any():
            node = int(larger.argmax())
            got = f"{one.node(node)} receives {expected[node]:.15g} bytes"
            message = f"{got}, and {one.node(self.partners[node])} sends it {given[node]:.15g}"
            raise InputError(message, key="bytes", accepted="no more than is received")

    def _unmatched(self, sends: IntArray, sent: IntArray, receives: IntArray, received: IntArray) -> InputError:
        one = self.columns
        pairs: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
        for side, nodes, ends in ((0, sends, sent), (1, receives, received)):
            for node, end in zip(nodes.tolist(), ends.T.tolist(), strict=True):
                pairs.setdefault(tuple(end), ([], []))[side].append(node)
        unequal = [(ends, both) for ends, both in sorted(pairs.items()) if len(both[0]) != len(both[1])]
        lines = []
        for (source, destination, tag), both in unequal[:_LISTED]:
            known, wanted = sorted(both, key=len)
            lacking = f"a receive of rank {destination}" if wanted is both[0] else f"a send of rank {source}"
            wait = f"{lacking}, which has {len(known)} of the {len(wanted)} that it needs"
            where = f"from {source} to {destination}, tag {tag}"
            lines.append(f"{one.node(wanted[len(known)])} waits for {wait} ({where})")
        if len(unequal) > _LISTED:
            lines.append(f"... and {len(unequal) - _LISTED} more")
        accepted = "one receive for each send, by source, destination and tag, in order"
        return InputError("sends and receives do not match:\n  " + "\n  ".join(lines), key="peer", accepted=accepted)

    def order(self, before: IntArray, after: IntArray) -> IntArray:
        """Return the leaders in an order in which each comes after what it waits for; ties by node number."""
        count = len(self.columns)
        receives = np.flatnonzero(self.columns.kind == _RECEIVE)
        # A receive comes after its send, as far as the order is concerned.
        before, after = np.append(before, self.partners[receives]), np.append(after, receives)
        first = self.leaders == np.arange(count)
        if (before < after).all():
            return np.flatnonzero(first)
        missing = np.bincount(after, minlength=count).tolist()
        by_first = np.argsort(before, kind="stable")
        dependents = after[by_first].tolist()
        begins = arrays.offsets(np.bincount(before, minlength=count)).tolist()
        ready = [node for node in np.flatnonzero(first).tolist() if not missing[node]]
        found = []
        while ready:
            node = heappop(ready)
            found.append(node)
            for other in dependents[begins[node] : begins[node + 1]]:
                left = missing[other] = missing[other] - 1
                if not left:
                    heappush(ready, other)
        if len(found) < np.count_nonzero(first):
            raise self._cycle(before, after, np.array(missing) > 0)
        return np.array(found, dtype=np.intp)

    def _cycle(self, before: IntArray, after: IntArray, blocked: BoolArray) -> InputError:
        held = blocked[before] & blocked[after]
        # Any of those that a task waits for leads to a cycle; the first is taken.
        waits = dict(zip(after[held][::-1].tolist(), before[held][::-1].tolist(), strict=True))
        task = min(waits)
        seen: dict[int, None] = {}
        while task not in seen:
            seen[task] = None
            task = waits[task]
        path = list(seen)[list(seen).index(task) :]
        lines = [self._wait(one, waits[one]) for one in path]
        if len(lines) > _LISTED:
            lines[_LISTED - 1 : -1] = [f"... {len(lines) - _LISTED} more ..."]
        message = f"nodes wait for each other in a cycle of {len(path)}:\n  " + "\n  ".join(lines)
        accepted = "nodes that can be done one after the other, by ranks that call collectives in the same order"
        return InputError(message, key="dependencies", accepted=accepted)

    def _wait(self, after: int, before: int) -> str:
        one = self.columns
        if self.partners[after] == before:
            return f"{one.node(after)} waits for the message of {one.node(before)}"
        edges = np.repeat(np.arange(len(one)), np.diff(one.dependency_offsets))
        edge = int(((self.leaders[edges] == after) & (self.leaders[one.dependencies] == before)).argmax())
        return f"{self._call(int(edges[edge]))} waits for {self._call(int(one.dependencies[edge]))}"

    def _call(self, node: int) -> str:
        return self._collective(node) if self.columns.kind[node] == _COLLECTIVE else self.columns.node(node)

    def splits(self, place: IntArray) -> tuple[IntArray, tuple[FloatArray, ...]]:
        """Return tasks' indices of sizes per pair, -1 for none, and those; ``(N,)`` ``place`` is tasks of leaders."""
        one = self.columns
        lengths = np.diff(one.split_offsets)
        found = np.full(int(place.max(initial=-1)) + 1, -1)
        if not lengths.any():
            return found, ()
        tables: list[FloatArray] = []
        expected = np.zeros(len(one), dtype=np.intp)
        exchanges = np.flatnonzero((one.kind == _COLLECTIVE) & (one.pattern == _ALL_TO_ALL))
        sized = np.isin(self.leaders, self.leaders[np.flatnonzero(lengths)])
        exchanges = exchanges[sized[exchanges]]
        sizes = np.array([len(members) for members in one.communicators], dtype=np.intp)
        expected[exchanges] = sizes[one.communicator[exchanges]]
        if (wrong := lengths != expected).any():
            node = int(wrong.argmax())
            message = f"{self._call(node)} has {counted(lengths[node], 'size')}"
            accepted = f"{expected[node]}, one for each member of an all-to-all that has sizes"
            raise InputError(message, key="split_offsets", accepted=accepted)
        by_task = np.argsort(self.leaders[exchanges], kind="stable")
        for nodes in np.split(exchanges[by_task], arrays.starts(self.leaders[exchanges][by_task])[1:]):
            table = np.zeros((1, len(nodes), len(nodes)))
            for node in nodes.tolist():
                table[0, self.positions[node]] = one.splits[one.split_offsets[node] : one.split_offsets[node + 1]]
            found[place[self.leaders[nodes[0]]]] = len(tables)
            tables.append(table)
        return found, tuple(tables)


def merged(columns: Columns) -> dict[str, Any]:
    columns.check()
    tasks = Merged(columns)
    tasks.merge_collectives()
    tasks.match_messages()
    # Which tasks come before which: pairs of leaders, each once, by the later one.
    before, after = tasks.leaders[columns.dependencies], np.repeat(tasks.leaders, np.diff(columns.dependency_offsets))
    after, before = np.divmod(np.unique(after * len(columns) + before), max(len(columns), 1))
    leaders = tasks.order(before, after)
    place = np.full(len(columns), -1)
    place[leaders] = np.arange(len(leaders))
    before, after = place[before], place[after]
    order = np.lexsort((before, after))
    kinds = columns.kind[leaders]
    members, tables = _tables(columns, leaders)
    splits, split_tables = tasks.splits(place)
    partners = tasks.partners[leaders]
    partners = np.where(partners >= 0, place[partners], -1)
    codes = np.where(kinds == _COLLECTIVE, columns.pattern[leaders], -1)
    codes[(kinds == _SEND) | (kinds == _RECEIVE)] = _POINT_TO_POINT
    patterns = (*PATTERNS, None)
    sizes = columns.bytes[leaders].copy()
    sizes[kinds == _RECEIVE] = sizes[partners[kinds == _RECEIVE]]
    for task in np.flatnonzero(splits >= 0).tolist():
        sizes[task] = buffer(split_tables[splits[task]])
    return {
        "kinds": kinds,
        "names": Names(leaders, columns.names, kinds),
        "labels": columns.label[leaders],
        "bytes": sizes,
        **{name: getattr(columns, name)[leaders] for name in ("flops", "seconds")},
        "patterns": tuple(map(patterns.__getitem__, codes.tolist())),
        "members": members,
        "tables": tables,
        "controller_tables": (),
        "dependency_offsets": arrays.offsets(np.bincount(after, minlength=len(leaders))),
        "dependencies": before[order],
        **{name: np.full(len(leaders), ROW[name]) for name in ("controllers", "blocks", "repeats")},
        "roots": tasks.roots[leaders],
        "partners": partners,
        "splits": splits,
        "split_tables": split_tables,
        "memories": np.where(np.isin(kinds, (TaskKind.LOAD, TaskKind.STORE)), columns.memory[leaders], -1),
        **{name: getattr(columns, name) for name in ("ranks", "label_names", "memory_names")},
    }


def buffer(sizes: FloatArray) -> float:
    """Return the bytes of the largest buffer of a rank, where ``(..., n, n)`` ``sizes`` go from each to each."""
    return float(max(sizes.sum(axis=-1).max(), sizes.sum(axis=-2).max()))


def _tables(columns: Columns, leaders: IntArray) -> tuple[IntArray, tuple[IntArray, ...]]:
    """Return for each task the index of its member table, and the tables: one for each rank, and communicators."""
    groups = {members.tobytes(): members for members in columns.communicators}
    numbers = {key: number for number, key in enumerate(groups, columns.ranks)}
    index = np.array([numbers[members.tobytes()] for members in columns.communicators], dtype=np.intp)
    collective = columns.kind[leaders] == _COLLECTIVE
    found = columns.rank[leaders].copy()
    found[collective] = index[columns.communicator[leaders[collective]]]
    ranks = (np.array([rank]) for rank in range(columns.ranks))
    return found, (*ranks, *(members[None, :] for members in groups.values()))


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_LISTED]))
    return shown if len(numbers) <= _LISTED else f"{shown} and {len(numbers) - _LISTED} more"
