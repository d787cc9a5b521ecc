"""How far light gets: insertion loss against what the receiver needs."""

from __future__ import annotations

from attrs import frozen


@frozen
class LossBudget:
    """Loss of an arc, all in dB, and the most that the receiver still makes do with.

    Args:
        available: Laser power less receiver sensitivity.
        ends: Lost by every arc: couplers and drop.
        node: Lost at each node that an arc passes; one of ``h`` hops passes ``h - 1``.
        span: Lost on the fibre of each hop.
    """

    available: float
    ends: float
    node: float
    span: float

    def margin(self, hops: int) -> float:
        """Return what is left for an arc of ``hops``; negative where the receiver gets too little."""
        return self.available - self.ends - (hops - 1) * self.node - hops * self.span

    def reaches(self, hops: int) -> bool:
        """Return whether an arc of ``hops`` is within the budget, but for rounding."""
        return self.margin(hops) > -1e-9
