"""The links of a fabric by tier: which ends they join, in which dimension, and at which bandwidth."""

from __future__ import annotations

import re

import numpy as np

from fredfw.fabric.fabric import Fabric, NodeKind
from fredfw.typing import IntArray

# The number or place at the end of a node's name, and the number of what it is part of: npu3, L1.2, node4.npu3,
# pod(0,3,*).
_NUMBER = re.compile(r"[ ._-]?\d+$|\([^()]*\)$|\d+(?=\.[a-zA-Z])")
_NO_DIMENSION = -1


def tiers_of(fabric: Fabric) -> list[tuple[str, IntArray]]:
    """Return the name and the ``(k,)`` links of each tier, such as ``npu -> switch``; each link is in one of them."""
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
    return [_NUMBER.sub("", fabric.node_name(node)) for node in range(len(fabric.kinds))]


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
