"""Pauses of links: what they hold up, how they spread, and when they never end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fredfw import ActiveFlows, Dynamics, Fabric, Incidence
from fredfw.errors import DeadlockError
from fredfw.typing import FloatArray
from fredfw_sharing_roce import Pfc

CAPACITY = 1.25e9


def fabric(hosts: int, switches: int, links: Sequence[tuple[int, int]]) -> Fabric:
    kinds = np.array([0] * hosts + [1] * switches)
    sources, destinations = np.array(links).T
    return Fabric("links", kinds, sources, destinations, CAPACITY, 0.0, 0.0)


def endless(ways: Sequence[Sequence[int]]) -> ActiveFlows:
    count = len(ways)
    offsets = np.cumsum([0, *map(len, ways)])
    return ActiveFlows(
        incidence=Incidence(offsets, np.concatenate(ways), None, None, np.zeros(count, dtype=np.intp)),
        ids=np.arange(count),
        births=np.zeros(count),
        sizes=np.full(count, 1e15),
        remaining=np.full(count, 1e15),
        latencies=np.zeros(count),
        labels=("",) * count,
    )


def mean_rates(dynamics: Dynamics, active: ActiveFlows, links: int, seconds: float) -> FloatArray:
    """Return the ``(F,)`` mean rates in the second half of so many seconds, as shares of the capacity of a link."""
    now, carried, passed = 0.0, np.zeros(len(active)), 0.0
    while now < seconds:
        held = dynamics.rates(active, np.full(links, CAPACITY), now)
        if now >= seconds / 2:
            carried += held.rates * (held.until - now)
            passed += held.until - now
        now = held.until
    return carried / passed / CAPACITY


def test_pauses_block_flows_that_go_elsewhere() -> None:
    # Hosts 0, 1 and 4 send to host 2, and host 0 to host 3, too, over switch 5. The first three share a link evenly.
    # The pauses that keep host 0 from sending faster to host 2 hold up what it sends to host 3, too, to which max-min
    # would give 2/3.
    elbow = fabric(5, 1, [(0, 5), (1, 5), (5, 2), (5, 3), (4, 5)])
    dynamics = Pfc(xoff=64e3, xon=32e3).begin(elbow)
    rates = mean_rates(dynamics, endless([[0, 2], [1, 2], [0, 3], [4, 2]]), 5, 2e-3)
    assert rates[0] + rates[1] + rates[3] == pytest.approx(1.0, rel=0.02)
    assert rates[0] == pytest.approx(rates[2], rel=0.05)
    assert rates[2] < 0.45
    figures = dynamics.figures(2e-3)
    assert figures["largest queue, maximum (B)"] < 3 * (64e3 + CAPACITY * 2e-6)
    assert figures["longest pause of a link (s)"] > 0


def test_pauses_spread_upstream() -> None:
    # A line of switches 4, 5 and 6. Host 0 sends through all to host 2; host 1, at switch 6, sends there, too.
    line = fabric(4, 3, [(0, 4), (4, 5), (5, 6), (6, 2), (1, 6)])
    dynamics = Pfc(xoff=64e3, xon=32e3).begin(line)
    rates = mean_rates(dynamics, endless([[0, 1, 2, 3], [4, 3]]), 5, 4e-3)
    assert rates.sum() == pytest.approx(1.0, rel=0.02)
    samples = dynamics.samples()
    begin = {}
    for link in (0, 1, 2):
        pause = samples[f"pause of {line.link_name(link)}"]
        assert pause.unit == "s"
        begin[link] = float(pause.times[(pause.values > 0).argmax()])
        assert pause.values[-1] == pytest.approx(
            dynamics.figures(4e-3)[f"pause of {line.link_name(link)} (s)"], abs=1e-5
        )
    assert begin[2] < begin[1] < begin[0]


def ring() -> Fabric:
    """Three switches with two hosts each; links 6, 7 and 8 are the ring, the last ones lead to hosts."""
    ups = [(host, 6 + host // 2) for host in range(6)]
    return fabric(6, 3, [*ups, (6, 7), (7, 8), (8, 6), (6, 0), (7, 2), (8, 4)])


def test_a_cycle_of_full_buffers_is_named() -> None:
    # Hosts send to the switch after the next: every link of the ring waits for the next.
    active = endless([[host, 6 + host // 2, 6 + (host // 2 + 1) % 3, 9 + (host // 2 + 2) % 3] for host in range(6)])
    links = ring()
    with pytest.raises(DeadlockError, match="pause each other for ever") as found:
        mean_rates(Pfc(xoff=64e3, xon=32e3).begin(links), active, 12, 0.01)
    said = str(found.value)
    assert [links.link_name(link) in said for link in range(12)] == [6 <= link < 9 for link in range(12)]
    assert "\n" not in said


def test_a_cycle_of_links_that_are_not_full_is_none() -> None:
    # Hosts send to the next switch.
    active = endless([[host, 6 + host // 2, 9 + (host // 2 + 1) % 3] for host in range(6)])
    assert mean_rates(Pfc(xoff=64e3, xon=32e3).begin(ring()), active, 12, 1e-3).sum() == pytest.approx(3.0, rel=0.01)
