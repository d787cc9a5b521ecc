"""DCTCP: windows that shrink by the share of packets that were marked."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import units
from fredfw.typing import FloatArray
from fredfw_sharing_roce.fluid import Feedback, State
from fredfw_sharing_roce.marking import Marking


@frozen
class Dctcp(Marking):
    """DCTCP as Alizadeh, Javanmard and Prabhakar model it ("Analysis of DCTCP", SIGMETRICS 2011): windows and alpha.

    The window grows by a packet in a round trip, and shrinks by half of alpha where packets are marked. By default
    links mark all packets above 65 packets of 1500 bytes, for 10 Gb/s. The window swings about that threshold: there is
    no fixed point. Rates are equal on average.
    """

    name: ClassVar[str] = "dctcp"
    published: ClassVar[tuple[float, float, float]] = (65 * 1500.0, 65 * 1500.0, 1.0)
    approximations = ("windows start at the rate of the sender's link, not with slow start",)

    packet: float = units.size(1500, help="size of a packet")
    g: float = units.number(1 / 16, minimum=units.LEAST, at_most=1, help="gain of alpha")
    increase: float | None = units.bandwidth(
        None, help="what a round trip adds to the rate; default: a packet to the window"
    )

    def born(self, rate: FloatArray, rtt: FloatArray) -> State:
        return {"window": np.maximum(rate * rtt, self.packet), "alpha": np.zeros(len(rate))}

    def advance(self, state: State, feedback: Feedback, elapsed: float) -> None:
        window, alpha = state["window"], state["alpha"]
        round_trip = feedback.rtt + feedback.queued()
        kmin, _, _ = self.levels(feedback.capacities)
        full = np.divide(kmin, feedback.capacities, out=np.zeros(len(kmin)), where=feedback.capacities > 0)
        marked = feedback.marked(feedback.rtt + feedback.most(full))  # R0 of the model: the queue is at its threshold
        more = self.packet if self.increase is None else self.increase * round_trip
        turns = elapsed / round_trip
        window += turns * (more - window * alpha * marked / 2)
        alpha += turns * self.g * (marked - alpha)
        # A sender that its own link limits has no larger window.
        most = np.where(feedback.line > 0, feedback.line * round_trip, np.inf)
        np.clip(window, self.packet, np.maximum(most, self.packet), out=window)
        state["rate"] = window / round_trip
