"""The analytic model of LIBRA: the bytes that an NPU sends in each dimension, without latencies and overlap."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen

from fredfw import Fabric, Npu, Pattern, System, TaskGraph, TaskKind, Workload
from fredfw.errors import InputError, UnsupportedError
from fredfw.typing import FloatArray, IntArray

PATTERNS = Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER, Pattern.ALL_TO_ALL  # what the model knows


@frozen
class Collective:
    """A collective of all groups along some axes."""

    pattern: Pattern  # one of ``PATTERNS``
    size: float  # bytes that each NPU has (all-reduce, reduce-scatter, all-to-all) or gets (all-gather)
    axes: tuple[str, ...]  # names of the axes whose positions a group has
    count: float = 1.0  # how often an iteration has it


@frozen(eq=False)
class Demand:
    """What a workload asks of a network of dimensions."""

    messages: FloatArray  # ``(collectives, dimensions)`` bytes that an NPU sends
    counts: FloatArray  # ``(collectives,)`` how often
    compute: float  # seconds of computation
    graph: TaskGraph | None = None  # of a plugin's workload
    notes: tuple[str, ...] = ()  # what a reader must know


def messages(pattern: Pattern, size: float, parts: Sequence[int]) -> list[float]:
    """Return the bytes that an NPU sends in each dimension; ``parts``: positions of a group there, innermost first."""
    if pattern is Pattern.ALL_TO_ALL:
        return [size * (part - 1) / part for part in parts]
    # The data shrinks from dimension to dimension; an all-gather goes the same way back and sends the same.
    passes = 2 if pattern is Pattern.ALL_REDUCE else 1
    found = []
    for part in parts:
        found.append(passes * size * (part - 1) / part)
        size /= part
    return found


def placed(axes: Mapping[str, int], sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return how many positions each axis has in each dimension: the first axis takes the first dimensions."""
    left, found = list(sizes), {}
    npus = math.prod(sizes)
    if math.prod(axes.values()) != npus:
        product = " x ".join(f"{name} {size}" for name, size in axes.items())
        raise InputError(f"{product} are not the {npus} NPUs of the network", key="axes", accepted="sizes that are")
    for name, size in axes.items():
        parts, rest = [], size
        for dimension, free in enumerate(left):
            part = math.gcd(rest, free)
            if 1 < rest != part < free:
                shape = " x ".join(map(str, sizes))
                message = f"{name} {size} does not end at a whole part of a dimension of {shape}"
                raise InputError(message, key=f"axes.{name}", accepted="sizes whose products divide the dimensions")
            parts.append(part)
            left[dimension], rest = free // part, rest // part
        found[name] = tuple(parts)
    return found


def demand(collectives: Sequence[Collective], axes: Mapping[str, int], compute: float, sizes: Sequence[int]) -> Demand:
    """Return what collectives along ``axes`` ask of dimensions of ``sizes``; raises ``InputError`` as ``placed``."""
    parts = placed(axes, sizes)
    rows = [
        messages(one.pattern, one.size, np.prod([parts[axis] for axis in one.axes], axis=0).tolist())
        for one in collectives
    ]
    return Demand(np.array(rows).reshape(-1, len(sizes)), np.array([one.count for one in collectives]), compute)


def demand_of_graph(workload: Workload, fabric: Fabric, npu: Npu) -> Demand:
    """Return what rank 0 of the iteration asks, where nothing overlaps; rank r is on NPU r."""
    graph = workload.graph(System(len(fabric.npus), len(fabric.controllers)))
    rows: dict[tuple[float, ...], float] = {}
    compute, others = 0.0, set[str]()
    for task in range(len(graph)):
        if 0 not in graph.participants(task):
            continue
        times = float(graph.repeats[task])
        kind = TaskKind(graph.kinds[task])
        if kind is TaskKind.COMPUTE:
            given = float(graph.seconds[task])
            kernels = graph.kernel_tables[graph.kernels[task]] if graph.kernels[task] >= 0 else None
            work = float(graph.flops[task]), float(graph.bytes[task]), kernels
            compute += times * (npu.seconds(*work) if np.isnan(given) else given)
        elif kind is TaskKind.COLLECTIVE:
            table = graph.tables[graph.members[task]]
            group = table[(table == 0).any(axis=1)][0]
            pattern = graph.patterns[task]
            if pattern not in PATTERNS:
                raise UnsupportedError(f"the model has no {pattern}", accepted=", ".join(PATTERNS))
            row = tuple(messages(pattern, float(graph.bytes[task]), _extent(fabric, group)))
            if any(row):
                rows[row] = rows.get(row, 0.0) + times
        else:
            others.add(kind.name.lower())
    if not rows:
        raise InputError("has no collective among several NPUs", accepted="a workload with collectives")
    notes = (f"the analytic model leaves out: {', '.join(sorted(others))}",) if others else ()
    return Demand(np.array(list(rows)), np.array(list(rows.values())), compute, graph, notes)


def _extent(fabric: Fabric, group: IntArray) -> list[int]:
    if fabric.coordinates is None:
        raise UnsupportedError("the fabric has no dimensions", accepted="a product of dimensions")
    parts = [len(np.unique(column)) for column in fabric.coordinates[group].T]
    if math.prod(parts) != len(group):
        message = f"a group of {len(group)} NPUs is not a product of positions in the dimensions"
        raise UnsupportedError(message, accepted="groups that are")
    return parts
