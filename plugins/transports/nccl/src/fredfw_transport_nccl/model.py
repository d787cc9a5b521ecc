"""What a call of NCCL costs: the protocol that its tuner would choose, at latencies and rates that are fitted."""

from collections.abc import Sequence

from attrs import frozen

from fredfw_transport_nccl.tables import LL, MICROSECOND, PROTOCOLS, SIMPLE, Fit, published
from fredfw_transport_nccl.tuner import COLLNET, NVLS_TREE, PAT, Machine, expected, protocol_of

ROUND = frozenset({"all-reduce", "reduce-scatter", "all-gather"})
"""Patterns in which the data of a ring goes all the way round."""


@frozen
class Terms:
    """What a call costs."""

    protocol: int  # its number
    rule: str  # what chose it
    launch: float  # seconds, once
    hops: float  # seconds of all steps together
    inside: float  # bytes of payload for each byte on links in nodes
    between: float  # the same on links between nodes


def terms(machine: Machine, fit: Fit, pattern: str, algorithm: str, size: float, steps: int) -> Terms:
    # An algorithm that NCCL does not have costs what a ring of as many ``steps`` does.
    if algorithm == "in-network" and machine.nvls and pattern == "all-reduce":
        latency = published()["link"]["nvls"] * fit.nvls * MICROSECOND
        return Terms(SIMPLE, _ONLY, fit.launch_of(pattern) + latency, 0.0, machine.nvls / machine.link, 1.0)
    if pattern == "all-reduce":
        switched = {"in-network": COLLNET}.get(algorithm, algorithm)
        if switched in (COLLNET, NVLS_TREE) and machine.between_switches(switched, 1.0):
            return _in_switches(machine, fit, switched)
        if algorithm == "tree":
            return _tree(machine, fit, size)
    if pattern in ("all-to-all", "point-to-point"):
        return _messages(machine, fit, pattern, size, steps)
    return _ring(machine, fit, pattern, size, steps)


def _ring(machine: Machine, fit: Fit, pattern: str, size: float, steps: int) -> Terms:
    passes = 2 if pattern == "all-reduce" else 1
    factor, nic, _ = fit.between(machine.network)
    rule, protocols = _protocols(machine, pattern, "ring", size, steps)
    ways = []
    for protocol in protocols:
        inside, between = machine.ring_hops(protocol, steps, passes)
        latency = inside * fit.hops[protocol] + between * factor
        ways.append((protocol, rule, latency, machine.ring_rate(protocol, nic)))
    if machine.has_pat(pattern):
        inside, between = machine.hops(PAT)  # its messages are others than a ring's, with the same bytes for each card
        rate = machine.rate(nic) * published()["pat"]["share"]
        ways.append((SIMPLE, "PAT", inside + between * factor, rate))
    found = []
    for protocol, rule, latency, rate in ways:
        # The last receive overlaps with no send.
        tail = fit.tail_of(pattern) * size / machine.ranks / rate if pattern in ROUND else 0.0
        found.append(Terms(protocol, rule, fit.launch_of(pattern) + tail, latency, *_shares(machine, rate)))
    return min(found, key=lambda cost: _alone(machine, cost, pattern, "ring", size))


def _protocols(machine: Machine, pattern: str, algorithm: str, size: float, steps: int) -> tuple[str, Sequence[int]]:
    """Return what chooses a protocol, and those of which the fastest is taken."""
    # In a node it is the one that the tuner expects to be that. Between nodes the latencies that its choice rests on
    # are not those that were fitted. Times would fall where it changes the protocol late.
    if machine.nodes > 1:
        return _FASTEST, range(len(PROTOCOLS))
    return "tuner", (protocol_of(machine, pattern, algorithm, size, steps),)


_FASTEST, _ONLY = "fastest", "no other"  # what chooses a protocol, beside the tuner and the size of a message


def _shares(machine: Machine, rate: float, link: float = 0.0) -> tuple[float, float]:
    """Return the share of the links in nodes, all or one ``link``, and of those between, at which a ring has a rate."""
    between = rate / (machine.each * machine.nic) if machine.nodes > 1 else 1.0
    return min(rate / (link or machine.link), 1.0), min(between, 1.0)


def _tree(machine: Machine, fit: Fit, size: float) -> Terms:
    factor, nic, _ = fit.between(machine.network)
    rule, protocols = _protocols(machine, "all-reduce", "tree", size, 1)
    found = []
    for protocol in protocols:
        inside, between = machine.hops("tree", protocol)
        latency = inside * fit.hops[protocol] + between * factor
        inside, between = _shares(machine, machine.tree_rate(protocol, size, nic), machine.lane)
        # Of two nodes, each is the only one below the other, so that half as much goes up and down.
        between /= 2 if machine.nodes == 2 else 1
        found.append(Terms(protocol, rule, fit.launch_of("all-reduce"), latency, inside, between))
    return min(found, key=lambda cost: _alone(machine, cost, "all-reduce", "tree", size))


