"""What NCCL's tuner expects of each algorithm and protocol, by which it chooses: published constants alone."""

from __future__ import annotations

import math
from typing import Any

from attrs import frozen

from fredfw_transport_nccl.tables import GIGABYTE, LL, MICROSECOND, PROTOCOLS, SIMPLE, published


@frozen
class Machine:
    """The part of a machine that takes part in a call.

    Args:
        family: Of GPUs, as in ``published.toml``.
        ranks: How many take part.
        nodes: In how many nodes.
        link: Bytes per second that a GPU sends inside its node, as data sheets have it.
        nic: Bytes per second that a GPU sends to other nodes.
        reduces: Whether the switch of a node combines and copies streams.
    """

    family: str
    ranks: int
    nodes: int
    link: float
    nic: float
    reduces: bool = False

    @property
    def each(self) -> float:
        """GPUs of a node that take part."""
        return self.ranks / self.nodes

    @property
    def facts(self) -> dict[str, Any]:
        """What is published about the family."""
        facts: dict[str, Any] = published()["families"][self.family]
        return facts

    def rate(self, nic: float) -> float:
        """Return the bytes per second of bus bandwidth, where ``nic`` is the share of network cards' rates reached."""
        inside = self.link * self.facts["link"]
        return inside if self.nodes == 1 else min(inside if self.each > 1 else math.inf, self.each * self.nic * nic)

    @property
    def ll(self) -> float:
        """Bytes per second that LL reaches at most."""
        table = published()["ll"]
        if self.nodes == 1:
            return float(table[self.facts["generation"]]) * GIGABYTE
        return float(table[self.facts["cpu"]][self.nodes > 2]) * GIGABYTE

    @property
    def nvls(self) -> float:
        """Bytes of buffer per second of an all-reduce in the switch of a node; 0 where there is none.

        As many channels as GPUs pull, each at one of a list of speeds (``nvlsEfficiency``, ``sm90SpeedArrayIntra``).
        """
        if not (self.reduces and self.nodes == 1 and self.facts["nvls"]):
            return 0.0
        table, n, rate = published()["nvls"], self.ranks, self.rate(1.0)
        speed = next((one for one in table["speeds"] if n * one * GIGABYTE <= rate), 0.0)
        # 2 (n - 1) / n of bus bandwidth is one byte of buffer; an all-reduce pipelines two operations.
        return float(2 * n * speed * GIGABYTE * table["efficiency"] * (n - 1) / n * n / (2 * (n - 1)))


def ring_rate(machine: Machine, protocol: int, nic: float) -> float:
    """Return the bytes per second of bus bandwidth of a ring."""
    rate = message_rate(machine, protocol, nic)
    return min(rate, machine.ll) if protocol == LL else rate


def message_rate(machine: Machine, protocol: int, nic: float) -> float:
    """Return the same where every GPU sends messages of its own: LL sends as many bytes of flags as of payload."""
    return machine.rate(nic) * float(published()["ring"]["protocols"][protocol])


def tree_rate(machine: Machine, protocol: int, size: float, nic: float) -> float:
    """Return the bytes per second of bus bandwidth of a tree, which is half as many of the buffer."""
    table = published()["tree"]
    rate = machine.rate(nic) * table["share"] * table["node" if machine.nodes == 1 else "nodes"][protocol]
    if protocol == LL:
        rate = min(rate, machine.ll)
    exponent = math.floor(math.log2(size / 64)) if size >= 64 else -1
    known = table["correction"][protocol]
    return float(rate * known[exponent] if 0 <= exponent < len(known) else rate)


def ring_hop(machine: Machine, protocol: int) -> tuple[float, float]:
    """Return the seconds of one hop of a ring in a node, and between nodes."""
    table = published()
    inside = table["link"]["ring"][protocol]
    if machine.nodes > 1:
        inside = max(inside, table["overhead"][machine.facts["cpu"]] * (3 if protocol == SIMPLE else 1))
    # With one GPU in a node, the latency of the network is not hidden.
    between = table["network"]["tree" if machine.each == 1 else "ring"][protocol]
    return inside * MICROSECOND, between * MICROSECOND


def ring_hops(machine: Machine, protocol: int, steps: int, passes: int) -> tuple[float, float]:
    """Return the seconds of all hops of a ring in nodes, and between nodes.

    Args:
        machine: Where.
        protocol: Its number.
        steps: Of the ring.
        passes: How often data goes round the ring: twice in an all-reduce.
    """
    inside, between = ring_hop(machine, protocol)
    away = min(passes * (machine.nodes - 1), steps)
    return (steps - away) * inside, away * between


def tree_hops(machine: Machine, protocol: int) -> tuple[float, float]:
    """Return the seconds of all hops of an all-reduce by trees in nodes, and between nodes."""
    table = published()
    inside = 2 * (machine.each - 1) * table["link"]["tree"][protocol]
    between = 2 * math.floor(math.log2(machine.nodes)) * table["network"]["tree"][protocol]
    return inside * MICROSECOND, between * MICROSECOND


def expected(machine: Machine, pattern: str, size: float, steps: int) -> dict[tuple[str, int], float]:
    """Return the seconds that the tuner expects, by algorithm and protocol.

    Args:
        machine: Where.
        pattern: All-reduces have rings, trees and what the switch of a node does, other patterns rings.
        size: Bytes of the per-rank buffer.
        steps: Of a ring.
    """
    table, n = published(), machine.ranks
    passes = 2 if pattern == "all-reduce" else 1
    nic = table["network"]["nic"]
    found = {}
    for protocol in range(len(PROTOCOLS)):
        hops = sum(ring_hops(machine, protocol, steps, passes))
        latency = table["base"]["ring"][protocol] * MICROSECOND + hops
        if protocol == SIMPLE and machine.nodes > 1 and passes == 2:
            latency *= table["network"]["plateau"]
        found["ring", protocol] = latency + size * steps / n / ring_rate(machine, protocol, nic)
        if pattern == "all-reduce":
            latency = table["base"]["tree"][protocol] * MICROSECOND + sum(tree_hops(machine, protocol))
            found["tree", protocol] = latency + 2 * size / tree_rate(machine, protocol, size, nic)
    if pattern == "all-reduce" and machine.nvls:
        found["in-network", SIMPLE] = table["link"]["nvls"] * MICROSECOND + size / machine.nvls
    return found


def protocol_of(machine: Machine, pattern: str, algorithm: str, size: float, steps: int) -> int:
    """Return the protocol that the tuner expects to be the fastest for ``algorithm``."""
    found = expected(machine, pattern, size, steps)
    return min((key for key in found if key[0] == algorithm), key=lambda key: (found[key], key))[1]
