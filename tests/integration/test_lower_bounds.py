"""Every first-party algorithm against the lower bounds of every first-party topology; latencies left out unless named.

S is the per-rank buffer, B the bandwidth of a link, n the NPUs, k those along a dimension.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, reject, strategies as st
from programs import links, program

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


FABRICS = st.integers(0, 10_000).map(lambda seed: links(program(seed).topology))
"""Those of random programs."""


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


ASKED = (FABRICS, st.sampled_from(list(Pattern)), st.sampled_from([1.0, 1e6, 1e9]))


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
