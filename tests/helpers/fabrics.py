"""What tests ask of fabrics: all pairs of NPUs, links by their names, and when flow sets and collectives end."""

from functools import partial
from typing import Any

import numpy as np

from fredfw import Fabric, FlowSet, Framework, Operation
from fredfw.simulation import FlowNetwork
from fredfw.simulation.sharing import sharing_of
from fredfw.typing import FloatArray, IntArray

SIZE, BANDWIDTH, ALPHA = 1e6, 1e9, 3e-6


def on_a_switch(algorithm: str, pattern: str, npus: int, **options: Any) -> float:
    """Return the seconds of a collective among NPUs around one switch; ALPHA is the latency of both links of a path."""
    fabric = Framework().topology("switch", npus=npus, link_bandwidth=BANDWIDTH, link_latency=ALPHA / 2).build()
    return Framework().simulate_collective(fabric, pattern, size=SIZE, algorithm=algorithm, **options).duration


def everybody(fabric: Fabric) -> tuple[IntArray, IntArray]:
    """Return each NPU with each, itself included."""
    return np.repeat(fabric.npus, len(fabric.npus)), np.tile(fabric.npus, len(fabric.npus))


def gigabytes(fabric: Fabric, every: int = 1) -> dict[str, float]:
    """Return the GB/s of each link by its name; with 2, of each cable, where its two links follow each other."""
    return {fabric.link_name(link): fabric.bandwidths[link] / 1e9 for link in range(0, len(fabric.sources), every)}


def streams(fabric: Fabric, operation: Operation) -> IntArray:
    """Return the streams on each link with every controller active for all NPUs."""
    load = np.zeros(len(fabric.sources), dtype=np.intp)
    for controller in fabric.controllers:
        ends = np.array([controller]), fabric.npus
        sources, destinations = ends if operation is Operation.MULTICAST else ends[::-1]
        tree = fabric.defaults.router.tree(fabric, sources, destinations, operation)
        load += np.bincount(tree.links, minlength=len(load))
    return load


class Run:
    """Flow sets that start at once, or at the times before them, and when each of their activities ended."""

    def __init__(self, fabric: Fabric, *starts: FlowSet | tuple[float, FlowSet]) -> None:
        self.network = FlowNetwork(fabric, sharing_of(fabric))
        self.ends: list[FloatArray] = []
        for start in starts:
            time, flows = start if isinstance(start, tuple) else (0.0, start)
            self.ends.append(np.zeros(flows.activities))
            self.network.schedule(time, partial(self.network.start, flows, partial(self._ended, self.ends[-1])))
        self.network.advance()
        assert self.network.idle

    def _ended(self, ends: FloatArray, activities: IntArray) -> None:
        ends[activities] = self.network.now

    @property
    def last(self) -> list[float]:
        return [float(ends.max()) for ends in self.ends]

    @property
    def told(self) -> tuple[dict[str, float], tuple[str, ...]]:
        return dict(self.network.admission.figures()), self.network.admission.notes()

    @property
    def decisions(self) -> tuple[int, int, int]:
        """How many flow sets waited, ran in parts, were replaced by unicasts."""
        statistics = self.network.statistics
        return statistics.waits, statistics.splits, statistics.decompositions
