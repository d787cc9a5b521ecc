"""Which algorithm serves a collective: the first of a list that can, or by ``auto`` the fastest of all, by bound."""

import math
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush

import numpy as np
from attrs import evolve, field, frozen

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Schedule, answers, check
from fredfw.errors import LimitError, RefusedError, ScheduleError, UnsupportedError
from fredfw.fabric import Fabric, GroupView
from fredfw.fidelities import COMPRESSED
from fredfw.keeping import kept
from fredfw.simulation import answers as asked
from fredfw.simulation.bounds.collectives import LowerBounds
from fredfw.simulation.bounds.schedules import NOTHING, Draft, Entrant, Floors, Place, Sketch
from fredfw.simulation.fidelity import is_exact, undisturbed
from fredfw.simulation.lowering import Lowering, ScheduleRun
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.sharing import StatefulSharing, sharing_of
from fredfw.typing import IntArray
from fredfw.units import Unit, render

CLOSE = {"normal": 1e-3, "low": 0.05}
"""By effort: a candidate that can be faster than the best so far by no more than this share is not simulated."""
_HEAVY = 1 << 20  # flows that take so long to route that it is worth to know first how fast others are
_EXACT = 1e-9  # share by which equal times may differ, for rounding
_TICKS = 1000  # roundings of the clock that a time is made of at most
_DIFFERENT = 0.01  # share by which a call may take longer than its transport says before results have a note
_MARGIN = 0.001  # how much slower than the fastest a plan may be that leaves more of the links to others
_EXACT_FLOWS = 10_000_000  # that a candidate has at most where it is simulated exactly
_COMPARED = 1024  # groups; where there are more, the fastest is chosen without a look at the links of each
# What is replayed before it is used: schedules for so many ranks, of so many (phase, rank, chunk). That costs less than
# a hundredth of a comparison; the time to replay more grows faster than that to simulate it.
_REPLAYED_RANKS = 32
_REPLAYED_CELLS = 1 << 22
_POINTLESS = "it writes what others write, or cannot be the fastest in such a group"


def contest(
    entrants: Sequence[Entrant],  # of different names
    time: Callable[[Entrant, float], float],  # simulates one, up to a time beyond which it has lost and takes for ever
    margin: float = 0.0,  # of what is slower by no more than this share that wins which puts fewest flows on a link
    *,
    barriers: bool = True,  # whether ranks wait for each other; else bounds with barriers are but the best guess
    close: float = CLOSE["normal"],
) -> tuple[Entrant | None, dict[str, float], dict[str, float], dict[str, UnsupportedError]]:
    """Return the fastest of ``entrants``, or one slower by no more than the share ``close``, if any can run.

    By name: times of those simulated to their end, the least seconds of others, and why some were refused.
    """
    seconds: dict[Entrant, float] = {}
    slower: dict[Entrant, float] = {}
    reasons: dict[str, UnsupportedError] = {}
    least, fewest = math.inf, 0
    # What goes first, the best bound that is known, how many rungs have been climbed to it, and whose it is.
    queue = [(_turn(0.0, one, close), NOTHING, 0, one) for one in entrants]
    heapify(queue)
    while queue:
        _, known, climbed, entrant = heappop(queue)
        bound = known.barriers if barriers else known.any_order
        if bound > least * (1 + margin):
            slower[entrant] = bound
            continue
        # It may be close to the fastest, and is of interest only if it leaves more of the links to others.
        if bound >= least * (1 - close) and (margin == 0 or (climbed > 1 and entrant.crowd >= fewest)):
            slower[entrant] = bound
            continue
        if climbed < len(entrant.rungs):
            known = known.above(entrant.rungs[climbed]())
            heappush(queue, (_turn(known.barriers, entrant, close), known, climbed + 1, entrant))
            continue
        try:
            found = time(entrant, least * (1 + max(margin, _EXACT)))
        except UnsupportedError as error:
            reasons |= dict.fromkeys(entrant.names, error)
            continue
        if found == math.inf:
            slower[entrant] = max(bound, least)
            continue
        seconds[entrant] = found
        least = min(seconds.values())
        if margin > 0:
            fewest = min(one.crowd for one in _near(seconds, margin))
    last = seconds
    if margin > 0 and seconds:
        last = {one: took for one, took in _near(seconds, margin).items() if one.crowd == fewest}
    winner = min(_near(last, _EXACT), key=lambda one: one.names[0]) if seconds else None
    return winner, _by_name(seconds), _by_name(slower), reasons


