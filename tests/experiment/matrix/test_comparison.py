import json
from typing import Any

import pytest
from experiments import FRAMEWORK, PEAK, SMALL, compare, hooked, refused, run

from fredfw import RunResult, limits
from fredfw.errors import InputError, Interrupted
from fredfw.experiment.results import Comparison, Status, Throughput

MICRO = {"workload": "microbenchmark"}
ONE = {"one": MICRO}
MESH: dict[str, Any] = {"topology": {"name": "mesh2d", "rows": 2, "columns": 2}, "collectives": {"default": "ring"}}
FRED = {"topology": {"name": "fred", "arity": [2, 2]}, "collectives": {"default": "in-network"}}
LARGE = {**MESH, "topology": {**MESH["topology"], "columns": 4}}
ALONE = {"topology": {"name": "mesh2d", "rows": 1, "columns": 1}}


def tables(**changes: Any) -> dict[str, Any]:
    mesh = {"topology": dict(MESH["topology"]), "collectives": {"point-to-point": "direct", "default": "ring"}}
    return {
        "title": "Two by two",
        "fabrics": {"mesh": mesh, "fred": {**FRED}},
        "workloads": {"one": MICRO, "two": {"workload": {**SMALL, "mp": 2, "pp": 2, "microbatches": 2}}},
        **changes,
    }


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    references = [{"workload": "two", "fabric": "fred", "speedup": 1.5, "source": "a paper"}]
    return compare(tables(references=references))


def test_rows_come_workload_by_workload_with_times_of_closed_forms_and_what_they_train(comparison: Comparison) -> None:
    cells = [(row.workload, row.fabric) for row in comparison.rows]
    assert cells == [("one", "mesh"), ("one", "fred"), ("two", "mesh"), ("two", "fred")]
    assert (comparison.title, comparison.baseline) == ("Two by two", "mesh")
    assert comparison.rows[1].algorithms == {"collective all-reduce x4": "in-network"}
    published = [(row.reference_speedup, row.reference_source) for row in comparison.rows]
    assert published == [(None, None), (None, None), (None, None), (1.5, "a paper")]
    mesh, fred = comparison.rows[:2]
    # A ring of four links, and one stream up and down two levels at 1 GB / (3 TB/s).
    assert mesh.seconds == pytest.approx(6 * (20e-9 + 0.25e9 / 750e9), rel=1e-9)
    assert fred.seconds == pytest.approx(4 * 20e-9 + 1e9 / 3e12, rel=1e-9)
    assert (mesh.speedup, fred.speedup) == (1.0, mesh.seconds / fred.seconds)
    two = comparison.rows[2]
    assert mesh.throughput == Throughput(npu_time=4 * mesh.seconds)
    # 16 samples of 32 tokens; Megatron's formula without recomputation.
    flops = 72 * 16 * 32 * 4 * 64**2 * (1 + 32 / (6 * 64) + 100 / (12 * 4 * 64))
    assert two.throughput.samples_per_second == pytest.approx(16 / two.seconds, rel=1e-12)
    assert two.throughput.tokens_per_second == pytest.approx(512 / two.seconds, rel=1e-12)
    assert two.throughput.mfu == pytest.approx(flops / (4 * two.seconds * 989.4e12), rel=1e-12)


def test_another_number_of_npus_is_noted_swept_fabrics_say_what_they_are_and_npus_in_use_count() -> None:
    rows = compare(tables(fabrics={"mesh": MESH, "fred": FRED, "large": LARGE}, workloads=ONE)).rows
    note = "runs on 8 NPUs, 'mesh' on 4: the speed-up compares machines of different size"
    assert [(row.npus, row.notes) for row in rows] == [(4, ()), (4, ()), (8, (note,))]
    swept = {"fred {arity}": {"topology": "fred", "sweep": {"arity": [[2, 2], [4]]}}}
    rows = compare(tables(fabrics=swept, baseline="fred [4]", workloads=ONE)).rows
    swept_rows = [(row.fabric_template, row.fabric_settings) for row in rows]
    assert swept_rows == [("fred {arity}", {"arity": arity}) for arity in ([2, 2], [4])]
    # One row of four: the two ends have one link to another NPU, the two between them two.
    line = {"topology": {"name": "mesh2d", "rows": 1, "columns": 4, "link_bandwidth": "1 GB/s"}}
    workloads = {f"{ranks}": {"workload": {"name": "microbenchmark", "ranks": ranks}} for ranks in (2, 3)}
    content = {"fabrics": {"line": line}, "workloads": workloads}
    found = [run(content, workload=name).injection_bandwidth for name in ("2", "3")]
    assert found == pytest.approx([3e9 / 2, 5e9 / 3])


