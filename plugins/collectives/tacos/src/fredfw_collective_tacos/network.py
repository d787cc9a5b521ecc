"""The ways that chunks can take between ranks: a link to a neighbour, or a path over switches."""

from __future__ import annotations

from collections import deque

import numpy as np
from attrs import evolve, frozen

from fredfw import GroupLinks
from fredfw.typing import FloatArray, IntArray


@frozen(eq=False)
class Ways:
    """Ways from rank to rank."""

    ranks: int  # size of the group
    source: IntArray  # ``(ways,)`` rank that each leads from
    destination: IntArray  # ``(ways,)`` rank that it leads to
    links: tuple[tuple[int, ...], ...]  # the links of each, which one chunk at a time may be on
    latency: FloatArray  # ``(ways,)`` seconds
    rate: FloatArray  # ``(ways,)`` bytes per second

    @classmethod
    def of(cls, links: GroupLinks) -> Ways:
        """Return a way for each link between ranks, and one with the fewest links over switches for each other pair.

        Of links between the same two nodes the fastest is used.
        """
        leaving: list[dict[int, int]] = [{} for _ in range(links.nodes)]
        for link, (one, other) in enumerate(zip(links.sources.tolist(), links.destinations.tolist(), strict=True)):
            leaving[one][other] = link  # the fastest comes last
        ends: list[tuple[int, int]] = []
        paths: list[tuple[int, ...]] = []
        for rank in range(links.ranks):
            before: dict[int, tuple[int, ...]] = {rank: ()}
            queue = deque([rank])
            while queue:
                here = queue.popleft()
                for there, link in leaving[here].items():
                    if there in before:
                        continue
                    before[there] = (*before[here], link)
                    if there < links.ranks:
                        ends.append((rank, there))
                        paths.append(before[there])
                    else:
                        queue.append(there)
        source, destination = np.array(ends, dtype=np.intp).reshape(-1, 2).T
        latency = np.array([float(links.latencies[list(path)].sum()) for path in paths])
        rate = np.array([float(links.bandwidths[list(path)].min()) for path in paths])
        return cls(links.ranks, source, destination, tuple(paths), latency, rate)

    @property
    def reversed(self) -> Ways:
        """The same, each the other way."""
        return evolve(self, source=self.destination, destination=self.source)

    def seconds(self, size: float) -> FloatArray:
        """Return the ``(ways,)`` seconds that a chunk of ``size`` bytes takes; one second each where all are equal."""
        seconds: FloatArray = self.latency + size / self.rate
        if not len(seconds) or seconds.min() == seconds.max() or seconds.min() <= 0:
            return np.ones(len(seconds))
        return seconds

    @property
    def alike(self) -> bool:
        """Whether a chunk takes as long on all of them, whatever its size."""
        return len(set(self.latency.tolist())) <= 1 and len(set(self.rate.tolist())) <= 1
