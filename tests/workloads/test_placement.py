from itertools import pairwise

import numpy as np
import pytest

from fredfw.errors import InputError
from fredfw.fabric import Fabric, Level
from fredfw.workloads import DeviceMesh, LinearPlacement, MegatronPlacement, NestedPlacement, Placement, SnakePlacement


def grid(*sizes: int) -> Fabric:
    """NPUs of a grid without links, innermost level first."""
    coordinates = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes[::-1])[::-1], axis=1)
    levels = tuple(Level(size, "line", 1.0) for size in sizes)
    none = np.zeros(0, dtype=np.intp)
    return Fabric("grid", np.zeros(len(coordinates)), none, none, 1.0, 0.0, 0.0, levels, coordinates)


def test_snake_on_a_mesh() -> None:
    expected = [0, 1, 2, 3, 4, 9, 8, 7, 6, 5, 10, 11, 12, 13, 14, 19, 18, 17, 16, 15]
    assert SnakePlacement().assign(grid(5, 4), DeviceMesh({"dp": 20})).tolist() == expected


@pytest.mark.parametrize("sizes", [(5, 4), (3, 3), (2, 3, 4), (3, 2, 5), (1, 6), (2, 2, 2, 3)])
def test_snake_steps_to_a_neighbour(sizes: tuple[int, ...]) -> None:
    fabric = grid(*sizes)
    order = SnakePlacement().order(fabric, DeviceMesh({}))
    assert sorted(order.tolist()) == list(range(len(fabric.npus)))
    assert fabric.coordinates is not None
    for one, other in pairwise(order):
        assert np.abs(fabric.coordinates[one] - fabric.coordinates[other]).sum() == 1


@pytest.mark.parametrize("placement", [LinearPlacement(), MegatronPlacement(), SnakePlacement()])
def test_too_many_workers_are_refused(placement: Placement) -> None:
    with pytest.raises(InputError, match=r"MP\(3\)-PP\(2\)-DP\(3\) needs 18 NPUs, but fabric 'grid' has 4"):
        placement.assign(grid(2, 2), DeviceMesh({"mp": 3, "pp": 2, "dp": 3}))


def test_axes_may_be_nested_in_another_order() -> None:
    mesh = DeviceMesh({"tp": 2, "pp": 2, "dp": 3})
    places = NestedPlacement(axes=("dp", "tp")).assign(grid(5, 4), mesh)
    # The NPU of rank tp + 2 (pp + 2 dp) is dp + 3 (tp + 2 pp).
    assert places.tolist() == [dp + 3 * (tp + 2 * pp) for dp in range(3) for pp in range(2) for tp in range(2)]
    assert np.array_equal(
        NestedPlacement(axes=("tp", "dp")).order(grid(1), mesh), MegatronPlacement().order(grid(1), mesh)
    )


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (("ep",), r"axes\[0\]: the workload has no axis 'ep'.*tp, dp"),
        ((), "axes: names no axis"),
        (("dp", "dp"), r"axes\[1\]: 'dp' is named twice"),
    ],
)
def test_axes_that_cannot_be_nested_are_refused(axes: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        NestedPlacement(axes=axes).assign(grid(2, 2), DeviceMesh({"tp": 2, "dp": 2}))
