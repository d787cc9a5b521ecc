"""The flows and links that a change disturbs, and their new rates, in Python; as in core.c.

Numbers are read one by one through memory views, which is faster than through arrays.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from attrs import define

from fredfw.simulation.core.fill import NOTHING

if TYPE_CHECKING:
    from fredfw.simulation.core.pure import PureSlots

# A link that carries this share of its capacity is saturated, and a flow this close to the fastest is one of them.
NEARLY = 1 - 1e-10
# A lower bound is this share of what it would be without rounding, and a link carries too much above its inverse.
CAUTION, CAREFUL = 1 - 1e-9, 1 - 1e-11
# The neck of a flow whose rate is not known.
OPEN = -2


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


class Piece:
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
