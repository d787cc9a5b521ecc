"""Which algorithm serves a collective: the first of a given list that can, or the fastest of all (``auto``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from attrs import field, frozen

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Schedule, answers, check
from fredfw.errors import RefusedError, ScheduleError, UnsupportedError
from fredfw.fabric import Fabric, GroupView
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.progress import ScheduleRun
from fredfw.simulation.sharing import SharingPolicy
from fredfw.typing import IntArray
from fredfw.units import Unit, render

# Rounding; a time is no shorter than its bound by more.
_EXACT = 1e-9
# Of how many roundings of the clock a time is made at most.
_TICKS = 1000
# What is replayed before it is used: schedules for so many ranks, of so many (phase, rank, chunk). That costs less than
# a hundredth of a comparison; the time to replay more grows faster than that to simulate it.
_REPLAYED_RANKS = 32
_REPLAYED_CELLS = 1 << 22


@frozen(eq=False)
class Plan:
    """A schedule, and how it was chosen.

    Args:
        schedule: What to run.
        algorithm: The algorithm that wrote it, with its options.
        candidates: Seconds of every algorithm that was tried; empty where none had to be.
    """

    schedule: Schedule
    algorithm: str
    candidates: Mapping[str, float] = field(factory=dict)


class Planner:
    """Chooses an algorithm for each request on one fabric, once.

    Args:
        fabric: The network.
        sharing: How its links are shared.
        lowering: Turns phases into flows on it.
        candidates: Per pattern the algorithms to consider; the entry ``None`` serves all other patterns.
        fastest: Whether to time every candidate alone on the fabric and take the fastest (ties by name), leaving out
            those that the fabric's admission refuses; otherwise the first that can serve the request is taken.
        others: Returns the algorithms to name to a user whose candidates cannot serve a request.
    """

    def __init__(
        self,
        fabric: Fabric,
        sharing: SharingPolicy,
        lowering: Lowering,
        candidates: Mapping[Pattern | None, Sequence[CollectiveAlgorithm]],
        *,
        fastest: bool = False,
        others: Callable[[], Iterable[CollectiveAlgorithm]] = tuple,
    ) -> None:
        self._fabric = fabric
        self._sharing = sharing
        self._lowering = lowering
        self._candidates = candidates
        self._fastest = fastest
        self._others = others
        self._plans: dict[Hashable, Plan] = {}
        self._schedules: dict[Hashable, list[Schedule]] = {}
        self._replayed: set[Hashable] = set()

    def plan(self, request: CollectiveRequest, members: IntArray, view: GroupView | None = None) -> Plan:
        """Return the plan for ``request`` among the NPUs numbered ``members``.

        The schedule is replayed if the group is small, for a wrong one is often the fastest.

        Raises:
            UnsupportedError: No candidate can serve it; the message gives every candidate's reason. ``RefusedError``
                where only the simulation showed it.
            PluginError: A candidate fails, or writes no schedule.
            ScheduleError: It writes one that is not valid or moves too little, or the chosen one does something else.
        """
        view = view or self._fabric.view(members)
        # Which candidate is fastest depends on where the group is; the schedule itself on the view alone.
        place = members.tobytes() if self._fastest else None
        sizes = None if request.sizes is None else request.sizes.tobytes()
        key = request.pattern, request.size, request.root, sizes, view.key, place
        known = self._plans.get(key)
        if known is None:
            known = self._choose(request, members, view)
            asked = id(known.schedule), *key[:4]
            if asked not in self._replayed:
                _replay(known, request, self._author(known, request))
                self._replayed.add(asked)
            self._plans[key] = known
        return known

    def plans(self, request: CollectiveRequest, groups: IntArray) -> Iterator[tuple[Plan, IntArray]]:
        """Yield the plans for ``request`` in ``(G, ranks)`` groups of NPUs, with the indices of the groups of each."""
        for view, alike in self._fabric.views(groups):
            for indices in alike[:, None] if self._fastest else [alike]:
                yield self.plan(request, groups[indices[0]], view), indices

    def able(self, request: CollectiveRequest, view: GroupView) -> list[CollectiveAlgorithm]:
        """Return the candidates that can serve ``request`` in a group seen as ``view``, one or more.

        Raises:
            UnsupportedError: None can; the message gives every candidate's reason.
        """
        candidates = self._candidates.get(request.pattern, self._candidates.get(None, ()))
        reasons = {str(one): answers.refusal(one, request, view) for one in candidates}
        able = [one for one in candidates if reasons[str(one)] is None]
        if not able:
            listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items()) or "none is given"
            others = sorted(one.name for one in self._others() if answers.refusal(one, request, view) is None)
            raise UnsupportedError(
                f"no algorithm can do {request.pattern} among {request.ranks} NPUs of {self._fabric.name!r}: {listed}",
                accepted=", ".join(others) or None,
            )
        return able

    def _choose(self, request: CollectiveRequest, members: IntArray, view: GroupView) -> Plan:
        able = self.able(request, view)
        if not self._fastest or len(able) == 1:
            return Plan(self._interned(answers.schedule(able[0], request, view)), str(able[0]))
        plans = {str(one): self._interned(answers.schedule(one, request, view)) for one in able}
        seconds: dict[str, float] = {}
        reasons: dict[str, RefusedError] = {}
        for name, schedule in plans.items():
            try:
                seconds[name] = self._time(schedule, members)
            except RefusedError as error:
                reasons[name] = error
        if not seconds:
            listed = "; ".join(f"{name}: {error}" for name, error in reasons.items())
            raise RefusedError(f"no algorithm can do {request.pattern} among {request.ranks} NPUs: {listed}")
        least = min(seconds.values())
        best = min(name for name, time in seconds.items() if time <= least * (1 + _EXACT))
        return Plan(plans[best], best, seconds)

    def _author(self, plan: Plan, request: CollectiveRequest) -> CollectiveAlgorithm:
        """Return the candidate that wrote the schedule of ``plan``."""
        candidates = self._candidates.get(request.pattern, self._candidates.get(None, ()))
        return next(one for one in candidates if str(one) == plan.algorithm)

    def _interned(self, schedule: Schedule) -> Schedule:
        """Return one object for equal schedules, so that groups that do the same can be simulated together."""
        alike = self._schedules.setdefault((schedule.pattern, schedule.ranks, schedule.steps), [])
        # To name the content takes a pass over it, which the first of its kind need not pay.
        for known in alike:
            if known.key == schedule.key:
                return known
        alike.append(schedule)
        return schedule

    def _time(self, schedule: Schedule, members: IntArray) -> float:
        network = FlowNetwork(self._fabric, self._sharing)
        groups = self._fabric.npus[members][None, :]
        ScheduleRun(network, self._lowering, schedule, groups, lambda _: None).start()
        network.advance()
        if not network.idle:
            held = ", ".join(sorted(set(network.stalled())))
            raise RefusedError(f"flows that cannot move on {self._fabric.name!r}: {held}")
        return network.now


def too_fast(algorithm: str, request: CollectiveRequest, seconds: float, least: float, now: float) -> str | None:
    """Return a note where a collective took ``seconds``, yet no algorithm can take less than ``least``.

    The time is the difference of two moments, of which ``now`` is the later, and each of its steps ends at one: what
    the clock cannot tell apart there is no difference.
    """
    if seconds >= least * (1 - _EXACT) - _TICKS * math.ulp(now):
        return None
    time, bound = render(seconds, Unit.SECONDS), render(least, Unit.SECONDS)
    return (
        f"algorithm {algorithm!r} takes {time} for {request.pattern} of {render(request.size, Unit.BYTES)} among "
        f"{request.ranks} NPUs, faster than any algorithm can be ({bound}): its schedule is wrong, or the bound is; "
        "check it with fredfw.check or the conformance kit"
    )


def _replay(plan: Plan, request: CollectiveRequest, author: CollectiveAlgorithm) -> None:
    """Raise ``ScheduleError`` where a plan is small and does not do what is asked."""
    schedule = plan.schedule
    cells = len(schedule.phases) * schedule.ranks * schedule.chunks
    if schedule.ranks > _REPLAYED_RANKS or cells > _REPLAYED_CELLS:
        return
    try:
        check(schedule, request)
    except ScheduleError as error:
        raise ScheduleError(f"{answers.blame(author, request)}: {error}") from error
