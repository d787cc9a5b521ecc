"""A ring all-reduce of messages: an event-driven client that is written against ``fredfw.embed`` alone.

Each rank sends a block to the next one, waits for the block of the one before it, adds it to its own, which takes a
while, and goes on: no rank knows of any other, and no step has a barrier. ASTRA-sim's system layer uses its network in
the same way (docs/how-to/astra-sim.md). Run it with ``python examples/ring_by_messages.py``; it needs the plugin
``fredfw-topology-torus``.
"""

from __future__ import annotations

from functools import partial

from fredfw import Framework
from fredfw.embed import NetworkBackend

ADD = 1e-12
"""Seconds that adding a byte takes: the memory of an NPU moves 1 TB/s."""


class Rank:
    """One member of the ring.

    Args:
        network: Carries the messages.
        number: Its NPU.
        ranks: How many there are.
        size: Bytes of the buffer.
    """

    def __init__(self, network: NetworkBackend, number: int, ranks: int, size: float) -> None:
        self._network = network
        self._number = number
        self._ranks = ranks
        self._block = size / ranks
        self.end: float | None = None

    def step(self, number: int = 0) -> None:
        """Begin step ``number`` of 2 (n - 1): the first half adds, the second passes on what is complete."""
        if number == 2 * (self._ranks - 1):
            self.end = self._network.now
            return
        before, after = (self._number - 1) % self._ranks, (self._number + 1) % self._ranks
        self._network.send(self._number, after, self._block, tag=number)
        self._network.receive(before, self._number, number, partial(self._received, number))

    def _received(self, number: int) -> None:
        adding = ADD * self._block if number < self._ranks - 1 else 0.0
        self._network.schedule(adding, partial(self.step, number + 1))


def all_reduce(ranks: int, size: float, *, bandwidth: float = 100e9, latency: float = 1e-6) -> list[float]:
    """Return when each rank of a ring is done, in seconds."""
    framework = Framework()
    topology = framework.topology("torus", dimensions=[ranks], link_bandwidth=bandwidth, link_latency=latency)
    network = NetworkBackend(topology.build(), plugins=framework.plugins)
    members = [Rank(network, number, ranks, size) for number in range(ranks)]
    for member in members:
        member.step()
    network.run_until_idle()
    return [member.end for member in members if member.end is not None]


def main() -> None:
    """Print how long the last rank takes."""
    for ranks in (4, 16, 64):
        print(f"{ranks:>3} ranks: {1e3 * max(all_reduce(ranks, 1e9)):.3f} ms")


if __name__ == "__main__":
    main()
