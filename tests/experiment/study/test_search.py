import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import define, frozen
from experiments import FRAMEWORK, hooked

import fredfw
from fredfw import Framework, Sampler, Search, SearchSpace, System, Told, Trial, Workload, limits, units
from fredfw.errors import InputError, Interrupted, PluginError, SimulationError, UnknownNameError
from fredfw.experiment.store import Store
from fredfw.experiment.study.results import StudyResult

MESHES: dict[str, Any] = {
    "title": "meshes",
    "constraints": ["rows * columns == 16"],
    "fabrics": {"mesh": {"topology": {"name": "mesh2d"}, "collectives": {"default": "direct"}}},
    "workloads": {"reduce": {"workload": {"name": "microbenchmark", "pattern": "all-reduce", "size": "1 MB"}}},
    "space": {
        "rows": {"path": "fabrics.mesh.topology.rows", "divisors_of": 16},
        "columns": {"path": "fabrics.mesh.topology.columns", "divisors_of": 16},
    },
    "objective": {"minimise": "time"},
}


def study(**changes: Any) -> dict[str, Any]:
    return {**MESHES, **changes}


def ran(**changes: Any) -> StudyResult:
    return FRAMEWORK.study(study(**changes))


@frozen
class Fragile(Workload):
    """Computes so many seconds; 3 do not fit, and 5 fail."""

    name: ClassVar[str] = "fragile"
    seconds: float = units.option(1.0, help="of computation")
    ranks: int = units.option(1, help="that compute")

    def mesh(self, system: System) -> fredfw.DeviceMesh:
        if self.seconds == 3:
            raise InputError("3 is a crowd", key="seconds", accepted="2")
        return fredfw.DeviceMesh({"dp": self.ranks})

    def graph(self, system: System) -> fredfw.TaskGraph:
        if self.seconds == 5:
            raise SimulationError("it went wrong")
        builder = fredfw.GraphBuilder(self.ranks)
        builder.compute("step", range(self.ranks), flops=self.seconds * 1e15)
        return builder.build()


ASKED: dict[str, list[Any]] = {"nothing": [[Trial(1), Trial(1)]] * 3 + [[]], "point": [[Trial(99)]], "kind": [[3]]}


@frozen
class Odd(Sampler):
    """Does one thing wrong, or nothing."""

    name: ClassVar[str] = "odd"
    fault: str = units.option("nothing", help="which")

    def start(self, space: SearchSpace) -> Search:
        return None if self.fault == "start" else OddSearch(ASKED.get(self.fault, [])[::-1])  # type: ignore[return-value]  # the fault


@define
class OddSearch(Search):
    left: list[Any]

    def ask(self) -> Sequence[Trial]:
        found: Sequence[Trial] = self.left.pop()
        return found

    def tell(self, told: Sequence[Told]) -> None:
        assert [one.trial.point for one in told] == [1, 1]


@pytest.fixture
def framework() -> Framework:
    return hooked(fredfw_workloads=lambda: [Fragile], fredfw_samplers=lambda: [Odd])


def fragile(**changes: Any) -> dict[str, Any]:
    return {
        "fabrics": {"one": {"topology": {"name": "mesh2d", "rows": 1, "columns": 2}}},
        "workloads": {"step": {"workload": "fragile"}},
        "npu": {"peak": "1 PFLOP/s"},
        "space": {"seconds": {"path": "workloads.step.workload.seconds", "values": [4, 5, 2, 3, 1]}},
        "objective": {"minimise": "time"},
        **changes,
    }


