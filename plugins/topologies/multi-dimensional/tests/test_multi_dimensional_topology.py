import re
from typing import Any

import numpy as np
import pytest

import fredfw_topology_multi_dimensional
from fredfw import DimensionOrderRouter, Level
from fredfw.errors import InputError
from fredfw.testing import TopologyTests
from fredfw_topology_multi_dimensional import MultiDimensional

STACK = ("ring 4", "fully-connected 8", "switch 8")


def stack(**fields: Any) -> MultiDimensional:
    return MultiDimensional(**{"dimensions": STACK, "link_bandwidths": "100 GB/s", "latencies": 0, **fields})


def test_the_default_is_that_of_themis() -> None:
    # Themis (ISCA 2022), table 2: 3D-FC_Ring_SW, 8 x 16 x 8, 1400, 800, 400 Gb/s, 700, 700, 1700 ns.
    fabric = MultiDimensional().build()
    assert fabric.name == "fully-connected 8 x ring 16 x switch 8"
    assert fabric.levels == (
        Level(8, "fully-connected", 25e9, 700e-9),
        Level(16, "ring", 50e9, 700e-9),
        Level(8, "switch", 50e9, 1700e-9),
    )
    assert [level.total_bandwidth * 8 / 1e9 for level in fabric.levels] == pytest.approx([1400, 800, 400])
    assert fabric.defaults.router == DimensionOrderRouter()


def test_bandwidths_are_of_npus_or_of_links_and_values_per_dimension() -> None:
    by_npu = stack(link_bandwidths=None, bandwidths=["200 GB/s", "700 GB/s", "100 GB/s"]).build()
    by_link = stack().build()
    assert set(by_link.bandwidths.tolist()) == {100e9}
    np.testing.assert_array_equal(by_npu.bandwidths, by_link.bandwidths)
    assert by_npu.levels == by_link.levels
    names = ["chiplet", "package", "pod"]
    fabric = stack(latencies=["1 ns", "2 ns", "4 ns"], names=names, link_energy=["1 pJ/B", "2 pJ/B", 0]).build()
    assert [level.name for level in fabric.levels] == names
    assert [level.latency for level in fabric.levels] == [1e-9, 2e-9, 4e-9]
    assert sorted(set(fabric.latencies.tolist())) == [1e-9, 2e-9]
    assert sorted(set(fabric.energies.tolist())) == [0, 1e-12, 2e-12]


@pytest.mark.parametrize(
    "written",
    [
        list(STACK),
        "Ring(4)_FullyConnected(8)_Switch(8)",
        "ring 4, FC 8, switch 8",
        ["Ring(4)", "FC 8", "SW(8)"],
        ["RING 4", "fully connected ( 8 )", "Switch  08"],
        [" ring(4) ", "Fully-Connected(8)", "sw 8"],
    ],
)
def test_notations(written: Any) -> None:
    assert stack(dimensions=written) == stack()


@pytest.mark.parametrize(
    ("fields", "key", "message"),
    [
        ({"dimensions": ["rong 4"]}, "dimensions[0]", "'rong' is not a kind of dimension; did you mean 'ring'?"),
        ({"dimensions": ["ring 1", "switch 4"]}, "dimensions[0]", "'ring 1' has no neighbours"),
        ({"dimensions": ["ring"]}, "dimensions[0]", "'ring' is not a dimension"),
        ({"dimensions": [4]}, "dimensions[0]", "4 is not a dimension"),
        ({"dimensions": []}, "dimensions", "[] are not dimensions"),
        ({"bandwidths": "1 GB/s"}, "link_bandwidths", "is given beside bandwidths"),
        ({"link_bandwidths": None}, "bandwidths", "is missing for ['ring 4', 'fully-connected 8', 'switch 8']"),
        ({"latencies": None}, "latencies", "is missing for"),
        ({"link_bandwidths": ["1 GB/s", "1 GB/s"]}, "link_bandwidths", "2 values for the 3 dimensions"),
        ({"link_energy": [0, 0]}, "link_energy", "2 values for the 3 dimensions"),
        ({"names": ("a", "b")}, "names", "2 names for the 3 dimensions"),
    ],
)
def test_bad_input(fields: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"^{re.escape(key)}: .*{re.escape(message)}.* \(accepted: "):
        stack(**fields)


class TestMultiDimensional(TopologyTests):
    plugin = fredfw_topology_multi_dimensional
    topologies = (
        MultiDimensional(),
        MultiDimensional(
            dimensions=("ring 4", "fully-connected 3", "switch 4"),
            bandwidths=(2e9, 4e9, 3e9),
            latencies=(1e-6, 2e-6, 4e-6),
            names=("chiplet", "package", "pod"),
        ),
        MultiDimensional(dimensions=("switch 3", "line 4", "switch 2"), link_bandwidths=(1e9,), latencies=(1e-6,)),
        MultiDimensional(dimensions=("fully-connected 2", "ring 2"), bandwidths=(1e9,), latencies=(0.0,)),
    )
