"""TIMELY: rates that follow delay and its gradient, as published and patched."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import units
from fredfw.errors import InputError
from fredfw.typing import FloatArray
from fredfw_sharing_roce.fluid import Feedback, Fluid, State

# Gain of decreases, and bytes of a segment, of each variant in "ECN or Delay".
_PUBLISHED = {"original": (0.8, 64e3), "patched": (0.008, 16e3)}


@frozen
class Timely(Fluid):
    """TIMELY (Mittal et al., SIGCOMM 2015), and as Zhu et al. patch it ("ECN or Delay", CoNEXT 2016).

    With the original, any division of a link is stable: flows keep the shares that they started with. The patched one
    comes to equal shares, and to a queue of ``low C (1 + N increase / (decrease C))`` bytes.
    """

    name: ClassVar[str] = "timely"

    variant: str = units.choice(_PUBLISHED, "patched", help="which")
    low: float = units.quantity(
        units.Unit.SECONDS, 50e-6, exclusive=True, help="T_low: delay below which rates only increase"
    )
    high: float = units.quantity(
        units.Unit.SECONDS, 500e-6, exclusive=True, help="T_high: delay above which rates only decrease"
    )
    increase: float = units.bandwidth("10 Mb/s", help="delta: what an increase adds")
    decrease: float | None = units.option(
        None, help="beta: gain of a decrease; default: 0.8, or 0.008 of the patched variant"
    )
    gain: float = units.number(0.875, minimum=units.LEAST, at_most=1, help="alpha: gain of the gradient")
    interval: float = units.quantity(
        units.Unit.SECONDS, 20e-6, exclusive=True, help="D_min: least time between updates, and unit of the gradient"
    )
    segment: float | None = units.size(
        None, help="bytes between updates; default: 64 KB, or 16 KB of the patched variant"
    )
    packet: float = units.size(1000, help="size of a packet")
    least: float = units.bandwidth("10 Mb/s", help="rate below which no flow goes")

    def __attrs_post_init__(self) -> None:
        if self.high <= self.low:
            raise InputError(f"{self.high:g} s is not more than low", key="high", accepted=f"more than {self.low:g} s")
        if self.decrease is not None and not 0 < self.decrease <= 1:
            raise InputError(f"{self.decrease!r} is not a gain", key="decrease", accepted="more than 0, at most 1")

    def born(self, rate: FloatArray, rtt: FloatArray) -> State:
        return {"gradient": np.zeros(len(rate))}

    def signal(self, queues: FloatArray, carried: FloatArray, capacities: FloatArray) -> FloatArray:
        """Return the seconds that a packet waits for each link."""
        return np.divide(queues, capacities, out=np.zeros(len(queues)), where=capacities > 0)

    def advance(self, state: State, feedback: Feedback, elapsed: float) -> None:
        rate, gradient = state["rate"], state["gradient"]
        decrease, segment = _PUBLISHED[self.variant]
        decrease = self.decrease if self.decrease is not None else decrease
        segment = self.segment if self.segment is not None else segment
        interval = np.maximum(segment / np.maximum(rate, self.least), self.interval)
        one = self.packet / np.maximum(feedback.line, self.least)
        delay = feedback.total(np.zeros(len(rate))) + one + feedback.rtt
        waited = feedback.total(delay)
        change = (waited - feedback.total(delay + interval)) / self.interval
        if self.variant == "patched":
            weight = np.clip(2 * gradient + 0.5, 0.0, 1.0)
            between = self.increase * (1 - weight) - decrease * rate * (waited - self.low) / self.low * weight
        else:
            between = np.where(gradient <= 0, self.increase, -gradient * decrease * rate)
        with np.errstate(divide="ignore"):
            falling = -decrease * (1 - self.high / waited) * rate
        slope = np.where(waited < self.low, self.increase, np.where(waited > self.high, falling, between))
        gradient += elapsed * self.gain / interval * (change - gradient)
        rate += elapsed / interval * slope
        np.maximum(rate, np.minimum(self.least, feedback.line), out=rate)

    @property
    def approximations(self) -> tuple[str, ...]:
        kept = ("flows keep shares that depend on how they started",) if self.variant == "original" else ()
        return ("updates once in an interval are continuous", *kept)
