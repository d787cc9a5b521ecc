"""How time and memory grow: every case of ``scale.py`` in a process of its own, and a table below the tests.

``pytest benchmarks --long`` also runs those of half a minute to many minutes: a million flows on a 32 x 32 mesh, a
torus of a million NPUs in four dimensions, thousands of shuffled groups. Nothing here asserts a time, for machines
differ and are noisy.
"""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.processes import measured

HERE = Path(__file__).parent
FAMILIES = runpy.run_path(str(HERE / "scale.py"))["FAMILIES"]
CASES = [(name, size) for name, family in FAMILIES.items() for size in family.sizes + family.long]


@pytest.mark.parametrize(("family", "size"), CASES)
def test_scale(
    benchmark: Any, request: pytest.FixtureRequest, grown: list[dict[str, Any]], family: str, size: int
) -> None:
    if size in FAMILIES[family].long and not request.config.getoption("--long"):
        pytest.skip("takes long; run it with --long")
    command = [sys.executable, HERE / "scale.py", family, size]
    process = benchmark.pedantic(measured, args=(command,), rounds=1)
    row = {"process": process["seconds"], "memory": process["memory"], **json.loads(process["output"])}
    benchmark.extra_info.update(row)
    grown.append({"family": family, "unit": FAMILIES[family].unit, "size": size, **row})
