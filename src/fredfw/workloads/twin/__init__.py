"""A statistical twin of an iteration: made from statistics of it alone, with any number of ranks."""

from fredfw.workloads.twin.distance import Distance, distances
from fredfw.workloads.twin.fitting import Statistics, fit
from fredfw.workloads.twin.generation import generate

__all__ = ["Distance", "Statistics", "distances", "fit", "generate"]
