"""Collectives on tori, meshes and switches against the bounds that the links set; sizes in bytes, latencies left out.

S is the per-rank buffer, B the bandwidth of a link, n the NPUs, k those along a dimension, d the dimensions.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from fredfw import Fabric, Framework

FRAMEWORK = Framework()
S = 1e9
B = 750e9


def build(name: str, **fields: Any) -> Fabric:
    return FRAMEWORK.topology(name, link_bandwidth=B, link_latency=0.0, **fields).build()


def torus(*dimensions: int, **fields: Any) -> Fabric:
    return build("torus", dimensions=list(dimensions), **fields)


def duration(fabric: Fabric, pattern: str, algorithm: str, **options: Any) -> float:
    return FRAMEWORK.simulate_collective(fabric, pattern, size=S, algorithm=algorithm, **options).duration


def injection_bound(n: int, links: float) -> float:
    """Seconds of an all-reduce: every NPU sends 2 (n - 1) / n x S over its ``links`` (Patarasuk and Yuan, 2009)."""
    return 2 * (n - 1) / n * S / (links * B)


def bisection_bound(dimensions: tuple[int, ...]) -> float:
    """Seconds of an all-to-all on a torus: what crosses a dimension's cut into two arcs, over its links.

    With n / k rings and arcs of h = floor(k / 2) and k - h positions, each of h n / k NPUs sends S / n to each of
    (k - h) n / k others over 2 n / k links, or n / k where k is 2 (Dally and Towles, 2004, section 3.3.1).
    """
    return max((k // 2) * (k - k // 2) / k * S / (2 if k > 2 else 1) / B for k in dimensions)


def hop_bound(dimensions: tuple[int, ...]) -> float:
    """Seconds of an all-to-all on one-way rings: all hops of all flows of S / n, over the n links of a dimension.

    Each of n NPUs makes 1 + 2 + ... + (k - 1) hops for each of the n / k positions in the other dimensions.
    """
    return max((k - 1) / 2 for k in dimensions) * S / B


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
    bound = injection_bound(math.prod(dimensions), links)
    assert duration(torus(*dimensions, **fields), "all-reduce", "torus-ring") == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize(
    ("dimensions", "links"), [pytest.param((8, 4), 4, marks=pytest.mark.slow), ((4, 4, 2), 5), ((3, 3, 4), 6)]
)
def test_pipelines_bring_unequal_dimensions_to_the_bound(dimensions: tuple[int, ...], links: int) -> None:
    fabric = torus(*dimensions)
    bound = injection_bound(math.prod(dimensions), links)
    alone, piped = (duration(fabric, "all-reduce", "torus-ring", chunks=chunks, fidelity="exact") for chunks in (1, 8))
    assert bound * (1 - 1e-9) <= piped <= 1.01 * bound
    assert alone > 1.2 * bound


def test_latency_is_paid_at_every_step() -> None:
    # 2 x (7 + 7) steps, all parts side by side.
    fabric = FRAMEWORK.topology("torus", dimensions=[8, 8], link_bandwidth=B, link_latency=1e-3).build()
    expected = injection_bound(64, 4) + 28e-3
    assert duration(fabric, "all-reduce", "torus-ring") == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("dimensions", [(8, 8), (4, 4, 4), (5, 5), (8,), (7, 3), (8, 4), (2, 2), (6, 6), (6,), (10, 2)])
def test_all_to_all_on_a_torus_takes_the_bisection_bound(dimensions: tuple[int, ...]) -> None:
    bound, k = bisection_bound(dimensions), dimensions[0]
    if k % 4 == 2 and k > 2:
        # Of ties half-way round the busiest links carry n k / 8 + n / (2 k) pairs instead of n k / 8: 1 + 4 / k^2.
        bound *= 1 + 4 / k**2
    assert duration(torus(*dimensions), "all-to-all", "direct") == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("dimensions", [(5,), (4, 4), (2, 6)])
def test_all_to_all_on_one_way_rings(dimensions: tuple[int, ...]) -> None:
    bound = hop_bound(dimensions)
    assert duration(torus(*dimensions, bidirectional=False), "all-to-all", "direct") == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (4, 8), (5, 4)])
def test_all_to_all_on_a_mesh_takes_the_bisection_bound(rows: int, columns: int) -> None:
    # Cut across its longer side k into h and k - h: h (k - h) / k x S over one link per line.
    k = max(rows, columns)
    bound = (k // 2) * (k - k // 2) / k * S / B
    fabric = build("mesh2d", rows=rows, columns=columns, io_controllers=False)
    assert duration(fabric, "all-to-all", "direct") == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("n", [2, 5, 64])
def test_full_connection_does_everything_directly(n: int) -> None:
    fabric = build("fully-connected", npus=n)
    assert duration(fabric, "all-to-all", "direct") == pytest.approx(S / n / B, rel=1e-9)
    assert duration(fabric, "all-reduce", "direct") == pytest.approx(injection_bound(n, n - 1), rel=1e-9)
