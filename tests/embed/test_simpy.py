"""The network under the processes of the real SimPy."""

import math
from collections.abc import Generator
from typing import Any

import pytest
import simpy
from networks import mesh

from fredfw import Framework
from fredfw.embed import NetworkBackend
from fredfw.embed.simpy import Environment
from fredfw.errors import DeadlockError, InputError

Process = Generator[simpy.Event, Any, None]


def environment(latency: float = 0.0) -> Environment:
    """A switch with links of 1 GB/s."""
    fabric = Framework().topology("switch", npus=4, link_bandwidth="1 GB/s", link_latency=latency).build()
    return Environment(NetworkBackend(fabric))


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


def test_messages_and_events_are_waited_for_together_and_cancelled() -> None:
    env = environment()

    def main() -> Process:
        network = env.network
        yield network.send(0, 1, 1e9) & network.send(2, 3, 2e9)
        assert env.now == 2.0
        result = yield (message := network.send(0, 1, 100e9)) | env.timeout(1.0, "late")
        assert list(result.values()) == ["late"]
        network.cancel(message)
        yield network.send(0, 1, 1e9)

    env.process(main())
    env.run()
    assert env.now == 4.0


def test_run_stops_where_it_is_told_and_a_receive_waits_for_its_tag() -> None:
    env = environment()
    env.network.send(0, 1, 1e9, "first")
    env.network.send(0, 2, 3e9, "second")
    env.run(until=1.0)
    assert env.now == env.network.backend.now == 1.0
    env.run(until=env.network.receive(0, 1, "first"))
    assert env.now == 2.0
    env.run(until=env.network.receive(0, 2, "second"))
    assert env.now == 4.0
    env.run(until=5.0)
    assert env.now == env.network.backend.now == 5.0


def test_at_one_moment_processes_come_first() -> None:
    env = environment()
    order = []

    def sender(number: int) -> Process:
        yield env.timeout(1.0)
        order.append(number)
        yield env.network.send(number, 3, 1e9)

    for number in range(3):
        env.process(sender(number))
    env.run(until=2.0)
    assert order == [0, 1, 2]
    assert env.network.backend.statistics()["solves"] == 1  # for all three


def test_flows_that_cannot_move_are_a_deadlock_and_a_server_is_not() -> None:
    env = Environment(mesh(1, 2))

    def server() -> Process:
        while True:
            yield env.network.receive(0, 1, "request")

    env.process(server())
    env.network.send(0, 1, 1e9, "request")
    env.run()
    assert env.now == 1.0
    env.network.send(0, 1, 1e9)
    env.network.backend.fail_link("npu0->npu1")
    with pytest.raises(DeadlockError, match="no event is left, but these cannot move: send"):
        env.run()


def test_it_needs_a_network_and_begins_where_that_is() -> None:
    with pytest.raises(InputError, match="backend: None is not a network"):
        Environment(None)  # type: ignore[arg-type]
    backend = mesh(1, 2)
    backend.advance(2.0)
    env = Environment(backend)
    assert env.now == 2.0
    env.run(until=env.network.send(0, 1, 1e9))
    assert env.now == 3.0
