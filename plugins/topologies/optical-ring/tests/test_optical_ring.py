import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import evolve
from fabrics import Run, everybody
from hypothesis import given, strategies as st

import fredfw_topology_optical_ring
from fredfw import Fabric, FlowSet, Framework, Level, Operation, Routes, ShortestPathRouter
from fredfw.errors import InputError, RefusedError, UnsupportedError
from fredfw.testing import AdmissionTests, RouterTests, TopologyTests
from fredfw_topology_optical_ring import OpticalRing, ShortestArcRouter
from fredfw_topology_optical_ring.circuits import Circuits, colour_arcs, loads
from fredfw_topology_optical_ring.wavelengths import Assignment, Spectrum

RATE, SETUP = 5e9, 25e-6  # 40 Gbps and 25 us, the defaults
VOLUME = 1e6
STEP = VOLUME / RATE + SETUP

Pairs = Sequence[tuple[int, int]]


def ring(npus: int, **fields: Any) -> Fabric:
    return OpticalRing(npus=npus, **fields).build()


def routes(fabric: Fabric, pairs: Pairs) -> Routes:
    return fabric.defaults.router.route(fabric, *np.array(pairs, dtype=np.intp).reshape(-1, 2).T)


def flow_set(fabric: Fabric, pairs: Pairs, **fields: Any) -> FlowSet:
    count = len(pairs)
    volumes = fields.pop("volumes", np.full(count, VOLUME))
    return FlowSet(routes(fabric, pairs), volumes, np.arange(count), count, label="dp", **fields)


def needed(fabric: Fabric, pairs: Pairs) -> int:
    return Circuits(routes(fabric, pairs), len(fabric.npus)).most_colours


def figures(run: Run) -> dict[str, float]:
    return {**run.told[0], "waits": run.decisions[0]}


def all_to_all(members: Sequence[int]) -> Pairs:
    return [(one, other) for one in members for other in members if one != other]


@pytest.mark.parametrize("count", range(2, 10))
def test_an_all_to_all_needs_an_eighth_of_the_square(count: int) -> None:
    # The arcs of all distances below m / 2, and half of those of m / 2, in each direction: (m^2 - 1) / 8 on every link
    # for odd m, m^2 / 8 on average for even m.
    expected = (count**2 - 1) // 8 if count % 2 else -(-(count**2) // 8)
    assert needed(ring(3 * count), all_to_all(range(0, 3 * count, 3))) == expected


def test_ties_that_do_not_alternate_need_more_and_nothing_needs_no_colour() -> None:
    # All eight of them clockwise: 1 + 2 + 3 + 4 circuits on every clockwise link (the facts of WRHT).
    fabric = ring(8)
    pairs = [(one, (one + distance) % 8) for one in range(8) for distance in (1, 2, 3)]
    opposite = [routes(fabric, [(one, (one + 4) % 8)]) for one in range(8)]  # routed alone each is the first
    together = Routes.concatenate([routes(fabric, pairs), *opposite])
    assert Circuits(together, 8).most_colours == 10
    assert colour_arcs(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), 4).tolist() == []


