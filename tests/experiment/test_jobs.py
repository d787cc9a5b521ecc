import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from command_line import words
from experiments import FRAMEWORK, compare, refused, run as run_tables
from showing import printed

from fredfw.errors import InputError
from fredfw.experiment.jobs import Arrivals, Job, Jobs
from fredfw.experiment.results import Cell, GraphResult, RunResult, Spread
from fredfw.experiment.why import critical_path
from fredfw.fidelities import SIMULATED
from fredfw.report.comparison import comparison_report
from fredfw.report.data import comparison_to_csv, run_to_json
from fredfw.report.runs import run_report
from fredfw.report.trace import trace_to_json
from fredfw.workloads import System

# A line of four NPUs whose links carry 1 GB/s, in no time: 1 GB takes a second.
LINE = {"topology": {"name": "mesh2d", "rows": 1, "columns": 4, "link_bandwidth": "1 GB/s", "link_latency": "0 ns"}}
FAT_TREE = {"name": "fat-tree", "npus": 16, "radix": 8, "oversubscription": 3.0}
TREE = {"topology": FAT_TREE, "collectives": {"default": "direct"}}
MESSAGE = {"name": "microbenchmark", "pattern": "point-to-point", "ranks": 2, "size": "1 GB"}
MODEL = {"name": "transformer", "layers": 4, "hidden": 256, "heads": 4, "sequence": 64, "vocabulary": 100}
TRAINING = {**MODEL, "mp": 2, "dp": 4}

SWITCH = {"topology": {"name": "switch", "npus": 8, "link_bandwidth": "10 GB/s"}}
SPLIT = {**MODEL, "mp": 2}
# NPUs that have nothing in common but the switch: nobody's failures send flows over the links of others.
STAR: dict[str, Any] = {
    **SWITCH,
    "collectives": {"default": "ring"},
    "events": [
        {"links": "npu1->*", "at": "20 us"},
        {"links": "npu1->*", "at": "60 us", "action": "restore"},
        {"links": "npu5->*", "at": "30 us", "action": "degrade", "factor": 0.25},
        {"links": "*", "mtbf": "2 ms", "mttr": "20 us", "seed": 4},
    ],
}
JITTER = {"runs": 4, "seed": 3, "jitter": {"distribution": "lognormal", "deviation": 0.3}}


def job(name: str, npus: object = None, workload: object = None, **more: object) -> dict[str, Any]:
    given = {} if npus is None else {"npus": npus}
    return {"name": name, "workload": workload or MESSAGE, **given, **more}


def tables(*jobs: dict[str, Any], fabric: object = LINE, variation: object = None, **row: object) -> dict[str, Any]:
    varied = {} if variation is None else {"variation": variation}
    return {"fabrics": {"net": fabric}, "workloads": {"both": {"jobs": list(jobs), **row}}, **varied}


def run(*jobs: dict[str, Any], fidelity: str | None = None, **given: Any) -> RunResult:
    return run_tables(tables(*jobs, **given), fidelity=fidelity)


@pytest.mark.parametrize("fidelity", SIMULATED)
@pytest.mark.parametrize("start", [0.0, 0.5])
def test_two_equal_flows_share_a_link_from_the_start_of_the_later_one(start: float, fidelity: str) -> None:
    # a has the link until b starts, then half of it until it ends; b half of it, and after that all of it.
    result = run(job("a", [0, 2]), job("b", [1, 3], start=start), fidelity=fidelity)
    for one in result.jobs:
        assert (one.seconds, one.alone, one.slowdown) == pytest.approx((2 - start, 1.0, 2 - start), rel=1e-12)
        assert one.bytes == one.bytes_alone == 2e9  # two links each
        assert one.breakdown == pytest.approx({"compute": 0, "bubble": 0, "collective": 2 - start})
    assert result.jobs[1].start == start
    assert result.link_bytes.sum() == 4e9
    assert result.seconds == pytest.approx(2.0)
    # Half of the ranks wait for their start, and half wait as long after their end.
    assert result.breakdown.get("waiting", 0.0) == pytest.approx(start)
    assert result.breakdown["compute"] == 0
    assert sum(result.breakdown.values()) == pytest.approx(2.0)


