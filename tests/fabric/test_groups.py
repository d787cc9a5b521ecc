from __future__ import annotations

import numpy as np
import pytest

from fredfw import Dimension, Fabric, Level, NodeKind, product_fabric, with_servers
from fredfw.errors import InputError


def clusters(spines: int = 1) -> Fabric:
    """Return three servers of two NPUs: 10 B/s to the switch of the server, 4 B/s to a leaf of their own rail.

    The two leaves have ``spines`` spines with links of 1 B/s.
    """
    npus, servers, leaves = range(6), range(6, 9), range(9, 11)
    cables = [(npu, servers[npu // 2], 10.0) for npu in npus] + [(npu, leaves[npu % 2], 4.0) for npu in npus]
    cables += [(leaf, 11 + spine, 1.0) for leaf in leaves for spine in range(spines)]
    near, far, rates = zip(*cables, strict=True)
    kinds = [NodeKind.NPU] * 6 + [NodeKind.SWITCH] * (5 + spines)
    return Fabric("cluster", kinds, (*near, *far), (*far, *near), (*rates, *rates), 1.0, 0.0)


def test_servers_and_what_is_between_them_are_levels() -> None:
    fabric = with_servers(clusters(), 2, ("node", "rail"))
    assert fabric.levels == (Level(2, "switch", 10.0, 2.0, name="node"), Level(3, "switch", 4.0, 2.0, name="rail"))
    np.testing.assert_array_equal(fabric.coordinates, [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]])


def test_a_level_is_as_fast_as_its_slowest_shift() -> None:
    # A ring of four switches with an NPU each: two steps on, each link carries two messages.
    dimension = Dimension.of_links("ring", 8, 6.0, 1.0)
    fabric = product_fabric([dimension])
    plain = Fabric("ring", fabric.kinds, fabric.sources, fabric.destinations, 6.0, 1.0, 0.0)
    # Half way round, four hops: eight messages of four links each on eight links one way round.
    assert with_servers(plain, 1).levels == (Level(8, "switch", 6.0 / 4, 4.0, name="network"),)


def test_levels_of_one_position_are_left_out() -> None:
    assert [level.name for level in with_servers(clusters(), 6).levels] == ["server"]
    assert [level.name for level in with_servers(clusters(), 1).levels] == ["network"]
    alone = Fabric("one", [NodeKind.NPU], [], [], [], [], [])
    assert with_servers(alone, 1).levels == ()


@pytest.mark.parametrize("npus", [0, 4, 12])
def test_servers_of_other_sizes_are_refused(npus: int) -> None:
    with pytest.raises(InputError, match=f"{npus} does not divide the 6 NPUs of 'cluster'"):
        with_servers(clusters(), npus)
