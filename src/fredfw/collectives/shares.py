"""How to divide data among parts so that the busiest of several resources is done soonest."""

from __future__ import annotations

import numpy as np

from fredfw.typing import FloatArray

_TOLERANCE = 1e-12
"""What is left of numbers of order 1 when they cancel."""


def balanced_shares(times: FloatArray) -> FloatArray:
    """Return the shares of the parts, 0 or more with a sum of 1, for which the busiest resource is busy least.

    With u = shares / time of the busiest, that is the linear programme: sum(u) as large as possible while no resource
    takes longer than 1, ``times @ u <= 1``. It starts feasible at u = 0, and the simplex method with Bland's rule ends
    at the optimum (Bland, "New finite pivoting rules for the simplex method", 1977).

    Args:
        times: ``(resources, parts)`` seconds per byte, more than 0.
    """
    resources, parts = times.shape
    table = np.block(
        [
            [times / times.max(), np.eye(resources), np.ones((resources, 1))],
            [-np.ones((1, parts)), np.zeros((1, resources + 1))],
        ]
    )
    basis = np.arange(parts, parts + resources)
    while (improving := np.flatnonzero(table[-1, :-1] < -_TOLERANCE)).size:
        column = improving[0]
        usable = np.flatnonzero(table[:-1, column] > _TOLERANCE)
        ratios = table[usable, -1] / table[usable, column]
        tied = usable[ratios <= ratios.min() + _TOLERANCE]
        row = tied[basis[tied].argmin()]
        table[row] /= table[row, column]
        others = np.arange(resources + 1) != row
        table[others] -= np.outer(table[others, column], table[row])
        basis[row] = column
    u = np.zeros(parts + resources)
    u[basis] = table[:-1, -1]
    shares = np.where(u[:parts] > _TOLERANCE, u[:parts], 0.0)
    normalised: FloatArray = shares / shares.sum()
    return normalised
