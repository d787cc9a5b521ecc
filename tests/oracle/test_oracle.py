"""The engine gives what the oracle gives: in random programs and random schedules.

Programs are calm or chaotic. Where volumes and durations that change by 1e-12 change more than that, rounding decides
which of two things at one moment comes first, and what the engine gives must lie in the spread of what the oracle gives
with such changes.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from oracle_network import UnknownError
from programs import Capped, Circuits, FewAtATime, Halves, NoTrees, Program, program
from small import Fixed, executor

from fredfw.collectives import Pattern, Phase, Schedule
from fredfw.collectives.schedule import POLICIES, RELEASES
from fredfw.errors import DeadlockError, RefusedError, UnsupportedError
from fredfw.fabric import Fabric
from fredfw.fidelities import COMPRESSED, EXACT, RENDEZVOUS, STEPWISE
from fredfw.framework import Framework
from fredfw.plugin.configure import choose
from fredfw.simulation import Timeline
from fredfw.workloads import GraphBuilder, TaskGraph
from oracle import Algorithms, Change, simulate

WAYS = (COMPRESSED, STEPWISE, EXACT, RENDEZVOUS)
# Programs have the names of the release that they were recorded from.
pytestmark = pytest.mark.filterwarnings("ignore:fidelity '(per-rank|stepwise):DeprecationWarning")

SAME = 1e-9  # share by which times may differ
PERTURBED = 20  # how often a program is changed that the two do not agree about
CHAOTIC = 0.03  # share of programs that may be chaotic
BLOCK = 100  # programs that are one test
FRAMEWORK = Framework()
FABRICS = [
    FRAMEWORK.topology(name, link_bandwidth=100.0, link_latency=0.25, **fields).build()
    for name, fields in (
        ("fully-connected", {"npus": 4}),
        ("mesh2d", {"rows": 2, "columns": 4, "io_controllers": False}),
        ("torus", {"dimensions": [3, 2]}),
        ("switch", {"npus": 6, "in_network": False}),
        ("switch", {"npus": 6, "in_network": True}),
    )
]

# Numbers that are told of each thing: times, and what has caused it.
Told = Mapping[object, Sequence[tuple[float, ...]]]


def disagrees(found: Told, expected: Told) -> str:
    if found.keys() != expected.keys():
        return f"{sorted(map(str, found.keys() ^ expected.keys()))} happen once only"
    for what, rows in expected.items():
        if len(rows) != len(found[what]) or not np.allclose(found[what], rows, rtol=SAME, atol=0, equal_nan=True):
            return f"{what}: {found[what]}, expected {rows}"
    return ""


def is_in_spread(found: Told, spread: Sequence[Told]) -> bool:
    """Return whether each number is between the lowest and the highest of some runs."""
    if any(found.keys() != one.keys() for one in spread):
        return False
    for what, rows in found.items():
        each = [np.array(one[what]) for one in spread if np.shape(one[what]) == np.shape(rows)]
        if not each:
            return False
        low, high = np.min(each, axis=0), np.max(each, axis=0)
        slack = SAME * np.abs(high)
        if not ((low - slack <= rows) & (rows <= high + slack) | np.isnan(low)).all():
            return False
    return True


def compare(found: Told, expected: Told, oracle: Callable[..., Told]) -> bool:
    """Check what was found; the oracle says what else there may be, by a seed. Return whether that is chaotic."""
    difference = disagrees(found, expected)
    if not difference:
        return False
    spread = [expected, *(oracle(seed=seed) for seed in range(PERTURBED))]
    assert any(disagrees(one, expected) for one in spread), difference
    assert is_in_spread(found, spread), f"chaotic, and out of the spread: {difference}"
    return True


def changes_of(one: Program, fabric: Fabric) -> list[Change]:
    names = [fabric.link_name(link) for link in range(len(fabric.bandwidths))]
    widths, down, found = fabric.bandwidths.tolist(), set[int](), list[Change]()
    for event in sorted(one.events, key=lambda event: event.at or 0.0):
        link = names.index(event.links)
        if event.action == "fail":
            down.add(link)
        else:
            widths[link] = float(fabric.bandwidths[link]) * (event.factor or 1.0)
            down -= {link} if event.action == "restore" else set()
        found.append((event.at or 0.0, {link: 0.0 if link in down else widths[link]}))
    return found


def is_small(one: Program) -> bool:
    """Return whether a program takes little time, and has nothing that the oracle does not know beforehand."""
    at_random = any(event.mtbf for event in one.events)
    small = len(one.placement) <= 9 and sum(len(job.graph) * job.iterations for job in one.jobs) <= 12
    # These split, decompose, or look at which routes are the same object. Those that count what runs depend on the
    # order in which phases of ranks are asked about that start at one moment, which is not part of the meaning.
    unknown = one.admission in (Halves, NoTrees, Circuits)
    counts = one.admission in (Capped, FewAtATime) and one.fidelity not in (COMPRESSED, STEPWISE)
    # Equal flow sets that run at once are one object, so this admission is not told which of them has ended.
    striped = one.topology.get("stripe", False)
    # Once links have changed, groups of a run that start apart are routed apart, and this router looks at all of them.
    balanced = one.topology["name"] == "optical-ring" and bool(one.events)
    return small and not (at_random or unknown or counts or striped or balanced)


def told_of(spans: Iterable[tuple[int, float, float, int, Iterable[int]]]) -> Told:
    """Return what each rank does in each task: ends, starts, and the tasks that have caused them.

    Of tasks that end at one moment the first stands for all: each is a cause of what begins then.
    """
    told, rows = defaultdict[object, list[tuple[float, ...]]](list), list(spans)
    ends = defaultdict[int, list[float]](list, {-1: [0.0]})  # nothing is what ends when all begins
    for task, end, *_ in rows:
        ends[task].append(end)
    for task, end, start, cause, ranks in rows:
        tied = [other for other, at in ends.items() if any(math.isclose(one, start, rel_tol=SAME) for one in at)]
        for rank in ranks:
            told[task, rank].append((end, start, min(tied) if cause in tied else cause))
    return {what: sorted(mine) for what, mine in told.items()}


def told_by(run: Callable[[], Timeline]) -> Told:
    try:
        timeline = run()
    except DeadlockError:
        return {}
    causes = np.where(timeline.trigger < 0, -1, timeline.task[timeline.trigger]).tolist()
    times = timeline.task.tolist(), timeline.end.tolist(), timeline.start.tolist()
    return told_of(zip(*times, causes, [mine.tolist() for mine in timeline.ranks], strict=True))


def told_by_oracle(graph: TaskGraph, fabric: Fabric, algorithms: Algorithms, **given: Any) -> Told:
    spans = simulate(graph, fabric, algorithms, **given) or []
    causes = [-1 if span.trigger < 0 else spans[span.trigger].task for span in spans]
    return told_of(
        (span.task, span.end, span.start, cause, span.ranks) for span, cause in zip(spans, causes, strict=True)
    )


def by_engine(one: Program, fabric: Fabric) -> Told:
    return told_by(lambda: one.run(fabric).timeline)


def by_oracle(one: Program, fabric: Fabric, seed: int | None = None) -> Told:
    registry = FRAMEWORK.plugins.collectives
    algorithms = {
        None if pattern == "default" else Pattern(pattern): [choose(each, registry) for each in listed]
        for pattern, listed in one.collectives.items()
    }
    given: dict[str, Any] = {"placement": one.placement, "priorities": one.priorities, "fidelity": one.fidelity}
    return told_by_oracle(one.graph(), fabric, algorithms, changes=changes_of(one, fabric), seed=seed, **given)


def agree_apart(one: Program, fabric: Fabric) -> bool:
    """Return whether both agree where a change of sizes by 1e-9 tells apart what would drain at one moment.

    Few changes do not, where flows of one size end together whatever the others take.
    """
    others = [one.perturbed(seed, SAME) for seed in range(5)]
    return sum(bool(disagrees(by_engine(other, fabric), by_oracle(other, fabric))) for other in others) <= 1


def check_program(seed: int) -> str:
    one = program(seed)
    if not is_small(one):
        return "large"
    fabric = one.fabric()
    try:
        expected = by_oracle(one, fabric)
    except (UnknownError, UnsupportedError, RefusedError):
        return "unknown"
    try:
        return "chaotic" if compare(by_engine(one, fabric), expected, partial(by_oracle, one, fabric)) else "calm"
    except AssertionError as error:
        if agree_apart(one, fabric):
            return "tied"
        raise AssertionError(f"program {seed}: {error}") from None


def check_programs(first: int, count: int) -> None:
    """Compare so many programs, by the seeds from ``first`` on; some are large, or do what the oracle does not know."""
    kinds, seed = Counter[str](), first
    while kinds["calm"] + kinds["chaotic"] + kinds["tied"] < count:
        kinds[check_program(seed)] += 1
        seed += 1
    print(f"{count} programs, seeds {first} to {seed - 1}: {dict(kinds)}")
    assert kinds["chaotic"] + kinds["tied"] <= CHAOTIC * count


def test_programs() -> None:
    check_programs(0, BLOCK // 2)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_many_programs(block: int) -> None:
    check_programs(20_000 + 350 * block, BLOCK)


# --- schedules


def drawn_phase(random: Random, ranks: int, earlier: int, *, streams: bool) -> Phase:
    """Return transfers between any ranks, after, behind or with room by any of the phases before it."""
    root, *others = random.sample(range(ranks), ranks)
    shared: dict[str, Any] = {"count": random.randint(1, 2), "repeat": random.choice([1, 1, 1, 2, 3])}
    shared["channel"] = random.choice([-1, -1, 0, 1])
    shared["turn"] = random.choice([-1, -1, 0, 1]) if shared["channel"] >= 0 else -1
    shared |= {"stride": random.randint(0, 2), "modulus": 6}
    for waits in ("after", "behind", "room"):
        shared[waits] = tuple(one for one in range(earlier) if random.random() < 0.2)
    chunk = random.randrange(6)
    if streams and random.random() < 0.4:
        reduces = random.random() < 0.5
        ends: Any = (others, root) if reduces else (root, others)
        return Phase.of(ends[0], ends[1], chunk, stream=0, reduce=reduces, **shared)
    pairs = [random.sample(range(ranks), 2) for _ in range(random.randint(1, 4))]
    chunks, reduce = zip(*((random.randrange(6), random.random() < 0.5) for _ in pairs), strict=True)
    source, destination = zip(*pairs, strict=True)
    return Phase.of(source, destination, chunks, reduce=reduce, **shared)


def drawn_case(random: Random) -> tuple[TaskGraph, Fabric, Schedule, str]:
    """Return a graph of an all-reduce that ranks may enter one by one, a fabric, its schedule, and a fidelity."""
    fabric = random.choice(FABRICS)
    if random.random() < 0.5:
        links = len(fabric.bandwidths)
        widths = [100.0 * random.choice([0.25, 0.5, 1.0, 1.7]) for _ in range(links)]
        fabric = evolve(fabric, bandwidths=np.array(widths), latencies=np.array(random.choices([0, 0.1, 0.7], k=links)))
    ranks = random.randint(2, 4)
    streams = fabric.offers.reduces
    phases = tuple(drawn_phase(random, ranks, index, streams=streams) for index in range(random.randint(1, 5)))
    sizes = np.array([random.choice([0.0, 20.0, 50.0, 50.0, random.uniform(1, 90)]) for _ in range(6)])
    ways: dict[str, Any] = {"policy": random.choice(POLICIES), "release": random.choice(RELEASES), "proof": "none"}
    schedule = Schedule(Pattern.ALL_REDUCE, ranks, sizes if random.random() < 0.5 else 50.0, 6, phases, **ways)
    count = random.randint(1, len(fabric.npus) // ranks)
    members = random.sample(range(len(fabric.npus)), ranks * count)
    fidelity, builder, entered = random.choice(WAYS), GraphBuilder(len(fabric.npus)), []
    if random.random() < 0.5:
        delays = [random.choice([0.0, 0.5, random.uniform(0, 5)]) for _ in members]
        entered = [builder.compute(f"{rank}", [rank], seconds=one) for rank, one in zip(members, delays, strict=True)]
    groups = np.reshape(members, (count, ranks))
    builder.collective("it", Pattern.ALL_REDUCE, groups, 100.0, label="dp", after=entered)
    return builder.build(), fabric, schedule, fidelity


def check_schedules(first: int, count: int) -> None:
    chaotic, wrong = [], []
    for seed in range(first, first + count):
        graph, fabric, schedule, fidelity = drawn_case(Random(seed))
        oracle = partial(told_by_oracle, graph, fabric, {None: (Fixed(schedule),)}, fidelity=fidelity)
        found = told_by(executor(graph, fabric, Fixed(schedule), fidelity=fidelity).run)
        try:
            if compare(found, oracle(), oracle):
                chaotic.append(seed)
        except AssertionError as error:
            wrong.append(f"schedule {seed}: {error}")
    print(f"{count} schedules from {first} on, chaotic: {chaotic}")
    assert not wrong
    assert len(chaotic) <= max(CHAOTIC * count, 3)


def test_schedules() -> None:
    check_schedules(0, 150)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(1, 11))
def test_many_schedules(block: int) -> None:
    check_schedules(1000 * block, 1000)
