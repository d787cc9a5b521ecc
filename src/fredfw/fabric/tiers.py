"""The links of a fabric by tier: which ends they join, in which dimension, and at which bandwidth."""

from __future__ import annotations

import re

import numpy as np

from fredfw import arrays
from fredfw.fabric.fabric import Fabric, NodeKind
from fredfw.typing import IntArray

# The number or place at the end of a node's name, and the number of what it is part of: npu3, L1.2, node4.npu3,
# pod(0,3,*).
_NUMBER = re.compile(r"[ ._-]?\d+$|\([^()]*\)$|\d+(?=\.[a-zA-Z])")
_NO_DIMENSION = -1


def tiers_of(fabric: Fabric) -> list[tuple[str, IntArray]]:
    """Return the name and the ``(k,)`` links of each tier, such as ``npu -> switch``; each link is in one of them."""
    return fabric.derived(_tiers)


def _tiers(fabric: Fabric) -> list[tuple[str, IntArray]]:
    names, number = _stems(fabric)
    keys = number[fabric.sources], number[fabric.destinations], _dimensions(fabric), fabric.bandwidths
    order = np.lexsort(keys[::-1])
    found = []
    for links in np.split(order, arrays.starts(*(key[order] for key in keys))[1:]) if len(order) else ():
        source, destination, dimension = (int(key[links[0]]) for key in keys[:3])
        where = f", dimension {dimension}" if dimension != _NO_DIMENSION else ""
        found.append((f"{names[source]} -> {names[destination]}{where}", links))
    return found


def _stems(fabric: Fabric) -> tuple[list[str], IntArray]:
    """Return names of nodes without their numbers, and which of them each node has."""
    if fabric.node_names is None:
        kinds, first, which = np.unique(fabric.kinds, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return [NodeKind(kind).name.lower() for kind in kinds[order]], np.argsort(order)[which]
    stems = [_NUMBER.sub("", fabric.node_name(node)) for node in range(len(fabric.kinds))]
    known = {stem: number for number, stem in enumerate(dict.fromkeys(stems))}
    return list(known), np.array([known[stem] for stem in stems], dtype=np.intp)


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
