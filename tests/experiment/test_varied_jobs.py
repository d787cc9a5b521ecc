"""Several jobs on one fabric whose links fail, and whose NPUs and computations vary."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fredfw import Framework
from fredfw.errors import DeadlockError, InputError
from fredfw.experiment.results import GraphResult, JobResult, RunResult
from fredfw.fidelities import SIMULATED
from fredfw.report.comparison import comparison_report
from fredfw.report.data import comparison_to_csv, run_to_json
from fredfw.workloads import System

# A line of four NPUs whose links carry 1 GB/s, in no time: 1 GB takes a second.
LINE = {"topology": {"name": "mesh2d", "rows": 1, "columns": 4, "link_bandwidth": "1 GB/s", "link_latency": "0 ns"}}
SWITCH = {"topology": {"name": "switch", "npus": 8, "link_bandwidth": "10 GB/s"}}
MESSAGE = {"name": "microbenchmark", "pattern": "point-to-point", "ranks": 2, "size": "1 GB"}
MODEL = {"name": "transformer", "layers": 4, "hidden": 256, "heads": 4, "sequence": 64, "vocabulary": 100, "mp": 2}
TRAINING = {**MODEL, "dp": 2}
# Two rows of four NPUs, of which each loses a link or most of one.
ROWS = {
    "topology": {"name": "mesh2d", "rows": 2, "columns": 4, "link_bandwidth": "1 GB/s"},
    "collectives": {"default": "ring"},
    "events": [
        {"links": "npu1->npu2", "at": "20 us"},
        {"links": "npu5->npu6", "at": "30 us", "action": "degrade", "factor": 0.25},
    ],
}
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


def job(name: str, npus: list[int], workload: object = None, **more: object) -> dict[str, Any]:
    return {"name": name, "workload": workload or MESSAGE, "npus": npus, **more}


def tables(*jobs: dict[str, Any], fabric: dict[str, Any], variation: object = None) -> dict[str, Any]:
    varied = {} if variation is None else {"variation": variation}
    return {"fabrics": {"net": fabric}, "workloads": {"both": {"jobs": list(jobs)}}, **varied}


def run(*jobs: dict[str, Any], fidelity: str | None = None, **given: Any) -> RunResult:
    framework = Framework()
    return framework.run(framework.load_experiment(tables(*jobs, **given)), fidelity=fidelity)


def by_name(result: RunResult) -> dict[str, JobResult]:
    return {one.name: one for one in result.jobs}


def single(workload: dict[str, Any], npus: list[int], varied: dict[str, Any], fidelity: str) -> GraphResult:
    """Simulate an iteration of ``workload`` on ``npus`` of ``STAR``, without jobs."""
    framework = Framework()
    row = {"fabrics": {"net": STAR}, "variation": varied, "workloads": {"w": {"workload": workload}}}
    experiment = framework.load_experiment(row)
    (column,), (line,) = experiment.fabrics, experiment.workloads
    return framework.simulate_graph(
        line.workload.graph(System(len(npus))),
        column.topology.build(),
        placement=npus,
        collectives=STAR["collectives"],
        variation=experiment.variation,
        events=column.events,
        fidelity=fidelity,
    )


def event(action: str, at: str, **more: object) -> dict[str, Any]:
    return {"links": "npu0->npu1", "at": at, "action": action, **more}


@pytest.mark.parametrize("fidelity", SIMULATED)
@pytest.mark.parametrize("start", [0.0, 0.3])
def test_a_link_that_fails_delays_the_job_that_needs_it(start: float, fidelity: str) -> None:
    failing = {**LINE, "events": [event("fail", "500 ms"), event("restore", "700 ms")]}
    result = run(job("a", [0, 1], start=start), job("b", [2, 3]), fabric=failing, fidelity=fidelity)
    found = by_name(result)
    assert found["a"].seconds == pytest.approx(1.2, rel=1e-12)
    assert found["b"].seconds == pytest.approx(1.0, rel=1e-12)
    # Alone, it has the same misfortune at the same time.
    assert [one.slowdown for one in result.jobs] == pytest.approx([1.0, 1.0], rel=1e-12)
    assert any("fail npu0->npu1" in note for note in result.notes)


@pytest.mark.parametrize("fidelity", SIMULATED)
def test_jobs_apart_from_each_other_are_single_workloads(fidelity: str) -> None:
    varied = {**JITTER, "runs": 2, "stragglers": {"share": 0.25, "factor": 1.5}}
    both = job("a", [0, 1, 2, 3], TRAINING), job("b", [4, 5, 6, 7], TRAINING)
    for one in run(*both, fabric=STAR, variation=varied, fidelity=fidelity).jobs:
        own = single(TRAINING, list(one.npus), varied, fidelity)
        assert one.spread is not None
        assert own.spread is not None
        assert one.spread.seconds == pytest.approx(own.spread.seconds, rel=1e-12)
        assert one.seconds == pytest.approx(own.seconds, rel=1e-12)
        assert one.alone == pytest.approx(own.seconds, rel=1e-12)
        assert one.bytes == pytest.approx(own.link_bytes.sum(), rel=1e-12)
        assert len(set(one.spread.seconds)) == 2


def test_events_after_the_end_change_nothing() -> None:
    both = job("a", [0, 2]), job("b", [1, 3])
    late = {**LINE, "events": [event("fail", "5 s"), event("restore", "6 s")]}
    plain, found = run(*both, fabric=LINE), run(*both, fabric=late)
    assert found.jobs == plain.jobs
    assert found.seconds == plain.seconds
    assert "no link event happened before the end" in found.notes


def test_a_job_without_a_path_for_good_is_named() -> None:
    cut = {**LINE, "events": [event("fail", "500 ms")]}
    with pytest.raises(DeadlockError, match="a/collective"):
        run(job("a", [0, 1]), job("b", [2, 3]), fabric=cut)


def test_a_detour_over_the_links_of_another_job_slows_both_down_and_is_noted() -> None:
    ring = {"topology": {"name": "torus", "dimensions": [4], "link_bandwidth": "1 GB/s", "link_latency": "0 ns"}}
    failing = {**ring, "collectives": {"default": "direct"}, "events": [{"links": "npu0->npu1", "at": "500 ms"}]}
    swap = {"name": "microbenchmark", "pattern": "all-to-all", "ranks": 2, "size": "2 GB"}
    result = run(job("a", [0, 1]), job("b", [2, 3], swap), fabric=failing)
    # Both have 0.5 GB left when a turns round, and half of the link from 3 to 2 each.
    for one in result.jobs:
        assert (one.seconds, one.alone) == pytest.approx((1.5, 1.0), rel=1e-12)
    assert any("1 flow under way took another path" in note for note in result.notes)


def test_a_slower_link_and_another_job_both_take_their_time() -> None:
    # Half of the link for each; from 1 s on half of that: 0.5 GB are left of each, at 0.25 GB/s.
    slow = {**LINE, "events": [{**event("degrade", "1 s", factor=0.5), "links": "npu1->npu2"}]}
    result = run(job("a", [0, 2]), job("b", [1, 3]), fabric=slow)
    for one in result.jobs:
        assert one.seconds == pytest.approx(3.0, rel=1e-12)
        assert one.alone == pytest.approx(1.0, rel=1e-12)


def test_jobs_whose_computations_vary_do_not_slow_down_each_other_by_that() -> None:
    result = run(job("a", [0, 1, 2, 3], MODEL), job("b", [4, 5, 6, 7], MODEL), fabric=SWITCH, variation=JITTER)
    for one in result.jobs:
        assert one.slowdown == pytest.approx(1.0, rel=1e-12)
        assert one.spread is not None
        assert one.spread.runs == 4
        assert one.spread.mean == pytest.approx(one.seconds, rel=1e-12)
        assert one.seconds == pytest.approx(fmean(one.spread.seconds), rel=1e-12)
        assert sum(one.breakdown.values()) == pytest.approx(one.seconds, rel=1e-9)
        p50, p99 = np.percentile(one.spread.seconds, [50, 99]).tolist()
        assert (one.spread.p50, one.spread.p99) == (p50, p99)
    assert result.jobs[0].spread != result.jobs[1].spread
    assert result.spread is not None
    assert result.spread.seconds == pytest.approx(
        [max(both) for both in zip(*(one.spread.seconds for one in result.jobs if one.spread), strict=True)]
    )
    assert sum(result.breakdown.values()) == pytest.approx(result.seconds, rel=1e-9)


def test_what_a_job_draws_depends_on_its_npus_alone() -> None:
    def seconds(*jobs: dict[str, Any]) -> dict[str, JobResult]:
        return by_name(run(*jobs, fabric=SWITCH, variation=JITTER))

    first, second = job("a", [0, 1, 2, 3], MODEL), job("b", [4, 5, 6, 7], MODEL)
    there = seconds(first, second)
    back = seconds(job("x", [4, 5, 6, 7], MODEL), job("y", [0, 1, 2, 3], MODEL))
    lonely = seconds(second)
    assert there["a"].spread == back["y"].spread
    assert there["b"].spread == back["x"].spread == lonely["b"].spread


def test_a_seed_decides_what_jobs_draw() -> None:
    def jobs(seed: int) -> tuple[JobResult, ...]:
        both = job("a", [0, 2, 4, 6], MODEL), job("b", [1, 3, 5, 7], MODEL)
        varied = {**JITTER, "runs": 2, "seed": seed, "stragglers": {"share": 0.25, "factor": 2.0}}
        return run(*both, fabric=ROWS, variation=varied).jobs

    assert jobs(1) == jobs(1)
    assert all(one.seconds != other.seconds for one, other in zip(jobs(1), jobs(2), strict=True))


def test_neither_names_nor_the_order_matter_where_jobs_share_links_that_fail() -> None:
    even, odd = [0, 2, 4, 6], [1, 3, 5, 7]
    varied = {**JITTER, "runs": 2}
    first = by_name(run(job("a", even, MODEL), job("b", odd, MODEL), fabric=ROWS, variation=varied))
    turned = by_name(run(job("y", odd, MODEL), job("z", even, MODEL), fabric=ROWS, variation=varied))
    for one, other in ((first["a"], turned["z"]), (first["b"], turned["y"])):
        assert (one.spread, one.alone, one.bytes, one.breakdown) == (
            other.spread,
            other.alone,
            other.bytes,
            other.breakdown,
        )
    assert first["a"].slowdown > 1.01


def test_a_slow_npu_slows_the_job_that_has_it() -> None:
    both = job("a", [0, 1, 2, 3], MODEL), job("b", [4, 5, 6, 7], MODEL)
    steady = by_name(run(*both, fabric=SWITCH))
    slow = by_name(run(*both, fabric=SWITCH, variation={"stragglers": {"npus": [5], "factor": 2.0}}))
    assert slow["a"].seconds == steady["a"].seconds
    # All ranks of the job wait for it.
    assert slow["b"].breakdown["compute"] + slow["b"].breakdown["bubble"] > 1.1 * steady["b"].breakdown["compute"]
    assert slow["b"].alone > steady["b"].alone
    assert slow["b"].slowdown == pytest.approx(1.0, rel=1e-12)


def test_reports_have_the_spread_of_each_job_from_a_store_too(tmp_path: Path) -> None:
    framework = Framework()
    content = tables(job("a", [0, 1], MODEL), job("b", [2, 3], MODEL), fabric=SWITCH, variation=JITTER)
    experiment = framework.load_experiment(content)
    comparison = framework.compare(experiment, store=tmp_path / "store")
    (row,) = comparison.rows
    assert framework.compare(experiment, store=tmp_path / "store").rows[0].jobs == row.jobs
    (line,) = csv.DictReader(io.StringIO(comparison_to_csv(comparison)))
    console = Console(width=200, record=True, file=io.StringIO())
    for part in comparison_report(comparison):
        console.print(part)
    words = [line.split() for line in console.export_text().splitlines()]
    (heads,) = (one for one in words if one[:3] == ["workload", "fabric", "job"])
    assert {"P50", "P99"} <= set(heads)
    for one in row.jobs:
        assert one.spread is not None
        assert float(line[f"job.{one.name}.p99"]) == one.spread.p99
        assert float(line[f"job.{one.name}.p50"]) == one.spread.p50
    data = json.loads(run_to_json(framework.run(experiment)))
    assert [one["spread"]["runs"] for one in data["jobs"]] == [4, 4]


def test_links_fail_at_random_under_jobs() -> None:
    failing = {
        **SWITCH,
        "events": [{"links": "*", "mtbf": "50 ms", "mttr": "1 ms"}],
        "variation": {"runs": 3, "seed": 2},
    }
    both = job("a", [0, 1, 2, 3]), job("b", [4, 5, 6, 7])
    found, again = (run(*both, fabric=failing) for _ in range(2))
    assert found.jobs == again.jobs
    assert all(one.spread is not None and len(set(one.spread.seconds)) == 3 for one in found.jobs)
    assert all(one.slowdown == pytest.approx(1.0, rel=1e-12) for one in found.jobs)


@pytest.mark.parametrize(
    ("fabric", "variation", "key"),
    [
        ({**LINE, "events": [{"links": "npu0->npu9", "at": "1 s"}]}, None, "fabrics.net.events[0].links"),
        ({**LINE, "events": [{"links": "npu0->npu1"}]}, None, "fabrics.net.events[0].at"),
        (LINE, {"stragglers": {"npus": [4], "factor": 2.0}}, "variation.stragglers[0].npus"),
        (LINE, {"jitter": {"distribution": "uniform", "deviation": 0.9}}, "variation.jitter.deviation"),
        (LINE, {"runs": 0}, "variation.runs"),
        (
            {**LINE, "variation": {"stragglers": {"npus": [4], "factor": 2.0}}},
            None,
            "fabrics.net.variation.stragglers[0].npus",
        ),
    ],
)
def test_what_cannot_vary_is_refused_before_anything_runs(
    fabric: dict[str, Any], variation: object, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fredfw.experiment.cell.bench.Executor", lambda *_, **__: pytest.fail("something was simulated")
    )
    with pytest.raises(InputError) as caught:
        run(job("a", [0, 2]), job("b", [1, 3]), fabric=fabric, variation=variation)
    assert caught.value.key == key