def _in_switches(machine: Machine, fit: Fit, algorithm: str) -> Terms:
    """Return what an all-reduce in switches costs: all latencies first, as those of pieces in a pipeline overlap."""
    factor, nic, _ = fit.between(machine.network)
    rate = machine.between_switches(algorithm, nic)
    inside, between = (many * rate for many in _sent(machine, algorithm))
    scale = fit.nvls if machine.channels else fit.hops[SIMPLE]
    within, away = machine.hops(algorithm)
    latency = fit.launch_of("all-reduce") + within * scale + away * factor
    shares = inside / machine.link or 1.0, between / machine.each / machine.nic
    return Terms(SIMPLE, _ONLY, latency, 0.0, min(shares[0], 1.0), min(shares[1], 1.0))


def _sent(machine: Machine, algorithm: str) -> tuple[float, float]:
    """Return the bytes that a GPU sends in its node for each byte of buffer, and to its rail for each of its part."""
    # In a node a buffer is on the links twice where switches reduce: to be reduced, and copied.
    inside = 2.0 if machine.channels or algorithm == NVLS_TREE else 2 * (machine.each - 1) / machine.each
    return inside, 2 * (machine.nodes - 1) / machine.nodes if algorithm == NVLS_TREE else 1.0


def _messages(machine: Machine, fit: Fit, pattern: str, size: float, steps: int) -> Terms:
    everyone = pattern == "all-to-all"
    message = size / machine.ranks if everyone else size
    network, nic, away = fit.between(machine.network)
    shares = (fit.messages, 1.0) if everyone else (fit.sends, away)
    most, found = published()["messages"]["ll"], []
    rule = _FASTEST if message <= most else f"above {most} B"
    for protocol in (LL, SIMPLE) if message <= most else (SIMPLE,):
        inside, between = machine.ring_hop(protocol)
        hop = inside * fit.hops[protocol] if machine.nodes == 1 else between * network
        # What bounds the few channels of a ring with LL does not bound messages to all, which have channels each.
        rate = machine.ring_rate(protocol, nic) if machine.nodes == 1 else machine.message_rate(protocol, nic)
        inside, between = _shares(machine, rate)
        if machine.nodes > 1:
            # Messages in a node, also those to the GPU of another rail, have its links' rate, not that of its cards.
            inside = machine.facts["link"] * published()["ring"]["protocols"][protocol]
        latency = fit.launch_of("all-to-all")
        found.append(Terms(protocol, rule, latency, steps * hop, inside * shares[0], between * shares[1]))
    # NCCL takes LL wherever it may. No measurement shows that a call gets faster where LL ends.
    return min(found, key=lambda cost: _alone(machine, cost, pattern, "direct", size))


def steps_of(pattern: str, ranks: int) -> int:
    """Return the steps of a pattern as NCCL does it: by a ring, or with all messages at once."""
    return {"all-reduce": 2 * (ranks - 1), "all-to-all": 1, "point-to-point": 1}.get(pattern, ranks - 1)


def seconds(machine: Machine, fit: Fit, pattern: str, algorithm: str, size: float) -> float:
    """Return how long a call takes alone, in closed form: launch + steps x hop + bytes / rate."""
    # A simulation takes as long where the bytes of a step are on the links at the same time, and nothing else is.
    # Algorithms are ``ring``, ``tree``, ``in-network``, ``nvls-tree``, ``collnet``, ``pat``, and of messages
    # ``direct``.
    steps = steps_of(pattern, machine.ranks) if algorithm in ("ring", "direct", PAT) else 1
    return _alone(machine, terms(machine, fit, pattern, algorithm, size, steps), pattern, algorithm, size)


def _alone(machine: Machine, cost: Terms, pattern: str, algorithm: str, size: float) -> float:
    n = machine.ranks
    if algorithm in (COLLNET, NVLS_TREE):
        inside, between = (many * size for many in _sent(machine, algorithm))
        between /= machine.each
    elif algorithm in ("tree", "in-network"):
        inside = size * (2 if algorithm == "tree" else 1)
        between = inside / machine.each / (2 if machine.nodes == 2 else 1)
    elif pattern == "all-to-all":
        inside, between = size * (machine.each - 1) / n, size * (n - machine.each) / n
    elif pattern == "point-to-point":
        inside = between = size
    else:
        inside = size * steps_of(pattern, n) / n
        between = inside / machine.each
    link = machine.lane if algorithm == "tree" and machine.lane else machine.link
    busy = inside / (link * cost.inside)
    if machine.nodes > 1:
        busy = max(busy, between / (machine.nic * cost.between))
    return cost.launch + cost.hops + busy


def time(machine: Machine, fit: Fit, pattern: str, size: float) -> float:
    return seconds(machine, fit, pattern, algorithm_of(machine, pattern, size), size)


def algorithm_of(machine: Machine, pattern: str, size: float) -> str:
    """Return the algorithm that the tuner expects to be the fastest: ``direct`` for messages."""
    if pattern in ("all-to-all", "point-to-point"):
        return "direct"
    found = expected(machine, pattern, size, steps_of(pattern, machine.ranks))
    return min(found, key=lambda key: (found[key], key))[0]
