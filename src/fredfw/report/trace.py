"""A run as a Chrome trace (Trace Event Format), which Perfetto and chrome://tracing open.

One process per NPU; in it one thread for computation, one for what the NPU waits for (exposed time), and one per label
of communication, with further ones where spans of a label overlap. One process more for the network, with a counter per
tier of links. Format: "Trace Event Format", Google: complete events (``X``), metadata (``M``), flows (``s``, ``f``) and
counters (``C``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fredfw import limits
from fredfw.errors import LimitError
from fredfw.experiment.results import RunResult
from fredfw.fabric.tiers import tiers_of
from fredfw.numbers import parse_numbers, shortened
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import TaskGraph, TaskKind
from fredfw.workloads.labels import BUBBLE, COMPUTE, OWN

EXPOSED = "exposed"
_NS = 1e9
_MEMBERS = 8  # ranges of ranks that are written out
_UTILIZATION = "utilization (%)"
_POINTS = 20_000  # of a counter


def trace_to_json(result: RunResult, ranks: str = "") -> str:
    """Return the timeline of ``result`` as JSON; a span of several ranks appears on each of their NPUs.

    Times are on a grid of 1 ns, the resolution of the viewers. Start and end are rounded, not start and duration, so
    that spans that follow each other never overlap.

    Args:
        result: The run.
        ranks: Those to show, such as ``0-7,64``; all where it is empty.

    Raises:
        InputError: There is no such rank; ``LimitError`` where there is too much to show.
    """
    document = {
        "displayTimeUnit": "ns",
        "otherData": {
            "workload": result.workload,
            "fabric": result.fabric_name,
            "fidelity": result.provenance["fidelity"],
            "ranks": ranks or f"0-{len(result.placement) - 1}",
        },
        "traceEvents": trace_events(result, ranks),
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"


def trace_events(result: RunResult, ranks: str = "") -> list[dict[str, Any]]:
    """Return the events of ``result``: metadata, slices by start, NPU and thread, flows, counters; times in us.

    Arguments and errors are those of ``trace_to_json``.
    """
    count = result.timeline.graph.ranks
    chosen = parse_numbers(ranks, count, what="rank", key="ranks") if ranks else list(range(count))
    return _Trace(result, sorted(chosen)).events()


class _Trace:
    """One trace.

    Args:
        result: The run.
        chosen: Ranks to show, sorted.
    """

    def __init__(self, result: RunResult, chosen: Sequence[int]) -> None:
        self._result, self._chosen = result, chosen
        timeline = result.timeline
        self._timeline, self._graph = timeline, timeline.graph
        shown = np.zeros(self._graph.ranks, dtype=bool)
        shown[chosen] = True
        self._ranks = [one[shown[one]].tolist() for one in timeline.ranks]
        self._start = np.rint(timeline.start * _NS).astype(np.int64).tolist()
        self._end = np.rint(timeline.end * _NS).astype(np.int64).tolist()
        _check_size(sum(map(len, self._ranks)))
        self._members: dict[tuple[int, int], str] = {}
        self._waits = timeline.waits(chosen)
        self._free: dict[tuple[int, str], list[int]] = {}  # (NPU, thread name) -> end of the last span in each lane

    def events(self) -> list[dict[str, Any]]:
        """Return all events."""
        timeline = self._timeline
        order = sorted(range(len(timeline)), key=lambda span: (timeline.start[span], timeline.end[span], span))
        slices: list[tuple[int, int, str, int]] = []  # span, rank, thread name, lane
        lane_of: dict[tuple[int, int], tuple[str, int]] = {}  # by span and rank
        for span in order:
            start, end = self._start[span], self._end[span]
            label = COMPUTE if timeline.is_compute(span) else self._graph.label(int(timeline.task[span]))
            for rank in self._ranks[span]:
                lanes = self._free.setdefault((self._npu(rank), label), [])
                # Complete events of one thread must not overlap, so a span goes to the first lane that is free.
                lane = next((index for index, until in enumerate(lanes) if until <= start), len(lanes))
                lanes[lane : lane + 1] = [end]
                slices.append((span, rank, label, lane))
                lane_of[span, rank] = label, lane
        for rank, waits in self._waits.items():
            if waits:
                self._free[self._npu(rank), EXPOSED] = [0]
        threads = _threads(self._free, self._graph.label_names)
        events = _metadata(self._free, threads, len(self._result.fabric.npus))
        events += (self._slice(span, rank, label, threads[label, lane]) for span, rank, label, lane in slices)
        events += self._exposed(threads)
        events += self._flows(lane_of, threads)
        events += _counters(self._result, self._start, self._end)
        events += _samples(self._result)
        return events

    def _npu(self, rank: int) -> int:
        return int(self._result.placement[rank])

    def _slice(self, span: int, rank: int, label: str, thread: int) -> dict[str, Any]:
        graph, task = self._graph, int(self._timeline.task[span])
        times = int(graph.repeats[task])
        args: dict[str, Any] = {
            "task": task,
            "label": graph.label(task),
            "bytes": float(graph.bytes[task]) * times,
            "repetitions": times,
        }
        name = graph.names[task]
        if label != COMPUTE:
            name = f"{label} {_operation(graph, task)}: {name}"
            args |= self._communication(task, rank)
        name = name if times == 1 else f"{name} x {times}"
        return self._span(name, label, (rank, thread), (self._start[span], self._end[span]), args)

    def _span(
        self, name: str, kind: str, place: tuple[int, int], times: tuple[int, int], args: dict[str, Any]
    ) -> dict[str, Any]:
        """Return a slice of a kind; ``place``: rank and thread, ``times``: start and end in ns."""
        start, end = times
        about = {"ph": "X", "name": name, "cat": kind, "pid": self._npu(place[0]), "tid": place[1]}
        return {**about, "ts": start / 1000, "dur": (end - start) / 1000, "args": args}

    def _communication(self, task: int, rank: int) -> dict[str, Any]:
        """Return algorithm and group of a slice."""
        graph, demands = self._graph, self._result.demands
        table = graph.tables[graph.members[task]]
        groups = table if table.ndim == 2 else table[:, None]
        if graph.partners[task] >= 0:  # a message has its other end in the other task
            groups = np.concatenate([groups, graph.tables[graph.members[graph.partners[task]]].reshape(-1, 1)], axis=1)
        group = int((groups == rank).any(axis=1).argmax())
        key = int(graph.members[task]) if graph.partners[task] < 0 else -1 - task, group
        if key not in self._members:
            self._members[key] = shortened(groups[group].tolist(), _MEMBERS)
        about: dict[str, Any] = {"ranks": groups.shape[1], "members": self._members[key]}
        carried = () if demands is None else demands.carried(task)
        for one in carried:
            if len(carried) == 1 or rank in one.ranks:
                return {"algorithm": one.algorithm, **about}
        return about

    def _exposed(self, threads: dict[tuple[str, int], int]) -> Iterator[dict[str, Any]]:
        """Yield what each NPU waits for while it computes nothing."""
        timeline, graph = self._timeline, self._graph
        for rank, waits in self._waits.items():
            for wait in waits:
                start, end = round(wait.start * _NS), round(wait.end * _NS)
                task = int(timeline.task[wait.span])
                label = BUBBLE if timeline.is_compute(wait.span) else graph.label(task)
                name = label if label in OWN else f"exposed {label}"
                args = {"task": task, "label": graph.label(task), "waits for": graph.names[task]}
                yield self._span(name, EXPOSED, (rank, threads[EXPOSED, 0]), (start, end), args)

    def _flows(
        self, lane_of: dict[tuple[int, int], tuple[str, int]], threads: dict[tuple[str, int], int]
    ) -> Iterator[dict[str, Any]]:
        """Yield an arrow from what ended to what began because of it, on the same rank where that is possible."""
        for span, trigger in enumerate(self._timeline.trigger.tolist()):
            if trigger < 0 or not self._ranks[span] or not self._ranks[trigger]:
                continue
            # A slice without length holds no end of an arrow.
            if self._start[span] == self._end[span] or self._start[trigger] == self._end[trigger]:
                continue
            both = set(self._ranks[trigger]).intersection(self._ranks[span])
            ends = [min(both)] * 2 if both else [self._ranks[trigger][0], self._ranks[span][0]]
            # The last nanosecond of the cause is inside its slice, its end is not.
            for kind, one, rank, time in (
                ("s", trigger, ends[0], self._end[trigger] - 1),
                ("f", span, ends[1], self._start[span]),
            ):
                yield {
                    "ph": kind,
                    **({"bp": "e"} if kind == "f" else {}),
                    "name": "cause",
                    "cat": "cause",
                    "id": span,
                    "pid": self._npu(rank),
                    "tid": threads[lane_of[one, rank]],
                    "ts": time / 1000,
                }


def _check_size(slices: int) -> None:
    """Raise ``LimitError`` where a trace of so many slices is too large."""
    try:
        limits.check("events", slices, key="ranks")
    except LimitError as error:
        raise LimitError(error.message, key="ranks", accepted=f"fewer ranks, such as 0-7; {error.accepted}") from None


def _operation(graph: TaskGraph, task: int) -> str:
    """Return what a communication does, such as ``all-reduce``."""
    kind = TaskKind(int(graph.kinds[task]))
    pattern = graph.patterns[task]
    return str(pattern) if kind is TaskKind.COLLECTIVE and pattern is not None else kind.name.lower()


def _counters(result: RunResult, start: Sequence[int], end: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the mean utilisation of the links of each tier, in per cent, whenever it changes.

    What a label moves over a tier is spread over the spans of that label, in proportion to what each puts there, and
    evenly over the time of each.

    Args:
        result: The run.
        start: Of each span, nanoseconds.
        end: Of each span, nanoseconds.
    """
    fabric, network = result.fabric, len(result.fabric.npus)
    begin = np.asarray(start, dtype=np.int64)
    until = np.maximum(np.asarray(end, dtype=np.int64), begin + 1)  # what moves bytes takes time
    tiers = tiers_of(fabric)
    number = np.zeros(len(fabric.bandwidths), dtype=np.intp)
    for index, (_, links) in enumerate(tiers):
        number[links] = index
    moved = {
        label: np.bincount(number, weights=loads, minlength=len(tiers)).astype(float)
        for label, loads in result.link_bytes_by_label.items()
    }
    shares = _shares(result, number, len(tiers), moved)
    for index, (name, links) in enumerate(tiers):
        spans = np.flatnonzero(shares[:, index])
        if not len(spans):
            continue
        rates = shares[spans, index] / (until[spans] - begin[spans])
        times, place = np.unique(np.concatenate([begin[spans], until[spans]]), return_inverse=True)
        steps = np.bincount(place, weights=np.concatenate([rates, -rates]))
        active = np.bincount(place, weights=np.repeat([1.0, -1.0], len(spans))).cumsum()
        # Rounding leaves a little where nothing is left.
        levels = np.where(active > 0.5, np.maximum(steps.cumsum(), 0.0), 0.0)
        times, levels = _coarser(times, levels)
        capacity = float(fabric.bandwidths[links].sum()) / _NS
        yield from _counter(name, network, _UTILIZATION, times, 100 * levels / capacity)


