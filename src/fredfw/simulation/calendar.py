"""The clock, and what is due."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

# So many events that were taken back may stay in the heap; it is not worth while to look for fewer.
_FEW = 64

# Time, priority, sequence, callback, and what it belongs to; the sequence is unique, so no more is compared.
Event = tuple[float, int, int, Callable[[], object], object]


class Calendar:
    """Events in the order of their times; at equal times lower priority first, then first come.

    Attributes:
        now: Seconds since the simulation began.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[Event] = []
        self._withdrawn: set[int] = set()  # events that will not happen
        self._sequence = 0

    def push(self, time: float, callback: Callable[[], object], owner: object = None, priority: int = 0) -> int:
        """Have ``callback`` called at ``time``, unless ``owner`` drops it; return a number to withdraw it with."""
        self._sequence = sequence = self._sequence + 1
        heapq.heappush(self._events, (time, priority, sequence, callback, owner))
        return sequence

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

    def run_due(self) -> None:
        """Let all happen that is due by now, and what that makes due."""
        while self.first <= self.now:
            heapq.heappop(self._events)[3]()
