import pickle
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict, evolve
from experiments import FRAMEWORK, compare, hooked, refused, run

from fredfw import Framework, limits
from fredfw.errors import InputError, LimitError, SimulationError
from fredfw.experiment.cell.runner import Runner
from fredfw.experiment.results import Cell, Failure
from fredfw.experiment.run.cells import CellSpec, Means, Outcome, Workers, key_of, outcome, run_cell, tables
from fredfw.experiment.store import Store
from fredfw.plugin.manager import PluginManager, Setup, Switches
from fredfw.simulation import engine

RING = {"collectives": {"default": "ring"}}
CONTENT: dict[str, Any] = {
    "npu": {"peak": "1 TFLOP/s"},
    "fabrics": {
        "mesh {rows}": {"topology": {"name": "mesh2d", "columns": 2}, "sweep": {"rows": [1, 2]}, **RING},
        "star": {"topology": {"name": "switch", "npus": 4}, **RING},
    },
    "workloads": {
        "sum": {"workload": {"name": "microbenchmark", "size": "1 MB"}},
        "net": {"workload": {"name": "cnn", "dp": 4}, "compute_scale": 0.5},
    },
}


def specs(framework: Framework = FRAMEWORK, content: dict[str, Any] = CONTENT) -> list[CellSpec]:
    experiment = framework.load_experiment(content)
    means = Means(framework.plugins, Store(Path(), Path(), None))
    return [means.spec(experiment, row, column, "exact") for row, column in experiment.cells]


def test_a_cell_that_was_sent_is_the_one_that_was_meant() -> None:
    setup = Setup.of(FRAMEWORK.plugins)
    for spec in pickle.loads(pickle.dumps(specs())):
        found = run_cell(spec, setup)
        if (spec.workload, spec.fabric) == ("net", "mesh 1"):
            assert isinstance(found, Failure)
            assert (found.infeasible, found.key) == (True, "workloads.net.workload")
            continue
        assert isinstance(found, Cell)
        expected = FRAMEWORK.run(FRAMEWORK.load_experiment(CONTENT), workload=spec.workload, fabric=spec.fabric)
        assert asdict(found) == asdict(Cell.of(expected))


def test_the_key_is_of_all_that_is_written_and_the_environment_of_the_code_that_is_used() -> None:
    def key(**changes: Any) -> str:
        return specs(content={**CONTENT, **changes})[-1].key

    first = key()
    assert key(title="another", baseline="star", savings=[]) == first
    star = CONTENT["fabrics"]["star"]
    changes: tuple[dict[str, Any], ...] = (
        {"npu": {"peak": "2 TFLOP/s"}},
        {"priorities": []},
        {"fabrics": {**CONTENT["fabrics"], "star": {**star, "collectives": {"default": "tree"}}}},
        {"fabrics": {**CONTENT["fabrics"], "star": {**star, "transport": "ideal"}}},
        {"fabrics": {**CONTENT["fabrics"], "star": {**star, "topology": {"name": "switch", "npus": 8}}}},
        {"workloads": {"net": {"workload": {"name": "cnn", "dp": 2}, "compute_scale": 0.5}}},
        {"workloads": {"net": {"workload": {"name": "cnn", "dp": 4}, "compute_scale": 0.25}}},
    )
    for change in changes:
        assert key(**change) != first
    assert len({spec.key for spec in specs()}) == 6
    # Without plugins it is the same.
    bare = Framework(PluginManager.discover(Switches(allow=frozenset())))
    outline = bare.outline(CONTENT)
    row, column = outline.cells[-1]
    assert key_of(tables(outline, row, column), "exact") == first
    assert key_of(tables(outline, row, column), "compressed") != first
    content = {**CONTENT, "fabrics": {"auto": {"topology": "mesh2d"}, "ring": {"topology": "mesh2d", **RING}}}
    less = specs(Framework(PluginManager.discover(Switches(block=frozenset({"fat-tree", "tacos"})))), content)
    # What is merely installed beside it does not matter, but what "auto" could have chosen does.
    assert less[-1].environment == specs(content=content)[-1].environment
    assert less[0].environment != specs(content=content)[0].environment


def test_limits_and_the_engine_decide_a_cell_and_unknown_code_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = specs()[-1].environment
    with limits.allowed({"flows": 5}):
        assert specs()[-1].environment != first
    monkeypatch.setattr(engine, "build", lambda: "another")
    assert specs()[-1].environment != first
    monkeypatch.setattr(PluginManager, "code", lambda *_: None)
    with Store.open(tmp_path / "some.cells") as store:
        means, spec = Means(FRAMEWORK.plugins, store), specs()[-1]
        means.keep(spec, Failure("net", "star", "too large", infeasible=True))
        assert (means.stored(spec), store.find(spec.key)) == (None, [])


def test_each_different_cell_is_run_once_and_what_is_stored_is_not(tmp_path: Path) -> None:
    ran: list[str] = []

    def noted(spec: CellSpec, _share: object) -> Outcome:
        ran.append(str(spec))
        return Failure(spec.workload, spec.fabric, "no", infeasible=spec.fabric != "star")

    cells = specs()
    with Store.open(tmp_path / "cells") as store:
        means = Means(FRAMEWORK.plugins, store)
        with means.outcomes([*cells, *cells], run=noted) as outcomes:
            found = dict(outcomes)
        assert sorted(found) == list(range(12))
        assert sorted(ran) == sorted(str(one) for one in cells)
        ran.clear()
        with means.outcomes(cells, run=noted) as outcomes:
            assert len(dict(outcomes)) == 6
    # A model that failed may succeed next time: it is not kept.
    assert ran == [str(one) for one in cells if one.fabric == "star"]
    assert store.hits == 4


