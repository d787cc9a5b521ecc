"""The arrays of a table of max-min fair flows: a slot for each flow, and what finds flows by link and by time.

A flow that comes takes the next slot, so that slots are in the order in which flows came. Slots of flows that are gone
are free again when most are. There are ``N`` slots, ``P`` pairs of a flow and a link, and ``L`` links.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fredfw.fabric import Routes
from fredfw.simulation.core import compiled
from fredfw.simulation.core.loads import Statistics
from fredfw.simulation.core.ways import Way
from fredfw.typing import BoolArray, FloatArray, IntArray

_Small = NDArray[np.int32]
# Numbers of slots, of 32 or 64 bits.
Places = NDArray[np.signedinteger[Any]]

# The arrays in the order in which the loops in C know them.
ARRAYS = (
    *("volume", "remaining", "since", "rate", "finish", "cap", "start", "length", "bottleneck", "place", "mark"),
    *("draining", "link", "owner", "next", "previous", "coefficient"),
    *("capacity", "load", "head", "tail", "resting", "local", "is_loose", "loose_links", "heap"),
    *("tickets", "latency"),
)
_COUNTS, _ASKED, _TIMES = 27, 6, 3
# The places of those that each step looks at.
SEQUENCE, NOW, FIRST_DONE = 18, _COUNTS + _ASKED, _COUNTS + _ASKED + 1
# The place of what the loops in C are asked for.
ASKED = _COUNTS
# So many arrays more have the loops in C.
OWN = 2
# What a step has come to, where it has not delivered a message: nothing is due, the first event of the calendar is,
# flows are drained of which not all are messages (``found``), or all flows have to be solved.
NOTHING_DUE, CALENDAR, FLOWS_DRAINED, RATES_UNKNOWN = 0, -4, -5, -6
# What a slot has before it is taken, where that is not 0.
_UNUSED = {"mark": -1}
# So few flows are written one by one.
_SMALL = 4
# Pairs are numbered with 32 bits.
_MOST_PAIRS = 2**31 - 1
_LEAST_ROOM = 64
# Room for so many times as much as comes, and at most for so much.
_MORE, _MOST_MORE = 7, 2**23


class _Count:
    """A number that the loops change too; it stands in the first entries of ``Slots.table``."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __get__(self, slots: Slots, owner: type) -> int:
        return slots.counts[self._place]

    def __set__(self, slots: Slots, value: int) -> None:
        slots.counts[self._place] = value


