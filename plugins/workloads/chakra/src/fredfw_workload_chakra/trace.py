"""The trace of one rank in columns, and nodes one by one: what all files are read into and written from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from attrs import frozen

from fredfw import Pattern
from fredfw.typing import BoolArray, FloatArray, IntArray

Value: TypeAlias = "bool | int | float | str | tuple[bool, ...]"


class NodeType(IntEnum):
    """What a node does."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class Collective(IntEnum):
    """What a collective does."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


PATTERNS: Mapping[Collective, Pattern] = {
    **{one: Pattern(one.name.lower().replace("_", "-")) for one in Collective if one < Collective.REDUCE_SCATTER_BLOCK},
    Collective.REDUCE_SCATTER_BLOCK: Pattern.REDUCE_SCATTER,
    Collective.BARRIER: Pattern.ALL_REDUCE,
}
"""What is simulated for each; a barrier is an all-reduce of nothing."""
SHARDS = Collective.ALL_GATHER, Collective.GATHER  # those whose ``comm_size`` is what one rank has

SECONDS = "fredfw_seconds"  # an attribute of ours: the duration in seconds, where whole microseconds do not say it
ROOT = "fredfw_root"
"""An attribute of ours: the rank that is the root of a collective, where that is not the first of its communicator."""
MEANT = "fredfw_comm_type"
"""An attribute of ours: the ``comm_type`` of a collective of no bytes, which is a ``BARRIER`` to others."""
GROUP = "pg_name"
DIMENSIONS = "involved_dim"
NUMBERS = (
    *("is_cpu_op", "num_ops", "tensor_size", "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag"),
    *(SECONDS, ROOT, MEANT),
)
"""Attributes that are numbers, in any slot."""


class Node(NamedTuple):
    """One node, as the schema has it."""

    id: int  # different from that of all others of the rank
    name: str  # for people
    type: int
    data: Sequence[int] = ()  # nodes that it depends on
    control: Sequence[int] = ()
    micros: int = 0  # duration in whole microseconds
    attributes: Mapping[str, Value] = {}  # values by name
    inputs: str = ""  # what a `METADATA` node says


@frozen(eq=False)
class Trace:
    """The ``N`` nodes of one rank, in the order of the file."""

    ids: IntArray  # `(N,)` different from each other in a good file
    names: Sequence[str]
    types: IntArray  # `(N,)` of `NodeType`
    micros: FloatArray  # `(N,)` duration in microseconds, 0 where there is none
    dependency_offsets: IntArray  # `(N + 1,)`
    dependencies: IntArray  # `(E,)` ids of the nodes that each depends on, data and control
    control: BoolArray  # `(E,)` which of these are control dependencies
    numbers: Mapping[str, FloatArray]  # `(N,)` values of each of `NUMBERS`, NaN where a node has none
    groups: IntArray  # `(N,)` index into `group_names`, -1 where a node has none
    group_names: tuple[str, ...]  # names of communicators
    # which dimensions of the network a collective uses, by number of the node
    dimensions: Mapping[int, tuple[bool, ...]]
    inputs: tuple[str, ...]  # what `METADATA` nodes say
    metadata: Mapping[str, Value]  # what the file says of itself, by name

    def __len__(self) -> int:
        return len(self.ids)

    def number(self, name: str, default: float) -> FloatArray:
        """Return the ``(N,)`` values of an attribute, ``default`` where a node has none."""
        values = self.numbers[name]
        return np.where(np.isnan(values), default, values)

    @property
    def known(self) -> BoolArray:
        return np.isin(self.types, list(NodeType))

    @property
    def on_cpu(self) -> BoolArray:
        found: BoolArray = self.number("is_cpu_op", 0.0) != 0
        return found

    @property
    def seconds(self) -> FloatArray:
        exact = self.numbers[SECONDS]
        return np.where(np.isnan(exact), self.micros * 1e-6, exact)

    @classmethod
    def of(cls, nodes: Sequence[Node], metadata: Mapping[str, Value]) -> Trace:
        count = len(nodes)
        columns = {name: np.full(count, np.nan) for name in NUMBERS}
        groups, names = np.full(count, -1), dict[str, int]()
        dimensions: dict[int, tuple[bool, ...]] = {}
        for index, node in enumerate(nodes):
            for name, value in node.attributes.items():
                if name in columns and isinstance(value, bool | int | float):
                    columns[name][index] = value
                elif name == GROUP and isinstance(value, str):
                    groups[index] = names.setdefault(value, len(names))
                elif name == DIMENSIONS and isinstance(value, tuple):
                    dimensions[index] = value
        lengths = [len(one) for node in nodes for one in (node.data, node.control)]
        return cls(
            ids=np.array([node.id for node in nodes], dtype=np.int64),
            names=[node.name for node in nodes],
            types=np.array([node.type for node in nodes], dtype=np.intp),
            micros=np.array([node.micros for node in nodes], dtype=float),
            dependency_offsets=offsets([len(node.data) + len(node.control) for node in nodes]),
            dependencies=np.array([one for node in nodes for one in (*node.data, *node.control)], dtype=np.int64),
            control=np.repeat([False, True] * count, lengths).astype(bool),
            numbers=columns,
            groups=groups,
            group_names=tuple(names),
            dimensions=dimensions,
            inputs=tuple(node.inputs for node in nodes if node.type == NodeType.METADATA and node.inputs),
            metadata=metadata,
        )

    @classmethod
    def joined(cls, pieces: Sequence[Trace], metadata: Mapping[str, Value]) -> Trace:
        """Return the trace of which ``pieces`` follow each other; the last one has the names of all groups."""
        whole = "ids", "types", "micros", "dependencies", "control", "groups"
        columns: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in pieces]) for name in whole}
        firsts = np.cumsum([0, *map(len, pieces)]).tolist()
        return cls(
            **columns,
            names=[name for one in pieces for name in one.names],
            dependency_offsets=offsets(np.concatenate([np.diff(one.dependency_offsets) for one in pieces])),
            numbers={name: np.concatenate([one.numbers[name] for one in pieces]) for name in NUMBERS},
            group_names=pieces[-1].group_names,
            dimensions={
                first + node: used
                for first, one in zip(firsts, pieces, strict=False)
                for node, used in one.dimensions.items()
            },
            inputs=tuple(text for one in pieces for text in one.inputs),
            metadata=metadata,
        )


def offsets(counts: Iterable[int] | IntArray) -> IntArray:
    """Return where each of lists of such lengths begins, and where the last one ends."""
    sizes = np.asarray(counts if isinstance(counts, np.ndarray) else list(counts), dtype=np.intp)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