def test_what_is_nearer_than_ratios_are_sure_of_is_too_close_to_call() -> None:
    """Of ratios on H100 14 % is not sure: of all the time where nothing computes."""
    machine = {"name": "cluster", "preset": "dgx-h100", "nodes": 2}
    fabrics = {
        name: {"topology": {**machine, "nic": nic}, "collectives": {"default": "ring"}}
        for name, nic in (("mesh", "400 Gbps"), ("near", "430 Gbps"), ("far", "200 Gbps"))
    }
    mesh, near, far = rows = compare(tables(fabrics=fabrics, workloads=ONE)).rows
    assert abs(mesh.seconds / near.seconds - 1) < 0.13
    assert abs(mesh.seconds / far.seconds - 1) > 0.15
    note = "too close to the baseline to call: ratios of communication are 14 % off"
    assert [note in row.notes for row in rows] == [False, True, False]


@pytest.mark.parametrize(
    ("bandwidth", "ratio"),
    # On a 2 x 2 mesh an NPU has two links to others, on FRED one of 3 TB/s; controllers do not count.
    [("750 GB/s", None), ("700 GB/s", "0.467"), ("3.1 TB/s", "2.07")],
)
def test_another_bandwidth_than_the_baseline_has_is_noted(bandwidth: str, ratio: str | None) -> None:
    content = tables(baseline="fred")
    content["fabrics"]["mesh"]["topology"]["link_bandwidth"] = bandwidth
    found = {row.fabric: row.notes for row in compare(content).rows}
    note = f"an NPU can send {ratio} times the baseline's bandwidth: the links differ, not only the topology"
    assert found == {"mesh": (PEAK,) if ratio is None else (PEAK, note), "fred": (PEAK,)}


def test_rows_of_a_sweep_that_train_different_amounts_say_so() -> None:
    for sweep, batch, samples, note in (
        ({"mp": [1, 2], "pp": [1, 2]}, {}, [64, 32, 32, 16], "from 16 to 64 samples per iteration: compare samples/s"),
        ({"sequence": [32, 64]}, {}, [64, 64], "from 2,048 to 4,096 tokens per iteration: compare tokens/s"),
        ({"mp": [1, 2], "pp": [1, 2]}, {"global_batch": 64}, [64] * 4, None),
    ):
        name = " ".join(f"{key} {{{key}}}" for key in sweep)
        fields = {key: value for key, value in SMALL.items() if key not in sweep}
        workloads = {name: {"workload": {**fields, **batch}, "sweep": sweep}}
        rows = compare(tables(fabrics={"mesh": tables()["fabrics"]["mesh"]}, workloads=workloads)).rows
        assert [row.work.samples for row in rows if row.work] == samples
        told = () if note is None else (f"rows of this sweep train {note}, not times",)
        assert {row.notes for row in rows} == {(PEAK, *told)}


@pytest.mark.parametrize(("batch", "noted"), [({}, [False, False, True]), ({"global_batch": 64}, [False] * 3)])
def test_a_cell_that_trains_another_amount_than_its_baseline_says_so(batch: dict[str, int], noted: list[bool]) -> None:
    fabrics = {**tables()["fabrics"], "large": LARGE}
    rows = compare(tables(fabrics=fabrics, workloads={"net": {"workload": {**SMALL, **batch}}})).rows
    note = "works on 128 samples per iteration, 'mesh' 64: compare samples/s, not times"
    assert [note in row.notes for row in rows] == noted


SIZES = {"{size}": {**MICRO, "sweep": {"size": ["1 MB", "1 GB", "1 kB"]}}}


def test_rows_of_a_sweep_are_over_the_first_one_the_baseline_fabric_or_the_one_they_name() -> None:
    rows = compare(tables(fabrics={"fred": FRED}, workloads={**SIZES, **ONE})).rows
    assert [row.baseline_workload for row in rows] == ["1 MB", "1 MB", "1 MB", "one"]
    # Four hops of 20 ns, and the bytes at 3 TB/s.
    first, second, third = (4 * 20e-9 + size / 3e12 for size in (1e6, 1e9, 1e3))
    assert [row.speedup for row in rows] == pytest.approx([1.0, first / second, first / third, 1.0])
    assert [row.workload_settings for row in rows] == [{"size": "1 MB"}, {"size": "1 GB"}, {"size": "1 kB"}, {}]
    # On several fabrics each is over the baseline fabric, and a workload may name another.
    rows = compare(tables(workloads=SIZES)).rows
    assert [row.baseline_workload for row in rows] == [row.workload for row in rows]
    assert [row.speedup for row in rows[::2]] == [1.0, 1.0, 1.0]
    sizes = {"{size}": {**SIZES["{size}"], "baseline": "1 GB"}}
    rows = compare(tables(workloads=sizes)).rows
    assert {row.baseline_workload for row in rows} == {"1 GB"}
    (one,) = [row for row in rows if (row.workload, row.fabric) == ("1 GB", "mesh")]
    assert [row.speedup for row in rows] == [one.seconds / row.seconds for row in rows]
    outline = FRAMEWORK.load_experiment(tables(workloads=sizes), workloads=["1 kB"], baselines=True)
    assert [one.name for one in outline.workloads] == ["1 GB", "1 kB"]


