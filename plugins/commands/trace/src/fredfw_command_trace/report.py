"""What files of execution traces hold, and how far a twin is from its original, as tables and as JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import asdict

from fredfw import TraceCalls, TraceInfo, TraceWorkload
from fredfw.cli import table
from fredfw.units import counted
from fredfw_command_trace.distance import Distance

Row = Sequence[str | float]


def info_to_json(workload: TraceWorkload, infos: Sequence[TraceInfo]) -> str:
    """Return ``infos`` as a JSON document, one entry of ``files`` each; sizes are bytes, times are seconds."""
    head = {"format": "fredfw.trace-info", "version": 1, "workload": workload.name}
    document = {**head, "files": [asdict(one) for one in infos]}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def info_report(workload: TraceWorkload, infos: Sequence[TraceInfo]) -> list[Any]:
    communicators = {name: ranks for one in infos for name, ranks in one.communicators.items()}
    title = f"{counted(len(infos), 'file')} for the workload {workload.name}"
    files = ("file", "rank", "nodes", "dependencies", "dangling", "seconds", "FLOP", "local bytes")
    report = table(title, files, map(_file, infos))
    report += ["", *table("Nodes of all files by type", ("type", "nodes", "seconds"), _types(infos))]
    if any(one.calls for one in infos):
        columns = ("operation", "communicator", "calls", "bytes", "least", "most", "seconds")
        report += ["", *table("Communication of all files", columns, _calls(infos))]
    if communicators:
        rows = [(name, len(ranks), ", ".join(map(str, ranks))) for name, ranks in communicators.items()]
        report += ["", *table("Communicators", ("name", "size", "ranks"), rows)]
    first = infos[0].facts if infos else {}
    facts = [f"{name}: {value}" for name, value in first.items() if all(one.facts.get(name) == value for one in infos)]
    if texts := [*facts, *dict.fromkeys(note for one in infos for note in one.notes)]:
        report += ["", *texts]
    return report


def twin_report(distances: Iterable[Distance], notes: Iterable[str]) -> list[Any]:
    columns = ("statistic", "original", "twin", "difference (%)", "KS distance")
    rows = []
    for one in distances:
        largest = "" if one.largest is None else f"{one.largest:.3f}"
        rows.append((one.statistic, one.original, one.twin, f"{100 * one.relative:+.2f}", largest))
    title = "The twin beside the original: means of nodes, and sums per rank"
    return [*table(title, columns, rows), *(f"note: {note}" for note in notes)]


def _file(one: TraceInfo) -> Row:
    rank = "" if one.rank is None else str(one.rank)
    numbers = float(sum(one.seconds.values())), float(one.flops), float(one.bytes)
    return (one.path, rank, sum(one.nodes.values()), one.dependencies, one.dangling, *numbers)


def _types(infos: Iterable[TraceInfo]) -> list[Row]:
    nodes: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for one in infos:
        nodes.update(one.nodes)
        seconds.update(one.seconds)
    return [(name, count, float(seconds[name])) for name, count in nodes.items()]


def _calls(infos: Iterable[TraceInfo]) -> Iterable[Row]:
    together: dict[tuple[str, str], list[TraceCalls]] = {}
    for one in infos:
        for calls in one.calls:
            together.setdefault((calls.operation, calls.communicator), []).append(calls)
    for (operation, communicator), found in together.items():
        least, most = min(one.least for one in found), max(one.most for one in found)
        moved, seconds = sum(one.bytes for one in found), sum(one.seconds for one in found)
        count = sum(one.count for one in found)
        yield operation, communicator, count, float(moved), float(least), float(most), float(seconds)
