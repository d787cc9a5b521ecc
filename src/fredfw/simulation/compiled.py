"""Max-min fair rates as one compiled loop: the same passes as ``max_min``, and the same rates to the last bit.

For a hundred flows the calls of NumPy take longer than its work, and for thousands its temporary arrays. This module
needs Numba (the extra ``fredfw[compiled]``), whose import takes longer than most simulations.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from fredfw.typing import FloatArray, IntArray


@njit(cache=True)
def fill(
    offsets: IntArray,
    links: IntArray,
    coefficients: FloatArray,
    caps: FloatArray,
    capacities: FloatArray,
    same: float,
    nothing: float,
) -> tuple[FloatArray, int]:
    """Return the ``(F,)`` rates and the number of passes.

    Args:
        offsets: ``(F + 1,)`` start of each flow's pairs.
        links: ``(P,)`` link of each pair.
        coefficients: ``(P,)`` share of the flow's rate on that link; empty for 1 everywhere.
        caps: ``(F,)`` upper limits, infinite for none.
        capacities: ``(links,)`` bytes per second.
        same: Fair shares that differ by less, relative, are the same.
        nothing: Below this share of a link's capacity, what is left of it is rounding.
    """
    rates = caps.copy()
    left = capacities.copy()
    weighted = len(coefficients) > 0
    weight, share, taken = np.zeros(len(left)), np.empty(len(left)), np.zeros(len(left))
    for pair in range(len(links)):
        weight[links[pair]] += coefficients[pair] if weighted else 1.0
    used = np.flatnonzero(weight > 0)
    loose = np.empty(len(left), dtype=np.bool_)
    level = np.empty(len(caps))
    capped = np.empty(len(caps), dtype=np.bool_)
    flows = np.flatnonzero(offsets[1:] > offsets[:-1])
    count = len(flows)
    passes = 0
    while count > 0:
        passes += 1
        for link in used:
            share[link] = left[link] / weight[link] if weight[link] > 0 else np.inf
            loose[link] = False
            if weighted:
                weight[link] = 0.0
        for flow in flows[:count]:
            lowest = np.inf
            for link in links[offsets[flow] : offsets[flow + 1]]:
                lowest = min(lowest, share[link])
            capped[flow] = caps[flow] <= lowest
            level[flow] = min(lowest, caps[flow])
            for link in links[offsets[flow] : offsets[flow + 1]]:
                if level[flow] < share[link] * (1 - same):
                    loose[link] = True
        kept = 0
        for flow in flows[:count]:
            frozen = capped[flow]
            for link in links[offsets[flow] : offsets[flow + 1]]:
                if not loose[link]:
                    frozen = True
                    break
            if frozen:
                rates[flow] = level[flow]
                for pair in range(offsets[flow], offsets[flow + 1]):
                    taken[links[pair]] += level[flow] * coefficients[pair] if weighted else level[flow]
                    if not weighted:
                        weight[links[pair]] -= 1.0
            else:
                flows[kept] = flow
                kept += 1
                if weighted:  # added up anew, for the sum is to be the same to the last bit
                    for pair in range(offsets[flow], offsets[flow + 1]):
                        weight[links[pair]] += coefficients[pair]
        count = kept
        for link in used:
            left[link] -= taken[link]
            taken[link] = 0.0
            if left[link] < capacities[link] * nothing:
                left[link] = 0.0
    return rates, passes
