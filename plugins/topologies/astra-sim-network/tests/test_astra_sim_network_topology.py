from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fredfw_topology_astra_sim_network
from fredfw import File, Level
from fredfw.embed import NetworkBackend
from fredfw.errors import InputError
from fredfw.testing import TopologyTests
from fredfw_topology_astra_sim_network import AstraSimNetwork

GIB = 2**30
MESSAGE = 1_048_576


def network(folder: Path, text: str) -> AstraSimNetwork:
    file = folder / "network.yml"
    file.write_text(text, encoding="utf-8")
    return AstraSimNetwork(File.at(file))


def described(topology: str, npus: str, bandwidth: str, latency: str) -> str:
    return f"topology: [{topology}]\nnpus_count: [{npus}]\nbandwidth: [{bandwidth}]\nlatency: [{latency}]\n"


def seconds(topology: AstraSimNetwork, destination: int) -> float:
    """Return how long one message from NPU 0 takes."""
    backend = NetworkBackend(topology.build())
    backend.send(0, destination, MESSAGE)
    backend.run_until_idle()
    return backend.now


# The unit tests of ASTRA-sim's congestion-unaware analytical backend: 1,048,576 B, 50 x 2^30 B/s, 500 ns.
@pytest.mark.parametrize(
    ("kind", "destination", "nanoseconds"),
    [("Ring", 3, 21_031), ("Ring", 13, 21_031), ("FullyConnected", 3, 20_031), ("Switch", 3, 20_531)],
)
def test_one_message_takes_as_long_as_in_astra_sim(
    kind: str, destination: int, nanoseconds: int, tmp_path: Path
) -> None:
    topology = network(tmp_path, described(kind, "16", "50.0", "500.0"))
    assert seconds(topology, destination) * 1e9 == pytest.approx(nanoseconds, abs=1)


# Its test of three dimensions; the destinations differ from NPU 0 in one of them.
@pytest.mark.parametrize(("destination", "nanoseconds"), [(1, 4_932), (6, 10_265), (16, 23_531)])
def test_one_message_along_each_of_three_dimensions(destination: int, nanoseconds: int, tmp_path: Path) -> None:
    text = described("Ring, FullyConnected, Switch", "2, 8, 4", "200.0, 100.0, 50.0", "50.0, 500.0, 2000.0")
    assert seconds(network(tmp_path, text), destination) * 1e9 == pytest.approx(nanoseconds, abs=1)


def test_the_first_dimension_is_the_innermost(tmp_path: Path) -> None:
    fabric = network(tmp_path, described("Switch, Ring", "4, 3", "400, 50", "936.25, 1000")).build()
    assert fabric.name == "Switch(4)_Ring(3)"
    assert fabric.levels == (Level(4, "switch", 400 * GIB, 2 * 936.25e-9), Level(3, "ring", 50 * GIB, 1e-6))
    assert fabric.coordinates is not None
    np.testing.assert_array_equal(fabric.coordinates[:5], [[0, 0], [1, 0], [2, 0], [3, 0], [0, 1]])
    # 12 NPUs have a link to their switch and back, and two to their neighbours in a ring.
    np.testing.assert_allclose(np.sort(fabric.bandwidths), np.repeat([50 * GIB, 400 * GIB], 24))
    assert sorted(set(fabric.tiers.tolist())) == [0, 1]


@pytest.mark.parametrize(("written", "bandwidth"), [("1e3", 1000), ("5E-1", 0.5), (".5", 0.5), ("7", 7)])
def test_numbers_as_its_parser_takes_them(written: str, bandwidth: float, tmp_path: Path) -> None:
    fabric = network(tmp_path, described("Switch", "2", written, "0")).build()
    assert set(fabric.bandwidths.tolist()) == {bandwidth * GIB}


RING = described("Ring", "4", "50", "500")


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (RING.replace("50]", "tbd]"), "bandwidth[0]", "'tbd' is refused"),
        (RING.replace("500]", "tbd]"), "latency[0]", "'tbd' is refused"),
        (RING.replace("500]", "-1]"), "latency[0]", "-1 is refused"),
        (RING.replace("[50]", "[0]"), "bandwidth[0]", "0 is refused"),
        (RING.replace("[50]", "[.inf]"), "bandwidth[0]", "inf is refused"),
        (RING.replace("[50]", "[true]"), "bandwidth[0]", "True is refused"),
        (RING.replace("[50]", f"[1{'0' * 400}]"), "bandwidth[0]", "is refused"),
        (RING.replace("[4]", "[1]"), "npus_count[0]", "1 is refused"),
        (RING.replace("[4]", "[4.5]"), "npus_count[0]", "4.5 is refused"),
        (RING.replace("Ring", "Torus"), "topology[0]", "'Torus' is refused"),
        (RING.replace("[Ring]", "Ring"), "topology", "'Ring' is not a list"),
        (RING.replace("[Ring]", "[]"), "topology", "a list of 0 is not a list of values"),
        (RING.replace("latency: [500]\n", ""), "latency", "is missing"),
        (RING + "dims: 1\n", "dims", "unknown key"),
        (RING.replace("npus_count", "npu_count"), "npu_count", "did you mean 'npus_count'?"),
        (RING.replace("[50]", "[50, 60]"), None, "different lengths: 1 in topology, 1 in npus_count, 2 in bandwidth"),
        (RING + "latency: [1]\n", None, "line 5, column 1: the key 'latency' is there twice"),
        ("[1, 2]", None, "is not a network file"),
        ("topology: [Ring\nnpus_count", None, "line 2, column"),
        ("a: !!python/object/apply:os.system [true]", None, "could not determine a constructor"),
        ("\x00", None, "unacceptable character"),
        pytest.param("[" * 3000, None, "is nested too deeply", marks=pytest.mark.slow),
    ],
)
def test_bad_input(text: str, key: str | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        network(tmp_path, text)
    assert caught.value.key == key
    assert caught.value.file == str(tmp_path / "network.yml")
    assert message in str(caught.value)
    assert caught.value.accepted


def test_aliases_do_not_fill_the_message(tmp_path: Path) -> None:
    bomb = "x0: &x0 [1, 1]\n" + "".join(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]\n" for n in range(1, 40))
    with pytest.raises(InputError, match="unknown key"):
        network(tmp_path, bomb)
    inside = "topology: &a [*b]\n".replace("*b", "1") + "npus_count: [4]\nbandwidth: [&x [1], *x]\nlatency: [1]\n"
    with pytest.raises(InputError):
        network(tmp_path, inside)


class TestAstraSimNetwork(TopologyTests):
    plugin = fredfw_topology_astra_sim_network
    topologies = (AstraSimNetwork(File.at(Path(__file__).parent / "network.yml")),)
