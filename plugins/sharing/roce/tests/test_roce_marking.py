from __future__ import annotations

import numpy as np
import pytest

from fredfw_sharing_roce import Dcqcn, Dctcp
from fredfw_sharing_roce.marking import Marking

GBPS = 1e9 / 8


def marked(policy: Marking, queue: float, rate: float) -> float:
    return float(policy.signal(np.array([queue]), np.zeros(1), np.array([rate * GBPS]))[0])


def test_marks_rise_between_the_thresholds() -> None:
    policy = Dcqcn(kmin=100.0, kmax=300.0, pmax=0.5)
    assert [marked(policy, queue, 40) for queue in (0, 100, 200, 300, 301)] == pytest.approx([0, 0, 0.25, 0.5, 1])


def test_dctcp_has_one_threshold() -> None:
    assert [marked(Dctcp(), packets * 1500, 10) for packets in (64, 65, 65.1, 66)] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("rate", "kmin", "kmax"),
    [
        (25, 100e3, 400e3),
        (40, 200e3, 800e3),
        (100, 400e3, 1600e3),
        (200, 600e3, 2400e3),
        (400, 800e3, 3200e3),
        (2400, 800e3, 3200e3),
        # Half way between 100 and 200 Gb/s, and outside.
        (150, 500e3, 2000e3),
        (10, 100e3, 400e3),
        (9600, 800e3, 3200e3),
    ],
)
@pytest.mark.parametrize("policy", [Dcqcn(thresholds="by-rate"), Dctcp(thresholds="by-rate")])
def test_thresholds_follow_the_rate(policy: Marking, rate: float, kmin: float, kmax: float) -> None:
    assert marked(policy, kmin, rate) == 0
    assert marked(policy, (kmin + kmax) / 2, rate) == pytest.approx(0.1)
    assert marked(policy, kmax, rate) == pytest.approx(0.2)
    assert marked(policy, kmax + 1, rate) == 1
