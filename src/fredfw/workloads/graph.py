"""One training iteration as a DAG of tasks, a struct of arrays with a builder in front.

A task may stand for many ranks at once (SPMD), so a graph is as large for 20 ranks as for 20,000. Dependencies hold
rank by rank: where task B depends on task A, rank r of B waits for rank r of A, if it has a part in A. A group's
communication starts when the last of the members that it waits for has arrived; each group of a task on its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import Factory, define, evolve, field, frozen
from numpy.typing import ArrayLike

from fredfw import arrays, limits
from fredfw.answers import brief
from fredfw.arrays import is_real, is_whole
from fredfw.collectives.pattern import Pattern, pattern_of
from fredfw.errors import InputError
from fredfw.typing import AnyArray, FloatArray, IntArray
from fredfw.workloads.kernels import Kernels
from fredfw.workloads.kinds import ROW, TABLES, TaskKind
from fredfw.workloads.labels import ACCEPTED, COMPUTE, EMPTY, RESERVED, WAITING
from fredfw.workloads.merging import Columns, buffer, merged


def _usual(name: str) -> Any:
    return Factory(lambda graph: np.full(len(graph.kinds), ROW[name]), takes_self=True)


@frozen(eq=False)
class TaskGraph:
    """One iteration: ``T`` tasks in an order in which every task comes after those it depends on.

    Args:
        ranks: Number of workers; ranks are ``0 .. ranks - 1``.
        kinds: ``(T,)`` values of ``TaskKind``.
        names: ``(T,)`` for traces and messages; any sequence.
        labels: ``(T,)`` index into ``label_names``.
        label_names: What time is charged to, such as ``compute``, ``mp``, ``dp``, ``pp``, ``load``, ``stream``.
        flops: ``(T,)`` floating-point operations per rank (compute).
        bytes: ``(T,)`` read and written in local memory per rank (compute), the size of the collective or transfer per
            group (nccl-tests: per-rank buffer), or of each group's stream (load, store).
        seconds: ``(T,)`` of computations, NaN where they follow from FLOPs and bytes, or of a wait once all are there.
        patterns: ``(T,)`` of collectives, transfers and messages; ``None`` for other kinds.
        members: ``(T,)`` index into ``tables``.
        tables: Ranks, ``(groups, size)``; of compute ``(ranks,)``, send and receive ``(1,)``, wait ``(1, size)``.
        controllers: ``(T,)`` index into ``controller_tables`` for load and store by I/O controllers, else -1.
        controller_tables: ``(groups,)`` controller numbers, one per group of the task's member table.
        dependency_offsets: ``(T + 1,)``.
        dependencies: Of task ``t``, ``dependencies[dependency_offsets[t]:dependency_offsets[t + 1]]``.
        blocks: ``(T,)`` block that a task is in, or -1; its first tasks wait for the last ones of a repetition before.
        repeats: ``(T,)`` how often the block of a task repeats, 1 outside blocks.
        kernels: ``(T,)`` index into ``kernel_tables`` for computations whose kernels are known, else -1.
        kernel_tables: The kernels of a computation, per rank.
        roots: ``(T,)`` position of the root in each group of a rooted collective.
        partners: ``(T,)`` task that receives what this one sends, or sent earlier what this one receives, or -1.
        splits: ``(T,)`` index into ``split_tables`` for an all-to-all whose pairs exchange different sizes, else -1.
        split_tables: ``(groups, size, size)`` bytes from each member (row) of each group to each (column).
        memories: ``(T,)`` index into ``memory_names`` for load from and store to a memory tier, else -1.
        jobs: ``(T,)`` number of the job that a task is of. Tasks of different jobs have no ranks in common.
    """

    ranks: int
    kinds: IntArray
    names: Sequence[str]
    labels: IntArray
    label_names: tuple[str, ...]
    flops: FloatArray
    bytes: FloatArray
    seconds: FloatArray
    patterns: tuple[Pattern | None, ...]
    members: IntArray
    tables: tuple[IntArray, ...]
    controllers: IntArray
    controller_tables: tuple[IntArray, ...]
    dependency_offsets: IntArray
    dependencies: IntArray
    blocks: IntArray
    repeats: IntArray
    kernels: IntArray = field(default=_usual("kernels"))
    kernel_tables: tuple[Kernels, ...] = ()
    roots: IntArray = field(default=_usual("roots"))
    partners: IntArray = field(default=_usual("partners"))
    splits: IntArray = field(default=_usual("splits"))
    split_tables: tuple[FloatArray, ...] = ()
    memories: IntArray = field(default=_usual("memories"))
    memory_names: tuple[str, ...] = ()
    jobs: IntArray = field(default=_usual("jobs"))

    @classmethod
    def from_columns(
        cls,
        ranks: int,
        *,
        rank: ArrayLike,
        kind: ArrayLike,
        dependency_offsets: ArrayLike,
        dependencies: ArrayLike,
        seconds: ArrayLike | None = None,
        flops: ArrayLike | None = None,
        bytes: ArrayLike | None = None,  # noqa: A002  (the field's name)
        label: ArrayLike | None = None,
        label_names: Sequence[str] = (),
        pattern: ArrayLike | None = None,
        communicator: ArrayLike | None = None,
        communicators: Sequence[ArrayLike] = (),
        root: ArrayLike | None = None,
        peer: ArrayLike | None = None,
        tag: ArrayLike | None = None,
        split_offsets: ArrayLike | None = None,
        splits: ArrayLike | None = None,
        memory: ArrayLike | None = None,
        memory_names: Sequence[str] = (),
        names: Sequence[str] | None = None,
    ) -> TaskGraph:
        """Return the graph of ``N`` nodes of traces: one for each rank and operation, in any order.

        In the order of node numbers, the k-th collective of a rank on a communicator is the same one as the k-th of
        each other member, and the k-th send from a rank to another with a tag is received by the other's k-th receive
        from that rank with that tag. A collective becomes one task, whose members all wait for what any of them depends
        on, where they have a part in that too. Tasks are sorted: each after what it waits for, else by node number.

        Args:
            ranks: Number of workers.
            rank: ``(N,)`` rank of each node.
            kind: ``(N,)`` ``TaskKind``: ``COMPUTE``, ``COLLECTIVE``, ``SEND``, ``RECEIVE``, ``LOAD`` or ``STORE``.
            dependency_offsets: ``(N + 1,)``.
            dependencies: Node ``i`` depends on those from ``dependency_offsets[i]`` to ``dependency_offsets[i + 1]``.
            seconds: ``(N,)`` duration of computations; NaN where it follows from FLOPs and bytes.
            flops: ``(N,)`` floating-point operations of computations.
            bytes: ``(N,)`` that computations read and write, or the size (nccl-tests: per-rank buffer); a collective
                of 0 only synchronises, and a receive of 0 takes any message.
            label: ``(N,)`` index into ``label_names``; by default ``compute`` and ``communication``.
            label_names: What time is charged to; ``compute`` and ``bubble`` are not for communication.
            pattern: ``(N,)`` index into ``tuple(Pattern)`` for collectives.
            communicator: ``(N,)`` index into ``communicators`` for collectives.
            communicators: Ranks of each, in their order.
            root: ``(N,)`` rank that is the root of a rooted collective, -1 for the first of the communicator.
            peer: ``(N,)`` rank at the other end of sends and receives.
            tag: ``(N,)`` number by which sends and receives match.
            split_offsets: ``(N + 1,)``.
            splits: Bytes that a rank sends to each member of its communicator in an all-to-all whose pairs exchange
                different sizes: node ``i`` has those from ``split_offsets[i]`` to ``split_offsets[i + 1]``, or none.
            memory: ``(N,)`` index into ``memory_names`` for loads and stores; the first by default.
            memory_names: Memory tiers.
            names: ``N`` texts.

        Raises:
            InputError: A node is impossible, depends on what is no node of its rank, or waits for itself in a cycle;
                members of a communicator differ in a collective; a send or a receive has no partner.
        """
        given = {name: value for name, value in locals().items() if name != "cls"}
        return cls(**merged(Columns.of(given)))

    def __len__(self) -> int:
        return len(self.kinds)

    def after(self, task: int) -> IntArray:
        """Return the tasks that ``task`` depends on."""
        return self.dependencies[self.dependency_offsets[task] : self.dependency_offsets[task + 1]]

    def label(self, task: int) -> str:
        """Return the label of ``task``."""
        return self.label_names[int(self.labels[task])]

    def participants(self, task: int) -> IntArray:
        """Return the distinct ranks that take part in ``task``, sorted."""
        return np.unique(self.tables[self.members[task]])

    def expanded(self) -> TaskGraph:
        """Return the same iteration with every repetition of every block written out; the same graph each time."""
        return self._expanded

    @cached_property
    def _expanded(self) -> TaskGraph:
        if (self.repeats == 1).all():
            return self
        limits.check("tasks", sum(self.repeats.tolist()))
        copies: list[int] = []  # original of each new task
        after: list[tuple[int, ...]] = []
        last = np.empty(len(self), dtype=np.intp)  # new index of the last copy of each task
        alone = np.where(self.blocks >= 0, self.blocks, ~np.arange(len(self)))  # tasks outside of blocks are one by one
        for start, stop in pairwise([*arrays.starts(alone).tolist(), len(self)]):
            inner: set[int] = {int(one) for task in range(start, stop) for one in self.after(task) if one >= start}
            previous: tuple[int, ...] = ()
            for repetition in range(int(self.repeats[start])):
                first = len(copies)
                for task in range(start, stop):
                    before = self.after(task).tolist()
                    inside = tuple(first + one - start for one in before if one >= start)
                    outside = tuple(int(last[one]) for one in before if one < start) if repetition == 0 else ()
                    copies.append(task)
                    after.append(inside + outside + (() if inside else previous))
                previous = tuple(first + task - start for task in range(start, stop) if task not in inner)
            last[start:stop] = np.arange(first, first + stop - start)
        partners = self.partners[copies]
        # A send and its receive are repeated together.
        shifted = np.arange(len(copies)) + partners - np.array(copies, dtype=np.intp)
        apart = np.where(self.blocks[copies] >= 0, shifted, last[partners])
        columns: dict[str, Any] = {name: getattr(self, name)[copies] for name in _COLUMNS}
        columns |= {name: np.full(len(copies), ROW[name]) for name in ("blocks", "repeats")}
        columns["partners"] = np.where(partners >= 0, apart, -1)
        return evolve(
            self,
            names=tuple(self.names[one] for one in copies),
            patterns=tuple(self.patterns[one] for one in copies),
            dependency_offsets=arrays.offsets([len(before) for before in after]),
            dependencies=np.array([one for before in after for one in before], dtype=np.intp),
            **columns,
        )


# The argument that names the ranks of a task; of the others it is ``groups``.
_RANKS_IN = {TaskKind.COMPUTE: "ranks", TaskKind.WAIT: "ranks", TaskKind.SEND: "source", TaskKind.RECEIVE: "send"}
_UNITS = {"size": " of bytes", "bytes": " of bytes", "flops": " of FLOPs", "seconds": " of seconds"}
_ALWAYS = "kinds", "labels", "members", "flops", "bytes", "seconds", "blocks", "repeats"
_COLUMNS = *_ALWAYS, *(name for name in ROW if name not in _ALWAYS)


def _ranks(value: int) -> int:
    return arrays.count("ranks", value)


@define(eq=False)
class GraphBuilder:
    """Collects tasks of ``ranks`` workers; every method that adds one returns its index, to be used in ``after``.

    Sizes are bytes, times are seconds, both as numbers. A label is what the time of a task is charged to. Communication
    cannot have the labels ``compute`` and ``bubble``. Wrong arguments raise ``InputError``.
    """

    ranks: int = field(converter=_ranks)
    _rows: list[tuple[float, ...]] = field(factory=list, init=False)  # what each task has in _ALWAYS
    _more: dict[str, dict[int, int]] = field(factory=lambda: defaultdict(dict), init=False)  # in others, by task
    _names: list[str] = field(factory=list, init=False)
    _patterns: list[Pattern | None] = field(factory=list, init=False)
    _after: list[tuple[int, ...]] = field(factory=list, init=False)
    # Of columns that are an index: what they point to, with its number, by a key that equal ones share.
    _known: dict[str, dict[Hashable, tuple[int, Any]]] = field(factory=lambda: defaultdict(dict), init=False)
    _destinations: dict[int, int] = field(factory=dict, init=False)  # of sends that nobody receives so far
    _block: tuple[int, int] = field(default=(-1, 1), init=False)
    _accepted: str = field(default=Factory(lambda one: f"0 to {one.ranks - 1}", takes_self=True), init=False)
    _blocks: int = field(default=0, init=False)

    @contextmanager
    def repeated(self, times: int) -> Iterator[None]:
        """Make the tasks that are added inside run ``times`` times in turn, such as the layers of a model.

        An exact simulation writes them out, a compressed one scales each task: equal where all ranks take part in all
        tasks and nothing else uses the network. A note says where ranks could be in different repetitions at once.
        """
        if not is_whole(times) or times < 1:
            raise InputError(f"a block repeated {times!r} times", key="times", accepted="a whole number of at least 1")
        if self._block[0] >= 0:
            raise InputError("a repeated block inside another", key="times", accepted="blocks one after the other")
        self._block = self._blocks, times
        self._blocks += 1
        try:
            yield
        finally:
            self._block = -1, 1

    def compute(
        self,
        name: str,
        ranks: ArrayLike,
        *,
        flops: float = 0.0,
        bytes: float = 0.0,  # noqa: A002  (the field's name in the graph)
        seconds: float | None = None,
        after: Iterable[int] = (),
        label: str = COMPUTE,
        kernels: Kernels | None = None,
    ) -> int:
        """Add a computation of each of ``ranks``: FLOPs and local memory bytes per rank, or its duration in seconds.

        An NPU whose ``compute`` is ``kernels`` takes the time of ``kernels``, those of one rank, where they are given.
        """
        task = self._add(TaskKind.COMPUTE, name, label, self._row(name, ranks), after, bytes, flops, seconds)
        if kernels is not None:
            self._more["kernels"][task] = self._number("kernels", kernels, kernels)
        return task

    def wait(
        self, name: str, ranks: ArrayLike, *, seconds: float = 0.0, after: Iterable[int] = (), label: str = WAITING
    ) -> int:
        """Add a wait: all of ``ranks`` wait for each other, and then for ``seconds``, without computing."""
        return self._add(TaskKind.WAIT, name, label, self._row(name, ranks)[np.newaxis], after, seconds=seconds)

    def collective(
        self,
        name: str,
        pattern: Pattern | str,
        groups: ArrayLike,
        size: float,
        *,
        label: str,
        after: Iterable[int] = (),
        root: int = 0,
    ) -> int:
        """Add a collective of ``size`` bytes (nccl-tests: per-rank buffer) in each row of ``(G, n)`` ``groups``.

        That of 0 bytes is a barrier, which takes its latencies. ``root`` is the position of the root in its row.
        """
        table = self._table(name, groups)
        pattern = pattern_of(pattern)
        if not is_whole(root) or not 0 <= root < table.shape[1] or (root and not pattern.rooted):
            accepted = f"0 to {table.shape[1] - 1}" if pattern.rooted else "0"
            raise InputError(f"task {name!r} has root {root!r}", key="root", accepted=accepted)
        task = self._add(TaskKind.COLLECTIVE, name, label, table, after, size, pattern=pattern)
        if root:
            self._more["roots"][task] = root
        return task

    def all_to_all_v(
        self, name: str, groups: ArrayLike, sizes: ArrayLike, *, label: str, after: Iterable[int] = ()
    ) -> int:
        """Add an all-to-all in each row of ``(G, n)`` ``groups`` whose pairs exchange different sizes.

        ``(G, n, n)`` ``sizes`` are bytes from each member (row) to each (column); the diagonal stays where it is.
        """
        table = self._table(name, groups)
        shape = *table.shape, table.shape[1]
        try:
            amounts = np.array(sizes, dtype=float)
        except (TypeError, ValueError):
            amounts = np.empty(0)
        if amounts.shape != shape or not (np.isfinite(amounts) & (amounts >= 0)).all():
            accepted = f"{' x '.join(map(str, shape))} numbers of bytes, finite and not negative"
            message = f"task {name!r} has sizes that do not fit its groups or are not possible"
            raise InputError(message, key="sizes", accepted=accepted)
        task = self._add(TaskKind.COLLECTIVE, name, label, table, after, buffer(amounts), pattern=Pattern.ALL_TO_ALL)
        self._more["splits"][task] = self._number("splits", _key(amounts), amounts)
        return task

    def transfer(self, name: str, groups: ArrayLike, size: float, *, label: str, after: Iterable[int] = ()) -> int:
        """Add a transfer of ``size`` bytes from the first to each other member of each row of ``(G, n)`` ``groups``.

        It starts when the sender is ready (with a transport's ``rendezvous``, the receivers too), and its dependents
        wait for its end. With the fidelity ``exact`` those on the sender wait only until its bytes have left.
        """
        table = self._table(name, groups)
        pattern = Pattern.POINT_TO_POINT if table.shape[1] == 2 else Pattern.BROADCAST
        return self._add(TaskKind.TRANSFER, name, label, table, after, size, pattern=pattern)

    def send(
        self, name: str, source: int, destination: int, size: float, *, label: str, after: Iterable[int] = ()
    ) -> int:
        """Add a message of ``size`` bytes from ``source`` to ``destination``, which a ``receive`` must wait for.

        It starts when the source is ready (with a transport's ``rendezvous``, the receive too), and ends when the
        message has arrived, or, with the fidelity ``exact``, when its bytes have left.
        """
        for key, rank in (("source", source), ("destination", destination)):
            if not is_whole(rank) or not 0 <= rank < self.ranks:
                raise InputError(f"task {name!r} names rank {rank!r}", key=key, accepted=self._accepted)
        if source == destination:
            message = f"task {name!r} is a message of rank {source} to itself"
            raise InputError(message, key="destination", accepted="two ranks")
        row = np.array([source], dtype=np.intp)
        task = self._add(TaskKind.SEND, name, label, row, after, size, pattern=Pattern.POINT_TO_POINT)
        self._destinations[task] = destination
        return task

    def receive(self, name: str, send: int, *, after: Iterable[int] = ()) -> int:
        """Add the receive of the message of task ``send``, on its destination.

        It ends when the message has arrived and the tasks that it depends on are over on its rank.
        """
        if not is_whole(send) or send not in self._destinations:
            message = f"task {name!r} receives task {send!r}"
            raise InputError(message, key="send", accepted="a send that nobody receives")
        sent = dict(zip(_ALWAYS, self._rows[send], strict=True))
        if sent["blocks"] != self._block[0]:
            raise InputError(f"task {name!r} receives a send that is repeated without it", key="send")
        label, row = list(self._known["labels"])[int(sent["labels"])], np.array([self._destinations.pop(send)])
        task = self._add(TaskKind.RECEIVE, name, label, row, after, sent["bytes"], pattern=Pattern.POINT_TO_POINT)
        self._more["partners"] |= {send: task, task: send}
        return task

    def load(
        self,
        name: str,
        controllers: ArrayLike | str,
        groups: ArrayLike,
        size: float,
        *,
        label: str,
        after: Iterable[int] = (),
    ) -> int:
        """Add streams of ``size`` bytes each, to all of each row of ``(G, n)`` ``groups``.

        Row ``g`` gets one from controller ``controllers[g]``, or, by the name of a memory tier, each member from the
        memories that serve it. Where switches cannot copy, every member has a stream of its own.
        """
        return self._stream(TaskKind.LOAD, name, controllers, groups, size, label, after)

    def store(
        self,
        name: str,
        controllers: ArrayLike | str,
        groups: ArrayLike,
        size: float,
        *,
        label: str,
        after: Iterable[int] = (),
    ) -> int:
        """Add streams of ``size`` bytes each, reduced over each row of ``(G, n)`` ``groups``.

        Row ``g`` goes to controller ``controllers[g]``, or, by the name of a memory tier, what members contribute to
        the memories that serve them. Where switches cannot reduce, every member has a stream, and nothing is summed up.
        """
        return self._stream(TaskKind.STORE, name, controllers, groups, size, label, after)

    def _stream(
        self, kind: TaskKind, name: str, ends: ArrayLike, rows: ArrayLike, size: float, label: str, after: Iterable[int]
    ) -> int:
        table = self._table(name, rows)
        controllers = None
        if not isinstance(ends, str):
            controllers = _numbers(name, "controllers", ends, "whole numbers from 0").ravel()
            if len(controllers) != len(table):
                message = f"task {name!r} has {len(controllers)} controllers for {len(table)} groups"
                raise InputError(message, key="controllers", accepted=f"{len(table)}, one for each group")
        task = self._add(kind, name, label, table, after, size)
        if controllers is None:
            self._more["memories"][task] = self._number("memories", ends, ends)
        else:
            self._more["controllers"][task] = self._number("controllers", _key(controllers), controllers)
        return task

    def build(self) -> TaskGraph:
        """Return the graph; raises ``InputError`` where nobody receives a message."""
        for send, destination in self._destinations.items():
            message = f"task {self._names[send]!r} waits for a receive of rank {destination}"
            raise InputError(message, accepted="a receive of each send")
        rows = np.array(self._rows, dtype=float).reshape(-1, len(_ALWAYS))
        columns: dict[str, Any] = {
            name: column.astype(float if isinstance(ROW.get(name), float) else np.intp)
            for name, column in zip(_ALWAYS, rows.T, strict=True)
        }
        for name in _COLUMNS[len(_ALWAYS) :]:
            columns[name] = np.full(len(rows), ROW[name])
            columns[name][list(self._more[name])] = list(self._more[name].values())
        tables: dict[str, Any] = {
            name: tuple(value for _, value in self._known[column].values())
            for name, column in {**TABLES, "label_names": "labels", "memory_names": "memories"}.items()
        }
        return TaskGraph(
            ranks=self.ranks,
            names=tuple(self._names),
            patterns=tuple(self._patterns),
            dependency_offsets=arrays.offsets([len(one) for one in self._after]),
            dependencies=np.array([one for after in self._after for one in after], dtype=np.intp),
            **columns,
            **tables,
        )

    def _add(
        self,
        kind: TaskKind,
        name: str,
        label: object,
        members: IntArray,
        after: Iterable[int],
        size: float = 0.0,
        flops: float = 0.0,
        seconds: float | None = None,
        pattern: Pattern | None = None,
    ) -> int:
        index = len(self._names)
        limits.check("tasks", index + 1)
        computes = kind is TaskKind.COMPUTE
        if not isinstance(label, str) or not label or (label in RESERVED and not computes):
            accepted = ACCEPTED if label else EMPTY
            raise InputError(f"task {name!r} has the label {label!r}", key="label", accepted=accepted)
        known = 0.0 if seconds is None else seconds
        for what, value in (("bytes" if computes else "size", size), ("flops", flops), ("seconds", known)):
            if not is_real(value) or not 0 <= value < math.inf:
                accepted = f"a number{_UNITS[what]}, finite and not negative"
                raise InputError(f"task {name!r} has {what} {value!r}", key=what, accepted=accepted)
        try:
            before = tuple(dict.fromkeys(after))
            earlier = all(is_whole(one) and 0 <= one < index for one in before)
        except TypeError:
            message = f"task {name!r} comes after {after!r}"
            raise InputError(message, key="after", accepted="an iterable of task numbers") from None
        if not earlier:
            message = f"task {name!r} depends on tasks {before}, not all of which are earlier"
            raise InputError(message, key="after", accepted="an iterable of the numbers of earlier tasks")
        key = _key(members)
        if key not in self._known["members"]:
            self._check(name, _RANKS_IN.get(kind, "groups"), members)
        known = np.nan if seconds is None else float(seconds)
        columns = self._number("labels", label, label), self._number("members", key, members)
        self._rows.append((kind, *columns, float(flops), float(size), known, *self._block))
        self._names.append(name)
        self._patterns.append(pattern)
        self._after.append(before)
        return index

    def _number(self, column: str, key: Any, value: object) -> int:
        known = self._known[column]
        return known.setdefault(key, (len(known), value))[0]

    def _row(self, name: str, ranks: ArrayLike) -> IntArray:
        return _numbers(name, "ranks", ranks, f"whole numbers, {self._accepted}").ravel()

    def _table(self, name: str, groups: ArrayLike) -> IntArray:
        accepted = f"rows of whole numbers, {self._accepted}"
        table = _numbers(name, "groups", groups, accepted)
        if table.ndim > 2:
            raise InputError(f"task {name!r} has groups {brief(groups)}", key="groups", accepted=accepted)
        return table if table.ndim == 2 else np.atleast_2d(table)

    def _check(self, name: str, key: str, members: IntArray) -> None:
        outside = (members < 0) | (members >= self.ranks)
        if outside.any():
            raise InputError(f"task {name!r} names rank {members[outside][0]}", key=key, accepted=self._accepted)
        rows = np.sort(np.atleast_2d(members), axis=1)
        if (rows[:, 1:] == rows[:, :-1]).any():
            raise InputError(f"task {name!r} names a rank twice in one group", key=key, accepted="each rank once")


def _key(array: AnyArray) -> Hashable:
    return array.shape, array.tobytes()


def _numbers(name: str, key: str, values: ArrayLike, accepted: str) -> IntArray:
    array = arrays.whole(values)
    if array is None:
        raise InputError(f"task {name!r} has {key} {brief(values)}", key=key, accepted=accepted)
    if not array.size:
        raise InputError(f"task {name!r} has no {key}", key=key, accepted=accepted)
    return array
