"""Slots whose loops are in Python: where the ones in C are not installed, and to compare them with.

Each function does what its namesake in core.c does, with the same operations on the same numbers in the same order.
Numbers are read one by one through memory views, which is faster than through arrays.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np

from fredfw.simulation.core.fill import by_passes
from fredfw.simulation.core.loads import LEAST
from fredfw.simulation.core.piece import NEARLY, Piece
from fredfw.simulation.core.slots import (
    CALENDAR,
    FLOWS_DRAINED,
    NOTHING_DUE,
    RATES_UNKNOWN,
    Places,
    Slots,
)
from fredfw.simulation.core.ways import Way
from fredfw.typing import BoolArray, FloatArray, IntArray

# A flow is drained when what remains is below this share of its own volume.
DRAINED = 1e-11
# So is one that ends later by a few roundings of the clock, which may be more for a flow that takes no time beside it.
TICKS = 1e-15
# The piece that a change disturbs is looked for where fewer than one in so many flows came or went.
FEW = 2
_NOBODY: Places = np.zeros(0, dtype=np.intp)
_NO_RATES = np.zeros(0)
# What is not part of a copy; a table with deliveries is not copied.
_REBOUND = ("_coefficients", "_due", "_found", "_deliveries")


class PureSlots(Slots):
    """See ``Slots``."""

    def bind(self) -> None:
        """See ``Slots.bind``."""
        super().bind()
        self._coefficients: memoryview[Any] | None = None if self.coefficient is None else self.coefficient.data
        # When each flow is drained, and its slot; those that are not true any more are passed over.
        self._due: list[tuple[float, int]] = []
        self._heapify()
        self._found: Places = _NOBODY
        self._deliveries: list[tuple[float, int, int]] = getattr(self, "_deliveries", [])

    @property
    def first(self) -> float:
        """See ``Slots.first``."""
        due, finish, draining = self._due, self.view["finish"], self.view["draining"]
        while due and not (draining[due[0][1]] and finish[due[0][1]] == due[0][0]):
            heapq.heappop(due)
        return due[0][0] if due else math.inf

    def index(self) -> None:
        """See ``Slots.index``."""
        slots, pairs, owners = self._draining_pairs()
        links = self.link[pairs]
        order = np.argsort(links, kind="stable")
        chain, ordered = pairs[order].astype(np.int32), links[order]
        begins = np.flatnonzero(np.diff(ordered, prepend=-1))
        ends = np.append(begins[1:], len(order)) - 1 if len(begins) else begins
        following, preceding = np.append(chain[1:], -1), np.append(-1, chain[:-1])
        following[ends] = -1
        preceding[begins] = -1
        self.owner[pairs] = owners
        self.next[chain], self.previous[chain] = following[: len(chain)], preceding[: len(chain)]
        self.head[:] = self.tail[:] = self.local[:] = -1
        self.head[ordered[begins]], self.tail[ordered[begins]] = chain[begins], chain[ends]
        weights = self.rate[owners]
        if self.coefficient is not None:
            weights = weights * self.coefficient[pairs]
        self.load[:] = np.bincount(links, weights=weights, minlength=self.links)
        self.linked = self.slots
        del slots
        self._heapify()

    def _relate(self) -> None:
        """Make the chains and the heap anew, and find the bottleneck of each flow from the rates."""
        self.related = 1
        self.index()
        slots, pairs, owners = self._draining_pairs()
        links, rates = self.link[pairs], self.rate[owners]
        fastest = np.zeros(self.links)
        np.maximum.at(fastest, links, rates)
        narrow = (self.load >= self.capacity * NEARLY)[links] & (rates >= fastest[links] * NEARLY)
        self.bottleneck[: self.slots] = -1
        # Of several links the first, so it is written last.
        self.bottleneck[owners[narrow][::-1]] = links[narrow][::-1]
        self.bottleneck[slots[self.rate[slots] >= self.cap[slots]]] = -1
        necks = self.bottleneck[slots]
        self.resting[:] = np.bincount(necks[necks >= 0], minlength=self.links)

    def assign(self, now: float, rates: FloatArray) -> float:
        """See ``Slots.assign``."""
        slots = self.taken()
        changed = rates != self.rate[slots]
        mine, rates = slots[changed], rates[changed]
        old, since, left = self.rate[mine], self.since[mine], self.remaining[mine]
        passed = (old > 0) & (since < now)
        less = left - old * (now - since)
        left = np.where(passed, np.where(less > LEAST, less, LEAST), left)
        self.remaining[mine], self.since[mine], self.rate[mine] = left, now, rates
        with np.errstate(divide="ignore"):
            self.finish[mine] = np.where(rates > 0, now + left / rates, math.inf)
        self._clear_changes()
        self._settled()
        self.related = 0
        return float(self.finish[slots].min(initial=math.inf))

    def _settled(self) -> None:
        self.everything = self.gone = 0
        self.fresh = self.slots

    def _few(self, changed: int) -> bool:
        return FEW * changed <= self.active

    def solve(self) -> tuple[FloatArray, int]:
        """See ``Slots.solve``."""
        slots, pairs, _ = self._draining_pairs()
        offsets = np.concatenate([[0], np.cumsum(self.length[slots], dtype=np.intp)])
        coefficients = None if self.coefficient is None else self.coefficient[pairs]
        return by_passes(offsets, self.link[pairs].astype(np.intp), coefficients, self.cap[slots], self.capacity)

    def settle(self, now: float) -> float:
        """See ``Slots.settle``."""
        if self.everything or not self._few(self.slots - self.fresh + self.gone):
            return math.nan
        if not self.related:
            self._relate()
        self._repair(now)
        self._settled()
        return self.first

    def _repair(self, now: float) -> None:
        """Solve again what a change disturbs: the new slots, and what the loose links limited."""
        view = self.view
        draining, link, start, length = view["draining"], view["link"], view["start"], view["length"]
        for slot in range(self.linked, self.slots):
            if draining[slot]:
                view["bottleneck"][slot] = -1
                self._join_links(slot)
        self.linked = self.slots
        piece = Piece(self)
        for slot in range(self.fresh, self.slots):
            if draining[slot]:
                piece.open(slot)
        for one in self.loose_links[: self.loose].tolist():
            piece.loosen(one)
        self.passes = piece.solve()
        self.touched = len(piece.members)
        local, mark = view["local"], view["mark"]
        for crossed in piece.crossed:
            local[crossed.link] = -1
        for member in piece.members:
            mark[member.slot] = -1
        rate, load, bottleneck, resting = view["rate"], view["load"], view["bottleneck"], view["resting"]
        for member in piece.members:
            slot = member.slot
            if bottleneck[slot] >= 0:
                resting[bottleneck[slot]] -= 1
            if member.neck >= 0:
                resting[member.neck] += 1
            bottleneck[slot] = member.neck
            if member.rate != rate[slot]:
                more = member.rate - rate[slot]
                for pair in range(start[slot], start[slot] + length[slot]):
                    load[link[pair]] += more * self.weight(pair)
                self._set_rate(slot, member.rate, now)
        self._clear_changes()

    def take(self, time: float) -> Places:
        """See ``Slots.take``."""
        drained = self._drained(time)
        self.drop(drained)
        return drained

    def drop(self, slots: Places) -> None:
        """See ``Slots.drop``."""
        self.messages -= int(np.count_nonzero(self.tickets[slots]))
        if len(slots) and slots[0] < self.fresh:
            self.gone += len(slots)
            if not self.related and not self.everything:
                if self._few(self.gone):  # bottlenecks are known by the rates, as long as all flows are there
                    self._relate()
                else:
                    self.everything = 1
        if self.related:
            for slot in slots[slots < self.linked].tolist():
                self._leave_links(slot)
        self.draining[slots] = 0
        self.active -= len(slots)

    def put(self, way: Way, ticket: int, volume: float) -> bool:
        """See ``Slots.put``."""
        if not self.active:
            self.clear()
        slot, first, end, routes = self.slots, self.pairs, self.pairs + way.length, way.routes
        if slot == self.room or end > self.pair_room or (routes.coefficients is not None and self.coefficient is None):
            return False
        view = self.view
        self._append_one(0, first, way.length, volume, math.inf, self.now)
        view["tickets"][slot], view["latency"][slot] = ticket, routes.slowest
        self.link[first:end] = routes.links
        if self.coefficient is not None:
            self.coefficient[first:end] = 1.0 if routes.coefficients is None else routes.coefficients
        self.slots, self.pairs = slot + 1, end
        self.active += 1
        self.messages += 1
        self._sent += 1
        self.first_done = math.nan
        return True

    def deliver(self, slot: int, order: int) -> None:
        """See ``Slots.deliver``."""
        view = self.view
        heapq.heappush(self._deliveries, (self.now + view["latency"][slot], order, view["tickets"][slot]))
        self._know_delivery()

    def withdraw_deliveries(self) -> list[tuple[float, int, int]]:
        """See ``Slots.withdraw_deliveries``."""
        taken, self._deliveries = self._deliveries, []
        self._know_delivery()
        return taken

    def _know_delivery(self) -> None:
        self.deliveries = len(self._deliveries)
        self.first_delivery = self._deliveries[0][0] if self._deliveries else math.inf

    def step(self, until: float, time: float, order: int, sequence: int) -> int:
        """See ``Slots.step``."""
        self.sequence = sequence
        while True:
            delivers = bool(self._deliveries) and self._deliveries[0][:2] < (time, order)
            due = self.first_delivery if delivers else time
            if self.stepping and due <= self.now:
                if not delivers:
                    return CALENDAR
                ticket = heapq.heappop(self._deliveries)[2]
                self._know_delivery()
                return ticket
            moment = self.now
            self.stepping = 0
            if due > moment:
                if not self._know_first():
                    return RATES_UNKNOWN
                moment = min(due, self.first_done)
            if not moment <= until or moment == math.inf:
                return NOTHING_DUE
            self._events += 1
            self.now = moment
            self.stepping = 1
            if moment >= self.first_done and not self._take_messages():
                return FLOWS_DRAINED

    def found(self) -> Places:
        """See ``Slots.found``."""
        return self._found

    def _know_first(self) -> bool:
        """Have rates and the end of the first flow known; return whether they are."""
        if not math.isnan(self.first_done):
            return True
        if not self.active:
            self.first_done = self.assign(self.now, _NO_RATES)
            return True
        self.first_done = self.settle(self.now)
        if math.isnan(self.first_done):
            return False
        self._solves += 1
        self._solved += self.touched
        self._all_passes += self.passes
        self._most_passes = max(self._most_passes, self.passes)
        return True

    def _take_messages(self) -> bool:
        """Take out what is drained now, if that is messages alone; return whether it is."""
        found = self._found = self._drained(self.now)
        if not self.tickets[found].all():
            return False
        self.drop(found)
        for slot in found.tolist():
            self.sequence += 1
            self.deliver(slot, self.sequence)
        self.first_done = math.nan
        return True

    def _drained(self, time: float) -> Places:
        """Return the slots of the flows that are drained at ``time``, when the first is; they leave the heap."""
        if not self.related:
            slots = self.taken()
            with np.errstate(invalid="ignore"):  # infinite times a rate of 0 is not drained
                late = self.finish[slots] - time
                done: BoolArray = (late <= TICKS * time) | (late * self.rate[slots] <= DRAINED * self.volume[slots])
            return slots[done]
        finish, rate, volume = self.view["finish"], self.view["rate"], self.view["volume"]
        found = []
        while self.first < math.inf:
            slot = self._due[0][1]
            late = finish[slot] - time
            if not (late <= TICKS * time or late * rate[slot] <= DRAINED * volume[slot]):
                break
            found.append(heapq.heappop(self._due)[1])
        return np.array(sorted(set(found)), dtype=np.intp)

    def clear(self) -> None:
        """See ``Slots.clear``."""
        super().clear()
        self._due = []

    def _draining_pairs(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the slots whose flows drain, all their pairs, and the slot of each pair."""
        slots = self.taken()
        return slots, self.pairs_of(slots), np.repeat(slots, self.length[slots])

    def _heapify(self) -> None:
        slots = np.flatnonzero(self.draining[: self.linked])
        self._due = list(zip(self.finish[slots].tolist(), slots.tolist(), strict=True))
        heapq.heapify(self._due)

    def weight(self, pair: int) -> float:
        """Return the share of a flow's rate that it takes on the link of ``pair``."""
        coefficients = self._coefficients
        return 1.0 if coefficients is None else float(coefficients[pair])

    def _set_rate(self, slot: int, rate: float, now: float) -> None:
        view = self.view
        old, left, since = view["rate"][slot], view["remaining"][slot], view["since"]
        if old > 0 and since[slot] < now:
            left -= old * (now - since[slot])
            if not left > LEAST:
                left = LEAST
        view["remaining"][slot], since[slot], view["rate"][slot] = left, now, rate
        finish = view["finish"][slot] = _quotient(left, rate, now)
        if finish < math.inf:
            heapq.heappush(self._due, (finish, slot))

    def _join_links(self, slot: int) -> None:
        view = self.view
        link, head, tail, following = view["link"], view["head"], view["tail"], view["next"]
        for pair in range(view["start"][slot], view["start"][slot] + view["length"][slot]):
            one = link[pair]
            last = tail[one]
            view["load"][one] += view["rate"][slot] * self.weight(pair)
            view["owner"][pair], following[pair], view["previous"][pair] = slot, -1, last
            if last < 0:
                head[one] = pair
            else:
                following[last] = pair
            tail[one] = pair

    def _leave_links(self, slot: int) -> None:
        view = self.view
        if view["bottleneck"][slot] >= 0:
            view["resting"][view["bottleneck"][slot]] -= 1
        link, following, preceding = view["link"], view["next"], view["previous"]
        for pair in range(view["start"][slot], view["start"][slot] + view["length"][slot]):
            one, last, next_ = link[pair], preceding[pair], following[pair]
            view["load"][one] -= view["rate"][slot] * self.weight(pair)
            if last < 0:
                view["head"][one] = next_
            else:
                following[last] = next_
            if next_ < 0:
                view["tail"][one] = last
            else:
                preceding[next_] = last
            if not view["is_loose"][one]:
                view["is_loose"][one] = 1
                view["loose_links"][self.loose] = one
                self.loose += 1

    def _clear_changes(self) -> None:
        self.is_loose[self.loose_links[: self.loose]] = 0
        self.loose = 0

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name not in _REBOUND}


def _quotient(left: float, rate: float, now: float) -> float:
    return now + left / rate if rate > 0 else math.inf
