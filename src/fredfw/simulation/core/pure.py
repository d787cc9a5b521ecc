"""Slots whose loops are in Python: where the ones in C are not installed, and to compare them with.

Each function does what its namesake in core.c does, with the same operations on the same numbers in the same order.
Numbers are read one by one through memory views, which is faster than through arrays.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np
from attrs import define

from fredfw.simulation.core.fill import NOTHING, by_passes
from fredfw.simulation.core.loads import LEAST
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

# A link that carries this share of its capacity is saturated, and a flow this close to the fastest is one of them.
NEARLY = 1 - 1e-10
# A lower bound is this share of what it would be without rounding, and a link carries too much above its inverse.
CAUTION, CAREFUL = 1 - 1e-9, 1 - 1e-11
# A flow is drained when what remains is below this share of its own volume.
DRAINED = 1e-11
# So is one that ends later by a few roundings of the clock, which may be more for a flow that takes no time beside it.
TICKS = 1e-15
# The piece that a change disturbs is looked for where fewer than one in so many flows came or went.
FEW = 2
# The neck of a flow whose rate is not known.
OPEN = -2
_NOBODY: Places = np.zeros(0, dtype=np.intp)
_NO_RATES = np.zeros(0)
# What is not part of a copy; a table with deliveries is not copied.
_REBOUND = ("_coefficients", "_due", "_found", "_deliveries")


@define
class _Member:
    """A flow of the piece, and what was found for it."""

    slot: int
    neck: int = OPEN
    rate: float = 0.0


@define
class _Crossed:
    """A link that flows of the piece cross; see core.c."""

    link: int
    used: float
    opened: int = 0
    weight: float = 0.0
    key: float = -1.0
    loosened: bool = False
    raised: bool = False
    lower: bool = False
    exact: bool = False


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
        piece = _Piece(self)
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


class _Piece:
    """The piece that a change disturbs; see core.c.

    Args:
        slots: The table.

    Attributes:
        members: Its flows.
        crossed: The links that were looked at.
    """

    def __init__(self, slots: PureSlots) -> None:
        self._slots = slots
        self._view = slots.view
        self._level = 0.0
        self._open = 0  # members whose rate is not known
        self.members: list[_Member] = []
        self.crossed: list[_Crossed] = []
        self._due: list[tuple[float, int]] = []
        self._lower: list[int] = []  # places of links whose bound may be lower than the key
        self._slowed: list[int] = []  # slots of flows whose links carry less than before, for they are slower

    def open(self, slot: int) -> None:
        """Have the rate of a flow found."""
        mine = self._join(slot)
        view = self._view
        link, rate, cap = view["link"], view["rate"][slot], view["cap"][slot]
        start, length = view["start"][slot], view["length"][slot]
        if not length:
            self.members[mine].rate, self.members[mine].neck = cap, -1
            return
        self._open += 1
        if cap < math.inf:
            heapq.heappush(self._due, (cap, ~slot))
        for pair in range(start, start + length):
            place = self._crossing(link[pair])
            crossed, weight = self.crossed[place], self._slots.weight(pair)
            crossed.opened += 1
            crossed.weight += weight
            crossed.used -= rate * weight
            crossed.exact = False
            if not crossed.lower:
                crossed.lower = True
                self._lower.append(place)

    def _await_lower(self) -> None:
        """Await the levels of links on which flows have opened."""
        for place in self._lower:
            crossed = self.crossed[place]
            crossed.lower = False
            if not crossed.opened:
                continue
            bound = self._bound(crossed)
            if crossed.key < 0 or bound < crossed.key:
                crossed.key = bound
                heapq.heappush(self._due, (bound, crossed.link))
        self._lower.clear()

    def loosen(self, link: int) -> None:
        """Open the flows that rest at the level of a link that carries less than before."""
        view = self._view
        if not view["resting"][link]:
            return
        crossed = self.crossed[self._crossing(link)]
        if crossed.loosened:
            return
        crossed.loosened = True
        following, owner, mark, bottleneck = view["next"], view["owner"], view["mark"], view["bottleneck"]
        pair = view["head"][link]
        while pair >= 0:
            slot = owner[pair]
            if bottleneck[slot] == link and mark[slot] < 0:
                self.open(slot)
            pair = following[pair]

    def solve(self) -> int:
        """Find all rates; return how many links were saturated."""
        saturated, due, local, mark = 0, self._due, self._view["local"], self._view["mark"]
        while True:
            self._await_lower()
            if not self._open:
                due[:] = filter(self._still_counts, due)
                heapq.heapify(due)
            if not due:
                return saturated
            if not self._still_counts(due[0]):
                heapq.heappop(due)
                continue
            key, what = due[0]
            if what < 0:
                heapq.heappop(due)
                self._level = key
                self._stop(mark[~what], key, -1, True)
                self._loosen_slowed(-1)
                continue
            crossed, after = self.crossed[local[what]], min(due[1:3], default=(math.inf, 0))
            level = key
            if not crossed.exact:
                level = self._bound(crossed) if crossed.opened else self._level
                if not after < (level, what):
                    level, crossed.exact = self._level_of(what, level), True
            if level < math.inf and after < (level, what):
                crossed.key = level
                heapq.heapreplace(due, (level, what))
                continue
            heapq.heappop(due)
            crossed.key = -1.0
            if level < math.inf:  # else nothing stops here
                self._level = level
                saturated += 1
                self._saturate(what, level)

    def _still_counts(self, due: tuple[float, int]) -> bool:
        """Return whether something may stop at an entry; one where nothing does counts no more."""
        key, what = due
        if what < 0:
            member: _Member = self.members[self._view["mark"][~what]]
            return member.neck == OPEN
        crossed = self.crossed[self._view["local"][what]]
        if crossed.key != key:
            return False
        if crossed.opened or (crossed.raised and crossed.used > self._view["capacity"][what] * (2 - CAREFUL)):
            return True
        crossed.key = -1.0
        return False

    def _join(self, slot: int) -> int:
        self._view["mark"][slot] = len(self.members)
        self.members.append(_Member(slot))
        return len(self.members) - 1

    def _crossing(self, link: int) -> int:
        local = self._view["local"]
        place: int = local[link]
        if place < 0:
            place = local[link] = len(self.crossed)
            self.crossed.append(_Crossed(link, self._view["load"][link]))
        return place

    def _bound(self, crossed: _Crossed) -> float:
        """Return a lower bound of the level of a link with open flows: what the others have, they have at most."""
        left = self._view["capacity"][crossed.link] * CAUTION - crossed.used
        bound: float = _ratio(left, crossed.weight)
        return bound if bound > self._level else self._level

    def _stop(self, mine: int, rate: float, neck: int, is_open: bool) -> None:
        """Let a flow of the piece have the rate that was found."""
        member, view = self.members[mine], self._view
        slot, link, local = member.slot, view["link"], view["local"]
        old = view["rate"][slot]
        member.rate, member.neck = rate, neck
        self._open -= is_open
        pairs = range(view["start"][slot], view["start"][slot] + view["length"][slot])
        for pair in pairs:
            place = local[link[pair]]
            if place < 0:
                continue  # it is known where flows are open
            crossed, weight = self.crossed[place], self._slots.weight(pair)
            crossed.used += (rate if is_open else rate - old) * weight
            if is_open:
                crossed.opened -= 1
                crossed.weight -= weight
            crossed.raised |= rate > old
            crossed.exact = False
        if old * NEARLY > rate:
            self._slowed.append(slot)

    def _loosen_slowed(self, neck: int) -> None:
        """Loosen the links of flows that have slowed down, but for the one that has slowed them."""
        view = self._view
        for slot in self._slowed:
            for link in view["link"][view["start"][slot] : view["start"][slot] + view["length"][slot]]:
                if link != neck:
                    self.loosen(link)
        self._slowed.clear()

    def _level_of(self, link: int, level: float) -> float:
        """Return the level at which a link is saturated; infinite where no flow is that fast."""
        view, members, weigh = self._view, self.members, self._slots.weight
        following, owner, mark, rates = view["next"], view["owner"], view["mark"], view["rate"]
        capacity = view["capacity"][link]
        while True:
            others, sharing, slowest = 0.0, 0.0, math.inf
            pair = view["head"][link]
            while pair >= 0:
                slot = owner[pair]
                place, weight = mark[slot], weigh(pair)
                if place >= 0:
                    member = members[place]
                    rate, shares = member.rate, member.neck == OPEN
                else:
                    rate = rates[slot]
                    shares = rate * NEARLY > level
                    if shares and rate < slowest:
                        slowest = rate
                if shares:
                    sharing += weight
                else:
                    others += rate * weight
                pair = following[pair]
            if sharing == 0:
                return math.inf
            left = capacity - others
            if left < capacity * NOTHING:
                left = 0.0
            higher: float = left / sharing
            if slowest * NEARLY > higher or not higher * NEARLY > level:
                return higher
            level = higher

    def _saturate(self, link: int, level: float) -> None:
        """Stop the flows of a link at its level."""
        view = self._view
        following, owner, mark, rates = view["next"], view["owner"], view["mark"], view["rate"]
        pair = view["head"][link]
        while pair >= 0:
            slot = owner[pair]
            place = mark[slot]
            if place >= 0:
                if self.members[place].neck == OPEN:
                    self._stop(place, level, link, True)
            elif rates[slot] * NEARLY > level:
                self._stop(self._join(slot), level, link, False)
            pair = following[pair]
        self._loosen_slowed(link)


def _ratio(one: float, other: float) -> float:
    """Divide as C does."""
    return one / other if other else math.copysign(math.inf, one) if one else math.nan


def _quotient(left: float, rate: float, now: float) -> float:
    return now + left / rate if rate > 0 else math.inf
