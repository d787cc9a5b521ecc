"""Turns on channels: policies, turns of several phases, and channels that are released early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve
from small import joined, started

from fredfw.collectives import Pattern, Phase, Schedule, parallel
from fredfw.errors import ScheduleError
from fredfw.fidelities import COMPRESSED, EXACT, RENDEZVOUS, STEPWISE
from fredfw.simulation import FlowNetwork

WAYS = (COMPRESSED, STEPWISE, EXACT, RENDEZVOUS)

PAIR = joined([(0, 1), (1, 0)], 4.0, 0.5)
"""4 B/s and 0.5 s each way."""


def simulated(schedule: Schedule, fidelity: str) -> float:
    """Return the seconds of ``schedule`` alone."""
    network = FlowNetwork(PAIR)
    log = started(network, schedule, PAIR.npus[None, :], fidelity)
    network.advance()
    assert len(log.ends) == 1
    assert network.idle
    return network.now


def two_turns(**given: Any) -> Schedule:
    """Return two exchanges of two steps each along one channel."""
    step = Phase.of([0, 1], [1, 0], [0, 1], channel=0, turn=0)
    one = Schedule(Pattern.ALL_GATHER, 2, 8.0, 2, (step, evolve(step, after=(0,))), **given)
    return parallel([one, one])


@pytest.mark.parametrize("fidelity", WAYS)
def test_a_turn_of_several_phases_holds_its_channel(fidelity: str) -> None:
    # 8 bytes at 4 B/s and 0.5 s of latency: 2.5 s a step, and nobody else in between.
    assert simulated(two_turns(), fidelity) == pytest.approx(4 * 2.5)


@pytest.mark.parametrize("fidelity", WAYS)
def test_a_channel_that_is_released_early_has_no_gaps(fidelity: str) -> None:
    # The steps drain one behind the other, those of the second turn during the latencies of the first.
    assert simulated(two_turns(release="drained"), fidelity) == pytest.approx(4 * 2 + 0.5)


@pytest.mark.parametrize("fidelity", WAYS)
def test_the_smallest_turn_is_that_with_the_fewest_bytes_of_all_its_repetitions(fidelity: str) -> None:
    """16 bytes in 4 s come before 4 + 20 bytes in two repetitions, and 40 in 10 s go back when they are delivered."""
    phases = (
        Phase.of(0, 1, 0, channel=0),
        Phase.of(0, 1, 1, stride=1, repeat=2, channel=0),
        Phase.of(1, 0, 3, after=(0,)),
    )
    sizes = np.array([16.0, 4.0, 20.0, 40.0])
    schedule = Schedule(Pattern.ALL_GATHER, 2, sizes, 4, phases, policy="smallest-first", proof="none")
    assert simulated(schedule, fidelity) == pytest.approx(4.5 + 10.5)


def test_turns_of_parts_are_different_turns() -> None:
    assert [phase.turn for phase in two_turns().phases] == [0, 0, 1, 1]


@pytest.mark.parametrize(("key", "value"), [("policy", "largest-first"), ("release", "sent")])
def test_unknown_policies_are_refused(key: str, value: str) -> None:
    with pytest.raises(ScheduleError, match=f"{key} is '{value}', accepted are"):
        two_turns(**{key: value})


def test_parts_with_different_policies_are_not_put_side_by_side() -> None:
    with pytest.raises(ScheduleError, match="one channel policy"):
        parallel([two_turns(), two_turns(policy="smallest-first")])
