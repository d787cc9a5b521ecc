"""What NCCL's tuner expects of each algorithm and protocol, by which it chooses: published constants alone."""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from attrs import evolve, frozen

from fredfw_transport_nccl.tables import GIGABYTE, LL, MICROSECOND, PROTOCOLS, SIMPLE, published

NVLS_TREE = "nvls-tree"  # the algorithm that reduces in the switches of nodes, and by trees between them
PAT = "pat"  # the algorithm of parallel aggregated trees
COLLNET = "collnet"
"""The algorithm that reduces in the switches of nodes where they can, and in those between them (SHARP)."""


@frozen
class Machine:
    """The part of a machine that takes part in a call, and how fast it does what NCCL does."""

    family: str  # of GPUs, as in ``published.toml``
    ranks: int  # how many take part
    nodes: int  # in how many nodes
    link: float  # bytes per second that a GPU sends inside its node, as data sheets have it
    nic: float  # bytes per second that a GPU sends to other nodes
    reduces: bool = False  # whether the switch of a node combines and copies streams
    network: str = "infiniband"  # what connects nodes, as in ``published.toml``
    lane: float = 0.0  # bytes per second that a GPU sends to the next one of a tree; 0 for ``link``

    @property
    def each(self) -> float:
        return self.ranks / self.nodes

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = published()["families"][self.family]
        return facts

    @property
    def wire(self) -> str:
        """The published table of hops in a node: of NVLink, unless its family has another."""
        return str(self.facts.get("wire", "link"))

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
    def channels(self) -> float:
        """Channels of NVLS: one for each GPU of a node, up to a most; 0 where its switch does not reduce."""
        if not (self.reduces and self.facts["nvls"] and self.each > 1):
            return 0.0
        return float(min(self.each, published()["nvls"]["channels"]))

    @property
    def nvls(self) -> float:
        """Bytes of buffer per second of an all-reduce in the switch of the only node; 0 where there is none."""
        return 0.0 if self.nodes > 1 else self._nvls("speeds", self.link * self.facts["link"], math.inf)

    def between_switches(self, algorithm: str, nic: float) -> float:
        """Return that among nodes by ``NVLS_TREE`` or ``COLLNET``, at a share ``nic`` of the cards' rates; or 0."""
        reduces = algorithm == NVLS_TREE or published()["networks"][self.network].get("reduces")
        if self.nodes == 1 or not reduces:
            return 0.0
        rate, cards = self.link * self.facts["link"], self.each * self.nic
        if algorithm == NVLS_TREE:
            # Of two nodes, each sends half as much as of more.
            return self._nvls("between", min(rate, cards), cards * nic * (2 if self.nodes == 2 else 1))
        # Without switches that reduce, each GPU exchanges its part with all others of its node, twice.
        alone = rate * self.each / (2 * (self.each - 1)) if self.each > 1 else math.inf
        within = evolve(self, ranks=round(self.each), nodes=1).nvls if self.channels else alone
        return min(within, cards * nic)

    def _nvls(self, speeds: str, rate: float, most: float) -> float:
        """Return the bytes of buffer per second where channels together have a ``rate``, and bus bandwidth a most."""
        if not (count := self.channels):
            return 0.0
        table = published()["nvls"][self.facts["generation"]]
        speed = next((one for one in table[speeds] if count * one * GIGABYTE <= rate), 0.0)
        channel = 2 * speed * table["efficiency"] * (count - 1) / count  # an all-reduce pipelines two operations
        if self.nodes > 1:
            channel = min(channel, speed * (2 if self.nodes == 2 else 1), table["most"][self.nodes > 2])
        return float(min(count * channel * GIGABYTE, most) * self.ranks / (2 * (self.ranks - 1)))

    def has_pat(self, pattern: str) -> bool:
        """Return whether NCCL may do ``pattern`` by parallel aggregated trees (PAT): with one GPU in each node."""
        return pattern in ("all-gather", "reduce-scatter") and self.nodes == self.ranks > 1

    def ring_rate(self, protocol: int, nic: float) -> float:
        """Return the bytes per second of bus bandwidth of a ring."""
        rate = self.message_rate(protocol, nic)
        return min(rate, self.ll) if protocol == LL else rate

    def message_rate(self, protocol: int, nic: float) -> float:
        """Return the same where every GPU sends messages of its own: LL sends as many bytes of flags as of payload."""
        return self.rate(nic) * float(published()["ring"]["protocols"][protocol])

    def tree_rate(self, protocol: int, size: float, nic: float) -> float:
        """Return the bytes per second of bus bandwidth of a tree, which is half as many of the buffer."""
        table = published()["tree"]
        rate = self.rate(nic) * table["share"] * table["node" if self.nodes == 1 else "nodes"][protocol]
        if protocol == LL:
            rate = min(rate, self.ll)
        exponent = math.floor(math.log2(size / 64)) if size >= 64 else -1
        known = table["correction"][protocol]
        return float(rate * known[exponent] if 0 <= exponent < len(known) else rate)

    def ring_hop(self, protocol: int) -> tuple[float, float]:
        """Return the seconds of one hop of a ring in a node, and between nodes."""
        table = published()
        inside = table[self.wire]["ring"][protocol]
        if self.nodes > 1:
            inside = max(inside, table["overhead"][self.facts["cpu"]] * (3 if protocol == SIMPLE else 1))
        # With one GPU in a node, the latency of the network is not hidden.
        between = table["network"]["tree" if self.each == 1 else "ring"][protocol]
        return inside * MICROSECOND, between * MICROSECOND

    def ring_hops(self, protocol: int, steps: int, passes: int) -> tuple[float, float]:
        """Return the seconds of all hops of a ring in nodes, and between nodes; in an all-reduce of two ``passes``."""
        inside, between = self.ring_hop(protocol)
        away = min(passes * (self.nodes - 1), steps)
        return (steps - away) * inside, away * between

    def hops(self, algorithm: str, protocol: int = SIMPLE) -> tuple[float, float]:
        """Return the seconds of all hops in nodes, of GPUs or in switches, and between nodes, of all but rings."""
        table = published()
        link, network = table["link"], table["network"]
        depth, others = math.floor(math.log2(self.nodes)), self.each - 1
        if algorithm == PAT:
            inside = table["pat"]["rank"] * self.ranks
            between = table["pat"]["hop"] * math.floor(math.log2(self.ranks))
        elif algorithm == "tree":
            inside = 2 * others * table[self.wire]["tree"][protocol]
            between = 2 * depth * network["tree"][protocol]
        elif algorithm == NVLS_TREE:
            inside, between = link["nvls"], 2 * depth * network["nvls-tree"]
        elif self.channels:
            inside, between = link["nvls"], network["nvls"]
        else:
            inside, between = 2 * (min(1, others) * link["collnet"] + others * link["collnet-each"]), network["collnet"]
        return inside * MICROSECOND, between * MICROSECOND