def _by_name(values: Mapping[Entrant, float]) -> dict[str, float]:
    return dict(sorted((name, value) for entrant, value in values.items() for name in entrant.names))


def _turn(bound: float, entrant: Entrant, close: float) -> tuple[int, bool, int, str]:
    """Return what the order follows from: the bound, and of close ones who has few flows and is known with fewer rungs.

    Close to one with many flows is the next share ``close``, too, for one of those that go first may end the contest.
    """
    heavy = entrant.flows > _HEAVY
    near = math.floor(math.log(bound) / close) + heavy if bound > 0 else -sys.maxsize
    return near, heavy, len(entrant.rungs), entrant.names[0]


def _near(seconds: Mapping[Entrant, float], margin: float) -> dict[Entrant, float]:
    limit = min(seconds.values()) * (1 + margin)
    return {one: time for one, time in seconds.items() if time <= limit}


@frozen(eq=False)
class Plan:
    """A schedule, and how it was chosen."""

    schedule: Schedule  # what to run
    algorithm: str  # the algorithm that wrote it, with its options
    # Seconds of every algorithm that was simulated; empty where none had to be.
    candidates: Mapping[str, float] = field(factory=dict)
    slower: Mapping[str, float] = field(factory=dict)  # seconds that others take at least
    refused: Mapping[str, str] = field(factory=dict)  # why others were not tried
    notes: tuple[str, ...] = ()  # what a reader of the choice must know


class Simulator:
    """A fabric with what all simulations on it share: its defaults at work, and what they have worked out already."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.sharing = sharing_of(fabric)
        self.lowering = Lowering(fabric)
        self.bounds = LowerBounds(fabric)

    def network(self) -> FlowNetwork:
        """Return an idle network at time 0."""
        return FlowNetwork(self.fabric, self.sharing)

    def automatic(
        self, classes: Iterable[type[CollectiveAlgorithm]]
    ) -> dict[Pattern | None, tuple[CollectiveAlgorithm, ...]]:
        """Return what ``auto`` chooses among, by pattern: of ``classes`` those that the fabric's transport has."""
        known = tuple(classes)
        found: dict[Pattern | None, tuple[CollectiveAlgorithm, ...]] = {}
        for pattern in Pattern:
            library = asked.algorithms(self.fabric.defaults.transport, str(pattern))
            every = [one for cls in known for one in answers.variants(cls, pattern)]
            found[pattern] = tuple(
                one for one in every if library is None or {one.name, answers.text(one)} & {*library}
            )
        return found


