"""What is checked of a bandwidth-sharing policy with state: endless flows that share links for a while."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from attrs import evolve, frozen

from fredfw.fabric import Fabric
from fredfw.simulation import ActiveFlows, Dynamics, Incidence, SharingPolicy, StatefulSharing
from fredfw.testing.conformance import EXACT, ConformanceError
from fredfw.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from fredfw.testing.sharing import SharingCase

# Sums in another order differ by rounding, which feedback magnifies.
_ALIKE = 1e-6
# How often a policy is asked, and for how long it may take to converge: in questions, and to which share of its rates.
_QUESTIONS = 40
_PATIENCE, _WINDOW, _CLOSE = 20_000, 200, 0.02


@frozen(eq=False)
class Endless:
    """Flows on a fabric that never end."""

    fabric: Fabric
    flows: ActiveFlows

    def __str__(self) -> str:
        return f"{len(self.flows)} endless flows on a {self.fabric.name}"

    def ask(self, dynamics: Dynamics, now: float) -> tuple[FloatArray, float]:
        """Return the rates from ``now`` on and until when they hold."""
        held = dynamics.rates(self.flows, self.fabric.bandwidths.copy(), now)
        return held.rates, held.until

    def course(self, dynamics: Dynamics, now: float = 0.0) -> Iterator[FloatArray]:
        """Yield the rates, question by question, as long as they change."""
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


def rates_in_time_fit_the_links(case: SharingCase) -> None:
    """A policy with state gives each flow a rate that is a number; no link carries more than its capacity."""
    for policy, one in _endless(case):
        for rates in one.course(policy.begin(one.fabric)):
            if rates.shape != (len(one.flows),) or not (np.isfinite(rates) & (rates >= 0)).all():
                raise ConformanceError(f"{one} get the rates {rates}; one each, finite and not negative")
            load = one.flows.incidence.load(rates, len(one.fabric.bandwidths))
            for link in np.flatnonzero(load > one.fabric.bandwidths * (1 + EXACT))[:1]:
                raise ConformanceError(
                    f"{one} put {load[link]:g} B/s on {one.fabric.link_name(int(link))}, which carries "
                    f"{one.fabric.bandwidths[link]:g} B/s"
                )


def order_does_not_matter_in_time(case: SharingCase) -> None:
    """With a policy with state, the same flows with other numbers get the same rates at all times."""
    random = np.random.default_rng(2)
    for policy, one in _endless(case):
        order = random.permutation(len(one.flows))
        flows = evolve(one.flows, incidence=permuted(one.flows.incidence, order), latencies=one.flows.latencies[order])
        other = Endless(one.fabric, flows)
        courses = (each.course(policy.begin(one.fabric)) for each in (one, other))
        for rates, again in zip(*courses, strict=False):
            if not np.allclose(again, rates[order], rtol=_ALIKE, atol=_ALIKE * rates.max()):
                raise ConformanceError(
                    f"{one} get other rates where the same flows have other numbers; rates must not depend on "
                    "numbers or on their order"
                )


def simulations_are_apart(case: SharingCase) -> None:
    """Of a policy with state, each simulation goes the same way, also while another one runs."""
    for policy, one in _endless(case):
        alone = list(one.course(policy.begin(one.fabric)))
        for first, second, rates in zip(*(one.course(policy.begin(one.fabric)) for _ in range(2)), alone, strict=False):
            if not (np.array_equal(first, rates) and np.array_equal(second, rates)):
                raise ConformanceError(
                    f"{one} get other rates in another simulation; begin() returns a state of its own each time, "
                    "and nothing is kept elsewhere"
                )


def a_copy_goes_on_alike(case: SharingCase) -> None:
    """The state of a simulation can be pickled, and what comes back goes on alike."""
    for policy, one in _endless(case):
        dynamics, now = policy.begin(one.fabric), 0.0
        for _ in range(_QUESTIONS // 2):
            _, until = one.ask(dynamics, now)
            now = until if math.isfinite(until) else now
        try:
            copy = pickle.loads(pickle.dumps(dynamics))
        except Exception as error:
            raise ConformanceError(f"the state of a simulation cannot be pickled: {error}") from error
        for rates, again in zip(*(one.course(each, now=now) for each in (dynamics, copy)), strict=False):
            if not np.array_equal(rates, again):
                raise ConformanceError(f"{one} get other rates from a copy of the state; pickle all of it")


def converges_if_it_says_so(case: SharingCase) -> None:
    """Where a policy with state says that it converges, two flows that meet come to within 2 % of ``rates``."""
    for policy, fabric in _with_state(case):
        ends = _ends(fabric)
        if not policy.converges or not ends:
            continue
        one, both = (Endless(fabric, _between(fabric, *np.array(pairs).T)) for pairs in (ends[:1], ends))
        flows = both.flows
        dynamics, now = policy.begin(fabric), 0.0
        for _ in range(_QUESTIONS):  # the first is there before the other
            _, until = one.ask(dynamics, now)
            now = until if until < math.inf else now + 1.0
        stable = policy.rates(flows.incidence, fabric.bandwidths.copy(), fabric)
        for _ in range(_PATIENCE // _WINDOW):
            rates, now = both.mean(dynamics, now)
            far = float(np.abs(rates / stable - 1).max())
            if far <= _CLOSE or now == math.inf:
                break
        if far > _CLOSE:
            raise ConformanceError(
                f"{both} are still {100 * far:.3g} % away from what rates() returns for them, after up to "
                f"{_PATIENCE} questions; leave out `converges = True`, or have rates() return what they come to"
            )


def permuted(incidence: Incidence, order: IntArray) -> Incidence:
    """Return the flows in another ``(F,)`` ``order``."""
    pairs = np.concatenate([np.arange(incidence.offsets[one], incidence.offsets[one + 1]) for one in order])
    return Incidence(
        np.concatenate([[0], np.cumsum(np.diff(incidence.offsets)[order])]).astype(np.intp),
        incidence.links[pairs],
        None if incidence.coefficients is None else incidence.coefficients[pairs],
        None if incidence.caps is None else incidence.caps[order],
        incidence.priorities[order],
        None if incidence.weights is None else incidence.weights[order],
    )


def _with_state(case: SharingCase) -> Iterator[tuple[StatefulSharing, Fabric]]:
    policy: SharingPolicy = case.subject
    if isinstance(policy, StatefulSharing):
        for fabric in case.fabrics:
            yield policy, fabric


def _endless(case: SharingCase) -> Iterator[tuple[StatefulSharing, Endless]]:
    """Yield flows between pairs of NPUs on each fabric; none for a policy without state."""
    random = np.random.default_rng(0)
    for policy, fabric in _with_state(case):
        sources, destinations = random.permuted(np.tile(fabric.npus, (8, 1)), axis=1)[:, :2].T
        yield policy, Endless(fabric, _between(fabric, sources, destinations))


def _ends(fabric: Fabric) -> list[tuple[int, int]]:
    """Return two pairs of NPUs whose flows have the last link in common; none where there are no such pairs."""
    last: dict[int, tuple[int, int]] = {}
    npu, *others = fabric.npus.tolist()
    for source in others:
        routes = fabric.defaults.router.route(fabric, np.array([source]), fabric.npus[:1])
        link = int(routes.links[-1])
        if link in last and len(routes.links) > 1:
            return [last[link], (source, npu)]
        last[link] = (source, npu)
    return []


def _between(fabric: Fabric, sources: IntArray, destinations: IntArray) -> ActiveFlows:
    """Return flows that never end, one for each pair of NPUs."""
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
