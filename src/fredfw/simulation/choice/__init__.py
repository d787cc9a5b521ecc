"""Which algorithm serves a collective (``auto``)."""

from fredfw.simulation.choice.planner import Plan, Planner, too_fast

__all__ = ["Plan", "Planner", "too_fast"]
