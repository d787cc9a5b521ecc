from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fredfw import Framework
from fredfw.errors import InputError
from fredfw.experiment.cell.runner import Runner
from fredfw.experiment.file.spec import Experiment
from fredfw.experiment.jobs import Arrivals, Job, Jobs
from fredfw.experiment.matrix.merge import merge
from fredfw.experiment.results import Cell, JobResult, RunResult
from fredfw.experiment.store import Store
from fredfw.experiment.why import critical_path
from fredfw.fidelities import SIMULATED
from fredfw.report.comparison import comparison_report
from fredfw.report.data import comparison_to_csv, run_to_json
from fredfw.report.runs import run_report
from fredfw.report.trace import trace_to_json
from fredfw.workloads import System

# A line of four NPUs whose links carry 1 GB/s, in no time: 1 GB takes a second.
LINE = {"topology": {"name": "mesh2d", "rows": 1, "columns": 4, "link_bandwidth": "1 GB/s", "link_latency": "0 ns"}}
TREE = {
    "topology": {"name": "fat-tree", "npus": 16, "radix": 8, "oversubscription": 3.0},
    "collectives": {"default": "direct"},
}
MESSAGE = {"name": "microbenchmark", "pattern": "point-to-point", "ranks": 2, "size": "1 GB"}
MODEL = {"name": "transformer", "layers": 4, "hidden": 256, "heads": 4, "sequence": 64, "vocabulary": 100}
TRAINING = {**MODEL, "mp": 2, "dp": 4}


def job(name: str, npus: object = None, workload: object = None, **more: object) -> dict[str, Any]:
    given = {} if npus is None else {"npus": npus}
    return {"name": name, "workload": workload or MESSAGE, **given, **more}


def tables(*jobs: dict[str, Any], fabric: object = LINE, **row: object) -> dict[str, Any]:
    return {"fabrics": {"net": fabric}, "workloads": {"both": {"jobs": list(jobs), **row}}}


def run(*jobs: dict[str, Any], fabric: object = LINE, fidelity: str | None = None, **row: object) -> RunResult:
    framework = Framework()
    return framework.run(framework.load_experiment(tables(*jobs, fabric=fabric, **row)), fidelity=fidelity)


def by_name(result: RunResult) -> dict[str, JobResult]:
    return {one.name: one for one in result.jobs}


@pytest.mark.parametrize("fidelity", SIMULATED)
def test_two_equal_flows_on_one_link_take_twice_as_long(fidelity: str) -> None:
    result = run(job("a", [0, 2]), job("b", [1, 3]), fidelity=fidelity)
    for one in result.jobs:
        assert (one.seconds, one.alone, one.slowdown) == pytest.approx((2.0, 1.0, 2.0), rel=1e-12)
        assert one.bytes == one.bytes_alone == 2e9  # two links each
    assert result.seconds == pytest.approx(2.0)


@pytest.mark.parametrize("fidelity", SIMULATED)
def test_jobs_that_share_no_link_take_as_long_as_alone(fidelity: str) -> None:
    for start in (0.0, 0.3):
        for one in run(job("a", [0, 1]), job("b", [2, 3], start=start), fidelity=fidelity).jobs:
            assert one.seconds == pytest.approx(1.0, rel=1e-12)
            assert one.slowdown == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("fidelity", SIMULATED)
def test_a_job_that_starts_later_shares_the_link_from_then_on(fidelity: str) -> None:
    # a has the link for 0.5 s, half of it for 1 s; b half of it for 1 s and then all of it for 0.5 s.
    result = run(job("a", [0, 2]), job("b", [1, 3], start="500 ms"), fidelity=fidelity)
    found = by_name(result)
    assert found["a"].seconds == pytest.approx(1.5)
    assert (found["b"].start, found["b"].seconds) == pytest.approx((0.5, 1.5))
    assert result.seconds == pytest.approx(2.0)
    # Half of the ranks wait half a second for their start, and half wait for half a second after their end.
    assert result.breakdown["waiting"] == pytest.approx(0.5)
    assert result.breakdown["compute"] == 0
    assert sum(result.breakdown.values()) == pytest.approx(2.0)
    assert found["b"].breakdown == pytest.approx({"compute": 0, "bubble": 0, "collective": 1.5})