def test_every_point_has_the_time_of_its_own_run_and_the_best_is_first() -> None:
    result = ran()
    assert (result.combinations, result.size, len(result.points)) == (25, 5, 5)
    experiment = {key: MESHES[key] for key in ("fabrics", "workloads")}
    times = {}
    for point in result.points:
        values = {f"fabrics.mesh.topology.{name}": value for name, value in point.values.items()}
        times[point.number] = FRAMEWORK.run(FRAMEWORK.load_experiment(experiment, values=values)).seconds
        assert point.seconds == point.metrics["time"] == times[point.number]
    assert [point.number for point in result.best] == sorted(times, key=lambda one: (times[one], one))
    assert result.front[0].values == {"rows": 4, "columns": 4}
    assert result.complete
    assert result.rungs[0].events > 0
    assert all(one.tiers[0].highest > 0 for one in result.points)
    assert all(set(one.tiers[0].bytes_by_label) == set(one.breakdown) - {"compute", "bubble"} for one in result.points)
    most = ran(objective={"maximise": "time"})
    assert most.front[0].seconds == result.best[-1].seconds
    assert most.objectives[0].least is False


def test_what_does_not_fit_or_fails_is_a_row_with_its_reason(framework: Framework) -> None:
    result = framework.study(fragile())
    found = [(one.values["seconds"], one.seconds, one.rank) for one in result.points]
    assert found == [(4, 4.0, 3), (5, None, None), (2, 2.0, 2), (3, None, None), (1, 1.0, 1)]
    reasons = [(one.reason, one.failed) for one in result.without_result]
    assert reasons == [("it went wrong", True), ("3 is a crowd", False)]
    assert [one.values["seconds"] for one in result.failed] == [5]
    assert (result.rungs[0].cells, result.rungs[0].results) == (5, 3)
    result = ran(constraints=[], space={"rows": {"path": "fabrics.mesh.topology.rows", "values": [0, 2, "x"]}})
    assert [one.seconds is not None for one in result.points] == [False, True, False]


def test_a_point_that_breaks_a_limit_has_a_result_and_no_rank(framework: Framework) -> None:
    within = {"maximise": "time", "limits": {"time": "2.5 s"}}
    result = framework.study(fragile(objective=within))
    assert [one.values["seconds"] for one in result.best] == [2, 1]
    (over,) = (one for one in result.points if one.values["seconds"] == 4)
    assert (over.seconds, over.reason) == (4.0, "time 4 s is above the limit of 2.5 s")
    # Halving keeps the better half of those within the limit: 2 and 1 of (4, 2, 1), where 5 and 3 have no result.
    sampler = {"name": "halving", "rungs": ["compressed", "exact"], "eta": 2.0}
    result = framework.study(fragile(objective=within, sampler=sampler))
    assert [one.values["seconds"] for one in result.points if one.rung == "exact"] == [2, 1]
    train = {"train": {"workload": {"name": "cnn", "model": "resnet-50", "dp": 16, "global_batch": 256}}}
    result = ran(workloads=train, objective={"minimise": "time", "limits": {"samples/s": 1e12}})
    assert not result.best
    assert "below the limit of" in result.points[0].reason


def test_several_objectives_give_a_pareto_front(framework: Framework) -> None:
    """Seconds x ranks is NPU-seconds: of the four points only (2 s, 1 rank) is beaten, by (1 s, 1 rank)."""
    space = {name: {"path": f"workloads.step.workload.{name}", "values": [1, 2]} for name in ("seconds", "ranks")}
    objective = {"minimise": ["time"], "maximise": ["npu-seconds"]}
    result = framework.study(fragile(space=space, objective=objective))
    ranks = {(one.values["seconds"], one.values["ranks"]): one.rank for one in result.points}
    assert ranks == {(1, 1): 2, (1, 2): 1, (2, 1): 2, (2, 2): 1}
    assert len(result.front) == 2


def test_dimensions_belong_to_their_fabrics() -> None:
    ring = {"topology": {"name": "torus", "dimensions": [16]}, "collectives": {"default": "direct"}}
    rows = {"path": "fabrics.mesh.topology.rows", "values": [1, 4]}
    result = ran(constraints=[], fabrics={**MESHES["fabrics"], "ring": ring}, space={"rows": rows})
    found = [(one.fabric, one.values) for one in result.points]
    assert found == [("mesh", {"rows": 1}), ("mesh", {"rows": 4}), ("ring", {})]
    assert {one.rank for one in result.points} == {1, 2, 3}


