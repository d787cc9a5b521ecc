"""Files, simulations and the command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import fails, succeeds
from experiments import refused

from fredfw import Framework
from fredfw.typing import FloatArray
from fredfw_command_libra import constraints
from fredfw_command_libra.design import Design, designs, search
from fredfw_command_libra.problem import Problem

SMALL = """
budget = "100 GB/s"
[networks.small]
dimensions = ["ring 4", "switch 2"]
latencies = "1 us"
[workloads.gradients]
axes = { tp = 2, dp = 4 }
compute = "1 ms"
collectives = [
    { pattern = "all-reduce", size = "40 MB", axes = "tp", count = 2 },
    { pattern = "all-reduce", size = "80 MB", axes = ["tp", "dp"] },
]
"""


def written(tmp_path: Path, text: str = SMALL) -> str:
    file = tmp_path / "x.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def solved(tmp_path: Path, text: str, **options: Any) -> list[Design]:
    framework = Framework()
    return list(designs(Problem(written(tmp_path, text), framework), framework, **options))


def test_a_file_gives_a_split_within_its_constraints(tmp_path: Path) -> None:
    (found,) = solved(tmp_path, SMALL)
    # Over 4 x 2 NPUs: 2 x 80 x 3 / 4 and 2 x 20 / 2 MB; over TP half a ring of 4: 2 x 40 / 2 MB, twice.
    # The second is in the ring alone, so b0 is b and b1 is 100 - b: 80 / b + max(120 / b, 20 / (100 - b)).
    assert found.split == pytest.approx((6 / 7, 1 / 7), abs=1e-6)
    assert found.seconds == pytest.approx(1e-3 + 200e6 / (600e9 / 7))
    # Ring: $ 4 per GB/s, switch: between pods 57.4.
    assert found.dollars == pytest.approx((600 / 7) * 4 + (100 / 7) * 57.4)
    assert found.equal == pytest.approx(1e-3 + 200e6 / 50e9)
    assert (found.status, found.workload, found.dimensions) == ("model", "gradients", ("ring 4", "switch 2"))
    text = SMALL.replace('latencies = "1 us"', 'latencies = "1 us"\nnames = ["node", "pod"]')
    (found,) = solved(tmp_path, 'constraints = ["pod >= 30 %"]\n' + text)
    assert found.split == pytest.approx((0.7, 0.3))


def test_budgets_and_objectives_are_all_solved(tmp_path: Path) -> None:
    text = 'objective = ["time", "time-cost"]\n' + SMALL.replace('"100 GB/s"', '["100 GB/s", "200 GB/s"]')
    found = solved(tmp_path, text)
    asked = [(budget, objective) for budget in (100e9, 200e9) for objective in ("time", "time-cost")]
    assert [(one.budget, one.objective) for one in found] == asked
    for fast, cheap in zip(found[::2], found[1::2], strict=True):
        assert fast.seconds <= cheap.seconds
        assert cheap.value <= fast.seconds * (fast.dollars or 0) * (1 + 1e-6)


def test_a_group_shares_a_split(tmp_path: Path) -> None:
    more = "[workloads.outer]\nweight = 3\naxes = { tp = 4, dp = 2 }\n"
    more += 'collectives = [{ pattern = "all-gather", size = "80 MB", axes = "dp" }]\n'
    (found,) = solved(tmp_path, "group = true\n" + SMALL + more)
    assert found.workload == "all"
    # f(b) = 200 / b + 3 x 40 / (100 - b) MB per GB/s, least where b / (100 - b) is the root of 200 / 120.
    root = np.sqrt(200 / 120)
    assert found.split[0] == pytest.approx(root / (1 + root), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["time", "time-cost"])
def test_simulations_are_never_worse_than_equal_shares(tmp_path: Path, objective: str) -> None:
    (found,) = solved(tmp_path, f'objective = "{objective}"\n' + SMALL, simulate=True, evaluations=12)
    simulated = found.simulated
    assert simulated is not None
    assert (simulated.gain or 0) >= 1
    assert simulated.loss >= 0
    assert simulated.simulations <= 12
    assert sum(simulated.split) == pytest.approx(1)
    # With latencies and whole chunks it takes longer than the analytic model says.
    assert simulated.analytic > found.seconds


@pytest.mark.slow
def test_equal_shares_win_where_latency_is_all(tmp_path: Path) -> None:
    (found,) = solved(tmp_path, SMALL.replace("1 us", "10 s"), simulate=True, evaluations=6)
    assert found.simulated is not None
    assert found.simulated.loss == pytest.approx(0, abs=1e-4)


def test_the_search_finds_the_bottom_of_a_bowl() -> None:
    bottom = np.array([60.0, 30.0, 10.0])
    tried = []

    def bowl(one: FloatArray) -> float:
        tried.append(one)
        return float(np.square(np.log(one / bottom)).sum())

    rules = constraints.read(["b0 >= b1", "b1 + b2 = 40 B/s"], {"b0": 0, "b1": 1, "b2": 2}, 3, key="c")
    start = np.array([60.0, 20.0, 20.0])
    found = search(bowl, [start], rules, 100.0, 200)
    assert found == pytest.approx(bottom, rel=0.05)
    assert all(one.sum() == pytest.approx(100) and one[1] + one[2] == pytest.approx(40) for one in tried)
    tried.clear()
    search(bowl, [start], rules, 100.0, 2)
    assert len(tried) <= 2


EXPERIMENT = """
[fabrics.pods.topology]
name = "multi-dimensional"
dimensions = ["ring 4", "switch 2"]
bandwidths = "50 GB/s"
latencies = "1 us"
[fabrics.wafer]
topology = "mesh2d"
[workloads.gradients]
workload = { name = "microbenchmark", pattern = "all-reduce", size = "80 MB" }
[workloads.slow]
workload = { name = "microbenchmark", pattern = "all-reduce", size = "80 MB" }
compute_scale = 2
"""
PLUGIN = """
experiment = "experiment.toml"
budget = "100 GB/s"
[networks.pods]
fabric = "pods"
[workloads.gradients]
workload = "gradients"
"""


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ('"100 GB/s"', '"0 GB/s"', "budget", "'0 GB/s' is too small"),
        ('budget = "100 GB/s"', "", "budget", "is missing"),
        ('budget = "100 GB/s"', 'bugdet = "100 GB/s"', "bugdet", "did you mean 'budget'"),
        ('budget = "100 GB/s"', 'budget = "1 TB/s"\nobjective = "times"', "objective", "did you mean 'time'"),
        ('budget = "100 GB/s"', 'budget = "1 TB/s"\nobjective = []', "objective", "names no objective"),
        ("budget =", 'constraints = ["b0 >= b2"]\nbudget =', "constraints[0]", "the dimension 'b2'"),
        ("budget =", 'constraints = ["b0 >= 2 TB/s"]\nbudget =', "constraints", "'b0 >= 2 TB/s'"),
        ('"ring 4"', '"rng 4"', "networks.small.dimensions[0]", "did you mean 'ring'"),
        ('dimensions = ["ring 4", "switch 2"]', "", "networks.small.dimensions", "is missing"),
        ("tp = 2", "tp = 3", "workloads.gradients.axes", "are not the 8 NPUs"),
        ("tp = 2", "tp = 0", "workloads.gradients.axes.tp", "0 is refused"),
        ('axes = "tp", count = 2', 'axes = "pp"', "workloads.gradients.collectives[0].axes", "no axis 'pp'"),
        ("count = 2", "count = 0", "workloads.gradients.collectives[0].count", "0 is not a count"),
        ('"all-reduce", size = "40', '"gather", size = "40', "workloads.gradients.collectives[0].pattern", "gather"),
        ('"1 ms"', '"1 GB"', "workloads.gradients.compute", "1 GB"),
        ('size = "40', 'size = "-40', "workloads.gradients.collectives[0].size", "is too small"),
        ('budget = "100 GB/s"', "budget = ", None, "is not TOML"),
        (SMALL[SMALL.index("collectives") :], "", "workloads.gradients.collectives", "there is no communication"),
        ('fabric = "pods"', 'fabric = "wafer"', "networks.pods.fabric", "'mesh2d' has no dimensions"),
        ('workload = "gradients"', 'workload = "slow"', "workloads.gradients.workload", "compute_scale 2"),
        ('experiment = "experiment.toml"', "", "experiment", "there is no experiment"),
        ('"gradients"', '"gradients"\naxes = {}', "workloads.gradients.axes", "the workload says this itself"),
    ],
)
def test_bad_input_is_told(tmp_path: Path, old: str, new: str, key: str | None, message: str) -> None:
    (tmp_path / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    text = SMALL if old in SMALL else PLUGIN
    assert old in text
    with refused(key, message, file=str(tmp_path / "x.toml")):
        solved(tmp_path, text.replace(old, new))


@pytest.mark.slow
def test_a_compute_time_is_fitted(tmp_path: Path) -> None:
    calibrated = 'calibration = { network = "small", budget = "100 GB/s", split = [95, 5] }\n'
    text = 'objective = "time-cost"\n' + SMALL.replace('compute = "1 ms"\n', "") + calibrated
    (found,) = solved(tmp_path, text)
    assert found.split == pytest.approx((0.95, 0.05), abs=1e-4)
    assert found.status == "calibrated"
    assert found.compute > 0
    reference = '[[references]]\nnetwork = "small"\nworkload = "gradients"\nobjective = "time-cost"\nsplit = [90, 10]\n'
    (found,) = solved(tmp_path, text + reference)
    assert found.published is not None
    assert found.published.ratio < 1
    assert found.published.distance == pytest.approx(0.05, abs=1e-4)


def test_the_command_prints_and_writes_what_it_found_for_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    file, output, evaluations = written(tmp_path, PLUGIN), tmp_path / "x.json", ("--evaluations", "3")
    printed = succeeds("libra", file, "--simulate", *evaluations, "--json", str(output))
    assert "85.71 14.29" in printed
    assert "Simulated, with contention and latencies" in printed
    (design,) = json.loads(output.read_text())["designs"]
    # 2 x 80 x 3 / 4 MB in the ring and 2 x 20 / 2 at the switch: shares as the traffic.
    assert design["split"] == pytest.approx([6 / 7, 1 / 7], abs=1e-6)
    assert design["seconds"] == pytest.approx(140e6 / 100e9)
    assert "--evaluations: there is nothing to simulate" in fails("libra", file, *evaluations)
