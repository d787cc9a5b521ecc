import numpy as np
import pytest

from fredfw.fabric import Fabric, Operation
from fredfw.testing.fabrics import LATENCY, grid, star, views
from fredfw.testing.routes import examine

# Links of the star of 4, up from each NPU and down to it.
ALL_UP, ALL_DOWN = (0, 2, 4, 6), (1, 3, 5, 7)


@pytest.mark.parametrize(
    ("operation", "sources", "destinations", "links", "fault"),
    [
        (Operation.MULTICAST, [0], [1, 2, 3], (ALL_UP[0], *ALL_DOWN[1:]), None),
        (Operation.MULTICAST, [0], [0, 1], (ALL_UP[0], ALL_DOWN[1]), None),  # the source has it
        (Operation.MULTICAST, [0], [1, 2, 3], (ALL_UP[0], *ALL_DOWN[1:3]), "nothing gets from npu0 to npu3"),
        (Operation.MULTICAST, [0], [1, 2], (ALL_UP[0], *ALL_DOWN[1:]), "data enters npu3, but is not needed there"),
        (Operation.REDUCE, [1, 2, 3], [0], (*ALL_UP[1:], ALL_DOWN[0]), None),
        (Operation.REDUCE, [0, 1, 2, 3], [0], (*ALL_UP, ALL_DOWN[0]), None),  # its own part turns at the switch
        (Operation.REDUCE, [1, 2], [0], (*ALL_UP[1:], ALL_DOWN[0]), "data leaves npu3, but none arrives there"),
        (Operation.ALL_REDUCE, [0, 1, 2, 3], [0, 1, 2, 3], (*ALL_UP, *ALL_DOWN), None),
        (Operation.ALL_REDUCE, [0, 1], [0, 1], (*ALL_UP[:2], ALL_DOWN[0], ALL_DOWN[0]), "nothing gets from"),
    ],
)
def test_trees_on_a_star(
    operation: Operation, sources: list[int], destinations: list[int], links: tuple[int, ...], fault: str | None
) -> None:
    ends = np.array(sources), np.array(destinations)
    faults, stuck, latency = examine(star(4), operation, *ends, np.array(links))
    if fault is None:
        assert (faults, stuck) == ([], [])
        assert latency == pytest.approx(2 * LATENCY)
    else:
        assert any(one.startswith(fault) for one in faults)


def test_a_chain_combines_on_its_way() -> None:
    # On a line of 3, NPU 1 adds its part to what passes.
    fabric = grid(3)
    back = fabric.links_between(np.array([2, 1]), np.array([1, 0]))
    unable = Fabric("line", fabric.kinds, fabric.sources, fabric.destinations, 1.0, 0.0, 0.0)
    stuck = ["npu1 cannot combine streams"]
    # Without a part of its own it only passes on.
    for on, sources, expected in ((fabric, [1, 2], []), (unable, [1, 2], stuck), (unable, [2], [])):
        assert examine(on, Operation.REDUCE, np.array(sources), np.array([0]), back)[1] == expected


@pytest.mark.parametrize("ranks", [1, 2, 6, 7, 12])
def test_views_are_full_products_of_the_ranks(ranks: int) -> None:
    found = dict(views(ranks))
    assert all(view.size == ranks for view in found.values())
    for view in found.values():
        if view.coordinates is not None:
            sizes = tuple(level.size for level in view.levels)
            assert np.prod(sizes) == ranks
            assert len(np.unique(np.ravel_multi_index(tuple(view.coordinates.T), sizes))) == ranks
    factors = {tuple(level.size for level in view.levels) for view in found.values()}
    expected = {
        1: {()},
        2: {(), (2,)},
        6: {(), (6,), (2, 3), (3, 2)},
        7: {(), (7,)},
        12: {(), (12,), (2, 6), (6, 2), (3, 4), (4, 3), (2, 2, 3), (2, 3, 2), (3, 2, 2)},
    }
    assert factors == expected[ranks]