def test_the_experiment_may_be_a_file_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "two.toml").write_text("""
        fabrics.mesh = { topology = { name = "mesh2d", rows = 2 }, collectives = { default = "direct" } }
        workloads.reduce.workload = { name = "microbenchmark", size = "1 MB" }
    """)
    file = tmp_path / "study.toml"
    file.write_text("""
        experiment = "inner/two.toml"
        objective = { minimise = "time" }
        space.columns = { path = "fabrics.mesh.topology.columns", values = [2, 4] }
    """)
    result = FRAMEWORK.study(file)
    assert result.title == "two"
    assert [one.values for one in result.points] == [{"columns": 2}, {"columns": 4}]
    values = {"fabrics.mesh.topology.rows": 3, "sampler.name": "random", "sampler.trials": 1}
    changed = FRAMEWORK.study(FRAMEWORK.load_experiment(file, values=values))
    assert changed.sampler == {"name": "random", "trials": 1, "seed": 0}
    assert changed.provenance["experiment"]["fabrics"]["mesh"]["topology"]["rows"] == 3
    assert len(changed.points) == 1
    # Beside another file stand the keys of a study alone.
    file.write_text(f'baseline = "mesh"\n{file.read_text()}')
    with pytest.raises(UnknownNameError, match=r"study\.toml: baseline: unknown key"):
        FRAMEWORK.load_experiment(file)


def test_halving_may_begin_with_an_estimate_whose_error_is_told(tmp_path: Path) -> None:
    changed = study(sampler={"name": "halving", "rungs": ["estimate", "compressed", "exact"], "eta": 2.0})
    with Store.open(tmp_path / "cells") as store:
        result, again = (FRAMEWORK.study(changed, store=store) for _ in range(2))
    assert again.stored == 10
    assert again.to_json() == result.to_json()
    rungs = [(one.rung, one.cells, one.results) for one in result.rungs]
    assert rungs == [("estimate", 5, 5), ("compressed", 3, 3), ("exact", 2, 2)]
    assert [one.rung for one in result.points if one.estimated] == ["estimate"] * 2
    assert [one.rank for one in result.points if one.rung != "exact"] == [None] * 3
    assert result.front[0].values == {"rows": 4, "columns": 4}
    # One collective alone takes exactly that.
    estimate = result.rungs[0].errors
    assert (estimate["compressed"].points, estimate["compressed"].largest) == (3, 0.0)
    assert estimate["exact"].points == 2
    assert result.rungs[1].errors == {"exact": estimate["exact"]}
    assert result.rungs[2].errors == {}


def test_all_points_are_compressed_where_one_has_too_many_transfers_and_rungs_set_values() -> None:
    assert {one.rung for one in ran().points} == {"exact"}
    assert {one.rung for one in ran(fidelity="estimate").points} == {"estimate"}
    with limits.allowed({"exact": 1}):
        found = ran()
    assert {one.rung for one in found.points} == {"compressed"}
    assert "--exact-limit is 1: compressed" in found.approximated
    result = ran(
        sampler={"name": "halving", "rungs": ["small", "compressed"], "eta": 5.0},
        rungs={"small": {"fidelity": "exact", "values": {"workloads.reduce.workload.size": "1 kB"}}},
    )
    small = [one for one in result.points if one.rung == "small"]
    assert len(small) == 4
    assert all(not one.final and one.seconds is not None for one in small)
    assert max(one.seconds or 0.0 for one in small) < min(one.seconds or 0.0 for one in result.best)


