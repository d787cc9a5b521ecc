"""Lower bounds on the time of schedules: a candidate that cannot win need not be simulated.

They hold for every sharing policy that keeps to the capacity of the links, and every admission, which only adds time.
No simulation is shorter than the bytes that all groups send over a link take on it. A phase takes no less than its own
bytes over its busiest link, and a latency. Where everybody receives something in each repetition, nobody gets ahead by
more than the fastest transfers let it. With barriers a phase takes the latency of all its repetitions, and is over
before those after it start; the turns of a channel run one at a time. Streams count as nothing, because an admission
may replace them. All is kept per byte of the request, so that what was found out for one size serves the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, partial, reduce
from typing import NamedTuple

import numpy as np
from attrs import define, field, frozen

from fredfw.arrays import reduced, totals
from fredfw.collectives import Schedule
from fredfw.collectives.schedule import turns
from fredfw.errors import LimitError
from fredfw.fabric import Fabric, Router, Routes, answers
from fredfw.keeping import kept
from fredfw.simulation.bounds.collectives import LowerBounds, seconds_of
from fredfw.simulation.lowering import digest
from fredfw.typing import BoolArray, FloatArray, IntArray

_CELLS = 1 << 23  # phases times links that are looked at one by one; beyond that only their sums are


class Sketch:
    """What a bound needs to know of a schedule for ``size`` bytes: its order, and the flows of its unicasts."""

    def __init__(self, schedule: Schedule, size: float) -> None:
        phases = schedule.phases
        self.ranks = ranks = schedule.ranks
        self.after = tuple(phase.after for phase in phases)  # the phases that each waits for
        self.channels = tuple(phase.channel for phase in phases)  # -1 for none
        self.turns = tuple(turns(schedule))  # of each phase, by its first phase; -1 for none
        self.keeps = schedule.release == "delivered"  # whether phases have channels until then, not until drained
        ends: list[IntArray] = [np.zeros(0, dtype=np.intp)]
        volumes: list[FloatArray] = [np.zeros(0)]
        # Phases of a pipeline share their columns, and what follows from them.
        merged: dict[tuple[int, ...], tuple[BoolArray | slice, IntArray, IntArray, bool]] = {}
        everybody: list[bool] = []
        for phase in phases:
            key = id(phase.source), id(phase.destination), id(phase.reduce), id(phase.stream)
            if key not in merged:
                unicasts: BoolArray | slice = slice(None) if phase.stream is None else phase.stream < 0
                flows = (phase.source * ranks + phase.destination) * 2 + phase.reduce
                distinct, flow = _distinct(flows[unicasts])
                merged[key] = unicasts, distinct, flow, len(np.unique(distinct // 2 % ranks)) == ranks
            unicasts, distinct, flow, reached = merged[key]
            times = phase.repeat if schedule.uniform(phase) else 1
            volume = totals(flow, schedule.row_bytes(phase)[unicasts], len(distinct))
            volumes.append(volume * times)
            ends.append(distinct)
            everybody.append(reached and schedule.uniform(phase) and bool(volume.min() > 0))
        counts = [*map(len, ends[1:])]
        # (phases,) repetitions, 0 without unicasts; and whether every rank receives something in each repetition.
        repeats = [phase.repeat if count else 0 for phase, count in zip(phases, counts, strict=True)]
        self.repeats, self.everybody = np.array(repeats, dtype=np.intp), np.array(everybody, dtype=bool)
        # (flows,) phase of each; bytes of all repetitions per byte of the request, where these differ, of the first;
        # and the two ranks, as an index into (pairs,) sources times ranks plus destinations.
        self.phase, self.volume = np.repeat(np.arange(len(phases)), counts), np.concatenate(volumes) / (size or 1.0)
        self.pairs, self.pair = _distinct(np.concatenate(ends) // 2)

    @property
    def totals(self) -> FloatArray:
        """``(pairs,)`` bytes of all phases per byte of the request."""
        return totals(self.pair, self.volume, len(self.pairs))

    def chain(self, seconds: FloatArray, draining: FloatArray) -> float:
        """Return what the phases take together at least, however far ranks get out of step.

        Where everybody receives something in a phase, nobody is through with it before its fastest transfers, which
        take so many ``seconds``, could follow each other, and so nobody sends before in a phase that comes after it.
        """
        through = np.where(self.everybody, seconds, 0.0).tolist()
        most = 0.0
        for index, own in enumerate(draining.tolist()):
            begun = max((through[earlier] for earlier in self.after[index]), default=0.0)
            most = max(most, begun + max(own, through[index]))
            if self.everybody[index]:
                through[index] += begun
        return most

    def longest(self, seconds: FloatArray, draining: FloatArray) -> float:
        """Return the longest path of phases, or all turns of a channel with the least that comes before and after them.

        A turn takes the longest path among its phases. Each takes so many ``seconds``, its bytes ``draining`` of them.
        """
        each, count = seconds.tolist(), len(seconds)
        held = each if self.keeps else draining.tolist()
        before, behind = list[float](), [0.0] * count
        for waits in self.after:
            before.append(max((before[earlier] + each[earlier] for earlier in waits), default=0.0))
        for index in range(count - 1, -1, -1):
            for earlier in self.after[index]:
                behind[earlier] = max(behind[earlier], behind[index] + each[index])
        most = max((one + own for one, own in zip(before, each, strict=True)), default=0.0)
        path, turns = held[:], self.turns  # of the phases of its turn, up to each
        longest: dict[int, float] = {}
        for index, turn in enumerate(turns):
            path[index] += max((path[one] for one in self.after[index] if turns[one] == turn), default=0.0)
            longest[turn] = max(longest.get(turn, 0.0), path[index])
        channels: dict[int, list[int]] = {}
        for index, channel in enumerate(self.channels):
            channels.setdefault(channel, []).append(index)
        channels.pop(-1, None)
        for members in channels.values():
            first, last = min(before[one] for one in members), min(behind[one] for one in members)
            most = max(most, first + sum(longest[one] for one in {turns[one]: None for one in members}) + last)
        return most


class Bound(NamedTuple):
    """Seconds that a schedule takes at least."""

    any_order: float  # however far ranks get out of step
    barriers: float  # where the ranks of a group wait for each other after each step; no less

    def above(self, other: Bound) -> Bound:
        return Bound(max(self.any_order, other.any_order), max(self.barriers, other.barriers))


NOTHING = Bound(0.0, 0.0)


@frozen(eq=False)
class Steps:
    """What the phases of one group take at least."""

    sketch: Sketch  # the phases
    per_byte: FloatArray  # (phases,) seconds per byte of the request
    fixed: FloatArray  # (phases,) seconds that come on top
    least: FloatArray  # (phases,) seconds at any size
    # (phases,) seconds per byte of the request of the fastest transfer alone, all repetitions together.
    fewest: FloatArray
    crowd: int = 0  # the most flows that a phase puts on one link; 0 without routes
    busiest: float = 0.0  # seconds per byte of the request for all bytes of one link, or without routes of one NPU

    def seconds(self, size: float) -> Bound:
        draining, busiest = self.per_byte * size, self.busiest * size
        once = draining + self.fixed / np.maximum(self.sketch.repeats, 1)
        return Bound(
            max(busiest, self.sketch.chain(self.fewest * size + self.fixed, once)),
            max(busiest, self.sketch.longest(np.maximum(draining + self.fixed, self.least), draining)),
        )


@frozen(eq=False)
class Place:
    """Groups that do something at the same time; others that look alike may have other routes, or share links."""

    classes: tuple[IntArray, ...]  # (G, ranks) numbers of the NPUs of the groups of each class that look alike

    @cached_property
    def name(self) -> Hashable:
        return digest(*self.classes)

    @cached_property
    def firsts(self) -> tuple[Hashable, ...]:
        """``name`` of the first group of each class alone."""
        return tuple(digest(members[0]) for members in self.classes)


@define(eq=False)
class Floors:
    """The lower bounds of sketches on one fabric, where no flow exceeds ``cap`` bytes per second."""

    _fabric: Fabric
    _router: Router
    _bounds: LowerBounds
    _cap: float = math.inf
    _alone: dict[Hashable, Steps] = field(factory=dict, init=False)
    _together: dict[Hashable, float] = field(factory=dict, init=False)

    def alone(self, sketch: Sketch, members: IntArray, name: Hashable, *, routed: bool) -> Steps:
        find = self.routed if routed else self.unrouted
        return kept(self._alone, (sketch, name, routed), lambda: find(sketch, members))

    def unrouted(self, sketch: Sketch, members: IntArray) -> Steps:
        """Return what it takes over any routes: by each flow's bytes, and by what NPUs send and receive in a phase."""
        ranks, count = sketch.ranks, len(sketch.repeats)
        leave, enter, latency = self._bounds.rates(members)
        per_byte: FloatArray = np.zeros(count)
        busiest = 0.0
        for ends, rates in zip(np.divmod(sketch.pairs, ranks), (leave, enter), strict=True):
            busiest = max(busiest, float(seconds_of(totals(ends, sketch.totals, ranks), rates).max()))
            if 0 < count * ranks <= _CELLS:
                cells = sketch.phase * ranks + ends[sketch.pair]
                each = totals(cells, sketch.volume, count * ranks).reshape(count, ranks)
                per_byte = np.maximum(per_byte, seconds_of(each, rates).max(axis=1))
        np.maximum.at(per_byte, sketch.phase, sketch.volume / self._cap)
        sources, destinations = np.divmod(sketch.pairs, ranks)
        narrowest = np.minimum(np.minimum(leave[sources], enter[destinations]), self._cap)
        # A single rank has no latency, and nothing to repeat.
        fixed: FloatArray = sketch.repeats.astype(float)
        if fixed.any():
            fixed *= latency
        return Steps(sketch, per_byte, fixed, np.zeros(count), _fewest(sketch, narrowest), busiest=busiest)

    def routed(self, sketch: Sketch, members: IntArray) -> Steps:
        """Return the same over the routes of ``sketch``; where those have too many hops, over any."""
        capacities, count = self._fabric.bandwidths, len(sketch.repeats)
        if not len(sketch.pairs):
            return Steps(sketch, *np.zeros((4, count)))
        routes = self._routes(sketch, members[None, :])
        if routes is None:
            return self.unrouted(sketch, members)
        used = np.zeros(len(capacities), dtype=bool)
        used[routes.links] = True
        width, capacity = int(used.sum()), capacities[used]
        cells = np.cumsum(used) - 1
        busiest = float((sums(routes, sketch.totals, cells[routes.links], width) / capacity).max(initial=0.0))
        per_byte, crowd = np.zeros(count), 0
        if 0 < count * width <= _CELLS:
            mine = routes.select(sketch.pair)
            cell = np.repeat(sketch.phase, np.diff(mine.offsets)) * width + cells[mine.links]
            per_byte = (sums(mine, sketch.volume, cell, count * width).reshape(count, width) / capacity).max(axis=1)
            crowd = int(np.bincount(cell).max())
        # What is last on a link has still to be delivered.
        nearest, farthest = np.full(count, np.inf), np.zeros(count)
        np.minimum.at(nearest, sketch.phase, routes.latencies[sketch.pair])
        np.maximum.at(farthest, sketch.phase, routes.latencies[sketch.pair])
        nearest = np.where(sketch.repeats > 0, nearest, 0.0)
        through = capacities[routes.links]
        through = through if routes.coefficients is None else through / routes.coefficients
        fewest = _fewest(sketch, np.minimum(reduced(np.minimum, through, routes.offsets, np.inf), self._cap))
        return Steps(sketch, per_byte, nearest * sketch.repeats, farthest * sketch.repeats, fewest, crowd, busiest)

    def together(self, sketches: tuple[Sketch, ...], place: Place) -> float:
        """Return the most seconds per byte of the request for one link, if all start together; 0 for a group alone."""
        if sum(map(len, place.classes)) == 1:
            return 0.0
        if (sketches, place.name) not in self._together:
            capacities = self._fabric.bandwidths
            total = np.zeros(len(capacities))
            for sketch, groups in zip(sketches, place.classes, strict=True):
                routes = self._routes(sketch, groups) if len(sketch.pairs) else None
                if routes is not None:
                    total += sums(routes, np.tile(sketch.totals, len(groups)), routes.links, len(capacities))
            self._together[sketches, place.name] = float((total / capacities).max(initial=0.0))
        return self._together[sketches, place.name]

    def _routes(self, sketch: Sketch, groups: IntArray) -> Routes | None:
        nodes = self._fabric.npus[groups]
        sources, destinations = (nodes[:, one].ravel() for one in np.divmod(sketch.pairs, sketch.ranks))
        try:
            return answers.route(self._router, self._fabric, sources, destinations)
        except LimitError:
            return None