def _counter(name: str, pid: int, unit: str, times: IntArray, values: FloatArray) -> Iterator[dict[str, Any]]:
    """Yield the ``values`` of a counter at ``times``, in ns."""
    for time, value in zip(times.tolist(), values.tolist(), strict=True):
        yield {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": time / 1000, "args": {unit: value}}


def _coarser(times: IntArray, levels: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return at most ``_POINTS`` points of a step function, with the same integral and the same last level."""
    if len(times) <= _POINTS:
        return times, levels
    first = np.linspace(0, len(times) - 1, _POINTS).astype(np.intp)
    areas = np.add.reduceat(levels[:-1] * np.diff(times), first[:-1])
    return times[first], np.append(areas / np.diff(times[first]), levels[-1])


def _samples(result: RunResult) -> Iterator[dict[str, Any]]:
    """Yield what a sharing policy with state has counted over time, such as the queues of links."""
    network = len(result.fabric.npus)
    for name, one in result.samples.items():
        times, values = _coarser(np.rint(one.times * _NS).astype(np.int64), np.asarray(one.values, dtype=float))
        yield from _counter(name, network, one.unit or "value", times, values)


def _shares(result: RunResult, number: IntArray, tiers: int, moved: dict[str, FloatArray]) -> FloatArray:
    """Return the ``(spans, tiers)`` bytes of each span; those of a label add up to what the run has counted."""
    timeline = result.timeline
    graph: TaskGraph = timeline.graph
    shares = np.zeros((len(timeline), tiers))
    of_label: dict[str, list[int]] = {}
    for span in range(len(timeline)):
        if timeline.is_compute(span):
            continue
        task = int(timeline.task[span])
        of_label.setdefault(graph.label(task), []).append(span)
        ranks = timeline.ranks[span]
        for one in () if result.demands is None else result.demands.carried(task):
            part = float(np.isin(ranks, one.ranks, assume_unique=True).sum()) / len(one.ranks)
            shares[span] += part * np.bincount(number[one.links], weights=one.bytes, minlength=tiers)
    lengths = np.maximum(timeline.end - timeline.start, 1 / _NS)
    for label, loads in moved.items():
        spans = np.array(of_label.get(label, []), dtype=np.intp)
        if not len(spans):
            continue
        sums = shares[spans].sum(axis=0)
        even = np.outer(lengths[spans], loads / lengths[spans].sum())
        known = shares[spans] * np.divide(loads, sums, out=np.zeros(tiers), where=sums > 0)
        shares[spans] = np.where(sums > 0, known, even)
    return shares


def _threads(free: dict[tuple[int, str], list[int]], labels: tuple[str, ...]) -> dict[tuple[str, int], int]:
    """Number the lanes, the same on all NPUs: computation and waiting first, then labels in the order of the graph."""
    lanes: dict[str, int] = {}
    for (_, label), ends in free.items():
        lanes[label] = max(lanes.get(label, 0), len(ends))
    names = dict.fromkeys((COMPUTE, EXPOSED, *labels))
    keys = [(label, lane) for label in names for lane in range(lanes.get(label, 0))]
    return {key: number for number, key in enumerate(keys)}


def _metadata(
    free: dict[tuple[int, str], list[int]], threads: dict[tuple[str, int], int], network: int
) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for npu in sorted({npu for npu, _ in free}):
        events.append(_meta("process_name", npu, 0, {"name": f"NPU {npu}"}))
        events.append(_meta("process_sort_index", npu, 0, {"sort_index": npu}))
        for (label, lane), thread in threads.items():
            if lane < len(free.get((npu, label), ())):
                name = label if lane == 0 else f"{label} ({lane + 1})"
                events.append(_meta("thread_name", npu, thread, {"name": name}))
                events.append(_meta("thread_sort_index", npu, thread, {"sort_index": thread}))
    events.append(_meta("process_name", network, 0, {"name": "network: utilisation of tiers"}))
    events.append(_meta("process_sort_index", network, 0, {"sort_index": network}))
    return events


def _meta(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}
