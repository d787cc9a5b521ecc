"""The workload ``chakra``: the execution traces of all ranks."""

from functools import lru_cache
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import DeviceMesh, File, Files, System, TaskGraph, TraceCalls, TraceInfo, TraceWorkload, units
from fredfw.units import counted
from fredfw_workload_chakra import graph, reading
from fredfw_workload_chakra.graph import ALL, Groups
from fredfw_workload_chakra.trace import PATTERNS, Collective, NodeType, Trace

_FORMS = (b'"workload_graph"', b'"node_type"', b'"COMP_NODE"', b'"ctrlDeps"', b'"ctrl_deps"', b'"durationMicros"')

_LONG = 100  # characters of a value that are shown; converters put whole files there


@frozen
class Chakra(TraceWorkload):
    """Chakra execution traces, one file per rank, as ASTRA-sim runs them.

    The files are ``.et`` (Protocol Buffers, schema 0.0.4 or later, compressed by gzip or not), or JSON as ASTRA-sim's
    feeder, ``chakra_jsonizer`` and STAGE write it. Their names end in the rank: ``gpt.0.et``, ``gpt.1.et``.

    A node starts when all that it depends on, data and control, is done. Each rank has one computation at a time, of
    the GPU or of the CPU (ASTRA-sim: one of each), and any communication (ASTRA-sim: one in flight). With ``replay`` a
    computation takes ``duration_micros``; with ``roofline`` that of the GPU follows from ``num_ops`` and
    ``tensor_size``. MEM_LOAD and MEM_STORE move ``tensor_size`` bytes between a memory tier and the NPU.

    ``comm_size`` is one rank's share of an all-gather or gather, else the whole buffer (of a reduce-scatter its input).
    ``pg_name`` names a communicator of ``comm_groups``, or of PyTorch's process groups in the trace; none, an empty
    one, or ``0`` where ``comm_groups`` has no such name, is all ranks. A rooted collective starts at the first rank of
    its communicator. A barrier is an all-reduce of nothing.
    """

    name: ClassVar[str] = "chakra"

    traces: Files = units.files(help="one file for each rank, with the rank in its name: gpt.0.et, gpt.1.et")
    comm_groups: File | None = units.file(None, help='communicators, {"1": [0, 1], ...}')
    mode: str = units.choice(
        ("replay", "roofline"),
        help="replay: computations take the duration in the trace; roofline: the NPU decides by FLOPs and bytes",
    )
    control_dependencies: bool = units.flag(
        True, help="whether nodes wait for control dependencies, too, which older feeders of ASTRA-sim pass over"
    )
    dimensions: tuple[int, ...] = units.option(
        (),
        converter=lambda value: tuple(value) if isinstance(value, list) else value,
        validator=units.whole(1),
        help="sizes of the network's dimensions, the fastest first, for collectives over some of them (involved_dim)",
    )
    remote_memory: str | None = units.option(
        None, help="memory tier of the fabric that MEM_LOAD and MEM_STORE use; default: the last one"
    )

    @classmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        if name.removesuffix(".gz").endswith((".et", ".eg")):
            return True
        return reading.is_json(head) and b'"traceEvents"' not in head and any(form in head for form in _FORMS)

    def info(self) -> tuple[TraceInfo, ...]:
        listed = graph.listed(self.comm_groups)
        return tuple(_described(file, listed) for file in self.traces.files)

    def mesh(self, system: System) -> DeviceMesh:
        """Return one axis with as many ranks as there are files; communicators are those of ``comm_groups``."""
        ranks = len(reading.by_rank(self.traces.files))
        listed = graph.listed(self.comm_groups)
        known = {name: np.array([group]) for name, group in listed.items() if max(group) < ranks}
        return DeviceMesh({"rank": ranks}, known)

    def graph(self, system: System) -> TaskGraph:
        found, _ = _loaded(self)
        if not found.memory_names and self.remote_memory is None:
            return found
        last = system.memories[-1].name if system.memories else "remote"
        tier = system.memory(self.remote_memory or last, key="remote_memory")
        return evolve(found, memory_names=(tier.name,)) if found.memory_names else found

    def notes(self, system: System) -> tuple[str, ...]:
        found, notes = _loaded(self)
        if found.ranks == system.npus:
            return notes
        sizes = f"{counted(found.ranks, 'rank')} on {counted(system.npus, 'NPU')}"
        return (f"traces of {sizes}; ASTRA-sim needs a file for each", *notes)


# A run asks for the graph and then for the notes; the next one may be of other files.
_loaded = lru_cache(maxsize=1)(graph.load)


def _described(file: File, listed: Groups) -> TraceInfo:
    trace = reading.read(file)
    types = {one.name: trace.types == one for one in NodeType}
    present = {name: chosen for name, chosen in types.items() if chosen.any()}
    others = int((~trace.known).sum())
    computes = types["COMP"]
    cpu, control = int(trace.on_cpu.sum()), int(trace.control.sum())
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
        communicators={**graph.within(trace), **listed},
        dependencies=len(trace.dependencies),
        dangling=int((~np.isin(trace.dependencies, trace.ids)).sum()),
        flops=float(np.nansum(trace.numbers["num_ops"][computes])),
        bytes=float(np.nansum(trace.numbers["tensor_size"][computes])),
        facts=facts,
        notes=(f"{file.path}: {counted(repeated, 'node')} with the id of another one",) if repeated else (),
    )


def _calls(trace: Trace) -> tuple[TraceCalls, ...]:
    found: dict[tuple[str, str], list[int]] = {}
    types = trace.number("comm_type", -1.0)
    for index in np.flatnonzero(trace.types >= NodeType.COMM_SEND).tolist():
        found.setdefault(_kind(trace, index, int(types[index])), []).append(index)
    sizes, seconds = trace.number("comm_size", 0.0), trace.seconds
    calls = []
    for key, which in found.items():
        moved = sizes[which]
        numbers = moved.sum(), moved.min(), moved.max(), seconds[which].sum()
        calls.append(TraceCalls(*key, len(which), *map(float, numbers)))
    return tuple(calls)


def _kind(trace: Trace, index: int, collective: int) -> tuple[str, str]:
    if trace.types[index] != NodeType.COMM_COLL:
        return ("send" if trace.types[index] == NodeType.COMM_SEND else "receive"), ""
    name = trace.group_names[trace.groups[index]] if trace.groups[index] >= 0 else ALL
    if collective in (Collective.BARRIER, Collective.REDUCE_SCATTER_BLOCK):
        return Collective(collective).name.lower().replace("_", "-"), name
    known = collective in list(Collective)
    return str(PATTERNS[Collective(collective)]) if known else "collective without comm_type", name
