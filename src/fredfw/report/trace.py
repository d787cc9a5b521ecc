"""A run as a Chrome trace (Trace Event Format), which Perfetto and chrome://tracing open.

One process per NPU; in it one thread for computation and one per communication label, with further ones where spans of
a label overlap. Format: "Trace Event Format", Google, complete events (``X``) and metadata events (``M``).
"""

from __future__ import annotations

import json
from typing import Any

from fredfw.experiment.results import RunResult
from fredfw.workloads.labels import COMPUTE

_NS = 1e9


def trace_to_json(result: RunResult) -> str:
    """Return the timeline of ``result`` as JSON; a span of several ranks appears on each of their NPUs.

    Times are on a grid of 1 ns, the resolution of the viewers. Start and end are rounded, not start and duration, so
    that spans that follow each other never overlap.
    """
    document = {
        "displayTimeUnit": "ns",
        "otherData": {
            "workload": result.workload,
            "fabric": result.fabric_name,
            "fidelity": result.provenance["fidelity"],
        },
        "traceEvents": trace_events(result),
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"


def trace_events(result: RunResult) -> list[dict[str, Any]]:
    """Return the events of ``result``: metadata first, then spans by start, NPU and thread; times in microseconds."""
    timeline = result.timeline
    graph = timeline.graph
    free: dict[tuple[int, str], list[int]] = {}  # (NPU, thread name) -> end of the last span in each lane
    spans: list[tuple[int, int, int, str, int, int]] = []
    order = sorted(range(len(timeline)), key=lambda span: (timeline.start[span], timeline.end[span], span))
    for span in order:
        start, end = round(float(timeline.start[span]) * _NS), round(float(timeline.end[span]) * _NS)
        label = COMPUTE if timeline.is_compute(span) else graph.label(int(timeline.task[span]))
        for rank in timeline.ranks[span]:
            npu = int(result.placement[rank])
            lanes = free.setdefault((npu, label), [])
            # Complete events of one thread must not overlap, so a span goes to the first lane that is free.
            lane = next((index for index, until in enumerate(lanes) if until <= start), len(lanes))
            lanes[lane : lane + 1] = [end]
            spans.append((start, end, npu, label, lane, int(timeline.task[span])))
    threads = _threads(free, graph.label_names)
    events = _metadata(free, threads)
    for start, end, npu, label, lane, task in spans:
        times = int(graph.repeats[task])
        events.append(
            {
                "ph": "X",
                "name": graph.names[task] if times == 1 else f"{graph.names[task]} x {times}",
                "cat": label,
                "pid": npu,
                "tid": threads[label, lane],
                "ts": start / 1000,
                "dur": (end - start) / 1000,
                "args": {
                    "task": task,
                    "label": graph.label(task),
                    "bytes": float(graph.bytes[task]) * times,
                    "repetitions": times,
                },
            }
        )
    return events


def _threads(free: dict[tuple[int, str], list[int]], labels: tuple[str, ...]) -> dict[tuple[str, int], int]:
    """Number the lanes, the same on all NPUs: computation first, then the labels in the order of the graph."""
    lanes: dict[str, int] = {}
    for (_, label), ends in free.items():
        lanes[label] = max(lanes.get(label, 0), len(ends))
    names = dict.fromkeys((COMPUTE, *labels))
    keys = [(label, lane) for label in names for lane in range(lanes.get(label, 0))]
    return {key: number for number, key in enumerate(keys)}


def _metadata(free: dict[tuple[int, str], list[int]], threads: dict[tuple[str, int], int]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for npu in sorted({npu for npu, _ in free}):
        events.append(_meta("process_name", npu, 0, {"name": f"NPU {npu}"}))
        events.append(_meta("process_sort_index", npu, 0, {"sort_index": npu}))
        for (label, lane), thread in threads.items():
            if lane < len(free.get((npu, label), ())):
                name = label if lane == 0 else f"{label} ({lane + 1})"
                events.append(_meta("thread_name", npu, thread, {"name": name}))
                events.append(_meta("thread_sort_index", npu, thread, {"sort_index": thread}))
    return events


def _meta(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}