FIT = {"calibration": {"fabric": "fred", "speedup": 2}}


@pytest.mark.parametrize(
    ("scale", "own", "shared"),
    [
        ({"compute_scale": 0.5}, [Status.SIMULATED] * 2, Status.SIMULATED),
        ({"compute_scale": 0.5, **FIT}, [Status.PREDICTED, Status.CALIBRATED], Status.PREDICTED),
        (FIT, [Status.SIMULATED] * 2, Status.SIMULATED),  # to be fitted, but not done yet
    ],
)
def test_statuses(scale: dict[str, Any], own: list[Status], shared: Status) -> None:
    rows = compare(tables(workloads={"one": {**MICRO, **scale}, "like": {**MICRO, "scaled_like": "one"}})).rows
    assert [row.status for row in rows] == [*own, shared, shared]
    assert {row.compute_scale for row in rows} == {scale.get("compute_scale", 1.0)}


def test_all_cells_have_one_fidelity_which_is_compressed_where_one_has_too_many_transfers() -> None:
    assert {row.fidelity for row in compare(tables()).rows} == {"exact"}
    assert {row.fidelity for row in compare(tables(fidelity="compressed")).rows} == {"compressed"}
    assert {row.fidelity for row in compare(tables(fidelity="compressed"), fidelity="exact").rows} == {"exact"}
    assert {row.fidelity for row in compare(tables(), fidelity="estimate").rows} == {"estimate"}
    # An all-reduce among 4 has 2 * 4 * 3 transfers, whatever serves it.
    small, large = ({"workload": {"name": "microbenchmark", "count": count}} for count in (1, 5))
    both = tables(workloads={"small": small, "large": large})
    with limits.allowed({"exact": 120}):
        found = compare(both)
        assert (found.approximated, {row.fidelity for row in found.rows}) == ("", {"exact"})
    with limits.allowed({"exact": 119}):
        found = compare(both)
        assert {row.fidelity for row in found.rows} == {"compressed"}
        assert found.approximated.startswith("large on mesh has about 120 transfers, and --exact-limit is 119: compre")
        assert {row.fidelity for row in compare(both, fidelity="exact").rows} == {"exact"}


def test_progress_counts_cells() -> None:
    steps: list[tuple[float, int, str]] = []
    compare(tables(), progress=lambda *step: steps.append(step))
    counted = [f"transfers of {row} on {column}" for column in ("mesh", "fred") for row in ("one", "two")]
    assert steps[:4] == [(0, 4, what) for what in counted]
    steps = steps[4:]
    cells = ["one on mesh", "two on mesh", "one on fred", "two on fred", ""]
    assert list(dict.fromkeys(what for _, _, what in steps)) == cells
    # Within a cell the share of its tasks that has ended.
    done = [step[0] for step in steps]
    assert done == sorted(done)
    assert any(1 < one < 2 for one in done)
    # The end of a cell is told by the next: what runs and how much is done always belong together.
    assert all(what == cells[int(one)] for one, _, what in steps)
    assert {step[1] for step in steps} == {4}