def test_iterations_of_a_job_follow_each_other() -> None:
    # b has three messages of a third of the size of a's: they share the link until both end.
    small = {**MESSAGE, "size": "250 MB"}
    found = by_name(run(job("a", [0, 2]), job("b", [1, 3], small, iterations=3)))
    assert found["b"].iterations == pytest.approx((0.5, 0.5, 0.5))
    assert (found["b"].alone, found["b"].slowdown) == pytest.approx((0.75, 2.0))
    assert found["a"].seconds == pytest.approx(1.75)


def test_an_iteration_begins_when_all_ranks_of_the_job_have_ended_the_one_before() -> None:
    pipeline = {**MODEL, "mp": 1, "pp": 2, "microbatches": 2}
    one = by_name(run(job("a", workload=pipeline), fabric=TREE))["a"]
    three = by_name(run(job("a", workload=pipeline, iterations=3, start="1 s"), fabric=TREE))["a"]
    assert three.iterations == pytest.approx([one.seconds] * 3, rel=1e-9)
    assert three.breakdown == pytest.approx({cause: 3 * spent for cause, spent in one.breakdown.items()}, abs=1e-12)
    assert one.work is not None
    assert three.throughput.samples_per_second == pytest.approx(one.work.samples / one.seconds)


@pytest.mark.parametrize("fidelity", SIMULATED)
def test_bytes_of_jobs_are_those_of_each_alone(fidelity: str) -> None:
    other = {"name": "microbenchmark", "size": "1 MB"}
    result = run(job("a", 8, TRAINING), job("b", 8, other), fabric=TREE, fidelity=fidelity, job_placement="spread")
    for one in result.jobs:
        assert one.bytes == one.bytes_alone > 0
    assert sum(one.bytes for one in result.jobs) == pytest.approx(result.link_bytes.sum(), rel=1e-12)


def test_a_job_depends_neither_on_names_nor_on_the_order() -> None:
    even, odd = list(range(0, 16, 2)), list(range(1, 16, 2))
    other = {"name": "microbenchmark", "size": "3 MB"}

    def outcome(*names: str, turned: bool) -> list[tuple[object, ...]]:
        jobs = [job(names[0], even, TRAINING, iterations=2), job(names[1], odd, other, start="10 us")]
        found = by_name(run(*(jobs[::-1] if turned else jobs), fabric=TREE))
        return [
            (one.seconds, one.alone, one.slowdown, one.bytes, one.iterations, one.breakdown)
            for one in (found[name] for name in names)
        ]

    expected = outcome("a", "b", turned=False)
    assert expected[0][2] > 1  # type: ignore[operator]
    assert outcome("a", "b", turned=True) == expected
    assert outcome("z", "start of b", turned=False) == expected


def test_a_workload_alone_is_a_job_alone() -> None:
    framework = Framework()
    workloads = {"w": {"workload": TRAINING, "compute_scale": 0.5}}
    whole = framework.run(framework.load_experiment({"fabrics": {"net": TREE}, "workloads": workloads}))
    result = run(job("a", 8, TRAINING), fabric=TREE, compute_scale=0.5)
    (one,) = result.jobs
    assert one.seconds == one.alone == result.seconds == whole.seconds
    assert one.breakdown == pytest.approx(whole.breakdown)
    assert one.throughput == whole.throughput
    assert result.memory == whole.memory


def numbers(policy: str, *counts: int | tuple[int, ...], seed: int = 0, npus: int = 8) -> list[list[int]]:
    workload = Framework().load_experiment(tables(job("a"))).workloads[0].workload
    assert isinstance(workload, Jobs)
    inner = workload.jobs[0].workload
    jobs = Jobs(tuple(Job(f"{index}", inner, one) for index, one in enumerate(counts)), policy, seed)
    return [one.tolist() for one in jobs.sets(System(npus))]


def test_policies_choose_npus() -> None:
    assert numbers("packed", 3, 4) == [[0, 1, 2], [3, 4, 5, 6]]
    assert numbers("packed", 3, (1, 0), 2) == [[2, 3, 4], [0, 1], [5, 6]]
    assert numbers("spread", 4, 4) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert numbers("spread", 2, 6) == [[0, 4], [1, 2, 3, 5, 6, 7]]
    chosen = numbers("random", 30, 30, seed=1, npus=64)
    assert chosen == numbers("random", 30, 30, seed=1, npus=64) != numbers("random", 30, 30, seed=2, npus=64)
    assert len({npu for one in chosen for npu in one}) == 60
    assert numbers("packed", None, npus=8) == [[0, 1]]  # type: ignore[arg-type]


