"""Schedules on a network: a phase, for some groups, becomes a flow set on a fabric, and groups run them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from hashlib import sha256
from itertools import chain
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from attrs import evolve, frozen

from fredfw import limits
from fredfw.collectives import Phase, Schedule
from fredfw.errors import UnsupportedError
from fredfw.fabric import Admission, AlwaysStart, Fabric, FlowSet, OpenAdmission, Operation, Router, Routes, answers
from fredfw.fabric.flows import some
from fredfw.fidelities import COMPRESSED
from fredfw.keeping import Latest, kept
from fredfw.simulation import answers as asked, engine
from fredfw.simulation.admission import Unicasts
from fredfw.simulation.engine import NativeLowered, NativeSchedule
from fredfw.simulation.fidelity import way_of
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.pricing import Load, Price, Pricing
from fredfw.typing import BoolArray, FloatArray, IntArray

_CAPACITY = 4_000_000  # flows that the flow sets that are kept may have together
_FEW = 64  # nodes that name themselves, as a digest takes longer
# How many schedules in groups are kept: so many at least, and more as long as they are for so few nodes together.
_BUILT = 256
_BUILT_NODES = 1 << 18
_LEAST_NODES = 16  # what is for fewer takes as much memory as if it were for so many

Rows = Sequence[IntArray] | IntArray
"""``G`` times some nodes, of which there may be as many each time."""


@frozen(eq=False)
class Ends:
    """The ends of the flows of a phase, as ranks: first those of its unicasts, then those of its streams."""

    sources: IntArray  # (unicasts,)
    destinations: IntArray  # (unicasts,)
    reduces: BoolArray  # (unicasts,) whether the destination reduces what it receives
    streams: tuple[tuple[IntArray, IntArray], ...] = ()  # sources and destinations
    flow: IntArray | None = None  # (rows,) flow that each row of the phase belongs to; None if each is one
    steps: IntArray | None = None  # (unicasts,) how often the latency is paid; None for once

    def __len__(self) -> int:
        return len(self.sources) + len(self.streams)

    @cached_property
    def key(self) -> bytes:
        return digest(self.sources, self.destinations, *chain(*self.streams))

    def between(self, servers: IntArray) -> BoolArray:
        """Return for each flow whether it leaves a server in a group, of the ``(G, ranks)`` servers of ranks."""
        unicasts = (servers[:, self.sources] != servers[:, self.destinations]).any(axis=0)
        streams = [bool((servers[:, ends] != servers[:, ends[:1]]).any()) for ends in map(np.concatenate, self.streams)]
        return np.concatenate([unicasts, np.array(streams, dtype=bool)])

    def volumes(self, rows: FloatArray) -> FloatArray:
        if self.flow is None:
            return rows
        # The rows of a stream all name the same bytes; the rows of a unicast flow add up.
        volumes = np.bincount(self.flow, rows).astype(float)
        first = len(self.sources)
        volumes[first:] /= np.bincount(self.flow)[first:]
        return volumes

    @cached_property
    def load(self) -> Load:
        """What they ask of those that send and receive; a stream is one message."""
        sources, destinations, alone = self.sources, self.destinations, np.ones(len(self.streams), dtype=np.intp)
        count = max(sources.max(initial=-1), destinations.max(initial=-1)) + 1
        sent, received = (np.bincount(ends, minlength=count) for ends in (sources, destinations))
        reduced = np.bincount(destinations, self.reduces, minlength=count).astype(np.intp)
        steps = np.ones(len(sources), dtype=np.intp) if self.steps is None else self.steps
        return (
            np.concatenate([np.maximum(sent[sources], received[destinations]), alone]),
            np.concatenate([steps, alone]),
            np.concatenate([reduced[destinations] * self.reduces, 0 * alone]),
        )

    def exchanged(self) -> tuple[Ends, IntArray, FloatArray]:
        """Return unicasts for streams, too, see ``Lowering.phase``; and the flow of each, and its share of that."""
        own = len(self.sources)
        once = np.ones(own, dtype=np.intp)
        parts: list[tuple[Any, ...]] = [
            (self.sources, self.destinations, self.reduces, once, np.arange(own), np.ones(own))
        ]
        for number, (members, receivers) in enumerate(self.streams, start=own):
            sources, destinations = np.repeat(members, len(receivers)), np.tile(receivers, len(members))
            distinct = sources != destinations
            count = int(distinct.sum())
            everybody = np.array_equal(members, receivers)
            share = np.full(count, 2.0 / len(members) if everybody else 1.0)
            steps, reduces = np.full(count, 2 if everybody else 1), np.full(count, len(members) > 1)
            parts.append((sources[distinct], destinations[distinct], reduces, steps, np.full(count, number), share))
        sources, destinations, reduces, steps, original, share = map(np.concatenate, zip(*parts, strict=True))
        return Ends(sources, destinations, reduces, steps=steps), original, share


class Lowering:
    """Turns phases into flow sets, and keeps what it has built: routes depend on nodes alone, never on bytes."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.router = fabric.defaults.router
        self.pricing = Pricing(fabric)
        self._reserves = type(fabric.defaults.admission) is not OpenAdmission
        self._prices: dict[Hashable, Price] = {}
        self._activities: dict[tuple[int, int], IntArray] = {}
        self._rows: dict[Phase, Ends] = {}
        self._columns: dict[tuple[int, int, bool], Ends] = {}  # of phases whose rows are flows as they are
        self._between: dict[Hashable, BoolArray] = {}
        self._routes: dict[Hashable, Routes] = {}
        self._streams: dict[Hashable, tuple[BoolArray, Routes]] = {}
        self._flow_sets: Latest[Hashable, FlowSet] = Latest(_CAPACITY, lambda flows: len(flows.volumes))
        self._starts: dict[Routes, BoolArray | None] = {}
        self._native: WeakValueDictionary[Schedule, NativeSchedule] = WeakValueDictionary()  # of what is lowered
        self._lowered: Latest[Hashable, NativeLowered] = Latest(
            _BUILT_NODES, lambda one: max(one.nodes, _LEAST_NODES), least=_BUILT
        )
        self._last: tuple[IntArray, bytes] | None = None  # the groups that were asked for last, and their name

    def phase(
        self, run: ScheduleFlows, index: int, groups: IntArray, repetition: int, *, unicasts: bool = False
    ) -> FlowSet:
        """Return the flows of phase ``index`` of a schedule in ``groups``, which are all of ``run`` or some.

        They are those of one repetition, or with -1 of all, which must carry the same bytes; every group is an
        activity. As unicasts, every source of a stream of V bytes sends V to each destination but itself. An all-reduce
        of n is a reduce-scatter and an all-gather by direct exchange, V / n from each to each other: as one flow set
        cannot hold the barrier between them, one flow of 2 V / n that pays its path's latency twice, which is exact
        alone in the network.
        """
        schedule, all_together = run.schedule, repetition < 0
        step = -1 if isinstance(schedule.chunk_bytes, float) else repetition
        # Whether they go on matters only to admissions that set something up.
        continues = self._reserves and repetition > 0
        which = schedule, index, self._named(groups), step, all_together, unicasts, continues
        key = *which, run.priority, run.label, run.times
        known = self._flow_sets.known(key)
        if known is not None:
            return known
        phase = schedule.phases[index]
        limits.check("flows", len(phase) * len(groups))
        routes, caps, again = self._phase_routes(schedule, index, groups, unicasts=unicasts)
        volumes = self.ends(phase).volumes(schedule.row_bytes(phase, max(repetition, 0)))
        if unicasts:
            _, original, share = self.ends(phase).exchanged()
            volumes = volumes[original] * share
        size = len(groups), len(volumes)
        flow_set = FlowSet(
            routes=routes,
            volumes=np.tile(volumes, len(groups)),
            activity=kept(self._activities, size, lambda: np.repeat(np.arange(size[0]), size[1])),
            activities=len(groups),
            repeat=run.times * (phase.repeat if all_together else 1),
            caps=caps,
            priority=run.priority,
            label=run.label,
            continues=continues,
            again=again,
        )
        return self._flow_sets.keep(key, flow_set)

    def _phase_routes(
        self, schedule: Schedule, index: int, groups: IntArray, *, unicasts: bool = False
    ) -> tuple[Routes, FloatArray | None, Callable[[Router], Routes]]:
        """Return the routes of a phase, the rates that its flows do not exceed, if any, and what routes it again."""
        rows, price = self.ends(schedule.phases[index]), self.price(schedule, groups)
        key = rows.key, self._named(groups), unicasts
        if unicasts:
            rows, _, _ = rows.exchanged()
        build = partial(self._build_routes, rows, groups)
        routes = kept(self._routes, key, lambda: build(self.router))
        if price is None:
            return routes, None, build
        priced = kept(self._routes, (*key, price), lambda: price.routes(routes, rows.load))
        return priced, price.caps(priced, rows.load), partial(price.routed, build, rows.load)

    def lowered(self, schedule: Schedule, groups: IntArray) -> NativeLowered:
        """Return ``schedule`` in ``(G, ranks)`` ``groups`` for the engine, the same object while it is at hand."""
        return self._lowered.get((schedule, self._named(groups)), partial(self._lower, schedule, groups))

    def _lower(self, schedule: Schedule, groups: IntArray) -> NativeLowered:
        native = self._native.get(schedule) or NativeSchedule(schedule, [self.ends(phase) for phase in schedule.phases])
        self._native[schedule] = native
        limits.check("flows", max((len(phase) for phase in schedule.phases), default=0) * len(groups))
        found = (self._phase_routes(schedule, index, groups) for index in range(len(schedule.phases)))
        phases = [(routes, caps, self._starting(routes)) for routes, caps, _ in found]
        price = self.price(schedule, groups)
        launch = 0.0 if price is None else price.launch
        links = len(self.fabric.network.bandwidths)  # schedules do not see memories
        return NativeLowered(native, len(groups), launch, links, phases)

    def _starting(self, routes: Routes) -> BoolArray | None:
        if not self._reserves:
            return None
        return kept(self._starts, routes, lambda: asked.always_starts(asked.admission(self.fabric), routes))

    def stream(
        self,
        sources: Rows,
        destinations: Rows,
        operation: Operation,
        volume: float,
        *,
        activity: IntArray | None = None,
        priority: int = 0,
        label: str = "",
        times: int = 1,
    ) -> FlowSet:
        """Return ``G`` flows of ``volume`` bytes each, from ``sources`` to ``destinations``: ``G`` times some nodes.

        Each is one flow on the network, or, where that cannot copy (reduce) it, a unicast of as many bytes to (from)
        each of its ends. It is sent ``times``, one after the other, as part of the ``(G,)`` ``activity`` or alone.
        """
        mine = np.arange(len(sources)) if activity is None else activity
        ends = self._rows_named(sources), self._rows_named(destinations), operation
        key = (*ends, mine.tobytes(), volume, priority, label, times)
        known = self._flow_sets.known(key)
        if known is not None:
            return known
        spread, routes = kept(self._streams, ends, lambda: self._first_streams(sources, destinations, operation))
        again = partial(self._build_streams, sources, destinations, operation, spread)
        count = np.ones(len(sources), dtype=np.intp)
        for index in np.flatnonzero(spread).tolist():
            count[index] = max(len(sources[index]), len(destinations[index]))
        flow_set = FlowSet(
            routes=routes,
            volumes=np.full(count.sum(), float(volume)),
            activity=np.repeat(mine, count),
            activities=int(mine.max(initial=-1)) + 1,
            repeat=times,
            priority=priority,
            label=label,
            again=again,
        )
        return self._flow_sets.keep(key, flow_set)

    def each(self, whole: FlowSet, flows: IntArray) -> FlowSet:
        """Return ``(k,)`` ``flows`` of ``whole``, each an activity of its own."""
        key = whole, flows.tobytes()
        known = self._flow_sets.known(key)
        if known is not None:
            return known
        every = len(flows) == len(whole.volumes)
        own: dict[str, Any] = {"activity": np.arange(len(flows)), "activities": len(flows)}
        apart = evolve(whole, **own) if every else some(whole, flows, **own)
        # Large sets that are not whole seldom come again.
        return self._flow_sets.keep(key, apart) if every or len(flows) <= _FEW else apart

    def price(self, schedule: Schedule, groups: IntArray) -> Price | None:
        """Return what ``schedule`` costs in ``groups``, see ``Pricing.of``, which is asked once."""
        if self.pricing.ideal:
            return None
        return kept(self._prices, (schedule, self._named(groups)), partial(self._price, schedule, groups))

    def _price(self, schedule: Schedule, groups: IntArray) -> Price:
        # Of the longest way through it the steps, and the bytes of the largest flows; not always the same way.
        servers = self.fabric.servers[groups]
        ways: list[FloatArray] = []
        for phase in schedule.phases:
            rows, times = self.ends(phase), 1 if schedule.uniform(phase) else phase.repeat
            between = kept(self._between, (rows, self._named(groups)), partial(rows.between, servers))
            most = np.zeros(2)
            for one in range(times):
                volumes = rows.volumes(schedule.row_bytes(phase, one))
                largest = volumes.max(initial=0.0)
                most += [volumes[part].max(initial=0.0) or largest for part in (~between, between)]
            before = np.max([ways[one] for one in phase.waits], axis=0, initial=0.0)
            ways.append(before + np.array([phase.repeat, *(most * (phase.repeat / times))]))
        steps, inside, outside = np.max(ways, axis=0).tolist() if ways else (0, 0.0, 0.0)
        return self.pricing.of(schedule, groups, int(steps), (inside, outside))

    def _named(self, groups: IntArray) -> Hashable:
        """Return a name of ``groups``, which are often the same for one phase after the other."""
        if groups.size <= _FEW:
            return groups.shape, groups.tobytes()
        if self._last is None or self._last[0] is not groups:
            self._last = groups, digest(groups)
        return self._last[1]

    def _rows_named(self, rows: Rows) -> Hashable:
        if isinstance(rows, np.ndarray):
            return self._named(rows)
        return digest(np.array([len(one) for one in rows]), *rows)

    def ends(self, phase: Phase) -> Ends:
        """Return the ends of the flows of ``phase``, in the order in which ``phase()`` has them in each group."""
        return kept(self._rows, phase, partial(self._ends, phase))

    def _ends(self, phase: Phase) -> Ends:
        # Phases that all reduce, or none of whose rows do, have the same ends where they share both columns.
        if phase.stream is not None or phase.reduce.strides != (0,):
            return _merge(phase)
        # Whether they reduce matters only where reducing costs something.
        reduces = not self.pricing.ideal and bool(phase.reduce.any())
        columns = id(phase.source), id(phase.destination), reduces
        ends = self._columns.get(columns) or _merge(phase)
        if ends.sources is phase.source:  # which keeps the columns
            self._columns[columns] = ends
        return ends

    def _build_routes(self, rows: Ends, groups: IntArray, router: Router) -> Routes:
        sources, destinations = rows.sources, rows.destinations
        if not rows.streams:
            once = answers.route(router, self.fabric, groups[:, sources].ravel(), groups[:, destinations].ravel())
            if rows.steps is None:
                return once
            return evolve(once, latencies=once.latencies * np.tile(rows.steps, len(groups)))
        parts = []
        for group in groups:
            if len(sources):
                parts.append(answers.route(router, self.fabric, group[sources], group[destinations]))
            for members, receivers in rows.streams:
                operation = operation_of(len(members), len(receivers))
                parts.append(answers.tree(router, self.fabric, group[members], group[receivers], operation))
        return Routes.concatenate(parts)

    def _first_streams(self, sources: Rows, destinations: Rows, operation: Operation) -> tuple[BoolArray, Routes]:
        """Return ``(G,)`` which are unicasts in place of a stream, for want of a tree, and the routes of all."""
        spread, parts = np.zeros(len(sources), dtype=bool), []
        for index, (one, other) in enumerate(zip(sources, destinations, strict=True)):
            try:
                parts.append(answers.tree(self.router, self.fabric, one, other, operation))
            except UnsupportedError:
                if max(len(one), len(other)) == 1:
                    raise
                spread[index] = True
                parts.append(self._unicasts(one, other, self.router))
        return spread, Routes.concatenate(parts)

    def _build_streams(
        self, sources: Rows, destinations: Rows, operation: Operation, spread: BoolArray, router: Router
    ) -> Routes:
        parts = [
            self._unicasts(one, other, router) if alone else answers.tree(router, self.fabric, one, other, operation)
            for one, other, alone in zip(sources, destinations, spread.tolist(), strict=True)
        ]
        return Routes.concatenate(parts)

    def _unicasts(self, sources: IntArray, destinations: IntArray, router: Router) -> Routes:
        count = max(len(sources), len(destinations))
        ends = (np.ascontiguousarray(np.broadcast_to(nodes, count)) for nodes in (sources, destinations))
        return answers.route(router, self.fabric, *ends)

    def __reduce__(self) -> tuple[type[Lowering], tuple[Fabric]]:
        return Lowering, (self.fabric,)  # a copy is one that has not built anything yet


