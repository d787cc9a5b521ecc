"""HPCC: rates that follow the load that links report."""

from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import Fabric, Incidence, max_min, units
from fredfw.typing import FloatArray
from fredfw_sharing_roce.fluid import Feedback, Fluid, State


@frozen
class Hpcc(Fluid):
    """HPCC (Li et al., SIGCOMM 2019): each sender keeps the most loaded link of its way at ``eta`` of its capacity.

    The load of a link is what it carries, and its queue in round trips, as shares of its capacity. Of ``N`` flows on
    one link, each comes to ``(eta C + N increase) / N``, and the queue is 0 as long as that fits.
    """

    name: ClassVar[str] = "hpcc"
    converges: ClassVar[bool] = True
    approximations = ("updates once in a round trip are continuous",)

    eta: float = units.number(0.95, minimum=units.LEAST, at_most=1, help="load that links are kept at")
    increase: float = units.quantity(units.Unit.BYTES_PER_SECOND, "50 Mb/s", help="R_AI: what each round trip adds")
    stages: float = units.number(5, minimum=0, help="round trips of additive increase in turn")
    round_trip: float = units.quantity(
        units.Unit.SECONDS, 13e-6, exclusive=True, help="T: round trip by which links count their queue as load"
    )

    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        """Return max-min fair rates of links at ``eta``, and ``increase`` on top of each where it fits."""
        kept = max_min(incidence, self.eta * capacities)
        caps = kept + self.increase
        if incidence.caps is not None:
            caps = np.minimum(caps, incidence.caps)
        return max_min(evolve(incidence, caps=caps), capacities)

    def born(self, rate: FloatArray, rtt: FloatArray) -> State:
        return {"calm": np.zeros(len(rate))}

    def signal(self, queues: FloatArray, carried: FloatArray, capacities: FloatArray) -> FloatArray:
        amounts = carried + queues / self.round_trip
        return np.divide(amounts, capacities, out=np.zeros(len(queues)), where=capacities > 0)

    def advance(self, state: State, feedback: Feedback, elapsed: float) -> None:
        """See ``Fluid.advance``; once for a round trip is continuous here."""
        rate, calm = state["rate"], state["calm"]
        load = feedback.worst(feedback.rtt)
        known = feedback.age >= feedback.rtt
        high = load >= self.eta
        scales = known & (high | (calm >= self.stages)) & (load > 0)
        then = feedback.rate(feedback.rtt)
        aim = np.divide(then * self.eta, load, out=rate.copy(), where=scales) + self.increase
        rate += np.where(known, elapsed / feedback.rtt * (aim - rate), 0.0)
        calm += elapsed / feedback.rtt
        calm[high] = 0.0
