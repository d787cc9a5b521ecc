from typing import Any

import numpy as np
import pytest
from fabrics import everybody

import fredfw_topology_twisted_torus
from fredfw import Dimension, Fabric, Level, MultipathRouter, product_fabric
from fredfw.errors import InputError
from fredfw.testing import TopologyTests
from fredfw_topology_twisted_torus import TwistedTorus


def loads(fabric: Fabric) -> Any:
    """Flows per link when every NPU sends to every other, over all shortest paths equally."""
    routes = MultipathRouter().route(fabric, *everybody(fabric))
    return np.bincount(routes.links, routes.coefficients, len(fabric.sources))


@pytest.mark.parametrize(
    ("sizes", "plain", "least", "ratio"),
    [((4, 4, 8), 128, 73.3333, 1.745), pytest.param((4, 8, 8), 256, 184, 1.391, marks=pytest.mark.slow)],
)
def test_all_to_all_gains_what_is_published(sizes: tuple[int, ...], plain: float, least: float, ratio: float) -> None:
    # In a ring of k of n NPUs a link carries n k / 8. Twisted, all links carry the sum of distances per link.
    loaded = loads(TwistedTorus(dimensions=sizes).build())
    before = loads(product_fabric([Dimension.of_links("ring", size, 1.0) for size in sizes])).max()
    assert (before, loaded.max()) == (pytest.approx(plain), pytest.approx(least, abs=1e-3))
    assert before / loaded.max() == pytest.approx(ratio, abs=1e-3)
    assert loaded.min() == pytest.approx(loaded.max())


@pytest.mark.parametrize(
    ("sizes", "at", "dimension", "expected"),
    [
        ((4, 4, 8), (3, 1, 2), 0, (0, 1, 6)),
        ((4, 4, 8), (1, 3, 6), 1, (1, 0, 2)),
        ((4, 4, 8), (1, 2, 7), 2, (1, 2, 0)),
        ((4, 8, 8), (3, 1, 7), 0, (0, 5, 3)),
        ((4, 8, 8), (2, 7, 7), 1, (2, 0, 7)),
        ((6, 3), (5, 2), 1, (2, 0)),
    ],
)
def test_where_dimensions_close(
    sizes: tuple[int, ...], at: tuple[int, ...], dimension: int, expected: tuple[int, ...]
) -> None:
    fabric = TwistedTorus(dimensions=sizes).build()
    one, other = (int(np.ravel_multi_index(place, sizes, order="F")) for place in (at, expected))
    npus = len(fabric.npus)
    up = 2 * npus * dimension + one
    assert (fabric.sources[up], fabric.destinations[up]) == (one, other)
    assert (fabric.sources[up + npus], fabric.destinations[up + npus]) == (other, one)


def test_the_default() -> None:
    fabric = TwistedTorus().build()
    assert (fabric.name, len(fabric.npus), len(fabric.sources)) == ("4x4x8 twisted torus", 128, 768)
    line = Level(4, "line", 750e9, 20e-9)
    assert fabric.levels == (line, line, Level(8, "ring", 750e9, 20e-9))
    assert fabric.defaults.router == MultipathRouter()


@pytest.mark.parametrize("sizes", [(4, 4), (8, 8, 8), (4, 8, 16), (1, 2), (4, 6), (8,), (4, 8.0)])
def test_bad_input_names_key_value_and_what_is_accepted(sizes: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match=r"^dimensions\b.* \(accepted: "):
        TwistedTorus(dimensions=sizes)


class TestTwistedTorus(TopologyTests):
    plugin = fredfw_topology_twisted_torus
    topologies = (
        TwistedTorus(),
        TwistedTorus(dimensions=(4, 2)),
        TwistedTorus(dimensions=(3, 6), link_bandwidth=1e9, link_latency=1e-6),
    )