@frozen(eq=False)
class ScheduleFlows:
    """The flow sets of a schedule in groups, as an admission or a router is asked about them."""

    lowering: Lowering
    schedule: Schedule
    groups: IntArray  # (G, ranks) node of the fabric of each rank
    by_rank: bool = False  # whether flows start one by one
    priority: int = 0  # class of the flows
    label: str = ""  # what their bytes are accounted to
    times: int = 1  # the whole schedule is done

    def of(self, phase: int, repetition: int, items: IntArray, *, unicasts: bool = False) -> FlowSet:
        """Return the flow set of ``items``: flows, or whole groups; with ``unicasts`` for streams that of all flows."""
        groups = self.groups
        if not self.by_rank and len(items) < len(groups):
            groups = groups[items]
        flows = self.lowering.phase(self, phase, groups, repetition, unicasts=unicasts)
        return self.lowering.each(flows, items) if self.by_rank and not unicasts else flows

    def unicasts(self, phase: int, repetition: int, items: IntArray, admission: Admission) -> Unicasts | None:
        if self.schedule.phases[phase].stream is None:
            return None
        if not self.by_rank:
            return partial(self.of, phase, repetition, items, unicasts=True)
        return None if isinstance(admission, AlwaysStart) else partial(self._exchange, phase, repetition, items)

    def _exchange(self, phase: int, repetition: int, items: IntArray) -> FlowSet:
        ends = self.lowering.ends(self.schedule.phases[phase])
        group, flow = divmod(int(items[0]), len(ends))
        _, replaced, _ = ends.exchanged()
        chosen = np.flatnonzero(replaced == flow) + group * len(replaced)
        whole = self.of(phase, repetition, items, unicasts=True)
        return evolve(self.lowering.each(whole, chosen), activity=np.zeros(len(chosen), dtype=np.intp), activities=1)


