"""One training iteration as a DAG of tasks, a struct of arrays with a builder in front.

A task may stand for many ranks at once (SPMD), so the graph of a 20-rank and of a 20,000-rank run of the same model has
the same size. Dependencies still hold rank by rank: where task B depends on task A, rank r of B waits for rank r of A;
a rank of B that has no part in A does not wait. A group's communication starts when the last of the members that it
waits for has arrived, and the groups of one task start and end on their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum

import numpy as np
from attrs import Factory, define, evolve, field, frozen
from numpy.typing import ArrayLike

from fredfw import limits
from fredfw.collectives.pattern import Pattern
from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads.kernels import Kernels


class TaskKind(IntEnum):
    """What a task does."""

    COMPUTE = 0
    """Each rank computes on its own; one compute task at a time per rank."""
    COLLECTIVE = 1
    """Each group communicates; it waits for all its members."""
    TRANSFER = 2
    """Each group's first member sends to the others (point-to-point or broadcast); it waits for the sender alone."""
    LOAD = 3
    """Each group receives one stream from its I/O controller; it waits for all its members (their buffers)."""
    STORE = 4
    """Each group's contributions are reduced on the way to its I/O controller; it waits for all its members."""


@frozen(eq=False)
class TaskGraph:
    """One iteration: ``T`` tasks in an order in which every task comes after those it depends on.

    Args:
        ranks: Number of workers; ranks are ``0 .. ranks - 1``.
        kinds: ``(T,)`` values of ``TaskKind``.
        names: ``(T,)`` for traces and messages.
        labels: ``(T,)`` index into ``label_names``.
        label_names: What time is charged to, such as ``compute``, ``mp``, ``dp``, ``pp``, ``load``, ``stream``.
        flops: ``(T,)`` floating-point operations per rank (compute).
        bytes: ``(T,)`` bytes read and written in local memory per rank (compute), or the size of the collective or
            transfer per group (nccl-tests: per-rank buffer), or the bytes of each group's stream (load, store).
        seconds: ``(T,)`` duration of a compute task where it is known; NaN where it follows from FLOPs and bytes.
        patterns: ``(T,)`` collective or transfer pattern; ``None`` for other kinds.
        members: ``(T,)`` index into ``tables``.
        tables: Member tables. For compute: ``(ranks,)``. For the others: ``(groups, size)`` ranks.
        controllers: ``(T,)`` index into ``controller_tables`` for load and store, else -1.
        controller_tables: ``(groups,)`` controller numbers, one per group of the task's member table.
        dependency_offsets: ``(T + 1,)``.
        dependencies: Task indices, ``dependencies[dependency_offsets[t]:dependency_offsets[t + 1]]`` for task ``t``.
        blocks: ``(T,)`` number of the repeated block that a task is in, -1 for none. The tasks of a block run in turn
            as often as the block repeats; the first ones of a repetition wait for the last ones of the one before.
        repeats: ``(T,)`` how often the block of a task repeats, 1 outside blocks.
        kernels: ``(T,)`` index into ``kernel_tables`` for computations whose kernels are known, else -1.
        kernel_tables: The kernels of a computation, per rank.
    """

    ranks: int
    kinds: IntArray
    names: tuple[str, ...]
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
    kernels: IntArray = field(default=Factory(lambda self: np.full(len(self.kinds), -1), takes_self=True))
    kernel_tables: tuple[Kernels, ...] = ()

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
        """Return the same iteration with every repetition of every block written out."""
        if (self.repeats == 1).all():
            return self
        limits.check("tasks", sum(self.repeats.tolist()))
        copies: list[int] = []  # original of each new task
        after: list[tuple[int, ...]] = []
        last = np.empty(len(self), dtype=np.intp)  # new index of the last copy of each task
        start = 0
        while start < len(self):
            stop = start + 1
            while self.blocks[start] >= 0 and stop < len(self) and self.blocks[stop] == self.blocks[start]:
                stop += 1
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
            start = stop
        offsets = np.zeros(len(copies) + 1, dtype=np.intp)
        np.cumsum([len(one) for one in after], out=offsets[1:])
        return evolve(
            self,
            names=tuple(self.names[one] for one in copies),
            patterns=tuple(self.patterns[one] for one in copies),
            dependency_offsets=offsets,
            dependencies=np.array([one for before in after for one in before], dtype=np.intp),
            **{name: getattr(self, name)[copies] for name in _COLUMNS},
            blocks=np.full(len(copies), -1),
            repeats=np.ones(len(copies), dtype=np.intp),
        )


