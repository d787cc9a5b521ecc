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
    rates, left = caps.copy(), capacities.copy()
    weighted = len(coefficients) > 0
    # Flows that are not settled yet, close together. Signed, each index would be tested for being negative.
    flows = np.flatnonzero(offsets[1:] > offsets[:-1])
    lengths = (offsets[1:] - offsets[:-1])[flows].astype(np.uint64)
    links, coefficients = links.astype(np.uint32), coefficients.copy()
    first, one = np.uint64(0), np.uint64(1)
    weight, share, taken = np.zeros(len(left)), np.empty(len(left)), np.zeros(len(left))
    for pair in range(len(links)):
        weight[links[pair]] += coefficients[pair] if weighted else 1.0
    used = np.flatnonzero(weight > 0)
    loose, edge = np.empty(len(left), dtype=np.bool_), np.empty(len(left))
    level = np.empty(len(flows))
    count = len(flows)
    passes = 0
    while count > 0:
        passes += 1
        for link in used:
            share[link] = left[link] / weight[link] if weight[link] > 0 else np.inf
            edge[link] = share[link] * (1 - same)
            loose[link] = False
            if weighted:
                weight[link] = 0.0
        # The loops over pairs do not branch on rates: the processor would guess wrong as often as not.
        start = first
        for flow in range(count):
            end = start + lengths[flow]
            lowest = caps[flows[flow]]
            for pair in range(start, end):
                here = share[links[pair]]
                lowest = here if here < lowest else lowest
            for pair in range(start, end):
                loose[links[pair]] |= lowest < edge[links[pair]]
            level[flow] = lowest
            start = end
        kept, start, free = 0, first, first
        for flow in range(count):
            end = start + lengths[flow]
            waits = level[flow] < caps[flows[flow]]
            for pair in range(start, end):
                waits &= loose[links[pair]]
            if waits:
                flows[kept], lengths[kept] = flows[flow], lengths[flow]
                kept += 1
                for pair in range(start, end):
                    links[free] = links[pair]
                    if weighted:  # added up anew, for the sum is to be the same to the last bit
                        coefficients[free] = coefficients[pair]
                        weight[links[pair]] += coefficients[pair]
                    free += one
            else:
                rates[flows[flow]] = level[flow]
                for pair in range(start, end):
                    taken[links[pair]] += level[flow] * coefficients[pair] if weighted else level[flow]
                    if not weighted:
                        weight[links[pair]] -= 1.0
            start = end
        count = kept
        for link in used:
            left[link] -= taken[link]
            taken[link] = 0.0
            if left[link] < capacities[link] * nothing:
                left[link] = 0.0
    return rates, passes
