"""What workloads and placements must answer."""

import math
from collections.abc import Mapping
from numbers import Real

import numpy as np

from fredfw import limits
from fredfw.answers import TEXTS, Asking, Kind, Method, brief, instance, or_none, sequence
from fredfw.workloads.graph import TaskGraph
from fredfw.workloads.kinds import ROW, TaskKind
from fredfw.workloads.mesh import DeviceMesh
from fredfw.workloads.placement import NPUS, Placement, check_places
from fredfw.workloads.workload import Label, MemoryUse, System, TraceInfo, TraceWorkload, Work, Workload


def _check_memory(asked: Asking, answer: MemoryUse, *_: object) -> None:
    tiers: object = answer.tiers
    if not isinstance(tiers, Mapping):
        raise asked.wrong(f"returned tiers of {brief(tiers)}", "bytes by the name of a memory tier")
    parts: dict[str, object] = {**answer.parts, **tiers}
    for part, value in parts.items():
        if not isinstance(value, Real) or not 0 <= float(value) < math.inf:
            raise asked.wrong(f"returned {part} of {brief(value)}", "bytes, finite and not negative")
    number: object = answer.in_flight
    if not isinstance(number, Real) or not 0 < float(number) < math.inf:
        raise asked.wrong(f"returned in_flight of {brief(number)}", "microbatches, finite and above 0")


def _are_labels(answer: object) -> bool:
    return isinstance(answer, Mapping) and all(
        isinstance(name, str) and isinstance(one, Label) for name, one in answer.items()
    )


def _check_priorities(asked: Asking, answer: Mapping[str, Label], *_: object) -> None:
    classes = [one.priority for one in answer.values() if one.priority is not None]
    if len(set(classes)) < len(classes):
        raise asked.wrong(f"returned labels with the priorities {classes}", "a different one for each label")


mesh = Method(Workload.mesh, instance(DeviceMesh))
memory = Method(Workload.memory, instance(MemoryUse), _check_memory)
work = Method(Workload.work, or_none(instance(Work)))
labels = Method(Workload.labels, Kind[Mapping[str, Label]]("fredfw.Label by label", _are_labels), _check_priorities)
notes = Method(Workload.notes, TEXTS)
omissions = Method(Workload.omissions, TEXTS)
infos = Method(TraceWorkload.info, sequence(lambda one: isinstance(one, TraceInfo), "a tuple of fredfw.TraceInfo"))
places = Method(Placement.assign, NPUS, check_places)
_graph = Method(Workload.graph, instance(TaskGraph))


def graph(workload: Workload, system: System, workers: int) -> TaskGraph:
    answer = _graph(workload, system)
    asked = Asking(workload, "graph")
    if answer.ranks != workers:
        raise asked.wrong(f"returned a graph of {answer.ranks} ranks", f"{workers}, as mesh() says")
    tasks = len(answer)
    limits.check("tasks", tasks)
    for name in ("labels", "members", "patterns", "names", *ROW):
        column = getattr(answer, name)
        if len(column) != tasks:
            raise asked.wrong(f"returned a graph with {len(column)} {name}", f"{tasks}, one for each task")
    for name, column, limit in (
        ("labels", answer.labels, len(answer.label_names)),
        ("members", answer.members, len(answer.tables)),
        *(("ranks", table, workers) for table in answer.tables),
        ("flops", answer.flops, math.inf),
        ("bytes", answer.bytes, math.inf),
    ):
        if column.size and not 0 <= column.min() <= column.max() < limit:
            expected = "finite, not negative" if limit == math.inf else f"0 to {limit - 1}"
            raise asked.wrong(f"returned a graph with {name} {column.min()} to {column.max()}", expected)
    _check_messages(asked, answer)
    return answer


def _check_messages(asked: Asking, graph: TaskGraph) -> None:
    """Make sure that each send is received by a later task, both of one rank."""
    numbers, partners = np.arange(len(graph)), graph.partners
    sends, receives = graph.kinds == TaskKind.SEND, graph.kinds == TaskKind.RECEIVE
    alone = np.array([table.shape == (1,) for table in graph.tables], dtype=bool)
    known = (partners >= 0) & (partners < len(graph))
    other = np.where(known, partners, numbers)
    fits = known & alone[graph.members] & (partners[other] == numbers)
    fits &= np.where(sends, receives[other] & (other > numbers), sends[other])
    wrong = (sends | receives) & ~fits
    if wrong.any():
        task = int(wrong.argmax())
        accepted = "sends of a rank and later receives of another, as GraphBuilder makes them"
        raise asked.wrong(f"returned a graph in which task {task} is a message with partner {partners[task]}", accepted)