_COLUMNS = ("kinds", "labels", "flops", "bytes", "seconds", "members", "controllers", "kernels")


@define(eq=False)
class GraphBuilder:
    """Collects tasks; every method that adds one returns its index, to be used in ``after``.

    Args:
        ranks: Number of workers.
    """

    ranks: int
    _kinds: list[int] = field(factory=list, init=False)
    _names: list[str] = field(factory=list, init=False)
    _labels: list[int] = field(factory=list, init=False)
    _label_index: dict[str, int] = field(factory=dict, init=False)
    _flops: list[float] = field(factory=list, init=False)
    _bytes: list[float] = field(factory=list, init=False)
    _seconds: list[float] = field(factory=list, init=False)
    _patterns: list[Pattern | None] = field(factory=list, init=False)
    _members: list[int] = field(factory=list, init=False)
    _controllers: list[int] = field(factory=list, init=False)
    _after: list[tuple[int, ...]] = field(factory=list, init=False)
    _tables: list[IntArray] = field(factory=list, init=False)
    _table_index: dict[tuple[tuple[int, ...], bytes], int] = field(factory=dict, init=False)
    _controller_tables: list[IntArray] = field(factory=list, init=False)
    _controller_index: dict[bytes, int] = field(factory=dict, init=False)
    _kernels: list[int] = field(factory=list, init=False)
    _kernel_index: dict[Kernels, int] = field(factory=dict, init=False)
    _blocks: list[int] = field(factory=list, init=False)
    _repeats: list[int] = field(factory=list, init=False)
    _block: tuple[int, int] = field(default=(-1, 1), init=False)
    _block_count: int = field(default=0, init=False)

    @contextmanager
    def repeated(self, times: int) -> Iterator[None]:
        """Make the tasks that are added inside run ``times`` times in turn, such as the layers of a model.

        A compressed simulation scales each task instead; that takes the same time wherever the block's communication
        has the network to itself. A stepwise one writes the repetitions out.
        """
        if times < 1:
            raise InputError(f"a block repeated {times} times", key="times", accepted="at least 1")
        if self._block[0] >= 0:
            raise InputError("a repeated block inside another", key="times", accepted="blocks one after the other")
        self._block = self._block_count, times
        self._block_count += 1
        yield
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
        label: str = "compute",
        kernels: Kernels | None = None,
    ) -> int:
        """Add a computation of each of ``ranks``: FLOPs and local memory bytes per rank, or its duration in seconds.

        An NPU whose ``compute`` is ``kernels`` takes the time of ``kernels``, those of one rank, where they are given.
        """
        duration = np.nan if seconds is None else seconds
        task = self._add(TaskKind.COMPUTE, name, label, np.ravel(ranks), after, flops, bytes, duration)
        if kernels is not None:
            self._kernels[task] = self._kernel_index.setdefault(kernels, len(self._kernel_index))
        return task

    def collective(
        self,
        name: str,
        pattern: Pattern,
        groups: ArrayLike,
        size: float,
        *,
        label: str,
        after: Iterable[int] = (),
    ) -> int:
        """Add a collective of ``size`` bytes (nccl-tests: per-rank buffer) in each row of ``(G, n)`` ``groups``."""
        return self._add(TaskKind.COLLECTIVE, name, label, np.atleast_2d(groups), after, 0.0, size, pattern=pattern)

    def transfer(
        self,
        name: str,
        groups: ArrayLike,
        size: float,
        *,
        label: str,
        after: Iterable[int] = (),
    ) -> int:
        """Add a transfer of ``size`` bytes from the first to each other member of each row of ``(G, n)`` ``groups``.

        It starts when the sender is ready; its dependents on the sender and on the receivers wait for its end. With the
        fidelity ``per-rank`` those on the sender wait only until its bytes have left, and with
        ``per-rank-rendezvous`` it starts when the receivers are ready too.
        """
        table = np.atleast_2d(groups)
        pattern = Pattern.POINT_TO_POINT if table.shape[1] == 2 else Pattern.BROADCAST
        return self._add(TaskKind.TRANSFER, name, label, table, after, 0.0, size, pattern=pattern)

    def load(
        self,
        name: str,
        controllers: ArrayLike,
        groups: ArrayLike,
        size: float,
        *,
        label: str,
        after: Iterable[int] = (),
    ) -> int:
        """Add streams of ``size`` bytes each, from controller ``controllers[g]`` to all of row ``g`` of ``groups``."""
        return self._add(TaskKind.LOAD, name, label, np.atleast_2d(groups), after, 0.0, size, controllers=controllers)

    def store(
        self,
        name: str,
        controllers: ArrayLike,
        groups: ArrayLike,
        size: float,
        *,
        label: str,
        after: Iterable[int] = (),
    ) -> int:
        """Add streams of ``size`` bytes each, reduced over row ``g`` of ``groups`` into ``controllers[g]``."""
        return self._add(TaskKind.STORE, name, label, np.atleast_2d(groups), after, 0.0, size, controllers=controllers)

    def build(self) -> TaskGraph:
        """Return the graph."""
        offsets = np.zeros(len(self._kinds) + 1, dtype=np.intp)
        np.cumsum([len(one) for one in self._after], out=offsets[1:])
        return TaskGraph(
            ranks=self.ranks,
            kinds=np.array(self._kinds, dtype=np.intp),
            names=tuple(self._names),
            labels=np.array(self._labels, dtype=np.intp),
            label_names=tuple(self._label_index),
            flops=np.array(self._flops),
            bytes=np.array(self._bytes),
            seconds=np.array(self._seconds),
            patterns=tuple(self._patterns),
            members=np.array(self._members, dtype=np.intp),
            tables=tuple(self._tables),
            controllers=np.array(self._controllers, dtype=np.intp),
            controller_tables=tuple(self._controller_tables),
            dependency_offsets=offsets,
            dependencies=np.array([one for after in self._after for one in after], dtype=np.intp),
            blocks=np.array(self._blocks, dtype=np.intp),
            repeats=np.array(self._repeats, dtype=np.intp),
            kernels=np.array(self._kernels, dtype=np.intp),
            kernel_tables=tuple(self._kernel_index),
        )

    def _add(
        self,
        kind: TaskKind,
        name: str,
        label: str,
        table: ArrayLike,
        after: Iterable[int],
        flops: float,
        size: float,
        seconds: float = np.nan,
        pattern: Pattern | None = None,
        controllers: ArrayLike | None = None,
    ) -> int:
        index = len(self._kinds)
        limits.check("tasks", index + 1)
        members = np.ascontiguousarray(table, dtype=np.intp)
        for what, value in (("size", size), ("flops", flops), ("seconds", 0.0 if math.isnan(seconds) else seconds)):
            if not math.isfinite(value) or value < 0:
                raise InputError(f"task {name!r} has {what} {value!r}", accepted="finite and not negative")
        before = tuple(dict.fromkeys(after))
        if any(not 0 <= one < index for one in before):
            raise InputError(f"task {name!r} depends on tasks {before}, not all of which are earlier")
        key = members.shape, members.tobytes()
        if key not in self._table_index:
            self._check(name, members)
            self._table_index[key] = len(self._tables)
            self._tables.append(members)
        self._kinds.append(kind)
        self._names.append(name)
        self._labels.append(self._label_index.setdefault(label, len(self._label_index)))
        self._flops.append(float(flops))
        self._bytes.append(float(size))
        self._seconds.append(float(seconds))
        self._patterns.append(pattern)
        self._after.append(before)
        self._kernels.append(-1)
        self._blocks.append(self._block[0])
        self._repeats.append(self._block[1])
        self._members.append(self._table_index[key])
        self._controllers.append(-1 if controllers is None else self._controller_table(name, members, controllers))
        return index

    def _controller_table(self, name: str, members: IntArray, controllers: ArrayLike) -> int:
        column = np.ascontiguousarray(np.ravel(controllers), dtype=np.intp)
        if len(column) != len(members):
            raise InputError(f"task {name!r} has {len(column)} controllers for {len(members)} groups")
        key = column.tobytes()
        if key not in self._controller_index:
            self._controller_index[key] = len(self._controller_tables)
            self._controller_tables.append(column)
        return self._controller_index[key]

    def _check(self, name: str, members: IntArray) -> None:
        if not members.size:
            raise InputError(f"task {name!r} has no ranks")
        if members.min() < 0 or members.max() >= self.ranks:
            raise InputError(f"task {name!r} names rank {members.max()}", accepted=f"0 to {self.ranks - 1}")
        rows = np.sort(np.atleast_2d(members), axis=1)
        if (rows[:, 1:] == rows[:, :-1]).any():
            raise InputError(f"task {name!r} names a rank twice in one group")