Draft = tuple[Sketch, Callable[[], Sketch] | None]
"""What an algorithm writes, not divided into pieces, and what returns a sketch of the pieces if there are any."""


@frozen(eq=False)
class Entrant:
    """What runs at the same time, one algorithm for the groups of each class that look alike, and its lower bounds."""

    names: Sequence[str]  # the candidates that it stands for, which write the same; sorted
    # Which algorithm serves each class: a candidate, or another one where that cannot serve it.
    algorithms: tuple[str, ...]
    floors: Floors  # finds and keeps the bounds
    drafts: tuple[Draft, ...]  # what the groups do
    place: Place  # where they are
    size: float  # bytes of the request

    @property
    def rungs(self) -> Sequence[Callable[[], Bound]]:
        """Bounds, each of which takes longer to find than the one before; pieces count nothing but bytes until last."""
        first, every = slice(1), slice(None)
        rungs: list[Callable[[], Bound]] = [
            partial(self._whole, first, routed=False),  # what NPUs of the first class can send and receive
            partial(self._whole, first, routed=True),  # the routes of one of its groups alone
            partial(self._whole, every, routed=True),  # those of one group of each class
            self._shared,  # those of all groups together
        ]
        if any(write for _, write in self.drafts):
            rungs += [partial(self._pieces, first, routed=False), partial(self._pieces, every, routed=True)]
        return rungs

    @cached_property
    def flows(self) -> int:
        """How many pairs of ranks send to each other in one group of each class: what routes take time for."""
        return sum(len(whole.pairs) for whole, _ in self.drafts)

    @property
    def crowd(self) -> int:
        """The most flows of one group that a phase puts on one link, if nothing is divided into pieces."""
        return max(one.crowd for one in self._alone([whole for whole, _ in self.drafts], slice(None), routed=True))

    def _whole(self, which: slice, *, routed: bool) -> Bound:
        drafts, size = self.drafts[which], self.size
        alone = self._alone([whole for whole, _ in drafts], which, routed=routed)
        return _most(
            Bound(one.busiest * size, one.busiest * size) if write else one.seconds(size)
            for (_, write), one in zip(drafts, alone, strict=True)
        )

    def _shared(self) -> Bound:
        seconds = self.floors.together(tuple(whole for whole, _ in self.drafts), self.place) * self.size
        return Bound(seconds, seconds)

    def _pieces(self, which: slice, *, routed: bool) -> Bound:
        sketches = [whole if write is None else write() for whole, write in self.drafts[which]]
        return _most(one.seconds(self.size) for one in self._alone(sketches, which, routed=routed))

    def _alone(self, sketches: Sequence[Sketch], which: slice, *, routed: bool) -> list[Steps]:
        groups = zip(self.place.classes[which], self.place.firsts[which], strict=True)
        return [
            self.floors.alone(sketch, members[0], name, routed=routed)
            for sketch, (members, name) in zip(sketches, groups, strict=True)
        ]


