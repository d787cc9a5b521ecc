from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import TWO, succeeds, words


def test_calibrate() -> None:
    written = Path(TWO).read_text()
    # With c seconds of computation (c + 1) / (c + 0.5) is 1.25 where c = 1.5, so the factor to the roofline's 1 s is
    # 1.5; it is never below 1.
    for target, solutions in ((1.25, [1.5]), (0.5, [])):
        Path(TWO).write_text(f'{written}[workloads.net.calibration]\nfabric = "fast"\nspeedup = {target}\n')
        printed = succeeds("calibrate", TWO, "--json", "fit.json")
        (fit,) = json.loads(Path("fit.json").read_text())["calibrations"]
        assert fit["solutions"] == pytest.approx(solutions, rel=1e-6)
        assert ["net", "fast", str(target), "one" if solutions else "none"] in [line[:4] for line in words(printed)]
        assert ("[workloads.net]\ncompute_scale = 1.5" in printed) == bool(solutions)