class _Time:
    """A time that the loops change too; it stands behind the numbers."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __get__(self, slots: Slots, owner: type) -> float:
        return slots.times[self._place]

    def __set__(self, slots: Slots, value: float) -> None:
        slots.times[self._place] = value


class Slots(ABC):
    """The state of a table, and what is done with it.

    Args:
        capacity: ``(L,)`` bytes per second of the links.

    Attributes:
        slots: How many slots are taken, also by flows that are gone.
        active: How many flows drain.
        linked: The slots below are in the chains of their links and in the heap, as long as their flows drain.
        heaped: Entries of the heap.
        loose: How many links have lost a flow since rates were known.
        passes: Passes over the flows in the last repair.
        touched: Flows that the last repair looked at.
        fresh: The slots from this one on are new since rates were known.
        gone: How many flows have left since.
        related: 1 while bottlenecks, chains and heap are those of the flows that drain.
        everything: 1 where all flows have to be solved.
        pairs: How many pairs are taken, like slots.
        room: For how many slots there is room.
        pair_room: For how many pairs.
        delivery_room: For how many deliveries.
        messages: How many of the flows that drain are messages.
        deliveries: How many messages are drained and not delivered.
        sequence: Number of the last event that became known.
        stepping: 1 while what is due now belongs to a moment that has been counted.
        drained: How many flows the last step has found.
        now: Seconds since the simulation began.
        first_done: When the first flow is drained, infinite if none will be; NaN where that is not known.
        first_delivery: When the first message is delivered, of those that are drained.
        table: Those numbers and times, and behind them room for the addresses of the arrays.
        counts: The same memory, to be read one by one.
        times: The same memory again, as times.
        view: The memory of the arrays by name, to be read and written one by one; without ``coefficient``.
        volume: ``(N,)`` bytes of each flow at the beginning.
        remaining: ``(N,)`` bytes that it had left at ``since``.
        since: ``(N,)`` when its rate was set.
        rate: ``(N,)`` bytes per second.
        finish: ``(N,)`` when it is drained, infinite without a rate.
        cap: ``(N,)`` upper limit of its rate.
        start: ``(N,)`` its first pair.
        length: ``(N,)`` how many pairs it has.
        bottleneck: ``(N,)`` link that limits it, -1 for its cap; known while the slots are related.
        place: ``(N,)`` where it is in the heap, -1 where it is not.
        mark: ``(N,)`` -1 between calls.
        member: ``(N,)`` its index in its load.
        tickets: ``(N,)`` number of a message, 0 for other flows.
        latency: ``(N,)`` seconds from the last byte's departure to its delivery, of a message.
        draining: ``(N,)`` 1 while it drains.
        heap: ``(N,)`` slots; the flow that is drained first is at the top.
        link: ``(P,)`` link of each pair.
        owner: ``(P,)`` slot of each pair.
        next: ``(P,)`` next pair of the same link, -1 after the last.
        previous: ``(P,)`` the one before.
        coefficient: ``(P,)`` share of the flow's rate on the link; ``None`` while all are 1.
        capacity: ``(L,)`` bytes per second.
        load: ``(L,)`` bytes per second that the flows carry, but for rounding; known while the slots are related.
        head: ``(L,)`` first pair of each link's chain; known while the slots are related, like the next three.
        tail: ``(L,)`` last pair.
        resting: ``(L,)`` how many flows it is the bottleneck of.
        local: ``(L,)`` -1 between calls.
        is_loose: ``(L,)`` 1 for a link that has lost a flow since rates were known.
        loose_links: ``(L,)`` those links, as many as ``loose``.
    """

    slots = _Count(0)
    active = _Count(1)
    links = _Count(2)
    linked = _Count(3)
    heaped = _Count(4)
    loose = _Count(5)
    passes = _Count(6)
    touched = _Count(7)
    fresh = _Count(8)
    gone = _Count(9)
    related = _Count(10)
    everything = _Count(11)
    pairs = _Count(12)
    room = _Count(13)
    pair_room = _Count(14)
    delivery_room = _Count(15)
    messages = _Count(16)
    deliveries = _Count(17)
    sequence = _Count(SEQUENCE)
    stepping = _Count(19)
    drained = _Count(20)
    _events = _Count(21)
    _sent = _Count(22)
    _solves = _Count(23)
    _solved = _Count(24)
    _all_passes = _Count(25)
    _most_passes = _Count(26)
    now = _Time(NOW)
    first_done = _Time(FIRST_DONE)
    first_delivery = _Time(NOW + 2)

    view: dict[str, memoryview[Any]]
    volume: FloatArray
    remaining: FloatArray
    since: FloatArray
    rate: FloatArray
    finish: FloatArray
    cap: FloatArray
    start: NDArray[np.int64]
    length: _Small
    bottleneck: _Small
    place: _Small
    mark: _Small
    member: _Small
    tickets: NDArray[np.int64]
    latency: FloatArray
    draining: NDArray[np.uint8]
    heap: _Small
    link: _Small
    owner: _Small
    next: _Small
    previous: _Small
    coefficient: FloatArray | None
    capacity: FloatArray
    load: FloatArray
    head: _Small
    tail: _Small
    resting: _Small
    local: _Small
    is_loose: NDArray[np.uint8]
    loose_links: _Small

    _OF_SLOTS: ClassVar[dict[str, type]] = {
        **dict.fromkeys(("volume", "remaining", "since", "rate", "finish", "cap", "latency"), np.float64),
        **dict.fromkeys(("start", "tickets"), np.int64),
        **dict.fromkeys(("length", "bottleneck", "place", "mark", "member", "heap"), np.int32),
        "draining": np.uint8,
    }
    _OF_PAIRS = ("link", "owner", "next", "previous")

    def __init__(self, capacity: FloatArray) -> None:
        self.table = np.zeros(_COUNTS + _ASKED + _TIMES + len(ARRAYS) + OWN, dtype=np.int64)
        self._read_table()
        self.links = len(capacity)
        self.everything = 1
        self.first_done = self.first_delivery = math.inf
        for name, kind in self._OF_SLOTS.items():
            setattr(self, name, np.full(_LEAST_ROOM, _UNUSED.get(name, 0), dtype=kind))
        for name in self._OF_PAIRS:
            setattr(self, name, np.empty(_LEAST_ROOM, dtype=np.int32))
        self.coefficient = None
        self.capacity = np.ascontiguousarray(capacity, dtype=np.float64)
        self.load = np.zeros(len(capacity))
        for name in ("head", "tail", "resting", "local", "loose_links"):
            setattr(self, name, np.empty(len(capacity), dtype=np.int32))
        self.is_loose = np.zeros(len(capacity), dtype=np.uint8)
        self.bind()

    def set_capacity(self, capacity: FloatArray) -> None:
        """Give the links other bytes per second; the array is not copied."""
        self.capacity = np.ascontiguousarray(capacity, dtype=np.float64)
        self.bind()

    def bind(self) -> None:
        """Take note that arrays have been replaced."""
        self.room, self.pair_room = len(self.volume), len(self.link)
        names = [*ARRAYS, "member"]
        self.view = {name: getattr(self, name).data for name in names if name != "coefficient"}

    def _read_table(self) -> None:
        self.counts = self.table.data
        self.times = self.table.data.cast("B").cast("d")

    @property
    def first(self) -> float:
        """When the first flow is drained, while the slots are related; infinite if none will be."""
        return float(self.finish[self.heap[0]]) if self.heaped else np.inf

    @abstractmethod
    def index(self) -> None:
        """Make the chains and the heap anew."""

    @abstractmethod
    def assign(self, now: float, rates: FloatArray) -> float:
        """Give the flows that drain, in order, ``(active,)`` ``rates``; return when the first is drained."""

    @abstractmethod
    def solve(self) -> tuple[FloatArray, int]:
        """Return the ``(active,)`` rates of all flows, in order, and the number of passes."""

    @abstractmethod
    def settle(self, now: float) -> float:
        """Solve again what has changed since rates were known, and what that disturbs.

        Returns:
            When the first flow is drained, infinite if none will be; NaN where so much has changed that all flows are
            to be solved.
        """

    @abstractmethod
    def take(self, time: float) -> Places:
        """Take out the flows that are drained at ``time``, when the first is; return their slots, in order."""

    @abstractmethod
    def drop(self, slots: Places) -> None:
        """Take the flows of ``slots``, in order, out."""

    @abstractmethod
    def step(self, until: float, time: float, order: int, sequence: int) -> int:
        """Go on, at most to ``until``, until there is something to do elsewhere.

        Return what, or the number of the message that is delivered. What becomes due is counted on from ``sequence``.

        Args:
            until: Seconds since the simulation began.
            time: When the first event of the calendar is due, infinite if there is none.
            order: Its place among what is due then.
            sequence: Number of the last event that became known.
        """

    @abstractmethod
    def found(self) -> Places:
        """Return the slots, in order, of the flows that the last step has found drained."""

    @abstractmethod
    def deliver(self, slot: int, order: int) -> None:
        """Have the message of ``slot``, which is drained now, delivered; ``order`` is the number of that event."""

    @abstractmethod
    def withdraw_deliveries(self) -> list[tuple[float, int, int]]:
        """Take back all deliveries; return time, number of the event, and message of each."""

    @abstractmethod
    def put(self, way: Way, ticket: int, volume: float) -> bool:
        """Let a message in that has no rate yet, if there is room for it; return whether there is."""

    def make_room(self, way: Way) -> None:
        """Have room for a message."""
        if way.ways.routes.coefficients is not None:
            self._have_coefficients()
        self._grow(self.slots + 1, self.pairs + way.length)

    def count(self, statistics: Statistics) -> None:
        """Count what has happened in steps and has not been counted yet."""
        statistics.events += self._events
        statistics.batches += self._sent
        statistics.flows += self._sent
        statistics.solves += self._solves
        statistics.solved += self._solved
        statistics.passes += self._all_passes
        statistics.most_passes = max(statistics.most_passes, self._most_passes)
        self._events = self._sent = self._solves = self._solved = self._all_passes = self._most_passes = 0

    def append(self, routes: Routes, volumes: FloatArray, caps: FloatArray | None, now: float) -> int:
        """Let flows in that have no rate yet; return the slot of the first."""
        first, pairs = self.slots, self.pairs
        end, last = first + len(volumes), pairs + len(routes.links)
        if end > len(self.volume) or last > len(self.link):
            self._grow(end, last)
        if end <= first + _SMALL:
            limits = [math.inf] * len(volumes) if caps is None else caps.tolist()
            bounds = routes.offsets.tolist()
            for flow, (volume, cap) in enumerate(zip(volumes.tolist(), limits, strict=True)):
                self._append_one(flow, pairs + bounds[flow], bounds[flow + 1] - bounds[flow], volume, cap, now)
        else:
            self._append_all(routes, volumes, caps, now)
        self.link[pairs:last] = routes.links
        if routes.coefficients is not None:
            self._have_coefficients()[pairs:last] = routes.coefficients
        elif self.coefficient is not None:
            self.coefficient[pairs:last] = 1.0
        self.slots, self.pairs = end, last
        self.active += end - first
        return first

    def _have_coefficients(self) -> FloatArray:
        if self.coefficient is None:
            self.coefficient = np.ones(len(self.link))
            self.bind()
        return self.coefficient

    def _append_one(self, member: int, start: int, length: int, volume: float, cap: float, now: float) -> None:
        """Fill a slot; through memory views, for to set one entry of an array takes longer."""
        slot, view = self.slots + member, self.view
        view["volume"][slot] = view["remaining"][slot] = volume
        view["since"][slot] = now
        view["rate"][slot] = 0.0
        view["finish"][slot] = math.inf
        view["cap"][slot] = cap
        view["start"][slot] = start
        view["length"][slot] = length
        view["draining"][slot] = 1
        view["member"][slot] = member
        view["tickets"][slot] = 0

    def _append_all(self, routes: Routes, volumes: FloatArray, caps: FloatArray | None, now: float) -> None:
        """Fill the next slots."""
        first, pairs = self.slots, self.pairs
        mine = slice(first, first + len(volumes))
        self.volume[mine] = self.remaining[mine] = volumes
        self.since[mine] = now
        self.rate[mine] = 0.0
        self.finish[mine] = np.inf
        self.cap[mine] = np.inf if caps is None else caps
        np.add(routes.offsets[:-1], pairs, out=self.start[mine])
        np.subtract(routes.offsets[1:], routes.offsets[:-1], out=self.length[mine], casting="same_kind")
        self.draining[mine] = 1
        self.member[mine] = np.arange(len(volumes))
        self.tickets[mine] = 0

    def taken(self) -> IntArray:
        """Return the slots of the flows that drain, in order."""
        return np.flatnonzero(self.draining[: self.slots])

    def pairs_of(self, slots: Places) -> IntArray:
        """Return the pairs of the flows of ``slots``, one flow after the other."""
        lengths = self.length[slots]
        ends = np.cumsum(lengths, dtype=np.intp)
        within: IntArray = np.repeat(self.start[slots] - ends + lengths, lengths)
        return within + np.arange(len(within))

    def links_of(self, slots: Places) -> IntArray:
        """Return the links that the flows of ``slots`` cross."""
        return self.link[self.pairs_of(slots)].astype(np.intp)

    def clear(self) -> None:
        """Free all slots, when no flow drains."""
        self.slots = self.linked = self.pairs = self.fresh = 0

    def crowded(self, flows: int) -> bool:
        """Return whether so many more flows find no room, and most slots are of flows that are gone."""
        return self.slots + flows > len(self.volume) and 2 * self.active < self.slots

    def compact(self) -> BoolArray:
        """Free the slots of flows that are gone; return the ``(slots,)`` mask of the others, which move together."""
        kept = self.draining[: self.slots].astype(bool)
        pairs = np.repeat(kept, self.length[: self.slots])
        count, total = int(kept.sum()), int(pairs.sum())
        for name in self._OF_SLOTS:
            if name not in ("mark", "heap"):
                array = getattr(self, name)
                array[:count] = array[: self.slots][kept]
        self.draining[count : self.slots] = 0
        self.link[:total] = self.link[: self.pairs][pairs]
        if self.coefficient is not None:
            self.coefficient[:total] = self.coefficient[: self.pairs][pairs]
        np.cumsum(self.length[: max(count - 1, 0)], out=self.start[1:count])
        self.start[:1] = 0
        linked, self.fresh = int(kept[: self.linked].sum()), int(kept[: self.fresh].sum())
        self.slots, self.pairs = count, total
        if self.related:
            self.slots = linked  # those that came since are not in the chains yet
            self.index()
            self.slots = count
        return kept

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], Slots], tuple[dict[str, Any]]]:
        return _restored, (self.__getstate__(),)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("counts", "times", "view")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._read_table()
        self.bind()

    def _grow(self, slots: int, pairs: int) -> None:
        if pairs > _MOST_PAIRS:
            raise MemoryError(f"{pairs} pairs of a flow and a link at once; there is room for {_MOST_PAIRS}")
        if slots > len(self.volume):
            for name in self._OF_SLOTS:
                setattr(self, name, _longer(getattr(self, name), self.slots, slots, _UNUSED.get(name, 0)))
        if pairs > len(self.link):
            for name in self._OF_PAIRS:
                setattr(self, name, _longer(getattr(self, name), self.pairs, pairs, 0))
            if self.coefficient is not None:
                self.coefficient = _longer(self.coefficient, self.pairs, pairs, 0)
        self.bind()


def _longer(array: NDArray[Any], used: int, least: int, fill: int) -> NDArray[Any]:
    """Return an array with room for ``least`` entries and more to come, the first ``used`` of which are the same."""
    # What comes at once is seldom alone, and memory that is only zero costs nothing until it is used.
    room = max(2 * len(array), least + min(_MORE * (least - used), _MOST_MORE))
    longer: NDArray[Any] = np.full(room, fill, dtype=array.dtype) if fill else np.zeros(room, dtype=array.dtype)
    longer[:used] = array[:used]
    return longer


def slots_class() -> type[Slots]:
    """Return the slots with loops in C where these are installed, else those with loops in Python."""
    # Both derive from the class above.
    if compiled.library() is None:
        from fredfw.simulation.core.pure import PureSlots

        return PureSlots
    from fredfw.simulation.core.native import NativeSlots

    return NativeSlots


def _restored(state: dict[str, Any]) -> Slots:
    """Return a copy, which may be in another process, where the loops in C are not installed."""
    slots = object.__new__(slots_class())
    slots.__setstate__(state)
    return slots
