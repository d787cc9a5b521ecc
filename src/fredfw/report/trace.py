"""A run as a Chrome trace, which Perfetto and chrome://tracing open.

One process per NPU, with threads for computation, what it waits for (exposed time), and each label of communication,
further ones where spans overlap. One process for the network, with a counter per tier of links. Format: "Trace Event
Format", Google: complete events (``X``), metadata (``M``), flows (``s``, ``f``) and counters (``C``).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fredfw import limits
from fredfw.errors import LimitError
from fredfw.experiment.results import RunResult
from fredfw.fabric.fabric import tiers_of
from fredfw.numbers import parse_numbers, shortened
from fredfw.report.cells import exposed
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import TaskKind
from fredfw.workloads.labels import BUBBLE, COMPUTE

Event: TypeAlias = dict[str, Any]
EXPOSED = "exposed"
_NS = 1e9
_MEMBERS = 8  # ranges of ranks that are written out
_UTILIZATION = "utilization (%)"
_POINTS = 20_000  # of a counter


def trace_to_json(result: RunResult, ranks: str = "") -> str:
    """Return the timeline of ``result`` as JSON, with a span on each NPU of its ranks, all or such as ``0-7,64``.

    Times are on a grid of 1 ns, as in viewers. Starts and ends are rounded, so that spans in turn never overlap.
    """
    count = result.timeline.graph.ranks
    chosen = parse_numbers(ranks, count, what="rank", key="ranks") if ranks else range(count)
    about = {"workload": result.workload, "fabric": result.fabric_name, "fidelity": result.provenance["fidelity"]}
    about["ranks"] = ranks or f"0-{len(result.placement) - 1}"
    document = {"displayTimeUnit": "ns", "otherData": about, "traceEvents": _Trace(result, sorted(chosen)).events()}
    return json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"


class _Trace:
    """One trace, of the sorted ranks ``chosen``."""

    def __init__(self, result: RunResult, chosen: Sequence[int]) -> None:
        self._result, self._timeline, self._graph = result, result.timeline, result.timeline.graph
        shown = np.zeros(self._graph.ranks, dtype=bool)
        shown[chosen] = True
        self._ranks = [one[shown[one]].tolist() for one in self._timeline.ranks]
        self._start, self._end = (_nanoseconds(one).tolist() for one in (self._timeline.start, self._timeline.end))
        try:
            limits.check("events", sum(map(len, self._ranks)), key="ranks")
        except LimitError as error:
            accepted = f"fewer ranks, such as 0-7; {error.accepted}"
            raise LimitError(error.message, key="ranks", accepted=accepted) from None
        self._members: dict[tuple[int, int], str] = {}
        self._waits = self._timeline.waits(chosen)
        self._free: dict[tuple[int, str], list[int]] = {}  # (NPU, thread name) -> end of the last span in each lane

    def events(self) -> list[Event]:
        """Return all events: metadata, slices by start, NPU and thread, flows, counters; times in us."""
        timeline = self._timeline
        lane_of: dict[tuple[int, int], tuple[str, int]] = {}  # thread name and lane, by span and rank
        for span in np.lexsort((timeline.end, timeline.start)).tolist():
            start, end = self._start[span], self._end[span]
            label = COMPUTE if timeline.is_compute(span) else self._graph.label(int(timeline.task[span]))
            for rank in self._ranks[span]:
                lanes = self._free.setdefault((self._npu(rank), label), [])
                # Complete events of one thread must not overlap, so a span goes to the first lane that is free.
                lane = next((index for index, until in enumerate(lanes) if until <= start), len(lanes))
                lanes[lane : lane + 1] = [end]
                lane_of[span, rank] = label, lane
        for rank, waits in self._waits.items():
            if waits:
                self._free[self._npu(rank), EXPOSED] = [0]
        threads = _threads(self._free, self._graph.label_names)
        return [
            *_metadata(self._free, threads, len(self._result.fabric.npus)),
            *(self._slice(*place, lane[0], threads[lane]) for place, lane in lane_of.items()),
            *self._exposed(threads.get((EXPOSED, 0), 0)),
            *self._flows({place: threads[lane] for place, lane in lane_of.items()}),
            *_counters(self._result, self._start, self._end),
            *_samples(self._result),
        ]

    def _npu(self, rank: int) -> int:
        return int(self._result.placement[rank])

    def _slice(self, span: int, rank: int, label: str, thread: int) -> Event:
        graph, task = self._graph, int(self._timeline.task[span])
        times = int(graph.repeats[task])
        moved = float(graph.bytes[task]) * times
        args: Event = {"task": task, "label": graph.label(task), "bytes": moved, "repetitions": times}
        name = graph.names[task]
        if label != COMPUTE:
            pattern = graph.patterns[task] if graph.kinds[task] == TaskKind.COLLECTIVE else None
            name = f"{label} {pattern or TaskKind(int(graph.kinds[task])).name.lower()}: {name}"
            args |= self._communication(task, rank)
        name = name if times == 1 else f"{name} x {times}"
        return self._span(name, label, (rank, thread), (self._start[span], self._end[span]), args)

    def _span(self, name: str, kind: str, place: tuple[int, int], times: tuple[int, int], args: Event) -> Event:
        """Return a slice of a kind; ``place``: rank and thread, ``times``: start and end in ns."""
        start, end = times
        about = {"ph": "X", "name": name, "cat": kind, "pid": self._npu(place[0]), "tid": place[1]}
        return {**about, "ts": start / 1000, "dur": (end - start) / 1000, "args": args}

    def _communication(self, task: int, rank: int) -> Event:
        graph, demands = self._graph, self._result.demands
        table = graph.tables[graph.members[task]]
        groups = table if table.ndim == 2 else table[:, None]
        if graph.partners[task] >= 0:  # a message has its other end in the other task
            groups = np.concatenate([groups, graph.tables[graph.members[graph.partners[task]]].reshape(-1, 1)], axis=1)
        group = int((groups == rank).any(axis=1).argmax())
        key = int(graph.members[task]) if graph.partners[task] < 0 else -1 - task, group
        if key not in self._members:
            self._members[key] = shortened(groups[group].tolist(), _MEMBERS)
        about: Event = {"ranks": groups.shape[1], "members": self._members[key]}
        carried = () if demands is None else demands.carried(task)
        for one in carried:
            if len(carried) == 1 or rank in one.ranks:
                return {"algorithm": one.algorithm, **about}
        return about

    def _exposed(self, thread: int) -> Iterator[Event]:
        timeline, graph = self._timeline, self._graph
        for rank, waits in self._waits.items():
            for wait in waits:
                times = round(wait.start * _NS), round(wait.end * _NS)
                task = int(timeline.task[wait.span])
                label = BUBBLE if timeline.is_compute(wait.span) else graph.label(task)
                args = {"task": task, "label": graph.label(task), "waits for": graph.names[task]}
                yield self._span(exposed(label), EXPOSED, (rank, thread), times, args)

    def _flows(self, threads: Mapping[tuple[int, int], int]) -> Iterator[Event]:
        """Yield an arrow from what ended to what began because of it, on the same rank where that is possible."""
        for span, trigger in enumerate(self._timeline.trigger.tolist()):
            if trigger < 0 or not self._ranks[span] or not self._ranks[trigger]:
                continue
            # A slice without length holds no end of an arrow.
            if self._start[span] == self._end[span] or self._start[trigger] == self._end[trigger]:
                continue
            both = set(self._ranks[trigger]).intersection(self._ranks[span])
            first, last = [min(both)] * 2 if both else [self._ranks[trigger][0], self._ranks[span][0]]
            # The last nanosecond of the cause is inside its slice, its end is not.
            begin = {"tid": threads[trigger, first], "ts": (self._end[trigger] - 1) / 1000}
            end = {"tid": threads[span, last], "ts": self._start[span] / 1000}
            about = {"name": "cause", "cat": "cause", "id": span}
            yield {"ph": "s", **about, "pid": self._npu(first), **begin}
            yield {"ph": "f", "bp": "e", **about, "pid": self._npu(last), **end}


def _nanoseconds(seconds: FloatArray) -> IntArray:
    return np.rint(seconds * _NS).astype(np.int64)


def _counters(result: RunResult, start: Sequence[int], end: Sequence[int]) -> Iterator[Event]:
    """Yield the mean utilisation of the links of each tier, in per cent, whenever it changes; times are nanoseconds.

    What a label moves over a tier is spread over its spans by what each puts there, and evenly over the time of each.
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


