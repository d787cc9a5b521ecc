"""Whether repetitions that are simulated as one shared links with flows that did not keep in step with them.

Repetitions of a phase that is alone on its links take exactly as long one by one as all at once, for every drain
scales with its volume. The same is true of phases that meet and keep in step: they start together, repeat as often and
end together, so each of their repetitions does too. Whatever else meets repetitions that are simulated as one may find
them at another place than where they would be one by one.
"""

from __future__ import annotations

import numpy as np
from attrs import define, field

from fredfw.fabric import FlowSet
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.traffic import Statistics
from fredfw.typing import FloatArray

# Moments that differ by less than this share of what has passed between them are the same.
_SAME = 1e-9


@define(eq=False)
class _Pair:
    """Two flow sets that share links; they share this instead of naming each other, which would be a ring.

    Args:
        start: When the later one was let in.
        alike: Whether they started together and repeat as often.
        ends: The first and the last end of the one that left first.
    """

    start: float
    alike: bool
    ends: tuple[float, float] | None = None


@define(eq=False)
class Stay:
    """A flow set from when it is let in until all of it is delivered.

    Args:
        flows: Which.
        start: When it was let in.
        setups: Seconds before the first repetition and before each other.
        pairs: Whom it met.
    """

    flows: FlowSet
    start: float
    setups: tuple[float, float]
    pairs: list[_Pair] = field(factory=list)


class Meetings:
    """Counts in ``Statistics.met`` where flow sets meet out of step while repetitions are simulated as one.

    Args:
        solver: Knows which routes have links in common.
        statistics: Counts.
    """

    def __init__(self, solver: RateSolver, statistics: Statistics) -> None:
        self._solver = solver
        self._statistics = statistics
        self._here: dict[Stay, None] = {}
        self._compressed: dict[Stay, None] = {}

    def enter(self, flows: FlowSet, now: float, setup: float, again: float) -> Stay:
        """Note that ``flows`` are let in ``now``, and pay ``setup`` seconds first and ``again`` at each repetition."""
        stay = Stay(flows, now, (setup, again))
        for other in self._here if flows.repeat > 1 else self._compressed:
            if self._meet(flows, other.flows):
                same = (other.start, other.setups, other.flows.repeat) == (now, stay.setups, flows.repeat)
                pair = _Pair(now, same and not flows.takes_turns and not other.flows.takes_turns)
                stay.pairs.append(pair)
                other.pairs.append(pair)
        self._here[stay] = None
        if flows.repeat > 1:
            self._compressed[stay] = None
        return stay

    def leave(self, stay: Stay, ends: FloatArray) -> None:
        """Note that the activities of a flow set ended at ``(activities,)`` ``ends``."""
        del self._here[stay]
        self._compressed.pop(stay, None)
        if not len(stay.flows.volumes):
            return
        ends = ends[stay.flows.activity]
        low, high = float(ends.min()), float(ends.max())
        slack = _SAME * (high - stay.start)
        if stay.flows.repeat > 1 and high - low > slack:
            self._statistics.met += self._meet_inside(stay.flows, ends, slack)
        for pair in stay.pairs:
            if pair.ends is None:
                pair.ends = low, high
            elif pair.ends[1] > pair.start + slack:
                together = max(high, pair.ends[1]) - min(low, pair.ends[0]) <= slack
                self._statistics.met += not (pair.alike and together)

    def wait(self, flows: FlowSet) -> None:
        """Note that ``flows`` have to wait; between two repetitions they might not have had to."""
        self._statistics.met += flows.repeat > 1 or bool(self._compressed)

    def _meet(self, flows: FlowSet, others: FlowSet) -> bool:
        # Where parts take turns, the other parts of the same flows are on their way soon, and not known here.
        if flows.takes_turns or others.takes_turns:
            return True
        # Where a policy is not local, a class may stop another with which it shares no link.
        if not self._solver.sharing.local and flows.priority != others.priority:
            return True
        return self._solver.meet(flows.routes, others.routes)

    def _meet_inside(self, flows: FlowSet, ends: FloatArray, slack: float) -> bool:
        """Return whether flows share a link whose activities end ``(F,)`` ``ends`` apart."""
        routes = flows.routes
        theirs = np.repeat(ends, np.diff(routes.offsets))
        one_of_them = np.zeros(len(self._solver.fabric.bandwidths))
        one_of_them[routes.links] = theirs
        return bool((np.abs(one_of_them[routes.links] - theirs) > slack).any())
