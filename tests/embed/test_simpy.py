"""The network under the processes of the real SimPy."""

import math
from collections.abc import Generator
from typing import Any

import pytest
import simpy

from fredfw import Framework
from fredfw.embed import NetworkBackend
from fredfw.embed.simpy import Environment
from fredfw.errors import DeadlockError, InputError

FRAMEWORK = Framework()
Process = Generator[simpy.Event, Any, None]


def environment(npus: int = 4, latency: float = 0.0) -> Environment:
    """A switch with links of 1 GB/s."""
    fabric = FRAMEWORK.topology("switch", npus=npus, link_bandwidth="1 GB/s", link_latency=latency).build()
    return Environment(NetworkBackend(fabric, plugins=FRAMEWORK.plugins))


def run(env: Environment, *processes: Process) -> None:
    for one in processes:
        env.process(one)
    env.run()


def test_the_clocks_are_equal_to_the_last_digit() -> None:
    env = environment(latency=1e-7)
    seen = []

    def sender(number: int) -> Process:
        for size in range(1, 20):
            yield env.timeout(number / 3 + size / 7)
            yield env.network.send(number, 3 - number, size * 1e8 / 3)
            seen.append((env.now, env.network.backend.now))

    for number in range(4):
        env.process(sender(number))
    while (due := env.peek()) < math.inf:
        env.step()
        assert env.now == env.network.backend.now == due
    assert len(seen) == 76
    assert all(one == other for one, other in seen)


def test_messages_and_events_are_waited_for_together() -> None:
    env = environment()

    def main() -> Process:
        network = env.network
        yield network.send(0, 1, 1e9) & network.send(2, 3, 2e9)
        assert env.now == 2.0
        result = yield network.send(0, 1, 5e9) | env.timeout(1.0, "late")
        assert env.now == 3.0
        assert list(result.values()) == ["late"]

    run(env, main())
    assert env.now == 7.0


def test_a_receive_waits_for_the_message_with_its_tag() -> None:
    env = environment()
    received = []

    def receiver() -> Process:
        for tag in ("second", "first"):
            yield env.network.receive(0, 1, tag)
            received.append((tag, env.now))

    def sender() -> Process:
        for tag in ("first", "second"):
            yield env.network.send(0, 1, 1e9, tag)

    run(env, receiver(), sender())
    assert received == [("second", 2.0), ("first", 2.0)]


def test_what_is_cancelled_does_not_hold_the_clock() -> None:
    env = environment()

    def sender() -> Process:
        message = env.network.send(0, 1, 100e9)
        try:
            yield message
        except simpy.Interrupt:
            env.network.cancel(message)
            yield env.network.send(0, 1, 1e9)

    process = env.process(sender())

    def interrupter() -> Process:
        yield env.timeout(2.0)
        process.interrupt()

    run(env, interrupter())
    assert env.now == 3.0


def test_run_stops_where_it_is_told() -> None:
    env = environment()
    message = env.network.send(0, 1, 3e9)
    env.run(until=1.0)
    assert (env.now, env.network.backend.now) == (1.0, 1.0)
    env.run(until=message)
    assert env.now == 3.0
    env.run(until=5.0)
    assert (env.now, env.network.backend.now) == (5.0, 5.0)


def test_at_one_moment_processes_come_first() -> None:
    env = environment()
    solves = env.network.backend.statistics
    order = []

    def sender(number: int) -> Process:
        yield env.timeout(1.0)
        order.append(number)
        yield env.network.send(number, 3, 1e9)

    for number in range(3):
        env.process(sender(number))
    env.run(until=2.0)
    assert order == [0, 1, 2]
    assert solves()["solves"] == 1  # for all three


def test_flows_that_cannot_move_are_a_deadlock_and_a_server_is_not() -> None:
    env = environment()

    def server() -> Process:
        while True:
            yield env.network.receive(0, 1, "request")

    env.process(server())
    env.network.send(0, 1, 1e9, "request")
    env.run()
    assert env.now == 1.0
    env.network.send(0, 1, 1e9)
    env.network.backend.fail_link(int(env.network.backend.fabric.links_between([0], [4])[0]))  # type: ignore[arg-type]  # lists do as well
    with pytest.raises(DeadlockError, match="no event is left, but these cannot move: send"):
        env.run()


def test_errors_reach_the_process_that_made_them() -> None:
    env = environment()

    def main() -> Process:
        with pytest.raises(InputError, match="dst: 9 is not an end point"):
            env.network.send(0, 9, 1.0)
        yield env.timeout(1.0)

    run(env, main())
    assert env.now == 1.0


def test_it_needs_a_network_and_begins_where_that_is() -> None:
    with pytest.raises(InputError, match="backend: None is not a network"):
        Environment(None)  # type: ignore[arg-type]
    backend = environment().network.backend
    backend.advance(2.0)
    env = Environment(backend)
    assert env.now == 2.0
    env.run(until=env.network.send(0, 1, 1e9))
    assert env.now == 3.0
