"""What one file of a trace holds, for people."""

from __future__ import annotations

import numpy as np

from fredfw import File, TraceCalls, TraceInfo
from fredfw.units import counted
from fredfw_workload_chakra import communicators, reading
from fredfw_workload_chakra.communicators import ALL, Groups
from fredfw_workload_chakra.trace import PATTERNS, Collective, NodeType, Trace

_LONG = 100  # characters of a value; converters put whole files there


def describe(file: File, listed: Groups) -> TraceInfo:
    """Return what ``file`` holds.

    Args:
        file: The trace of one rank.
        listed: Communicators that are known from elsewhere.

    Raises:
        InputError: It cannot be read.
    """
    trace = reading.read(file)
    types = {one.name: trace.types == one for one in NodeType}
    present = {name: chosen for name, chosen in types.items() if chosen.any()}
    others = int((trace.types > max(NodeType)).sum())
    computes = types["COMP"]
    cpu = int(trace.on_cpu.sum())
    control = int(trace.control.sum())
    data = len(trace.dependencies) - control
    facts: dict[str, str | int | float] = {"data dependencies": data, "control dependencies": control}
    facts |= {"operations of the CPU": cpu} if cpu else {}
    for name, value in trace.metadata.items():
        text = str(value)
        facts[name] = text if len(text) <= _LONG else f"{len(text)} characters"
    repeated = len(trace) - len(np.unique(trace.ids))
    return TraceInfo(
        path=file.path,
        rank=reading.rank_of(file),
        nodes={name: int(chosen.sum()) for name, chosen in present.items()} | ({"unknown": others} if others else {}),
        seconds={name: float(trace.seconds[chosen].sum()) for name, chosen in present.items()},
        calls=_calls(trace),
        communicators={**communicators.within(trace), **listed},
        dependencies=len(trace.dependencies),
        dangling=int((~np.isin(trace.dependencies, trace.ids)).sum()),
        flops=float(np.nansum(trace.numbers["num_ops"][computes])),
        bytes=float(np.nansum(trace.numbers["tensor_size"][computes])),
        facts=facts,
        notes=(f"{file.path}: {counted(repeated, 'node')} with the id of another one",) if repeated else (),
    )


def _calls(trace: Trace) -> tuple[TraceCalls, ...]:
    """Return what is communicated, by operation and communicator."""
    found: dict[tuple[str, str], list[int]] = {}
    types = trace.number("comm_type", -1.0)
    for index in np.flatnonzero(trace.types >= NodeType.COMM_SEND).tolist():
        found.setdefault(_kind(trace, index, int(types[index])), []).append(index)
    sizes, seconds = trace.number("comm_size", 0.0), trace.seconds
    return tuple(
        TraceCalls(
            operation,
            communicator,
            len(which),
            float(sizes[which].sum()),
            float(sizes[which].min()),
            float(sizes[which].max()),
            float(seconds[which].sum()),
        )
        for (operation, communicator), which in found.items()
    )


def _kind(trace: Trace, index: int, collective: int) -> tuple[str, str]:
    """Return what a node that communicates does, and on which communicator."""
    if trace.types[index] != NodeType.COMM_COLL:
        return ("send" if trace.types[index] == NodeType.COMM_SEND else "receive"), ""
    name = trace.group_names[trace.groups[index]] if trace.groups[index] >= 0 else ALL
    if collective in (Collective.BARRIER, Collective.REDUCE_SCATTER_BLOCK):
        return Collective(collective).name.lower().replace("_", "-"), name
    known = collective in list(Collective)
    return str(PATTERNS[Collective(collective)]) if known else "collective without comm_type", name