def test_a_workload_alone_is_a_job_alone_and_its_iterations_follow_each_other() -> None:
    workloads = {"w": {"workload": TRAINING, "compute_scale": 0.5}}
    whole = run_tables({"fabrics": {"net": TREE}, "workloads": workloads})
    result = run(job("a", 8, TRAINING), fabric=TREE, compute_scale=0.5)
    (one,) = result.jobs
    assert one.seconds == one.alone == result.seconds == whole.seconds
    assert one.breakdown == pytest.approx(whole.breakdown)
    assert (one.throughput, result.memory) == (whole.throughput, whole.memory)
    # b has three messages of a third of the size of a's: they share the link until both end.
    small = {**MESSAGE, "size": "250 MB"}
    a, b = run(job("a", [0, 2]), job("b", [1, 3], small, iterations=3)).jobs
    assert b.iterations == pytest.approx((0.5, 0.5, 0.5))
    assert (b.alone, b.slowdown, a.seconds) == pytest.approx((0.75, 2.0, 1.75))
    pipeline = {**MODEL, "mp": 1, "pp": 2, "microbatches": 2}
    (one,) = run(job("a", workload=pipeline), fabric=TREE).jobs
    (three,) = run(job("a", workload=pipeline, iterations=3, start="1 s"), fabric=TREE).jobs
    assert three.iterations == pytest.approx([one.seconds] * 3, rel=1e-9)
    assert three.breakdown == pytest.approx({cause: 3 * spent for cause, spent in one.breakdown.items()}, abs=1e-12)
    assert one.work is not None
    assert three.throughput.samples_per_second == pytest.approx(one.work.samples / one.seconds)


def numbers(policy: str, *counts: int | tuple[int, ...] | None, seed: int = 0, npus: int = 8) -> list[list[int]]:
    outline = FRAMEWORK.load_experiment({"fabrics": {"net": LINE}, "workloads": {"w": {"workload": MESSAGE}}})
    workload = outline.workloads[0].workload
    jobs = Jobs(tuple(Job(f"{index}", workload, one) for index, one in enumerate(counts)), policy, seed)
    return [one.tolist() for one in jobs.sets(System(npus))]


def test_policies_choose_npus() -> None:
    assert numbers("packed", 3, 4) == [[0, 1, 2], [3, 4, 5, 6]]
    assert numbers("packed", 3, (1, 0), 2) == [[2, 3, 4], [0, 1], [5, 6]]
    assert numbers("spread", 4, 4) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert numbers("spread", 2, 6) == [[0, 4], [1, 2, 3, 5, 6, 7]]
    # From random.Random(1).random(), whose sequence Python guarantees: 0.134, 0.847, 0.764, 0.255, 0.495, 0.449.
    assert numbers("random", 3, 3, seed=1, npus=6) == [[0, 3, 5], [1, 2, 4]]
    assert numbers("packed", None) == [[0, 1]]


def test_jobs_without_a_start_arrive_as_a_poisson_process() -> None:
    times = np.array(Arrivals(rate=50.0, seed=3).times(20_000))
    gaps = np.diff([0.0, *times])
    # Mean and deviation of an exponential distribution are equal; three standard errors are 2 %.
    assert gaps.mean() == pytest.approx(0.02, rel=0.02)
    assert gaps.std() == pytest.approx(0.02, rel=0.03)
    assert Arrivals(50.0, 3).times(5) == times[:5].tolist() != Arrivals(50.0, 4).times(5)
    result = run(job("a"), job("b", start=0.25), job("c"), fabric=TREE, arrivals={"rate": 2.0, "seed": 1})
    first, second = Arrivals(2.0, 1).times(2)
    assert [one.start for one in result.jobs] == [first, 0.25, second]