def test_random_npus_are_equal_on_every_python() -> None:
    # From random.Random(1).random(), whose sequence Python guarantees: 0.134, 0.847, 0.764, 0.255, 0.495, 0.449.
    assert numbers("random", 3, 3, seed=1, npus=6) == [[0, 3, 5], [1, 2, 4]]


def test_arrivals_are_a_poisson_process() -> None:
    times = np.array(Arrivals(rate=50.0, seed=3).times(20_000))
    gaps = np.diff([0.0, *times])
    # Mean and deviation of an exponential distribution are equal; three standard errors are 2 %.
    assert gaps.mean() == pytest.approx(0.02, rel=0.02)
    assert gaps.std() == pytest.approx(0.02, rel=0.03)
    assert Arrivals(50.0, 3).times(5) == times[:5].tolist() != Arrivals(50.0, 4).times(5)


def test_jobs_without_a_start_arrive() -> None:
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


def test_labels_of_jobs_have_the_priorities_of_the_experiment() -> None:
    both = tables(job("a", [0, 2]), job("b", [1, 3]), fabric={**LINE, "sharing": "strict-links"})
    framework = Framework()
    found = by_name(framework.run(framework.load_experiment({**both, "priorities": ["b/collective"]})))
    assert (found["a"].seconds, found["b"].seconds) == pytest.approx((2.0, 1.0))


def run_tables(content: dict[str, Any]) -> RunResult:
    framework = Framework()
    return framework.run(framework.load_experiment(content))


def test_a_label_goes_for_all_jobs() -> None:
    """An experiment may name ``collective`` for the label of that name of every job."""
    content = tables(job("a", [0, 2]), job("b", [1, 3]), fabric={**LINE, "sharing": "strict-links"})
    found = by_name(run_tables({**content, "priorities": ["collective"]}))
    assert found["a"].seconds == pytest.approx(found["b"].seconds)  # they are of one class
    with pytest.raises(InputError, match="no workload has the label 'a/dp'"):
        run_tables({**content, "priorities": ["a/dp"]})


def test_weights_name_labels_of_jobs() -> None:
    def times(**weights: float) -> tuple[float, float]:
        sharing = {"name": "weighted-max-min", "weights": weights}
        found = by_name(run_tables(tables(job("a", [0, 2]), job("b", [1, 3]), fabric={**LINE, "sharing": sharing})))
        return found["a"].seconds, found["b"].seconds

    alike, first = times(collective=2.0), times(**{"collective": 1.0, "a/collective": 3.0})
    assert alike[0] == pytest.approx(alike[1])
    assert first[0] < first[1]


def compared(tmp_path: Path, **options: object) -> Any:
    framework = Framework()
    content = tables(job("a", [0, 2]), job("b", [1, 3], start="500 ms"))
    return framework.compare(framework.load_experiment(content), **options)  # type: ignore[arg-type]


def test_cells_with_jobs_are_stored_and_merged(tmp_path: Path) -> None:
    fresh = compared(tmp_path)
    path = tmp_path / "cells"
    compared(tmp_path, store=path)
    again = compared(tmp_path, store=path)
    assert again.to_json() == fresh.to_json()
    assert [one["name"] for one in json.loads(fresh.to_json())["rows"][0]["jobs"]] == ["a", "b"]
    outline = Framework().outline(tables(job("a", [0, 2]), job("b", [1, 3], start="500 ms")))
    with Store.open(path) as store:
        assert merge(outline, [store]).rows[0].jobs == fresh.rows[0].jobs
        other = Framework().outline(tables(job("a", [0, 2]), job("b", [1, 3], start="400 ms")))
        with pytest.raises(InputError, match="no result for 1 of 1 cell:"):
            merge(other, [store])


def test_a_placement_of_jobs_is_swept() -> None:
    row = {"jobs": [job("a", 8, TRAINING), job("b", 8, {"name": "microbenchmark", "size": "1 MB"})]}
    swept = {"{job_placement}": {**row, "sweep": {"job_placement": ["packed", "spread"]}}}
    framework = Framework()
    comparison = framework.compare(framework.load_experiment({"fabrics": {"net": TREE}, "workloads": swept}))
    packed, spread = comparison.rows
    assert packed.workload_settings == {"job_placement": "packed"}
    assert packed.jobs[0].slowdown == pytest.approx(1.0)
    assert spread.jobs[0].slowdown > 1.01
    changed = framework.load_experiment({"fabrics": {"net": TREE}, "workloads": {"w": row}}).with_values(
        {"workloads.w.jobs.1.workload.size": "2 MB"}
    )
    assert changed.workloads[0].workload.jobs[1].workload.size == 2e6  # type: ignore[attr-defined]


