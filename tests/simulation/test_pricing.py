"""What a transport adds: closed forms at every fidelity, tiers, messages, and answers that cannot be used."""

import math
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import evolve, field, frozen
from kit import changed
from small import Admitting, deciding, joined, no_trees, started

from fredfw import Call, CollectiveRequest, Costs, Fabric, Framework, MultipathRouter, Transport
from fredfw.collectives import Pattern, ring_schedule
from fredfw.embed import NetworkBackend
from fredfw.errors import InputError, PluginError, UnsupportedError
from fredfw.fabric import IdealTransport, Start
from fredfw.fidelities import SIMULATED
from fredfw.simulation import FlowNetwork
from fredfw.testing.fabrics import star

FRAMEWORK = Framework()
SIZE = 8e6


@frozen
class Fixed(Transport):
    """Costs the same for all calls, and remembers them."""

    name: ClassVar[str] = "fixed"

    answer: Any = field(factory=Costs)
    calls: list[Call] = field(factory=list)

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        self.calls.append(call)
        answer: Costs = self.answer
        return answer


def ring(n: int, transport: Transport, bandwidth: float = 100e9, latency: float = 1e-6) -> Fabric:
    """Return a ring whose links go one way, so that a ring all-reduce meets nobody."""
    fabric = joined([(here, (here + 1) % n) for here in range(n)], bandwidth, latency)
    return fabric.with_defaults(transport=transport)


def cluster(transport: Transport) -> Fabric:
    """Return 2 servers of 2: a link inside at 100 GB/s, one between equal numbers at 10 GB/s, both ways."""
    inside, between, tiers = [(0, 1), (1, 0), (2, 3), (3, 2)], [(0, 2), (2, 0), (1, 3), (3, 1)], np.repeat([0, 1], 4)
    fabric = joined([*inside, *between], np.where(tiers, 10e9, 100e9), 1e-6)
    return evolve(fabric, tiers=tiers).with_defaults(transport=transport)


def seconds(fabric: Fabric, pattern: str = "all-reduce", algorithm: str = "ring", **given: Any) -> float:
    return FRAMEWORK.simulate_collective(fabric, pattern, size=SIZE, algorithm=algorithm, **given).duration


PART, LATENCY = SIZE / 5 / 100e9, 2e-6


@pytest.mark.parametrize(
    ("pattern", "algorithm", "costs", "expected"),
    [
        # A ring has four steps that reduce and four that do not.
        (
            *("all-reduce", "ring", Costs(launch=7e-6, step=2e-6, message=0.5e-6, efficiency=0.8)),
            7e-6 + 8 * (2.5e-6 + PART / 0.8 + LATENCY),
        ),
        ("all-reduce", "ring", Costs(cap=20e9), 8 * (5 * PART + LATENCY)),
        ("all-reduce", "ring", Costs(reduction=20e9), 4 * (PART + LATENCY) + 4 * (5 * PART + LATENCY)),
        # Each of 5 sends 4 messages in one step, or one root 4 to the others.
        ("all-to-all", "direct", Costs(message=3e-6), LATENCY + 4 * PART + 4 * 3e-6),
        ("broadcast", "direct", Costs(message=3e-6), LATENCY + 4 * SIZE / 100e9 + 4 * 3e-6),
        # Four buffers come to the root at once, 10 GB/s each; its link has 100 GB/s.
        ("reduce", "direct", Costs(reduction=40e9), LATENCY + SIZE / 10e9),
    ],
)
@pytest.mark.parametrize("fidelity", SIMULATED)
def test_closed_forms_on_a_switch(pattern: str, algorithm: str, costs: Costs, expected: float, fidelity: str) -> None:
    fabric = star(5).with_defaults(transport=Fixed(costs))
    assert seconds(fabric, pattern, algorithm, fidelity=fidelity) == pytest.approx(expected, rel=1e-12)


