import gzip
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import experiments
import numpy as np
import pytest
from attrs import evolve
from command_line import refused, succeeds
from experiments import SMALL

from fredfw import limits
from fredfw.errors import InputError, LimitError
from fredfw.experiment.results import RunResult
from fredfw.fabric.fabric import tiers_of
from fredfw.report import trace
from fredfw.report.exporters import TraceExporter
from fredfw.report.trace import trace_to_json


def trace_events(result: RunResult, ranks: str = "") -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(trace_to_json(result, ranks))["traceEvents"]
    return events


def test_spans_appear_as_often_as_they_are_done_in_named_threads_of_the_npu_of_each_rank(run: RunResult) -> None:
    events = trace_events(run)
    spans = [event for event in events if event["ph"] == "X" and event["cat"] != "exposed"]
    # Rank 0 is on NPU 1 and the other way round; "more" is of rank 1 alone.
    assert [(event["name"], event["pid"]) for event in spans] == [
        *(("forward", npu) for npu in (1, 0)),
        ("more", 0),
        *((f"dp all-reduce: grads {number}", npu) for number in (1, 2) for npu in (1, 0)),
    ]
    assert all(set(event) == {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"} for event in spans)
    group = {"ranks": 2, "members": "0-1"}
    assert spans[3]["args"] == {"task": 1, "label": "dp", "bytes": 100.0, "repetitions": 1, **group}
    assert (spans[3]["ts"], spans[3]["dur"]) == (2e6, 2e6)
    # The mean over the NPUs is the breakdown's.
    assert sum(event["dur"] for event in spans if event["cat"] == "compute") / 2 == run.breakdown["compute"] * 1e6
    graph = run.timeline.graph
    repeated = evolve(run, timeline=evolve(run.timeline, graph=evolve(graph, repeats=np.full(len(graph.repeats), 32))))
    document = json.loads(trace_to_json(repeated))
    assert document["otherData"]["fidelity"] == "exact"
    span = next(event for event in document["traceEvents"] if event["name"] == "dp all-reduce: grads 1 x 32")
    assert span["args"] == {"task": 1, "label": "dp", "bytes": 3200.0, "repetitions": 32, "ranks": 2, "members": "0-1"}
    meta = [event for event in events if event["ph"] == "M"]
    processes = {e["pid"]: e["args"]["name"] for e in meta if e["name"] == "process_name"}
    assert processes == {0: "NPU 0", 1: "NPU 1", 2: "network: utilisation of tiers"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in meta if e["name"] == "thread_name"}
    lanes = ["compute", "exposed", "dp", "dp (2)"]
    assert threads == {(npu, tid): name for npu in (0, 1) for tid, name in enumerate(lanes)}
    assert {(event["pid"], event["tid"]) for event in events if event["ph"] in "Xsf"} <= set(threads)
    assert {event["pid"] for event in events} <= set(processes)


def test_spans_of_one_thread_never_overlap(run: RunResult) -> None:
    # Starts and ends off the grid of 1 ns, back to back: rounding must not make them overlap.
    random = np.random.default_rng(3)
    ends = np.sort(random.uniform(0, 1e-6, len(run.timeline)))
    starts = np.concatenate([[0.0], ends[:-1]])
    for timeline in (run.timeline, evolve(run.timeline, start=starts, end=ends)):
        events = trace_events(evolve(run, timeline=timeline))
        nanoseconds = [event["ts"] * 1000 for event in events if event["ph"] == "X"]
        assert nanoseconds == pytest.approx([round(one) for one in nanoseconds], abs=1e-6)
        for spans in slices_of(events).values():
            assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans)))


@pytest.fixture(scope="module", params=["compressed", "exact"])
def trained(request: pytest.FixtureRequest) -> RunResult:
    """A transformer with tensor, pipeline and data parallelism on a tree: 12 ranks that wait for each other."""
    fabric = {"topology": {"name": "fred", "arity": [3, 4], "io_controllers": 0}}
    workload = {**SMALL, "mp": 2, "dp": 3, "pp": 2, "global_batch": 12, "microbatches": 2}
    tables = {"fabrics": {"f": fabric}, "workloads": {"w": {"workload": workload}}}
    return experiments.run(tables, fidelity=request.param)


