"""Which table serves a sharing policy."""

from __future__ import annotations

from fredfw.simulation.core.dynamic import DynamicTable
from fredfw.simulation.core.loads import Statistics
from fredfw.simulation.core.maxmin import MaxMinTable
from fredfw.simulation.core.policy import PolicyTable
from fredfw.simulation.core.table import FlowTable
from fredfw.simulation.dynamics import StatefulSharing
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.sharing import MaxMin


def flow_table(solver: RateSolver, statistics: Statistics) -> FlowTable:
    """Return an empty table for the fabric and the policy of ``solver``; see ``FlowTable``."""
    if isinstance(solver.sharing, StatefulSharing):
        return DynamicTable(solver, statistics, solver.sharing)
    # A policy that is derived from this one may divide bandwidth in another way.
    return (MaxMinTable if type(solver.sharing) is MaxMin else PolicyTable)(solver, statistics)