def test_costs_differ_by_tier_and_the_outermost_counts() -> None:
    transport = Fixed(Costs(step=(1e-6, 5e-6), efficiency=(0.5, 0.25), cap=(math.inf, 2e9)))
    fabric = cluster(transport)
    assert fabric.servers[0] == fabric.servers[1] != fabric.servers[2] == fabric.servers[3]
    near = seconds(fabric, "point-to-point", "direct", group=[0, 1])
    far = seconds(fabric, "point-to-point", "direct", group=[0, 2])
    assert near == pytest.approx(2e-6 + SIZE / 50e9, rel=1e-12)
    assert far == pytest.approx(6e-6 + SIZE / 2e9, rel=1e-12)  # 2.5 GB/s by efficiency
    assert [(one.ranks, one.nodes) for one in transport.calls] == [(2, 1), (2, 2)]


def test_a_call_says_what_is_done_and_bytes_on_links_are_those_on_the_wire() -> None:
    transport = Fixed(Costs(efficiency=0.8))
    fabric = ring(4, transport)
    for size in (SIZE, 2 * SIZE, SIZE):
        result = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=size, algorithm="ring")
    # Six steps, each with a quarter of the buffer.
    assert result.link_bytes == pytest.approx(6 * SIZE / 4 / 0.8)
    calls = [Call("all-reduce", "ring", 4, size, 1, 6, (6 * size / 4,) * 2) for size in (SIZE, 2 * SIZE)]
    assert transport.calls == calls


def test_auto_chooses_among_what_the_library_has() -> None:
    def library(names: Any) -> Transport:
        return changed(Fixed, algorithms=lambda self, pattern: names if pattern == "all-reduce" else None)

    result = FRAMEWORK.simulate_collective(ring(4, library(("ring",))), "all-reduce", size="1 KB")
    assert all(name.startswith("ring") for name in (result.algorithm, *result.candidates))
    for wrong in ("ring", 3, [None]):
        with pytest.raises(PluginError, match=r"algorithms\(\).*a sequence of names, or None"):
            FRAMEWORK.simulate_collective(ring(4, library(wrong)), "all-reduce", size="1 KB")


def test_whether_transfers_wait_for_their_receivers_is_true_or_false() -> None:
    with pytest.raises(PluginError, match=r"rendezvous.*'sometimes'.*True or False"):
        seconds(ring(4, changed(Fixed, rendezvous="sometimes")), fidelity="exact")


def test_few_steps_are_fastest_where_steps_cost() -> None:
    fabric = star(8).with_defaults(transport=Fixed(Costs(step=1.0)))
    assert FRAMEWORK.simulate_collective(fabric, "all-gather", size=SIZE).steps == 1


def test_messages_of_an_embedding_program_cost_too() -> None:
    transport = Fixed(Costs(launch=5e-6, step=2e-6, message=1e-6, efficiency=0.5))
    network, done = NetworkBackend(cluster(transport)), list[float]()
    for source, destination, size in ((0, 1, SIZE), (3, 2, 0), (2, 2, SIZE)):
        network.send(source, destination, size, on_complete=lambda: done.append(network.now))
    network.cancel(network.send(1, 0, SIZE))
    network.run_until_idle()
    wait = 5e-6 + 2e-6 + 1e-6 + 1e-6
    assert done == pytest.approx([5e-6, wait, wait + SIZE / 50e9], rel=1e-9)
    assert network.link_bytes()["send"][0] == pytest.approx(2 * SIZE)
    assert {call.nodes for call in transport.calls} == {1}


def test_a_message_over_several_paths_is_between_the_servers_of_its_ends() -> None:
    transport = Fixed()
    fabric = FRAMEWORK.topology("cluster", preset="dgx-a100", nodes=4, network="fat-tree", radix=8).build()
    network = NetworkBackend(fabric.with_defaults(transport=transport, router=MultipathRouter()))
    for destination in (7, 8, 31):
        network.send(0, destination, SIZE + destination)
    assert [call.nodes for call in transport.calls] == [1, 2, 2]


