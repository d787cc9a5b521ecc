from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from fredfw import CollectiveRequest, Fabric, FlowSet, Framework, Pattern, Routes, ShortestPathRouter
from fredfw.embed import NetworkBackend
from fredfw.errors import RefusedError
from fredfw.simulation import FlowNetwork, MaxMin
from fredfw.typing import FloatArray, IntArray
from fredfw_topology_optical_ring import OpticalRing
from fredfw_topology_optical_ring.circuits import Circuits
from fredfw_topology_optical_ring.spectrum import Assignment, Spectrum

RATE, SETUP = 5e9, 25e-6  # 40 Gbps and 25 us, the defaults
VOLUME = 1e6
STEP = VOLUME / RATE + SETUP

Pairs = Sequence[tuple[int, int]]


def ring(npus: int, **fields: Any) -> Fabric:
    return OpticalRing(npus=npus, **fields).build()


def routes(fabric: Fabric, pairs: Pairs) -> Routes:
    sources, destinations = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    return fabric.defaults.router.route(fabric, sources, destinations)


def flow_set(fabric: Fabric, pairs: Pairs, **fields: Any) -> FlowSet:
    count = len(pairs)
    volumes = fields.pop("volumes", np.full(count, VOLUME))
    return FlowSet(routes(fabric, pairs), volumes, np.arange(count), count, label="dp", **fields)


def needed(fabric: Fabric, pairs: Pairs) -> int:
    return Circuits(routes(fabric, pairs), len(fabric.npus)).most_colours


def all_to_all(members: Sequence[int]) -> Pairs:
    return [(one, other) for one in members for other in members if one != other]


def spaced(count: int, distance: int = 3) -> Pairs:
    return all_to_all(range(0, count * distance, distance))


class Run:
    """Flow sets that start at given times, and when each of their activities ended."""

    def __init__(self, fabric: Fabric, *starts: tuple[float, FlowSet]) -> None:
        self.network = FlowNetwork(fabric, MaxMin())
        self.ends = [np.zeros(flows.activities) for _, flows in starts]
        for (time, flows), ends in zip(starts, self.ends, strict=True):
            self.network.schedule(time, lambda flows=flows, ends=ends: self._start(flows, ends))  # type: ignore[misc]  # defaults bind
        self.network.advance()
        assert self.network.idle

    def _start(self, flows: FlowSet, ends: FloatArray) -> None:
        def ended(activities: IntArray) -> None:
            ends[activities] = self.network.now

        self.network.start(flows, ended)

    @property
    def last(self) -> list[float]:
        return [float(ends.max()) for ends in self.ends]

    def figure(self, name: str) -> float:
        return self.network.admission.figures()[name]


# --- how many wavelengths


@pytest.mark.parametrize("count", range(2, 10))
def test_an_all_to_all_needs_an_eighth_of_the_square(count: int) -> None:
    # The arcs of all distances below m / 2, and half of those of m / 2, in each direction: (m^2 - 1) / 8 on every link
    # for odd m, m^2 / 8 on average for even m.
    expected = (count**2 - 1) // 8 if count % 2 else -(-(count**2) // 8)
    assert needed(ring(3 * count), spaced(count)) == expected


def test_ties_that_do_not_alternate_need_more() -> None:
    # All eight of them clockwise: 1 + 2 + 3 + 4 circuits on every clockwise link (the facts of WRHT).
    fabric = ring(8)
    pairs = [(one, (one + distance) % 8) for one in range(8) for distance in (1, 2, 3)]
    opposite = [routes(fabric, [(one, (one + 4) % 8)]) for one in range(8)]  # routed alone each is the first
    together = Routes.concatenate([routes(fabric, pairs), *opposite])
    assert Circuits(together, 8).most_colours == 10


@pytest.mark.parametrize("wavelengths", [1, 2, 4, 16])
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_a_gather_to_the_middle_uses_each_wavelength_in_every_group(wavelengths: int, groups: int) -> None:
    # WRHT (Dai et al.): groups of 2w + 1, w members on each side.
    size = 2 * wavelengths + 1
    pairs = [
        (first + member, first + wavelengths)
        for first in range(0, groups * size, size)
        for member in range(size)
        if member != wavelengths
    ]
    # With two more NPUs, for the outermost of a single group not to be nearer the other way round.
    assert needed(ring(groups * size + 2), pairs) == wavelengths


