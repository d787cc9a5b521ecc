"""Lower bounds on times: of collectives on a fabric, whatever the algorithm, and of given schedules."""

from fredfw.simulation.bounds.collectives import Bound, LowerBounds, lower_bound

__all__ = ["Bound", "LowerBounds", "lower_bound"]
