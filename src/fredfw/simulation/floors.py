"""Lower bounds on the time of schedules: a candidate that cannot win need not be simulated.

They hold for every sharing policy that keeps to the capacity of the links, and for every admission, which only adds
time. Let B be the bytes that all groups together send over a link or a cut, and C its bandwidth: no simulation is
shorter than B / C. Within one group a phase takes no less than its own bytes over its busiest link and the latency of
its repetitions, and it is over before the phases that come after it start; the phases of a channel run one at a time.
Transfers in the network (streams) count as nothing, because an admission may replace them by others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen

from fredfw.collectives import Schedule
from fredfw.fabric import Fabric, Router, Routes
from fredfw.simulation.bounds import LowerBounds
from fredfw.typing import BoolArray, FloatArray, IntArray

# Phases times links that are looked at one by one; beyond that only their sums are.
_CELLS = 1 << 23


@frozen(eq=False)
class Floor:
    """What is known of a schedule that was routed and not simulated.

    Args:
        seconds: It takes no less.
        crowd: The most flows of one group that a phase puts on one link.
    """

    seconds: float
    crowd: int


@frozen(eq=False)
class _Flows:
    """The unicasts of all phases of a schedule; rows of a phase with the same ends are one.

    Args:
        phase: ``(flows,)`` phase of each.
        pair: ``(flows,)`` source times ranks plus destination.
        volume: ``(flows,)`` bytes of all repetitions; where these differ, of the first.
    """

    phase: IntArray
    pair: IntArray
    volume: FloatArray

    @classmethod
    def of(cls, schedule: Schedule) -> _Flows:
        parts = []
        for index, phase in enumerate(schedule.phases):
            chosen: BoolArray = np.ones(len(phase), dtype=bool) if phase.stream is None else phase.stream < 0
            times = phase.repeat if schedule.uniform(phase) else 1
            pair, inverse = np.unique((phase.source * schedule.ranks + phase.destination)[chosen], return_inverse=True)
            volume = np.bincount(inverse, schedule.row_bytes(phase)[chosen], len(pair)) * float(times)
            parts.append((np.full(len(pair), index), pair, volume))
        phases, pairs, volumes = zip(*parts, strict=True)
        return cls(np.concatenate(phases), np.concatenate(pairs), np.concatenate(volumes).astype(float))


class Floors:
    """The lower bounds of schedules on one fabric.

    Args:
        fabric: The network.
        router: Chooses the links.
        bounds: The lower bounds of collectives, which know the cuts of the fabric.
    """

    def __init__(self, fabric: Fabric, router: Router, bounds: LowerBounds) -> None:
        self._fabric = fabric
        self._router = router
        self._bounds = bounds
        self._flows: dict[Schedule, _Flows] = {}

    def unrouted(self, schedules: Sequence[Schedule], classes: Sequence[IntArray]) -> float:
        """Return seconds that schedules take at least, over any routes.

        Args:
            schedules: They start at the same time.
            classes: ``(G, ranks)`` numbers of the NPUs of the groups that run each.
        """
        sources, destinations, volumes = [], [], []
        most = 0.0
        for schedule, groups in zip(schedules, classes, strict=True):
            if not schedule.phases:
                continue
            flows = self._flows_of(schedule)
            most = max(most, self._alone(schedule, flows, groups[0]))
            pairs, pair = np.unique(flows.pair, return_inverse=True)
            source, destination = np.divmod(pairs, schedule.ranks)
            sources.append(groups[:, source].ravel())
            destinations.append(groups[:, destination].ravel())
            volumes.append(np.tile(np.bincount(pair, flows.volume, len(pairs)).astype(float), len(groups)))
        if not volumes:
            return most
        ends = np.concatenate(sources), np.concatenate(destinations)
        return max(most, self._bounds.crossing(*ends, np.concatenate(volumes)))

    def _flows_of(self, schedule: Schedule) -> _Flows:
        if schedule not in self._flows:
            self._flows[schedule] = _Flows.of(schedule)
        return self._flows[schedule]

    def _alone(self, schedule: Schedule, flows: _Flows, members: IntArray) -> float:
        """Return seconds for what each of ``members`` sends and receives in one phase after the other."""
        ranks, count = schedule.ranks, len(schedule.phases)
        leave, enter, latency = self._bounds.rates(members)
        seconds = np.zeros(count)
        if count * ranks <= _CELLS:
            for rank, rates in zip(np.divmod(flows.pair, ranks), (leave, enter), strict=True):
                sums = np.bincount(flows.phase * ranks + rank, flows.volume, count * ranks).astype(float)
                sums = sums.reshape(count, ranks)
                seconds = np.maximum(
                    seconds, np.divide(sums, rates, out=np.zeros_like(sums), where=sums > 0).max(axis=1)
                )
        return _longest(schedule, seconds + _repeats(schedule, flows) * latency)

    def routed(self, schedules: Sequence[Schedule], classes: Sequence[IntArray]) -> Floor:
        """Return what schedules take at least, over their routes.

        Args:
            schedules: They start at the same time.
            classes: ``(G, ranks)`` numbers of the NPUs of the groups that run each.

        Raises:
            UnsupportedError: The router has no route.
        """
        capacities = self._fabric.bandwidths
        total, most, crowd = np.zeros(len(capacities)), 0.0, 0
        for schedule, groups in zip(schedules, classes, strict=True):
            if not schedule.phases:
                continue
            flows = self._flows_of(schedule)
            pairs, pair = np.unique(flows.pair, return_inverse=True)
            nodes = self._fabric.npus[groups]
            sources, destinations = (nodes[:, one].ravel() for one in np.divmod(pairs, schedule.ranks))
            routes = self._router.route(self._fabric, sources, destinations)
            volumes = np.tile(np.bincount(pair, flows.volume, len(pairs)).astype(float), len(groups))
            total += _sums(routes, volumes, routes.links, len(capacities))
            # Groups need not keep in step, so the phases of one of them are added up.
            seconds, here = self._phases(schedule, flows, routes.select(np.arange(len(pairs))), pair)
            most, crowd = max(most, _longest(schedule, seconds)), max(crowd, here)
        return Floor(max(most, float((total / capacities).max(initial=0.0))), crowd)

    def _phases(self, schedule: Schedule, flows: _Flows, routes: Routes, pair: IntArray) -> tuple[FloatArray, int]:
        """Return the ``(phases,)`` seconds that each takes at least in one group, and its most flows on one link."""
        capacities, count = self._fabric.bandwidths, len(schedule.phases)
        used = np.zeros(len(capacities), dtype=bool)
        used[routes.links] = True
        place, width = np.cumsum(used) - 1, int(used.sum())
        seconds, crowd = np.zeros(count), 0
        if 0 < count * width <= _CELLS:
            mine = routes.select(pair)
            cells = np.repeat(flows.phase, np.diff(mine.offsets)) * width + place[mine.links]
            seconds = (_sums(mine, flows.volume, cells, count * width).reshape(count, width) / capacities[used]).max(1)
            crowd = int(np.bincount(cells).max())
        # What is last on a link has still to be delivered.
        least, most = np.full(count, np.inf), np.zeros(count)
        np.minimum.at(least, flows.phase, routes.latencies[pair])
        np.maximum.at(most, flows.phase, routes.latencies[pair])
        repeats = _repeats(schedule, flows)
        least = np.where(repeats > 0, least, 0.0)
        return np.maximum(seconds + least * repeats, most * repeats), crowd


def _sums(routes: Routes, volumes: FloatArray, cells: IntArray, count: int) -> FloatArray:
    """Return what ``(F,)`` ``volumes`` come to in each of ``count`` cells, of which each pair has one."""
    weights = np.repeat(volumes, np.diff(routes.offsets))
    if routes.coefficients is not None:
        weights = weights * routes.coefficients
    return np.bincount(cells, weights, count).astype(float)


def _repeats(schedule: Schedule, flows: _Flows) -> IntArray:
    """Return the ``(phases,)`` repetitions of each phase, 0 for one without unicasts."""
    used = np.bincount(flows.phase, minlength=len(schedule.phases)) > 0
    return np.where(used, [phase.repeat for phase in schedule.phases], 0)


def _longest(schedule: Schedule, seconds: FloatArray) -> float:
    """Return the most seconds of a path of phases that wait for each other, and of the phases of a channel."""
    done = np.zeros(len(seconds))
    channels: dict[int, float] = {}
    for index, phase in enumerate(schedule.phases):
        done[index] = seconds[index] + max((done[before] for before in phase.after), default=0.0)
        if phase.channel >= 0:
            channels[phase.channel] = channels.get(phase.channel, 0.0) + seconds[index]
    return float(max(done.max(initial=0.0), *channels.values(), 0.0))