def test_a_store_spares_what_was_run_before_unless_it_failed(framework: Framework, tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells") as store:
        half = FRAMEWORK.study(study(sampler={"name": "random", "trials": 3}), store=store)
        whole, again = (FRAMEWORK.study(MESHES, store=store) for _ in range(2))
        first, second = (framework.study(fragile(), store=store) for _ in range(2))
    assert [one.stored for one in (half, whole, again, first, second)] == [0, 3, 5, 0, 4]
    assert whole.to_json() == again.to_json() == ran().to_json()
    assert first.to_json() == second.to_json()


def test_an_interrupt_keeps_what_is_done(tmp_path: Path) -> None:
    least = 0

    def stop(done: float, _total: int, _what: str) -> None:
        if done >= least:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as plain:
        FRAMEWORK.study(MESHES, progress=stop)
    assert type(plain.value) is KeyboardInterrupt  # nothing is done yet
    least = 2
    with Store.open(tmp_path / "cells") as store:
        with pytest.raises(Interrupted) as caught:
            FRAMEWORK.study(MESHES, store=store, progress=stop)
        partial: StudyResult = caught.value.finished
        assert not partial.complete
        assert [one.number for one in partial.points] == [0, 1]
        assert len(partial.best) == 2
        resumed = FRAMEWORK.study(MESHES, store=store)
    assert resumed.stored == 2
    assert resumed.to_json() == ran().to_json()


def test_json_has_all_points_and_not_what_differs_between_runs_and_progress_counts_them() -> None:
    content = json.loads(ran().to_json())
    assert (content["format"], len(content["points"])) == ("fredfw.study", 5)
    assert content["provenance"]["study"]["constraints"] == ["rows * columns == 16"]
    assert "fredfw-topology-mesh2d" in content["provenance"]["versions"]
    seen: list[tuple[float, int]] = []
    FRAMEWORK.study(study(sampler={"name": "halving"}), progress=lambda done, total, _: seen.append((done, total)))
    assert [seen[0], seen[-1]] == [(0, 5), (7, 7)]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_sampler_that_repeats_itself_runs_nothing_twice(framework: Framework) -> None:
    counts: list[int] = []

    def log(event: str, /, new: int | None = None, **_values: object) -> None:
        counts.extend([] if new is None else [new])

    framework = Framework(framework.plugins, log=log)
    space = {"x": {"path": "workloads.step.workload.seconds", "values": [1, 2]}}
    result = framework.study(fragile(sampler={"name": "odd"}, space=space))
    assert counts == [1, 0, 0]
    assert (len(result.points), result.rungs[0].cells) == (1, 1)


@pytest.mark.parametrize(
    ("fault", "match"),
    [
        ("start", r"Odd.start\(\) of 'odd' returned None; expected a fredfw.Search"),
        ("point", "asks for the point 99; expected the number of a point, from 0 to 4"),
        ("kind", "returned .3.; expected a sequence of fredfw.Trial"),
        ("raise", r"OddSearch.ask\(\) fails: IndexError"),
    ],
)
def test_a_sampler_that_misbehaves_is_named(framework: Framework, fault: str, match: str) -> None:
    with pytest.raises(PluginError, match=match):
        framework.study(fragile(sampler={"name": "odd", "fault": fault}))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"objective": {"maximise": "mfu"}}, "mfu is not known of reduce on mesh"),
        ({"objective": {"minimise": "time", "limits": {"time": "-1 s"}}}, "limits.time: '-1 s' is not above 0"),
        ({"objective": {"minimise": "time", "limits": {"mfu": 0.0}}}, "limits.mfu: 0.0 is not above 0"),
        (
            {"space": {"rows": {"path": "fabrics.mesh.topology.rowz", "values": [1]}}, "constraints": []},
            r"space.rows: fabrics.mesh.topology.rowz: unknown key; did you mean 'rows'",
        ),
        ({"space": {"x": {"path": "plugins", "values": [["x.py"], []]}}}, "space.x: plugins names files that run code"),
        ({"rungs": {"x": {"values": {"plugins": ["x.py"]}}}}, "rungs.x.values: plugins names files that run code"),
    ],
)
def test_what_cannot_be_searched_is_an_error(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        ran(**changes)
    assert isinstance(caught.value, UnknownNameError) == ("did you mean" in match)