def slices_of(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Start and end in nanoseconds of the slices of each thread."""
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start, end = (round(time * 1000) for time in (event["ts"], event["ts"] + event["dur"]))
            found[event["pid"], event["tid"]].append((start, end))
    return found


def test_arrows_join_slices_that_say_what_is_exposed_what_serves_it_and_who_takes_part(trained: RunResult) -> None:
    events = trace_events(trained)
    slices = slices_of(events)
    ends = defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            time = round(event["ts"] * 1000)
            assert any(start <= time < end for start, end in slices[event["pid"], event["tid"]])
            ends[event["id"]].append((event["ph"], time))
    for (first, before), (second, after) in ends.values():
        assert (first, second) == ("s", "f")
        assert before < after
    assert len(ends) > 0.9 * int((trained.timeline.trigger >= 0).sum()) > 0
    spans = [event for event in events if event["ph"] == "X"]
    exposed: dict[str, float] = defaultdict(float)
    for event in spans:
        if event["cat"] == "exposed":
            exposed[event["name"].removeprefix("exposed ")] += event["dur"] * 1e-6 / len(trained.placement)
    expected = {cause: seconds for cause, seconds in trained.breakdown.items() if cause != "compute"}
    assert exposed == pytest.approx(expected, abs=1e-9 * len(trained.timeline))
    used = {(event["cat"], event["args"]["ranks"]) for event in spans if "ranks" in event["args"]}
    assert used >= {("mp", 2), ("dp", 3)}
    for event in spans:
        if event["cat"] in ("mp", "dp", "pp"):
            name = next(served for what, served in trained.algorithms.items() if what.startswith(event["cat"]))
            assert event["args"]["algorithm"] in name
            assert event["name"].startswith(f"{event['cat']} ")


def test_counters_hold_the_bytes_of_each_tier(trained: RunResult, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = trained.fabric
    held = {
        name: float(trained.link_bytes[links].sum() / fabric.bandwidths[links].sum())
        for name, links in tiers_of(fabric)
        if trained.link_bytes[links].any()
    }
    # Long ones are coarser, and hold the same.
    for most in (trace._POINTS, 5):
        monkeypatch.setattr(trace, "_POINTS", most)
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for event in trace_events(trained):
            if event["ph"] == "C":
                found[event["name"]].append((event["ts"] * 1e-6, event["args"]["utilization (%)"] / 100))
        assert sum(map(len, found.values())) <= most * len(held)
        for points in found.values():
            assert all(level >= 0 for _, level in points)
            assert points[-1][1] == 0
        areas = {
            name: sum(level * (after - time) for (time, level), (after, _) in pairwise(points))
            for name, points in found.items()
        }
        assert areas == pytest.approx(held, rel=1e-6)


def test_ranks_choose_what_is_shown_and_wrong_ones_are_refused(trained: RunResult) -> None:
    events = trace_events(trained, "0-1,5")
    npus = {int(trained.placement[rank]) for rank in (0, 1, 5)}
    assert {event["pid"] for event in events if event["ph"] in "Xsf"} == npus
    chosen, everything = (
        [{**event, "tid": None} for event in found if event["ph"] == "X" and event["pid"] in npus]
        for found in (events, trace_events(trained))
    )
    assert chosen == everything
    message = r"ranks: there is no rank 12 .accepted: different ranks from 0 to 11, such as 0-4,7"
    with pytest.raises(InputError, match=message):
        TraceExporter("0,12").export(trained)
    message = r"ranks: .* fewer ranks, such as 0-7; at most 10"
    with limits.allowed({"events": 10}), pytest.raises(LimitError, match=message):
        trace_to_json(trained)


def test_a_trace_may_be_compressed_and_of_some_ranks(tmp_path: Path) -> None:
    path, file = tmp_path / "trace.json.gz", tmp_path / "e.toml"
    file.write_text("fabrics.f.topology = { name = 'switch', npus = 4 }\nworkloads.w.workload = 'microbenchmark'\n")
    succeeds("run", str(file), "--trace", str(path), "--ranks", "2")
    document = json.loads(gzip.decompress(path.read_bytes()))
    assert document["otherData"]["ranks"] == "2"
    assert {event["pid"] for event in document["traceEvents"] if event["ph"] == "X"} == {2}
    for arguments, message in (
        (["--ranks", "2"], "--ranks: there is no trace whose ranks they are (accepted: with --trace PATH)"),
        (["--ranks", "4", "--trace", str(path)], "there is no rank 4 (accepted: different ranks from 0 to 3"),
        (["--what-if", "0"], "--what-if: 0 times better is not possible (accepted: a number above 1)"),
        (["--what-if", "inf"], "--what-if: inf times better is not possible"),
        (["--jobs", "2"], "--what-if"),
    ):
        assert message in refused("run", str(file), *arguments)
