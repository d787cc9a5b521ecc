"""The engine gives what the oracle gives: in random programs, random schedules, and random states of circuits.

Programs are calm or chaotic. Where volumes and durations that change by 1e-12 change more than that, rounding decides
which of two things at one moment comes first, and what the engine gives must lie in the spread of what the oracle gives
with such changes.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
from attrs import evolve, frozen

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "golden")]

from oracle import Change, Ends, collective, simulate
from oracle_network import Flow, UnknownError, rates_of
from programs import Program, program

from fredfw.collectives import Pattern, Phase, Schedule
from fredfw.errors import DeadlockError, RefusedError, UnsupportedError
from fredfw.fabric import Fabric, NodeKind
from fredfw.framework import Framework
from fredfw.simulation import CircuitPreempt, FlowNetwork, Incidence, Lowering, ScheduleRun
from fredfw.simulation.fidelity import FIDELITIES
from fredfw.typing import IntArray

SAME = 1e-9
"""Share by which times may differ."""
PERTURBED = 20
"""How often a program is changed that the two do not agree about."""
CHAOTIC = 0.03
"""Share of programs that may be chaotic."""
BLOCK = 100
"""Programs that are one test."""
FRAMEWORK = Framework()

# Numbers that are told of each thing: times, and what has caused it.
Told = Mapping[object, Sequence[tuple[float, ...]]]


def disagrees(found: Told, expected: Told) -> str:
    """Return where two differ, or nothing."""
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


def compare(found: Told, expected: Told, oracle: Callable[[int], Told]) -> bool:
    """Check what was found; the oracle says what else there may be, by a seed. Return whether that is chaotic."""
    difference = disagrees(found, expected)
    if not difference:
        return False
    spread = [expected, *(oracle(seed) for seed in range(PERTURBED))]
    assert any(disagrees(one, expected) for one in spread), difference
    assert is_in_spread(found, spread), f"chaotic, and out of the spread: {difference}"
    return True


# --- programs


def changes_of(one: Program, fabric: Fabric) -> list[Change]:
    """Return when links get which bandwidths."""
    names = [fabric.link_name(link) for link in range(len(fabric.bandwidths))]
    whole, up = fabric.bandwidths.tolist(), [True] * len(names)
    widths, found = list(whole), list[Change]()
    for event in sorted(one.events, key=lambda event: float(event["at"])):
        link, action = names.index(event["links"]), event.get("action", "fail")
        if action == "degrade":
            widths[link] = whole[link] * event["factor"]
        else:
            up[link] = action == "restore"
            widths[link] = whole[link] if up[link] else widths[link]
        found.append((event["at"], {link: widths[link] if up[link] else 0.0}))
    return found


def is_small(one: Program) -> bool:
    """Return whether a program takes little time, and has nothing that the oracle does not know beforehand."""
    at_random = any("mtbf" in event for event in one.events)
    spread = one.topology.name == "optical-ring"  # whose router balances the ways of all flows of a phase
    small = len(one.placement) <= 9 and sum(len(job.tasks) * job.iterations for job in one.jobs) <= 12
    # These split, decompose, or look at which routes are the same object.
    return small and not at_random and not spread and one.admission not in ("Halves", "NoTrees", "Circuits")


def by_engine(one: Program, fabric: Fabric) -> Told:
    """Return end and start of each rank's spans of each task, and the task that has caused each."""
    try:
        timeline = one.run(fabric).timeline
    except DeadlockError:
        return {}
    told: dict[object, list[tuple[float, ...]]] = {}
    causes = np.where(timeline.trigger < 0, -1, timeline.task[timeline.trigger]).tolist()
    rows = timeline.task.tolist(), timeline.end.tolist(), timeline.start.tolist(), causes, timeline.ranks
    for task, end, start, cause, ranks in zip(*rows, strict=True):
        for rank in ranks.tolist():
            told.setdefault((task, rank), []).append((end, start, cause))
    return {what: sorted(spans) for what, spans in told.items()}


def by_oracle(one: Program, fabric: Fabric, seed: int | None) -> Told:
    """Return the same."""
    registry = FRAMEWORK.plugins.collectives
    algorithms = {
        None if pattern == "default" else Pattern(pattern): [registry.get(each.name)(**each.fields) for each in listed]
        for pattern, listed in one.collectives.items()
    }
    spans = simulate(
        one.graph(),
        fabric,
        algorithms,
        placement=one.placement,
        priorities=one.priorities,
        fidelity=one.fidelity,
        changes=changes_of(one, fabric),
        seed=seed,
    )
    told: dict[object, list[tuple[float, ...]]] = {}
    for span in spans or []:
        cause = spans[span.trigger].task if spans and span.trigger >= 0 else -1
        for rank in span.ranks:
            told.setdefault((span.task, rank), []).append((span.end, span.start, cause))
    return {what: sorted(rows) for what, rows in told.items()}


def check_program(seed: int) -> str:
    """Compare the program of a seed; return what it is."""
    one = program(seed)
    if not is_small(one):
        return "large"
    fabric = one.fabric()
    try:
        expected = by_oracle(one, fabric, None)
    except (UnknownError, UnsupportedError, RefusedError):
        return "unknown"
    try:
        return "chaotic" if compare(by_engine(one, fabric), expected, partial(by_oracle, one, fabric)) else "calm"
    except AssertionError as error:
        raise AssertionError(f"program {seed}: {error}") from None


def check_programs(first: int, count: int) -> None:
    """Compare so many programs, by the seeds from ``first`` on; some are large, or do what the oracle does not know."""
    kinds, seed = Counter[str](), first
    while kinds["calm"] + kinds["chaotic"] < count:
        kinds[check_program(seed)] += 1
        seed += 1
    print(f"{count} programs, seeds {first} to {seed - 1}: {dict(kinds)}")
    assert kinds["chaotic"] <= max(CHAOTIC * count, 3)


@pytest.mark.parametrize("block", range(2))
def test_programs(block: int) -> None:
    check_programs(1000 * block, BLOCK)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_many_programs(block: int) -> None:
    check_programs(10_000 + 1000 * block, BLOCK)
