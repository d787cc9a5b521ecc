"""Every first-party algorithm against the lower bounds of every first-party topology; latencies left out unless named.

S is the per-rank buffer, B the bandwidth of a link, n the NPUs, k those along a dimension.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, reject, strategies as st

from fredfw import CollectiveRequest, Fabric, Framework, Pattern
from fredfw.errors import UnsupportedError
from fredfw.experiment.cell.bench import Bench
from fredfw.experiment.results import CollectiveResult
from fredfw.fidelities import RENDEZVOUS, SIMULATED, STEPWISE
from fredfw.simulation import Bound, lower_bound
from fredfw.typing import IntArray

FRAMEWORK = Framework()
S = 1e9
B = 750e9


def build(name: str, **fields: Any) -> Fabric:
    return FRAMEWORK.topology(name, **fields).build()


def bound(fabric: Fabric, pattern: str) -> Bound:
    everyone = np.arange(len(fabric.npus))
    return lower_bound(fabric, CollectiveRequest(Pattern(pattern), len(everyone), S), everyone)


PLAIN = {"link_bandwidth": B, "link_latency": 0.0}


@pytest.mark.parametrize(
    ("topology", "fields", "pattern", "algorithm"),
    [
        ("torus", {"dimensions": [8, 8], **PLAIN}, "all-reduce", "torus-ring"),
        ("torus", {"dimensions": [8], "bidirectional": False, **PLAIN}, "all-reduce", "ring"),
        ("torus", {"dimensions": [8, 8], **PLAIN}, "all-to-all", "direct"),
        ("mesh2d", {"rows": 8, "columns": 8, **PLAIN}, "all-to-all", "direct"),
        ("switch", {"npus": 9}, "all-to-all", "direct"),
        ("switch", {"npus": 9, "in_network": True}, "all-reduce", "in-network"),
        ("fred", {"variant": "D"}, "all-reduce", "in-network"),
        ("fred", {"variant": "D"}, "broadcast", "in-network"),
        ("fred", {"variant": "C", "link_latency": 0.0}, "all-reduce", "ring"),
        ("fred", {"variant": "A", "link_latency": 0.0}, "all-to-all", "direct"),
        ("fully-connected", {"npus": 6, "link_latency": 0.0}, "all-reduce", "direct"),
        ("fat-tree", {"npus": 16, "radix": 4, "routing": "spray", "link_latency": 0.0}, "all-to-all", "direct"),
    ],
)
def test_the_best_algorithms_reach_it(topology: str, fields: dict[str, Any], pattern: str, algorithm: str) -> None:
    fabric = build(topology, **fields)
    duration = FRAMEWORK.simulate_collective(fabric, pattern, size=S, algorithm=algorithm).duration
    assert duration / bound(fabric, pattern).seconds == pytest.approx(1.0, rel=1e-9)


LATENCIES, BANDWIDTHS = ("0 s", "100 ns", "30 us"), ("1 GB/s", "750 GB/s")
NAMES = [
    *("mesh2d", "torus", "switch", "fully-connected", "fred", "fat-tree", "optical-ring"),
    *("multi-dimensional", "cluster"),
]


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    def number(least: int, most: int) -> int:
        return draw(st.integers(least, most))

    def one(*choices: Any) -> Any:
        return draw(st.sampled_from(choices))

    name = one(*NAMES)
    fields: dict[str, Any] = {"link_latency": one(*LATENCIES)}
    match name:
        case "mesh2d":
            fields |= {"rows": number(1, 4), "columns": number(2, 4)}
        case "torus":
            sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=2))
            fields = {"dimensions": sizes, "bidirectional": one(True, False)}
            fields["link_bandwidth"] = [one(*BANDWIDTHS) for _ in sizes]
            fields["link_latency"] = [one(*LATENCIES) for _ in sizes]
        case "switch":
            fields |= {"npus": number(2, 8), "in_network": one(True, False)}
        case "fully-connected":
            fields |= {"npus": number(2, 7), "link_bandwidth": one(*BANDWIDTHS)}
        case "fred":
            arity = [number(2, 4), *draw(st.lists(st.integers(1, 3), max_size=2))]
            fields |= {"variant": one(*"ABCD"), "arity": arity, "on_conflict": one("block", "decompose")}
            fields["bandwidths"] = [one("1 TB/s", "3 TB/s", "8 TB/s") for _ in arity]
        case "fat-tree":
            fields |= {"npus": number(2, 12), "radix": 4}
            fields |= {"oversubscription": one(1, 2, 3), "routing": one("ecmp", "spray")}
        case "multi-dimensional":
            sizes = draw(st.lists(st.integers(2, 3), min_size=1, max_size=3))
            fields = {"dimensions": [f"{one('ring', 'line', 'fully-connected', 'switch')} {size}" for size in sizes]}
            fields["bandwidths"] = [one(*BANDWIDTHS) for _ in sizes]
            fields["latencies"] = [one(*LATENCIES) for _ in sizes]
        case "cluster":
            npus = number(1, 3)
            fields["node"] = {"name": "fully-connected", "npus": npus, "link_bandwidth": one(*BANDWIDTHS)}
            fields |= {"nodes": number(2, 5), "nics": one(1, npus, 2 * npus), "radix": 16}
            fields |= {"network": one("rail-optimised", "rail-only", "fat-tree")}
            fields |= {"oversubscription": one(1, 7), "routing": one("ecmp", "spray")}
        case "optical-ring":
            fields = {"npus": number(2, 9), "wavelengths": one(1, 4, 64), "hop_latency": one(*LATENCIES)}
            fields |= {"reconfiguration": one("0 s", "25 us"), "stripe": one(True, False)}
    return build(name, **fields)


def asked(
    fabric: Fabric, pattern: Pattern, size: float, data: st.DataObject
) -> tuple[Bench, CollectiveRequest, IntArray]:
    """Return a request that takes time, the NPUs that make it in any order, and what runs it by one algorithm."""
    npus = len(fabric.npus)
    ranks = 2 if pattern is Pattern.POINT_TO_POINT else data.draw(st.sampled_from([npus, 2, max(2, npus - 1)]))
    group = np.array(data.draw(st.permutations(range(npus))))[:ranks]
    root = data.draw(st.integers(0, ranks - 1)) if pattern.rooted else 0
    sizes = None
    if pattern is Pattern.ALL_TO_ALL and data.draw(st.booleans()):
        factors = data.draw(st.lists(st.sampled_from([0, 1, 5]), min_size=ranks**2, max_size=ranks**2))
        sizes = size * np.array(factors).reshape(ranks, ranks)
    request = CollectiveRequest(pattern, ranks, size, root, sizes)
    assume(lower_bound(fabric, request, group).seconds > 0)
    view = fabric.view(group)
    able = [cls for cls in FRAMEWORK.plugins.collectives if cls().refusal(request, view) is None]
    algorithm = data.draw(st.sampled_from(list(data.draw(st.sampled_from(able)).variants(pattern))))
    return Bench(fabric, {None: (algorithm,)}, FRAMEWORK.plugins, fastest=False), request, group


def carried(bench: Bench, request: CollectiveRequest, group: IntArray, fidelity: str) -> CollectiveResult:
    """Return what ``bench`` finds; rejects a variant that does not fit the group, or that the fabric cannot carry."""
    try:
        return bench.collective(request, group, fidelity)
    except UnsupportedError:
        reject()


ASKED = (fabrics(), st.sampled_from(list(Pattern)), st.sampled_from([1.0, 1e6, 1e9]))


@given(*ASKED, st.sampled_from(SIMULATED), st.data())
def test_no_algorithm_is_faster(
    fabric: Fabric, pattern: Pattern, size: float, fidelity: str, data: st.DataObject
) -> None:
    bench, request, group = asked(fabric, pattern, size, data)
    result = carried(bench, request, group, fidelity)
    assert result.duration >= lower_bound(fabric, request, group).seconds * (1 - 1e-9)


@given(*ASKED, st.sampled_from(["exact", RENDEZVOUS]), st.data())
def test_barriers_cost_time_where_flows_meet_nobody(
    fabric: Fabric, pattern: Pattern, size: float, fidelity: str, data: st.DataObject
) -> None:
    bench, request, group = asked(fabric, pattern, size, data)
    result = carried(bench, request, group, fidelity)
    if result.statistics["flows"] == 0:  # nothing was simulated
        assert result.duration <= bench.collective(request, group, STEPWISE).duration * (1 + 1e-9)
