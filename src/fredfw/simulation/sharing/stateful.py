"""Sharing policies with state: the interface, and what such a policy is told of the flows.

A memoryless policy says how fast flows are once they share links. One with state says how they get there, such as
congestion control: it is made anew for each simulation, keeps what it wants to know of each flow, and returns rates
together with how long they hold. The engine asks again then, and at each change of the flows or of the links.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from attrs import field, frozen

from fredfw.fabric import Fabric
from fredfw.simulation.sharing.policies import Incidence, SharingPolicy, max_min
from fredfw.typing import FloatArray, IntArray


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
    """A quantity over time, for traces.

    Args:
        times: ``(T,)`` seconds, increasing.
        values: ``(T,)`` its value from then on.
        unit: Of the values, for people.
    """

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
        del now
        return {}

    def samples(self) -> Mapping[str, Samples]:
        """Return what traces show as counters, by name, such as the queue of a link; nothing by default."""
        return {}

    def notes(self) -> tuple[str, ...]:
        """Return what a reader of the result must know; nothing by default."""
        return ()


class StatefulSharing(SharingPolicy):
    """A sharing policy with state; plugins derive attrs classes from it.

    Nothing is remembered between flow sets, and no repetition is simulated as one, also where ``compressed`` is asked
    for; results say so.

    Attributes:
        converges: Whether flows that stay the same come to the rates of ``rates``, whatever their start. The kit checks
            policies that set ``True``.
    """

    converges: ClassVar[bool] = False

    @abstractmethod
    def begin(self, fabric: Fabric) -> Dynamics:
        """Return the state of a simulation in which nothing has happened yet.

        Raises:
            UnsupportedError: The fabric is none on which this can be simulated.
        """

    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        """Return the ``(F,)`` rates that flows come to if they stay the same; max-min fair ones by default."""
        del fabric
        return max_min(incidence, capacities)