def test_collectives_of_an_embedding_program_cost_what_others_do() -> None:
    fabric, done = ring(4, Fixed(Costs(launch=5e-6, step=2e-6))), list[float]()
    network = NetworkBackend(fabric)
    request = CollectiveRequest(Pattern.ALL_REDUCE, 4, SIZE)
    network.collective(request, lambda: done.append(network.now), algorithm="ring")
    network.cancel(network.collective(request, algorithm="ring"))  # while it is launched
    network.run_until_idle()
    assert done == [pytest.approx(seconds(fabric), rel=1e-12)]


def test_a_schedule_that_nobody_has_planned_is_refused() -> None:
    schedule = ring_schedule(Pattern.ALL_REDUCE, SIZE, np.arange(4)[:, None])
    started(FlowNetwork(ring(4, IdealTransport())), schedule, np.arange(4)[None])
    with pytest.raises(InputError, match="transport 'fixed' cannot tell what a schedule costs"):
        started(FlowNetwork(ring(4, Fixed())), schedule, np.arange(4)[None])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "returned None; expected fredfw.Costs"),
        (Costs(launch=-1.0), "returned launch -1.0; expected seconds, finite and not negative"),
        (Costs(step=math.inf), "returned step inf"),
        (Costs(step=(1.0, 2.0)), "returned step .*; expected one number, or 1, one for each tier"),
        (Costs(efficiency=0.0), "returned efficiency 0.0; expected a number above 0"),
        (Costs(efficiency=1.5), "returned efficiency 1.5; expected above 0, and at most 1"),
        (Costs(cap=math.nan), "returned cap nan"),
        (Costs(reduction="fast"), "returned reduction 'fast'"),  # type: ignore[arg-type]  # that is the point
        (Costs(launch=(1.0,)), "returned launch"),  # type: ignore[arg-type]  # likewise
    ],
)
def test_wrong_costs_are_refused(answer: Any, message: str) -> None:
    with pytest.raises(PluginError, match=rf"Fixed\.costs\(\).* {message}"):
        seconds(ring(4, Fixed(answer)))


def test_costs_that_are_nothing_leave_every_bit_as_it_is() -> None:
    assert Costs().free
    assert Costs(launch=1.0, step=(0.0, 0.0), efficiency=(1.0,)).free
    assert not Costs(step=(0.0, 1.0)).free
    for algorithm in ("ring", "direct"):
        plain = seconds(star(6), algorithm=algorithm)
        assert seconds(star(6).with_defaults(transport=Fixed()), algorithm=algorithm) == plain


@pytest.mark.parametrize("fidelity", SIMULATED)
def test_what_is_set_up_once_is_paid_once_for_a_phase(fidelity: str) -> None:
    plain = ring(8, IdealTransport())
    set_up = Admitting(deciding(lambda *_: Start(20e-6, setup_once=True)))
    expected = pytest.approx(seconds(plain) + 2 * 20e-6, rel=1e-12)
    assert seconds(plain.with_defaults(admission=set_up), fidelity=fidelity) == expected


def test_unicasts_in_place_of_an_all_reduce_in_the_network_pay_for_both_steps() -> None:
    def taken(transport: Transport) -> float:
        fabric = star(4).with_defaults(transport=transport, admission=Admitting(no_trees))
        return seconds(fabric, algorithm="in-network")

    assert taken(Fixed(Costs(step=3e-6))) == pytest.approx(taken(IdealTransport()) + 2 * 3e-6, rel=1e-9)


def test_calls_that_a_transport_refuses_name_the_slot() -> None:
    class Refusing(Fixed):
        def costs(self, call: Call, fabric: Fabric) -> Costs:
            raise UnsupportedError("no such calls", accepted="others")

    with pytest.raises(UnsupportedError, match=r"^transport: no such calls"):
        seconds(ring(4, Refusing()))