@lru_cache(maxsize=10_000)  # a fit asks the same for each try of its constants
def expected(machine: Machine, pattern: str, size: float, steps: int) -> Mapping[tuple[str, int], float]:
    """Return the seconds that the tuner expects, by algorithm and protocol; a ring has so many ``steps``."""
    table, n = published(), machine.ranks
    passes = 2 if pattern == "all-reduce" else 1
    nic = table["network"]["nic"]
    found: dict[tuple[str, int], float] = {}
    for protocol in range(len(PROTOCOLS)):
        latency = table["base"]["ring"][protocol] * MICROSECOND + sum(machine.ring_hops(protocol, steps, passes))
        if protocol == SIMPLE and machine.nodes > 1 and passes == 2:
            latency *= table["network"]["plateau"]
        found["ring", protocol] = latency + size * steps / n / machine.ring_rate(protocol, nic)
        if pattern == "all-reduce":
            latency = table["base"]["tree"][protocol] * MICROSECOND + sum(machine.hops("tree", protocol))
            found["tree", protocol] = latency + 2 * size / machine.tree_rate(protocol, size, nic)
    if machine.has_pat(pattern):
        rate = machine.rate(nic) * table["pat"]["share"]
        latency = table["pat"]["base"] * MICROSECOND + sum(machine.hops(PAT))
        found[PAT, SIMPLE] = latency + size * steps / n / rate
    if pattern == "all-reduce":
        if machine.nvls:
            found["in-network", SIMPLE] = table["link"]["nvls"] * MICROSECOND + size / machine.nvls
        for algorithm in (NVLS_TREE, COLLNET):
            if rate := machine.between_switches(algorithm, nic):
                found[algorithm, SIMPLE] = sum(machine.hops(algorithm)) + size / rate
    return found


def protocol_of(machine: Machine, pattern: str, algorithm: str, size: float, steps: int) -> int:
    found = expected(machine, pattern, size, steps)
    return min((key for key in found if key[0] == algorithm), key=lambda key: (found[key], key))[1]