class Planner:
    """Chooses an algorithm for each request in each place on one fabric, once."""

    def __init__(
        self,
        simulator: Simulator,
        candidates: Mapping[Pattern | None, Sequence[CollectiveAlgorithm]],  # the entry None serves all other patterns
        *,
        fastest: bool = False,  # take the fastest of those that the admission lets in, alone; else the first that can
        worthwhile: bool = False,  # leave out those that do not want to be tried in a group, where others can serve it
        others: Callable[[], Iterable[CollectiveAlgorithm]] = tuple,  # to name to a user where no candidate can
        effort: str = "normal",  # see CLOSE
    ) -> None:
        self.simulator = simulator
        self._fabric = fabric = simulator.fabric.network  # collectives do not see memories
        self._lowering = simulator.lowering
        self._candidates = candidates
        self._fastest = fastest
        self._worthwhile = worthwhile
        self._others = others
        self._close = CLOSE[effort]
        self._plans: dict[Hashable, list[Plan]] = {}
        admission = asked.admission(fabric) if fastest else None
        # Where phases stay whole, repetitions that meet nobody take what they take as one.
        by_flow = admission is not None and admission.flow_by_flow
        self._goes_by_rank = by_flow and not isinstance(simulator.sharing, StatefulSharing)
        cap = math.inf if admission is None else asked.cap(admission)
        self._floors = Floors(fabric, self._lowering.router, simulator.bounds, cap)
        self._by_name: dict[Pattern, Mapping[str, CollectiveAlgorithm]] = {}
        self._schedules: dict[Hashable, list[Schedule]] = {}
        self._answers: dict[Hashable, Schedule] = {}
        self._doubled: dict[Hashable, tuple[int, Schedule]] = {}
        self._sketches: dict[Schedule, Sketch] = {}
        self._drafts: dict[Hashable, Draft] = {}
        self._replayed: set[Hashable] = set()
        self._refusals: dict[Hashable, Mapping[str, str | None]] = {}
        self._times: dict[Hashable, tuple[float, bool]] = {}
        self._alone: dict[Hashable, float] = {}

    def plan(self, request: CollectiveRequest, members: IntArray, fidelity: str = COMPRESSED) -> Plan:
        """Return the plan for ``request`` among the NPUs numbered ``members``; see ``plans``."""
        [(plan, _)] = self.plans(request, members[None, :], fidelity=fidelity)
        return plan

    def plans(
        self, request: CollectiveRequest, groups: IntArray, *, awaited: bool = True, fidelity: str = COMPRESSED
    ) -> list[tuple[Plan, IntArray]]:
        """Return the plans for ``request`` in ``(G, ranks)`` groups of NPUs, with the indices of the groups of each.

        Groups that look alike have one plan. Where the fastest is chosen, all are simulated together, by ``fidelity``.
        Without an ``awaited`` computation it runs beside other traffic: then one up to a thousandth slower wins if it
        puts fewer flows on a link. For small groups the schedule is replayed, for a wrong one is often the fastest.
        """
        links = self.reads_links(request.pattern)
        hidden = links and self._fastest and len(groups) > _COMPARED
        views = self._fabric.views(groups, links=links and not hidden)
        if hidden:
            views = [(view.without_links, alike) for view, alike in views]
        if not self._fastest:
            return [
                (self._compared(self._first(request, view), request, groups[alike[0]], fidelity), alike)
                for view, alike in views
            ]
        place, margin = Place(tuple(groups[alike] for _, alike in views)), 0.0 if awaited else _MARGIN
        choose = partial(self._choose, request, place, [view for view, _ in views], margin, fidelity)
        plans = kept(self._plans, (*_named(request), margin, place.name, fidelity), choose)
        return [(plan, alike) for plan, (_, alike) in zip(plans, views, strict=True)]

    def reads_links(self, pattern: Pattern) -> bool:
        """Return whether a candidate for ``pattern`` looks at the links of a group."""
        return any(one.reads_links for one in self._listed(pattern).values())

    def _first(self, request: CollectiveRequest, view: GroupView) -> Plan:
        def first() -> list[Plan]:
            name, one = next(iter(self.able(request, view).items()))
            return [self._sound(request, Plan(self._written(one, request, view), name), view)]

        return kept(self._plans, self._seen(request, view), first)[0]

    def _seen(self, request: CollectiveRequest, view: GroupView) -> Hashable:
        return *_named(request), view.key_with_links if self.reads_links(request.pattern) else view.key

    def able(self, request: CollectiveRequest, view: GroupView) -> Mapping[str, CollectiveAlgorithm]:
        """Return the candidates by name that can serve ``request`` in a group seen as ``view``; raises if none can."""
        listed, refusals = self._listed(request.pattern), self._refusals_of(request, view)
        able = {name: one for name, one in listed.items() if refusals[name] is None}
        if not able:
            reasons = _reasons(refusals) or "none is given"
            others = sorted(one.name for one in self._others() if answers.refusal(one, request, view) is None)
            raise UnsupportedError(
                f"no algorithm can do {request.pattern} among {request.ranks} NPUs of {self._fabric.name!r}: {reasons}",
                accepted=", ".join(others) or None,
            )
        return able

    def _refusals_of(self, request: CollectiveRequest, view: GroupView) -> Mapping[str, str | None]:
        listed = self._listed(request.pattern)
        return kept(
            self._refusals,
            self._seen(request, view),
            lambda: {name: answers.refusal(one, request, view) for name, one in listed.items()},
        )

    def _choose(
        self, request: CollectiveRequest, place: Place, views: Sequence[GroupView], margin: float, fidelity: str
    ) -> list[Plan]:
        entrants = self._entrants(request, place, views)
        winner = entrants[0]
        refused, seconds, slower = self._refused(request, views), dict[str, float](), dict[str, float]()
        notes: list[str] = []
        if len(entrants) > 1:
            by_rank = is_exact(fidelity) and self._goes_by_rank
            nodes = [self._fabric.npus[groups] for groups in place.classes]
            unsure: list[str] = []

            def time(entrant: Entrant, limit: float) -> float:
                serving = self._serving(entrant, request, views)
                key = *serving, place.name, fidelity  # which another margin has in common
                try:
                    if key not in self._times:
                        found = self._time(list(zip(serving, nodes, strict=True)), fidelity, limit)
                        if found[0] == math.inf:  # of this contest; another may ask for more
                            return math.inf
                        self._times[key] = found
                except LimitError as error:
                    notes.append(f"auto left out {', '.join(entrant.names)} for {request.pattern}: {error}")
                    raise RefusedError(str(error)) from None
                took, sure = self._times[key]
                if by_rank and took > limit:  # known from another contest, or not
                    return math.inf
                unsure.extend([] if sure else entrant.names)
                return took

            best, seconds, slower, reasons = contest(entrants, time, margin, barriers=not by_rank, close=self._close)
            if best is None:
                first = next(iter(reasons.values()))
                if not isinstance(first, RefusedError) and len({str(one) for one in reasons.values()}) == 1:
                    raise first  # of the transport, or of the router
                listed = _reasons(dict(sorted(reasons.items())))
                raise RefusedError(f"no algorithm can do {request.pattern} among {request.ranks} NPUs: {listed}")
            winner, refused = best, refused | {name: str(reason) for name, reason in reasons.items()}
            if unsure:
                notes.append(_unsure(request, sorted(unsure)))
        rows = zip(self._serving(winner, request, views), winner.algorithms, views, place.classes, strict=True)
        plans = []
        for schedule, algorithm, view, groups in rows:
            plan = self._sound(request, Plan(schedule, algorithm, seconds, slower, refused, tuple(notes)), view)
            plans.append(self._compared(plan, request, groups[0], fidelity))
        return plans

    def _refused(self, request: CollectiveRequest, views: Sequence[GroupView]) -> dict[str, str]:
        found: dict[str, str] = {}
        for view in views:
            able = self.able(request, view)
            found |= {name: reason for name, reason in self._refusals_of(request, view).items() if reason is not None}
            found |= {name: _POINTLESS for name, one in able.items() if not self._wanted(one, view)}
        tried = {name for view in views for name in self._drafts_of(request, view)}
        return {name: reason for name, reason in sorted(found.items()) if name not in tried}

    def _wanted(self, algorithm: CollectiveAlgorithm, view: GroupView) -> bool:
        return not self._worthwhile or answers.worthwhile(algorithm, view)

    def _serving(self, entrant: Entrant, request: CollectiveRequest, views: Sequence[GroupView]) -> list[Schedule]:
        serving = (self._listed(request.pattern)[name] for name in entrant.algorithms)
        return [self._written(one, request, view) for one, view in zip(serving, views, strict=True)]

    def _entrants(self, request: CollectiveRequest, place: Place, views: Sequence[GroupView]) -> list[Entrant]:
        able = [self._drafts_of(request, view) for view in views]
        names = dict.fromkeys(name for drafts in able for name in drafts)
        # What may be the fastest serves the groups that a candidate cannot serve.
        others = [
            "" if len(drafts) == len(names) else self._promising(drafts, Place((groups,)), request.size)
            for drafts, groups in zip(able, place.classes, strict=True)
        ]
        alike: dict[tuple[Draft, ...], tuple[list[str], tuple[str, ...]]] = {}
        for name in sorted(names):
            by = tuple(name if name in one else other for one, other in zip(able, others, strict=True))
            drafts = tuple(one[which] for one, which in zip(able, by, strict=True))
            alike.setdefault(drafts, ([], by))[0].append(name)
        return [Entrant(*one, self._floors, drafts, place, request.size) for drafts, one in alike.items()]

    def _promising(self, able: Mapping[str, Draft], place: Place, size: float) -> str:
        alone = [Entrant([name], (name,), self._floors, (draft,), place, size) for name, draft in able.items()]
        return min((one.rungs[1]().barriers, one.names[0]) for one in alone)[1]

    def _drafts_of(self, request: CollectiveRequest, view: GroupView) -> dict[str, Draft]:
        """Return a draft for each candidate that can serve ``request``: one object where it is the same."""
        drafts = {}
        able = self.able(request, view)
        tried = {name: one for name, one in able.items() if self._wanted(one, view)}
        for name, one in (tried or able).items():
            simplest = answers.equivalent(one, view)
            key = name if simplest is one else str(simplest), self._asked(simplest, request), _look(simplest, view)
            drafts[name] = kept(self._drafts, key, partial(self._draft, simplest, request, view))
        return drafts

    def _draft(self, algorithm: CollectiveAlgorithm, request: CollectiveRequest, view: GroupView) -> Draft:
        undivided = answers.undivided(algorithm)
        if undivided is algorithm or answers.refusal(undivided, request, view) is not None:
            return self._sketch(algorithm, request, view), None
        return self._sketch(undivided, request, view), partial(self._sketch, algorithm, request, view)

    def _sketch(self, algorithm: CollectiveAlgorithm, request: CollectiveRequest, view: GroupView) -> Sketch:
        schedule = self._written(algorithm, request, view)
        return kept(self._sketches, schedule, lambda: Sketch(schedule, request.size))

    def _asked(self, algorithm: CollectiveAlgorithm, request: CollectiveRequest) -> Hashable:
        """Return what requests have in common for which ``algorithm`` writes the same, but for sizes."""
        if algorithm.proportional and request.size > 0 and request.sizes is None:
            return request.pattern, request.ranks, request.root
        return _named(request)

    def _listed(self, pattern: Pattern) -> Mapping[str, CollectiveAlgorithm]:
        listed = self._candidates.get(pattern, self._candidates.get(None, ()))
        return kept(self._by_name, pattern, lambda: {answers.text(one): one for one in listed})

    def _interned(self, schedule: Schedule, algorithm: str, size: float) -> Schedule:
        """Return one object for equal schedules; where calls cost something, of one algorithm for one size only."""
        call = None if self._lowering.pricing.ideal else (algorithm, size)
        alike = self._schedules.setdefault((schedule.pattern, schedule.ranks, schedule.steps, call), [])
        # To name the content takes a pass over it, which the first of its kind need not pay.
        for known in alike:
            if known.key == schedule.key:
                return known
        alike.append(schedule)
        return schedule

    def _written(self, algorithm: CollectiveAlgorithm, request: CollectiveRequest, view: GroupView) -> Schedule:
        name, look = answers.text(algorithm), _look(algorithm, view)

        def write() -> Schedule:
            # Doubled bytes are the same numbers but for their exponents, and routes are those of the same phases.
            digits, exponent = math.frexp(request.size)
            alike = name, self._asked(algorithm, request), look, digits
            written, first = kept(self._doubled, alike, lambda: (exponent, answers.schedule(algorithm, request, view)))
            if exponent != written:
                first = evolve(first, chunk_bytes=np.ldexp(first.chunk_bytes, exponent - written))
            schedule = self._interned(first, algorithm.name, request.size)
            self._lowering.pricing.introduce(schedule, algorithm.name, request.size)
            return schedule

        return kept(self._answers, (name, _named(request), look), write)

    def _sound(self, request: CollectiveRequest, plan: Plan, view: GroupView) -> Plan:
        """Return ``plan``, replayed for this request if it is small; once, where only sizes differ."""
        author = self._listed(request.pattern)[plan.algorithm]
        asked = plan.algorithm, self._asked(author, request), _look(author, view)
        schedule = plan.schedule
        cells = len(schedule.phases) * schedule.ranks * schedule.chunks
        small = schedule.ranks <= _REPLAYED_RANKS and cells <= _REPLAYED_CELLS
        if schedule.proof == "replay" and small and asked not in self._replayed:
            try:
                check(schedule, request)
            except ScheduleError as error:
                raise ScheduleError(f"{answers.blame(author, request)}: {error}") from error
            self._replayed.add(asked)
        if schedule.proof != "none":
            return plan
        note = (
            f"nobody has proved that algorithm {plan.algorithm!r} carries out {request.pattern}: its transfers are "
            "simulated as they are"
        )
        return evolve(plan, notes=(*plan.notes, note))

    def _compared(self, plan: Plan, request: CollectiveRequest, members: IntArray, fidelity: str) -> Plan:
        """Return ``plan``, so that alone it takes what its transport says: launched later, or noted if it is longer."""
        nodes = self._fabric.npus[members][None, :]
        price = self._lowering.price(plan.schedule, nodes)
        if price is None or price.seconds is None:
            return plan
        key = plan.schedule, members.tobytes(), fidelity
        alone = kept(self._alone, key, lambda: self._time([(plan.schedule, nodes)], fidelity)[0])
        if alone < price.seconds * (1 - _EXACT):
            delayed = evolve(plan.schedule)  # another one, for other groups may need no delay
            name = self._listed(request.pattern)[plan.algorithm].name
            self._lowering.pricing.introduce(delayed, name, request.size, price.seconds - alone)
            return evolve(plan, schedule=delayed)
        if alone <= price.seconds * (1 + _DIFFERENT):
            return plan
        note = (
            f"{request.pattern} of {render(request.size, Unit.BYTES)} among {request.ranks} NPUs by {plan.algorithm} "
            f"takes {render(alone, Unit.SECONDS)} alone, not the {render(price.seconds, Unit.SECONDS)} that transport "
            f"{self._fabric.defaults.transport.name!r} says: the links of {self._fabric.name!r} do not let it"
        )
        return evolve(plan, notes=(*plan.notes, note))

    def _time(
        self, runs: Sequence[tuple[Schedule, IntArray]], fidelity: str, limit: float = math.inf
    ) -> tuple[float, bool]:
        """Return how long schedules take in ``(G, ranks)`` nodes, infinite after ``limit``, and whether that is sure.

        Where phases stay whole, repetitions are simulated one by one only if they meet others.
        """
        flows = sum(phase.repeat * len(nodes) * len(phase) for schedule, nodes in runs for phase in schedule.phases)
        small = is_exact(fidelity) and flows <= _EXACT_FLOWS
        if small and self._goes_by_rank:
            return self._simulate(runs, fidelity, limit)[0], True
        seconds, met = self._simulate(runs, COMPRESSED)
        if small and met:
            return self._simulate(runs, fidelity)[0], True
        return seconds, not met and not (is_exact(fidelity) and self._goes_by_rank)

    def _simulate(
        self, runs: Sequence[tuple[Schedule, IntArray]], fidelity: str, limit: float = math.inf
    ) -> tuple[float, int]:
        """Return when all have ended, infinite after ``limit``, and how many phases met others out of step."""
        network, ends = FlowNetwork(self._fabric, self.simulator.sharing), [0.0]

        def ended(_groups: IntArray) -> None:
            ends.append(network.now)

        for schedule, nodes in runs:
            ScheduleRun(network, self._lowering, schedule, nodes, ended, fidelity=fidelity).start()
        network.advance(limit)
        if network.idle:
            return ends[-1], network.statistics.met if self._goes_by_rank else not undisturbed(network)
        if network.next_event_time() < math.inf:
            return math.inf, 0
        held = ", ".join(sorted(set(network.stalled())))
        raise RefusedError(f"flows that cannot move on {self._fabric.name!r}: {held}")