@pytest.mark.parametrize("npus", [2, 3, 4, 9])
def test_neighbours_need_one(npus: int) -> None:
    assert needed(ring(npus), [(one, (one + 1) % npus) for one in range(npus)]) == 1


def check_disjoint(nodes: int, running: Sequence[Assignment]) -> None:
    seen: set[tuple[int, int]] = set()
    for one in running:
        for circuit, flow in enumerate(one.circuits.flows):
            part = one.circuits.routes
            for link in part.links[part.offsets[flow] : part.offsets[flow + 1]]:
                for lane in one.lanes[circuit].tolist():
                    assert (int(link), lane) not in seen
                    seen.add((int(link), lane))


@given(st.data(), st.integers(2, 9), st.integers(1, 5), st.booleans())
def test_no_two_circuits_share_a_link_and_a_wavelength(
    data: st.DataObject, nodes: int, lanes: int, stripe: bool
) -> None:
    fabric, spectrum = ring(nodes), Spectrum(nodes, lanes)
    node = st.integers(0, nodes - 1)
    pairs = st.lists(st.tuples(node, node), min_size=1, max_size=6)
    running: list[Assignment] = []
    for _ in range(data.draw(st.integers(1, 8))):
        ends = data.draw(st.booleans())
        if ends and running:
            spectrum.free(running.pop(data.draw(st.integers(0, len(running) - 1))))
            continue
        circuits = Circuits(routes(fabric, data.draw(pairs)), nodes)
        if not len(circuits) or circuits.most_colours > lanes:
            continue
        assignment = spectrum.find(circuits, stripe=stripe)
        if assignment is not None:
            spectrum.take(assignment)
            running.append(assignment)
            check_disjoint(nodes, running)
            assert spectrum.used == max(
                len({int(one) for a in running for one in a.lanes[a.circuits.direction == way].ravel()})
                for way in (0, 1)
            )
        else:
            assert running


# --- too few wavelengths


