"""What is checked of a bandwidth-sharing policy, on random flows from a fixed seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from attrs import field, frozen

from fredfw.fabric import Fabric
from fredfw.simulation import Incidence, SharingPolicy, answers, max_min
from fredfw.testing.common import COMMON, Case
from fredfw.testing.conformance import EXACT, NOTHING, Check, ConformanceError, check_all, seeded
from fredfw.testing.dynamics import (
    a_copy_goes_on_alike,
    converges_if_it_says_so,
    order_does_not_matter_in_time,
    permuted,
    rates_in_time_fit_the_links,
    simulations_are_apart,
)
from fredfw.testing.fabrics import or_standard
from fredfw.testing.process import digest, same_elsewhere
from fredfw.typing import BoolArray, FloatArray

_CLASSES = 3


@frozen(eq=False)
class Shared:
    """Some flows on a fabric, of which links may be closed, and the rates that a policy gives them."""

    fabric: Fabric
    capacities: FloatArray
    incidence: Incidence
    rates: FloatArray

    def __str__(self) -> str:
        closed = int(np.count_nonzero(self.capacities == 0))
        return f"{len(self.incidence)} flows on a {self.fabric.name}" + (f" with {closed} closed links" * (closed > 0))

    @cached_property
    def load(self) -> FloatArray:
        """``(links,)`` bytes per second on each link."""
        return self.incidence.load(self.rates, len(self.fabric.bandwidths))


@frozen(eq=False, kw_only=True)
class SharingCase(Case[SharingPolicy]):
    """A policy and the small fabrics whose links it is to share."""

    fabrics: Sequence[Fabric] = field(converter=or_standard)

    @cached_property
    def shared(self) -> list[Shared]:
        """Flows, and what the policy makes of them."""
        return [
            Shared(fabric, capacities, incidence, self.rates(incidence, capacities, fabric))
            for fabric in self.fabrics
            for incidence, capacities in _cases(fabric)
        ]

    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        """Return what the policy says; it is given copies of the arrays that one might change."""
        return self.subject.rates(incidence, capacities.copy(), fabric)


def rates_are_numbers(case: SharingCase) -> None:
    """There is a rate for every flow, not negative; finite where it has links, else its cap."""
    for one in case.shared:
        crosses = np.diff(one.incidence.offsets) > 0
        if (
            one.rates.shape != (len(one.incidence),)
            or (one.rates < 0).any()
            or not np.isfinite(one.rates[crosses]).all()
        ):
            raise ConformanceError(f"{one} get the rates {one.rates}; one each, finite and not negative")
        if not np.array_equal(one.rates[~crosses], _caps(one.incidence)[~crosses]):
            raise ConformanceError("a flow without links runs at its cap, or at an infinite rate where it has none")


def capacity_is_never_exceeded(case: SharingCase) -> None:
    """No link carries more than its capacity, and no flow is faster than its cap."""
    for one in case.shared:
        for link in np.flatnonzero(one.load > one.capacities * (1 + EXACT))[:1]:
            raise ConformanceError(
                f"of {one}, {_crossing(one, link)} cross {one.fabric.link_name(int(link))} and put "
                f"{one.load[link]:g} B/s on its {one.capacities[link]:g} B/s; a flow loads a link with its rate "
                "times its coefficient"
            )
        for flow in np.flatnonzero(one.rates > _caps(one.incidence) * (1 + EXACT))[:1]:
            raise ConformanceError(f"flow {flow} runs at {one.rates[flow]:g} B/s, over its cap in Incidence.caps")


def no_capacity_is_wasted(case: SharingCase) -> None:
    """No flow could be faster: a link on its way is full, or it is at its cap, or it makes way for a higher class."""
    for one in case.shared:
        incidence = one.incidence
        full = one.load >= one.capacities * (1 - EXACT)
        held = np.bincount(incidence.flows, full[incidence.links], len(incidence)) > 0
        held |= one.rates >= _caps(incidence) * (1 - EXACT)
        held |= _makes_way(one)
        for flow in np.flatnonzero(~held)[:1]:
            raise ConformanceError(
                f"of {one}, flow {flow} (class {incidence.priorities[flow]}) runs at {one.rates[flow]:g} B/s and "
                "could be faster: no link on its way is full, it is below its cap, and it does not stand still for a "
                "running flow of a higher class that it meets"
            )


def somebody_moves(case: SharingCase) -> None:
    """Where flows cross no closed link, one of them has a rate: otherwise the simulation would never end."""
    for one in case.shared:
        closed = np.bincount(one.incidence.flows, one.capacities[one.incidence.links] == 0, len(one.incidence)) > 0
        if not closed.all() and not (one.rates > 0).any():
            raise ConformanceError(f"of {one}, none has a rate; they would wait for ever")


def order_does_not_matter(case: SharingCase) -> None:
    """The same flows in another order get the same rates."""
    random = np.random.default_rng(1)
    for one in case.shared:
        order = random.permutation(len(one.incidence))
        rates = case.rates(permuted(one.incidence, order), one.capacities, one.fabric)
        for place in np.flatnonzero(~np.isclose(rates, one.rates[order], rtol=EXACT, atol=0))[:1]:
            raise ConformanceError(
                f"of {one}, flow {order[place]} gets {one.rates[order][place]:g} B/s, and {rates[place]:g} B/s "
                "where the same flows come in another order; rates must not depend on their numbers"
            )


def is_local_if_it_says_so(case: SharingCase) -> None:
    """Where it says that it is local, flows get the same rates without those that share no links with them."""
    for one in case.shared if case.subject.local else ():
        for flow in range(len(one.incidence)):
            links = one.incidence.links[one.incidence.offsets[flow] : one.incidence.offsets[flow + 1]]
            reached = one.incidence.reach(np.isin(np.arange(len(one.fabric.bandwidths)), links))
            rates = case.rates(one.incidence.select(reached), one.capacities, one.fabric)
            if not np.allclose(rates, one.rates[reached], rtol=EXACT, atol=0):
                others = int(reached.sum()) - 1
                raise ConformanceError(
                    f"of {one}, flow {flow} and the {others} that share links with it, directly or through "
                    "others, get other rates without the rest; leave out `local = True`"
                )


def is_max_min_in_a_class_if_it_says_so(case: SharingCase) -> None:
    """Where it says so, flows that are all of one class get the max-min fair rates."""
    for one in case.shared if answers.max_min_in_class(case.subject) else ():
        if len(np.unique(one.incidence.priorities)) > 1:
            continue
        fair = max_min(one.incidence, one.capacities)
        for flow in np.flatnonzero(~np.isclose(one.rates, fair, rtol=EXACT, atol=0))[:1]:
            raise ConformanceError(
                f"of {one}, all of one class, flow {flow} gets {one.rates[flow]:g} B/s, and {fair[flow]:g} B/s "
                "are max-min fair; leave out `max_min_in_class = True`"
            )


def is_deterministic(case: SharingCase) -> None:
    """The policy gives the same answer when it is asked again, and it does not change its arguments."""
    for seed, one in enumerate(case.shared):
        incidence = one.incidence
        capacities = one.capacities.copy()
        given = (incidence.links, incidence.offsets, incidence.priorities)
        before = digest(given)
        with seeded(seed):
            again = case.subject.rates(incidence, capacities, one.fabric)
        if not np.array_equal(again, one.rates):
            raise ConformanceError(f"asked twice, {one} get different rates; a policy keeps nothing between calls")
        if not np.array_equal(capacities, one.capacities) or digest(given) != before:
            raise ConformanceError("rates() changes the arrays it is given; copy what has to change")


def is_the_same_in_another_process(case: SharingCase) -> None:
    """The rates are the same in another process, with another hash seed."""
    same_elsewhere(case.subject, observed, "what flows get")


def observed(policy: SharingPolicy) -> str:
    """Return a digest of the rates that a policy gives."""
    return digest(one.rates for one in SharingCase(subject=policy, fabrics=()).shared)


SHARING: Sequence[Check[SharingCase]] = (
    *COMMON,
    rates_are_numbers,
    capacity_is_never_exceeded,
    no_capacity_is_wasted,
    somebody_moves,
    order_does_not_matter,
    is_local_if_it_says_so,
    is_max_min_in_a_class_if_it_says_so,
    is_deterministic,
    rates_in_time_fit_the_links,
    order_does_not_matter_in_time,
    simulations_are_apart,
    a_copy_goes_on_alike,
    converges_if_it_says_so,
    is_the_same_in_another_process,
)


def check_sharing_policy(
    policy: SharingPolicy,
    *,
    fabrics: Sequence[Fabric] = (),
    plugin: object = None,
    expected_failures: Mapping[str, str] = NOTHING,
) -> None:
    """Check a configured sharing policy, on ``fabrics`` or else on small ones of the kit; see ``check_topology``."""
    case = SharingCase(subject=policy, plugin=plugin, fabrics=fabrics)
    check_all(f"sharing policy {case}", case, SHARING, expected_failures)


def _cases(fabric: Fabric) -> Iterator[tuple[Incidence, FloatArray]]:
    """Yield flows of several classes and weights, some capped, and the ``(links,)`` capacities, some of them closed."""
    random = np.random.default_rng(0)
    everywhere = np.arange(len(fabric.bandwidths))
    for number in range(20):
        count = int(random.integers(1, 24))
        ends = random.choice(fabric.npus, (2, count))
        routes = fabric.defaults.router.route(fabric, *ends)
        ways = [routes.links[routes.offsets[one] : routes.offsets[one + 1]] for one in range(count)]
        if number % 3 == 0:  # some trees
            ways += [random.choice(everywhere, min(4, len(everywhere)), replace=False) for _ in range(3)]
        lengths = [len(way) for way in ways]
        links = np.concatenate(ways).astype(np.intp)
        incidence = Incidence(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp),
            links,
            random.choice([0.25, 0.5, 1.0], len(links)) if number % 4 == 1 else None,
            random.choice([0.01, 0.1, np.inf], len(ways)) * fabric.bandwidths.max() if number % 4 >= 2 else None,
            random.integers(0, _CLASSES, len(ways)) if number % 2 else np.zeros(len(ways), dtype=np.intp),
            np.resize([0.5, 1.0, 3.0], len(ways)) if number % 5 == 4 else None,
        )
        yield incidence, fabric.bandwidths
        if number % 2 and len(links):
            yield incidence, np.where(everywhere == links[0], 0.0, fabric.bandwidths)


def _caps(incidence: Incidence) -> FloatArray:
    return np.full(len(incidence), np.inf) if incidence.caps is None else incidence.caps


def _crossing(one: Shared, link: int) -> str:
    flows = one.incidence.flows[one.incidence.links == link].tolist()
    return f"flow{'s' if len(flows) > 1 else ''} {', '.join(map(str, flows))}"


def _makes_way(one: Shared) -> BoolArray:
    """Return which flows stand still while one of a higher class runs through a node on their way."""
    incidence, fabric = one.incidence, one.fabric
    nodes = len(fabric.kinds)
    waits = np.zeros(len(incidence), dtype=bool)
    ends = fabric.sources[incidence.links], fabric.destinations[incidence.links]
    for priority in range(1, _CLASSES):
        runs = (incidence.priorities < priority) & (one.rates > 0)
        taken = np.zeros(nodes, dtype=bool)
        for end in ends:
            taken[end[runs[incidence.flows]]] = True
        meets = np.bincount(incidence.flows, taken[ends[0]] | taken[ends[1]], len(incidence)) > 0
        waits |= meets & (incidence.priorities == priority) & (one.rates == 0)
    return waits
