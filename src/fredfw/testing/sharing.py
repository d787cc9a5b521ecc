"""What is checked of a bandwidth-sharing policy: on random flows from a fixed seed, and with state on endless ones."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import arrays
from fredfw.fabric import Fabric
from fredfw.simulation import ActiveFlows, Dynamics, Incidence, SharingPolicy, StatefulSharing, answers, max_min
from fredfw.testing.conformance import EXACT, NOTHING, ConformanceError, Faults, _Tests, check_all, otherwise, where
from fredfw.testing.fabrics import standard
from fredfw.testing.process import Deterministic, digest
from fredfw.typing import BoolArray, FloatArray, IntArray

_CLASSES = 3
_ALIKE = 1e-6  # sums in another order differ by rounding, which feedback magnifies
# How often a policy is asked, and for how long it may take to converge: in questions, and to which share of its rates.
_QUESTIONS = 40
_PATIENCE, _WINDOW, _CLOSE = 20_000, 200, 0.02


@frozen(eq=False)
class Flows:
    """Some flows on a fabric, of whose links some may be closed."""

    fabric: Fabric
    capacities: FloatArray
    incidence: Incidence

    def __str__(self) -> str:
        closed = int(np.count_nonzero(self.capacities == 0))
        return f"{len(self.incidence)} flows on a {self.fabric.name}" + (f" with {closed} closed links" * (closed > 0))

    @property
    def caps(self) -> FloatArray:
        return np.full(len(self.incidence), np.inf) if self.incidence.caps is None else self.incidence.caps

    def load(self, rates: FloatArray) -> FloatArray:
        return self.incidence.load(rates, len(self.fabric.bandwidths))

    def crossing(self, link: int) -> str:
        flows = self.incidence.flows[self.incidence.links == link].tolist()
        return f"flow{'s' if len(flows) > 1 else ''} {', '.join(map(str, flows))}"

    def make_way(self, rates: FloatArray) -> BoolArray:
        """Return which flows stand still while one of a higher class runs through a node on their way."""
        incidence = self.incidence
        waits = np.zeros(len(incidence), dtype=bool)
        ends = self.fabric.sources[incidence.links], self.fabric.destinations[incidence.links]
        for priority in range(1, _CLASSES):
            runs = (incidence.priorities < priority) & (rates > 0)
            taken = np.zeros(len(self.fabric.kinds), dtype=bool)
            for end in ends:
                taken[end[runs[incidence.flows]]] = True
            meets = np.bincount(incidence.flows, taken[ends[0]] | taken[ends[1]], len(incidence)) > 0
            waits |= meets & (incidence.priorities == priority) & (rates == 0)
        return waits


@frozen(eq=False)
class Endless:
    """Flows on a fabric that never end, which a policy with state shares."""

    policy: StatefulSharing
    fabric: Fabric
    flows: ActiveFlows

    def __str__(self) -> str:
        return f"{len(self.flows)} endless flows on a {self.fabric.name}"

    def ask(self, dynamics: Dynamics, now: float) -> tuple[FloatArray, float]:
        """Return the rates from ``now`` on and until when they hold."""
        held = dynamics.rates(self.flows, self.fabric.bandwidths.copy(), now)
        return held.rates, held.until

    def course(self, dynamics: Dynamics | None = None, now: float = 0.0) -> Iterator[FloatArray]:
        """Yield the rates, question by question, as long as they change; by default in a new simulation."""
        dynamics = self.policy.begin(self.fabric) if dynamics is None else dynamics
        for _ in range(_QUESTIONS):
            rates, until = self.ask(dynamics, now)
            yield rates
            if not until > now:
                raise ConformanceError(f"of {self}, rates hold until {until!r} at {now!r}; later than that")
            if until == math.inf:
                return
            now = until

    def mean(self, dynamics: Dynamics, now: float) -> tuple[FloatArray, float]:
        """Return the mean rates over some questions, and when the last one ends; infinite if rates do not change."""
        carried, begin = np.zeros(len(self.flows)), now
        for _ in range(_WINDOW):
            rates, until = self.ask(dynamics, now)
            if until == math.inf:
                return rates, until
            carried += rates * (until - now)
            now = until
        return carried / (now - begin), now


@frozen(eq=False, kw_only=True)
class SharingCase(Deterministic[SharingPolicy, Flows, FloatArray]):
    """A policy and the small fabrics whose links it is to share."""

    shows: ClassVar[str] = "what flows get"
    mend: ClassVar[str] = "a policy keeps nothing between calls"

    fabrics: Sequence[Fabric] = otherwise(standard)

    @cached_property
    def asked(self) -> list[Flows]:
        return [flows for fabric in self.fabrics for flows in _flows(fabric)]

    def answer(self, question: Flows) -> FloatArray:
        return self.subject.rates(question.incidence, question.capacities.copy(), question.fabric)

    def rates_are_numbers(self) -> Faults:
        """There is a rate for every flow, not negative; finite where it has links, else its cap."""
        for one, rates in self.answers:
            crosses = np.diff(one.incidence.offsets) > 0
            if rates.shape != (len(one.incidence),) or (rates < 0).any() or not np.isfinite(rates[crosses]).all():
                yield f"{one} get the rates {rates}; one each, finite and not negative"
            if not np.array_equal(rates[~crosses], one.caps[~crosses]):
                yield "a flow without links runs at its cap, or at an infinite rate where it has none"

    def capacity_is_never_exceeded(self) -> Faults:
        """No link carries more than its capacity, and no flow is faster than its cap."""
        for one, rates in self.answers:
            load = one.load(rates)
            for link in where(load > one.capacities * (1 + EXACT)):
                put = f"put {load[link]:g} B/s on its {one.capacities[link]:g} B/s"
                fault = f"of {one}, {one.crossing(link)} cross {one.fabric.link_name(link)} and {put}"
                yield f"{fault}; a flow loads a link with its rate times its coefficient"
            for flow in where(rates > one.caps * (1 + EXACT)):
                yield f"flow {flow} runs at {rates[flow]:g} B/s, over its cap in Incidence.caps"

    def no_capacity_is_wasted(self) -> Faults:
        """No flow could be faster: a link on its way is full, it is at its cap, or it makes way for a higher class."""
        for one, rates in self.answers:
            incidence = one.incidence
            full = one.load(rates) >= one.capacities * (1 - EXACT)
            held = np.bincount(incidence.flows, full[incidence.links], len(incidence)) > 0
            held |= rates >= one.caps * (1 - EXACT)
            held |= one.make_way(rates)
            for flow in where(~held):
                yield (
                    f"of {one}, flow {flow} (class {incidence.priorities[flow]}) runs at {rates[flow]:g} B/s and "
                    "could be faster: no link on its way is full, it is below its cap, and it does not stand still for "
                    "a running flow of a higher class that it meets"
                )

    def somebody_moves(self) -> Faults:
        """Where flows cross no closed link, one of them has a rate: otherwise the simulation would never end."""
        for one, rates in self.answers:
            closed = np.bincount(one.incidence.flows, one.capacities[one.incidence.links] == 0, len(one.incidence)) > 0
            if not closed.all() and not (rates > 0).any():
                yield f"of {one}, none has a rate; they would wait for ever"

    def order_does_not_matter(self) -> Faults:
        """The same flows in another order get the same rates."""
        random = np.random.default_rng(1)
        for one, rates in self.answers:
            order = random.permutation(len(rates))
            again = self.answer(evolve(one, incidence=permuted(one.incidence, order)))
            for place in where(~np.isclose(again, rates[order], rtol=EXACT, atol=0)):
                after = f"{again[place]:g} B/s where the same flows come in another order"
                fault = f"of {one}, flow {order[place]} gets {rates[order][place]:g} B/s, and {after}"
                yield f"{fault}; rates must not depend on their numbers"

    def is_local_if_it_says_so(self) -> Faults:
        """Where it says that it is local, flows get the same rates without those that share no links with them."""
        for one, rates in self.answers if self.subject.local else ():
            incidence = one.incidence
            for flow in range(len(incidence)):
                links = incidence.links[incidence.offsets[flow] : incidence.offsets[flow + 1]]
                reached = incidence.reach(np.isin(np.arange(len(one.fabric.bandwidths)), links))
                again = self.answer(evolve(one, incidence=incidence.select(reached)))
                if not np.allclose(again, rates[reached], rtol=EXACT, atol=0):
                    others = int(reached.sum()) - 1
                    mine = f"flow {flow} and the {others} that share links with it, directly or through others"
                    yield f"of {one}, {mine}, get other rates without the rest; leave out `local = True`"

    def is_max_min_in_a_class_if_it_says_so(self) -> Faults:
        """Where it says so, flows that are all of one class get the max-min fair rates."""
        for one, rates in self.answers if answers.max_min_in_class(self.subject) else ():
            if len(np.unique(one.incidence.priorities)) > 1:
                continue
            fair = max_min(one.incidence, one.capacities)
            for flow in where(~np.isclose(rates, fair, rtol=EXACT, atol=0)):
                fault = f"of {one}, all of one class, flow {flow} gets {rates[flow]:g} B/s"
                yield f"{fault}, and {fair[flow]:g} B/s are max-min fair; leave out `max_min_in_class = True`"

    def is_deterministic(self) -> Faults:
        """The policy gives the same answer when it is asked again, and it does not change its arguments."""
        yield from super().is_deterministic()
        for one in self.asked:
            given = one.incidence.links, one.incidence.offsets, one.incidence.priorities, one.capacities.copy()
            before = digest(given)
            self.subject.rates(one.incidence, given[-1], one.fabric)
            if digest(given) != before:
                yield "rates() changes the arrays it is given; copy what has to change"

    def rates_in_time_fit_the_links(self) -> Faults:
        """A policy with state gives each flow a rate that is a number; no link carries more than its capacity."""
        for one in _endless(self):
            for rates in one.course():
                if rates.shape != (len(one.flows),) or not (np.isfinite(rates) & (rates >= 0)).all():
                    yield f"{one} get the rates {rates}; one each, finite and not negative"
                load = one.flows.incidence.load(rates, len(one.fabric.bandwidths))
                for link in where(load > one.fabric.bandwidths * (1 + EXACT)):
                    fault = f"{one} put {load[link]:g} B/s on {one.fabric.link_name(link)}"
                    yield f"{fault}, which carries {one.fabric.bandwidths[link]:g} B/s"

    def order_does_not_matter_in_time(self) -> Faults:
        """With a policy with state, the same flows with other numbers get the same rates at all times."""
        random = np.random.default_rng(2)
        for one in _endless(self):
            order = random.permutation(len(one.flows))
            incidence, latencies = permuted(one.flows.incidence, order), one.flows.latencies[order]
            other = evolve(one, flows=evolve(one.flows, incidence=incidence, latencies=latencies))
            for rates, again in zip(one.course(), other.course(), strict=False):
                if not np.allclose(again, rates[order], rtol=_ALIKE, atol=_ALIKE * rates.max()):
                    fault = f"{one} get other rates where the same flows have other numbers"
                    yield f"{fault}; rates must not depend on numbers or on their order"

    def simulations_are_apart(self) -> Faults:
        """Of a policy with state, each simulation goes the same way, also while another one runs."""
        for one in _endless(self):
            alone = list(one.course())
            for first, second, rates in zip(one.course(), one.course(), alone, strict=False):
                if not (np.array_equal(first, rates) and np.array_equal(second, rates)):
                    fault = f"{one} get other rates in another simulation"
                    yield f"{fault}; begin() returns a state of its own each time, and nothing is kept elsewhere"

    def a_copy_goes_on_alike(self) -> Faults:
        """The state of a simulation can be pickled, and what comes back goes on alike."""
        for one in _endless(self):
            dynamics, now = one.policy.begin(one.fabric), 0.0
            for _ in range(_QUESTIONS // 2):
                _, until = one.ask(dynamics, now)
                now = until if math.isfinite(until) else now
            try:
                copy = pickle.loads(pickle.dumps(dynamics))
            except Exception as error:
                yield f"the state of a simulation cannot be pickled: {error}"
            for rates, again in zip(*(one.course(each, now=now) for each in (dynamics, copy)), strict=False):
                if not np.array_equal(rates, again):
                    yield f"{one} get other rates from a copy of the state; pickle all of it"

    def converges_if_it_says_so(self) -> Faults:
        """Where a policy with state says that it converges, two flows that meet come to within 2 % of ``rates``."""
        for given in _endless(self):
            policy, fabric, ends = given.policy, given.fabric, _ends(given.fabric)
            if not policy.converges or not ends:
                continue
            one, both = (evolve(given, flows=_between(fabric, *np.array(pairs).T)) for pairs in (ends[:1], ends))
            dynamics, now = policy.begin(fabric), 0.0
            for _ in range(_QUESTIONS):  # the first is there before the other
                _, until = one.ask(dynamics, now)
                now = until if until < math.inf else now + 1.0
            stable = policy.rates(both.flows.incidence, fabric.bandwidths.copy(), fabric)
            for _ in range(_PATIENCE // _WINDOW):
                rates, now = both.mean(dynamics, now)
                far = float(np.abs(rates / stable - 1).max())
                if far <= _CLOSE or now == math.inf:
                    break
            if far > _CLOSE:
                away = f"{100 * far:.3g} % away from what rates() returns for them"
                fault = f"{both} are still {away}, after up to {_PATIENCE} questions"
                yield f"{fault}; leave out `converges = True`, or have rates() return what they come to"


class SharingPolicyTests(_Tests, case=SharingCase, subjects="policies"):
    """Tests of the configured ``policies``, on random flows on each of ``fabrics``, by default the kit's own."""

    policies: ClassVar[Sequence[SharingPolicy]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()


def check_sharing_policy(
    policy: SharingPolicy,
    *,
    fabrics: Sequence[Fabric] = (),
    plugin: object = None,
    expected_failures: Mapping[str, str] = NOTHING,
) -> None:
    """Check a configured sharing policy, on ``fabrics`` or else on small ones of the kit; see ``check_topology``."""
    check_all("sharing policy", SharingCase(subject=policy, plugin=plugin, fabrics=fabrics), expected_failures)


def _flows(fabric: Fabric) -> Iterator[Flows]:
    """Yield flows of several classes and weights, some of them capped, and once more where links are closed."""
    random = np.random.default_rng(0)
    everywhere = np.arange(len(fabric.bandwidths))
    for number in range(20):
        count = int(random.integers(1, 24))
        routes = fabric.defaults.router.route(fabric, *random.choice(fabric.npus, (2, count)))
        ways = [routes.links[routes.offsets[one] : routes.offsets[one + 1]] for one in range(count)]
        if number % 3 == 0:  # some trees
            ways += [random.choice(everywhere, min(4, len(everywhere)), replace=False) for _ in range(3)]
        links = np.concatenate(ways).astype(np.intp)
        incidence = Incidence(
            arrays.offsets([len(way) for way in ways]),
            links,
            random.choice([0.25, 0.5, 1.0], len(links)) if number % 4 == 1 else None,
            random.choice([0.01, 0.1, np.inf], len(ways)) * fabric.bandwidths.max() if number % 4 >= 2 else None,
            random.integers(0, _CLASSES, len(ways)) if number % 2 else np.zeros(len(ways), dtype=np.intp),
            np.resize([0.5, 1.0, 3.0], len(ways)) if number % 5 == 4 else None,
        )
        yield Flows(fabric, fabric.bandwidths, incidence)
        if number % 2 and len(links):
            yield Flows(fabric, np.where(everywhere == links[0], 0.0, fabric.bandwidths), incidence)


def permuted(incidence: Incidence, order: IntArray) -> Incidence:
    counts = np.diff(incidence.offsets)[order]
    pairs = arrays.ranges(incidence.offsets[order], counts)
    return Incidence(
        arrays.offsets(counts),
        incidence.links[pairs],
        None if incidence.coefficients is None else incidence.coefficients[pairs],
        None if incidence.caps is None else incidence.caps[order],
        incidence.priorities[order],
        None if incidence.weights is None else incidence.weights[order],
    )


def _endless(case: SharingCase) -> Iterator[Endless]:
    policy: SharingPolicy = case.subject
    random = np.random.default_rng(0)
    for fabric in case.fabrics:
        if isinstance(policy, StatefulSharing):
            sources, destinations = random.permuted(np.tile(fabric.npus, (8, 1)), axis=1)[:, :2].T
            yield Endless(policy, fabric, _between(fabric, sources, destinations))


def _ends(fabric: Fabric) -> list[tuple[int, int]]:
    """Return two pairs of NPUs whose flows have the last link in common; none where there are no such pairs."""
    npu, others = fabric.npus[0], fabric.npus[1:]
    routes = fabric.defaults.router.route(fabric, others, np.full(len(others), npu))
    last = routes.links[routes.offsets[1:] - 1]
    for link in last[np.diff(routes.offsets) > 1]:
        meeting = others[last == link][:2].tolist()
        if len(meeting) == 2:
            return [(source, int(npu)) for source in meeting]
    return []


def _between(fabric: Fabric, sources: IntArray, destinations: IntArray) -> ActiveFlows:
    routes = fabric.defaults.router.route(fabric, sources, destinations)
    count = len(sources)
    priorities = np.zeros(count, dtype=np.intp)
    endless = np.full(count, 1e18)
    return ActiveFlows(
        incidence=Incidence(routes.offsets, routes.links, routes.coefficients, None, priorities),
        ids=np.arange(count),
        births=np.zeros(count),
        sizes=endless,
        remaining=endless.copy(),
        latencies=routes.latencies,
        labels=("",) * count,
    )
