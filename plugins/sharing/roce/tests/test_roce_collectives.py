from __future__ import annotations

from typing import Any

import pytest

from fredfw import Framework, SharingPolicy
from fredfw.errors import InputError
from fredfw_sharing_roce import Dcqcn, Dctcp, Hpcc, Pfc, Timely, fredfw_sharing_policies


def test_policies_are_registered() -> None:
    assert fredfw_sharing_policies() == [Dcqcn, Dctcp, Hpcc, Pfc, Timely]


@pytest.mark.parametrize("policy", [Dcqcn(), Dctcp(), Timely(), Pfc()])
def test_a_ring_without_contention_takes_as_long_as_ever(policy: SharingPolicy) -> None:
    framework = Framework()
    fabric = framework.topology("switch", npus=4, link_bandwidth="25 GB/s", link_latency="500 ns").build()
    usual = framework.simulate_collective(fabric, "all-reduce", size=1e6, algorithm="ring")
    result = framework.simulate_collective(
        fabric.with_defaults(sharing=policy), "all-reduce", size=1e6, algorithm="ring"
    )
    assert result.duration == pytest.approx(usual.duration, rel=1e-6)
    assert result.figures["largest queue, maximum (B)"] == pytest.approx(0, abs=1e-6)
    assert any("integrated in steps of 1 us" in note for note in result.notes)


def test_an_incast_fills_a_queue_and_its_bytes_arrive() -> None:
    framework = Framework()
    fabric = framework.topology("switch", npus=8, link_bandwidth="25 GB/s", link_latency="500 ns").build()
    fabric = fabric.with_defaults(sharing=Dcqcn())
    result = framework.simulate_collective(fabric, "gather", size=4e6, algorithm="direct")
    # Seven senders of 500 kB each.
    assert result.duration >= 7 * 500e3 / 25e9
    assert result.duration < 1.5 * 7 * 500e3 / 25e9
    assert result.figures["largest queue, maximum (B)"] > 400e3


@pytest.mark.parametrize(
    ("policy", "fields", "said"),
    [
        (Dcqcn, {"kmin": "300 KB"}, "kmax: .* is less than kmin"),
        (Dctcp, {"kmax": "1 KB"}, "kmax: .* is less than kmin"),
        (Dcqcn, {"pmax": 0}, "pmax: 0 is not a share"),
        (Dcqcn, {"thresholds": "rate"}, "thresholds: .*by-rate"),
        (Dcqcn, {"thresholds": "by-rate", "kmin": "1 KB"}, "kmin: .* none with 'by-rate'"),
        (Dctcp, {"increase": 0}, "increase: "),
        (Dcqcn, {"start": []}, "start: "),
        (Dcqcn, {"start": ["1 Gb/s", 0]}, "start: "),
        (Dcqcn, {"start": "fast"}, "start: "),
        (Dcqcn, {"step": 0}, "step: "),
        (Timely, {"high": "10 us"}, "high: .* is not more than low"),
        (Timely, {"decrease": 2.0}, "decrease: "),
        (Pfc, {"xon": "1 MB"}, "xon: .* is not less than xoff"),
    ],
)
def test_bad_numbers_are_refused(policy: type[SharingPolicy], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        policy(**fields)