class ScheduleRun:
    """Runs a schedule in each of ``(G, ranks)`` nodes: phases whole, or "Rank by rank" as in docs/model.md."""

    def __init__(
        self,
        network: FlowNetwork,
        lowering: Lowering,
        schedule: Schedule,
        groups: IntArray,
        on_complete: Callable[[IntArray], None],  # gets the (k,) indices of groups that end at the same time
        *,
        fidelity: str = COMPRESSED,
        priority: int = 0,
        label: str = "",
        times: int = 1,  # the whole schedule is done, where phases are compressed
    ) -> None:
        self._network = network
        self._on_complete = on_complete
        self._left = len(groups)
        way = way_of(fidelity, network)
        by_rank = way in (engine.BY_RANK, engine.RENDEZVOUS)
        if way != engine.COMPRESSED:
            limits.check("phases", schedule.steps)  # each repetition is one
        self.flows = ScheduleFlows(lowering, schedule, groups, by_rank, priority, label, times)
        self._lowered = lowering.lowered(schedule, groups)  # which the engine reads
        self._number = network._add_run(self, self._lowered, way=way)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_lowered": None}  # the engine of a copy has its own

    def start(self) -> None:
        """Start now, in all groups; what launching takes comes before the first flows."""
        self._network._start_run(self._number)

    def cancel(self) -> None:
        """Stop now, in all groups; no more of them end."""
        self._network._cancel_run(self._number)

    def ended(self, groups: IntArray) -> None:
        """Note that groups have ended."""
        self._left -= len(groups)
        if not self._left:
            del self._network._runs[self._number]
        self._on_complete(groups)


def operation_of(sources: int, destinations: int) -> Operation:
    if sources == 1:
        return Operation.MULTICAST
    return Operation.REDUCE if destinations == 1 else Operation.ALL_REDUCE


def _merge(phase: Phase) -> Ends:
    """Group rows into flows: equal source, destination and operation are one flow, and so is a stream."""
    count = len(phase)
    streamed: BoolArray = np.zeros(count, dtype=bool) if phase.stream is None else phase.stream >= 0
    span = max(int(phase.source.max(initial=0)), int(phase.destination.max(initial=0))) + 1
    identity = (phase.source * span + phase.destination) * 2 + phase.reduce
    if not streamed.any() and (identity[1:] > identity[:-1]).all():
        return Ends(phase.source, phase.destination, phase.reduce)
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
    return Ends(phase.source[unicast], phase.destination[unicast], phase.reduce[unicast], tuple(streams), flow)


def digest(*arrays: IntArray) -> bytes:
    """Return a name of the content of ``arrays``, to remember what was made from them without keeping them."""
    content = sha256()
    for array in arrays:
        content.update(f"{array.shape}".encode())
        content.update(np.ascontiguousarray(array).data)
    return content.digest()
