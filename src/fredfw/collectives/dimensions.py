"""Collectives over the dimensions of a group: an order of dimensions, and one step algorithm for each of them.

A reduce-scatter goes along them in turn, each on what the last has left, an all-gather back, an all-reduce both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from itertools import count

import numpy as np
from attrs import evolve, frozen

from fredfw.collectives.pattern import Pattern
from fredfw.collectives.schedule import Phase, Schedule, in_series
from fredfw.errors import ScheduleError
from fredfw.fabric.view import GroupView, Level
from fredfw.keeping import kept
from fredfw.typing import FloatArray, IntArray

_TOLERANCE = 1e-12  # what is left of numbers of order 1 when they cancel
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
    """The step algorithm of each level of a group, ``ScheduleError`` if there are not as many, and their schedules."""

    view: GroupView
    steps: tuple[str, ...]

    @cached_property
    def _grid(self) -> _Grid:
        return _Grid(self.view.require_levels())

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
            offers = self.view.capabilities, level.offers
            if step == "in-network" and not any(one.reduces and one.multicasts for one in offers):
                return f"the network does not combine and copy streams for this group {where}"
        return None

    def busy_times(self, order: Sequence[int], pattern: Pattern = Pattern.REDUCE_SCATTER) -> FloatArray:
        """Return the ``(levels,)`` seconds per byte for which the links of each are busy, without latency.

        ``order`` is that of a reduce-scatter. An all-gather takes as long as that, an all-reduce twice as long.
        """
        both = pattern is Pattern.ALL_REDUCE
        times, left = np.zeros(len(self.steps)), 1.0
        for number, place in enumerate(order):
            step, level = self.steps[place], self.view.levels[place]
            last = both and step == "in-network" and number == len(order) - 1
            sent = left if step == "in-network" else left * (level.size - 1) / level.size
            links = 2.0 if step == "bidirectional-ring" and _is_ring(level) else 1.0
            if step == "direct" and level.kind == "fully-connected":
                links = level.size - 1.0
            times[place] = sent * (2 if both and not last else 1) / (level.bandwidth * links)
            left /= level.size
        return times

    def latencies(self) -> FloatArray:
        """Return the ``(levels,)`` seconds that a reduce-scatter or an all-gather of no bytes takes along each."""
        pairs = zip(self.steps, self.view.levels, strict=True)
        return np.array([_count(step, level.size) * level.latency for step, level in pairs])

    def schedule(self, pattern: Pattern, size: float, order: Sequence[int] | None = None, *, way: int = 1) -> Schedule:
        """Return an all-reduce, reduce-scatter or all-gather along each level in turn.

        A ``ring`` of k passes one block per step on to the neighbour, in one phase of k - 1 steps (Patarasuk and Yuan,
        "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009; several levels: Cho et al.,
        "BlueConnect", MLSys 2019); a ``bidirectional-ring`` half a block each way. ``direct`` exchanges all blocks at
        once. ``halving-doubling`` takes log2 k steps, k a power of two (Thakur, Rabenseifner and Gropp, "Optimization
        of collective communication operations in MPICH", IJHPCA 2005). ``in-network`` has the network combine or copy;
        the last level of an all-reduce is one stream then. All along a level in one direction is a turn on a channel.

        ``size`` is bytes of the per-rank buffer, ``order`` that of the levels in a reduce-scatter, by default as they
        come, ``way`` 1 for rings to the next position, or -1 to the previous one, with channels of their own.
        ``InputError`` where the group is not a full product of positions, ``ScheduleError`` for impossible steps.
        """
        levels = self.view.levels
        channels = [place + len(levels) * (way < 0 and _is_ring(level)) for place, level in enumerate(levels)]
        return _schedule(pattern, size, self._grid, order, self.steps, way, channels)


def ring_schedule(
    pattern: Pattern,
    size: float,
    coordinates: IntArray,
    order: Sequence[int] | None = None,
    *,
    step: int = 1,
    channels: bool = False,
) -> Schedule:
    """Return an all-reduce, reduce-scatter or all-gather by rings along each dimension in turn, as ``LevelSteps`` does.

    Args:
        pattern: One of the three; another one is a ``ScheduleError``.
        size: Bytes of the per-rank buffer.
        coordinates: ``(ranks, dimensions)`` position of each rank, ``0 .. k - 1`` in each; every combination once.
        order: Dimensions in the order of the reduce-scatter; by default as they come.
        step: 1 to pass to the next position, -1 to the previous one.
        channels: Whether the phases of dimension ``d`` name channel ``d``, to take turns with other schedules' on it.
    """
    steps = ("ring",) * coordinates.shape[1]
    return _schedule(pattern, size, _Grid(coordinates), order, steps, step, range(len(steps)) if channels else None)


def balanced_shares(times: FloatArray) -> FloatArray:
    """Return the shares of the parts, 0 or more with a sum of 1, for which the busiest resource is busy least.

    ``times`` are ``(resources, parts)`` seconds per byte, more than 0. With u = shares / time of the busiest, sum(u) is
    to be as large as possible while ``times @ u <= 1``. The simplex method with Bland's rule starts at u = 0 and ends
    at the optimum (Bland, "New finite pivoting rules for the simplex method", 1977).
    """
    resources, parts = times.shape
    limits = [times / times.max(), np.eye(resources), np.ones((resources, 1))]
    table = np.block([limits, [-np.ones((1, parts)), np.zeros((1, resources + 1))]])
    basis = np.arange(parts, parts + resources)
    while (improving := np.flatnonzero(table[-1, :-1] < -_TOLERANCE)).size:
        column = improving[0]
        usable = np.flatnonzero(table[:-1, column] > _TOLERANCE)
        ratios = table[usable, -1] / table[usable, column]
        tied = usable[ratios <= ratios.min() + _TOLERANCE]
        row = tied[basis[tied].argmin()]
        table[row] /= table[row, column]
        others = np.arange(resources + 1) != row
        table[others] -= np.outer(table[others, column], table[row])
        basis[row] = column
    u = np.zeros(parts + resources)
    u[basis] = table[:-1, -1]
    shares = np.where(u[:parts] > _TOLERANCE, u[:parts], 0.0)
    normalised: FloatArray = shares / shares.sum()
    return normalised


def _is_ring(level: Level) -> bool:
    return level.kind == "ring" and level.size > 2


def _count(step: str, positions: int) -> int:
    counts = {"halving-doubling": positions.bit_length() - 1, "in-network": positions, "direct": 1}
    return counts.get(step, positions - 1)


def _schedule(
    pattern: Pattern,
    size: float,
    grid: _Grid,
    order: Sequence[int] | None,
    steps: tuple[str, ...],
    way: int,
    channels: Sequence[int] | None,
) -> Schedule:
    if pattern not in PATTERNS:
        raise ScheduleError(f"collectives over dimensions do not do {pattern}")
    for step in steps:
        if step not in STEPS:
            raise ScheduleError(f"there is no step algorithm {step!r}, only {', '.join(STEPS)}")
    sizes, n = grid.rank_at.shape, len(grid.ranks)
    order = tuple(range(len(sizes)) if order is None else order)
    along = [dimension for dimension in order if sizes[dimension] > 1]
    halves = 2 if "bidirectional-ring" in steps else 1
    # The blocks are numbered by coordinates, those of the first dimension most significant: what a dimension still has
    # to scatter is then always one run of chunks from ``base``, cut into one block per position.
    base = np.zeros(n, dtype=np.intp)
    block = n * halves
    turns = count()
    scatters: list[Phase] = []
    gathers: list[Phase] = []
    for dimension in along:
        block //= sizes[dimension]
        line = _Line(sizes[dimension], grid, dimension, base, block, way)
        scatter, gather = _phases_of(steps[dimension], line, pattern, last=dimension == along[-1])
        if channels is not None:
            scatter, gather = (_as_turn(stage, channels[dimension], next(turns)) for stage in (scatter, gather))
        scatters += scatter
        gathers[:0] = gather
        base = base + line.x * block
    owner = None if pattern is Pattern.ALL_REDUCE else np.repeat(grid.rank_at.transpose(order).ravel(), halves)
    return Schedule(pattern, n, size / (n * halves), n * halves, in_series(scatters + gathers), owner=owner)


def _as_turn(stage: list[Phase], channel: int, turn: int) -> list[Phase]:
    return [evolve(phase, channel=channel, turn=turn if len(stage) > 1 else -1) for phase in stage]


class _Grid:
    """The ranks of a group by their positions. Who exchanges with whom is the same array whenever it is asked for."""

    def __init__(self, coordinates: IntArray) -> None:
        n, sizes = len(coordinates), coordinates.max(axis=0) + 1
        place = np.ravel_multi_index(tuple(coordinates.T), tuple(sizes))
        if int(np.prod(sizes)) != n or np.bincount(place).max() > 1:
            raise ScheduleError(f"{n} ranks are not a full product of {sizes.tolist()} positions")
        self.coordinates = np.asfortranarray(coordinates)  # (ranks, dimensions) position of each rank
        self.ranks = np.arange(n)
        self.place = place  # (ranks,) index of each into the raveled `rank_at`
        self.rank_at = np.empty(sizes, dtype=np.intp)  # one axis per dimension
        self.rank_at.ravel()[place] = self.ranks
        self.known: dict[Hashable, IntArray] = {}


@frozen(eq=False)
class _Line:
    """All lines of ranks that differ in one dimension alone, and the blocks that they share; all arrays are by rank."""

    positions: int  # ranks of each line
    grid: _Grid  # the ranks
    dimension: int  # the axis of these lines
    base: IntArray  # first chunk of what the line of each rank shares
    block: int  # chunks of the share of each
    way: int  # 1 for rings that pass to the next position, -1 to the previous one

    @property
    def whole(self) -> int:
        return self.positions * self.block

    @property
    def x(self) -> IntArray:
        return self.grid.coordinates[:, self.dimension]

    def on(self, distance: int) -> IntArray:
        return kept(self.grid.known, (self.dimension, distance), lambda: self.at((self.x + distance) % self.positions))

    def across(self, bit: int) -> IntArray:
        return kept(self.grid.known, (self.dimension, "bit", bit), lambda: self.at(self.x ^ bit))

    def at(self, positions: IntArray | int, ranks: IntArray | None = None) -> IntArray:
        """Return the ranks at other ``positions`` of the lines of ``ranks``, all by default."""
        place, own = (self.grid.place, self.x) if ranks is None else (self.grid.place[ranks], self.x[ranks])
        stride = int(np.prod(self.grid.rank_at.shape[self.dimension + 1 :]))
        found: IntArray = self.grid.rank_at.ravel()[place + (positions - own) * stride]
        return found

    @cached_property
    def both_ways(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Two rows for each rank: the rank, the next or the previous one of its line, the rank's base, 1 or -1."""
        neighbours = np.stack([self.on(1), self.on(-1)], axis=1)
        # By the neighbours' numbers, for flows are found in one pass then.
        order = np.argsort(neighbours, axis=1)
        source = np.repeat(self.grid.ranks, 2)
        ways = np.array([1, -1])[order].ravel()
        return source, np.take_along_axis(neighbours, order, axis=1).ravel(), np.repeat(self.base, 2), ways

    @cached_property
    def others(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """A row for each rank and each other one of its line: the rank, the other, the rank's base, its position."""
        source = np.repeat(self.grid.ranks, self.positions - 1)
        position = np.tile(np.arange(self.positions - 1), len(self.x))
        position += position >= self.x[source]
        return source, self.at(position, source), self.base[source], position


def _phases_of(step: str, line: _Line, pattern: Pattern, *, last: bool) -> tuple[list[Phase], list[Phase]]:
    if step == "in-network" and last and pattern is Pattern.ALL_REDUCE:
        # The network adds up what is left, and gives it to every rank of a line.
        rank = line.grid.ranks
        return [Phase.of(rank, rank, 0, base=line.base, count=line.whole, modulus=line.whole, stream=line.at(0))], []
    makers = _ring, _bidirectional_ring, _direct, _halving_doubling, _streamed
    make: Callable[..., list[Phase]] = dict(zip(STEPS, makers, strict=True))[step]
    scatter = [] if pattern is Pattern.ALL_GATHER else make(line, reduce=True)
    gather = [] if pattern is Pattern.REDUCE_SCATTER else make(line, reduce=False)
    return scatter, gather


def _ring(line: _Line, *, reduce: bool) -> list[Phase]:
    # A block that is reduced starts its way just behind its owner, so that it gets there last.
    first = (line.x - line.way) % line.positions if reduce else line.x
    phase = partial(Phase.of, base=line.base, modulus=line.whole, reduce=reduce, repeat=line.positions - 1)
    moved = first * line.block
    return [phase(line.grid.ranks, line.on(line.way), moved, count=line.block, stride=-line.way * line.block)]


def _bidirectional_ring(line: _Line, *, reduce: bool) -> list[Phase]:
    """Return one phase in which the first half of every block goes one way round, and the second the other."""
    source, destination, base, way = line.both_ways
    x, half = line.x[source], line.block // 2
    first = ((x - way) % line.positions if reduce else x) * line.block + np.where(way > 0, 0, half)
    phase = partial(Phase.of, base=base, modulus=line.whole, reduce=reduce, repeat=line.positions - 1)
    return [phase(source, destination, first, count=half, stride=-way * line.block)]


def _direct(line: _Line, *, reduce: bool) -> list[Phase]:
    source, destination, base, position = line.others
    first = (position if reduce else line.x[source]) * line.block
    return [Phase.of(source, destination, first, base=base, count=line.block, modulus=line.whole, reduce=reduce)]


def _halving_doubling(line: _Line, *, reduce: bool) -> list[Phase]:
    if not _is_power_of_two(line.positions):
        raise ScheduleError(f"halving-doubling along {line.positions} positions, which is not a power of two")
    phase = partial(Phase.of, line.grid.ranks, base=line.base, modulus=line.whole, reduce=reduce)
    phases = []
    for exponent in reversed(range(line.positions.bit_length() - 1)):
        # The half that goes on belongs to those who keep it.
        kept = line.x ^ (1 << exponent) if reduce else line.x
        first = (kept >> exponent << exponent) * line.block
        phases.append(phase(line.across(1 << exponent), first, count=line.block << exponent))
    return phases if reduce else phases[::-1]


def _streamed(line: _Line, *, reduce: bool) -> list[Phase]:
    """Return one stream for the block of each rank, one after the other along its line: all reduced, or all copied."""
    phase = partial(Phase.of, count=line.block, modulus=line.whole)
    rank, found = line.grid.ranks, []
    for position in range(line.positions):
        owner, first = line.at(position), position * line.block
        if reduce:
            found.append(phase(rank, owner, first, base=line.base, stream=owner))
        else:
            others = line.x != position
            source = owner[others]
            found.append(phase(source, rank[others], first, base=line.base[others], stream=source))
    return found


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
