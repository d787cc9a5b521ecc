"""Algorithms take their alpha-beta time, latency included, where nothing else is in the way, or what the links allow.

alpha is the latency of a step, beta the bandwidth of a link, S the per-rank buffer, n the group, k the NPUs along a
dimension (Thakur, Rabenseifner and Gropp, IJHPCA 2005, for the rings; the others by counting steps).
"""

import math
from typing import Any

import pytest

from fredfw import Fabric, Framework

FRAMEWORK = Framework()
S = 1e9
LATENCY = 3e-6
BETA = 3e12
FIDELITIES = ["compressed", "exact"]


def build(name: str, latency: float = 0.0, **fields: Any) -> Fabric:
    return FRAMEWORK.topology(name, link_bandwidth=BETA, link_latency=latency, **fields).build()


def torus(*dimensions: int, latency: float = 0.0, **fields: Any) -> Fabric:
    return build("torus", latency, dimensions=list(dimensions), **fields)


def fred(variant: str) -> Fabric:
    """4 NPUs under each of 5 switches: two links between NPUs of a group, four between groups."""
    return FRAMEWORK.topology("fred", variant=variant, link_latency=LATENCY).build()


def duration(fabric: Fabric, pattern: str, algorithm: str, fidelity: str | None = None, **options: Any) -> float:
    result = FRAMEWORK.simulate_collective(fabric, pattern, size=S, algorithm=algorithm, fidelity=fidelity, **options)
    return result.duration


def check(fabric: Fabric, algorithm: str, fidelity: str, seconds: dict[str, float], **options: Any) -> None:
    """Make sure that an algorithm takes so many seconds, for each pattern, or for more that are named together."""
    for patterns, expected in seconds.items():
        for pattern in patterns.split():
            assert duration(fabric, pattern, algorithm, fidelity, **options) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("n", [3, 4, 7, 16, 33])
def test_ring(n: int, fidelity: str) -> None:
    fabric = torus(n, latency=LATENCY)
    half = (n - 1) * (LATENCY + S / n / BETA)
    # Step t of an all-to-all hands on n - 1 - t blocks.
    blocks = n * (n - 1) / 2
    all_to_all = (n - 1) * LATENCY + blocks * S / n / BETA
    seconds = {"all-reduce": 2 * half, "reduce-scatter all-gather": half, "all-to-all": all_to_all}
    check(fabric, "ring", fidelity, seconds)
    # A rank sends its next piece when the one before has left; a phase of a group waits until it has arrived.
    hops = n - 1 if fidelity == "exact" else 8 + n - 2
    pieces = {"broadcast reduce": hops * LATENCY + (8 + n - 2) * S / 8 / BETA}
    check(fabric, "ring", fidelity, pieces, chunks=8)


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_hierarchical(fidelity: str) -> None:
    half = 3 * (2 * LATENCY + S / 4 / BETA) + 4 * (4 * LATENCY + S / 20 / BETA)
    fabric = fred("C")
    check(fabric, "hierarchical", fidelity, {"all-reduce": 2 * half, "reduce-scatter all-gather": half})
    # Outermost level first: the outer rings carry the larger blocks.
    half = 4 * (4 * LATENCY + S / 5 / BETA) + 3 * (2 * LATENCY + S / 20 / BETA)
    check(fabric, "hierarchical", fidelity, {"all-reduce": 2 * half}, orders="reverse")


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_in_network(fidelity: str) -> None:
    n, alpha, exact = 20, 4 * LATENCY, fidelity == "exact"
    others = (n - 1) * S / n / BETA
    # Three members of a rank's own group are two links away, the other 16 four. A phase of all waits for the farthest.
    all_paths = 3 * 2 * LATENCY + 16 * alpha
    seconds = {
        "all-reduce reduce broadcast": alpha + S / BETA,
        "reduce-scatter all-gather": n * (alpha + S / n / BETA),
        "all-to-all": (all_paths if exact else (n - 1) * alpha) + others,
        # One at a time; exactly, the next is on its way while the one before arrives.
        "gather scatter": (alpha if exact else all_paths) + others,
    }
    check(fred("D"), "in-network", fidelity, seconds)


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_direct(fidelity: str) -> None:
    n, alpha = 20, 4 * LATENCY
    half = alpha + (n - 1) / n * S / BETA
    seconds = {"all-to-all all-gather reduce-scatter gather scatter": half, "all-reduce": 2 * half}
    check(fred("D"), "direct", fidelity, {**seconds, "broadcast reduce": alpha + (n - 1) * S / BETA})


@pytest.mark.parametrize("algorithm", ["direct", "in-network"])
def test_point_to_point(algorithm: str) -> None:
    for group, hops in ([0, 1], 2), ([0, 19], 4):
        check(fred("D"), algorithm, "exact", {"point-to-point": hops * LATENCY + S / BETA}, group=group)


