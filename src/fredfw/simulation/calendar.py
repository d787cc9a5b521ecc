"""The clock, and what is due."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

# So many events that were taken back may stay in the heap; it is not worth while to look for fewer.
_FEW = 64
# A place behind all others.
_LAST = 2**63 - 1

# Time, priority, sequence, callback, and what it belongs to; the sequence is unique, so no more is compared.
Event = tuple[float, int, int, Callable[[], object], object]


class Calendar:
    """Events in the order of their times; at equal times lower priority first, then first come.

    Attributes:
        now: Seconds since the simulation began.
        sequence: Number of the last event that became known.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[Event] = []
        self._withdrawn: set[int] = set()  # events that will not happen
        self.sequence = 0

    def number(self) -> int:
        """Return the number of an event that becomes known now."""
        self.sequence += 1
        return self.sequence

    def push(self, time: float, callback: Callable[[], object], owner: object = None, priority: int = 0) -> int:
        """Have ``callback`` called at ``time``, unless ``owner`` drops it; return a number to withdraw it with."""
        self.sequence = sequence = self.sequence + 1
        heapq.heappush(self._events, (time, priority, sequence, callback, owner))
        return sequence

    def place(self, time: float, number: int, callback: Callable[[], object], owner: object) -> None:
        """Have ``callback`` called at ``time`` as the event of a ``number`` that it has already."""
        heapq.heappush(self._events, (time, 0, number, callback, owner))

    def withdraw(self, event: int) -> None:
        """Take back an event that has not happened."""
        self._withdrawn.add(event)
        # What a callback holds is released, and the heap stays as long as what is due, whatever is taken back.
        if len(self._withdrawn) > max(_FEW, len(self._events) // 2):
            self._events = [one for one in self._events if one[2] not in self._withdrawn]
            heapq.heapify(self._events)
            self._withdrawn.clear()

    def drop(self, owner: object) -> None:
        """Take back all events of ``owner``."""
        self._events = [event for event in self._events if event[4] is not owner]
        heapq.heapify(self._events)

    @property
    def first(self) -> float:
        """When the next event is due, infinite if there is none."""
        events = self._events
        if self._withdrawn:
            while events and events[0][2] in self._withdrawn:
                self._withdrawn.remove(heapq.heappop(events)[2])
        return events[0][0] if events else math.inf

    def head(self) -> tuple[float, int]:
        """Return when the first event is due, and its place among those of priority 0 that are due then."""
        events = self._events
        if not events or (self._withdrawn and self.first == math.inf):
            return math.inf, 0
        time, priority, sequence = self._events[0][:3]
        return time, (_LAST if priority > 0 else -1) if priority else sequence

    def run_first(self) -> None:
        """Let the first event happen."""
        heapq.heappop(self._events)[3]()
