"""From transfers to flows: a phase of a schedule, for some groups, becomes a flow set on a fabric."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from attrs import evolve, frozen

from fredfw.collectives import Phase, Schedule
from fredfw.fabric import Fabric, FlowSet, Operation, Router, Routes
from fredfw.typing import BoolArray, FloatArray, IntArray


@frozen(eq=False)
class _Rows:
    """The rows of a phase, one representative per flow.

    Args:
        unicast: Representatives of the flows with one source and one destination.
        streams: Sources and destinations of the others.
        flow: ``(rows,)`` flow that each row belongs to, unicasts first.
    """

    unicast: IntArray
    streams: tuple[tuple[IntArray, IntArray], ...]
    flow: IntArray

    def __len__(self) -> int:
        return len(self.unicast) + len(self.streams)


@frozen(eq=False)
class _Exchange:
    """The flows of a phase whose streams are replaced by unicasts among their ends.

    Args:
        sources: ``(flows,)`` rank.
        destinations: ``(flows,)`` rank.
        original: ``(flows,)`` flow of the phase that each replaces; its own unicasts replace themselves.
        share: ``(flows,)`` of that one's bytes.
        steps: ``(flows,)`` how often the latency is paid.
    """

    sources: IntArray
    destinations: IntArray
    original: IntArray
    share: FloatArray
    steps: IntArray


class Lowering:
    """Turns phases into flow sets, and keeps what it has built: routes depend on nodes alone, never on bytes.

    Args:
        fabric: The network.
        router: Chooses the links; the fabric's own by default.
    """

    def __init__(self, fabric: Fabric, router: Router | None = None) -> None:
        self.fabric = fabric
        self.router = router or fabric.router
        self._rows: dict[int, tuple[Phase, _Rows]] = {}
        self._routes: dict[Hashable, Routes] = {}
        self._flow_sets: dict[Hashable, tuple[object, FlowSet]] = {}

    def phase(
        self,
        schedule: Schedule,
        index: int,
        groups: IntArray,
        *,
        priority: int = 0,
        label: str = "",
        repetition: int | None = None,
        times: int = 1,
        unicasts: bool = False,
    ) -> FlowSet:
        """Return the flows of phase ``index`` of ``schedule`` in each of ``groups``.

        As unicasts, every source of a stream of V bytes sends V to each destination but itself. A stream whose n
        sources are its destinations, an all-reduce, is a reduce-scatter and then an all-gather by direct exchange:
        V / n from each of them to each other in both steps. One flow set cannot hold the barrier between the steps, so
        they are one flow of 2 V / n that pays its path's latency twice. Alone in the network that is exact, for both
        steps have the same flows.

        Args:
            schedule: The schedule.
            index: Which of its phases.
            groups: ``(G, ranks)`` node of each rank; every group is an activity of its own.
            priority: Class of the flows.
            label: What their bytes are accounted to.
            repetition: One repetition alone, or ``None`` for all of them, which must carry the same bytes.
            times: How often each repetition is done.
            unicasts: Whether the ends of streams do with unicasts what the network would do.
        """
        uniform = repetition is None or isinstance(schedule.chunk_bytes, float)
        step = -1 if uniform else repetition
        key = (id(schedule), index, groups.tobytes(), priority, label, step, repetition is None, times, unicasts)
        known = self._flow_sets.get(key)
        if known is not None:
            return known[1]
        phase = schedule.phases[index]
        rows = self._flows_of(phase)
        row_bytes = schedule.row_bytes(phase, repetition or 0)
        # The rows of a stream all name the same bytes; the rows of a unicast flow add up.
        volumes = np.bincount(rows.flow, weights=row_bytes, minlength=len(rows)).astype(float)
        if rows.streams:
            first = len(rows.unicast)
            sharing = np.bincount(rows.flow, minlength=len(rows))[first:]
            volumes[first:] = volumes[first:] / sharing
        if unicasts:
            exchange = _exchange(phase, rows)
            volumes = volumes[exchange.original] * exchange.share
            routes = self._route_exchange(exchange, groups)
        else:
            routes = self._route(phase, rows, groups)
        flow_set = FlowSet(
            routes=routes,
            volumes=np.tile(volumes, len(groups)),
            activity=np.repeat(np.arange(len(groups)), len(volumes)),
            activities=len(groups),
            repeat=times * (phase.repeat if repetition is None else 1),
            priority=priority,
            label=label,
        )
        self._flow_sets[key] = schedule, flow_set
        return flow_set

    def stream(
        self,
        sources: IntArray,
        destinations: IntArray,
        operation: Operation,
        volume: float,
        *,
        priority: int = 0,
        label: str = "",
        times: int = 1,
    ) -> FlowSet:
        """Return ``G`` many-ended flows of ``volume`` bytes each, every one an activity of its own.

        Args:
            sources: ``(G, n)`` nodes.
            destinations: ``(G, k)`` nodes.
            operation: What happens on the way.
            volume: Bytes of each.
            priority: Class of the flows.
            label: What their bytes are accounted to.
            times: How often each is sent, one time after the other.
        """
        count = len(sources)
        ends: tuple[Hashable, ...] = ("stream", sources.shape, sources.tobytes(), destinations.tobytes(), operation)
        key = (*ends, volume, priority, label, times)
        known = self._flow_sets.get(key)
        if known is not None:
            return known[1]
        routes = self._routes.get(ends)
        if routes is None:
            pairs = zip(sources, destinations, strict=True)
            routes = Routes.concatenate([self.router.tree(self.fabric, one, other, operation) for one, other in pairs])
            self._routes[ends] = routes
        activity = np.arange(count)
        volumes = np.full(count, float(volume))
        flow_set = FlowSet(routes, volumes, activity, count, repeat=times, priority=priority, label=label)
        self._flow_sets[key] = None, flow_set
        return flow_set

    def _flows_of(self, phase: Phase) -> _Rows:
        known = self._rows.get(id(phase))
        if known is None:
            known = self._rows[id(phase)] = phase, _merge(phase)
        return known[1]

    def _route(self, phase: Phase, rows: _Rows, groups: IntArray) -> Routes:
        sources, destinations = phase.source[rows.unicast], phase.destination[rows.unicast]
        key = (
            sources.tobytes(),
            destinations.tobytes(),
            tuple((one.tobytes(), other.tobytes()) for one, other in rows.streams),
            groups.shape,
            groups.tobytes(),
        )
        known = self._routes.get(key)
        if known is None:
            known = self._routes[key] = self._build_routes(sources, destinations, rows, groups)
        return known

    def _route_exchange(self, exchange: _Exchange, groups: IntArray) -> Routes:
        sources, destinations, steps = exchange.sources, exchange.destinations, exchange.steps
        key = sources.tobytes(), destinations.tobytes(), steps.tobytes(), groups.shape, groups.tobytes()
        known = self._routes.get(key)
        if known is None:
            once = self.router.route(self.fabric, groups[:, sources].ravel(), groups[:, destinations].ravel())
            known = self._routes[key] = evolve(once, latencies=once.latencies * np.tile(steps, len(groups)))
        return known

    def _build_routes(self, sources: IntArray, destinations: IntArray, rows: _Rows, groups: IntArray) -> Routes:
        if not rows.streams:
            return self.router.route(self.fabric, groups[:, sources].ravel(), groups[:, destinations].ravel())
        parts = []
        for group in groups:
            if len(sources):
                parts.append(self.router.route(self.fabric, group[sources], group[destinations]))
            for members, receivers in rows.streams:
                operation = _operation(len(members), len(receivers))
                parts.append(self.router.tree(self.fabric, group[members], group[receivers], operation))
        return Routes.concatenate(parts)


def _operation(sources: int, destinations: int) -> Operation:
    if sources == 1:
        return Operation.MULTICAST
    return Operation.REDUCE if destinations == 1 else Operation.ALL_REDUCE


def _merge(phase: Phase) -> _Rows:
    """Group rows into flows: equal source, destination and operation are one flow, and so is a stream."""
    count = len(phase)
    streamed: BoolArray = np.zeros(count, dtype=bool) if phase.stream is None else phase.stream >= 0
    span = max(int(phase.source.max(initial=0)), int(phase.destination.max(initial=0))) + 1
    identity = (phase.source * span + phase.destination) * 2 + phase.reduce
    flow = np.empty(count, dtype=np.intp)
    alone = np.flatnonzero(~streamed)
    _, first, inverse = np.unique(identity[alone], return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")  # flows in the order of their first rows
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    flow[alone] = place[inverse]
    unicast = alone[np.sort(first)]
    streams: list[tuple[IntArray, IntArray]] = []
    if phase.stream is not None:
        for number in np.unique(phase.stream[streamed]):
            rows = np.flatnonzero(phase.stream == number)
            flow[rows] = len(unicast) + len(streams)
            streams.append((np.unique(phase.source[rows]), np.unique(phase.destination[rows])))
    return _Rows(unicast, tuple(streams), flow)


def _exchange(phase: Phase, rows: _Rows) -> _Exchange:
    own = len(rows.unicast)
    parts = [
        _Exchange(
            phase.source[rows.unicast],
            phase.destination[rows.unicast],
            np.arange(own),
            np.ones(own),
            np.ones(own, dtype=np.intp),
        )
    ]
    for number, (members, receivers) in enumerate(rows.streams, start=own):
        sources, destinations = np.repeat(members, len(receivers)), np.tile(receivers, len(members))
        distinct = sources != destinations
        count = int(distinct.sum())
        everybody = np.array_equal(members, receivers)
        parts.append(
            _Exchange(
                sources[distinct],
                destinations[distinct],
                np.full(count, number),
                np.full(count, 2.0 / len(members) if everybody else 1.0),
                np.full(count, 2 if everybody else 1),
            )
        )
    return _Exchange(
        np.concatenate([part.sources for part in parts]),
        np.concatenate([part.destinations for part in parts]),
        np.concatenate([part.original for part in parts]),
        np.concatenate([part.share for part in parts]),
        np.concatenate([part.steps for part in parts]),
    )
