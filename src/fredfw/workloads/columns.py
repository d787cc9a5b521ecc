"""Nodes of traces, one for each rank and operation, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized

import numpy as np
from attrs import frozen
from numpy.typing import ArrayLike

from fredfw import arrays
from fredfw.answers import brief
from fredfw.collectives.pattern import Pattern
from fredfw.errors import InputError
from fredfw.typing import BoolArray, FloatArray, IntArray
from fredfw.units import counted
from fredfw.workloads.kinds import TaskKind
from fredfw.workloads.labels import ACCEPTED, COMPUTE, EMPTY, RESERVED

PATTERNS = tuple(Pattern)
_MESSAGES = TaskKind.SEND, TaskKind.RECEIVE
_STREAMS = TaskKind.LOAD, TaskKind.STORE
_KINDS = TaskKind.COMPUTE, TaskKind.COLLECTIVE, *_MESSAGES, *_STREAMS
_LONG = 60  # characters of a name in an error; tracers put whole signatures there
# What is charged to where nodes have no labels.
_LABELS = COMPUTE, "communication"


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
    def of(
        cls,
        ranks: int,
        *,
        rank: ArrayLike,
        kind: ArrayLike,
        dependency_offsets: ArrayLike,
        dependencies: ArrayLike,
        seconds: ArrayLike | None,
        flops: ArrayLike | None,
        bytes: ArrayLike | None,  # noqa: A002  (the field's name in the graph)
        label: ArrayLike | None,
        label_names: Sequence[str],
        pattern: ArrayLike | None,
        communicator: ArrayLike | None,
        communicators: Sequence[ArrayLike],
        root: ArrayLike | None,
        peer: ArrayLike | None,
        tag: ArrayLike | None,
        split_offsets: ArrayLike | None,
        splits: ArrayLike | None,
        memory: ArrayLike | None,
        memory_names: Sequence[str],
        names: Sequence[str] | None,
    ) -> Columns:
        """Return nodes with what is not given filled in; see ``TaskGraph.from_columns``."""
        if isinstance(communicators, str) or not isinstance(communicators, Iterable):
            raise InputError(f"{brief(communicators)} is refused", key="communicators", accepted="lists of ranks")
        if names is not None and not isinstance(names, Sized):
            raise InputError(f"{brief(names)} is refused", key="names", accepted="a list of texts")
        kinds = _whole("kind", kind)
        count = len(kinds)
        if label is None:
            label, label_names = (kinds != TaskKind.COMPUTE).astype(np.intp), label_names or _LABELS
        return cls(
            ranks=arrays.count("ranks", ranks),
            rank=_whole("rank", rank),
            kind=kinds,
            dependency_offsets=_whole("dependency_offsets", dependency_offsets),
            dependencies=_whole("dependencies", dependencies),
            seconds=_real("seconds", seconds, count, np.nan),
            flops=_real("flops", flops, count, 0.0),
            bytes=_real("bytes", bytes, count, 0.0),
            label=_whole("label", label),
            label_names=_texts("label_names", label_names),
            pattern=_whole("pattern", pattern, count, -1),
            communicator=_whole("communicator", communicator, count, -1),
            communicators=tuple(_whole("communicators", one) for one in communicators),
            root=_whole("root", root, count, -1),
            peer=_whole("peer", peer, count, -1),
            tag=_whole("tag", tag, count, 0),
            split_offsets=_whole("split_offsets", split_offsets, count + 1),
            splits=_real("splits", splits, 0, 0.0),
            memory=_whole("memory", memory, count, 0),
            memory_names=_texts("memory_names", memory_names),
            names=names,
        )

    def __len__(self) -> int:
        return len(self.kind)

    def node(self, number: int) -> str:
        """Return a node in words."""
        name = "" if self.names is None else f" {_shortened(str(self.names[number]))!r}"
        return f"node {number}{name} of rank {self.rank[number]}"

    def check(self) -> None:
        """Raise ``InputError`` where a node cannot be by itself."""
        count = len(self)
        for key in (
            *("rank", "seconds", "flops", "bytes", "label", "pattern", "communicator", "root", "peer", "tag"),
            "memory",
        ):
            if len(getattr(self, key)) != count:
                message = f"{counted(len(getattr(self, key)), 'value')} for {counted(count, 'node')}"
                raise InputError(message, key=key, accepted=str(count))
        if self.names is not None and len(self.names) != count:
            raise InputError(
                f"{counted(len(self.names), 'value')} for {counted(count, 'node')}", key="names", accepted=str(count)
            )
        _check_rows("dependency_offsets", self.dependency_offsets, count, len(self.dependencies))
        _check_rows("split_offsets", self.split_offsets, count, len(self.splits))
        everybody = np.ones(count, dtype=bool)
        messages, collectives = np.isin(self.kind, _MESSAGES), self.kind == TaskKind.COLLECTIVE
        self._check_whole("rank", everybody, self.ranks)
        known = np.isin(self.kind, _KINDS)
        if not known.all():
            node = int(known.argmin())
            accepted = ", ".join(f"{one.value} ({one.name.lower()})" for one in _KINDS)
            raise InputError(f"{self.node(node)} has kind {self.kind[node]}", key="kind", accepted=accepted)
        self._check_whole("label", everybody, len(self.label_names))
        self._check_labels()
        self._check_whole("pattern", collectives, len(PATTERNS))
        self._check_whole("communicator", collectives, len(self.communicators))
        self._check_whole("peer", messages, self.ranks)
        self._check_whole("memory", np.isin(self.kind, _STREAMS), len(self.memory_names))
        for key in ("seconds", "flops", "bytes"):
            values: FloatArray = getattr(self, key)
            fits = np.isfinite(values) & (values >= 0)
            if key == "seconds":
                fits |= np.isnan(values)
            if not fits.all():
                node = int(fits.argmin())
                raise InputError(
                    f"{self.node(node)} has {key} {values[node]}", key=key, accepted="finite and not negative"
                )
        if not (np.isfinite(self.splits) & (self.splits >= 0)).all():
            raise InputError("sizes that are no numbers of bytes", key="splits", accepted="finite and not negative")
        itself = messages & (self.peer == self.rank)
        if itself.any():
            node = int(itself.argmax())
            raise InputError(f"{self.node(node)} is a message to itself", key="peer", accepted="another rank")
        before, after = self.dependencies, np.repeat(np.arange(count), np.diff(self.dependency_offsets))
        outside = (before < 0) | (before >= count)
        if outside.any():
            edge = int(outside.argmax())
            raise InputError(
                f"{self.node(int(after[edge]))} depends on node {before[edge]}, which does not exist",
                key="dependencies",
                accepted=f"0 to {count - 1}",
            )
        apart = self.rank[before] != self.rank[after]
        if apart.any():
            edge = int(apart.argmax())
            raise InputError(
                f"{self.node(int(after[edge]))} depends on {self.node(int(before[edge]))}",
                key="dependencies",
                accepted="nodes of the same rank; ranks wait for each other by messages and collectives",
            )

    def _check_labels(self) -> None:
        """Refuse labels that say nothing, and those that would charge communication to something else."""
        if "" in self.label_names:
            what = f"label {self.label_names.index('')} is empty"
            raise InputError(what, key="label_names", accepted=EMPTY)
        reserved = [number for number, name in enumerate(self.label_names) if name in RESERVED]
        wrong = np.isin(self.label, reserved) & (self.kind != TaskKind.COMPUTE)
        if wrong.any():
            node = int(wrong.argmax())
            what = f"{self.node(node)} communicates and has the label {self.label_names[self.label[node]]!r}"
            raise InputError(what, key="label", accepted=ACCEPTED)

    def _check_whole(self, key: str, nodes: BoolArray, limit: int) -> None:
        values: IntArray = getattr(self, key)
        wrong = nodes & ((values < 0) | (values >= limit))
        if wrong.any():
            node = int(wrong.argmax())
            accepted = f"0 to {limit - 1}" if limit else "nothing, since there are none"
            what = f"node {node} has {key} {values[node]}"
            raise InputError(what, key=key, accepted=accepted)


def _shortened(name: str) -> str:
    return name if len(name) <= _LONG else f"{name[: _LONG - 3]}..."


def _check_rows(key: str, offsets: IntArray, rows: int, values: int) -> None:
    steps = np.diff(offsets)
    if len(offsets) != rows + 1 or offsets[0] != 0 or offsets[-1] != values or (steps < 0).any():
        accepted = f"{rows + 1} numbers that grow from 0 to {values}, of which node i has those from i to i + 1"
        raise InputError(
            f"{counted(len(offsets), 'offset')} of {counted(values, 'value')} for {counted(rows, 'node')}",
            key=key,
            accepted=accepted,
        )


def _whole(key: str, values: ArrayLike | None, count: int = 0, missing: int = 0) -> IntArray:
    """Return ``values`` as ``(n,)`` whole numbers, or ``count`` times what stands for those that are ``missing``."""
    if values is None:
        return np.full(count, missing)
    array = arrays.whole(values)
    if array is None or array.ndim != 1:
        raise InputError(f"{brief(values)} is refused", key=key, accepted="an array of whole numbers")
    return array


def _real(key: str, values: ArrayLike | None, count: int, missing: float) -> FloatArray:
    """Return ``values`` as ``(n,)`` numbers, likewise."""
    if values is None:
        return np.full(count, missing)
    array = arrays.real(values)
    if array is None or array.ndim != 1:
        raise InputError(f"{brief(values)} is refused", key=key, accepted="an array of numbers")
    return array


def _texts(key: str, values: object) -> tuple[str, ...]:
    texts = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (None,)
    if not all(isinstance(one, str) for one in texts):
        raise InputError(f"{brief(values)} is refused", key=key, accepted="a list of texts")
    return texts