def _counter(name: str, pid: int, unit: str, times: IntArray, values: FloatArray) -> Iterator[Event]:
    for time, value in zip(times.tolist(), values.tolist(), strict=True):
        yield {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": time / 1000, "args": {unit: value}}


def _coarser(times: IntArray, levels: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return at most ``_POINTS`` points of a step function, with the same integral and the same last level."""
    if len(times) <= _POINTS:
        return times, levels
    first = np.linspace(0, len(times) - 1, _POINTS).astype(np.intp)
    areas = np.add.reduceat(levels[:-1] * np.diff(times), first[:-1])
    return times[first], np.append(areas / np.diff(times[first]), levels[-1])


def _samples(result: RunResult) -> Iterator[Event]:
    network = len(result.fabric.npus)
    for name, one in result.samples.items():
        times, values = _coarser(_nanoseconds(one.times), np.asarray(one.values, dtype=float))
        yield from _counter(name, network, one.unit or "value", times, values)


def _shares(result: RunResult, number: IntArray, tiers: int, moved: dict[str, FloatArray]) -> FloatArray:
    """Return the ``(spans, tiers)`` bytes of each span; those of a label add up to what the run has counted."""
    timeline, graph = result.timeline, result.timeline.graph
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
) -> Iterator[Event]:
    for npu in sorted({npu for npu, _ in free}):
        yield from _named("process", npu, 0, f"NPU {npu}", npu)
        for (label, lane), thread in threads.items():
            if lane < len(free.get((npu, label), ())):
                yield from _named("thread", npu, thread, label if lane == 0 else f"{label} ({lane + 1})", thread)
    yield from _named("process", network, 0, "network: utilisation of tiers", network)


def _named(what: str, pid: int, tid: int, name: str, place: int) -> Iterator[Event]:
    for key, args in (("name", {"name": name}), ("sort_index", {"sort_index": place})):
        yield {"ph": "M", "name": f"{what}_{key}", "pid": pid, "tid": tid, "args": args}
