import re
from pathlib import Path

import numpy as np
import pytest

import fredfw_topology_simai
from fredfw import Fabric, File, Framework, Level
from fredfw.errors import InputError
from fredfw.testing import TopologyTests
from fredfw_topology_simai import Simai

SERVERS = (Path(__file__).parent / "topology.txt").read_text()
# ASTRA-sim's ns-3 backend: a ring of four without switches, so the second line is empty.
RING = "4 0 4\n\n" + "".join(f"{one} {(one + 1) % 4} 400Gbps 0.001ms 0\n" for one in range(4))
# Two leaves with two spines: 4 hosts, links of 100 Gb/s upwards.
LEAVES = "8 4 8\n4 5 6 7\n" + "".join(
    [f"{host} {4 + host // 2} 200Gbps 0.0005ms 0\n" for host in range(4)]
    + [f"{leaf} {spine} 100Gbps 0.0005ms 0\n" for leaf in (4, 5) for spine in (6, 7)]
)


def read(folder: Path, text: str) -> Fabric:
    file = folder / "topology.txt"
    file.write_text(text)
    return Simai(File.at(file)).build()


def seconds(fabric: Fabric, *group: int) -> float:
    return Framework().simulate_collective(fabric, "broadcast", size=1e6, group=group, algorithm="direct").duration


def test_servers_and_gpus_are_levels(tmp_path: Path) -> None:
    fabric = read(tmp_path, SERVERS)
    assert fabric.levels == (
        Level(2, "switch", 360e9, 50e-9, name="server"),
        Level(3, "switch", 50e9, 1e-6, name="network"),
    )
    np.testing.assert_array_equal(fabric.coordinates, [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]])
    assert fabric.tiers.tolist() == [0] * 12 + [1] * 12
    assert len(set(fabric.servers[:6].tolist())) == 3


def test_messages_go_over_the_nvswitch_or_are_spread_over_shortest_paths(tmp_path: Path) -> None:
    fabric = read(tmp_path, SERVERS)
    # The leaf is as many hops away as the NVSwitch.
    assert seconds(fabric, 0, 1) == pytest.approx(1e6 / 360e9 + 50e-9, rel=1e-12)
    # GPUs of one leaf do not help each other.
    assert seconds(fabric, 0, 3) == pytest.approx(1e6 / 50e9 + 1e-6, rel=1e-12)
    fabric = read(tmp_path, LEAVES)
    assert len(fabric.npus) == 4
    # Four hops; two spines with 100 Gb/s each are as fast as the host's 200 Gb/s.
    assert seconds(fabric, 0, 3) == pytest.approx(1e6 / 25e9 + 4 * 0.5e-6, rel=1e-12)
    assert seconds(fabric, 0, 1) == pytest.approx(1e6 / 25e9 + 2 * 0.5e-6, rel=1e-12)


def test_a_file_for_ns3_whose_error_rates_are_noted(tmp_path: Path) -> None:
    fabric = read(tmp_path, RING.replace("0.001ms 0", "0.001ms 0.1", 1))
    assert fabric.notes[0].endswith("has error rates, which are not simulated")
    assert not fabric.levels
    assert not fabric.tiers.any()
    # Half way round a message takes both ways, over NPUs that forward it.
    assert seconds(fabric, 0, 2) == pytest.approx(1e6 / 100e9 + 2e-6, rel=1e-12)


def test_gpus_that_are_not_in_order_have_no_levels(tmp_path: Path) -> None:
    fabric = read(tmp_path, SERVERS.replace("1 6 2880", "1 7 2880"))
    assert (fabric.levels, fabric.coordinates, fabric.notes) == ((), None, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("4 0\n", "line 1: 2 values, not 6 or 3"),
        ("4 x 4\n", "line 1: 'x' is refused (accepted: a whole number below"),
        (RING.replace("4 0 4", "4 0 5"), "4 links, and the first line says 5"),
        (RING.replace("4 0 4", "4 1 4"), "line 3: '400Gbps' is refused"),
        (LEAVES.replace("4 5 6 7", "4 5 6 6"), "3 different switches, not 4"),
        (LEAVES.replace("4 5 6 7", "4 5 6 8"), "line 2: '8' is refused (accepted: a whole number below 8)"),
        (RING.replace("0 1 400Gbps", "0 0 400Gbps"), "line 3: both ends are 0"),
        (RING.replace("0 1 400Gbps", "0 1 0Gbps"), "line 3: '0Gbps' is too small"),
        (RING.replace("0.001ms", "400Gbps", 1), "line 3: '400Gbps' has the unit 'Gbps', not s"),
        (RING.replace("0.001ms 0", "0.001ms 2", 1), "line 3: '2' is not an error rate"),
        (RING.replace("0.001ms 0", "0.001ms 0 0", 1), "line 3: 6 values, not 5"),
        ("2 2 0\n0 1\n", "all nodes are switches"),
    ],
)
def test_bad_input(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{tmp_path}.*{re.escape(message)}"):
        read(tmp_path, text)


class TestSimai(TopologyTests):
    plugin = fredfw_topology_simai
    topologies = (Simai(File.at(Path(__file__).parent / "topology.txt")),)
