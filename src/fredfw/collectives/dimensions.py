"""Collectives over the dimensions of a group: an order of dimensions, and one step algorithm for each of them.

A reduce-scatter goes along the dimensions one after the other, each time on the block that the one before has left; an
all-gather goes the way back, and an all-reduce both ways. ``ring``, ``hierarchical``, ``torus-ring``, ``h-ring`` and
``themis`` are such orders with such step algorithms, and shares of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import count

import numpy as np
from attrs import evolve, field, frozen

from fredfw.collectives.pattern import Pattern
from fredfw.collectives.schedule import Phase, Schedule, in_series
from fredfw.errors import ScheduleError
from fredfw.fabric.view import GroupView, Level
from fredfw.typing import FloatArray, IntArray

STEPS = "ring", "bidirectional-ring", "direct", "halving-doubling", "in-network"
"""The step algorithms: what the ranks that differ in one dimension alone do with each other."""
PATTERNS = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER})
"""What a collective over dimensions can do."""


def step_of(level: Level) -> str:
    """Return the step algorithm that fits the kind of ``level`` best.

    A ring uses both ways round where it has them, a fully-connected level all links at once (direct), a switch takes
    the fewest steps (halving-doubling; a ring where its size is no power of two), and a line is a ring whose last
    position sends all the way back. That is also the choice of Rashidi et al., "Themis", ISCA 2022, section 2.
    """
    if level.kind == "fully-connected":
        return "direct"
    if level.kind == "switch":
        return "halving-doubling" if _is_power_of_two(level.size) else "ring"
    return "bidirectional-ring" if _is_ring(level) and level.two_way else "ring"


@frozen(eq=False)
class LevelSteps:
    """The step algorithm of each level of a group, and the schedules that they make.

    Args:
        view: The group.
        steps: One for each of its levels.

    Raises:
        ScheduleError: There are not as many as levels.
    """

    view: GroupView
    steps: tuple[str, ...]

    @cached_property
    def _grid(self) -> _Grid:
        return _Grid.of(self.view.require_levels())

    def __attrs_post_init__(self) -> None:
        if len(self.steps) != len(self.view.levels):
            raise ScheduleError(f"{len(self.steps)} step algorithms for {len(self.view.levels)} levels")

    @classmethod
    def of(cls, view: GroupView, step: str) -> LevelSteps:
        """Return ``step`` for all levels of ``view``, or for each the one that fits its kind best (``by-kind``)."""
        return cls(view, tuple(step_of(level) if step == "by-kind" else step for level in view.levels))

    def refusal(self) -> str | None:
        """Return why the group has no levels, or a step algorithm cannot be done along its own; else ``None``."""
        if self.view.unstructured:
            return self.view.unstructured
        for step, level in zip(self.steps, self.view.levels, strict=True):
            where = f"along a {level.kind} level of {level.size}"
            if step == "halving-doubling" and not _is_power_of_two(level.size):
                return f"halving-doubling needs a power of two of positions, and goes {where}"
            if step == "bidirectional-ring" and not (level.kind == "ring" and level.two_way):
                return f"a bidirectional ring needs a ring with links both ways, and goes {where}"
            if step == "in-network" and not any(
                offers.reduces and offers.multicasts for offers in (self.view.capabilities, level.offers)
            ):
                return f"the network does not combine and copy streams for this group {where}"
        return None

    def busy_times(self, order: Sequence[int], pattern: Pattern = Pattern.REDUCE_SCATTER) -> FloatArray:
        """Return the ``(levels,)`` seconds per byte for which the links of each level are busy, without latency.

        Args:
            order: The levels in the order of a reduce-scatter.
            pattern: What is done. An all-gather takes as long as a reduce-scatter, an all-reduce twice that.
        """
        both = pattern is Pattern.ALL_REDUCE
        times, left = np.zeros(len(self.steps)), 1.0
        for number, place in enumerate(order):
            step, level = self.steps[place], self.view.levels[place]
            last = both and step == "in-network" and number == len(order) - 1
            sent = left if step == "in-network" else left * (level.size - 1) / level.size
            times[place] = sent * (2 if both and not last else 1) / (level.bandwidth * self._links(place))
            left /= level.size
        return times

    def _links(self, place: int) -> float:
        """Return the links that each rank sends on at once along a level."""
        step, level = self.steps[place], self.view.levels[place]
        if step == "bidirectional-ring" and _is_ring(level):
            return 2.0
        return level.size - 1.0 if step == "direct" and level.kind == "fully-connected" else 1.0

    def latencies(self) -> FloatArray:
        """Return the ``(levels,)`` seconds that a reduce-scatter or an all-gather of no bytes takes along each."""
        return np.array(
            [_count(step, level.size) * level.latency for step, level in zip(self.steps, self.view.levels, strict=True)]
        )

    def schedule(self, pattern: Pattern, size: float, order: Sequence[int] | None = None, *, way: int = 1) -> Schedule:
        """Return what ``dimension_schedule`` does; each stage, all that is done along a level, is a turn on a channel.

        The other ``way`` round a ring has a channel of its own.

        Raises:
            InputError: The group is not a full product of positions.
            ScheduleError: As ``dimension_schedule``.
        """
        levels = len(self.steps)
        whole = _schedule(pattern, size, self._grid, order, steps=self.steps, way=way, channels=True)
        if way > 0:
            return whole
        own = [place + levels * _is_ring(level) for place, level in enumerate(self.view.levels)]
        return evolve(whole, phases=[evolve(phase, channel=own[phase.channel]) for phase in whole.phases])


def _is_ring(level: Level) -> bool:
    """Return whether the two ways round ``level`` are different links."""
    return level.kind == "ring" and level.size > 2


def _count(step: str, positions: int) -> int:
    """Return how many steps a reduce-scatter takes along ``positions``, one after the other."""
    if step == "halving-doubling":
        return positions.bit_length() - 1
    if step == "in-network":
        return positions
    return 1 if step == "direct" else positions - 1


def dimension_schedule(
    pattern: Pattern,
    size: float,
    coordinates: IntArray,
    order: Sequence[int] | None = None,
    *,
    steps: str | Sequence[str] = "ring",
    way: int = 1,
    channels: bool = False,
) -> Schedule:
    """Return an all-reduce, reduce-scatter or all-gather along each dimension in turn.

    The ranks that differ in one coordinate alone do the step algorithm of that dimension. A ``ring`` of k passes one
    block per step on to the neighbour, in one phase of k - 1 steps (Patarasuk and Yuan, "Bandwidth optimal all-reduce
    algorithms for clusters of workstations", 2009; several dimensions: Cho et al., "BlueConnect", MLSys 2019); a
    ``bidirectional-ring`` half a block each way. ``direct`` exchanges all blocks at once. ``halving-doubling`` takes
    log2 k steps (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
    2005). ``in-network`` has the network combine or copy; the last dimension of an all-reduce is one stream then.

    Args:
        pattern: One of the three.
        size: Bytes of the per-rank buffer.
        coordinates: ``(ranks, dimensions)`` position of each rank, ``0 .. k - 1`` in each; every combination once.
        order: Dimensions in the order of the reduce-scatter; by default as they come.
        steps: The step algorithm of each dimension, or one for all.
        way: 1 for rings that pass to the next position, -1 to the previous one.
        channels: Whether what is done along dimension ``d`` takes turns on channel ``d`` with what other schedules do.

    Raises:
        ScheduleError: Another pattern, coordinates that are not a full product, a step algorithm that does not exist,
            or halving-doubling along a dimension whose size is not a power of two.
    """
    return _schedule(pattern, size, _Grid.of(coordinates), order, steps=steps, way=way, channels=channels)


def _schedule(
    pattern: Pattern,
    size: float,
    grid: _Grid,
    order: Sequence[int] | None,
    *,
    steps: str | Sequence[str],
    way: int,
    channels: bool,
) -> Schedule:
    """Return what ``dimension_schedule`` does."""
    if pattern not in PATTERNS:
        raise ScheduleError(f"collectives over dimensions do not do {pattern}")
    n, dimensions = grid.coordinates.shape
    order = tuple(range(dimensions)) if order is None else tuple(order)
    chosen = (steps,) * dimensions if isinstance(steps, str) else tuple(steps)
    for step in chosen:
        if step not in STEPS:
            raise ScheduleError(f"there is no step algorithm {step!r}, only {', '.join(STEPS)}")
    sizes = grid.rank_at.shape
    along = [dimension for dimension in order if sizes[dimension] > 1]
    halves = 2 if "bidirectional-ring" in chosen else 1
    # The blocks are numbered by coordinates, those of the first dimension most significant: what a dimension still has
    # to scatter is then always one run of chunks from ``base``, cut into one block per position.
    base = np.zeros(n, dtype=np.intp)
    block = n * halves
    turns = count()
    scatters: list[Phase] = []
    gathers: list[Phase] = []
    for dimension in along:
        positions = sizes[dimension]
        block //= positions
        line = _Line(positions, grid, dimension, base, block, way)
        scatter, gather = _phases_of(chosen[dimension], line, pattern, last=dimension == along[-1])
        if channels:
            scatter, gather = (_as_turn(stage, dimension, next(turns)) for stage in (scatter, gather))
        scatters += scatter
        gathers[:0] = gather
        base = base + line.x * block
    owner = None if pattern is Pattern.ALL_REDUCE else np.repeat(grid.rank_at.transpose(order).ravel(), halves)
    return Schedule(pattern, n, size / (n * halves), n * halves, in_series(scatters + gathers), owner=owner)


def _as_turn(stage: list[Phase], channel: int, turn: int) -> list[Phase]:
    """Return the phases of a stage as one turn on ``channel``."""
    return [evolve(phase, channel=channel, turn=turn if len(stage) > 1 else -1) for phase in stage]


@frozen(eq=False)
class _Grid:
    """The ranks of a group by their positions. Who exchanges with whom is the same array whenever it is asked for.

    Args:
        coordinates: ``(ranks, dimensions)`` position of each rank.
        rank_at: Rank at each place of the group, one axis per dimension.
        place: ``(ranks,)`` index of each into the raveled ``rank_at``.
        ranks: ``(ranks,)`` numbers of all.
    """

    coordinates: IntArray
    rank_at: IntArray
    place: IntArray
    ranks: IntArray
    _known: dict[tuple[str, int, int], IntArray] = field(factory=dict)

    @classmethod
    def of(cls, coordinates: IntArray) -> _Grid:
        """Return the grid of ``(ranks, dimensions)`` positions.

        Raises:
            ScheduleError: They are not a full product.
        """
        n, sizes = len(coordinates), coordinates.max(axis=0) + 1
        place = np.ravel_multi_index(tuple(coordinates.T), tuple(sizes))
        if int(np.prod(sizes)) != n or np.bincount(place).max() > 1:
            raise ScheduleError(f"{n} ranks are not a full product of {sizes.tolist()} positions")
        rank_at, ranks = np.empty(sizes, dtype=np.intp), np.arange(n)
        rank_at.ravel()[place] = ranks
        return cls(coordinates, rank_at, place, ranks)

    def x(self, dimension: int) -> IntArray:
        """Return the ``(ranks,)`` position of each along ``dimension``."""
        return self._once("x", dimension, 0, lambda: np.ascontiguousarray(self.coordinates[:, dimension]))

    def shifted(self, dimension: int, distance: int) -> IntArray:
        """Return the ``(ranks,)`` positions that are ``distance`` on from each along ``dimension``, round its line."""
        size = self.rank_at.shape[dimension]
        return self._once("shifted", dimension, distance, lambda: (self.x(dimension) + distance) % size)

    def on(self, dimension: int, distance: int) -> IntArray:
        """Return the ``(ranks,)`` ranks that are ``distance`` positions on from each, round its line."""
        return self._once(
            "on", dimension, distance, lambda: np.roll(self.rank_at, -distance, axis=dimension).ravel()[self.place]
        )

    def across(self, dimension: int, bit: int) -> IntArray:
        """Return the ``(ranks,)`` ranks at the position of each with that ``bit`` of it the other one."""
        x = self.x(dimension)
        return self._once("across", dimension, bit, lambda: self.at(dimension, x ^ bit))

    def at(self, dimension: int, positions: IntArray) -> IntArray:
        """Return the ``(ranks,)`` ranks at other ``positions`` along ``dimension``."""
        ranks: IntArray = self.rank_at.ravel()[self.place + (positions - self.x(dimension)) * self.stride(dimension)]
        return ranks

    def stride(self, dimension: int) -> int:
        """Return how far neighbours along ``dimension`` are apart in the raveled ``rank_at``."""
        return int(np.prod(self.rank_at.shape[dimension + 1 :]))

    def _once(self, what: str, dimension: int, by: int, find: Callable[[], IntArray]) -> IntArray:
        key = what, dimension, by
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]


@frozen(eq=False)
class _Line:
    """All lines of ranks that differ in one dimension alone, and the blocks that they share.

    Args:
        positions: Ranks of each line.
        grid: The ranks.
        dimension: The axis of these lines.
        base: ``(ranks,)`` first chunk of what the line of each shares.
        block: Chunks of the share of each.
        way: 1 for rings that pass to the next position, -1 to the previous one.
    """

    positions: int
    grid: _Grid
    dimension: int
    base: IntArray
    block: int
    way: int

    @property
    def x(self) -> IntArray:
        """``(ranks,)`` position of each rank in its line."""
        return self.grid.x(self.dimension)

    def on(self, distance: int) -> IntArray:
        """Return the ``(ranks,)`` ranks that are ``distance`` positions on from each, round the line."""
        return self.grid.on(self.dimension, distance)

    @cached_property
    def both_ways(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Two rows for each rank: the rank, the next or the previous one of its line, the rank's base, 1 or -1."""
        neighbours = np.stack([self.on(1), self.on(-1)], axis=1)
        # By the neighbours' numbers, for flows are found in one pass then.
        order = np.argsort(neighbours, axis=1)
        source = np.repeat(np.arange(len(self.x)), 2)
        ways = np.array([1, -1])[order].ravel()
        return source, np.take_along_axis(neighbours, order, axis=1).ravel(), np.repeat(self.base, 2), ways

    @cached_property
    def others(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """A row for each rank and each other one of its line: the rank, the other, the rank's base, its position."""
        source = np.repeat(np.arange(len(self.x)), self.positions - 1)
        own = self.x[source]
        position = np.tile(np.arange(self.positions - 1), len(self.x))
        position += position >= own
        place = self.grid.place[source] + (position - own) * self.grid.stride(self.dimension)
        return source, self.grid.rank_at.ravel()[place], self.base[source], position

    def at(self, positions: IntArray) -> IntArray:
        """Return the ``(ranks,)`` ranks at other ``positions`` of the line of each."""
        return self.grid.at(self.dimension, positions)


def _phases_of(step: str, line: _Line, pattern: Pattern, *, last: bool) -> tuple[list[Phase], list[Phase]]:
    """Return the phases of the reduce-scatter and of the all-gather along ``line``, of which ``pattern`` has."""
    if step == "in-network" and last and pattern is Pattern.ALL_REDUCE:
        return [_streamed_all_reduce(line)], []
    makers = _ring, _bidirectional_ring, _direct, _halving_doubling, _streamed
    make: Callable[..., list[Phase]] = dict(zip(STEPS, makers, strict=True))[step]
    scatter = [] if pattern is Pattern.ALL_GATHER else make(line, reduce=True)
    gather = [] if pattern is Pattern.REDUCE_SCATTER else make(line, reduce=False)
    return scatter, gather


def _ring(line: _Line, *, reduce: bool) -> list[Phase]:
    # A block that is reduced starts its way just behind its owner, so that it gets there last.
    first = line.grid.shifted(line.dimension, -line.way) if reduce else line.x
    return [
        Phase.of(
            line.grid.ranks,
            line.on(line.way),
            first * line.block,
            base=line.base,
            count=line.block,
            stride=-line.way * line.block,
            modulus=line.positions * line.block,
            reduce=reduce,
            repeat=line.positions - 1,
        )
    ]


def _bidirectional_ring(line: _Line, *, reduce: bool) -> list[Phase]:
    """Return one phase in which the first half of every block goes one way round, and the second the other."""
    source, destination, base, way = line.both_ways
    x = line.x[source]
    return [
        Phase.of(
            source,
            destination,
            ((x - way) % line.positions if reduce else x) * line.block + np.where(way > 0, 0, line.block // 2),
            base=base,
            count=line.block // 2,
            stride=-way * line.block,
            modulus=line.positions * line.block,
            reduce=reduce,
            repeat=line.positions - 1,
        )
    ]


def _direct(line: _Line, *, reduce: bool) -> list[Phase]:
    source, destination, base, position = line.others
    return [
        Phase.of(
            source,
            destination,
            (position if reduce else line.x[source]) * line.block,
            base=base,
            count=line.block,
            modulus=line.positions * line.block,
            reduce=reduce,
        )
    ]


def _halving_doubling(line: _Line, *, reduce: bool) -> list[Phase]:
    if not _is_power_of_two(line.positions):
        raise ScheduleError(f"halving-doubling along {line.positions} positions, which is not a power of two")
    phases = []
    for exponent in reversed(range(line.positions.bit_length() - 1)):
        # The half that goes on belongs to those who keep it.
        kept = line.x ^ (1 << exponent) if reduce else line.x
        phases.append(
            Phase.of(
                line.grid.ranks,
                line.grid.across(line.dimension, 1 << exponent),
                (kept >> exponent << exponent) * line.block,
                base=line.base,
                count=line.block << exponent,
                modulus=line.positions * line.block,
                reduce=reduce,
            )
        )
    return phases if reduce else phases[::-1]


def _streamed(line: _Line, *, reduce: bool) -> list[Phase]:
    """Return one stream for the block of each rank, one after the other along its line: all reduced, or all copied."""
    rank = line.grid.ranks
    phase = partial(Phase.of, base=line.base, count=line.block, modulus=line.positions * line.block)
    if reduce:
        owner = [line.at(np.full(len(rank), position)) for position in range(line.positions)]
        return [phase(rank, one, place * line.block, stream=one) for place, one in enumerate(owner)]
    found = []
    for position in range(line.positions):
        source, others = line.at(np.full(len(rank), position)), line.x != position
        one = phase(source, rank, position * line.block, stream=source)
        columns = ("source", "destination", "base", "offset", "stride", "modulus", "count", "reduce", "stream")
        found.append(evolve(one, **{column: getattr(one, column)[others] for column in columns}))
    return found


def _streamed_all_reduce(line: _Line) -> Phase:
    """Return the phase in which the network adds up what is left, and gives it to every rank of a line."""
    rank, everything = line.grid.ranks, line.positions * line.block
    first = line.at(np.zeros(len(rank), dtype=np.intp))
    return Phase.of(rank, rank, 0, base=line.base, count=everything, modulus=everything, stream=first)


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
