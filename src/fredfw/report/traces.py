"""What files of execution traces hold, as tables and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import asdict

from fredfw.answers import Asking
from fredfw.errors import InputError
from fredfw.experiment.document import document
from fredfw.report.shown import GAP, Line, Part, notes_of
from fredfw.report.tables import table_report
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
    content: dict[str, Any] = {"workload": workload.name, "files": [asdict(one) for one in infos]}
    return document("trace-info", content)


def info_report(workload: TraceWorkload, infos: Infos) -> list[Part]:
    """Return tables of files, nodes, communication and communicators, and the notes."""
    communicators = {name: ranks for one in infos for name, ranks in one.communicators.items()}
    sections = [
        table_report(
            f"{len(infos)} {'file' if len(infos) == 1 else 'files'} for the workload {workload.name}",
            ("file", "rank", "nodes", "dependencies", "dangling", "seconds", "FLOP", "local bytes"),
            [
                (
                    one.path,
                    "" if one.rank is None else str(one.rank),
                    sum(one.nodes.values()),
                    one.dependencies,
                    one.dangling,
                    float(sum(one.seconds.values())),
                    float(one.flops),
                    float(one.bytes),
                )
                for one in infos
            ],
        ),
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
    return [part for number, section in enumerate(sections) for part in ([GAP, *section] if number else section)]


def twin_report(distances: Sequence[Distance], notes: Sequence[str] = ()) -> list[Part]:
    """Return a table of how far a statistical twin is from its original, and the ``notes`` on that."""
    columns = ("statistic", "original", "twin", "difference (%)", "KS distance")
    table = table_report(
        "The twin beside the original: means of nodes, and sums per rank",
        columns,
        [
            (
                one.statistic,
                one.original,
                one.twin,
                f"{100 * one.relative:+.2f}",
                "" if one.largest is None else f"{one.largest:.3f}",
            )
            for one in distances
        ],
    )
    return [*table, *notes_of(notes)]


def _types(infos: Infos) -> list[tuple[str, int, float]]:
    nodes: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    for one in infos:
        nodes.update(one.nodes)
        for name, value in one.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + value
    return [(name, count, seconds.get(name, 0.0)) for name, count in nodes.items()]


def _calls(infos: Infos) -> Iterable[Sequence[str | float]]:
    together: dict[tuple[str, str], list[TraceCalls]] = {}
    for one in infos:
        for calls in one.calls:
            together.setdefault((calls.operation, calls.communicator), []).append(calls)
    for (operation, communicator), found in together.items():
        yield (
            operation,
            communicator,
            sum(one.count for one in found),
            float(sum(one.bytes for one in found)),
            float(min(one.least for one in found)),
            float(max(one.most for one in found)),
            float(sum(one.seconds for one in found)),
        )
