"""What the links of each tier of a fabric carried."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from fredfw.experiment.results import RunResult
from fredfw.fabric.tiers import tiers_of
from fredfw.report.data import LinkLoad, link_loads


@frozen(eq=False)
class TierLoad:
    """What the links of one tier carried.

    Args:
        name: The ends that they join, and the dimension where NPUs are joined to each other in one of several.
        bandwidth: Of each link, bytes per second.
        links: How many there are.
        mean: Mean utilisation over all of them, 0 to 1.
        hottest: The link with the highest utilisation; the first, where several are equal.
    """

    name: str
    bandwidth: float
    links: int
    mean: float
    hottest: LinkLoad


def tier_loads(result: RunResult) -> list[TierLoad]:
    """Return the tiers whose links carried something, the one with the hottest link first."""
    fabric = result.fabric
    tiers = []
    for name, links in tiers_of(fabric):
        used = np.zeros_like(result.link_bytes)
        used[links] = result.link_bytes[links]
        for load in link_loads(fabric, used, result.seconds, 1, result.link_bytes_by_label):
            mean = load.utilization * float(used[links].mean()) / load.bytes  # a tier has one bandwidth
            tiers.append(TierLoad(name, float(fabric.bandwidths[load.link]), len(links), mean, load))
    return sorted(tiers, key=lambda tier: -tier.hottest.utilization)
