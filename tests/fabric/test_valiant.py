from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from fredfw import Dimension, DimensionOrderRouter, Fabric, Operation, ShortestPathRouter, product_fabric
from fredfw.errors import InputError
from fredfw.fabric import ValiantRouter
from fredfw.fabric.valiant import _without_circles
from fredfw.testing import check_router
from fredfw.testing.fabrics import grid, star

RING = product_fabric([Dimension("ring", 64, 1.0, 1.0)])


@pytest.mark.sampled
@pytest.mark.parametrize(
    "fabric",
    [
        star(5, controllers=2),
        grid(4, 3),
        grid(5, closed=True),
        product_fabric([Dimension("ring", 6, 1.0, 1.0), Dimension("switch", 3, 1.0, 2.0)]),
        product_fabric([Dimension("fully-connected", 9, 1.0, 1.0), Dimension("fully-connected", 9, 1.0, 1.0)]),
    ],
    ids=lambda fabric: fabric.name,
)
@pytest.mark.parametrize("seed", [0, 7])
def test_it_keeps_the_contract(fabric: Fabric, seed: int) -> None:
    check_router(ValiantRouter(seed=seed), fabric)


def test_a_bad_pattern_is_spread() -> None:
    # Tornado on a ring of 64: all go 31 on, so that a shortest path loads the links upwards with 31 flows, and the
    # others with none. By way of a random NPU the mean path has 2 x 16 hops, half of them each way.
    npus = RING.npus
    ends = npus, (npus + 31) % 64
    minimal = np.bincount(DimensionOrderRouter().route(RING, *ends).links, minlength=128)
    assert sorted(set(minimal.tolist())) == [0, 31]
    loads = [np.bincount(ValiantRouter(seed=one).route(RING, *ends).links, minlength=128) for one in range(40)]
    spread = np.mean(loads, axis=0)
    assert spread.max() < 20
    assert spread.min() > 5


def test_seeds_choose_other_paths() -> None:
    ends = RING.npus, np.roll(RING.npus, 5)
    one, same, other = (ValiantRouter(seed=seed).route(RING, *ends).links.tolist() for seed in (1, 1, 2**70))
    assert one == same != other


def test_circles_are_left_out() -> None:
    line = grid(6)

    def way(*nodes: int) -> list[int]:
        return [int(one) for one in line.links_between(np.array(nodes[:-1]), np.array(nodes[1:]))]

    paths = [way(0, 1, 2, 3, 2, 1), way(2, 3, 4, 3, 2, 1, 0, 1), [], way(1, 2, 3), way(0, 1, 0, 1, 2, 1, 2)]
    expected = [way(0, 1), way(2, 1), [], way(1, 2, 3), way(0, 1, 2)]
    offsets = np.cumsum([0, *map(len, paths)])
    found = _without_circles(line, offsets, np.array([*chain(*paths)]), np.array([0, 2, 4, 1, 0]))
    assert found[0].tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    assert found[1].tolist() == [*chain(*expected)]


def test_trees_make_no_detour() -> None:
    ends = np.array([0]), np.array([3, 9])
    tree = ValiantRouter().tree(RING, *ends, Operation.MULTICAST)
    assert tree.links.tolist() == ShortestPathRouter().tree(RING, *ends, Operation.MULTICAST).links.tolist()


def test_what_the_network_combines_and_copies_goes_over_one_node() -> None:
    fabric = star(4)
    ends = fabric.npus, fabric.npus
    tree = ValiantRouter().tree(fabric, *ends, Operation.ALL_REDUCE)
    assert tree.links.tolist() == ShortestPathRouter().tree(fabric, *ends, Operation.ALL_REDUCE).links.tolist()


def test_seeds_are_whole_numbers() -> None:
    with pytest.raises(InputError, match="seed"):
        ValiantRouter(seed=-1)