@pytest.mark.parametrize("wavelengths", [1, 2, 4, 16])
def test_a_gather_to_the_middle_uses_each_wavelength_in_every_group(wavelengths: int) -> None:
    # WRHT (Dai et al.): groups of 2w + 1, w members on each side.
    size = 2 * wavelengths + 1
    pairs = [(npu, npu // size * size + wavelengths) for npu in range(5 * size)]
    assert needed(ring(5 * size), pairs) == wavelengths


def check_disjoint(running: Sequence[Assignment]) -> None:
    """No link has a wavelength twice."""
    pairs = []
    for one in running:
        lanes = np.repeat(one.lanes, one.circuits.hops, axis=0)
        pairs += [(link, lane) for link, row in zip(one.circuits.routes.links, lanes, strict=True) for lane in row]
    assert len(set(pairs)) == len(pairs)


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
        if (assignment := spectrum.find(circuits, stripe=stripe)) is None:
            assert running
            continue
        spectrum.take(assignment)
        running.append(assignment)
        check_disjoint(running)
        used = [{int(one) for a in running for one in a.lanes[a.circuits.direction == way].ravel()} for way in (0, 1)]
        assert spectrum.used == max(map(len, used))


@pytest.mark.parametrize(("wavelengths", "steps"), [(8, 1), (7, 2), (4, 2), (3, 3), (1, 8)])
@pytest.mark.parametrize("pay", ["every-step", "on-change"])
def test_sub_steps_follow_each_other_and_pay_each(wavelengths: int, steps: int, pay: str) -> None:
    fabric = ring(8, wavelengths=wavelengths, pay=pay)
    run = Run(fabric, flow_set(fabric, all_to_all(range(8))))
    assert run.last == pytest.approx([steps * STEP], rel=1e-12)
    assert figures(run)["sub-steps added by splitting"] == steps - 1
    assert figures(run)["reconfigurations"] == steps
    # In equal parts, give or take one.
    assert figures(run)["wavelengths used"] == figures(run)["largest link load"] == -(-8 // steps)
    said = (
        "1 set of circuits ran in sub-steps, the first because it needs 8 wavelengths (largest link load 8), there "
        f"are {wavelengths} in each direction: {steps} sub-steps"
    )
    assert run.told[1] == ((said,) if steps > 1 else ())


def test_a_shortage_may_be_refused_and_a_budget_just_suffice() -> None:
    fabric = ring(8, wavelengths=7, shortage="refuse")
    with pytest.raises(RefusedError, match=r"refuses dp: needs 8 wavelengths \(largest link load 8\), there are 7"):
        Run(fabric, flow_set(fabric, all_to_all(range(8))))
    fabric = ring(8, laser_power=0.3, receiver_sensitivity=0.0, node_loss=0.1)
    run = Run(fabric, flow_set(fabric, [(0, 4)]))
    assert figures(run)["loss margin (dB)"] == pytest.approx(0.0, abs=1e-9)


FAST = VOLUME / RATE / 4 + SETUP
SENT = VOLUME / RATE
EVERYBODY = all_to_all(range(8))
FIRST, OTHER, BACK, MORE = [(0, 3)], [(2, 5)], [(0, 3), (5, 4)], [(0, 3), (4, 6)]
BOTH = [(0, FIRST), (0, OTHER)]
ONE: dict[str, Any] = {"wavelengths": 1}
CHANGE, STRIPE, SIX = {"pay": "on-change"}, {"stripe": True}, {"reconfigurations": 6}


@pytest.mark.parametrize(
    ("fields", "starts", "ends", "expected"),
    [
        # What finds too few waits.
        (ONE, BOTH, [STEP, 2 * STEP], {"waits": 1, "largest link load": 1}),
        # Enough for both; arcs that do not meet; the other direction; waveguides add wavelengths.
        ({"wavelengths": 2}, BOTH, [STEP, STEP], {"waits": 0, "wavelengths used": 2}),
        (ONE, [(0, FIRST), (0, [(3, 5)])], [STEP, STEP], {"waits": 0, "largest link load": 1}),
        (ONE, [(0, FIRST), (0, [(3, 0)])], [STEP, STEP], {"waits": 0, "wavelengths used": 1}),
        ({**ONE, "waveguides": 2}, BOTH, [STEP, STEP], {"waits": 0}),
        # Repetitions take turns with the other sub-steps.
        (ONE | CHANGE, [(0, [(0, 2), (1, 3)], 3)], [6 * STEP], {"sub-steps added by splitting": 3} | SIX),
        # Wavelengths that are left over are given to all; who comes first takes all of them.
        ({**STRIPE, "wavelengths": 15}, [(0, EVERYBODY)], [SENT + SETUP], {"wavelengths used": 8}),
        ({**STRIPE, "wavelengths": 16}, [(0, EVERYBODY)], [SENT / 2 + SETUP], {"wavelengths used": 16}),
        ({**STRIPE, "wavelengths": 64}, [(0, EVERYBODY)], [SENT / 8 + SETUP], {"largest link load": 8}),
        ({**STRIPE, "wavelengths": 4}, BOTH, [FAST, 2 * FAST], {"waits": 1}),
        # Every step pays although nothing changes; on change the same arcs, in any order, are set up once.
        ({}, [(0, FIRST, 4), (1, FIRST, 4)], [4 * STEP, 1 + 4 * STEP], {"reconfigurations": 8}),
        (CHANGE, [(0, BACK, 4), (1, BACK[::-1])], [4 * SENT + SETUP, 1 + SENT], {"reconfigurations": 1}),
        # They stay while no wavelength of theirs is taken: not in the way; on the same link; the same with more.
        (CHANGE, [(0, FIRST), (1, [(4, 6)]), (2, FIRST)], [STEP, 1 + STEP, 2 + SENT], {"reconfigurations": 2}),
        (CHANGE, [(0, FIRST), (1, [(2, 4)]), (2, FIRST)], [STEP, 1 + STEP, 2 + STEP], {"reconfigurations": 3}),
        (CHANGE, [(0, FIRST), (1, MORE), (2, FIRST)], [STEP, 1 + STEP, 2 + STEP], {"reconfigurations": 3}),
        # In use they serve nobody else.
        (CHANGE, [(0, FIRST), (0, FIRST)], [STEP, STEP], {"reconfigurations": 2, "wavelengths used": 2}),
    ],
)
def test_circuits_side_by_side_and_one_after_the_other(
    fields: dict[str, Any], starts: list[Any], ends: list[float], expected: dict[str, float]
) -> None:
    fabric = ring(8, **fields)
    sets = [(time, flow_set(fabric, pairs, repeat=sum(repeat) or 1)) for time, pairs, *repeat in starts]
    run = Run(fabric, *sets)
    assert run.last == pytest.approx(ends, rel=1e-12)
    assert {name: figures(run)[name] for name in expected} == expected


def test_each_circuit_takes_what_is_free_on_its_own_arc() -> None:
    # When the short one has ended, the first wavelength is free on link 3, the second on link 0, and the third on both.
    fabric = ring(8, wavelengths=3)
    short, long = flow_set(fabric, [(3, 4)], volumes=np.array([VOLUME / 2])), flow_set(fabric, [(3, 4)])
    other, both = flow_set(fabric, [(0, 1)]), flow_set(fabric, [(3, 4), (0, 1), (3, 5)])
    half = SENT / 2 + SETUP
    run = Run(fabric, (0.0, short), (0.0, long), (0.0, other), (half * 1.01, both))
    assert run.last == pytest.approx([half, STEP, STEP, half * 1.01 + STEP], rel=1e-12)
    assert (figures(run)["waits"], figures(run)["wavelengths used"]) == (0, 3)


def test_a_flow_set_may_run_twice_at_once_and_transfers_to_oneself_need_nothing() -> None:
    fabric = ring(8, wavelengths=2)
    flows = flow_set(fabric, [(0, 3)])
    assert Run(fabric, *[(0.0, flows)] * 3).last == pytest.approx([STEP, STEP, 2 * STEP], rel=1e-12)
    fabric = ring(4, wavelengths=1)
    run = Run(fabric, flow_set(fabric, [(1, 1), (2, 2)]), flow_set(fabric, [(3, 3), (0, 1)]))
    assert run.ends[0].tolist() == [0.0, 0.0]
    assert run.ends[1] == pytest.approx([SETUP, STEP], rel=1e-12)
    assert figures(run)["reconfigurations"] == 1


def test_limits_of_the_flows_hold_and_other_routers_may_be_used_along_the_ring() -> None:
    fabric = ring(4)
    run = Run(fabric, flow_set(fabric, [(0, 1), (2, 3)], caps=np.array([RATE / 4, RATE * 4])))
    assert run.ends[0] == pytest.approx([4 * SENT + SETUP, STEP], rel=1e-12)
    fabric = ring(8).with_defaults(router=ShortestPathRouter())
    run = Run(fabric, flow_set(fabric, all_to_all(range(8))))
    assert run.last == pytest.approx([STEP], rel=1e-12)


def test_an_arc_beyond_the_budget_is_refused() -> None:
    # Arcs of h hops pass h - 1 nodes: 2 dB + (h - 1) 1 dB + h 0.1 dB of at most 5.5 dB, so 4 hops at most.
    fields = {"laser_power": 2.5, "receiver_sensitivity": -3.0, "coupler_loss": 1.5, "drop_loss": 0.5}
    fields |= {"node_loss": 1.0, "fibre_loss": 0.2, "node_spacing": 500.0}
    fabric = ring(10, **fields)
    run = Run(fabric, flow_set(fabric, [(1, 5), (9, 1)]))
    assert figures(run)["longest arc (hops)"] == 4
    assert figures(run)["loss margin (dB)"] == pytest.approx(0.1, abs=1e-9)
    said = "refuses dp: the arc from NPU 2 to NPU 7, 5 hops clockwise, loses 6.5 dB, and the loss budget is 5.5 dB"
    with pytest.raises(RefusedError, match=f"^{re.escape(f'fabric {fabric.name!r} {said}')}$"):
        Run(fabric, flow_set(fabric, [(9, 1), (2, 7)]))
    with pytest.raises(RefusedError, match="from NPU 7 to NPU 2, 5 hops counter-clockwise"):
        Run(fabric, flow_set(fabric, [(7, 2), (2, 7)]))


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


Arcs = tuple[int, list[tuple[int, int]]]


@st.composite
def arcs(draw: st.DrawFn, *, interval: bool = False) -> Arcs:
    """Length of a ring and arcs on it, as first link and hops; as intervals none goes on after the last link."""
    links = draw(st.integers(2, 24))
    start = st.integers(0, links - 1)
    one = st.tuples(start, st.integers(1, links - 1)).filter(lambda arc: not interval or sum(arc) <= links)
    return links, draw(st.lists(one, min_size=1, max_size=30))


def covers(arc: tuple[int, int], links: int) -> set[int]:
    return {(arc[0] + step) % links for step in range(arc[1])}


def coloured(links: int, listed: list[tuple[int, int]]) -> tuple[list[int], int]:
    """The colours of arcs of which those that share a link have different ones, and the largest load."""
    start, hops = np.array(listed, dtype=np.intp).T
    covered = [covers(arc, links) for arc in listed]
    load = [sum(link in one for one in covered) for link in range(links)]
    assert loads(start, hops, links).tolist() == load
    colours = colour_arcs(start, hops, links).tolist()
    pairs = itertools.combinations(zip(covered, colours, strict=True), 2)
    assert all(colour != another or one.isdisjoint(other) for (one, colour), (other, another) in pairs)
    return colours, max(load)


@given(arcs())
def test_loads_are_counted_arcs_of_one_colour_share_no_link_and_colours_are_few(drawn: Arcs) -> None:
    colours, load = coloured(*drawn)
    assert set(colours) == set(range(max(colours) + 1))
    assert load <= max(colours) + 1 <= 2 * load


@given(arcs(interval=True), st.integers(0, 23))
def test_intervals_need_no_more_than_the_largest_load(drawn: Arcs, turn: int) -> None:
    # Wherever the place is that none of them crosses.
    links, listed = drawn
    colours, load = coloured(links, [((start + turn) % links, hops) for start, hops in listed])
    assert max(colours) + 1 == load


def ends(fabric: Fabric) -> list[tuple[int, int]]:
    return list(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True))


def test_each_npu_has_a_link_to_both_sides_of_all_wavelengths() -> None:
    fabric = OpticalRing(
        npus=4, waveguides=2, wavelengths=16, line_rate=40e9, hop_latency=1.0, oeo_latency=2.0, link_energy=3.0
    ).build()
    assert ends(fabric) == [(0, 1), (1, 2), (2, 3), (3, 0), (0, 3), (1, 0), (2, 1), (3, 2)]
    assert (fabric.offers.circuits, fabric.offers.reduces, fabric.offers.multicasts) == (True, False, False)
    assert fabric.levels == (Level(4, "ring", 32 * 40e9, 3.0, two_way=True, lanes=32),)
    for per_link, value in ((fabric.bandwidths, 32 * 40e9), (fabric.latencies, 1.0), (fabric.energies, 3.0)):
        assert np.unique(per_link).tolist() == [value]


BUDGET: dict[str, Any] = {"laser_power": 0.0, "receiver_sensitivity": -3.0, "coupler_loss": 2.0}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"npus": 1}, r"npus: .* \(accepted: "),
        ({"laser_power": np.nan}, r"laser_power: .* \(accepted: "),
        ({"receiver_sensitivity": -20.0}, r"receiver_sensitivity: .* alone bounds no arc \(accepted: "),
        ({"node_loss": 0.1}, r"node_loss: .* alone bounds no arc \(accepted: "),
        # One of 1 dB is just enough.
        ({**BUDGET, "drop_loss": 1.5}, r"laser_power: .* one hop loses 3\.5 dB, laser and receiver have 3 dB between"),
    ],
)
def test_bad_input(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        OpticalRing(**fields)
    OpticalRing(**BUDGET, drop_loss=1.0)


@given(st.integers(2, 12))
def test_routes_are_the_shorter_arcs(npus: int) -> None:
    fabric = ring(npus)
    sources, destinations = everybody(fabric)
    ahead = (destinations - sources) % npus
    hops = np.diff(fabric.defaults.router.route(fabric, sources, destinations).offsets)
    assert hops.tolist() == np.minimum(ahead, npus - ahead).tolist()


def test_ties_alternate_in_order_of_their_sources() -> None:
    fabric = ring(8)
    sources = np.array([6, 1, 3, 0, 1, 2])
    routes = fabric.defaults.router.route(fabric, sources, np.array([2, 5, 4, 4, 5, 6]))
    clockwise = routes.links[routes.offsets[:-1]] < 8
    # 3 -> 4 is no tie. The others by source: 0, 1 (the first of them), 1, 2, 6.
    assert clockwise.tolist() == [True, False, True, True, True, False]


def test_two_nodes_have_two_links_each_way_and_latency_is_propagation_and_conversion() -> None:
    fabric = ring(2)
    assert ends(fabric) == [(0, 1), (1, 0)] * 2
    # Link 0 is clockwise from 0 to 1, link 3 counter-clockwise from 1 to 0.
    assert fabric.defaults.router.route(fabric, np.array([0, 1]), np.array([1, 0])).links.tolist() == [0, 3]
    assert len(fabric.defaults.router.route(fabric, fabric.npus[:0], fabric.npus[:0])) == 0
    fabric = ring(8, hop_latency=1.0, oeo_latency=10.0)
    routes = fabric.defaults.router.route(fabric, np.array([0, 0, 0]), np.array([0, 3, 7]))
    assert routes.latencies.tolist() == [0.0, 13.0, 11.0]


def test_trees_have_two_ends_and_other_fabrics_are_refused() -> None:
    fabric, root = ring(6), np.array([1])
    single = fabric.defaults.router.tree(fabric, root, np.array([5]), Operation.MULTICAST)
    assert [fabric.link_name(link) for link in single.links.tolist()] == ["npu1->npu0", "npu0->npu5"]
    with pytest.raises(UnsupportedError, match="no multicast tree from 1 to 2 nodes"):
        fabric.defaults.router.tree(fabric, root, np.array([2, 3]), Operation.MULTICAST)
    fabric = ring(4)
    other = evolve(fabric, sources=fabric.sources[::-1], destinations=fabric.destinations[::-1])
    with pytest.raises(UnsupportedError, match=r"shortest-arc router cannot route .*accepted: a ring of"):
        ShortestArcRouter().route(other, np.array([0]), np.array([1]))


class TestOddRing(TopologyTests):
    plugin = fredfw_topology_optical_ring
    topologies = (
        OpticalRing(npus=9, hop_latency=5e-9, oeo_latency=1e-8, waveguides=2, stripe=True),
        OpticalRing(npus=7, wavelengths=2, pay="on-change", laser_power=10.0, receiver_sensitivity=-20.0),
    )


class TestEvenRing(TopologyTests):
    plugin = fredfw_topology_optical_ring
    topologies = (OpticalRing(), OpticalRing(npus=2), OpticalRing(npus=8, shortage="refuse"))
    expected_failures: ClassVar[Mapping[str, str]] = {
        "routes_do_not_depend_on_the_batch": "flows half way round alternate, so that both directions are used alike"
    }


class TestWavelengths(AdmissionTests):
    plugin = fredfw_topology_optical_ring
    topologies = (
        OpticalRing(npus=12, wavelengths=4, stripe=True),
        OpticalRing(npus=16, wavelengths=1, pay="on-change"),
        OpticalRing(npus=12, wavelengths=1, shortage="refuse"),
    )


class TestShortestArc(RouterTests):
    plugin = fredfw_topology_optical_ring
    routers = (ShortestArcRouter(), ShortestArcRouter(oeo_latency=1e-6))
    fabrics = (OpticalRing(npus=11).build(),)
