"""How flows share links: the interface of a sharing policy, with state or without, and the core's own policies.

A memoryless policy says how fast flows are. One with state, such as congestion control, is made anew for each
simulation, and says how long rates hold; the engine asks again then, and at each change of the flows or links.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from attrs import Factory, evolve, field, frozen

from fredfw import arrays
from fredfw.errors import InputError
from fredfw.fabric import Fabric, NodeKind
from fredfw.simulation import engine
from fredfw.typing import BoolArray, FloatArray, IntArray
from fredfw.units import at_least, option

_NOTHING = 1e-12  # below this share of a link's capacity, what is left of it is rounding


@frozen(eq=False)
class Incidence:
    """Which of ``F`` active flows cross which links, as ``P`` pairs grouped by flow.

    Args:
        offsets: ``(F + 1,)`` start of each flow's pairs.
        links: ``(P,)`` link of each pair.
        coefficients: ``(P,)`` share of the flow's rate on that link, or ``None`` for 1.
        caps: ``(F,)`` upper limit of each flow's rate, infinite for none; or ``None``.
        priorities: ``(F,)`` class of each flow, 0 the highest.
        weights: ``(F,)`` what the policy says that the label of each flow weighs; ``None`` for 1.
    """

    offsets: IntArray
    links: IntArray
    coefficients: FloatArray | None
    caps: FloatArray | None
    priorities: IntArray
    weights: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def flows(self) -> IntArray:
        """``(P,)`` flow of each pair."""
        return np.repeat(np.arange(len(self)), self.offsets[1:] - self.offsets[:-1])

    def select(self, chosen: BoolArray) -> Incidence:
        """Return the pairs of the flows where ``(F,)`` ``chosen`` is true."""
        if chosen.all():
            return self
        lengths = np.diff(self.offsets)
        pairs = np.repeat(chosen, lengths)
        return Incidence(
            arrays.offsets(lengths[chosen]),
            self.links[pairs],
            None if self.coefficients is None else self.coefficients[pairs],
            None if self.caps is None else self.caps[chosen],
            self.priorities[chosen],
            None if self.weights is None else self.weights[chosen],
        )

    def reach(self, disturbed: BoolArray) -> BoolArray:
        """Return the ``(F,)`` mask of flows that share links with ``(links,)`` ``disturbed`` ones, directly or not."""
        links, reached = disturbed.copy(), np.zeros(len(self), dtype=bool)
        count = 0
        while True:
            reached[self.flows[links[self.links]]] = True
            before, count = count, int(reached.sum())
            if count in (before, len(self)):
                return reached
            links[self.links[reached[self.flows]]] = True

    def load(self, rates: FloatArray, links: int) -> FloatArray:
        """Return the ``(links,)`` bytes per second that flows of ``rates`` put on each link."""
        weights = rates[self.flows]
        if self.coefficients is not None:
            weights = weights * self.coefficients
        return arrays.totals(self.links, weights, links)


class SharingPolicy(ABC):
    """Divides the capacity of the links among the active flows; plugins derive attrs classes from it.

    Attributes:
        name: What experiments and ``--set`` call it.
        local: Whether the rate of a flow depends only on flows that share links with it, directly or through others.
            ``True`` lets the engine ask ``rates`` for some of the flows, and for sets that share no links one by one;
            the rates must then be the same, bit by bit, as if asked for all. ``False`` is always safe, and slower. It
            is necessary if flows without a common link affect each other, as at the switches of ``CircuitPreempt``.
        max_min_in_class: Whether flows get the max-min fair rates as long as all are of one class. What a class
            inherits does not count if it overrides ``rates``.
    """

    name: ClassVar[str]
    local: ClassVar[bool] = False
    max_min_in_class: ClassVar[bool] = False

    @abstractmethod
    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        """Return the ``(F,)`` rate of each flow in bytes per second; without links its cap, or infinity.

        The order of the flows may not matter. No link may carry more than its ``(links,)`` capacity, 0 if closed.
        """

    def weight(self, label: str) -> float:
        """Return what a flow of ``label`` weighs, a finite number above 0; flows weigh alike by default."""
        return 1.0

    def labels(self) -> Sequence[str]:
        """Return the labels that its fields name, each of which some workload must have; none by default."""
        return ()

    def notes(self, fabric: Fabric) -> tuple[str, ...]:
        """Return what a reader of results on ``fabric`` must know; nothing by default."""
        return ()


@frozen
class MaxMin(SharingPolicy):
    """Max-min fair: no flow can gain unless a flow with at most its rate loses. Priority classes are ignored."""

    name: ClassVar[str] = "max-min"
    local: ClassVar[bool] = True
    max_min_in_class: ClassVar[bool] = True

    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        return max_min(incidence, capacities)


@frozen
class WeightedMaxMin(SharingPolicy):
    """Weighted max-min fair: on a link that is full, flows that it limits get bandwidth in proportion to weights.

    The weight of a flow is that of its label; experiments print labels, such as ``mp``, ``dp`` and ``pp``. That of
    ``dp`` is that of ``vision/dp`` of a job, too, unless this has one of its own.
    """

    name: ClassVar[str] = "weighted-max-min"
    local: ClassVar[bool] = True

    weights: Mapping[str, float] = option(Factory(dict), help="weights by label, above 0")
    default: float = option(1.0, validator=at_least(1e-6, at_most=1e6), help="weight of labels that have none")

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.weights, Mapping):
            raise InputError(f"{self.weights!r} is refused", key="weights", accepted="a table of weights by label")
        for label, weight in self.weights.items():
            if not isinstance(label, str):
                raise InputError(f"{label!r} is not a label", key="weights", accepted="text")
            if not arrays.is_real(weight) or not 1e-6 <= weight <= 1e6:
                accepted = "a number from 1e-06 to 1e+06"
                raise InputError(f"{weight!r} is not a weight", key=f"weights.{label}", accepted=accepted)

    def weight(self, label: str) -> float:
        return float(self.weights.get(label, self.weights.get(label.partition("/")[2], self.default)))

    def labels(self) -> Sequence[str]:
        return tuple(self.weights)

    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        weights = incidence.weights
        if weights is None:
            return max_min(incidence, capacities)
        # Rates in proportion to weights are equal rates of flows that load their links by as much more.
        each = weights[incidence.flows]
        loads = each if incidence.coefficients is None else incidence.coefficients * each
        caps = None if incidence.caps is None else incidence.caps / weights
        return weights * max_min(evolve(incidence, coefficients=loads, caps=caps), capacities)


@frozen
class StrictLinks(SharingPolicy):
    """Strict priority on every link: each class shares, max-min fair, the bandwidth that higher classes leave."""

    name: ClassVar[str] = "strict-links"
    local: ClassVar[bool] = True
    max_min_in_class: ClassVar[bool] = True

    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        rates = np.zeros(len(incidence))
        left = capacities
        for priority in np.unique(incidence.priorities):
            chosen = incidence.priorities == priority
            part = incidence.select(chosen)
            rates[chosen] = max_min(part, left)
            left = left - part.load(rates[chosen], len(capacities))
            left = np.where(left < _NOTHING * capacities, 0.0, left)
        return rates


@frozen
class CircuitPreempt(SharingPolicy):
    """One virtual circuit per class: each switch serves only its highest active class; lower classes wait.

    A flow of a lower class runs only if none of its switches is used by a running flow of a higher class; it does not
    hold a switch while it waits, for others or for a closed link. Running flows share links max-min fair (FRED, section
    on overlapping communication).
    """

    name: ClassVar[str] = "circuit-preempt"
    max_min_in_class: ClassVar[bool] = True

    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        classes = np.unique(incidence.priorities)
        if len(classes) < 2:
            return max_min(incidence, capacities)
        switch = fabric.kinds == NodeKind.SWITCH
        closed = capacities[incidence.links] == 0
        stopped = np.bincount(incidence.flows, weights=closed, minlength=len(incidence)) > 0
        ends = fabric.sources[incidence.links], fabric.destinations[incidence.links]
        taken = np.zeros(len(fabric.kinds), dtype=bool)
        running = np.zeros(len(incidence), dtype=bool)
        for priority in classes:
            blocked_pairs = taken[ends[0]] | taken[ends[1]]
            blocked = np.bincount(incidence.flows, weights=blocked_pairs, minlength=len(incidence)) > 0
            starts = (incidence.priorities == priority) & ~blocked & ~stopped
            running |= starts
            used = starts[incidence.flows]
            for end in ends:
                taken[end[used]] = True
            taken &= switch
        rates = np.zeros(len(incidence))
        rates[running] = max_min(incidence.select(running), capacities)
        return rates

    def notes(self, fabric: Fabric) -> tuple[str, ...]:
        if (fabric.kinds == NodeKind.SWITCH).any():
            return ()
        return (f"{fabric.name!r} has no switches, so {self.name} shares links max-min fair, whatever the priorities",)


@frozen(eq=False)
class ActiveFlows:
    """The ``F`` flows that drain.

    Args:
        incidence: Which of them crosses which links.
        ids: ``(F,)`` number of each flow, increasing, the same for its whole life; no other flow ever has it.
        births: ``(F,)`` seconds when each began to drain.
        sizes: ``(F,)`` bytes that it had then.
        remaining: ``(F,)`` bytes that it has left.
        latencies: ``(F,)`` seconds from the departure of its last byte to the delivery, one way.
        labels: What the bytes of each are accounted to.
    """

    incidence: Incidence
    ids: IntArray
    births: FloatArray
    sizes: FloatArray
    remaining: FloatArray
    latencies: FloatArray
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)


@frozen(eq=False)
class HeldRates:
    """Rates, and how long they hold.

    Args:
        rates: ``(F,)`` bytes per second; what ``SharingPolicy.rates`` says of them is true here, too, but all may be 0
            as long as they do not hold for ever.
        until: Seconds since the simulation began; after now, infinite for as long as flows and links stay the same.
    """

    rates: FloatArray
    until: float = math.inf


@frozen(eq=False)
class Samples:
    """A quantity over time, for traces: ``(T,)`` increasing seconds, ``values`` from then on, and their ``unit``."""

    times: FloatArray
    values: FloatArray
    unit: str = field(default="")


class Dynamics(ABC):
    """The state of a sharing policy in one simulation; it can be pickled, as the simulation can."""

    @abstractmethod
    def rates(self, flows: ActiveFlows, capacities: FloatArray, now: float) -> HeldRates:
        """Return rates from ``now`` on, and how long they hold.

        Args:
            flows: Those that drain; ids that are not among them any more do not come back.
            capacities: ``(links,)`` bytes per second; 0 for a link that is closed.
            now: Seconds since the simulation began; never less than in the call before.
        """

    def figures(self, now: float) -> Mapping[str, float]:
        """Return numbers of the whole simulation, by name, such as the mean of a queue; nothing by default."""
        return {}

    def samples(self) -> Mapping[str, Samples]:
        """Return what traces show as counters, by name, such as the queue of a link; nothing by default."""
        return {}

    def notes(self) -> tuple[str, ...]:
        """Return what a reader of the result must know; nothing by default."""
        return ()


class StatefulSharing(SharingPolicy):
    """A sharing policy with state; plugins derive attrs classes from it.

    Nothing is remembered between flow sets, and no repetition simulated as one, not even ``compressed``; results say
    so.

    Attributes:
        converges: Whether flows that stay the same come to the rates of ``rates``, whatever their start.
    """

    converges: ClassVar[bool] = False

    @abstractmethod
    def begin(self, fabric: Fabric) -> Dynamics:
        """Return the state of a new simulation; ``UnsupportedError`` for a fabric on which it is not possible."""

    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        """Return the ``(F,)`` rates that flows come to if they stay the same; max-min fair ones by default."""
        return max_min(incidence, capacities)


def sharing_of(fabric: Fabric) -> SharingPolicy:
    return fabric.defaults.sharing or MaxMin()


def max_min(incidence: Incidence, capacities: FloatArray) -> FloatArray:
    """Return the ``(F,)`` max-min fair rates in bytes per second; ``(links,)`` have ``capacities``."""
    return engine.max_min(incidence.offsets, incidence.links, incidence.coefficients, incidence.caps, capacities)[0]
