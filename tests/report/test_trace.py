from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from attrs import evolve

from fredfw.experiment.results import RunResult
from fredfw.report.trace import trace_events, trace_to_json


def test_every_span_appears_on_the_npu_of_each_of_its_ranks(run: RunResult) -> None:
    events = json.loads(trace_to_json(run))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    # Rank 0 is on NPU 1 and the other way round; "more" is of rank 1 alone.
    assert [(event["name"], event["pid"]) for event in spans] == [
        ("forward", 1),
        ("forward", 0),
        ("more", 0),
        ("grads 1", 1),
        ("grads 1", 0),
        ("grads 2", 1),
        ("grads 2", 0),
    ]
    assert all(set(event) == {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"} for event in spans)
    assert spans[3]["args"] == {"task": 1, "label": "dp", "bytes": 100.0, "repetitions": 1}
    assert (spans[3]["ts"], spans[3]["dur"]) == (2e6, 2e6)
    # The mean over the NPUs is the breakdown's.
    assert sum(event["dur"] for event in spans if event["cat"] == "compute") / 2 == run.breakdown["compute"] * 1e6


def test_what_was_simulated_as_one_says_how_often_it_is_done(run: RunResult) -> None:
    graph = run.timeline.graph
    repeated = evolve(run, timeline=evolve(run.timeline, graph=evolve(graph, repeats=np.full(len(graph.repeats), 32))))
    document = json.loads(trace_to_json(repeated))
    assert document["otherData"]["fidelity"] == "compressed"
    span = next(event for event in document["traceEvents"] if event["name"] == "grads 1 x 32")
    assert span["args"] == {"task": 1, "label": "dp", "bytes": 3200.0, "repetitions": 32}


def test_threads_and_processes_are_named(run: RunResult) -> None:
    events = trace_events(run)
    meta = [event for event in events if event["ph"] == "M"]
    assert {(e["pid"], e["args"]["name"]) for e in meta if e["name"] == "process_name"} == {(0, "NPU 0"), (1, "NPU 1")}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in meta if e["name"] == "thread_name"}
    assert threads == {(npu, tid): name for npu in (0, 1) for tid, name in enumerate(["compute", "dp", "dp (2)"])}
    for event in events:
        assert (event["pid"], event["tid"]) in threads


def test_spans_of_one_thread_never_overlap(run: RunResult) -> None:
    # Starts and ends off the grid of 1 ns, back to back: rounding must not make them overlap.
    random = np.random.default_rng(3)
    ends = np.sort(random.uniform(0, 1e-6, len(run.timeline)))
    starts = np.concatenate([[0.0], ends[:-1]])
    for timeline in (run.timeline, evolve(run.timeline, start=starts, end=ends)):
        threads = defaultdict(list)
        for event in trace_events(evolve(run, timeline=timeline)):
            if event["ph"] == "X":
                nanoseconds = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
                assert event["ts"] * 1000 == pytest.approx(nanoseconds[0], abs=1e-6)
                threads[event["pid"], event["tid"]].append(nanoseconds)
        for spans in threads.values():
            spans.sort()
            assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_same_run_same_text(run: RunResult) -> None:
    assert trace_to_json(run) == trace_to_json(run)
