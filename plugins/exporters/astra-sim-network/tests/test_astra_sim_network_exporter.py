from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fredfw_exporter_astra_sim_network
from fredfw import Dimension, Fabric, Framework, product_fabric
from fredfw.errors import UnsupportedError
from fredfw.fabric import ValiantRouter
from fredfw.testing import ExporterTests
from fredfw_exporter_astra_sim_network import AstraSimNetworkExporter


def exported(fabric: Fabric) -> str:
    return AstraSimNetworkExporter().export(SimpleNamespace(fabric=fabric))


def built(name: str, **fields: Any) -> Fabric:
    return Framework().topology(name, **fields).build()


def test_the_units_are_those_of_astra_sim() -> None:
    dimensions = [Dimension.of_links("ring", 4, 50 * 2**30, 500e-9), Dimension.of_links("switch", 2, 2**30, 2e-6)]
    dimensions.insert(1, Dimension.of_links("fully-connected", 3, 25e9, 1e-6))
    text = exported(product_fabric(dimensions, "my\nmachine"))
    assert text.splitlines() == [
        "# my\\nmachine, written by fredfw",
        "topology: [ Ring, FullyConnected, Switch ]",
        "npus_count: [ 4, 3, 2 ]",
        "bandwidth: [ 50.0, 23.283064365386963, 1.0 ]  # GB/s of 2^30 B/s, each link and direction",
        # Two links through a switch.
        "latency: [ 500, 1000, 1000 ]  # ns, each link",
    ]


@pytest.mark.parametrize("name", ["torus", "switch"])
def test_what_is_not_in_the_file_is_noted(name: str) -> None:
    text = exported(built(name).with_defaults(router=ValiantRouter()))
    assert text.splitlines()[1] == "# exported without its router valiant"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("torus", {"dimensions": [4, 2, 3]}),
        ("switch", {}),
        ("fully-connected", {}),
        ("hyperx", {}),
        ("multi-dimensional", {"dimensions": ["FC 3", "ring 4", "switch 2"], "bandwidths": 7e9, "latencies": 3e-7}),
    ],
)
def test_what_is_read_again_is_the_same_network(name: str, fields: dict[str, Any], tmp_path: Path) -> None:
    fabric = built(name, **fields)
    text = exported(fabric)
    assert "without" not in text
    file = tmp_path / "network.yml"
    file.write_text(text)
    again = built("astra-sim-network", file=str(file))
    for array in ("kinds", "sources", "destinations"):
        np.testing.assert_array_equal(getattr(again, array), getattr(fabric, array))
    for array in ("bandwidths", "latencies"):
        np.testing.assert_allclose(getattr(again, array), getattr(fabric, array), rtol=1e-14)
    for algorithm in ("ring", "direct", "hierarchical"):
        call: dict[str, Any] = {"size": "8 MiB", "algorithm": algorithm}
        one, other = (Framework().simulate_collective(each, "all-reduce", **call) for each in (fabric, again))
        assert other.duration == pytest.approx(one.duration, rel=1e-12)


@pytest.mark.parametrize(
    ("fabric", "reason"),
    [
        (built("mesh2d"), "has a line of 4"),
        (built("fred"), "are not those of its levels"),
        (built("cluster"), "are not those of its levels"),
        (built("optical-ring"), "has a ring of 64 with 64 lanes"),
        (product_fabric([Dimension.of_links("ring", 4, 1e9, two_way=False)]), "one-way ring of 4"),
        (product_fabric([Dimension("ring", 1, 1e9)]), "has no dimensions"),
    ],
)
def test_other_networks_are_refused(fabric: Fabric, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        exported(fabric)


class TestAstraSimNetworkExporter(ExporterTests):
    plugin = fredfw_exporter_astra_sim_network
    exporters = (AstraSimNetworkExporter(),)