def test_an_interrupt_keeps_what_has_ended_elsewhere(tmp_path: Path) -> None:
    class Done(Executor):
        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(Failure(args[0].workload, args[0].fabric, "no", infeasible=True))
            return future

    def interrupt(*step: object) -> None:
        raise KeyboardInterrupt

    cells = specs()
    others = Workers(Done(), 1, Setup.of(FRAMEWORK.plugins))
    with Store.open(tmp_path / "cells") as store:
        outcomes = Means(FRAMEWORK.plugins, store, others).outcomes(cells, interrupt)
        with pytest.raises(KeyboardInterrupt), outcomes as found:
            next(found)
        assert all(store.get(*one.identity) is not None for one in cells)


def test_a_comparison_from_threads_and_from_a_store_is_the_same(tmp_path: Path) -> None:
    expected = compare(CONTENT).to_json()
    with ThreadPoolExecutor(1) as executor:
        assert compare(CONTENT, executor=executor, store=tmp_path / "cells").to_json() == expected
    ran: list[str] = []
    counting = hooked(fredfw_after_run=lambda result: ran.append(result.workload))
    counted = counting.load_experiment(CONTENT)
    assert counting.compare(counted, store=tmp_path / "cells").to_json() == expected
    assert ran == []
    assert counting.compare(counted).to_json() == expected
    assert len(ran) == 5
    with pytest.raises(InputError, match="registered in process cannot be sent to others: given"):
        counting.compare(counted, jobs=2)
    with pytest.raises(InputError, match="is not a number of processes"):
        counting.compare(counted, jobs=0)


def test_a_model_that_fails_costs_no_other_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate = Runner.run

    def fails(self: Runner, workload: Any, fabric: Any, *rest: Any) -> Any:
        if (workload.name, fabric.name) == ("sum", "star"):
            raise SimulationError("flows cannot move")
        return simulate(self, workload, fabric, *rest)

    monkeypatch.setattr(Runner, "run", fails)
    found = compare(CONTENT, store=tmp_path / "cells")
    failed = {(one.workload, one.fabric): one for one in found.failures}
    assert (failed["sum", "star"].status, failed["sum", "star"].reason) == ("failed", "flows cannot move")
    assert failed["net", "mesh 1"].status == "infeasible"
    assert len(found.rows) == 4
    alone = FRAMEWORK.load_experiment({**CONTENT, "baseline": "star"}, workloads=["sum"], fabrics=["star"])
    for experiment, strict in ((alone, False), (FRAMEWORK.load_experiment(CONTENT, workloads=["sum"]), True)):
        with pytest.raises(SimulationError, match="flows cannot move"):
            FRAMEWORK.compare(experiment, strict=strict)


def test_a_limit_that_is_raised_lets_a_cell_run_that_it_refused(tmp_path: Path) -> None:
    experiment = FRAMEWORK.load_experiment({**CONTENT, "baseline": "star"}, fabrics=["star"], workloads=["sum"])
    for simulate in (FRAMEWORK.compare, FRAMEWORK.compare, FRAMEWORK.run):
        with limits.allowed({"nodes": 3}), pytest.raises(LimitError, match="5 nodes are too many"):
            simulate(experiment, store=tmp_path / "cells")
    (row,) = FRAMEWORK.compare(experiment, store=tmp_path / "cells").rows
    assert row.seconds > 0


@pytest.mark.parametrize("scopes", [["inter-node", "inter-pod"], []])
def test_each_tier_has_a_scope_or_none(scopes: list[str]) -> None:
    star = {"topology": {"name": "switch", "npus": 4}, "scopes": scopes}
    with refused("fabrics.star.scopes", f"{len(scopes)} scopes for 1 tiers of links"):
        run({"fabrics": {"star": star}, "workloads": {"sum": {"workload": "microbenchmark"}}})


def test_values_are_replaced_in_an_experiment_that_is_read() -> None:
    experiment = FRAMEWORK.load_experiment(CONTENT, values={"npu.peak": "4 TFLOP/s"})
    changed = experiment.with_values({"fabrics.star.topology.npus": 8, "workloads.sum.workload.size": "2 MB"})
    assert changed.npu.peak == experiment.npu.peak == 4e12
    assert experiment.fabric("star").written["topology"]["npus"] == 4
    assert changed.with_values({"npu.peak": "1 TFLOP/s"}).fabric("star").written["topology"]["npus"] == 8
    with pytest.raises(InputError, match=r"did you mean 'npus'"):
        experiment.with_values({"fabrics.star.topology.npsu": 8})
    with pytest.raises(InputError, match="was not read from a file or tables"):
        evolve(experiment, reader=None).with_values({})


def test_a_mistake_in_a_model_is_the_outcome_of_its_cell_and_memory_that_is_used_up_is_none() -> None:
    def simulate(error: Exception | None = None) -> Cell:
        raise error or MemoryError

    found = outcome("one", "star", lambda: simulate(ValueError("oh")))
    assert isinstance(found, Failure)
    assert (found.workload, found.fabric, found.infeasible) == ("one", "star", False)
    assert found.reason.startswith("ValueError: oh (line ")
    with pytest.raises(MemoryError):
        outcome("one", "star", simulate)
