"""Which algorithm serves a collective: the first of a given list that can, or the fastest of all (``auto``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256

import numpy as np
from attrs import field, frozen

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Schedule, answers, check
from fredfw.errors import RefusedError, ScheduleError, UnsupportedError
from fredfw.fabric import AlwaysStart, Fabric, GroupView
from fredfw.simulation.bounds import LowerBounds
from fredfw.simulation.contest import Contest, Entrant
from fredfw.simulation.floors import Floors
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.progress import ScheduleRun
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.sharing import SharingPolicy
from fredfw.typing import IntArray
from fredfw.units import Unit, render

# Room for rounding: a time may be below its bound by this share, not by more.
_EXACT = 1e-9
# Of how many roundings of the clock a time is made at most.
_TICKS = 1000
# How much slower than the fastest a plan may be that leaves more of the links to others.
_MARGIN = 0.001
# A candidate is simulated step by step where it has no more flows, the step of a group counted as so many more.
_STEPWISE, _PER_STEP = 100_000, 100
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
        candidates: Seconds of every algorithm that was simulated; empty where none had to be.
        notes: What a reader of the choice must know.
    """

    schedule: Schedule
    algorithm: str
    candidates: Mapping[str, float] = field(factory=dict)
    notes: tuple[str, ...] = ()


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
        bounds: The lower bounds on the fabric, if there are some that know it already.
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
        bounds: LowerBounds | None = None,
    ) -> None:
        self._fabric = fabric
        self._sharing = sharing
        self._lowering = lowering
        self._candidates = candidates
        self._fastest = fastest
        self._others = others
        self._plans: dict[Hashable, list[Plan]] = {}
        self._contests: dict[Hashable, Contest] = {}
        self._solver = RateSolver(fabric, sharing)
        self._floors = Floors(fabric, lowering.router, LowerBounds(fabric) if bounds is None else bounds)
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
        [(plan, _)] = self._planned(request, members[None, :], [(view, np.zeros(1, dtype=np.intp))], 0.0)
        return plan

    def plans(
        self, request: CollectiveRequest, groups: IntArray, *, awaited: bool = True
    ) -> list[tuple[Plan, IntArray]]:
        """Return the plans for ``request`` in ``(G, ranks)`` groups of NPUs, with the indices of the groups of each.

        Groups that look alike have one plan. Where the fastest is chosen, all groups are simulated together.

        Args:
            request: What each of the groups does.
            groups: Who.
            awaited: Whether computation waits for it. If not, it runs beside other traffic: then a candidate that is at
                most a thousandth slower than the fastest is preferred if it puts fewer flows on a link.
        """
        return self._planned(request, groups, self._fabric.views(groups), 0.0 if awaited else _MARGIN)

    def _planned(
        self,
        request: CollectiveRequest,
        groups: IntArray,
        views: Sequence[tuple[GroupView, IntArray]],
        margin: float,
    ) -> list[tuple[Plan, IntArray]]:
        if not self._fastest:
            return [(self._first(request, view), alike) for view, alike in views]
        key = *_named(request), margin, self._place(groups)
        if key not in self._plans:
            self._plans[key] = self._choose(request, groups, views, margin)
        return [(plan, alike) for plan, (_, alike) in zip(self._plans[key], views, strict=True)]

    def _first(self, request: CollectiveRequest, view: GroupView) -> Plan:
        """Return the plan by the first candidate that can serve ``request``."""
        key = *_named(request), view.key
        if key not in self._plans:
            one = self.able(request, view)[0]
            self._plans[key] = [self._sound(request, Plan(self._written(one, request, view), str(one)))]
        return self._plans[key][0]

    def _place(self, groups: IntArray) -> Hashable:
        """Return a name of where ``groups`` are; an admission may tell places apart that look alike."""
        return self._shape(groups) if self._fabric.admission is AlwaysStart else (groups.shape, _digest(groups))

    def _shape(self, groups: IntArray) -> Hashable:
        """Return a name of where ``groups`` are: the same for groups that are all moved alike along the levels."""
        if self._fabric.coordinates is None:
            return groups.shape, _digest(groups)
        where = self._fabric.coordinates[groups]
        return groups.shape, _digest(where - where.min(axis=(0, 1)))

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

    def _choose(
        self,
        request: CollectiveRequest,
        groups: IntArray,
        views: Sequence[tuple[GroupView, IntArray]],
        margin: float,
    ) -> list[Plan]:
        """Return the plans of the groups that look alike, one for each of ``views``."""
        asked = *_named(request), self._shape(groups)
        if asked not in self._contests:
            self._contests[asked] = self._contest(request, groups, views)
        contest, unsure = self._contests[asked], list[Entrant]()
        if [len(one.names) for one in contest.entrants] == [1]:
            winner, seconds = contest.entrants[0], dict[str, float]()
        else:
            classes = [self._fabric.npus[groups[alike]] for _, alike in views]
            outcome = contest.run(partial(self._time, classes=classes, unsure=unsure), margin)
            if outcome.winner is None:
                listed = "; ".join(f"{name}: {error}" for name, error in sorted(outcome.reasons.items()))
                raise RefusedError(f"no algorithm can do {request.pattern} among {request.ranks} NPUs: {listed}")
            winner, seconds = outcome.winner, dict(outcome.seconds)
        names = sorted(name for one in unsure for name in one.names)
        notes = (_unsure(request, names),) if names else ()
        chosen = zip(winner.schedules, winner.algorithms, strict=True)
        return [self._sound(request, Plan(schedule, name, seconds, notes)) for schedule, name in chosen]

    def _contest(
        self, request: CollectiveRequest, groups: IntArray, views: Sequence[tuple[GroupView, IntArray]]
    ) -> Contest:
        """Return the candidates; each serves all groups that it can serve."""
        classes = [groups[alike] for _, alike in views]
        able = [{str(one): self._written(one, request, view) for one in self.able(request, view)} for view, _ in views]
        names = dict.fromkeys(name for schedules in able for name in schedules)
        # What may be the fastest serves the groups that a candidate cannot serve.
        others = [
            self._most_promising(*one) if len(one[0]) < len(names) else "" for one in zip(able, classes, strict=True)
        ]
        alike: dict[tuple[Schedule, ...], list[str]] = {}
        algorithms: dict[tuple[Schedule, ...], tuple[str, ...]] = {}
        for name in sorted(names):
            served = tuple(name if name in one else other for one, other in zip(able, others, strict=True))
            schedules = tuple(one[by] for one, by in zip(able, served, strict=True))
            alike.setdefault(schedules, []).append(name)
            algorithms.setdefault(schedules, served)
        return Contest(self._floors, classes, [Entrant(alike[one], one, algorithms[one]) for one in alike])

    def _most_promising(self, able: Mapping[str, Schedule], groups: IntArray) -> str:
        """Return which of the candidates ``able`` to serve ``groups`` has the lowest bound."""
        return min(able, key=lambda name: (self._floors.unrouted([able[name]], [groups]), name))

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

    def _written(self, algorithm: CollectiveAlgorithm, request: CollectiveRequest, view: GroupView) -> Schedule:
        return self._interned(answers.schedule(algorithm, request, view))

    def _sound(self, request: CollectiveRequest, plan: Plan) -> Plan:
        """Return ``plan``, replayed for this request if it is small."""
        asked = id(plan.schedule), *_named(request)
        if asked not in self._replayed:
            _replay(plan, request, self._author(plan, request))
            self._replayed.add(asked)
        return plan

    def _time(self, entrant: Entrant, *, classes: Sequence[IntArray], unsure: list[Entrant]) -> float:
        """Return how long the schedules of ``entrant`` take in all groups of ``classes`` of nodes at once.

        Where repetitions that were simulated as one met others, the time may be wrong. Then they are simulated one by
        one, or the entrant is added to ``unsure`` where that would take long.
        """
        network = self._simulate(entrant, classes)
        if network.statistics.met:
            effort = sum(
                phase.repeat * len(groups) * (len(phase) + _PER_STEP)
                for schedule, groups in zip(entrant.schedules, classes, strict=True)
                for phase in schedule.phases
            )
            if effort > _STEPWISE:
                unsure.append(entrant)
            else:
                network = self._simulate(entrant, classes, stepwise=True)
        return network.now

    def _simulate(self, entrant: Entrant, classes: Sequence[IntArray], *, stepwise: bool = False) -> FlowNetwork:
        network = FlowNetwork(self._fabric, self._sharing, self._solver)
        for schedule, nodes in zip(entrant.schedules, classes, strict=True):
            ScheduleRun(network, self._lowering, schedule, nodes, lambda _: None, stepwise=stepwise).start()
        network.advance()
        if not network.idle:
            held = ", ".join(sorted(set(network.stalled())))
            raise RefusedError(f"flows that cannot move on {self._fabric.name!r}: {held}")
        return network


def _unsure(request: CollectiveRequest, names: list[str]) -> str:
    return (
        f"auto may have missed a faster algorithm for {request.pattern} of {render(request.size, Unit.BYTES)} among "
        f"{request.ranks} NPUs: {', '.join(names)} would take too long to simulate step by step, so their times are "
        "approximations; name an algorithm to be sure"
    )


def _named(request: CollectiveRequest) -> tuple[Hashable, ...]:
    sizes = None if request.sizes is None else request.sizes.tobytes()
    return request.pattern, request.size, request.root, sizes


def _digest(array: IntArray) -> bytes:
    return sha256(np.ascontiguousarray(array).data).digest()


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
