"""The training iterations of docs/themis.md, which says what they take."""

from pathlib import Path

import pytest

from fredfw import Framework

EXPERIMENT = Path(__file__).resolve().parents[2] / "experiments" / "themis-training.toml"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "network", "seconds", "speedup"),
    [
        ("DLRM", "2D-SW_SW", 2.146e-3, 1.283),
        ("DLRM", "3D-SW_SW_SW_homo", None, 1.832),
        ("Transformer-1T", "2D-SW_SW", 120.38e-3, 1.288),
        ("Transformer-1T", "3D-SW_SW_SW_homo", None, 1.495),
        ("GNMT, calibrated", "2D-SW_SW", 5.252e-3, 1.266),
        ("GNMT, calibrated", "3D-SW_SW_SW_homo", None, 1.780),
        ("ResNet-152, calibrated", "2D-SW_SW", 1.711e-3, 1.408),
        ("ResNet-152, calibrated", "3D-SW_SW_SW_homo", None, 2.250),
    ],
)
def test_an_iteration_takes_what_the_documents_say(
    workload: str, network: str, seconds: float | None, speedup: float
) -> None:
    framework = Framework()
    experiment = framework.load_experiment(EXPERIMENT)
    baseline, themis = (
        framework.run(experiment, workload=workload, fabric=f"{network}, {which}").seconds
        for which in ("baseline", "Themis")
    )
    assert baseline / themis == pytest.approx(speedup, abs=1e-3)
    if seconds is not None:
        assert baseline == pytest.approx(seconds, rel=1e-3)
