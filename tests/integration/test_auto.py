"""What ``auto`` and ``fastest`` choose, against each algorithm on its own."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import fredfw
from fredfw.collectives import CollectiveRequest, Pattern, answers
from fredfw.simulation import FlowNetwork, LowerBounds, Lowering, MaxMin, Planner, ScheduleRun
from fredfw.simulation.bounds.schedules import Bound, Floors, Place, Sketch
from fredfw.typing import IntArray

FRAMEWORK = fredfw.Framework()
FABRICS: dict[str, dict[str, Any]] = {
    "mesh": {"name": "mesh2d", "rows": 4, "columns": 4},
    "torus": {"name": "torus", "dimensions": [2, 2, 4], "link_bandwidth": "75 GB/s"},
    "fred": {"name": "fred", "variant": "A", "arity": [4, 4]},
    "optical-ring": {"name": "optical-ring", "npus": 16},
}
SPLITS = {"even": (4, 2, 2), "uneven": (3, 5, 1)}
NAMED = ("ring", "direct", "hierarchical", "torus-ring")


def _seconds(topology: dict[str, Any], split: tuple[int, int, int], algorithm: str | None) -> float:
    mp, dp, pp = split
    chosen = {} if algorithm is None else {"collectives": {"default": [algorithm, "direct"]}}
    workload = {"name": "transformer", "model": "transformer-17b", "mp": mp, "dp": dp, "pp": pp, "minibatch": 1}
    tables = {
        "fabrics": {"fabric": {"topology": topology, **chosen}},
        "workloads": {"training": {"workload": workload}},
    }
    return FRAMEWORK.run(FRAMEWORK.load_experiment({"npu": {"memory": "1 TB"}, **tables})).seconds


@pytest.mark.parametrize(
    ("fabric", "split"), [("mesh", "even"), ("mesh", "uneven"), ("torus", "uneven"), ("fred", "even")]
)
def test_auto_is_at_most_a_hundredth_slower_than_the_best_algorithm(fabric: str, split: str) -> None:
    best = min(_seconds(FABRICS[fabric], SPLITS[split], name) for name in NAMED)
    assert _seconds(FABRICS[fabric], SPLITS[split], None) <= 1.01 * best


def variants(pattern: Pattern) -> list[fredfw.CollectiveAlgorithm]:
    return [one for cls in FRAMEWORK.plugins.collectives for one in cls.variants(pattern)]


def taken(lowering: Lowering, schedule: fredfw.Schedule, groups: IntArray, fidelity: str) -> float:
    network, nodes = FlowNetwork(lowering.fabric, MaxMin()), lowering.fabric.npus[groups]
    ScheduleRun(network, lowering, schedule, nodes, lambda _: None, fidelity=fidelity).start()
    network.advance()
    return network.now


@pytest.mark.parametrize("size", [pytest.param(1e3, marks=pytest.mark.slow), 1e9])
@pytest.mark.parametrize("fabric", FABRICS)
def test_no_simulation_is_shorter_than_its_floor(fabric: str, size: float) -> None:
    topology = dict(FABRICS[fabric])
    built = FRAMEWORK.topology(topology.pop("name"), **topology).build()
    cap = built.defaults.admission.begin(built).cap()
    lowering, floors = Lowering(built), Floors(built, built.defaults.router, LowerBounds(built), cap)
    groups = np.arange(16).reshape(2, 4, 2).swapaxes(1, 2).reshape(4, 4)
    request, view = CollectiveRequest(Pattern.ALL_REDUCE, 4, size), built.view(groups[0])
    for one in variants(Pattern.ALL_REDUCE):
        if one.refusal(request, view) is None:
            schedule = one.plan(request, view)
            sketch = Sketch(schedule, size)
            shared = floors.together((sketch,), Place((groups,))) * size
            found = floors.unrouted(sketch, groups[0]).seconds(size)
            found = found.above(floors.routed(sketch, groups[0]).seconds(size)).above(Bound(shared, shared))
            assert found.barriers <= taken(lowering, schedule, groups, "compressed") * (1 + 1e-9), str(one)
            assert found.any_order <= taken(lowering, schedule, groups, "exact") * (1 + 1e-9), str(one)


EXACT: dict[str, dict[str, Any]] = {
    "torus": {"name": "torus", "dimensions": [3, 4], "link_latency": "20 ns"},
    "mesh": {"name": "mesh2d", "rows": 3, "columns": 4},
    "fred": {"name": "fred", "variant": "C", "arity": [2, 3]},
    "fat-tree": {"name": "fat-tree", "npus": 8, "radix": 4, "routing": "ecmp"},
    "switch": {"name": "switch", "npus": 8},
}


@pytest.mark.parametrize(
    ("fabric", "pattern"),
    [
        pytest.param(fabric, pattern, marks=() if turn == number % 3 else pytest.mark.slow)
        for number, fabric in enumerate(EXACT)
        for turn, pattern in enumerate(["all-gather", "all-to-all", "all-reduce"])
    ],
)
def test_exact_candidates_are_timed_as_the_run_is(fabric: str, pattern: str) -> None:
    built = FRAMEWORK.topology(**EXACT[fabric]).build()
    for size in (2e4, 2e5, 1e8):
        result = FRAMEWORK.simulate_collective(built, pattern, size=size, fidelity="exact")
        if result.candidates:
            assert result.candidates[result.algorithm] == pytest.approx(result.duration, rel=1e-12)
        # Nobody is faster by more than the share that is not worth a simulation.
        request, everybody = CollectiveRequest(Pattern(pattern), len(built.npus), size), np.arange(len(built.npus))
        for one in variants(Pattern(pattern)):
            if answers.refusal(one, request, built.view()) is None and answers.worthwhile(one, built.view()):
                with suppress(fredfw.errors.RefusedError):  # where the fabric does not let it
                    alone = taken(Lowering(built), one.plan(request, built.view()), everybody[None, :], "exact")
                    assert result.duration <= alone * 1.0011, (str(one), size)


@pytest.mark.parametrize(
    ("topology", "split", "written", "simulated"),
    [
        ({"name": "mesh2d", "rows": 5, "columns": 12}, (3, 5, 4), 45, 24),
        ({"name": "torus", "dimensions": [4, 4, 4]}, (1, 16, 4), 40, 4),
        ({"name": "optical-ring", "npus": 64}, (4, 4, 4), 35, 25),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else None,
)
def test_little_is_written_and_simulated(
    topology: dict[str, Any], split: tuple[int, int, int], written: int, simulated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stages of a pipeline ask for the same at other places and for other sizes.
    counts = Counter[str]()
    for owner, name in ((answers, "schedule"), (Planner, "_simulate")):
        monkeypatch.setattr(owner, name, _counted(getattr(owner, name), name, counts))
    _seconds(topology, split, None)
    assert 0 < counts["schedule"] <= written
    assert 0 < counts["_simulate"] <= simulated


def _counted(function: Callable[..., Any], name: str, counts: Counter[str]) -> Callable[..., Any]:
    def counted(*given: Any, **options: Any) -> Any:
        counts[name] += 1
        return function(*given, **options)

    return counted