def _most(bounds: Iterable[Bound]) -> Bound:
    return reduce(Bound.above, bounds, NOTHING)


def _fewest(sketch: Sketch, rates: FloatArray) -> FloatArray:
    """Return the ``(phases,)`` seconds per byte of the request of the fastest transfer; ``(pairs,)`` have ``rates``."""
    found = np.full(len(sketch.repeats), np.inf)
    np.minimum.at(found, sketch.phase, sketch.volume / rates[sketch.pair])
    return np.where(np.isfinite(found), found, 0.0)


def _distinct(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct ``(k,)`` ``numbers``, sorted, and the place of each number among them."""
    # Most come in rising order, from the first on or again and again, and to sort them takes long.
    falls = np.flatnonzero(numbers[1:] <= numbers[:-1]) + 1
    first = numbers[: falls[0]] if len(falls) else numbers
    if len(first) * (len(falls) + 1) == len(numbers) and (numbers.reshape(-1, max(len(first), 1)) == first).all():
        return first, np.tile(np.arange(len(first)), len(falls) + 1)
    return np.unique(numbers, return_inverse=True)


def sums(routes: Routes, volumes: FloatArray, cells: IntArray, count: int) -> FloatArray:
    """Return what ``(F,)`` ``volumes`` come to in each of ``count`` cells, of which each pair has one."""
    weights = np.repeat(volumes, np.diff(routes.offsets))
    if routes.coefficients is not None:
        weights = weights * routes.coefficients
    return totals(cells, weights, count)
