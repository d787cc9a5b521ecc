"""Small fabrics that need no plugin: the neutral ground on which algorithms, workloads and policies are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw.fabric import (
    Admission,
    AdmissionPolicy,
    Capabilities,
    Defaults,
    Dimension,
    Fabric,
    Level,
    NodeKind,
    Operation,
    Router,
    Routes,
    ShortestPathRouter,
    product_fabric,
)
from fredfw.typing import IntArray

BANDWIDTH = 100e9
"""Bytes per second of every link."""
LATENCY = 1e-6
"""Seconds of every link."""


@frozen
class StarRouter(Router):
    """Up to the switch of a ``star`` and down again."""

    name: ClassVar[str] = "star"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """See ``Router.route``."""
        ways = np.stack([2 * sources, 2 * destinations + 1], axis=1)
        apart = sources != destinations
        return fabric.paths(np.concatenate([[0], np.cumsum(2 * apart)]), ways[apart].ravel())

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``."""
        if operation is Operation.MULTICAST:
            destinations = destinations[destinations != sources[0]]
        links = np.concatenate([2 * sources, 2 * destinations + 1])
        return Routes.of([links], [2 * float(fabric.latencies[links].max())])


@frozen
class Admitting(AdmissionPolicy):
    """Makes admissions by a function."""

    name: ClassVar[str] = "admitting"

    make: Callable[[], Admission]

    def begin(self, fabric: Fabric) -> Admission:
        """See ``AdmissionPolicy.begin``."""
        del fabric
        return self.make()


def star(npus: int, controllers: int = 0) -> Fabric:
    """Return NPUs and I/O controllers around a switch, the last node, that carries out collectives.

    Link ``2 i`` leads up from node ``i``, link ``2 i + 1`` down to it.
    """
    ends = npus + controllers
    kinds = np.repeat([NodeKind.NPU, NodeKind.CONTROLLER, NodeKind.SWITCH], [npus, controllers, 1])
    node, switch = np.arange(ends), np.full(ends, ends)
    return Fabric(
        name=f"star of {npus}",
        kinds=kinds,
        sources=np.stack([node, switch], axis=1).ravel(),
        destinations=np.stack([switch, node], axis=1).ravel(),
        bandwidths=BANDWIDTH,
        latencies=LATENCY,
        energies=0.0,
        levels=(Level(npus, "switch", BANDWIDTH, 2 * LATENCY),),
        coordinates=np.arange(npus)[:, None],
        offers=Capabilities(reduces=True, multicasts=True),
        copies=kinds == NodeKind.SWITCH,
        reduces=kinds == NodeKind.SWITCH,
        defaults=Defaults(router=StarRouter()),
    )


def grid(*sizes: int, closed: bool = False) -> Fabric:
    """Return NPUs on a line, a mesh, or (``closed``) a ring or torus; links each way between neighbours."""
    kinds = ("line", "mesh"), ("ring", "torus")
    dimensions = [Dimension.of_links("ring" if closed else "line", size, BANDWIDTH, LATENCY) for size in sizes]
    name = f"{kinds[closed][len(sizes) > 1]} of {'x'.join(map(str, sizes))}"
    return product_fabric(dimensions, name).with_defaults(router=ShortestPathRouter())


def standard() -> tuple[Fabric, ...]:
    """Return one of each kind: a switch, a ring, a mesh and a torus."""
    return star(8), grid(8, closed=True), grid(4, 2), grid(3, 3, closed=True)


def or_standard(given: Sequence[Fabric]) -> Sequence[Fabric]:
    """Return the fabrics ``given``, or else the kit's own."""
    return given or standard()
