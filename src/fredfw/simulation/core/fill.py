"""Max-min fair rates of one set of flows, by local bottlenecks.

A link whose fair share is the tightest constraint of *every* flow that crosses it is saturated at that share; all such
links are frozen in one pass. The number of passes is the length of the longest chain of dependent bottlenecks, not the
number of distinct rates.
"""

from __future__ import annotations

import numpy as np

from fredfw.simulation.core import compiled
from fredfw.typing import FloatArray, IntArray

# Below this share of a link's capacity, what is left of it is rounding.
NOTHING = 1e-12
# Fair shares that differ by less than this, relative, are the same.
SAME = 1e-12
# From so many pairs on it is worth to see first whether all links offer the same.
_LARGE = 10_000


def max_min(
    offsets: IntArray, links: IntArray, coefficients: FloatArray | None, caps: FloatArray | None, capacities: FloatArray
) -> tuple[FloatArray, int]:
    """Return the ``(F,)`` max-min fair rates in bytes per second, and the number of passes.

    Args:
        offsets: ``(F + 1,)`` start of each flow's pairs.
        links: ``(P,)`` link of each pair.
        coefficients: ``(P,)`` share of the flow's rate on that link, or ``None`` for 1.
        caps: ``(F,)`` upper limits, infinite for none; a flow without links keeps its cap. ``None`` for no limits.
        capacities: ``(links,)`` bytes per second.
    """
    code = compiled.library()
    if code is None:
        return by_passes(offsets, links, coefficients, caps, capacities)
    rates = np.full(len(offsets) - 1, np.inf) if caps is None else caps.astype(float)
    return rates, code.max_min(offsets, links, coefficients, capacities, rates)


def by_passes(
    offsets: IntArray, links: IntArray, coefficients: FloatArray | None, caps: FloatArray | None, capacities: FloatArray
) -> tuple[FloatArray, int]:
    """Do what ``max_min`` does without the compiled code."""
    if 8 * len(links) < len(capacities):  # else to sort the links takes longer than the rest
        used, links = np.unique(links, return_inverse=True)
        capacities = capacities[used]
    rates = np.full(len(offsets) - 1, np.inf) if caps is None else caps.astype(float)
    floor, left, count = capacities * NOTHING, capacities, len(capacities)
    lengths = offsets[1:] - offsets[:-1]
    flows = np.flatnonzero(lengths)  # a flow without links keeps its cap
    lengths, passes = lengths[flows], 0
    unlimited = len(links) > _LARGE and bool(np.isinf(rates).all())
    crossing = np.bincount(links, minlength=count)
    while len(flows):
        passes += 1
        weight = crossing if coefficients is None else np.bincount(links, weights=coefficients, minlength=count)
        share = np.divide(left, weight, out=np.full(count, np.inf), where=weight > 0)
        if unlimited:
            shares = share[weight > 0]
            if shares.min() == shares.max():  # every link is a bottleneck of all its flows
                rates[flows] = shares[0]
                break
        starts = np.zeros(len(lengths), dtype=np.intp)
        np.cumsum(lengths[:-1], out=starts[1:])
        pair_share, limit = share[links], rates[flows]
        bottleneck = np.minimum.reduceat(pair_share, starts)
        level = np.minimum(bottleneck, limit)
        # Few pairs are of a flow and its bottleneck; a link where all are is saturated.
        pair_share *= 1 - SAME
        tight = np.flatnonzero(np.repeat(level, lengths) >= pair_share)
        narrow = links[tight]
        saturated = np.bincount(narrow, minlength=count) == crossing
        frozen = limit <= bottleneck
        frozen[np.repeat(np.arange(len(flows)), lengths)[tight[saturated[narrow]]]] = True
        rates[flows[frozen]] = level[frozen]
        gone = np.repeat(frozen, lengths)
        freed, weights = links[gone], np.repeat(level[frozen], lengths[frozen])
        if coefficients is not None:
            weights = weights * coefficients[gone]
            coefficients = coefficients[~gone]
        crossing = crossing - np.bincount(freed, minlength=count)
        left = left - np.bincount(freed, weights=weights, minlength=count)
        left[left < floor] = 0.0
        flows, lengths, links = flows[~frozen], lengths[~frozen], links[~gone]
    return rates, passes