def test_a_cell_says_what_plugins_its_jobs_use() -> None:
    result = run(job("a", 8, TRAINING), job("b", 8, {"name": "microbenchmark", "size": "1 MB"}), fabric=TREE)
    assert {"fredfw-workload-transformer", "fredfw-workload-microbenchmark"} <= set(result.provenance["versions"])
    assert [one["name"] for one in result.provenance["workload"]["jobs"]] == ["a", "b"]
    assert Cell.of(result).jobs == result.jobs


def test_what_a_job_has_no_room_for_goes_to_memory_tiers() -> None:
    fabric = {**TREE, "memories": [{"name": "cxl", "scope": "npu", "bandwidth": "64 GB/s", "capacity": "1 TB"}]}
    content = tables(job("a", 8, TRAINING), job("b", 8, {"name": "microbenchmark", "size": "1 MB"}), fabric=fabric)
    framework = Framework()
    result = framework.run(framework.load_experiment({**content, "npu": {"memory": "30 MB"}}))
    first, second = result.jobs
    assert first.breakdown["spill"] > 0
    assert "spill" not in second.breakdown
    assert first.bytes == first.bytes_alone
    assert next(note for note in result.notes if "memory tier 'cxl'" in note).startswith("a: needs")


def test_background_traffic_slows_a_job_down() -> None:
    noise = {"name": "background", "bandwidth": "40 Gbps", "load": 0.9, "duration": "5 ms", "seed": 1}
    found = by_name(run(job("a", 8, TRAINING), job("b", 8, noise), fabric=TREE, job_placement="spread"))
    assert found["a"].slowdown > 1.05
    assert found["b"].alone >= 5e-3
    assert found["b"].breakdown["compute"] == 0
    assert found["b"].bytes == found["b"].bytes_alone


def test_repeated_blocks_of_jobs_have_a_note_where_they_are_simulated_as_one() -> None:
    both = job("a", 8, TRAINING), job("b", 8, {"name": "microbenchmark", "size": "1 MB"})
    assert any("at other moments" in note for note in run(*both, fabric=TREE, fidelity="compressed").notes)
    assert not any("other moments" in note for note in run(*both, fabric=TREE, fidelity="exact").notes)
    assert not any("other moments" in note for note in run(both[0], fabric=TREE, fidelity="compressed").notes)


def test_the_path_and_the_trace_of_jobs_show_the_wait_for_a_start() -> None:
    result = run(job("a", [0, 1]), job("b", [2, 3], start="2 s"))
    steps = {step.name: step for step in critical_path(result).steps}
    assert steps["start of b"].seconds == pytest.approx(2.0)
    assert steps["start of b"].limits == pytest.approx({"waiting": 2.0})
    trace = json.loads(trace_to_json(result))
    names = {event.get("name") for event in trace["traceEvents"]}
    assert {"waiting", "waiting wait: start of b"} <= names


def test_reports_have_a_row_for_each_job() -> None:
    framework = Framework()
    content = tables(job("a", [0, 2]), job("b", [1, 3], start="500 ms"))
    comparison = framework.compare(framework.load_experiment(content))
    (line,) = csv.DictReader(io.StringIO(comparison_to_csv(comparison)))
    assert (float(line["job.a.seconds"]), float(line["job.b.slowdown"])) == pytest.approx((1.5, 1.5))
    assert float(line["job.b.start"]) == 0.5
    result = framework.run(framework.load_experiment(content))
    assert [one["name"] for one in json.loads(run_to_json(result))["jobs"]] == ["a", "b"]
    console = Console(width=200, record=True, file=io.StringIO())
    for part in (*run_report(result), *comparison_report(comparison)):
        console.print(part)
    text = console.export_text()
    assert "all jobs: 2 s on 4 NPUs" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["b", "2", "0.500", "1.500", "1.000", "1.500", "1", "-", "-", "1.500", "2", "GB"] in rows
    assert "slowdown: time of a job over that on the same NPUs" in text


