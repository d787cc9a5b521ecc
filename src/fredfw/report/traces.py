"""What files of execution traces hold, as tables and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import asdict

from fredfw.answers import Asking
from fredfw.errors import InputError
from fredfw.experiment.document import document
from fredfw.report.shown import GAP, Line, Part, notes_of
from fredfw.report.tables import table_report
from fredfw.units import counted
from fredfw.workloads import TraceCalls, TraceInfo, TraceWorkload
from fredfw.workloads.twin import Distance

Infos = tuple[TraceInfo, ...]


def info(workload: TraceWorkload) -> Infos:
    """Return what the files of ``workload`` hold.

    Raises:
        InputError: A file cannot be read, or two are of the same rank.
        PluginError: The plugin fails, or does not return that.
    """
    asked = Asking(workload, "info")
    with asked:
        answer: object = workload.info()
    if not isinstance(answer, tuple | list) or not all(isinstance(one, TraceInfo) for one in answer):
        raise asked.unexpected(answer, "a tuple of fredfw.TraceInfo")
    of_rank: dict[int, str] = {}
    for one in answer:
        if one.rank in of_rank:
            message = f"is of rank {one.rank}, and so is {of_rank[one.rank]}"
            raise InputError(message, file=one.path, accepted="one file for each rank")
        if one.rank is not None:
            of_rank[one.rank] = one.path
    return tuple(answer)


def info_to_json(workload: TraceWorkload, infos: Infos) -> str:
    """Return ``infos`` as a JSON document, one entry of ``files`` each; sizes are bytes, times are seconds."""
    return document("trace-info", {"workload": workload.name, "files": [asdict(one) for one in infos]})


def info_report(workload: TraceWorkload, infos: Infos) -> list[Part]:
    """Return tables of files, nodes, communication and communicators, and the notes."""
    communicators = {name: ranks for one in infos for name, ranks in one.communicators.items()}
    title = f"{counted(len(infos), 'file')} for the workload {workload.name}"
    files = ("file", "rank", "nodes", "dependencies", "dangling", "seconds", "FLOP", "local bytes")
    sections = [
        table_report(title, files, map(_file, infos)),
        table_report("Nodes of all files by type", ("type", "nodes", "seconds"), _types(infos)),
    ]
    if any(one.calls for one in infos):
        columns = ("operation", "communicator", "calls", "bytes", "least", "most", "seconds")
        sections.append(table_report("Communication of all files", columns, _calls(infos)))
    if communicators:
        rows = [(name, len(ranks), ", ".join(map(str, ranks))) for name, ranks in communicators.items()]
        sections.append(table_report("Communicators", ("name", "size", "ranks"), rows))
    first = infos[0].facts if infos else {}
    facts = [f"{name}: {value}" for name, value in first.items() if all(one.facts.get(name) == value for one in infos)]
    notes = dict.fromkeys(note for one in infos for note in one.notes)
    if texts := [*facts, *notes]:
        sections.append([*map(Line, texts)])
    return [part for section in sections for part in (GAP, *section)][1:]


def _file(one: TraceInfo) -> Sequence[str | float]:
    rank = "" if one.rank is None else str(one.rank)
    numbers = float(sum(one.seconds.values())), float(one.flops), float(one.bytes)
    return (one.path, rank, sum(one.nodes.values()), one.dependencies, one.dangling, *numbers)


def twin_report(distances: Sequence[Distance], notes: Sequence[str] = ()) -> list[Part]:
    """Return a table of how far a statistical twin is from its original, and the ``notes`` on that."""
    columns = ("statistic", "original", "twin", "difference (%)", "KS distance")
    rows = []
    for one in distances:
        largest = "" if one.largest is None else f"{one.largest:.3f}"
        rows.append((one.statistic, one.original, one.twin, f"{100 * one.relative:+.2f}", largest))
    title = "The twin beside the original: means of nodes, and sums per rank"
    return [*table_report(title, columns, rows), *notes_of(notes)]


def _types(infos: Infos) -> list[tuple[str, int, float]]:
    nodes: Counter[str] = Counter()
    for one in infos:
        nodes.update(one.nodes)
    return [(name, count, float(sum(one.seconds.get(name, 0.0) for one in infos))) for name, count in nodes.items()]


def _calls(infos: Infos) -> Iterable[Sequence[str | float]]:
    together: dict[tuple[str, str], list[TraceCalls]] = {}
    for one in infos:
        for calls in one.calls:
            together.setdefault((calls.operation, calls.communicator), []).append(calls)
    for (operation, communicator), found in together.items():
        least, most = min(one.least for one in found), max(one.most for one in found)
        moved, seconds = sum(one.bytes for one in found), sum(one.seconds for one in found)
        count = sum(one.count for one in found)
        yield operation, communicator, count, float(moved), float(least), float(most), float(seconds)
