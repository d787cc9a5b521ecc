"""Nodes of traces, one for each rank and operation, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from attrs import frozen

from fredfw import arrays
from fredfw.answers import brief
from fredfw.collectives.pattern import Pattern
from fredfw.errors import InputError
from fredfw.typing import AnyArray, BoolArray, FloatArray, IntArray
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
_WHOLE = {
    **dict.fromkeys(("kind", "rank", "dependency_offsets", "dependencies")),
    "label": None,
    "pattern": -1,
    "communicator": -1,
    "root": -1,
    "peer": -1,
    "tag": 0,
    "split_offsets": 0,
    "memory": 0,
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
        """Return nodes with what is not ``given`` filled in; see ``TaskGraph.from_columns``."""
        found: dict[str, Any] = {"names": given["names"]}
        if isinstance(given["communicators"], str) or not isinstance(given["communicators"], Iterable):
            what = brief(given["communicators"])
            raise InputError(f"{what} is refused", key="communicators", accepted="lists of ranks")
        if found["names"] is not None and not isinstance(found["names"], Sized):
            raise InputError(f"{brief(found['names'])} is refused", key="names", accepted="a list of texts")
        kinds = _numbers("kind", given["kind"])
        lengths = {"split_offsets": len(kinds) + 1, "splits": 0}
        filled = {**given}
        if given["label"] is None:
            filled |= {"label": kinds != TaskKind.COMPUTE, "label_names": given["label_names"] or _LABELS}
        for known, real in ((_WHOLE, False), (_REAL, True)):
            for name, missing in known.items():
                values = filled[name]
                if values is None and missing is not None:
                    found[name] = np.full(lengths.get(name, len(kinds)), missing)
                else:
                    found[name] = _numbers(name, values, real=real)
        return cls(
            ranks=arrays.count("ranks", given["ranks"]),
            communicators=tuple(_numbers("communicators", one) for one in given["communicators"]),
            label_names=_texts("label_names", filled["label_names"]),
            memory_names=_texts("memory_names", given["memory_names"]),
            **found,
        )

    def __len__(self) -> int:
        return len(self.kind)

    def node(self, number: int | np.intp) -> str:
        """Return a node in words."""
        name = "" if self.names is None else f" {_shortened(str(self.names[int(number)]))!r}"
        return f"node {number}{name} of rank {self.rank[number]}"

    def check(self) -> None:
        """Raise ``InputError`` where a node cannot be by itself."""
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
        """Refuse labels that say nothing, and those that would charge communication to something else."""
        if "" in self.label_names:
            what = f"label {self.label_names.index('')} is empty"
            raise InputError(what, key="label_names", accepted=EMPTY)
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
    """Raise ``InputError`` for the first that is ``wrong``."""
    if wrong.any():
        raise InputError(what(int(wrong.argmax())), key=key, accepted=accepted)


def _impossible(amounts: FloatArray) -> BoolArray:
    return ~(np.isfinite(amounts) & (amounts >= 0))


def _shortened(name: str) -> str:
    return name if len(name) <= _LONG else f"{name[: _LONG - 3]}..."


def _numbers(key: str, values: object, *, real: bool = False) -> AnyArray:
    """Return ``values`` as ``(n,)`` whole or real numbers."""
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
