"""Repetitions of blocks that nothing disturbs: one is simulated, and the clock jumps over those like it.

A block that is a chain of computations and collectives of the same ranks is run by *units*: ranks that begin and end
each of its tasks together. A unit that starts a repetition has nothing else under way. So as long as no other flow can
affect its own, each repetition takes as long as the one before. That is so where nothing is under way but units in the
middle of their blocks, their flows are of one class, and no link that it shares with others can ever be full: the rates
that it has alone are max-min fair then, and those of the others are the same with it and without it. It ends when the
first unit gets to the last repetition of its block. When that is, is known for units that are alone, and for those that
affect each other it is known when it is at the earliest. Until then the unit need not be simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from attrs import define, field, frozen

from fredfw.collectives import Schedule
from fredfw.fabric import Admission, FlowSet
from fredfw.simulation import answers
from fredfw.simulation.assignment import COLLECTIVE, COMPUTE, Assignment
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.sharing import SharingPolicy
from fredfw.simulation.timeline import Span
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import TaskGraph

# A repetition takes this share of the sum of what its parts take at least, or more, however it is rounded.
_SURELY = 1 - 1e-9
# A block of fewer repetitions has none to jump over.
_LEAST = 4


@frozen
class Block:
    """A repeated block, written out.

    Args:
        first: First task of its first repetition.
        length: Tasks of a repetition.
        times: Repetitions.
    """

    first: int
    length: int
    times: int

    def tasks(self, repetition: int) -> range:
        """Return the tasks of a repetition."""
        first = self.first + repetition * self.length
        return range(first, first + self.length)

    def place(self, task: int) -> int:
        """Return which task of its repetition ``task`` is."""
        return (task - self.first) % self.length

    def repetition(self, task: int) -> int:
        """Return which repetition ``task`` is in."""
        return (task - self.first) // self.length


def blocks(graph: TaskGraph) -> Iterator[Block]:
    """Yield the repeated blocks of ``graph``, numbered as ``graph.expanded()`` numbers their tasks."""
    repeats, numbers = graph.repeats.tolist(), graph.blocks.tolist()
    start = first = 0
    while start < len(graph):
        stop = start + 1
        while numbers[start] >= 0 and stop < len(graph) and numbers[stop] == numbers[start]:
            stop += 1
        yield Block(first, stop - start, repeats[start])
        first += (stop - start) * repeats[start]
        start = stop


@define(eq=False)
class Unit:
    """Ranks that run a block together.

    Args:
        block: It.
        loads: Bytes of a repetition on each of the ``(links,)``, by label.
        peaks: ``(links,)`` bytes per second that it never exceeds.
        moving: Seconds that the collectives of a repetition take at least.
        classes: Of its flows.
        flows: Those of each phase of a repetition.
        since: When the repetition began that it is in, or the first of those that it jumps over.
        left: Repetitions from then on.
        period: Seconds of each; NaN if not known.
        least: Seconds of each at least.
        cycle: The spans of a repetition.
        jumps: Repetitions that it jumps over.
    """

    block: Block
    loads: dict[str, FloatArray]
    peaks: FloatArray
    moving: float
    classes: frozenset[int]
    flows: tuple[FlowSet, ...]
    since: float = math.nan
    left: int = 0
    period: float = math.nan
    least: float = 0.0
    cycle: list[Span] = field(factory=list)
    jumps: int = 0

    @property
    def leaves(self) -> float:
        """When it gets to the last repetition, if nothing disturbs it, or else at the earliest."""
        return self.since + (self.left - 1) * (self.least if math.isnan(self.period) else self.period)


@define(eq=False)
class _Piece:
    """Ranks that have begun a task together, and those of them that have not ended it."""

    ranks: IntArray
    left: set[int]


class Repeats:
    """What is under way of a graph, and which units may jump.

    Args:
        graph: With its blocks as they were built.
        tasks: The graph with its blocks written out, on a fabric.
        lowering: Turns collectives into flows.
        sharing: How links are shared.
        admission: Lets flows start.

    Attributes:
        skipped: Repetitions of units that were jumped over.
        loads: Bytes of those on each of the ``(links,)``, by label.
    """

    def __init__(
        self, graph: TaskGraph, tasks: Assignment, lowering: Lowering, sharing: SharingPolicy, admission: Admission
    ) -> None:
        self._bandwidths = lowering.fabric.bandwidths
        self.skipped = 0
        self.loads: dict[str, FloatArray] = {}
        self._tasks = tasks
        self._lowering = lowering
        self._admission = admission
        self._block_of: dict[int, Block] = {}  # of tasks that are neither in the first nor in the last repetition
        if answers.max_min_in_class(sharing):
            for block in blocks(graph):
                if block.times >= _LEAST and self._is_chain(block):
                    middle = range(block.first + block.length, block.first + block.length * (block.times - 1))
                    self._block_of.update(dict.fromkeys(middle, block))
        self._units: dict[tuple[int, bytes], Unit | None] = {}
        self._under_way: dict[int, list[_Piece]] = {}  # of the tasks in blocks
        self._asleep: dict[int, Unit] = {}  # units that jump, by identity
        self._compatible: dict[frozenset[int], bool] = {}  # by the identities of units, which are kept
        self._others = 0  # pieces of other tasks
        self._quiet_since = 0.0

    def __bool__(self) -> bool:
        return bool(self._block_of)

    def begin(self, task: int, ranks: IntArray, pieces: int) -> None:
        """Note that ``ranks`` have begun ``task``; they end it in that many pieces at most."""
        if task in self._block_of:
            self._under_way.setdefault(task, []).append(_Piece(ranks, set(ranks.tolist())))
        else:
            self._others += pieces

    def end(self, task: int, ranks: IntArray, pieces: int, now: float) -> None:
        """Note that ``ranks`` have ended ``task``, in so many of those pieces."""
        if task not in self._block_of:
            self._others -= pieces
            self._quiet_since = now
            return
        pieces_of = self._under_way[task]
        for piece in pieces_of:  # ranks that have not begun together may end together
            piece.left.difference_update(ranks.tolist())
        pieces_of[:] = [piece for piece in pieces_of if piece.left]
        if not pieces_of:
            del self._under_way[task]

    def jump(self, task: int, spans: Sequence[Span], now: float) -> Unit | None:
        """Return a unit that jumps now, if the last of ``spans``, of ``task``, has ended a repetition of it."""
        block = self._block_of.get(task)
        if block is None or block.place(task) != block.length - 1:
            return None
        unit = self._unit(block, spans[-1].ranks)
        if unit is None:
            return None
        unit.since, unit.left = now, block.times - 1 - block.repetition(task)
        cycle = _cycle(spans, block)
        if cycle:
            computing = sum(one.end - one.start for one in cycle if self._tasks.kinds[one.task] == COMPUTE)
            unit.least = (computing + unit.moving) * _SURELY
        others = self._active()
        if others is None or not self._apart(unit, others):
            unit.period = math.nan
            return None
        if cycle and cycle[0].start >= self._quiet_since:
            unit.cycle, unit.period = cycle, now - cycle[0].start
        if not unit.period > 0:  # or not known
            return None
        until = math.inf
        for one in others:
            if not (one.since >= self._quiet_since and one.leaves > now):  # or not known
                return None
            until = min(until, one.leaves)
        unit.jumps = int(min(unit.left - 1, (until - now) // unit.period))
        if unit.jumps < 1:
            return None
        self._asleep[id(unit)] = unit
        self.skipped += unit.jumps
        for label, loads in unit.loads.items():
            self.loads[label] = self.loads.get(label, 0.0) + unit.jumps * loads
        return unit

    def wake(self, unit: Unit, now: float) -> None:
        """Note that ``unit`` goes on, behind what it has jumped over."""
        del self._asleep[id(unit)]
        unit.since = now
        unit.left -= unit.jumps

    def _active(self) -> list[Unit] | None:
        """Return all units but the one that has just ended a repetition, if nothing else is under way."""
        if self._others:
            return None
        found = list(self._asleep.values())
        for task, pieces in self._under_way.items():
            block = self._block_of[task]
            for piece in pieces:
                unit = self._unit(block, piece.ranks)
                # Some of its ranks may have gone on, or it may have come together since it was last looked at.
                if (
                    unit is None
                    or len(piece.left) < len(piece.ranks)
                    or block.repetition(task) != block.times - unit.left
                ):
                    return None
                found.append(unit)
        return found

    def _apart(self, unit: Unit, others: Sequence[Unit]) -> bool:
        """Return whether the flows of ``unit`` and those of ``others`` do not affect each other."""
        if len(unit.classes.union(*(one.classes for one in others))) > 1:
            return False
        theirs: FloatArray = np.sum([one.peaks for one in others], axis=0) if others else np.zeros(len(unit.peaks))
        shared = (unit.peaks > 0) & (theirs > 0)
        return bool((unit.peaks + theirs <= self._bandwidths)[shared].all()) and self._admitted([unit, *others])

    def _admitted(self, units: Sequence[Unit]) -> bool:
        """Return whether no flow of ``units`` waits, whenever each of them sends what."""
        key = frozenset(map(id, units))
        if key not in self._compatible:
            flows = [flows for one in units for flows in one.flows]
            self._compatible[key] = answers.compatible(self._admission, flows)
        return self._compatible[key]

    def _unit(self, block: Block, ranks: IntArray) -> Unit | None:
        """Return the unit of ``ranks``, or ``None`` if what its flows do is not known beforehand."""
        key = block.first, ranks.tobytes()
        if key not in self._units:
            self._units[key] = self._built(block, ranks)
        return self._units[key]

    def _built(self, block: Block, ranks: IntArray) -> Unit | None:
        tasks, count = self._tasks, len(self._bandwidths)
        loads: dict[str, FloatArray] = {}
        peaks, moving = np.zeros(count), 0.0
        sent: dict[int, FlowSet] = {}  # by identity, since a repetition may send the same more than once
        for task in block.tasks(1):
            if tasks.kinds[task] == COMPUTE:
                continue
            table, label = tasks.table(task), tasks.labels[task]
            members = np.isin(table.groups, ranks)
            mine = members[:, 0]
            if (members != mine[:, None]).any():
                return None  # others of a group are not in step with these
            peak, least = np.zeros(count), 0.0
            for share in tasks.planned(task):
                groups = np.flatnonzero(mine if share.served is None else mine & share.served)
                found = self._foreseen(share.plan.schedule, table.nodes[groups], label) if len(groups) else None
                if len(groups) and found is None:
                    return None
                if found is not None:
                    loads[label] = loads.get(label, np.zeros(count)) + found[0]
                    peak += found[1]
                    least = max(least, found[2])
                    sent.update((id(flows), flows) for flows in found[3])
            np.maximum(peaks, peak, out=peaks)
            moving += least
        used = {tasks.priority[label] for label in loads}
        return Unit(block, loads, peaks, moving, frozenset(used), tuple(sent.values()))

    def _foreseen(
        self, schedule: Schedule, groups: IntArray, label: str
    ) -> tuple[FloatArray, FloatArray, float, list[FlowSet]] | None:
        """Return bytes on each of the ``(links,)``, bytes per second never exceeded, least seconds, and flows by phase.

        ``None`` where they are decided when flows start.
        """
        count, priority = len(self._bandwidths), self._tasks.priority[label]
        turns = all(phase.after == (index - 1,) for index, phase in enumerate(schedule.phases) if index)
        loads = np.zeros(count)
        sent: list[FlowSet] = []
        keys: list[IntArray] = [np.zeros(0, dtype=np.intp)]  # of sender and link
        rates: list[FloatArray] = [np.zeros(0)]
        # Rank by rank, only what a rank sends itself is sure to be over before it goes on.
        draining = np.zeros(groups.size)
        for index, phase in enumerate(schedule.phases):
            if not schedule.uniform(phase):
                return None
            flows = self._lowering.phase(schedule, index, groups, priority=priority, label=label)
            sent.append(flows)
            routes = flows.routes
            flow = np.repeat(np.arange(len(routes)), np.diff(routes.offsets))
            shares = np.ones(len(flow)) if routes.coefficients is None else routes.coefficients
            loads += np.bincount(routes.links, flows.totals[flow] * shares, count)
            # The narrowest of its links limits a flow. Ranks send in one phase at a time, if phases take turns.
            limit = np.full(len(routes), np.inf)
            alone = self._bandwidths[routes.links]
            np.minimum.at(limit, flow, np.divide(alone, shares, out=np.full(len(flow), np.inf), where=shares > 0))
            ends = self._lowering.ends(phase)
            senders = np.concatenate([ends.sources, [sources[0] for sources, _ in ends.streams]]).astype(np.intp)
            sender = np.tile(senders, len(groups)) + np.repeat(np.arange(len(groups)), len(ends)) * schedule.ranks
            drains = np.zeros(groups.size)
            np.maximum.at(drains, sender, flows.totals / limit)
            draining = draining + drains if turns else np.maximum(draining, drains)
            key, which = np.unique(sender[flow] * count + routes.links, return_inverse=True)
            keys.append(key if turns else key + index * groups.size * count)
            rates.append(np.bincount(which, limit[flow] * shares, len(key)).astype(float))
        key, which = np.unique(np.concatenate(keys), return_inverse=True)
        most = np.zeros(len(key))
        np.maximum.at(most, which, np.concatenate(rates))
        return loads, np.bincount(key % count, most, count).astype(float), float(draining.max()), sent

    def _is_chain(self, block: Block) -> bool:
        """Return whether each task of ``block`` comes after the one before it alone, on the same ranks."""
        tasks = self._tasks
        return all(
            tasks.before(task) == [task - 1]
            and tasks.kinds[task] in (COMPUTE, COLLECTIVE)
            and tasks.shared_slots(task - 1, task) is None
            and tasks.table(task).memberships is None
            for task in block.tasks(1)
        )


def _cycle(spans: Sequence[Span], block: Block) -> list[Span]:
    """Return the spans of the repetition that the last of ``spans`` ends, or none where its ranks did not keep step."""
    found, span = [], spans[-1]
    for _ in range(block.length):
        found.append(span)
        before = spans[span.trigger] if span.trigger >= 0 else None
        if before is None or before.task != span.task - 1 or before.end != span.start:
            return []
        if not np.array_equal(before.ranks, span.ranks):
            return []
        span = before
    return found[::-1]
