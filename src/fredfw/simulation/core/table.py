"""A flow table: what is the same for all sharing policies."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from hashlib import blake2b
from typing import ClassVar

import numpy as np

from fredfw.simulation import answers
from fredfw.simulation.calendar import Calendar
from fredfw.simulation.core.loads import Load, Statistics
from fredfw.simulation.core.slots import FIRST_DONE, NOW, SEQUENCE, Places, slots_class
from fredfw.simulation.core.ways import Way
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.sharing import Effort, Incidence
from fredfw.typing import FloatArray, IntArray

# Flows of a load that are off the links; ``None`` for all of them.
Taken = tuple[Load, IntArray | None]


class FlowTable(ABC):
    """Flows on the links of a fabric, from when they are put there to when they are drained.

    Each has a slot, in the order in which they came. Times are absolute, and never go back.

    Args:
        solver: Knows rates.
        statistics: Counts solves.

    Attributes:
        loads: Those with flows that drain, in the order in which they came.
        bandwidths: ``(links,)`` bytes per second; 0 for a link that is closed.
        serves_messages: Whether single flows may be messages, which have no load.
    """

    serves_messages: ClassVar[bool] = False

    def __init__(self, solver: RateSolver, statistics: Statistics) -> None:
        self._solver = solver
        self._statistics = statistics
        self.bandwidths = solver.fabric.bandwidths
        self._setting = b""  # names the bandwidths, where they are not the fabric's
        self.loads: list[Load] = []
        self._weights: dict[str, float] = {}  # by label
        self._firsts: list[int] = []  # where the flows of each load begin
        self._slots = slots_class()(self.bandwidths)

    @property
    def first_done(self) -> float:
        """When the first flow is drained, infinite if none will be; NaN where flows have come or gone since."""
        return self._slots.first_done

    @property
    def first_delivery(self) -> float:
        """When the first message is delivered, of those that are drained; infinite if there are none."""
        return self._slots.first_delivery

    def __len__(self) -> int:
        """Return how many flows drain."""
        return self._slots.active

    def put(self, load: Load, now: float) -> None:
        """Put ``load`` on the links."""
        slots = self._slots
        load.weight = self._weight(load.label)
        if not slots.active:
            slots.clear()
        elif slots.crowded(len(load.volumes)):
            self._compact()
        slots.now = now
        load.first = slots.append(load.routes, load.volumes, load.caps, now)
        self.loads.append(load)
        self._firsts.append(load.first)
        slots.first_done = math.nan

    def _weight(self, label: str) -> float:
        known = self._weights.get(label)
        if known is None:
            known = self._weights[label] = answers.weight(self._solver.sharing, label)
        return known

    def send(self, way: Way, ticket: int, volume: float) -> None:
        """Put a message on its links now; only a table that serves messages can."""
        slots = self._slots
        while not slots.put(way, ticket, volume):
            if slots.crowded(1):
                self._compact()
            else:
                slots.make_room(way)

    def pass_time(self, now: float) -> None:
        """Let time pass in which no flow is drained."""
        self._slots.now = now

    def begin(self) -> None:
        """Count what is due now as a moment of its own."""
        self._slots.stepping = 0

    def step(self, until: float, calendar: Calendar) -> int:
        """Go on, at most to ``until``, until there is something to do elsewhere; return what ``Slots.step`` does."""
        slots, times = self._slots, self._slots.times
        time, order = calendar.head()
        if not self.serves_messages and time > times[NOW] and math.isnan(times[FIRST_DONE]):
            self.settle()  # which the slots would come back for
        what = slots.step(until, time, order, calendar.sequence)
        calendar.now, calendar.sequence = times[NOW], slots.counts[SEQUENCE]
        return what

    def settle(self) -> float:
        """Give all flows their rates; return when the first is drained, infinite if none will be."""
        first = self._slots.first_done = self._settle()
        return first

    def count(self) -> None:
        """Count what has happened in steps."""
        self._slots.count(self._statistics)

    @abstractmethod
    def _settle(self) -> float:
        """Give all flows their rates; return when the first is drained, infinite if none will be."""

    def take_first(self) -> list[Taken]:
        """Let time pass until the first flow is drained; take those that then are off the links.

        Returns:
            The loads that they are of, with the ``(k,)`` indices into each; ``None`` for all of its flows.
        """
        slots = self._slots
        slots.now = slots.first_done
        return self._taken(slots.take(slots.now))

    def take_found(self) -> list[tuple[Load | None, IntArray | None]]:
        """Take off the links what the last step has found drained, which is part of loads, or messages.

        Returns:
            In the order of slots, the loads with what ``take_first`` says; of a message, which has none, its slot.
        """
        slots = self._slots
        gone, messages = slots.found(), slots.messages
        slots.drop(gone)
        if not messages:
            return [*self._taken(gone)]
        found: list[tuple[Load | None, IntArray | None]] = []
        begin = 0
        for end in [*np.flatnonzero(slots.tickets[gone]).tolist(), len(gone)]:
            found += self._taken(gone[begin:end])
            if end < len(gone):
                found.append((None, gone[end : end + 1].astype(np.intp)))
            begin = end + 1
        return found

    def deliver(self, slot: int, order: int) -> None:
        """Have the message of ``slot``, which is drained now, delivered; ``order`` is the number of that event."""
        self._slots.deliver(slot, order)

    def loads_of_messages(self) -> list[tuple[int, int]]:
        """Have messages that drain no more; return slot and number of each, for loads that take their place."""
        slots = self._slots
        mine = slots.taken()
        mine = mine[slots.tickets[mine] > 0]
        found = list(zip(mine.tolist(), slots.tickets[mine].tolist(), strict=True))
        slots.tickets[mine] = 0
        slots.member[mine] = 0
        slots.messages = 0
        return found

    def adopt(self, load: Load, slot: int) -> None:
        """Have the flow at ``slot``, which was a message, be that of ``load``."""
        load.first = slot
        place = bisect_right(self._firsts, slot)
        self.loads.insert(place, load)
        self._firsts.insert(place, slot)

    def withdraw_deliveries(self) -> list[tuple[float, int, int]]:
        """Take back the deliveries of messages; return time, number of the event, and message of each."""
        return self._slots.withdraw_deliveries()

    def drop(self, load: Load, flows: IntArray) -> None:
        """Take the ``flows`` of ``load`` that are still on the links off them."""
        gone = np.zeros(len(load.volumes), dtype=bool)
        gone[flows] = True
        mine = self._of(load)
        slots = mine[gone[self._slots.member[mine]]]
        self._slots.drop(slots)
        self._taken(slots)

    def remaining(self, load: Load, at: float | FloatArray) -> FloatArray:
        """Return the ``(F,)`` bytes that each flow of ``load`` has left at a time, one or ``(F,)``."""
        slots, mine, left = self._slots, self._of(load), np.zeros(len(load.volumes))
        members = slots.member[mine]
        seconds = np.broadcast_to(at, left.shape)[members] - slots.since[mine]
        left[members] = np.maximum(slots.remaining[mine] - slots.rate[mine] * seconds, 0.0)
        return left

    def stalled(self) -> list[Load]:
        """Return the loads with flows that cannot move, now that rates are settled."""
        return [load for load in self.loads if (self._slots.rate[self._of(load)] == 0).any()]

    def set_bandwidths(self, bandwidths: FloatArray) -> None:
        """Give the links other ``bandwidths``."""
        self.bandwidths = bandwidths
        same = np.array_equal(bandwidths, self._solver.fabric.bandwidths)
        self._setting = b"" if same else blake2b(bandwidths.tobytes()).digest()
        self._slots.set_capacity(bandwidths)
        self._slots.everything = 1
        self._slots.first_done = math.nan

    def _taken(self, gone: Places) -> list[Taken]:
        """Note which flows of which load have been taken out of slots ``gone``, in order."""
        if not len(gone):
            return []
        self._slots.first_done = math.nan
        taken: list[Taken] = []
        low, count = 0, len(gone)
        while low < count:
            place = bisect_right(self._firsts, gone[low]) - 1
            load = self.loads[place]
            last = place + 1 == len(self._firsts) or low + 1 == count
            # Of its own type, for else the places are all converted.
            high = count if last else int(np.searchsorted(gone, gone.dtype.type(self._firsts[place + 1])))
            flows = None if high - low == len(load.volumes) else self._slots.member[gone[low:high]].astype(np.intp)
            load.take(flows)
            if not load.count:
                del self.loads[place], self._firsts[place]
            taken.append((load, flows))
            low = high
        return taken

    def _of(self, load: Load) -> IntArray:
        """Return the slots of the draining flows of ``load``."""
        if not load.count:
            return np.zeros(0, dtype=np.intp)
        end = load.first + len(load.volumes)
        mine = load.first + np.flatnonzero(self._slots.draining[load.first : min(end, self._slots.slots)])
        return mine[: load.count]  # after those come the flows of another load, where slots have moved together

    def _compact(self) -> None:
        """Have the slots of flows that are gone back."""
        places = np.cumsum(np.concatenate([[0], self._slots.compact()]))
        for place, load in enumerate(self.loads):
            self._firsts[place] = load.first = int(places[load.first])

    def _incidence_of(self, loads: list[Load], effort: Effort) -> Incidence:
        return Incidence.concatenate([load.incidence() for load in loads], effort)