def test_notes_say_of_which_job_they_are() -> None:
    tiny = {"fabrics": {"net": TREE}, "npu": {"memory": "1 kB"}}
    framework = Framework()
    content = {**tables(job("a", 8, TRAINING)), **tiny}
    with pytest.raises(InputError) as caught:
        framework.run(framework.load_experiment(content))
    assert caught.value.key == "workloads.both.jobs[0].workload"


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
        ([job("a", iterations=0)], {}, "jobs[0].iterations", "0 is not a valid number"),
        ([job("a", workload={**MESSAGE, "size": "0 B"})], {}, "jobs[0].workload.size", "too small"),
        ([job("a", workload={**MESSAGE, "ranks": 3})], {}, "jobs[0].workload.ranks", "point-to-point among 3 ranks"),
        ([job("a", workload="microbenchmrk")], {}, "jobs[0].workload", "microbenchmrk"),
        ([job("a")], {"job_placement": "pack"}, "job_placement", "'pack'"),
        ([job("a")], {"job_seed": -1}, "job_seed", "-1 is not a valid number"),
        ([job("a")], {"arrivals": {"rate": 0}}, "arrivals.rate", "is not a rate"),
        ([job("a", begin=1)], {}, "jobs[0].begin", "unknown key"),
        ([job("a")], {"workload": "microbenchmark"}, "jobs", "there is a workload, too"),
    ],
)
def test_bad_input_is_refused_with_its_key(
    jobs: list[dict[str, Any]], row: dict[str, Any], key: str, message: str, simulated_nothing: None
) -> None:
    with pytest.raises(InputError) as caught:
        run(*jobs, **row)
    assert caught.value.key == f"workloads.both.{key}"
    assert message in caught.value.message
    assert caught.value.accepted


@pytest.fixture
def simulated_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Callable[..., object]:
        pytest.fail("something was simulated")

    monkeypatch.setattr("fredfw.experiment.cell.bench.Executor", refuse)


def test_jobs_are_not_estimated() -> None:
    experiment = Framework().load_experiment(tables(job("a", [0, 2]), job("b", [1, 3])))
    runner = Runner(experiment, Framework().plugins)
    with pytest.raises(InputError, match="what jobs do to each other") as caught:
        runner.estimate(experiment.workloads[0], experiment.fabrics[0])
    assert caught.value.key == "workloads.both.jobs"


def test_keys_of_jobs_need_jobs() -> None:
    workloads = {"w": {"workload": "microbenchmark", "job_seed": 1}}
    with pytest.raises(InputError, match="there are no jobs") as caught:
        Framework().outline({"fabrics": {"net": LINE}, "workloads": workloads})
    assert caught.value.key == "workloads.w.job_seed"


def test_jobs_that_need_nothing_of_a_pool_take_no_part_of_it() -> None:
    shape = {"layers": 2, "hidden": 512, "heads": 8, "sequence": 512, "vocabulary": 1000, "global_batch": 4}
    big = {"name": "A", "workload": {"name": "transformer", **shape}, "npus": 4}
    small = {"name": "B", "workload": {"name": "microbenchmark", "size": "1 MB"}, "npus": 4}

    def load(capacity: float, *jobs: dict[str, Any]) -> Experiment:
        pool = {"name": "pool", "bandwidth": "100 GB/s", "capacity": capacity}
        fabric = {"topology": {"name": "switch", "npus": 8}, "collectives": {"default": "ring"}, "memories": [pool]}
        tables = {"npu": {"memory": 8e7}, "fabrics": {"sw": fabric}, "workloads": {"two": {"jobs": list(jobs)}}}
        return Framework().load_experiment(tables)

    def run(capacity: float, *jobs: dict[str, Any]) -> float:
        return float(Framework().run(load(capacity, *jobs)).seconds)

    each = load(1.0, big).workloads[0].workload.memory(System(8)).total - 8e7
    with pytest.raises(InputError, match="have no room for"):
        run(4 * each * 0.999, big, small)
    # Four NPUs need it; the other four need nothing. A second such job needs as much again.
    assert run(4 * each * 1.001, big, small) == run(100 * each, big, small)
    with pytest.raises(InputError, match="have no room for"):
        run(4 * each * 1.001, big, {**big, "name": "C"})
    assert run(8 * each * 1.001, big, {**big, "name": "C"}) > 0