def test_placements_stay_in_the_set_of_a_job() -> None:
    nested = {**TREE, "placement": {"name": "nested", "axes": ["dp"]}}
    result = run(job("a", [8, 9, 10, 11, 12, 13, 14, 15], TRAINING), fabric=nested)
    # DP groups of four on consecutive NPUs: rank r = mp + 2 dp is on NPU 8 + 4 mp + dp.
    assert result.placement.tolist() == [8, 12, 9, 13, 10, 14, 11, 15]
    snake = {"topology": {"name": "mesh2d", "rows": 2, "columns": 4}, "placement": "snake"}
    group = {"name": "microbenchmark", "ranks": 4, "size": "1 MB"}
    result = run(job("a", [2, 3, 6, 7], group), fabric=snake)
    assert result.placement.tolist() in ([2, 3, 7, 6], [2, 6, 7, 3])


def test_priorities_and_weights_name_labels_of_one_job_or_of_all() -> None:
    def times(sharing: object, *priorities: str) -> list[float]:
        content = tables(job("a", [0, 2]), job("b", [1, 3]), fabric={**LINE, "sharing": sharing})
        return [one.seconds for one in run_tables({**content, "priorities": list(priorities)}).jobs]

    assert times("strict-links", "b/collective") == pytest.approx([2.0, 1.0])
    assert times("strict-links", "collective") == pytest.approx([2.0, 2.0])  # they are of one class
    with pytest.raises(InputError, match="no workload has the label 'a/dp'"):
        times("strict-links", "a/dp")
    # With three quarters of the link a takes 4/3 s; alone, b needs a second of it.
    weights = {"collective": 1.0, "a/collective": 3.0}
    assert times({"name": "weighted-max-min", "weights": weights}) == pytest.approx([4 / 3, 2.0])
    assert times({"name": "weighted-max-min", "weights": {"collective": 2.0}}) == pytest.approx([2.0, 2.0])


BOTH = job("a", 8, TRAINING), job("b", 8, {"name": "microbenchmark", "size": "1 MB"})
LATER = tables(job("a", [0, 2]), job("b", [1, 3], start="500 ms"))


def test_cells_with_jobs_are_stored_and_merged(tmp_path: Path) -> None:
    fresh, path = compare(LATER), tmp_path / "cells"
    for _ in range(2):
        assert compare(LATER, store=path).to_json() == fresh.to_json()
    assert [one["name"] for one in json.loads(fresh.to_json())["rows"][0]["jobs"]] == ["a", "b"]
    assert FRAMEWORK.merge(LATER, [path]).rows[0].jobs == fresh.rows[0].jobs
    with pytest.raises(InputError, match="no result for 1 of 1 cell:"):
        FRAMEWORK.merge(tables(job("a", [0, 2]), job("b", [1, 3], start="400 ms")), [path])


def test_a_placement_of_jobs_is_swept_and_a_cell_says_what_plugins_its_jobs_use() -> None:
    swept = {"{job_placement}": {"jobs": [*BOTH], "sweep": {"job_placement": ["packed", "spread"]}}}
    packed, spread = compare({"fabrics": {"net": TREE}, "workloads": swept}).rows
    assert packed.workload_settings == {"job_placement": "packed"}
    assert packed.jobs[0].slowdown == pytest.approx(1.0)
    assert spread.jobs[0].slowdown > 1.01
    result = run(*BOTH, fabric=TREE)
    assert {"fredfw-workload-transformer", "fredfw-workload-microbenchmark"} <= set(result.provenance["versions"])
    assert [one["name"] for one in result.provenance["workload"]["jobs"]] == ["a", "b"]
    assert Cell.of(result).jobs == result.jobs


def test_what_a_job_has_no_room_for_goes_to_memory_tiers() -> None:
    fabric = {**TREE, "memories": [{"name": "cxl", "scope": "npu", "bandwidth": "64 GB/s", "capacity": "1 TB"}]}
    result = run_tables({**tables(*BOTH, fabric=fabric), "npu": {"memory": "30 MB"}})
    first, second = result.jobs
    assert first.breakdown["spill"] > 0
    assert "spill" not in second.breakdown
    assert first.bytes == first.bytes_alone
    assert next(note for note in result.notes if "memory tier 'cxl'" in note).startswith("a: needs")