def _reasons(reasons: Mapping[str, object]) -> str:
    """Return ``reasons`` by name as text: each once, with the algorithms that have it in any configuration."""
    names: dict[str, dict[str, None]] = {}
    for name, reason in reasons.items():
        names.setdefault(str(reason), {})[name.partition("(")[0]] = None
    return "; ".join(f"{', '.join(those)}: {reason}" for reason, those in names.items())


def _unsure(request: CollectiveRequest, names: list[str]) -> str:
    whose = "its time is an approximation" if len(names) == 1 else "their times are approximations"
    return (
        f"auto may have missed a faster algorithm for {request.pattern} of {render(request.size, Unit.BYTES)} among "
        f"{request.ranks} NPUs: {', '.join(names)} would take too long to simulate exactly, so {whose}; "
        "name an algorithm to be sure"
    )


def _look(algorithm: CollectiveAlgorithm, view: GroupView) -> Hashable:
    return view.key_with_links if algorithm.reads_links else view.key


def _named(request: CollectiveRequest) -> tuple[Hashable, ...]:
    return request.pattern, request.size, request.root, None if request.sizes is None else request.sizes.tobytes()


def too_fast(algorithm: str, request: CollectiveRequest, seconds: float, least: float, now: float) -> str | None:
    """Return a note where a collective took ``seconds``, and no algorithm can take less than ``least``."""
    # It is the difference of two moments, and its steps end at some: what the clock cannot tell apart does not count.
    if seconds >= least * (1 - _EXACT) - _TICKS * math.ulp(now):
        return None
    time, bound = render(seconds, Unit.SECONDS), render(least, Unit.SECONDS)
    return (
        f"algorithm {algorithm!r} takes {time} for {request.pattern} of {render(request.size, Unit.BYTES)} among "
        f"{request.ranks} NPUs, faster than any algorithm can be ({bound}): its schedule is wrong, or the bound is; "
        "check it with fredfw.check or the conformance kit"
    )
