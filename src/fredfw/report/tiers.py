"""The links of a fabric by tier: which ends they join, in which dimension, and at which bandwidth."""

from __future__ import annotations

import re

import numpy as np
from attrs import frozen

from fredfw.experiment.results import RunResult
from fredfw.fabric import Fabric, NodeKind
from fredfw.report.data import LinkLoad, link_loads
from fredfw.typing import IntArray

# The number or place at the end of a node's name, and the number of what it is part of: npu3, L1.2, node4.npu3,
# pod(0,3,*).
_NUMBER = re.compile(r"[ ._-]?\d+$|\([^()]*\)$|\d+(?=\.[a-zA-Z])")
_NO_DIMENSION = -1


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
    for name, links in _tiers(fabric):
        used = np.zeros_like(result.link_bytes)
        used[links] = result.link_bytes[links]
        for load in link_loads(fabric, used, result.seconds, 1, result.link_bytes_by_label):
            mean = load.utilization * float(used[links].mean()) / load.bytes  # a tier has one bandwidth
            tiers.append(TierLoad(name, float(fabric.bandwidths[load.link]), len(links), mean, load))
    return sorted(tiers, key=lambda tier: -tier.hottest.utilization)


def _tiers(fabric: Fabric) -> list[tuple[str, IntArray]]:
    """Return the name and the links of each tier."""
    stems = _stems(fabric)
    names = list(dict.fromkeys(stems))
    number = np.array([names.index(stem) for stem in stems])
    dimensions = _dimensions(fabric)
    keys = np.stack([number[fabric.sources], number[fabric.destinations], dimensions, fabric.bandwidths], axis=1)
    kinds, which = np.unique(keys, axis=0, return_inverse=True)
    found = []
    for index, (source, destination, dimension, _) in enumerate(kinds):
        where = f", dimension {int(dimension)}" if dimension != _NO_DIMENSION else ""
        found.append((f"{names[int(source)]} -> {names[int(destination)]}{where}", np.flatnonzero(which == index)))
    return found


def _stems(fabric: Fabric) -> list[str]:
    """Return the name of each node without its number."""
    if fabric.node_names is None:
        return [NodeKind(kind).name.lower() for kind in fabric.kinds]
    return [_NUMBER.sub("", fabric.node_names(node)) for node in range(len(fabric.kinds))]


def _dimensions(fabric: Fabric) -> IntArray:
    """Return the level of each link that joins two NPUs in one of several levels."""
    dimensions: IntArray = np.full(len(fabric.sources), _NO_DIMENSION)
    if fabric.coordinates is None or len(fabric.levels) < 2:
        return dimensions
    number = np.zeros(len(fabric.kinds), dtype=np.intp)
    number[fabric.npus] = np.arange(len(fabric.npus))
    npu = fabric.kinds == NodeKind.NPU
    direct = np.flatnonzero(npu[fabric.sources] & npu[fabric.destinations])
    ends = (fabric.coordinates[number[nodes[direct]]] for nodes in (fabric.sources, fabric.destinations))
    differs = np.not_equal(*ends)
    one = differs.sum(axis=1) == 1
    dimensions[direct[one]] = differs[one].argmax(axis=1)
    return dimensions