def test_blocks_simulated_as_one_have_a_note() -> None:
    for jobs, fidelity, noted in ((BOTH, "compressed", True), (BOTH, "exact", False), (BOTH[:1], "compressed", False)):
        notes = run(*jobs, fabric=TREE, fidelity=fidelity).notes
        assert any("at other moments" in note for note in notes) is noted


def test_the_path_and_the_trace_of_jobs_show_the_wait_for_a_start() -> None:
    result = run(job("a", [0, 1]), job("b", [2, 3], start="2 s"))
    steps = {step.name: step for step in critical_path(result).steps}
    assert steps["start of b"].seconds == pytest.approx(2.0)
    assert steps["start of b"].limits == pytest.approx({"waiting": 2.0})
    events = json.loads(trace_to_json(result))["traceEvents"]
    assert {"waiting", "waiting wait: start of b"} <= {event.get("name") for event in events}


def test_jobs_are_not_estimated_and_errors_name_what_is_theirs() -> None:
    with refused("workloads.both.jobs[0].workload"):
        run_tables({**tables(job("a", 8, TRAINING), fabric=TREE), "npu": {"memory": "1 kB"}})
    with refused("workloads.both.jobs", "what jobs do to each other"):
        compare(tables(job("a", [0, 2]), job("b", [1, 3])), fidelity="estimate")
    workloads = {"w": {"workload": "microbenchmark", "job_seed": 1}}
    with refused("workloads.w.job_seed", "there are no jobs"):
        run_tables({"fabrics": {"net": LINE}, "workloads": workloads})


SLOW, STRAGGLER = {"npus": [4], "factor": 2.0}, "variation.stragglers[0].npus"


def failing(links: str, **more: str) -> dict[str, Any]:
    return {**LINE, "events": [{"links": links, **more}]}


