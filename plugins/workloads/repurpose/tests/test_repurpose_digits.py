from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "repurpose_digits.py"


@pytest.mark.slow
def test_a_trained_network_sends_less_than_half_of_what_magnitude_pruning_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("sklearn")
    runpy.run_path(str(EXAMPLE))["main"](4)
    crossing = {line.split()[0]: float(line.split()[3]) for line in capsys.readouterr().out.splitlines()[2:]}
    assert 2 * crossing["repurpose"] <= crossing["magnitude"]