def test_auto_tries_the_variants_that_do_a_mesh_justice_and_the_trees_that_use_all_of_its_links() -> None:
    # The balanced shares reach 1500 GB/s, FRED's value for its baseline.
    fabric = FRAMEWORK.topology("mesh2d", link_latency=0.0).build()
    result = FRAMEWORK.simulate_collective(fabric, "all-gather", size=S)
    assert result.algorithm.startswith("hierarchical(")
    assert "orders=opposite" in result.algorithm
    assert result.busbw == pytest.approx(1500e9, rel=1e-9)
    # An all-reduce takes S (n - 1) / (E B), which is 2 E B / n of bus bandwidth: 20 NPUs, 31 links.
    result = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=S)
    assert result.algorithm == "forest"
    assert result.duration == min(result.candidates.values())
    assert result.busbw == pytest.approx(2 * 31 * 750e9 / 20, rel=0.01)


# --- tori, meshes and full connections without latency


def injection_bound(n: int, links: float) -> float:
    """Seconds of an all-reduce: every NPU sends 2 (n - 1) / n x S over its ``links`` (Patarasuk and Yuan, 2009)."""
    return 2 * (n - 1) / n * S / (links * BETA)


def bisection_bound(dimensions: tuple[int, ...]) -> float:
    """Seconds of an all-to-all on a torus: what crosses a dimension's cut into two arcs, over its links.

    With n / k rings and arcs of h = floor(k / 2) and k - h positions, each of h n / k NPUs sends S / n to each of
    (k - h) n / k others over 2 n / k links, or n / k where k is 2 (Dally and Towles, 2004, section 3.3.1).
    """
    return max((k // 2) * (k - k // 2) / k * S / (2 if k > 2 else 1) / BETA for k in dimensions)


@pytest.mark.parametrize(
    ("dimensions", "links", "fields"),
    [
        *(((8,), 2, {}), ((8, 8), 4, {}), ((32, 32), 4, {}), ((8, 8, 8), 6, {}), ((2, 2, 2), 3, {})),
        ((4, 4), 2, {"bidirectional": False}),
    ],
)
def test_all_reduce_on_a_torus_takes_the_bandwidth_bound(
    dimensions: tuple[int, ...], links: int, fields: dict[str, Any]
) -> None:
    # Each ring has two halves of k - 1 steps, which pay their latencies; all parts are side by side.
    bound = injection_bound(math.prod(dimensions), links)
    for latency in (0.0, 1e-3):
        expected = bound + 2 * sum(k - 1 for k in dimensions) * latency
        found = duration(torus(*dimensions, latency=latency, **fields), "all-reduce", "torus-ring")
        assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("dimensions", "links"), [pytest.param((8, 4), 4, marks=pytest.mark.slow), ((4, 4, 2), 5), ((3, 3, 4), 6)]
)
def test_pipelines_bring_unequal_dimensions_to_the_bound(dimensions: tuple[int, ...], links: int) -> None:
    fabric = torus(*dimensions)
    bound = injection_bound(math.prod(dimensions), links)
    alone, piped = (duration(fabric, "all-reduce", "torus-ring", chunks=chunks, fidelity="exact") for chunks in (1, 8))
    assert bound * (1 - 1e-9) <= piped <= 1.01 * bound
    assert alone > 1.2 * bound


def mesh(rows: int, columns: int) -> Fabric:
    return build("mesh2d", rows=rows, columns=columns, io_controllers=False)


@pytest.mark.parametrize(
    ("fabric", "bound"),
    [
        *((torus(*k), bisection_bound(k)) for k in ((8, 8), (4, 4, 4), (5, 5), (8,), (7, 3), (8, 4), (2, 2))),
        # Of ties half-way round the busiest links carry n k / 8 + n / (2 k) pairs instead of n k / 8: 1 + 4 / k^2.
        *((torus(*k), bisection_bound(k) * (1 + 4 / k[0] ** 2)) for k in ((6, 6), (6,), (10, 2))),
        # One way, each of n NPUs makes 1 + 2 + ... + (k - 1) hops, of S / n, for each of the n / k other positions.
        *((torus(*k, bidirectional=False), (k[-1] - 1) / 2 * S / BETA) for k in ((5,), (4, 4), (2, 6))),
        # Cut across its longer side k into h and k - h: h (k - h) / k x S over one link per line.
        *((mesh(rows, k), (k // 2) * (k - k // 2) / k * S / BETA) for rows, k in ((8, 8), (4, 8), (4, 5))),
    ],
    ids=lambda value: value.name if isinstance(value, Fabric) else "",
)
def test_an_all_to_all_takes_the_bound_of_its_thinnest_cut(fabric: Fabric, bound: float) -> None:
    assert duration(fabric, "all-to-all", "direct") == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("n", [2, 5, 64])
def test_full_connection_does_everything_directly(n: int) -> None:
    fabric = build("fully-connected", npus=n)
    assert duration(fabric, "all-to-all", "direct") == pytest.approx(S / n / BETA, rel=1e-9)
    assert duration(fabric, "all-reduce", "direct") == pytest.approx(injection_bound(n, n - 1), rel=1e-9)
