from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

import fredfw_sharing_roce
from fredfw import Fabric, Framework, SharingPolicy
from fredfw.errors import InputError, UnsupportedError
from fredfw.testing import SharingPolicyTests
from fredfw_sharing_roce import Dcqcn, Dctcp, Hpcc, Pfc, Timely
from fredfw_sharing_roce.marking import Marking

FRAMEWORK = Framework()


def switch(npus: int, latency: Any, sharing: SharingPolicy, bandwidth: Any = "25 GB/s") -> Fabric:
    fabric = FRAMEWORK.topology("switch", npus=npus, link_bandwidth=bandwidth, link_latency=latency).build()
    return fabric.with_defaults(sharing=sharing)


@pytest.mark.parametrize("policy", [Dcqcn(), Dctcp(), Timely(), Pfc()])
def test_a_ring_without_contention_takes_as_long_as_ever(policy: SharingPolicy) -> None:
    result = FRAMEWORK.simulate_collective(switch(4, "500 ns", policy), "all-reduce", size=1e6, algorithm="ring")
    # Six steps of a quarter, each over two links.
    assert result.duration == pytest.approx(6 * (250e3 / 25e9 + 1e-6), rel=1e-6)
    assert result.figures["largest queue, maximum (B)"] == pytest.approx(0, abs=1e-6)
    assert any("integrated in steps of 1 us" in note for note in result.notes)


def test_an_incast_fills_a_queue_and_its_bytes_arrive() -> None:
    result = FRAMEWORK.simulate_collective(switch(8, "500 ns", Dcqcn()), "gather", size=4e6, algorithm="direct")
    # Seven senders of 500 kB each.
    assert 1 <= result.duration / (7 * 500e3 / 25e9) < 1.5
    assert result.figures["largest queue, maximum (B)"] > 400e3


@pytest.mark.parametrize(
    ("policy", "fields", "said"),
    [
        (Dcqcn, {"kmin": "300 KB"}, "kmax: .* is less than kmin"),
        (Dctcp, {"kmax": "1 KB"}, "kmax: .* is less than kmin"),
        (Dcqcn, {"pmax": 0}, "pmax: 0 is not a share"),
        (Dcqcn, {"thresholds": "rate"}, "thresholds: .*by-rate"),
        (Dcqcn, {"thresholds": "by-rate", "kmin": "1 KB"}, "kmin: .* none with 'by-rate'"),
        (Dcqcn, {"start": []}, "start: "),
        (Dcqcn, {"start": ["1 Gb/s", 0]}, "start: "),
        (Dcqcn, {"start": "fast"}, "start: "),
        (Timely, {"high": "10 us"}, "high: .* is not more than low"),
        (Timely, {"decrease": 2.0}, "decrease: "),
        (Pfc, {"xon": "1 MB"}, "xon: .* is not less than xoff"),
    ],
)
def test_bad_numbers_are_refused(policy: type[SharingPolicy], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        policy(**fields)


@pytest.mark.parametrize("policy", [Dcqcn(), Dctcp(), Hpcc(), Timely()])
def test_a_fabric_that_says_nothing_of_delays_is_refused(policy: SharingPolicy) -> None:
    with pytest.raises(UnsupportedError, match=r"^sharing.delay: is not given, and links of .*accepted: .*more than 0"):
        FRAMEWORK.simulate_collective(switch(4, 0, policy), "all-reduce", size=1e3)


def test_steps_that_are_too_long_are_told_and_what_hears_nothing_or_has_a_delay_needs_no_latency() -> None:
    for step, too_long in ((1e-6, False), (1.01e-6, True)):
        fabric = switch(4, "1 us", Pfc(step=step))
        result = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=1e6, algorithm="ring")
        assert any("less than four steps" in note for note in result.notes) == too_long
    for policy in (Pfc(), Hpcc(delay=4e-6)):
        assert FRAMEWORK.simulate_collective(switch(4, 0, policy), "all-reduce", size=1e3).duration > 0


@pytest.mark.parametrize(
    ("policy", "gigabits", "milliseconds", "share"),
    [
        (Pfc(), 40, 2, 1.0),
        pytest.param(Hpcc(), 100, 3, 0.95 + 2 * 50e6 / 100e9, marks=pytest.mark.slow),
        pytest.param(Dctcp(delay=100e-6), 10, 3, 1.0, marks=pytest.mark.slow),
        pytest.param(Dcqcn(delay=4e-6), 40, 40, 1.0, marks=pytest.mark.slow),
        pytest.param(Timely(), 10, 50, 1.0, marks=pytest.mark.slow),
    ],
)
def test_long_flows_take_bytes_over_their_stable_rate(
    policy: SharingPolicy, gigabits: float, milliseconds: float, share: float
) -> None:
    # Two senders to one; HPCC's are stable at (eta C + N increase) / N, the others' at C / N.
    capacity = gigabits * 1e9 / 8
    fabric, size = switch(3, "2 us", policy, capacity), 3 * milliseconds * 1e-3 * capacity / 2
    result = FRAMEWORK.simulate_collective(fabric, "gather", size=size, algorithm="direct")
    assert result.duration == pytest.approx(2 / 3 * size / (share * capacity), rel=0.02)


class TestRoce(SharingPolicyTests):
    plugin = fredfw_sharing_roce
    policies = (
        Dcqcn(),
        Dcqcn(delay=4e-6, start=(5e9 / 8,)),
        Dctcp(thresholds="by-rate"),
        Timely(),
        Timely(variant="original"),
        Pfc(),
    )


class TestHpcc(SharingPolicyTests):
    plugin = fredfw_sharing_roce
    policies = (Hpcc(increase=10e9 / 8),)  # so that it converges soon
    expected_failures: ClassVar[Mapping[str, str]] = {"no_capacity_is_wasted": "links are kept at 95 %"}


GBPS = 1e9 / 8


def marked(policy: Marking, queue: float, rate: float) -> float:
    return float(policy.signal(np.array([queue]), np.zeros(1), np.array([rate * GBPS]))[0])


def test_marks_rise_between_the_thresholds_of_which_dctcp_has_one() -> None:
    policy = Dcqcn(kmin=100.0, kmax=300.0, pmax=0.5)
    assert [marked(policy, queue, 40) for queue in (0, 100, 200, 300, 301)] == pytest.approx([0, 0, 0.25, 0.5, 1])
    assert [marked(Dctcp(), packets * 1500, 10) for packets in (64, 65, 65.1, 66)] == [0, 0, 1, 1]


@pytest.mark.parametrize("policy", [Dcqcn(thresholds="by-rate"), Dctcp(thresholds="by-rate")])
def test_thresholds_follow_the_rate(policy: Marking) -> None:
    listed = {25: 100e3, 40: 200e3, 100: 400e3, 200: 600e3, 400: 800e3, 2400: 800e3}
    # Half way between 100 and 200 Gb/s, and outside.
    for rate, kmin in (listed | {150: 500e3, 10: 100e3, 9600: 800e3}).items():
        shares = [marked(policy, queue, rate) for queue in (kmin, 2.5 * kmin, 4 * kmin, 4 * kmin + 1)]
        assert shares == pytest.approx([0, 0.1, 0.2, 1])