def interrupted(content: dict[str, Any], *last: str) -> Comparison:
    """Return what is left by an interrupt after the cell ``last``, a workload and a fabric."""

    def interrupt(result: RunResult) -> None:
        if (result.workload, result.fabric_name) == last:
            raise KeyboardInterrupt

    framework = hooked(fredfw_after_run=interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        framework.compare(framework.load_experiment(content))
    assert isinstance(caught.value, Interrupted)
    assert isinstance(caught.value.finished, Comparison)
    return caught.value.finished


def test_an_interrupt_leaves_the_cells_that_are_done_and_have_a_speedup_if_any(comparison: Comparison) -> None:
    saving = {"of": "fred", "over": "mesh"}
    savings = [{"name": "all", **saving}, {"name": "one", "workloads": ["one"], **saving}]
    left = interrupted(tables(savings=savings), "one", "fred")
    assert left.missing == (("two", "fred"),)
    times = [(row.seconds, row.speedup) for row in comparison.rows[:3]]
    assert [(row.seconds, row.speedup) for row in left.rows] == times
    assert [saving.name for saving in left.savings] == ["one"]
    assert json.loads(left.to_json())["missing"] == [{"workload": "two", "fabric": "fred"}]
    content = tables()
    content["fabrics"]["mesh"]["baseline"] = "fred"
    content["fabrics"]["fred"]["baseline"] = "mesh"
    # The mesh's baseline is fred, which runs first, and whose own baseline is the mesh.
    left = interrupted(content, "one", "mesh")
    assert [(row.workload, row.fabric) for row in left.rows] == [("one", "mesh"), ("one", "fred")]
    assert left.missing == (("two", "mesh"), ("two", "fred"))

    def stop(*step: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        compare(tables(), progress=stop)
    assert not isinstance(caught.value, Interrupted)


@pytest.mark.parametrize(
    ("workload", "key", "message"),
    [
        ({"name": "cnn", "dp": 5}, "workloads.late.workload", "DP(5) needs 5 NPUs"),
        ({"name": "microbenchmark", "pattern": "broadcast"}, "fabrics.fred.collectives", "no algorithm can do"),
    ],
)
def test_the_last_cell_is_checked_before_any_runs(workload: Any, key: str, message: str) -> None:
    content = tables(workloads={**ONE, "late": {"workload": workload}})
    content["fabrics"]["fred"]["collectives"] = {"all-reduce": "in-network", "point-to-point": "direct"}
    steps: list[object] = []
    with refused(key, message):
        compare(content, strict=True, progress=lambda *step: steps.append(step))
    assert steps == []


def test_a_cell_that_does_not_fit_costs_no_other_but_its_speedup() -> None:
    late = {"workload": {**SMALL, "global_batch": 63}}
    found = compare(tables(workloads={**ONE, "late": late}, baseline="fred"))
    assert [(one.workload, one.fabric, one.status, one.key) for one in found.failures] == [
        ("late", fabric, "infeasible", "workloads.late.workload.global_batch") for fabric in ("mesh", "fred")
    ]
    assert [(row.workload, row.fabric) for row in found.rows] == [("one", "mesh"), ("one", "fred")]
    reasons = [one["reason"] for one in json.loads(found.to_json())["failures"]]
    assert [reason.partition(" cannot")[0] for reason in reasons] == ["63 samples"] * 2
    fabrics = {**tables()["fabrics"], "alone": ALONE}
    found = compare(tables(fabrics=fabrics, workloads={"one": MICRO, "two": MICRO}, baseline="alone"))
    assert [(one.fabric, one.key) for one in found.failures] == [("alone", "workloads.one"), ("alone", "workloads.two")]
    assert [row.speedup for row in found.rows] == [None] * 4
    assert all(one.infeasible for one in found.failures)
    content = tables(fabrics=fabrics, workloads=ONE)
    for strict in (content, {**content, "baseline": "alone", "fabrics": {"alone": ALONE}}):
        with pytest.raises(InputError, match=r"workloads\.one: takes no time on 'alone'"):
            compare(strict, strict=strict is content)


def test_a_value_of_a_sweep_that_is_impossible_is_a_row_and_one_that_is_not_swept_an_error() -> None:
    content = tables(workloads={"{pp}": {"workload": SMALL, "sweep": {"pp": [1, 1000]}}})
    found = compare(content)
    assert {row.workload for row in found.rows} == {"1"}
    assert {(one.workload, one.workload_settings["pp"]) for one in found.failures} == {("1000", 1000)}
    assert {one.key for one in found.failures} == {"workloads.1000.workload.pp"}
    with pytest.raises(InputError, match=r"workloads\.1000\.workload\.pp: 1000 pipeline stages"):
        compare(content, strict=True)
    content["workloads"]["{pp}"]["sweep"]["pp"] = [1000, 2000]  # all of them: a mistake
    with pytest.raises(InputError, match=r"workloads\.1000\.workload\.pp: 1000 pipeline stages"):
        compare(content)


def test_a_label_that_no_workload_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for changes, sharing, key in (
        ({"priorities": ["mp", "ppp", "pp"]}, {}, "priorities[1]"),
        ({}, {"sharing": {"name": "weighted-max-min", "weights": {"mp": 2.0, "ppp": 8.0}}}, "fabrics.mesh.sharing"),
    ):
        monkeypatch.setattr("fredfw.experiment.cell.runner.Runner.run", None)  # nothing runs before it is known
        content = tables(**changes)
        content["fabrics"]["mesh"] |= sharing
        with refused(key, "no workload has the label 'ppp'; did you mean 'pp'?", "collective, mp, pp"):
            compare(content)


def test_labels_are_judged_by_the_whole_matrix_only() -> None:
    content = tables(priorities=["pp", "pq"])
    part = FRAMEWORK.load_experiment(content, workloads=["one"])
    assert not part.complete
    assert len(FRAMEWORK.compare(part).rows) == 2
    assert run(content, workload="one", fabric="fred").seconds > 0
    content["workloads"].pop("two")
    content["fabrics"].pop("mesh")
    single = FRAMEWORK.load_experiment(content, workloads=["one"], fabrics=["fred"])
    assert single.complete
    with pytest.raises(InputError, match="no workload has the label 'pp'"):
        FRAMEWORK.run(single)
