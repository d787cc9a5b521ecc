"""A fabric that carries flows in simulated time; the engine returns for callbacks, admission, policies, interrupts."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from attrs import evolve

from fredfw.arrays import is_real
from fredfw.errors import InputError, PluginError
from fredfw.fabric import AlwaysStart, Fabric, FlowSet, NodeKind, Router, Start
from fredfw.simulation import answers, engine
from fredfw.simulation.admission import Completion, Desk, Request, Unicasts
from fredfw.simulation.checks import check_bandwidths, check_callback, check_fabric, check_flows, check_sharing
from fredfw.simulation.engine import View, library
from fredfw.simulation.record import Statistics
from fredfw.simulation.sharing import (
    ActiveFlows,
    CircuitPreempt,
    Dynamics,
    HeldRates,
    Incidence,
    MaxMin,
    SharingPolicy,
    StatefulSharing,
    StrictLinks,
    WeightedMaxMin,
    sharing_of,
)
from fredfw.simulation.ways import ONE, Detours, Rerouting, Way, flows_of
from fredfw.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from fredfw.simulation.lowering import ScheduleFlows, ScheduleRun
    from fredfw.simulation.run import Executor

# A policy that is derived from one of these may divide bandwidth in another way.
NATIVE: dict[type[SharingPolicy], int] = {
    MaxMin: engine.MAX_MIN,
    WeightedMaxMin: engine.MAX_MIN,  # rates in proportion to weights are equal rates of flows that count as much more
    StrictLinks: engine.STRICT_LINKS,
    CircuitPreempt: engine.CIRCUIT_PREEMPT,
}
"""How the engine calls the policies whose rates it knows itself."""
_EVENTS = 1 << 16  # that the engine does before it comes back, so that an interrupt is heard
_SHOWN = 1 << 5  # events, where somebody is told of progress
_RUNS = 1 << 14  # of tasks, whose flow sets are at hand
_GROUPS = 1 << 6  # that there is room for at once; most runs have fewer
_PATIENCE = 1_000_000  # times in turn that no flow may have a rate, while nothing else happens
# What belongs to the engine's part, which a copy has of its own.
_NATIVE = "_code", "_address", "_now", "_cargo", "_notice", "_cargo_address", "_notice_address"


class FlowNetwork:
    """A fabric that carries flows, which drain at the rates that the sharing policy gives them.

    Raises:
        InputError: ``fabric`` is no fabric, or ``sharing`` is neither a policy nor ``None``, which is the fabric's.

    Attributes:
        admission: The fabric's, for this simulation alone; has figures and notes when it is over.
        dynamics: The state of the sharing policy, if it has any.
        bandwidths: The ``(links,)`` bytes per second of the links now; 0 for one that is closed.
    """

    def __init__(self, fabric: Fabric, sharing: SharingPolicy | None = None) -> None:
        check_fabric(fabric)
        check_sharing(sharing)
        self.fabric = fabric
        self.sharing = sharing_of(fabric) if sharing is None else sharing
        self.admission = answers.admission(fabric)
        self.bandwidths: FloatArray = fabric.bandwidths
        self.dynamics: Dynamics | None = None
        if isinstance(self.sharing, StatefulSharing):
            self.dynamics = answers.begun(self.sharing, fabric)
        self._statistics = Statistics()
        self._detours = Detours()
        self._desk = Desk(self)
        self._tickets = 0
        self._labels: dict[str, int] = {}
        self._timers: dict[int, Callable[[], object]] = {}
        self._open: dict[int, int] = {}  # activities that have not ended, by ticket
        self._requests: dict[int, Request] = {}  # that were let in, by their numbers in the engine
        self._sent: dict[int, tuple[Way, float, Completion, int, str]] = {}  # messages, likewise
        self._active: dict[int, FlowSet] = {}  # as they were let in, of which the engine says when they are over
        self._arrays: dict[int, object] = {}  # that it reads until then
        self._loads: WeakKeyDictionary[FlowSet, engine.Load] = WeakKeyDictionary()  # since equal ones are one object
        self._runs: dict[int, ScheduleRun] = {}
        self._executor: Executor | None = None  # of a task graph that runs
        self._graph_runs: dict[int, ScheduleFlows] = {}
        self._until = math.inf  # rates hold, of a policy with state
        self._standing = 0
        self._stepping = False
        self._known: tuple[int, ActiveFlows] | None = None  # how many changes there had been, and what was known
        self._begin()

    def _begin(self) -> None:
        self._code = code = library()
        setting, _arrays = self._setting()
        self._address = code.network_new(ctypes.byref(setting))
        weakref.finalize(self, code.network_free, self._address)
        self._now = code.now(self._address).contents
        self._cargo, self._notice = engine.STRUCTURES["cargo"](), engine.STRUCTURES["notice"]()
        self._cargo_address, self._notice_address = ctypes.addressof(self._cargo), ctypes.addressof(self._notice)

    def _setting(self) -> tuple[ctypes.Structure, object]:
        fabric = self.fabric
        columns = (
            engine.reals(fabric.bandwidths),
            engine.numbers(fabric.sources),
            engine.numbers(fabric.destinations),
            np.ascontiguousarray(fabric.kinds == NodeKind.SWITCH, dtype=np.uint8),
        )
        counts = len(fabric.bandwidths), len(fabric.kinds)
        setting = engine.STRUCTURES["setting"](*counts, *(one.ctypes.data for one in columns))
        setting.sharing, setting.local = NATIVE.get(type(self.sharing), engine.FOREIGN), self.sharing.local
        setting.open = type(self.admission) is AlwaysStart
        setting.starts_streams = isinstance(self.admission, AlwaysStart)
        return setting, columns

    @property
    def statistics(self) -> Statistics:
        """Counters."""
        events, batches, flows, solves, solved, passes, most, met, _ = self._counts()
        return self._statistics + Statistics(events, batches, flows, solves, solved, passes, most, met=met)

    def _counts(self) -> list[int]:
        return self._read(self._code.statistics, 9)

    def _read(self, function: Callable[[int, int], object], count: int) -> list[int]:
        numbers = np.empty(count, dtype=np.int64)
        function(self._address, numbers.ctypes.data)
        found: list[int] = numbers.tolist()
        return found

    # --- time

    @property
    def now(self) -> float:
        """Seconds since the simulation began."""
        now: float = self._now.value
        return now

    def schedule(self, delay: float, callback: Callable[[], object], priority: int = 0) -> int:
        """Call ``callback`` in ``delay`` seconds; return a number to take that back with.

        At equal times lower ``priority`` comes first, then the first scheduled. Raises ``InputError`` for an impossible
        delay.
        """
        if not is_real(delay) or not 0 <= delay < math.inf:
            raise InputError(f"a delay of {delay!r}", key="delay", accepted="seconds, finite and not negative")
        timer: int = self._code.timer(self._address, delay, priority)
        self._timers[timer] = callback
        return timer

    def unschedule(self, event: int) -> None:
        """Take back an event that has not happened, by the number that ``schedule`` returned."""
        if self._timers.pop(event, None) is not None:
            self._code.withdraw(self._address, event)

    def next_event_time(self) -> float:
        """Return when something happens next, infinite if nothing will."""
        while math.isnan(first := float(self._code.next(self._address))):
            self._give_rates()
        return first

    def advance(self, until: float = math.inf) -> None:
        """Let everything happen that happens until ``until``, and stop there; if that is infinite, at the last event.

        A callback that raises ends the step at its event; the next one goes on with the rest. Raises ``InputError`` in
        a callback, and if ``until`` lies in the past or is NaN.
        """
        if not is_real(until) or not until >= self.now:
            raise InputError(f"cannot advance from {self.now!r} to {until!r}", key="until", accepted="not in the past")
        if self._stepping:
            accepted = "one step at a time: after the callback has returned, and in one thread"
            raise InputError("the network is already in a step", key="advance", accepted=accepted)
        self._stepping = True
        try:
            self._step(until)
        finally:
            self._stepping = False

    def _step(self, until: float) -> None:
        step, address, notice = self._code.step, self._address, self._notice
        progress = None if self._executor is None else self._executor.progress
        events, beat, happened = _EVENTS if progress is None else _SHOWN, 0, 0
        self._code.begin(address)
        while what := step(address, until, events, self._notice_address):
            beat += 1
            if progress is not None and (what == engine.MORE or not beat % _SHOWN):
                progress(self._graph_counts()[3])
                happened += events
                events = min(_SHOWN + happened // 64, _EVENTS)  # the longer it runs, the less a look shows
            if what == engine.TIMER:
                self._timers.pop(notice.whose)()
            elif what == engine.ENDED:
                self._ended(notice.whose, notice.detail)
            elif what == engine.RATES:
                self._give_rates()
            elif what != engine.MORE:
                self._heed(what)
        if until < math.inf:
            getattr(self._code, "pass")(address, until)

    @property
    def idle(self) -> bool:
        """Whether no flow drains or waits and no event is due."""
        return bool(self._code.is_idle(self._address)) and not self._desk.waiting

    # --- flows

    def start(
        self,
        flows: FlowSet,
        on_complete: Completion,
        *,
        unicasts: Unicasts | None = None,
        on_drained: Completion | None = None,
        checked: bool = False,
    ) -> int:
        """Start ``flows`` now, or as the fabric's admission decides; return a ticket to cancel them with.

        Args:
            flows: What to carry; ``InputError``, which names the field, if they are not possible on this fabric.
            on_complete: Gets the activities that end, each once, as often as some end at the same time.
            unicasts: Returns unicasts of the same activities, for where the admission asks for them.
            on_drained: Gets the activities whose flows have left their sources, each before it ends, of repeated flows
                and those in parts at the end; once more where a change of the links then finds that some have not.
            checked: Whether the flows are known to be possible, as those that fredfw makes are.

        Raises:
            RefusedError: The admission refuses the flows.
            SimulationError: It asks for unicasts where there are none.
            PluginError: It fails, or returns what cannot be done.
        """
        if not checked:
            check_flows(flows, self.fabric)
            check_callback(on_complete)
        self._tickets = ticket = self._tickets + 1
        self._open[ticket] = flows.activities
        try:
            self._desk.ask(Request(ticket, flows, partial(self._report, ticket, on_complete), unicasts, on_drained))
        except BaseException:
            self._open.pop(ticket, None)
            raise
        return ticket

    def send(self, way: Way, volume: float, on_complete: Completion, priority: int = 0, label: str = "") -> int:
        """Start a single flow of ``volume`` bytes now, as ``start`` does at more cost; return a ticket.

        Raises ``InputError`` for a volume that is negative or not finite, and as ``start`` does.
        """
        if not 0 <= volume < math.inf:
            raise InputError(f"a volume of {volume!r}", key="volume", accepted="bytes, finite and not negative")
        if self._detours.closed is not None or type(self.admission) is not AlwaysStart:
            return self.start(flows_of(way, volume, priority, label), on_complete, checked=True)
        self._tickets = ticket = self._tickets + 1
        self._sent[ticket] = way, volume, on_complete, priority, label
        size, cargo = ctypes.c_double(volume), self._cargo
        cargo.routes, cargo.flow, cargo.volumes = way.ways.view.struct, way.place, ctypes.addressof(size)
        cargo.caps = cargo.activity = None
        cargo.activities = cargo.repeat = 1
        cargo.first_setup = cargo.setup = 0.0
        cargo.priority, cargo.label, cargo.ticket = priority, self._label(label), ticket
        cargo.takes_turns = cargo.token = cargo.hears_drain = 0
        self._code.admit(self._address, self._cargo_address)
        return ticket

    def cancel(self, ticket: int) -> None:
        """Take the flows of ``ticket`` off the links; no more activities end, what was sent stays accounted.

        Raises ``InputError`` if they have ended or were cancelled, or there are none.
        """
        if ticket in self._sent:
            self._code.cancel(self._address, ticket)
            del self._sent[ticket]  # with its way, which the engine has read until now
        elif self._open.pop(ticket, None) is not None:
            self._stop(ticket)
        else:
            accepted = "a ticket with flows that have neither ended nor been cancelled"
            raise InputError(f"nothing runs for {ticket!r}", key="ticket", accepted=accepted)

    def stalled(self) -> list[str]:
        """Return the labels of flows that cannot move: they wait for admission or have no rate."""
        labels = np.empty(max(len(self._sent) + len(self._requests) + self._counts()[1], 1), dtype=np.int64)
        while (count := self._code.stalled(self._address, len(labels), labels.ctypes.data)) < 0:
            self._give_rates()
        names = list(self._labels)
        # What has no rate for a time only is not stalled.
        stands = [names[label] for label in labels[:count].tolist()] if self._until == math.inf else []
        return [request.flows.label for request in self._desk.waiting] + stands

    def link_bytes(self) -> dict[str, FloatArray]:
        """Return the ``(links,)`` bytes that have crossed each link until now, by label."""
        total = np.zeros((len(self._labels), len(self.bandwidths)))
        present = np.zeros(len(self._labels), dtype=np.uint8)
        self._code.link_bytes(self._address, len(self._labels), total.ctypes.data, present.ctypes.data)
        return {name: total[label] for name, label in self._labels.items() if present[label]}

    # --- links

    def set_bandwidths(self, links: IntArray, values: FloatArray) -> None:
        """Give the ``(k,)`` ``links`` other bandwidths, from now on; 0 closes a link.

        A repeated phase is split at its current repetition, so that no flow is ahead of the slowest of its activity.
        Raises ``InputError`` for links that do not exist, not as many bandwidths, or negative or infinite ones.
        """
        links, values = check_bandwidths(links, values, self.fabric)
        bandwidths = self.bandwidths.copy()
        bandwidths[links] = values
        if not np.array_equal(bandwidths, self.bandwidths):
            self.bandwidths = bandwidths
            self._detours.close(bandwidths == 0)
            self._code.set_bandwidths(self._address, engine.reals(bandwidths).ctypes.data)

    def reroute(self, router: Router) -> Rerouting:
        """Route flows over closed links again with ``router``, and what starts later; one without a route waits."""
        self._detours.use(router)
        self._code.route_repetitions(self._address)
        moved, stranded, names = ctypes.c_int64(0), set(), list(self._labels)
        batches = np.empty(self._code.batches(self._address, 0, None), dtype=np.int64)
        self._code.batches(self._address, len(batches), batches.ctypes.data)
        for batch in batches.tolist():
            found = self._described(batch)
            if found.is_crossing:
                routes = View(self._detours.routes(self._flows_of(found)))
                if self._code.reroute(self._address, batch, ctypes.byref(routes.struct), ctypes.byref(moved)):
                    stranded.add(names[found.label])
        return Rerouting(moved.value, tuple(sorted(stranded)))

    @property
    def held(self) -> dict[str, tuple[float, int]]:
        """When flows first were to start while links were closed, without a way round them, and how often, by label."""
        room = len(self._labels)
        labels, first, times = np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64)
        count = self._code.held(self._address, room, labels.ctypes.data, first.ctypes.data, times.ctypes.data)
        names = list(self._labels)
        rows = sorted(zip(*(column[:count].tolist() for column in (first, labels, times)), strict=True))
        return {names[label]: (since, often) for since, label, often in rows}

    def _described(self, batch: int) -> ctypes.Structure:
        found = engine.STRUCTURES["batch"]()
        self._code.describe(self._address, batch, ctypes.byref(found))
        return found

    def _flows_of(self, batch: ctypes.Structure) -> FlowSet:
        if batch.run >= 0:
            items = engine.read(batch.items, batch.count, ctypes.c_int32)
            return self._flows_of_run(batch.run).of(batch.phase, batch.repetition, items)
        if batch.ticket in self._requests:
            return self._requests[batch.ticket].flows
        way, volume, _, priority, label = self._sent[batch.ticket]
        return flows_of(way, volume, priority, label)

    # --- schedules

    def _add_run(self, run: ScheduleRun, lowered: engine.NativeLowered, *, way: int) -> int:
        flows = run.flows
        about = self._label(flows.label), flows.priority, way, flows.times
        number: int = self._code.run_new(self._address, lowered.address, *about)
        self._runs[number] = run
        return number

    def _start_run(self, number: int) -> None:
        with self._heard():
            self._code.run_start(self._address, number)

    def _cancel_run(self, number: int) -> None:
        if self._runs.pop(number, None) is not None:
            with self._heard():
                self._code.run_cancel(self._address, number)
            self._stop(-number)

    # --- a task graph

    def _run_graph(self, executor: Executor, graph: ctypes.Structure) -> None:
        self._executor, self._tasks = executor, int(graph.tasks)
        with self._heard():
            self._code.tasks_start(self._address, ctypes.byref(graph))

    def _record(self) -> engine.Record:
        spans, ranks, compared, _ = self._graph_counts()
        record = engine.Record(self._tasks, spans, ranks, compared)
        self._code.tasks_record(self._address, ctypes.byref(record.view()))
        return record

    def _graph_counts(self) -> list[int]:
        return self._read(self._code.tasks_count, 4)

    # --- what the engine asks for

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """Do at once what the engine asks for meanwhile, so that whoever started something hears what is refused."""
        before = self._code.hear(self._address, -1, None)
        yield
        while self._code.hear(self._address, before, self._notice_address) != engine.OVER:
            self._heed(self._notice.what)

    def _stop(self, ticket: int) -> None:
        self._desk.forget(ticket)
        for number in [number for number, one in self._requests.items() if one.ticket == ticket]:
            del self._requests[number]
            with self._heard():
                self._code.cancel(self._address, number)

    def _heed(self, what: int) -> None:
        notice = self._notice
        if what == engine.ENDED:
            self._ended(notice.whose, notice.detail)
        elif what == engine.DRAINED:
            request = self._requests[notice.whose]
            assert request.on_drained is not None  # it asked for it
            request.on_drained(self._list())
        elif what == engine.CLOSED:
            self._arrays.pop(notice.whose, None)  # a copy has its own
            self._desk.close(self._active.pop(notice.whose))
        elif what == engine.ASK:
            phase, repetition, hears = engine.read(notice.others, notice.other_count).tolist()
            self._ask((notice.whose, notice.detail), phase, repetition, self._list(), hears_drain=bool(hears))
        elif what == engine.RUN_ENDED:
            self._runs[notice.whose].ended(self._list())
        elif what == engine.ROUTE:
            self._route(notice.whose)
        elif what == engine.STREAM:
            assert self._executor is not None  # a task graph runs
            self._executor.stream(notice.detail, self._list(), partial(self._streamed, notice.whose))
        elif what == engine.TIMER:
            self._timers.pop(notice.whose)()

    def _ask(self, carry: tuple[int, int], phase: int, repetition: int, items: IntArray, *, hears_drain: bool) -> None:
        flows = self._flows_of_run(carry[0])
        ended, drained = (partial(self._tell_run, carry, one) for one in (False, True))
        unicasts = flows.unicasts(phase, repetition, items, self.admission)
        mine = flows.of(phase, repetition, items)
        self._desk.ask(Request(-carry[0], mine, ended, unicasts, drained if hears_drain else None, carry))

    def _flows_of_run(self, number: int) -> ScheduleFlows:
        run = self._runs.get(number)
        if run is not None:
            return run.flows
        known = self._graph_runs.get(number)
        if known is None:
            assert self._executor is not None  # a task graph runs
            task, share = ctypes.c_int64(), ctypes.c_int64()
            of_run = self._address, number, ctypes.byref(task), ctypes.byref(share)
            groups = np.empty(_GROUPS, dtype=np.int64)
            while (count := self._code.errand(*of_run, len(groups), groups.ctypes.data)) > len(groups):
                groups = np.empty(count, dtype=np.int64)
            if len(self._graph_runs) >= _RUNS:
                self._graph_runs.clear()
            known = self._graph_runs[number] = self._executor.flows(task.value, share.value, groups[:count])
        return known

    def _streamed(self, stream: int, groups: IntArray) -> None:
        groups = engine.numbers(groups)
        self._code.streamed(self._address, stream, len(groups), groups.ctypes.data)

    def _list(self) -> IntArray:
        return engine.read(self._notice.list, self._notice.count)

    def _ended(self, number: int, is_over: int) -> None:
        message = self._sent.pop(number, None)
        if message is not None:
            message[2](ONE)
            return
        request = self._requests.pop(number) if is_over else self._requests[number]
        request.on_complete(self._list())

    def _report(self, ticket: int, on_complete: Completion, activities: IntArray) -> None:
        self._open[ticket] -= len(activities)
        if not self._open[ticket]:
            del self._open[ticket]
        on_complete(activities)

    def _tell_run(self, carry: tuple[int, int], drained: bool, activities: IntArray) -> None:
        activities = engine.numbers(activities)
        self._code.tell(self._address, *carry, not drained, len(activities), activities.ctypes.data)

    def _route(self, batch: int) -> None:
        activities = engine.numbers(self._list())
        routes = View(self._detours.routes(self._flows_of(self._described(batch))))
        self._code.go_on(self._address, batch, len(activities), activities.ctypes.data, ctypes.byref(routes.struct))

    def _admit(self, request: Request, flows: FlowSet, start: Start) -> None:
        once, again = 0.0, 0.0
        for seconds, only_once in ((flows.setup, flows.setup_once), (start.setup, start.setup_once)):
            if not only_once or flows.takes_turns:
                again += seconds
            elif not flows.continues:
                once += seconds
        load = self._loads.get(flows) if start.caps is None else None
        if load is None:
            limits = [caps for caps in (flows.caps, start.caps) if caps is not None]
            load = engine.Load(flows, engine.reals(np.minimum.reduce(limits)) if limits else None)
            if start.caps is None:
                self._loads[flows] = load
        self._tickets = number = self._tickets + 1
        cargo = load.cargo
        cargo.first_setup, cargo.setup = once + again, again
        cargo.label, cargo.token, cargo.hears_drain = self._label(flows.label), number, request.on_drained is not None
        if request.carry is None:
            self._requests[number] = request
            cargo.ticket, cargo.run, cargo.carry = number, 0, 0
        else:
            cargo.ticket, (cargo.run, cargo.carry) = 0, request.carry
        self._active[number] = flows
        self._arrays[number] = load
        self._code.admit(self._address, ctypes.byref(cargo))

    def _label(self, label: str) -> int:
        known = self._labels.get(label)
        if known is None:
            known = self._labels[label] = len(self._labels)
            self._weigh(label, known)
        return known

    def _weigh(self, label: str, number: int) -> None:
        if type(self.sharing) is WeightedMaxMin:
            self._code.weigh(self._address, number, answers.weight(self.sharing, label))

    def __getstate__(self) -> dict[str, Any]:
        if self._stepping:
            raise InputError("a network cannot be copied in the middle of a step", accepted="after it has returned")
        if self._executor is not None:
            message = "a network cannot be copied while a task graph runs on it, for nobody would get its record"
            raise InputError(message, accepted="a network without a task graph")
        left_out = *_NATIVE, "_known", "_arrays", "_loads"
        state = {name: value for name, value in self.__dict__.items() if name not in left_out}
        saved = np.empty(self._code.save(self._address, 0, None), dtype=np.uint8)
        self._code.save(self._address, len(saved), saved.ctypes.data)
        return state | {"saved": saved.tobytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = np.frombuffer(state.pop("saved"), dtype=np.uint8)
        self.__dict__.update(state, _known=None, _arrays={}, _loads=WeakKeyDictionary())
        self._begin()
        for label, number in self._labels.items():
            self._weigh(label, number)
        self._code.load(self._address, len(saved), saved.ctypes.data)

    # --- rates of policies that the engine does not know

    def _give_rates(self) -> None:
        flows = self._flows()
        if self.dynamics is None:
            held = HeldRates(answers.rates(self.sharing, flows.incidence, self.bandwidths, self.fabric))
        else:
            held = answers.held(self.dynamics, flows, self.bandwidths, self.now, self.fabric)
            self._standing = 0 if held.rates.any() else self._standing + 1
        self._statistics.solves += 1
        self._statistics.solved += len(flows)
        if self._standing > _PATIENCE:
            name = self.sharing.name
            raise PluginError(f"the sharing {name!r} gave none of {len(flows)} flows a rate, {_PATIENCE} times in turn")
        self._until = held.until
        rates = engine.reals(held.rates)
        self._code.assign(self._address, len(rates), rates.ctypes.data, held.until)

    def _flows(self) -> ActiveFlows:
        flows, pairs, weighted, changes = self._read(self._code.count_flows, 4)
        left = np.empty(flows)
        if self._known is not None and self._known[0] == changes:
            self._code.list_flows(self._address, ctypes.byref(engine.STRUCTURES["columns"](left=left.ctypes.data)))
            return evolve(self._known[1], remaining=left)
        offsets, links = np.empty(flows + 1, dtype=np.intp), np.empty(pairs, dtype=np.intp)
        coefficients = np.empty(pairs) if weighted else None
        caps, births, sizes, latencies = np.empty(flows), np.empty(flows), np.empty(flows), np.empty(flows)
        priorities, labels, names = (np.empty(flows, dtype=np.intp) for _ in range(3))
        arrays = offsets, links, coefficients, caps, priorities, labels, names, births, sizes, left, latencies
        self._code.list_flows(self._address, ctypes.byref(engine.STRUCTURES["columns"](*map(engine.address, arrays))))
        texts = list(self._labels)
        weights = np.array([answers.weight(self.sharing, text) for text in texts] or [1.0])[labels]
        shares = None if coefficients is None or (coefficients == 1).all() else coefficients
        limits = None if np.isinf(caps).all() else caps
        uneven = None if (weights == 1).all() else weights
        incidence = Incidence(offsets, links, shares, limits, priorities, uneven)
        told = tuple(texts[label] for label in labels.tolist())
        found = ActiveFlows(incidence, names, births, sizes, left, latencies, told)
        self._known = changes, found
        return found
