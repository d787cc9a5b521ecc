"""One all-reduce among 4,096 NPUs, in process: fabric, routes, schedule and simulation, nothing kept from before."""

from __future__ import annotations

from typing import Any

import pytest

from fredfw import Framework

FRAMEWORK = Framework()
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "ring on an optical ring": ("optical-ring", {"npus": 4096}, "ring"),
    "wrht on an optical ring": ("optical-ring", {"npus": 4096}, "wrht"),
    "torus-ring on a 64x64 torus": ("torus", {"dimensions": [64, 64]}, "torus-ring"),
    "recursive doubling on a fat tree": ("fat-tree", {"npus": 4096, "routing": "spray"}, "recursive-halving-doubling"),
}


@pytest.mark.parametrize("case", CASES)
def test_all_reduce_among_4096(benchmark: Any, case: str) -> None:
    name, fields, algorithm = CASES[case]

    def simulate() -> float:
        fabric = FRAMEWORK.topology(name, **fields).build()
        return FRAMEWORK.simulate_collective(fabric, "all-reduce", size="100 MB", algorithm=algorithm).duration

    assert benchmark.pedantic(simulate, rounds=5, warmup_rounds=1) > 0