@pytest.mark.parametrize(("wavelengths", "steps"), [(8, 1), (7, 2), (4, 2), (3, 3), (1, 8)])
@pytest.mark.parametrize("pay", ["every-step", "on-change"])
def test_sub_steps_follow_each_other_and_pay_each(wavelengths: int, steps: int, pay: str) -> None:
    fabric = ring(8, wavelengths=wavelengths, pay=pay)
    run = Run(fabric, (0.0, flow_set(fabric, all_to_all(range(8)))))
    assert run.last == pytest.approx([steps * STEP], rel=1e-12)
    assert run.figure("sub-steps added by splitting") == steps - 1
    assert run.figure("reconfigurations") == steps
    # In equal parts, give or take one.
    assert run.figure("wavelengths used") == run.figure("largest link load") == -(-8 // steps)
    notes = run.network.admission.notes()
    if steps == 1:
        assert notes == ()
    else:
        assert notes == (
            "1 set of circuits ran in sub-steps, the first because it needs 8 wavelengths (largest link load 8), there "
            f"are {wavelengths} in each direction: {steps} sub-steps",
        )


def test_parts_hold_each_flow_once_and_need_no_more_than_there_are() -> None:
    fabric = ring(30, wavelengths=7)
    drawn = np.random.default_rng(3).integers(0, 30, (200, 2)).tolist()
    flows = flow_set(fabric, [tuple(pair) for pair in drawn])
    whole = Circuits(flows.routes, 30)
    parts = fabric.defaults.admission.parts(flows.routes)  # type: ignore[attr-defined]  # that of this topology
    assert len(parts) == -(-whole.most_colours // 7)
    assert sorted(np.concatenate(parts).tolist()) == list(range(200))
    for part in parts:
        circuits = fabric.defaults.admission.circuits(flows.routes.select(part))  # type: ignore[attr-defined]  # likewise
        assert circuits.most_colours <= 7
        assignment = Spectrum(30, 7).find(circuits, stripe=False)
        assert assignment is not None
        check_disjoint(30, [assignment])


def test_a_repetition_takes_turns_with_the_other_sub_steps() -> None:
    fabric = ring(8, wavelengths=1, pay="on-change")
    run = Run(fabric, (0.0, flow_set(fabric, [(0, 2), (1, 3)], repeat=3)))
    assert run.last == pytest.approx([3 * 2 * STEP], rel=1e-12)
    assert run.figure("sub-steps added by splitting") == 3
    assert run.figure("reconfigurations") == 6


def test_a_shortage_may_be_refused() -> None:
    fabric = ring(8, wavelengths=7, shortage="refuse")
    with pytest.raises(RefusedError, match=r"refuses dp: needs 8 wavelengths \(largest link load 8\), there are 7"):
        Run(fabric, (0.0, flow_set(fabric, all_to_all(range(8)))))


# --- side by side


def test_what_finds_too_few_waits() -> None:
    fabric = ring(8, wavelengths=1)
    first, second = flow_set(fabric, [(0, 3)]), flow_set(fabric, [(2, 5)])
    run = Run(fabric, (0.0, first), (0.0, second))
    assert run.last == pytest.approx([STEP, 2 * STEP], rel=1e-12)
    assert run.network.statistics.waits == 1
    assert run.figure("largest link load") == 1


@pytest.mark.parametrize(
    ("wavelengths", "other"),
    # Enough for both; arcs that do not meet; the other direction.
    [(2, (2, 5)), (1, (3, 5)), (1, (3, 0))],
)
def test_others_run_beside(wavelengths: int, other: tuple[int, int]) -> None:
    fabric = ring(8, wavelengths=wavelengths)
    run = Run(fabric, (0.0, flow_set(fabric, [(0, 3)])), (0.0, flow_set(fabric, [other])))
    assert run.last == pytest.approx([STEP, STEP], rel=1e-12)
    assert run.network.statistics.waits == 0
    assert run.figure("wavelengths used") == run.figure("largest link load") == wavelengths


def test_waveguides_add_wavelengths() -> None:
    fabric = ring(8, wavelengths=1, waveguides=2)
    run = Run(fabric, (0.0, flow_set(fabric, [(0, 3)])), (0.0, flow_set(fabric, [(2, 5)])))
    assert run.last == pytest.approx([STEP, STEP], rel=1e-12)


def test_each_circuit_takes_what_is_free_on_its_own_arc() -> None:
    # When the short one has ended, the first wavelength is free on link 3, and the second on link 0.
    fabric = ring(8, wavelengths=2)
    short, long = flow_set(fabric, [(3, 4)], volumes=np.array([VOLUME / 2])), flow_set(fabric, [(3, 4)])
    other, both = flow_set(fabric, [(0, 1)]), flow_set(fabric, [(3, 4), (0, 1)])
    half = VOLUME / RATE / 2 + SETUP
    run = Run(fabric, (0.0, short), (0.0, long), (0.0, other), (half * 1.01, both))
    assert run.last == pytest.approx([half, STEP, STEP, half * 1.01 + STEP], rel=1e-12)
    assert run.network.statistics.waits == 0


def test_the_same_flow_set_may_run_twice_at_once() -> None:
    fabric = ring(8, wavelengths=2)
    flows = flow_set(fabric, [(0, 3)])
    run = Run(fabric, (0.0, flows), (0.0, flows), (0.0, flows))
    assert run.last == pytest.approx([STEP, STEP, 2 * STEP], rel=1e-12)


def test_transfers_to_oneself_need_nothing() -> None:
    fabric = ring(4, wavelengths=1)
    run = Run(fabric, (0.0, flow_set(fabric, [(1, 1), (2, 2)])), (0.0, flow_set(fabric, [(3, 3), (0, 1)])))
    assert run.ends[0].tolist() == [0.0, 0.0]
    assert run.ends[1] == pytest.approx([SETUP, STEP], rel=1e-12)
    assert run.figure("reconfigurations") == 1


def test_limits_of_the_flows_hold_as_well() -> None:
    fabric = ring(4)
    run = Run(fabric, (0.0, flow_set(fabric, [(0, 1), (2, 3)], caps=np.array([RATE / 4, RATE * 4]))))
    assert run.ends[0] == pytest.approx([4 * VOLUME / RATE + SETUP, STEP], rel=1e-12)


# --- stripes


@pytest.mark.parametrize(("wavelengths", "stripes"), [(8, 1), (15, 1), (16, 2), (64, 8)])
def test_wavelengths_that_are_left_over_are_given_to_all(wavelengths: int, stripes: int) -> None:
    fabric = ring(8, wavelengths=wavelengths, stripe=True)
    run = Run(fabric, (0.0, flow_set(fabric, all_to_all(range(8)))))
    assert run.last == pytest.approx([VOLUME / RATE / stripes + SETUP], rel=1e-12)
    assert run.figure("wavelengths used") == 8 * stripes
    assert run.figure("largest link load") == 8


def test_who_comes_first_takes_all_stripes() -> None:
    fabric = ring(8, wavelengths=4, stripe=True)
    run = Run(fabric, (0.0, flow_set(fabric, [(0, 3)])), (0.0, flow_set(fabric, [(2, 5)])))
    fast = VOLUME / RATE / 4 + SETUP
    assert run.last == pytest.approx([fast, 2 * fast], rel=1e-12)


# --- reconfigurations


def test_every_step_pays_although_nothing_changes() -> None:
    fabric = ring(8)
    flows = flow_set(fabric, [(0, 3)], repeat=4)
    run = Run(fabric, (0.0, flows), (1.0, flows))
    assert run.last == pytest.approx([4 * STEP, 1.0 + 4 * STEP], rel=1e-12)
    assert run.figure("reconfigurations") == 8


def test_on_change_the_same_arcs_are_set_up_once() -> None:
    fabric = ring(8, pay="on-change")
    pairs = [(0, 3), (5, 4)]
    run = Run(fabric, (0.0, flow_set(fabric, pairs, repeat=4)), (1.0, flow_set(fabric, pairs[::-1])))
    assert run.last == pytest.approx([4 * VOLUME / RATE + SETUP, 1.0 + VOLUME / RATE], rel=1e-12)
    assert run.figure("reconfigurations") == 1


@pytest.mark.parametrize(
    ("between", "paid"),
    # Not in the way; on the same wavelength of a link; the same with more, so not the same.
    [([(4, 6)], 2), ([(2, 4)], 3), ([(0, 3), (4, 6)], 3)],
)
def test_on_change_circuits_stay_until_a_wavelength_is_taken(between: Pairs, paid: int) -> None:
    fabric = ring(8, pay="on-change")
    flows = flow_set(fabric, [(0, 3)])
    run = Run(fabric, (0.0, flows), (1.0, flow_set(fabric, between)), (2.0, flows))
    assert run.figure("reconfigurations") == paid
    assert run.last[2] == pytest.approx(2.0 + VOLUME / RATE + (SETUP if paid == 3 else 0), rel=1e-12)


def test_on_change_circuits_in_use_serve_nobody_else() -> None:
    fabric = ring(8, pay="on-change")
    flows = flow_set(fabric, [(0, 3)])
    run = Run(fabric, (0.0, flows), (0.0, flows))
    assert run.last == pytest.approx([STEP, STEP], rel=1e-12)
    assert run.figure("reconfigurations") == run.figure("wavelengths used") == 2


# --- how far


def test_an_arc_beyond_the_budget_is_refused() -> None:
    # Arcs of h hops pass h - 1 nodes: 2 dB + (h - 1) 1 dB + h 0.1 dB of at most 5.5 dB, so 4 hops at most.
    fields = {"laser_power": 2.5, "receiver_sensitivity": -3.0, "coupler_loss": 1.5, "drop_loss": 0.5}
    fields |= {"node_loss": 1.0, "fibre_loss": 0.2, "node_spacing": 500.0}
    fabric = ring(10, **fields)
    run = Run(fabric, (0.0, flow_set(fabric, [(1, 5), (9, 1)])))
    assert run.figure("longest arc (hops)") == 4
    assert run.figure("loss margin (dB)") == pytest.approx(0.1, abs=1e-9)
    with pytest.raises(RefusedError) as caught:
        Run(fabric, (0.0, flow_set(fabric, [(9, 1), (2, 7)])))
    assert str(caught.value) == (
        f"fabric {fabric.name!r} refuses dp: the arc from NPU 2 to NPU 7, 5 hops clockwise, loses 6.5 dB, and the loss "
        "budget is 5.5 dB"
    )
    with pytest.raises(RefusedError, match="from NPU 7 to NPU 2, 5 hops counter-clockwise"):
        Run(fabric, (0.0, flow_set(fabric, [(7, 2), (2, 7)])))


def test_a_budget_that_just_suffices_does() -> None:
    fabric = ring(8, laser_power=0.3, receiver_sensitivity=0.0, node_loss=0.1)
    run = Run(fabric, (0.0, flow_set(fabric, [(0, 4)])))
    assert run.figure("loss margin (dB)") == pytest.approx(0.0, abs=1e-9)


def test_without_a_budget_there_is_no_margin() -> None:
    fabric = ring(8)
    assert "loss margin (dB)" not in Run(fabric, (0.0, flow_set(fabric, [(0, 4)]))).network.admission.figures()


# --- other routers


def test_other_routers_may_be_used_if_their_routes_follow_the_ring() -> None:
    fabric = ring(8).with_defaults(router=ShortestPathRouter())
    run = Run(fabric, (0.0, flow_set(fabric, all_to_all(range(8)))))
    assert run.last == pytest.approx([STEP], rel=1e-12)


@pytest.mark.parametrize(
    "other",
    [
        lambda one: evolve(one, links=one.links[::-1].copy()),  # backwards
        lambda one: evolve(one, coefficients=np.full(len(one.links), 0.5)),  # sprayed
        lambda one: evolve(one, offsets=np.array([0, 8]), links=np.arange(8)),  # all the way round
        lambda one: evolve(one, offsets=np.array([0, 16]), links=np.arange(16)),  # and back
    ],
)
def test_what_is_no_arc_is_refused(other: Any) -> None:
    fabric = ring(8)
    flows = flow_set(fabric, [(0, 3)])
    with pytest.raises(RefusedError, match="does not follow the ring from node to node; use the shortest-arc router"):
        Run(fabric, (0.0, evolve(flows, routes=other(flows.routes))))


# --- whole collectives


@pytest.mark.parametrize("npus", [2, 3, 33])
@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
@pytest.mark.parametrize(("pay", "stripe"), [("every-step", False), ("on-change", False), ("every-step", True)])
def test_a_ring_all_reduce_takes_the_time_of_the_closed_form(npus: int, fidelity: str, pay: str, stripe: bool) -> None:
    framework, size = Framework(), 1e8
    delays = {"hop_latency": "10 ns", "oeo_latency": "100 ns"}
    fabric = framework.topology("optical-ring", npus=npus, pay=pay, stripe=stripe, **delays).build()
    result = framework.simulate_collective(fabric, "all-reduce", size=size, algorithm="ring", fidelity=fidelity)
    steps, rate = 2 * (npus - 1), RATE * (64 if stripe else 1)
    setups = steps if pay == "every-step" else 1
    assert result.duration == pytest.approx(steps * (size / npus / rate + 110e-9) + setups * SETUP, rel=1e-12)
    assert result.figures == {
        "wavelengths used": 64.0 if stripe else 1.0,
        "largest link load": 1.0,
        "longest arc (hops)": 1.0,
        "reconfigurations": setups,
        "sub-steps added by splitting": 0.0,
    }


@pytest.mark.parametrize("npus", [2, 3, 7, 8])
@pytest.mark.parametrize("wavelengths", [64, 4])
def test_a_direct_all_reduce_takes_the_time_of_the_closed_form(npus: int, wavelengths: int) -> None:
    # All pairs at once, twice.
    framework, size = Framework(), 1e8
    parts = -(-(npus**2 // 8) // wavelengths) or 1
    for pay, setups in (("every-step", 2 * parts), ("on-change", 2 * parts if parts > 1 else 1)):
        fabric = framework.topology("optical-ring", npus=npus, wavelengths=wavelengths, pay=pay).build()
        result = framework.simulate_collective(fabric, "all-reduce", size=size, algorithm="direct")
        assert result.duration == pytest.approx(2 * parts * size / npus / RATE + setups * SETUP, rel=1e-12)
        assert result.figures["sub-steps added by splitting"] == 2 * (parts - 1)


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
def test_a_link_that_slows_down_finds_the_repetition_that_runs_then(fidelity: str) -> None:
    fabric = Framework().topology("optical-ring").build()
    network = NetworkBackend(fabric, fidelity=fidelity)
    ends: list[float] = []
    request = CollectiveRequest(Pattern.ALL_REDUCE, 64, 1e6)
    network.collective(request, lambda: ends.append(network.now), algorithm="ring")
    # 126 steps, each set up in 25 us and then 15,625 bytes over a wavelength of 5 GB/s: 28.125 us.
    network.advance(0.8 * 126 * 28.125e-6)
    carried = network.link_bytes()["all-reduce"]
    # In the 101st step, 22.5 us after its beginning, nothing has drained yet.
    assert carried.max() == pytest.approx(100 * 15_625, rel=1e-9)
    network.set_bandwidth(int(carried.argmax()), 0.05e9)
    network.run_until_idle()
    # A hundred steps as ever, and 26 that take 25 + 312.5 us.
    assert ends == [pytest.approx(100 * 28.125e-6 + 26 * 337.5e-6, rel=1e-9)]
