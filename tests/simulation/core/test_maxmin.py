"""The table for max-min fair flows: right rates, the same bits in C and in Python, and pieces that stay small."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from functools import partial, partialmethod
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from fredfw.fabric import Fabric, FlowSet, Routes
from fredfw.simulation import FlowNetwork, MaxMin, Statistics
from fredfw.simulation.calendar import Calendar
from fredfw.simulation.core import compiled
from fredfw.simulation.core.fill import by_passes, max_min
from fredfw.simulation.core.loads import Load
from fredfw.simulation.core.maxmin import MaxMinTable
from fredfw.simulation.core.pure import PureSlots
from fredfw.simulation.core.slots import Slots, slots_class
from fredfw.simulation.core.tables import flow_table
from fredfw.simulation.rates import RateSolver
from fredfw.typing import FloatArray

LINKS = 8


@frozen
class SameButDerived(MaxMin):
    """Max-min fair, and not known as such: the table for any policy serves it."""

    name: ClassVar[str] = "derived"


@pytest.fixture(params=["c", "python"])
def slots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use(request.param, monkeypatch)


def use(kind: str, monkeypatch: pytest.MonkeyPatch) -> MaxMin:
    """Have tables of that kind made, and return the policy to ask for them with."""
    if kind == "c" and compiled.library() is None:
        pytest.skip("fredfw-compiled is not installed, or has no library")
    if kind == "python":
        monkeypatch.setattr(compiled, "library", lambda: None)
    return SameButDerived() if kind == "any policy" else MaxMin()


def parallel(bandwidths: FloatArray) -> Fabric:
    """Two NPUs that links join, each of which a flow may use with any others."""
    zeros = np.zeros(len(bandwidths), dtype=np.intp)
    return Fabric("parallel", [0, 0], zeros, zeros + 1, bandwidths, 0.0, 0.0)


def single(path: list[int], volume: float) -> FlowSet:
    """One flow over the links of ``path``."""
    return FlowSet(Routes.of([np.array(path)], [0.0]), np.array([volume]), np.array([0]), 1)


def network(policy: MaxMin, bandwidths: FloatArray) -> FlowNetwork:
    return FlowNetwork(parallel(bandwidths), policy)


@st.composite
def flow_sets(draw: st.DrawFn, most: int) -> FlowSet:
    count = draw(st.integers(1, most))
    paths = [draw(st.lists(st.integers(0, LINKS - 1), max_size=4, unique=True)) for _ in range(count)]
    pairs = sum(map(len, paths))
    coefficients = draw(st.none() | st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=pairs, max_size=pairs))
    offsets = np.cumsum([0, *map(len, paths)])
    links = np.array([link for path in paths for link in path], dtype=np.intp)
    weights = None if coefficients is None else np.array(coefficients, dtype=float)
    routes = Routes(offsets, links, np.zeros(count), weights)
    volumes = np.array(draw(st.lists(st.floats(1.0, 100.0), min_size=count, max_size=count)))
    caps = draw(st.none() | st.lists(st.floats(0.01, 5.0), min_size=count, max_size=count))
    return FlowSet(routes, volumes, np.arange(count), count, caps=None if caps is None else np.array(caps))


@st.composite
def programs(draw: st.DrawFn) -> tuple[FloatArray, list[tuple[float, str, object]]]:
    """What happens on links of the given bandwidths: when, what, and with what."""
    bandwidths = np.array(draw(st.lists(st.floats(0.5, 8.0), min_size=LINKS, max_size=LINKS)))
    steps: list[tuple[float, str, object]] = [(0.0, "start", draw(flow_sets(12)))]
    for _ in range(draw(st.integers(0, 14))):
        delay = draw(st.floats(0.0, 4.0))
        what = draw(st.sampled_from(["start", "start", "start", "cancel", "change"]))
        if what == "start":
            steps.append((delay, what, draw(flow_sets(2))))
        elif what == "cancel":
            steps.append((delay, what, draw(st.integers(0, 20))))
        else:
            steps.append((delay, what, (draw(st.integers(0, LINKS - 1)), draw(st.floats(0.25, 8.0)))))
    return bandwidths, steps


def run(policy: MaxMin, program: tuple[FloatArray, list[tuple[float, str, object]]]) -> list[tuple[int, int, float]]:
    """Return which flow of which set ended when."""
    bandwidths, steps = program
    on, open_sets = network(policy, bandwidths), []
    ends: list[tuple[int, int, float]] = []

    def ended(number: int, activities: np.ndarray) -> None:
        ends.extend((number, activity, on.now) for activity in activities.tolist())

    for number, (delay, what, value) in enumerate(steps):
        on.advance(on.now + delay)
        if isinstance(value, FlowSet):
            open_sets.append(on.start(value, partial(ended, number)))
        elif what == "cancel":
            alive = [one for one in open_sets if one in on._open]
            if alive and isinstance(value, int):
                on.cancel(alive[value % len(alive)])
        elif isinstance(value, tuple):
            on.set_bandwidths(np.array([value[0]]), np.array([value[1]]))
    on.advance()
    assert on.idle
    return sorted(ends)


@given(programs())
def test_whatever_happens_flows_end_when_they_do_in_the_table_for_any_policy(
    program: tuple[FloatArray, list[tuple[float, str, object]]],
) -> None:
    expected = run(SameButDerived(), program)
    ends = run(MaxMin(), program)
    assert [end[:2] for end in ends] == [end[:2] for end in expected]
    assert [end[2] for end in ends] == pytest.approx([end[2] for end in expected], rel=1e-11)


@given(programs())
def test_c_and_python_give_the_same_bits(program: tuple[FloatArray, list[tuple[float, str, object]]]) -> None:
    if compiled.library() is None:
        pytest.skip("fredfw-compiled is not installed, or has no library")
    expected = run(MaxMin(), program)
    with pytest.MonkeyPatch.context() as monkeypatch:
        use("python", monkeypatch)
        assert run(MaxMin(), program) == expected


def arrivals(policy: MaxMin, flows: int, *, seed: int = 1, side: int = 6) -> tuple[FloatArray, Statistics]:
    """Send flows between random nodes of a grid, row first, that arrive at random; return when they end."""
    random = np.random.default_rng(seed)
    # Links to the right, to the left, down and up, from the node with that number.
    count = side * side
    bandwidths = random.uniform(1.0, 2.0, size=4 * count)
    on, ends = network(policy, bandwidths), np.full(flows, np.nan)

    def ended(flow: int, activities: np.ndarray) -> None:
        del activities
        ends[flow] = on.now

    time = 0.0
    for flow in range(flows):
        row, column, to_row, to_column = random.integers(side, size=4).tolist()
        path = []
        while column != to_column:
            path.append((0 if to_column > column else count) + side * row + column)
            column += 1 if to_column > column else -1
        while row != to_row:
            path.append((2 * count if to_row > row else 3 * count) + side * row + column)
            row += 1 if to_row > row else -1
        time += random.exponential(0.05)
        if not path:
            ends[flow] = time
            continue
        flow_set = single(path, random.uniform(1.0, 10.0))
        on.schedule(time, partial(on.start, flow_set, partial(ended, flow)))
    on.advance()
    return ends, on.statistics


def test_rates_are_max_min_fair_after_each_change(slots: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = []
    step = MaxMinTable.step

    def checked(table: MaxMinTable, until: float, calendar: Calendar) -> int:
        if not math.isnan(table.first_done) or calendar.first <= calendar.now:
            return step(table, until, calendar)
        first = table.settle()
        inside = table._slots
        draining = np.flatnonzero(inside.draining[: inside.slots])
        paths = [inside.link[inside.start[slot] :][: inside.length[slot]] for slot in draining]
        if paths:
            offsets = np.cumsum([0, *map(len, paths)])
            expected, _ = by_passes(offsets, np.concatenate(paths).astype(np.intp), None, None, table.bandwidths)
            np.testing.assert_allclose(inside.rate[draining], expected, rtol=1e-12)
            assert first == pytest.approx(inside.finish[draining].min(), rel=0)
            if table._slots.related:
                loads = np.bincount(np.concatenate(paths), np.repeat(expected, np.diff(offsets)), inside.links)
                np.testing.assert_allclose(inside.load, loads, rtol=1e-10, atol=1e-10)
                necks = inside.bottleneck[draining]
                # Each has a saturated link on which nobody is faster.
                assert all(neck in path for neck, path in zip(necks.tolist(), paths, strict=True))
                np.testing.assert_allclose(loads[necks], inside.capacity[necks], rtol=1e-10)
                fastest = np.zeros(inside.links)
                np.maximum.at(fastest, np.concatenate(paths), np.repeat(expected, np.diff(offsets)))
                np.testing.assert_allclose(expected, fastest[necks], rtol=1e-9)
        pieces.append((len(draining), table._slots.related))
        return step(table, until, calendar)

    monkeypatch.setattr(MaxMinTable, "step", checked)
    arrivals(MaxMin(), 500)
    # Most were solved piece by piece, with many flows under way.
    assert sum(related for flows, related in pieces if flows > 20) > 0.8 * sum(flows > 20 for flows, _ in pieces) > 500


def test_many_arrivals_end_at_the_same_bits_in_c_and_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    ends, statistics = arrivals(use("c", monkeypatch), 800, side=5)
    expected, others = arrivals(use("python", monkeypatch), 800, side=5)
    assert ends.tobytes() == expected.tobytes()
    assert statistics == others


def islands(count: int) -> tuple[MaxMinTable, list[Load]]:
    """Return a table with ``count`` flows, twenty on each link."""
    fabric = parallel(np.full(count // 20, 20.0))
    solver = RateSolver(fabric, MaxMin())
    table = flow_table(solver, Statistics())
    assert isinstance(table, MaxMinTable)
    links = np.arange(count) // 20
    routes = Routes(np.arange(count + 1), links, np.zeros(count), None)
    loads = [load(routes, 1.0 + np.arange(count) / count)]
    table.put(loads[0], 0.0)
    table.settle()
    return table, loads


def load(routes: Routes, volumes: FloatArray) -> Load:
    return Load(routes=routes, volumes=volumes, caps=None, priority=0)


@pytest.mark.parametrize("count", [1_000, 100_000])
def test_the_piece_does_not_grow_with_the_flows_that_a_change_does_not_reach(slots: None, count: int) -> None:
    table, loads = islands(count)
    statistics = table._statistics
    table.drop(loads[0], np.array([45]))
    table.settle()
    assert table._slots.touched == 19
    table.put(load(single([7], 1.0).routes, np.array([1.0])), 0.0)
    table.settle()
    assert table._slots.touched == 21
    assert statistics.solved == count + 19 + 21
    rates = table._slots.rate[: count + 1]
    assert rates[40:60] == pytest.approx(np.where(np.arange(40, 60) == 45, 1.0, 20 / 19))
    assert rates[140:160] == pytest.approx(np.full(20, 20 / 21))
    assert rates[count] == rates[140]


def test_slots_of_flows_that_are_gone_are_used_again(slots: None) -> None:
    bandwidths = np.full(3, 1.0)
    on, ends = network(MaxMin(), bandwidths), []
    waits = single([0], 2_000.0)
    on.start(waits, lambda _: ends.append(on.now))
    # Each is on the second link alone, for a second; some are also on the first.
    for second in range(1_000):
        one = single([1, 0] if second % 2 else [1], 0.5)
        on.schedule(float(second), partial(on.start, one, lambda _: None))
    on.advance()
    table = on._carrier.table
    assert isinstance(table, MaxMinTable)
    assert len(table._slots.volume) <= 128
    # 500 times it has half of its link for a second, until the other has its half byte.
    assert ends == [pytest.approx(2_250.0)]


def busy() -> FlowNetwork:
    """Return a network on which forty flows have started one after the other."""
    on = network(MaxMin(), np.random.default_rng(3).uniform(1.0, 2.0, size=LINKS))
    random = np.random.default_rng(4)
    for _ in range(40):
        path = random.permutation(LINKS)[: random.integers(1, 5)].tolist()
        on.start(single(path, random.uniform(1.0, 9.0)), nothing)
        on.advance(on.now + random.exponential(0.3))
    return on


def moments(on: FlowNetwork) -> list[float]:
    """Return when something happens from now on."""
    times = []
    while (time := on.next_event_time()) < math.inf:
        on.advance(time)
        times.append(time)
    return times


def test_a_copy_in_the_middle_ends_at_the_same_bits(slots: None) -> None:
    on = busy()
    copies = [copy.deepcopy(on), pickle.loads(pickle.dumps(on))]
    times = moments(on)
    assert len(times) > 10
    assert [moments(one) for one in copies] == [times, times]


def test_a_copy_goes_on_where_the_other_loops_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled.library() is None:
        pytest.skip("fredfw-compiled is not installed, or has no library")
    on = busy()
    stored = pickle.dumps(on)
    use("python", monkeypatch)
    other = pickle.loads(stored)
    assert isinstance(other._carrier.table._slots, PureSlots)
    assert moments(other) == moments(on)


def nothing(activities: np.ndarray) -> None:
    del activities


def test_a_piece_may_be_all_flows(slots: None) -> None:
    # All flows share one link, so each change concerns all.
    on = network(MaxMin(), np.array([1.0, 1.0]))
    for flow in range(40):
        on.start(single([0], 1.0 + flow), nothing)
    on.advance()
    # Flow k ends when it and the shorter ones have k + 1 bytes, and the longer ones as many.
    assert on.now == pytest.approx(sum(1.0 + flow for flow in range(40)))
    assert on.statistics.solved == sum(range(1, 41))


def exchange(policy: MaxMin) -> tuple[list[float], Statistics]:
    """Simulate one set of flows whose sizes all differ over four links each; return when they end."""
    random = np.random.default_rng(4)
    count, bandwidths = 150, random.uniform(1.0, 1_000.0, 40)
    paths = [random.permutation(len(bandwidths))[:4] for _ in range(count)]
    flows = FlowSet(Routes.of(paths, [0.0] * count), random.uniform(1.0, 9.0, count), np.arange(count), count)
    on, ends = network(policy, bandwidths), [0.0] * count

    def ended(activities: np.ndarray) -> None:
        for flow in activities.tolist():
            ends[flow] = on.now

    on.start(flows, ended)
    on.advance()
    return ends, on.statistics


def test_each_end_of_an_exchange_of_different_sizes_is_a_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    solves: list[int] = []
    use("c", monkeypatch)
    kind = slots_class()
    monkeypatch.setattr(kind, "assign", partialmethod(counted, kind.assign, solves))
    ends, statistics = exchange(MaxMin())
    assert [flows for flows in solves if flows > 1] == [150]  # when all start; a piece may be most of the flows
    others, same = exchange(use("python", monkeypatch))
    assert (ends, statistics) == (others, same)
    assert ends == pytest.approx(exchange(use("any policy", monkeypatch))[0], rel=1e-9)


def counted(
    slots: Slots,
    assign: Callable[[Slots, float, FloatArray], float],
    calls: list[int],
    now: float,
    rates: FloatArray,
) -> float:
    calls.append(slots.active)
    return assign(slots, now, rates)


def test_flows_of_equal_rates_end_together_whatever_their_order(slots: None) -> None:
    on, ends = network(MaxMin(), np.array([3.0, 1.0])), []
    for _ in range(3):
        on.start(single([0], 0.1), lambda _: ends.append(on.now))
    on.start(single([1], 10.0), nothing)
    on.advance()
    assert len(set(ends)) == 1
    assert on.statistics.events == 3 - 1  # the three together, and the other


def test_a_table_shares_the_bandwidths_of_its_fabric(slots: None) -> None:
    table, _ = islands(20)
    assert np.shares_memory(table._slots.capacity, table._solver.fabric.bandwidths)
    table.set_bandwidths(np.array([40.0]))
    table.settle()
    assert table._solver.fabric.bandwidths == pytest.approx([20.0])
    assert table._slots.rate[:20] == pytest.approx(np.full(20, 2.0))


@pytest.fixture
def unknown_library() -> Iterator[None]:
    """Nobody has looked for the library yet."""
    if compiled.library() is None:
        pytest.skip("fredfw-compiled is not installed, or has no library")
    compiled.library.cache_clear()
    yield
    compiled.library.cache_clear()


@pytest.mark.usefixtures("unknown_library")
def test_a_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "ABI", -1)
    with pytest.warns(RuntimeWarning, match=r"core\.so is of another version.*same results; install it again"):
        assert compiled.library() is None
    assert compiled.library() is None  # and nothing is said again


@pytest.mark.usefixtures("unknown_library")
def test_the_library_is_not_used_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREDFW_COMPILED", "0")
    assert compiled.library() is None


@pytest.mark.usefixtures("unknown_library")
@pytest.mark.parametrize("part", [0.0, 0.2, 0.99])
def test_a_library_that_is_cut_off_is_not_used(part: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fredfw_compiled

    whole = fredfw_compiled.PATH.read_bytes()
    damaged = tmp_path / "core.so"
    damaged.write_bytes(whole[: int(part * len(whole))])
    monkeypatch.setattr(fredfw_compiled, "PATH", damaged)
    with pytest.warns(RuntimeWarning, match=r"core\.so is damaged"):
        assert compiled.library() is None


@pytest.mark.usefixtures("unknown_library")
def test_a_library_without_checksum_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fredfw_compiled

    monkeypatch.setattr(fredfw_compiled, "CHECKSUM", tmp_path / "core.crc32")
    with pytest.warns(RuntimeWarning, match=r"core\.crc32"):
        assert compiled.library() is None


@pytest.mark.usefixtures("unknown_library")
def test_no_library_is_nothing_to_speak_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fredfw_compiled

    monkeypatch.setattr(fredfw_compiled, "PATH", tmp_path / "core.so")
    assert compiled.library() is None


def test_no_memory_is_an_error() -> None:
    with pytest.raises(MemoryError, match="flow table"):
        compiled.checked(-2)


def test_the_table_in_c_is_the_default_where_it_is_installed() -> None:
    table = flow_table(RateSolver(parallel(np.ones(1)), MaxMin()), Statistics())
    assert isinstance(table, MaxMinTable)
    assert isinstance(table._slots, Slots)
    assert isinstance(table._slots, PureSlots) == (compiled.library() is None)


def lanes(*bandwidths: float) -> MaxMinTable:
    """Return a table on links of these bandwidths."""
    table = flow_table(RateSolver(parallel(np.array(bandwidths)), MaxMin()), Statistics())
    assert isinstance(table, MaxMinTable)
    return table


def along(links: list[int], volumes: list[float], caps: list[float] | None = None) -> Load:
    """Return a load of one flow on each of ``links``."""
    routes = Routes(np.arange(len(links) + 1), np.array(links), np.zeros(len(links)), None)
    limits = None if caps is None else np.array(caps)
    return Load(routes=routes, volumes=np.array(volumes), caps=limits, priority=0)


def put(table: MaxMinTable, load: Load, now: float = 0.0) -> Load:
    table.put(load, now)
    table.settle()
    return load


def ends(table: MaxMinTable) -> list[tuple[float, int]]:
    """Let all flows drain; return when and how many at once."""
    found = []
    while (first := table.first_done) < math.inf:
        found.append(
            (first, sum(len(load.volumes) if flows is None else len(flows) for load, flows in table.take_first()))
        )
        table.settle()
    return found


def test_flows_that_are_taken_off_leave_the_others_in_the_order_of_their_ends(slots: None) -> None:
    random = np.random.default_rng(5)
    count, dropped = 60, 15
    for _ in range(20):
        # Each is alone on a link of 1 byte per second, so it ends after as many seconds as it has bytes.
        volumes = 1.0 + random.permutation(count)
        table = lanes(*np.ones(count))
        flows = put(table, along(list(range(count)), volumes.tolist()))
        gone = random.permutation(count)[:dropped]
        for flow in gone.tolist():
            table.drop(flows, np.array([flow]))
            table.settle()
        assert table._slots.related
        assert ends(table) == [(volume, 1) for volume in sorted(np.delete(volumes, gone))]


@pytest.mark.parametrize("related", [False, True])
@pytest.mark.parametrize(
    ("bandwidth", "volumes", "moments"),
    [
        # What remains of the second when the first is drained: 1 byte of 1e12, and a billionth of next to nothing.
        (1e12, [1e12, 1e12 + 1], [(1.0, 2)]),
        (1e-12, [1e-12, (1 + 1e-9) * 1e-12], [(1.0, 1), (1.0 + 1e-9, 1)]),
        (1.0, [1.0, 1.0 + 1e-10], [(1.0, 1), (1.0 + 1e-10, 1)]),
        (1.0, [1.0, 1.0 + 1e-12], [(1.0, 2)]),
    ],
)
def test_a_flow_is_drained_by_the_share_of_its_volume_that_remains(
    slots: None, related: bool, bandwidth: float, volumes: list[float], moments: list[tuple[float, int]]
) -> None:
    table = lanes(*[bandwidth] * 2, *[1.0] * 8)
    # Eight others that end at 100 seconds.
    put(table, along(list(range(2, 10)), [100.0] * 8))
    if related:
        for lane, volume in enumerate(volumes):
            put(table, along([lane], [volume]))
    else:
        put(table, along([*range(2), *range(2, 10)], [*volumes, *[1e3] * 8]))
    assert table._slots.related == related
    found = ends(table)[: len(moments)]
    assert [count for _, count in found] == [count for _, count in moments]
    assert [time for time, _ in found] == pytest.approx([time for time, _ in moments], rel=1e-13)


@pytest.mark.parametrize("related", [False, True])
@pytest.mark.parametrize(("apart", "together"), [(3e-10, True), (1e-8, False)])
def test_late_in_the_day_a_few_roundings_of_the_clock_are_one_moment(
    slots: None, related: bool, apart: float, together: bool
) -> None:
    # After a million seconds the clock goes on in steps of 1.2e-10 s.
    table, day = lanes(*np.ones(10)), 1e6
    put(table, along(list(range(2, 10)), [2 * day] * 8))
    table.pass_time(day)
    volumes = [1e-9, 1e-9 + apart]
    if related:
        for lane, volume in enumerate(volumes):
            put(table, along([lane], [volume]), day)
    else:
        put(table, along([*range(2), *range(2, 10)], [*volumes, *[2 * day] * 8]), day)
    assert table._slots.related == related
    table.take_first()
    assert len(table) == (8 if related else 16) + (0 if together else 1)


def test_what_remains_falls_with_time_and_never_below_nothing(slots: None) -> None:
    table = lanes(2.0, 5.0)
    load = put(table, along([0, 1, 1], [10.0, 9.0, 30.0]))
    assert table.remaining(load, 0.0).tolist() == [10.0, 9.0, 30.0]
    assert table.remaining(load, 3.0) == pytest.approx([4.0, 1.5, 22.5])
    assert table.remaining(load, np.array([1.0, 2.0, 3.0])) == pytest.approx([8.0, 4.0, 22.5])
    assert table.remaining(load, 100.0).tolist() == [0.0, 0.0, 0.0]
    table.pass_time(2.0)
    table.drop(load, np.array([1]))
    put(table, along([0], [1.0]), 2.0)
    # Now the first has half of its link, and the third all of its own.
    assert table.remaining(load, 4.0) == pytest.approx([4.0, 0.0, 15.0])


def test_slots_that_move_together_stay_those_of_their_loads(slots: None) -> None:
    # Link k has 1 + k bytes per second for flow k; every third flow also crosses a link of 60 that they share.
    lane, third = np.arange(60), np.arange(60) % 3 == 0
    table = lanes(*1.0 + lane, 60.0)
    paths = [np.array([60, one] if one % 3 == 0 else [one]) for one in range(60)]
    first = put(table, load(Routes.of(paths, [0.0] * 60), np.full(60, 1000.0)))
    table.drop(first, np.arange(40))
    table.settle()
    table.drop(first, np.array([40]))
    table.settle()
    assert table._slots.related
    # Others come to the links of those that are left; there is no room for them but that of flows that are gone.
    second = put(table, along(list(range(41, 60)), [500.0] * 19))
    assert table._slots.slots == 19 + 19
    rates = np.where(third, 10.0, (1 + lane) / 2)  # six share the link of 60
    assert table.remaining(first, 1.0) == pytest.approx(np.where(lane > 40, 1000 - rates, 0.0))
    assert table.remaining(second, 1.0) == pytest.approx((499 - lane + rates)[41:])
    # What moved is written over.
    more = put(table, along(list(range(20, 40)), [300.0] * 20))
    assert table.remaining(more, 1.0) == pytest.approx(299.0 - lane[20:40])
    # Of the six now five.
    table.drop(first, np.array([41, 45]))
    table.settle()
    gone = (lane <= 41) | (lane == 45)
    rates = np.where(gone, 0.0, np.where(third, 12.0, (1 + lane) / 2))
    assert table.remaining(first, 1.0) == pytest.approx(np.where(gone, 0.0, 1000 - rates))
    assert table.remaining(second, 1.0) == pytest.approx((499 - lane + rates)[41:])
    assert table.stalled() == []
    assert len(table) == 17 + 19 + 20


@pytest.mark.parametrize("rates_of", [max_min, by_passes])
def test_a_flow_at_its_cap_does_not_wait_for_others(rates_of: Callable[..., tuple[FloatArray, int]]) -> None:
    # The first link offers 1 to each of its two flows, which is the cap of one; the other has 0.5 on the second link.
    offsets, links = np.array([0, 1, 3]), np.array([0, 0, 1])
    rates, passes = rates_of(offsets, links, None, np.array([1.0, np.inf]), np.array([2.0, 0.5]))
    assert rates.tolist() == [1.0, 0.5]
    assert passes == 1


@given(st.data())
def test_flows_apart_have_the_same_bits_in_either_way(data: st.DataObject) -> None:
    # No link is crossed twice; some flows have no link, some a cap, some links are closed.
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    offsets = np.cumsum([0, *lengths])
    links = np.array(data.draw(st.permutations(range(12))), dtype=np.intp)[: offsets[-1]]
    number = st.floats(0, 1e12, allow_subnormal=False)
    capacities = np.array(data.draw(st.lists(number, min_size=12, max_size=12)))
    caps = np.array(data.draw(st.lists(number | st.just(np.inf), min_size=len(lengths), max_size=len(lengths))))
    (rates, passes), (known, others) = (one(offsets, links, None, caps, capacities) for one in (max_min, by_passes))
    assert rates.tobytes() == known.tobytes()
    expected = [min([cap, *capacities[links[a:b]]]) for cap, a, b in zip(caps, offsets, offsets[1:], strict=False)]
    assert rates.tolist() == expected
    assert passes == others == (len(links) > 0)
