"""How long the published comparison takes in one process, and what the engine did for it.

Run with ``tox run -e benchmarks``; nothing here asserts a time, for machines differ and are noisy.
"""

from pathlib import Path
from typing import Any

import pytest

from fredfw import Framework

FILE = Path(__file__).resolve().parents[1] / "experiments" / "fred-isca25.toml"
WORKLOADS = ("ResNet-152", "Transformer-17B", "GPT-3", "GPT-3-needed", "Transformer-1T")


def test_comparison(benchmark: Any) -> None:
    framework = Framework()
    comparison = benchmark.pedantic(lambda: framework.compare(FILE), rounds=1, iterations=1)
    benchmark.extra_info.update(comparison.statistics, cells=len(comparison.rows))
    assert len(comparison.rows) == 25


@pytest.mark.parametrize("fabric", ["mesh", "FRED-D"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_one_cell(benchmark: Any, workload: str, fabric: str) -> None:
    framework = Framework()
    experiment = framework.load_experiment(FILE)
    result = benchmark.pedantic(
        lambda: framework.run(experiment, workload=workload, fabric=fabric, fidelity="compressed"),
        rounds=3,
        iterations=1,
    )
    benchmark.extra_info.update(result.statistics)
    assert result.seconds > 0


def test_discovery(benchmark: Any) -> None:
    def discover() -> tuple[str, ...]:
        return Framework().plugins.topologies.names()

    assert "mesh2d" in benchmark(discover)
