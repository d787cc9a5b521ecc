"""Whether repetitions that are simulated as one shared links with flows that did not keep in step with them.

Repetitions of a phase that is alone on its links take exactly as long one by one as all at once, for every drain
scales with its volume. The same is true of phases that meet and keep in step: they start together, repeat as often and
end together, so each of their repetitions does too. Whatever else meets repetitions that are simulated as one may find
them at another place than where they would be one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from attrs import define, field

from fredfw.fabric import FlowSet
from fredfw.simulation.core.loads import Statistics
from fredfw.simulation.rates import RateSolver
from fredfw.typing import FloatArray, IntArray

# Moments that differ by less than this share of what has passed between them are the same.
_SAME = 1e-9


@define(eq=False)
class Stay:
    """A flow set from when it is let in until all of it is delivered.

    Args:
        flows: Which.
        pace: What those that may keep in step with it have in common: when it was let in, and its set-ups.
        guests: How many it met that came at ``latest`` and cannot keep in step.
        latest: When those came that it met last.
        partners: One list for each that may keep in step: the first and last end of the one that leaves first. The two
            share it instead of naming each other, which would be a ring of references.
        bit: Its number among the users of links, -1 for none.
    """

    flows: FlowSet
    pace: tuple[float, float, float]
    guests: int = 0
    latest: float = 0.0
    partners: list[list[tuple[float, float]]] = field(factory=list)
    bit: int = -1


class _Users:
    """Who uses which link: a row of bits for each link, so that one look at some links finds all who use them.

    Args:
        links: How many there are.
    """

    def __init__(self, links: int) -> None:
        self._bits = np.zeros((links, 1), dtype=np.uint8)
        self._stays: list[Stay | None] = []  # by bit
        self._free: list[int] = []

    def add(self, stay: Stay) -> None:
        """Note that ``stay`` uses its links."""
        if not self._free:
            count = len(self._stays)
            if count == 8 * self._bits.shape[1]:
                self._bits = np.hstack([self._bits, np.zeros_like(self._bits)])
            self._stays.append(None)
            self._free.append(count)
        stay.bit = self._free.pop()
        self._stays[stay.bit] = stay
        column = self._bits[:, stay.bit >> 3]
        column[stay.flows.routes.links] |= np.uint8(1 << (stay.bit & 7))

    def remove(self, stay: Stay) -> None:
        """Note that ``stay`` uses them no more."""
        column = self._bits[:, stay.bit >> 3]
        column[stay.flows.routes.links] &= np.uint8(255 - (1 << (stay.bit & 7)))
        self._stays[stay.bit] = None
        self._free.append(stay.bit)

    def of(self, links: IntArray) -> Iterator[Stay]:
        """Yield those who use one of ``links``."""
        if len(links) > len(self._bits):  # most of them more than once
            used = np.zeros(len(self._bits), dtype=bool)
            used[links] = True
            links = np.flatnonzero(used)
        bits = np.bitwise_or.reduce(self._bits[links], axis=0)
        for bit in np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist():
            stay = self._stays[bit]
            assert stay is not None  # its bits are gone otherwise
            yield stay


class Meetings:
    """Counts in ``Statistics.met`` where flow sets meet out of step while repetitions are simulated as one.

    Args:
        solver: Knows fabric and sharing policy.
        statistics: Counts.

    Attributes:
        compressed: Repetitions that are here and simulated as one.
    """

    def __init__(self, solver: RateSolver, statistics: Statistics) -> None:
        self._links = len(solver.fabric.bandwidths)
        self._local = solver.sharing.local
        self._statistics = statistics
        self._here: dict[Stay, None] = {}
        self._turning: dict[Stay, None] = {}  # those whose parts take turns
        # Made when somebody asks whom he meets, and those who came since are added then; often nobody is left.
        self._users: _Users | None = None
        self._new: dict[Stay, None] = {}
        self.compressed: dict[Stay, None] = {}

    def enter(self, flows: FlowSet, now: float, setup: float, again: float) -> Stay:
        """Note that ``flows`` are let in ``now``, and pay ``setup`` seconds first and ``again`` at each repetition."""
        stay = Stay(flows, (now, setup, again))
        for other in self._met(flows) if self._here and (self.compressed or flows.repeat > 1) else ():
            turns = flows.takes_turns or other.flows.takes_turns
            if stay.pace == other.pace and flows.repeat == other.flows.repeat and not turns:
                partner: list[tuple[float, float]] = []
                stay.partners.append(partner)
                other.partners.append(partner)
            elif other.latest == now:
                other.guests += 1
            else:  # it is still here, so it has met those that came before
                self._statistics.met += other.guests
                other.latest, other.guests = now, 1
        self._here[stay] = None
        if flows.repeat > 1:
            self.compressed[stay] = None
        if flows.takes_turns:
            self._turning[stay] = None
        self._new[stay] = None
        return stay

    def leave(self, stay: Stay, when: Callable[[], FloatArray]) -> None:
        """Note that a flow set has ended; ``when`` returns the ``(activities,)`` ends of its activities."""
        del self._here[stay]
        self.compressed.pop(stay, None)
        self._turning.pop(stay, None)
        if stay in self._new:
            del self._new[stay]
        elif self._users is not None:
            self._users.remove(stay)
        if stay.flows.repeat == 1 and not stay.guests and not stay.partners:
            return  # it has met nothing that matters
        if not len(stay.flows.volumes):
            return
        ends = when()[stay.flows.activity]
        low, high = float(ends.min()), float(ends.max())
        slack = _SAME * (high - stay.pace[0])
        if high > stay.latest + slack:  # else they came when it had just ended
            self._statistics.met += stay.guests
        if stay.flows.repeat > 1 and high - low > slack:
            self._statistics.met += self._meet_inside(stay.flows, ends, slack)
        for partner in stay.partners:
            if partner:
                self._statistics.met += max(high, partner[0][1]) - min(low, partner[0][0]) > slack
            else:
                partner.append((low, high))

    def wait(self, flows: FlowSet) -> None:
        """Note that ``flows`` have to wait; between two repetitions they might not have had to."""
        self._statistics.met += flows.repeat > 1 or bool(self.compressed)

    def _met(self, flows: FlowSet) -> Iterator[Stay]:
        """Yield those here that ``flows`` meet, if one of the two is repeated."""
        others = self._here if flows.repeat > 1 else self.compressed
        # Where parts take turns, the other parts of the same flows are on their way soon, and not known here.
        if flows.takes_turns:
            yield from others
            return
        if self._users is None:
            self._users = _Users(self._links)
        for other in self._new:
            self._users.add(other)
        self._new.clear()
        met = dict.fromkeys(self._users.of(flows.routes.links)) | self._turning
        if not self._local:
            # Where a policy is not local, a class may stop another with which it shares no link.
            met |= {other: None for other in others if other.flows.priority != flows.priority}
        for other in met:
            if other in others:
                yield other

    def _meet_inside(self, flows: FlowSet, ends: FloatArray, slack: float) -> bool:
        """Return whether flows share a link whose activities end ``(F,)`` ``ends`` apart."""
        routes = flows.routes
        theirs = np.repeat(ends, np.diff(routes.offsets))
        one_of_them = np.zeros(self._links)
        one_of_them[routes.links] = theirs
        return bool((np.abs(one_of_them[routes.links] - theirs) > slack).any())
