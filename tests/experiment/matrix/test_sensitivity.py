"""What parameters of a machine do to results: closed forms, rankings that change, and shares that cannot be."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import frozen
from command_line import fails, succeeds
from experiments import FRAMEWORK, compare, refused, run

from fredfw import Call, Costs, Fabric, NodeKind, Transport
from fredfw.errors import PluginError, SimulationError, UnsupportedError
from fredfw.experiment.cell.variation import ALPHAS, LATENCY, ScaledTransport, Variation, parameters, varied
from fredfw.experiment.matrix.sensitivity import simulate
from fredfw.experiment.results import Sensitivity, WhatIf
from fredfw.experiment.run.cells import Means
from fredfw.experiment.store import Store

RING: dict[str, Any] = {"name": "multi-dimensional", "dimensions": ["ring 4"], "latencies": [0.0]}


@frozen
class Steps(Transport):
    """A step costs a microsecond."""

    name: ClassVar[str] = "steps"

    def algorithms(self, pattern: str) -> Sequence[str] | None:
        return ("ring",)

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        return Costs(launch=1e-6, step=(1e-6,), message=2e-6, efficiency=0.5)


def experiment(bandwidths: dict[str, float], workload: dict[str, Any] | None = None) -> dict[str, Any]:
    collective = {"name": "microbenchmark", "pattern": "all-reduce", "size": 8e9}
    topologies = {name: {**RING, "bandwidths": [rate]} for name, rate in bandwidths.items()}
    fabrics = {name: {"topology": one, "collectives": {"default": "ring"}} for name, one in topologies.items()}
    return {"fabrics": fabrics, "workloads": {"work": {"workload": workload or collective}}}


def compared(bandwidths: dict[str, float], sensitivity: float, *workload: dict[str, Any]) -> Sensitivity:
    found = compare(experiment(bandwidths, *workload), sensitivity=sensitivity).sensitivity
    assert found is not None
    return found


def test_a_time_is_inversely_proportional_to_its_bandwidth_and_proportional_to_times_of_a_transport() -> None:
    fabric = FRAMEWORK.topology(**RING, bandwidths=[100e9]).build()
    (effect,) = FRAMEWORK.collective_sensitivity(fabric, "all-reduce", size=8e9, algorithm="ring", share=0.25)
    assert effect.parameter == "bandwidth of npu - npu"
    assert effect.exponent == pytest.approx(-1, rel=1e-12)
    assert (effect.less, effect.more) == pytest.approx((effect.seconds / 0.75, effect.seconds / 1.25), rel=1e-12)
    fabric = Fabric("pair", [NodeKind.NPU] * 2, np.array([0, 1]), np.array([1, 0]), 1e9, 0.0, 0.0)
    scaled = ScaledTransport(Steps(), 3.0)
    call = Call("all-reduce", "ring", 2, 1.0)
    assert scaled.costs(call, fabric) == Costs(launch=3e-6, step=(3e-6,), message=6e-6, efficiency=0.5)
    assert scaled.algorithms("all-reduce") == ("ring",)
    on = fabric.with_defaults(transport=Steps())
    effects = FRAMEWORK.collective_sensitivity(on, "all-reduce", size=1e-3, algorithm="ring")
    assert effects[0].parameter == ALPHAS
    assert effects[0].exponent == pytest.approx(1, rel=1e-6)


def test_parameters_are_tiers_latencies_and_the_times_of_a_transport() -> None:
    fabric = FRAMEWORK.topology("cluster", preset="dgx-a100", nodes=2).build()
    names = parameters(fabric.with_defaults(transport=Steps()))
    assert names[0] == "bandwidth of all links"
    assert names[-2:] == (LATENCY, ALPHAS)
    assert {"bandwidth of node.npu - node.switch", "bandwidth of leaf - node.npu"} < set(names)
    inside = varied(fabric, "bandwidth of node.npu - node.switch", 0.5)
    changed = inside.bandwidths != fabric.bandwidths
    assert changed.sum() == 2 * 16
    assert (inside.bandwidths[changed] == fabric.bandwidths[changed] / 2).all()
    assert [new.bandwidth / old.bandwidth for new, old in zip(inside.levels, fabric.levels, strict=True)] == [0.5, 1.0]
    # All rails go through leaves, and nothing to the same rail of another node goes through the spines.
    assert varied(fabric, "bandwidth of leaf - spines", 0.5).levels == fabric.levels
    assert [one.bandwidth for one in varied(fabric, "bandwidth of leaf - node.npu", 2.0).levels] == [
        fabric.levels[0].bandwidth,
        2 * fabric.levels[1].bandwidth,
    ]
    assert (varied(fabric, LATENCY, 2.0).latencies == 2 * fabric.latencies).all()
    assert (varied(fabric, names[0], 2.0).bandwidths == 2 * fabric.bandwidths).all()


def test_speed_ups_are_between_those_of_all_changes_and_near_fabrics_change_places() -> None:
    found = compared({"slow": 100e9, "fast": 300e9}, 0.2)
    slow, fast = found.intervals
    assert (slow.low, slow.high, slow.low_by) == (1.0, 1.0, "")
    assert (fast.low, fast.speedup, fast.high) == pytest.approx((3 * 0.8, 3, 3 / 0.8), rel=1e-12)
    assert fast.low_by == "bandwidth of npu - npu of fast -20 %"
    assert fast.high_by == "bandwidth of npu - npu of slow -20 %"
    assert found.flips == ()
    assert [(one.fabric, one.parameter, round(one.exponent, 9)) for one in found.effects] == [
        (fabric, *effect)
        for fabric in ("slow", "fast")
        for effect in (("bandwidth of npu - npu", -1.0), ("compute", 0.0))
    ]
    found = compared({"a": 100e9, "b": 110e9, "c": 110e9}, 0.15)
    assert [(one.faster, one.slower) for one in found.flips] == [("b", "a"), ("c", "a")]
    assert found.flips[0].causes == ("bandwidth of npu - npu of a +15 %", "bandwidth of npu - npu of b -15 %")


def test_compute_is_a_parameter_of_all_machines_together() -> None:
    shape = {"layers": 4, "hidden": 1024, "heads": 16, "sequence": 512, "vocabulary": 50_000}
    model = {"name": "transformer", **shape, "mp": 4, "dp": 1, "minibatch": 4}
    found = compared({"slow": 100e9, "fast": 300e9}, 0.2, model)
    compute = {one.fabric: one for one in found.effects if one.parameter == "compute"}
    links = {one.fabric: one for one in found.effects if one.parameter != "compute"}
    for fabric in ("slow", "fast"):
        assert -1 < compute[fabric].exponent < 0
        assert compute[fabric].exponent + links[fabric].exponent == pytest.approx(-1, abs=0.05)
    # With faster NPUs, links matter more.
    assert found.intervals[1].high > found.intervals[1].speedup > found.intervals[1].low


@pytest.mark.parametrize("share", [0, 1, float("nan")])
def test_shares_that_cannot_be_are_refused(share: float) -> None:
    with refused("sensitivity", "per cent is not possible", "more than 0 and less than 100"):
        compared({"a": 1e9}, share)


def test_both_commands_print_one_table_with_sign_size_and_rank_and_write_it(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text("""
        [fabrics.ring]
        topology = { name = "multi-dimensional", dimensions = ["ring 4"], bandwidths = [1e9], latencies = [3.0] }
        collectives = { default = "ring" }
        [workloads.work]
        workload = { name = "microbenchmark", pattern = "all-reduce", size = 4e9 }
    """)
    options = ("dimensions=['ring 4']", "bandwidths=['1 GB/s']", "latencies=['3 s']")
    given = [word for option in options for word in ("--set", option)]
    collective = ["collective", "all-reduce", "--topology", "multi-dimensional", *given, "--size", "4GB"]
    commands = {"4000000000": [*collective, "--algorithm", "ring"], "work ring": ["compare", str(path), "--no-store"]}
    for cell, command in commands.items():
        said = succeeds(*command, "--sensitivity=50")
        _, _, table = said.partition("with 50 % less and 50 % more of one parameter, simulated again")
        rows = [" ".join(line.split()) for line in table.partition("\n\n")[0].splitlines()[3:]]
        # Six steps of 3 s, and six times 1 GB one way, at half of what an NPU sends both ways: 18 s and 12 s.
        assert rows[:2] == [f"{cell} 1 bandwidth of npu - npu +40 % -13.3 %", f"{cell} 2 latency of links -30 % +30 %"]
        assert rows[2:] == ([f"{cell} - compute none none"] if "ring" in cell else [])
    path = tmp_path / "out.json"
    arguments = ["collective", "all-reduce", "--topology", "mesh2d", "--algorithm", "ring", "--json", str(path)]
    succeeds(*arguments, "--sensitivity")
    (result,) = json.loads(path.read_text())["results"]
    assert {one["parameter"] for one in result["sensitivity"]} >= {LATENCY, "bandwidth of all links"}
    assert "sensitivity: 150 per cent is not possible (accepted: more than 0" in fails(*arguments, "--sensitivity=150")


def test_what_if_says_what_the_path_lets_expect_and_what_a_run_says() -> None:
    tables = experiment({"f": 100e9})
    tables["fabrics"]["f"]["topology"]["latencies"] = [1e-3]
    matrix = FRAMEWORK.load_experiment(tables)
    found = FRAMEWORK.what_if(matrix, factor=4)
    # A ring of four that goes both ways or one way: the bytes at the bandwidth, and six steps of a millisecond.
    fixed = 6e-3
    draining = found.seconds - fixed
    assert [one.parameter for one in found.improvements] == ["bandwidth of npu - npu", LATENCY, "compute"]
    bandwidth, latency, compute = found.improvements
    assert (bandwidth.on_path, latency.on_path, compute.on_path) == pytest.approx((draining, fixed, 0.0))
    assert bandwidth.seconds == bandwidth.estimated_seconds == pytest.approx(fixed + draining / 4)
    assert latency.seconds == latency.estimated_seconds == pytest.approx(draining + fixed / 4)
    assert compute.seconds == compute.estimated_seconds == found.seconds
    assert bandwidth.estimated_exponent == pytest.approx(-draining / found.seconds)
    for one in found.improvements:
        assert one.exponent == pytest.approx(one.estimated_exponent, abs=0.01)
    known = FRAMEWORK.run(matrix)
    assert FRAMEWORK.what_if(matrix, factor=4, result=known) == found


def better(**how: Any) -> WhatIf:
    return FRAMEWORK.what_if(FRAMEWORK.load_experiment(experiment({"one": 1e9})), factor=4, **how)


def varied_both(**how: Any) -> Sensitivity | None:
    return compare({**experiment({"slow": 1e9, "fast": 2e9}), "baseline": "slow"}, sensitivity=0.2, **how).sensitivity


@pytest.mark.parametrize(
    ("found", "runs"),
    [
        # Bandwidth and compute, each slightly and four times better. The cell itself is run, not kept.
        (better, 4),
        # Two cells, less and more bandwidth of each, and less and more compute of both.
        (varied_both, 2 + 4 + 4),
    ],
)
def test_changed_machines_run_in_a_store_and_elsewhere(found: Callable[..., object], runs: int, tmp_path: Path) -> None:
    alone = found()
    with Store.open(tmp_path / "cells") as store:
        for hits in (0, runs):
            assert found(store=store) == alone
            assert store.hits == hits
    with ThreadPoolExecutor(2) as executor:
        assert found(executor=executor) == alone


@frozen
class Limited(Steps):
    """Steps that fail on slower links, or that are refused there."""

    error: type[Exception] = UnsupportedError

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        if fabric.bandwidths.min() < 50e9:  # a bidirectional ring halves them
            raise self.error("these links are too slow")
        return super().costs(call, fabric)


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (UnsupportedError, UnsupportedError, r"bandwidth of npu - npu -20 %: these links are too slow"),
        (ValueError, PluginError, r"^module .*Limited\.costs\(\) of 'steps' fails: .*these links are too"),
    ],
)
def test_a_variation_that_cannot_be_run_is_named(error: type[Exception], raised: type[Exception], said: str) -> None:
    fabric = FRAMEWORK.topology(**RING, bandwidths=[100e9]).build().with_defaults(transport=Limited(error=error))
    with pytest.raises(raised, match=said):
        FRAMEWORK.collective_sensitivity(fabric, "all-reduce", size=8e9, algorithm="ring")
    matrix, gone = FRAMEWORK.load_experiment(experiment({"one": 1e9})), Variation("one", "bandwidth of nothing", 2.0)
    with pytest.raises(SimulationError, match=r"^work on one, bandwidth of nothing of one"):
        simulate(matrix, Means(FRAMEWORK.plugins), [gone], cells={("work", "one")}, fidelity="exact")


@pytest.mark.slow
def test_what_if_of_all_links_counts_every_tier() -> None:
    fabric = {"topology": {"name": "torus", "dimensions": [4, 2], "link_latency": 0.0}}
    found = FRAMEWORK.what_if(FRAMEWORK.load_experiment({**experiment({}), "fabrics": {"f": fabric}}))
    (every,) = (one for one in found.improvements if one.parameter == "bandwidth of all links")
    assert (every.estimated_exponent, every.exponent) == pytest.approx((-1, -1))
    assert every.seconds == pytest.approx(found.seconds / 2)


@pytest.mark.parametrize("factor", [1, 0, -2, float("nan"), float("inf")])
def test_factors_that_make_nothing_better_are_refused(factor: float) -> None:
    with refused("factor", "times better is not possible"):
        FRAMEWORK.what_if(FRAMEWORK.load_experiment(experiment({"one": 1e9})), factor=factor)


def test_memories_have_bandwidths_and_latencies_too_and_estimates_a_sensitivity() -> None:
    def spilling(bandwidth: float, latency: float) -> dict[str, Any]:
        shape = {"layers": 2, "hidden": 512, "heads": 8, "sequence": 512, "vocabulary": 1000, "global_batch": 8}
        tables = experiment({"one": 1e11}, {"name": "transformer", **shape})
        cxl = {"name": "cxl", "scope": "npu", "bandwidth": bandwidth, "latency": latency}
        tables["fabrics"]["one"]["memories"] = [cxl]
        return {**tables, "npu": {"memory": 8e7}}

    matrix = FRAMEWORK.load_experiment(spilling(1e11, 1e-3))
    found = {one.parameter: one.seconds for one in FRAMEWORK.what_if(matrix, factor=2).improvements}
    for parameter, changed in (("bandwidth of cxl - npu", (2e11, 1e-3)), (LATENCY, (1e11, 0.5e-3))):
        again = run(spilling(*changed)).seconds
        assert found[parameter] == pytest.approx(again, rel=1e-12)
    assert found["bandwidth of cxl - npu"] < 0.8 * FRAMEWORK.run(matrix).seconds
    estimate = compare(experiment({"one": 1e9}), fidelity="estimate", sensitivity=0.2)
    assert {row.fidelity for row in estimate.rows} == {"estimate"}
    assert estimate.sensitivity is not None
    assert estimate.sensitivity.effects[0].exponent == pytest.approx(-1, abs=0.05)
