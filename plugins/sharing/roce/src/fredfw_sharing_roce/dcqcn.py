"""DCQCN: rates that go down where packets are marked, and up by bytes sent and by time."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import units
from fredfw.typing import FloatArray
from fredfw_sharing_roce.fluid import Feedback, State
from fredfw_sharing_roce.marking import Marking

# Less than this share of marked packets is none; it keeps p / ((1 - p)^-n - 1) a number, which is 1 / n then.
_UNMARKED = 1e-12


@frozen
class Dcqcn(Marking):
    """DCQCN as Zhu et al. model it ("ECN or Delay", CoNEXT 2016): marking, alpha, and both kinds of increase.

    By default links mark from 5 KB on, and 1 % of the packets at 200 KB, for 40 Gb/s.
    """

    name: ClassVar[str] = "dcqcn"
    published: ClassVar[tuple[float, float, float]] = (5e3, 200e3, 0.01)
    approximations = ("senders start without hyper increase; marks of several links add up as 1 - (1 - p1)(1 - p2)...",)

    packet: float = units.size(1000, help="size of a packet")
    g: float = units.number(1 / 256, minimum=units.LEAST, at_most=1, help="gain of alpha")
    increase: float = units.bandwidth("40 Mb/s", help="R_AI: what an additive increase adds")
    byte_counter: float = units.size(10e6, help="B: bytes sent between increases")
    timer: float = units.quantity(units.Unit.SECONDS, 55e-6, exclusive=True, help="T: time between increases")
    recovery: float = units.number(5, minimum=0, help="F: increases before the first additive one")
    cnp_interval: float = units.quantity(
        units.Unit.SECONDS, 50e-6, exclusive=True, help="tau: time between notifications of one flow"
    )
    alpha_interval: float = units.quantity(
        units.Unit.SECONDS, 55e-6, exclusive=True, help="tau': time between updates of alpha"
    )
    least: float = units.bandwidth("10 Mb/s", help="rate below which no flow goes")

    def born(self, rate: FloatArray, rtt: FloatArray) -> State:
        return {"target": rate.copy(), "alpha": np.ones(len(rate))}

    def advance(self, state: State, feedback: Feedback, elapsed: float) -> None:
        rate, target, alpha = state["rate"], state["target"], state["alpha"]
        tau, counter = self.cnp_interval, self.byte_counter / self.packet
        marked = np.clip(feedback.marked(feedback.rtt), _UNMARKED, 1.0)
        sent = np.maximum(feedback.rate(feedback.rtt), self.least) / self.packet  # packets per second
        with np.errstate(divide="ignore", over="ignore"):
            spared = np.log1p(-marked)
            told = -np.expm1(tau * sent * spared)  # of a notification in an interval
            told_alpha = -np.expm1(self.alpha_interval * sent * spared)
            by_bytes = marked / np.expm1(-counter * spared)
            by_time = marked / np.expm1(-self.timer * sent * spared)
            additive = by_bytes * np.exp(self.recovery * counter * spared)
            additive += by_time * np.exp(self.recovery * self.timer * sent * spared)
        gap = target - rate
        alpha += elapsed * self.g / self.alpha_interval * (told_alpha - alpha)
        target += elapsed * (-gap / tau * told + self.increase * sent * additive)
        rate += elapsed * (-rate * alpha / (2 * tau) * told + gap / 2 * sent * (by_bytes + by_time))
        np.minimum(target, np.where(feedback.line > 0, feedback.line, np.inf), out=target)
        np.maximum(rate, np.minimum(self.least, target), out=rate)