@pytest.mark.parametrize(
    ("jobs", "row", "key", "message"),
    [
        ([job("a", [0, 1]), job("b", [1, 2])], {}, "jobs[1].npus", "NPU 1 is one of the job 'a' already"),
        ([job("a", [0, 4])], {}, "jobs[0].npus", "there is no NPU 4"),
        ([job("a", [0, 0])], {}, "jobs[0].npus", "[0, 0] is not a set of NPUs"),
        ([job("a", 3), job("b", 2)], {}, "jobs[1].npus", "the job 'b' needs 2 NPUs, but 1 of 4 is free"),
        ([job("a", 0)], {}, "jobs[0].npus", "0 NPUs"),
        ([job("a", 1)], {}, "jobs[0].workload", "needs 2 NPUs, but the job 'a' has 1"),
        ([job("a"), job("a")], {}, "jobs[1].name", "'a' is repeated"),
        ([job("a/b")], {}, "jobs[0].name", "'a/b' is not a name of a job"),
        ([], {}, "jobs", "there are no jobs"),
        ([job("a", start="-1 s")], {}, "jobs[0].start", "too small"),
        ([job("a", workload={**MESSAGE, "ranks": 3})], {}, "jobs[0].workload.ranks", "point-to-point among 3 ranks"),
        ([job("a", workload="microbenchmrk")], {}, "jobs[0].workload", "microbenchmrk"),
        ([job("a")], {"job_placement": "pack"}, "job_placement", "'pack'"),
        ([job("a")], {"arrivals": {"rate": 0}}, "arrivals.rate", "is not a rate"),
        ([job("a")], {"workload": "microbenchmark"}, "jobs", "there is a workload, too"),
        ([job("a")], {"fabric": failing("npu0->npu9", at="1 s")}, "fabrics.net.events[0].links", ""),
        ([job("a")], {"fabric": failing("npu0->npu1")}, "fabrics.net.events[0].at", ""),
        ([job("a")], {"variation": {"stragglers": SLOW}}, STRAGGLER, ""),
        ([job("a")], {"fabric": {**LINE, "variation": {"stragglers": SLOW}}}, f"fabrics.net.{STRAGGLER}", ""),
    ],
)
def test_bad_input_is_refused_with_its_key(
    jobs: list[dict[str, Any]], row: dict[str, Any], key: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fredfw.experiment.cell.bench.Executor", None)  # nothing is simulated before it is known
    with refused(key if key.startswith(("fabrics.", "variation.")) else f"workloads.both.{key}", message):
        run(*jobs, **row)


def test_jobs_that_need_nothing_of_a_pool_take_no_part_of_it() -> None:
    shape = {"layers": 2, "hidden": 512, "heads": 8, "sequence": 512, "vocabulary": 1000, "global_batch": 4}
    big, other = (job(name, 4, {"name": "transformer", **shape}) for name in "AC")
    small = job("B", 4, {"name": "microbenchmark", "size": "1 MB"})

    def content(capacity: float, *jobs: dict[str, Any]) -> dict[str, Any]:
        pool = {"name": "pool", "bandwidth": "100 GB/s", "capacity": capacity}
        fabric = {"topology": {"name": "switch", "npus": 8}, "collectives": {"default": "ring"}, "memories": [pool]}
        return {**tables(*jobs, fabric=fabric), "npu": {"memory": 8e7}}

    def seconds(*given: Any) -> float:
        return run_tables(content(*given)).seconds

    each = FRAMEWORK.load_experiment(content(1.0, big)).workloads[0].workload.memory(System(8)).total - 8e7
    with pytest.raises(InputError, match="have no room for"):
        seconds(4 * each * 0.999, big, small)
    # Four NPUs need it; the other four need nothing. A second such job needs as much again.
    assert seconds(4 * each * 1.001, big, small) == seconds(100 * each, big, small)
    with pytest.raises(InputError, match="have no room for"):
        seconds(4 * each * 1.001, big, other)
    assert seconds(8 * each * 1.001, big, other) > 0


# --- Links that fail, and NPUs and computations that vary.


def single(workload: dict[str, Any], npus: list[int], varied: dict[str, Any], fidelity: str) -> GraphResult:
    """Simulate an iteration of ``workload`` on ``npus`` of ``STAR``, without jobs."""
    row = {"fabrics": {"net": STAR}, "variation": varied, "workloads": {"w": {"workload": workload}}}
    experiment = FRAMEWORK.load_experiment(row)
    (column,), (line,) = experiment.fabrics, experiment.workloads
    return FRAMEWORK.simulate_graph(
        line.workload.graph(System(len(npus))),
        column.topology.build(),
        placement=npus,
        collectives=STAR["collectives"],
        variation=experiment.variation,
        events=column.events,
        fidelity=fidelity,
    )


@pytest.mark.parametrize("fidelity", SIMULATED)
@pytest.mark.parametrize("start", [0.0, 0.3])
def test_a_link_that_fails_delays_the_job_that_needs_it(start: float, fidelity: str) -> None:
    events = [{"links": "npu0->npu1", "at": at, "action": what} for what, at in (("fail", 0.5), ("restore", 0.7))]
    fabric = {**LINE, "events": events}
    result = run(job("a", [0, 1], start=start), job("b", [2, 3]), fabric=fabric, fidelity=fidelity)
    assert [one.seconds for one in result.jobs] == pytest.approx([1.2, 1.0], rel=1e-12)
    # Alone, it has the same misfortune at the same time.
    assert [one.slowdown for one in result.jobs] == pytest.approx([1.0, 1.0], rel=1e-12)
    assert any("fail npu0->npu1" in note for note in result.notes)


@pytest.mark.parametrize("fidelity", SIMULATED)
def test_jobs_apart_from_each_other_are_single_workloads(fidelity: str) -> None:
    varied = {**JITTER, "runs": 2, "stragglers": {"share": 0.25, "factor": 1.5}}
    both = job("a", [0, 1, 2, 3], {**SPLIT, "dp": 2}), job("b", [4, 5, 6, 7], {**SPLIT, "dp": 2})
    result = run(*both, fabric=STAR, variation=varied, fidelity=fidelity)
    for one in result.jobs:
        own = single({**SPLIT, "dp": 2}, list(one.npus), varied, fidelity)
        assert one.spread is not None
        assert own.spread is not None
        assert one.spread.seconds == pytest.approx(own.spread.seconds, rel=1e-12)
        assert one.seconds == pytest.approx(own.seconds, rel=1e-12)
        assert one.alone == pytest.approx(own.seconds, rel=1e-12)
        assert one.bytes == pytest.approx(own.link_bytes.sum(), rel=1e-12)
        assert len(set(one.spread.seconds)) == 2
        assert one.spread == Spread.of(one.spread.seconds)
        assert sum(one.breakdown.values()) == pytest.approx(one.seconds, rel=1e-9)
    runs = zip(*(one.spread.seconds for one in result.jobs if one.spread), strict=True)
    assert result.spread == Spread.of([max(both) for both in runs])
    assert sum(result.breakdown.values()) == pytest.approx(result.seconds, rel=1e-9)


def test_neither_names_nor_the_order_matter_where_jobs_share_links_that_fail() -> None:
    # Two rows of four NPUs, of which each loses a link or most of one.
    events = [
        {"links": "npu1->npu2", "at": "20 us"},
        {"links": "npu5->npu6", "at": "30 us", "action": "degrade", "factor": 0.25},
    ]
    mesh = {"name": "mesh2d", "rows": 2, "columns": 4, "link_bandwidth": "1 GB/s"}
    rows = {**STAR, "topology": mesh, "events": events}
    even, odd = [0, 2, 4, 6], [1, 3, 5, 7]
    varied = {**JITTER, "runs": 2}
    a, b = run(job("a", even, SPLIT), job("b", odd, SPLIT), fabric=rows, variation=varied).jobs
    other, same = run(job("start of a", odd, SPLIT), job("z", even, SPLIT), fabric=rows, variation=varied).jobs
    assert evolve(same, name="a") == a
    assert evolve(other, name="b") == b
    assert a.slowdown > 1.01


def test_reports_have_a_row_and_the_spread_of_each_job_from_a_store_too(tmp_path: Path) -> None:
    comparison, result = compare(LATER), run_tables(LATER)
    (line,) = csv.DictReader(io.StringIO(comparison_to_csv(comparison)))
    assert (float(line["job.a.seconds"]), float(line["job.b.slowdown"])) == pytest.approx((1.5, 1.5))
    assert float(line["job.b.start"]) == 0.5
    assert [one["name"] for one in json.loads(run_to_json(result))["jobs"]] == ["a", "b"]
    text = printed([*run_report(result), *comparison_report(comparison)], 200)
    assert ["b", "2", "0.500", "1.500", "1.000", "1.500", "1", "-", "-", "1.500", "2", "GB"] in words(text)
    assert "all jobs: 2 s on 4 NPUs" in text
    content = tables(job("a", [0, 1], SPLIT), job("b", [2, 3], SPLIT), fabric=SWITCH, variation=JITTER)
    comparison = compare(content, store=tmp_path / "store")
    (row,) = comparison.rows
    assert compare(content, store=tmp_path / "store").rows[0].jobs == row.jobs
    (line,) = csv.DictReader(io.StringIO(comparison_to_csv(comparison)))
    (heads,) = (one for one in words(printed(comparison_report(comparison), 200)) if "job" in one[:3])
    assert {"P50", "P99"} <= set(heads)
    for one in row.jobs:
        assert one.spread is not None
        assert float(line[f"job.{one.name}.p99"]) == one.spread.p99
        assert float(line[f"job.{one.name}.p50"]) == one.spread.p50
