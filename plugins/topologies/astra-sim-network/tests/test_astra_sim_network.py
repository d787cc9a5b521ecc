import json
import tomllib
from pathlib import Path
from typing import Any

import experiments
import numpy as np
import pytest
from click.testing import CliRunner, Result

import fredfw_topology_astra_sim_network
from fredfw import File, Framework, Level
from fredfw.cli import main
from fredfw.embed import NetworkBackend
from fredfw.testing import TopologyTests
from fredfw_topology_astra_sim_network import AstraSimNetwork

NETWORK = "topology: [Ring, Switch]\nnpus_count: [2, 2]\nbandwidth: [50, 25]\nlatency: [500, 250]\n"
PATTERNS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")
IMPLEMENTATIONS = {f"{pattern}-implementation": ["ring", "direct"] for pattern in PATTERNS}
SYSTEM: dict[str, Any] = {
    **IMPLEMENTATIONS,
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "collective-optimization": "localBWAware",
    "preferred-dataset-splits": 4,
    "active-chunks-per-dimension": 1,
    "roofline-enabled": 1,
    "peak-perf": 400,
    "local-mem-bw": 1555.5,
    "boost-mode": 0,
    "intra-dimension-scheduling": "FIFO",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "inputs"
    made.mkdir()
    (made / "net.yml").write_text(NETWORK)
    (made / "sys.json").write_text(json.dumps(SYSTEM))
    (made / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    (made / "groups.json").write_text('{"1": [0, 1]}')
    (made / "notes.json").write_text("[1, 2]")
    for rank in range(4):
        (made / f"trace.{rank}.et").write_bytes(b"")
    return made


def imported(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["import", "astra-sim", *map(str, words)])


def experiment(folder: Path, *words: str | Path) -> dict[str, Any]:
    output = folder.parent / "experiment.toml"
    result = imported(*words or (folder,), "--output", output, "--overwrite")
    assert result.exit_code == 0, result.output
    return tomllib.loads(output.read_text(encoding="utf-8"))


def lines(folder: Path) -> list[str]:
    experiment(folder)
    return (folder.parent / "experiment.toml").read_text(encoding="utf-8").splitlines()


def refused(folder: Path, *words: str | Path) -> str:
    output = folder.parent / "experiment.toml"
    result = imported(*words or (folder,), "--output", output)
    assert result.exit_code == 2, result.output
    assert not output.exists()
    return result.output


def system(folder: Path, **changes: Any) -> None:
    """Write the system file with other values; ``None`` leaves a key out, ``_`` in a key stands for ``-``."""
    values = SYSTEM | {key.replace("_", "-"): value for key, value in changes.items()}
    text = json.dumps({key: value for key, value in values.items() if value is not None})
    (folder / "sys.json").write_text(text)


def test_a_folder_becomes_one_experiment(folder: Path) -> None:
    steps = [{"name": "hierarchical", "steps": ["ring", "direct"], "chunks": 4}, "ring"]
    assert experiment(folder) == {
        "title": "inputs",
        "npu": {"peak": "400 TFLOP/s", "memory_bandwidth": "1555.5 GB/s"},
        "fabrics": {
            "astra-sim": {
                "topology": {"name": "astra-sim-network", "file": "inputs/net.yml"},
                "transport": {"name": "alpha-beta", "step": "10 ns"},
                "collectives": {**dict.fromkeys(PATTERNS, steps), "all-to-all": "direct", "default": "direct"},
            }
        },
        "workloads": {
            "traces": {
                "workload": {
                    "name": "chakra",
                    "traces": "inputs/trace.*.et",
                    "comm_groups": "inputs/groups.json",
                    "mode": "roofline",
                    "dimensions": [2, 2],
                }
            }
        },
    }


def test_files_are_named_one_by_one(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "other.txt"
    (folder / "net.yml").rename(moved)
    named: list[str | Path] = ["--network", moved, "--system", folder / "sys.json", "--workload", folder / "trace"]
    found = experiment(folder, *named)
    assert found["title"] == "trace"
    assert found["fabrics"]["astra-sim"]["topology"]["file"] == "other.txt"
    assert "comm_groups" not in found["workloads"]["traces"]["workload"]
    found = experiment(folder, *named, "--groups", folder / "groups.json", "--remote-memory", folder / "memory.json")
    assert found["workloads"]["traces"]["workload"]["comm_groups"] == "inputs/groups.json"
    # An option goes before what the folder has.
    assert experiment(folder, folder, "--network", moved)["title"] == "inputs"


def test_standard_output(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = imported(".", "--output", "-")
    assert result.exit_code == 0
    assert tomllib.loads(result.stdout)["fabrics"]["astra-sim"]["topology"]["file"] == "net.yml"


def test_the_network_of_the_experiment_is_that_of_the_file(folder: Path) -> None:
    text, _, _ = "\n".join(lines(folder)).partition("[workloads")
    output = folder.parent / "experiment.toml"
    output.write_text(f'{text}[workloads.one]\nworkload = {{ name = "microbenchmark", size = "4 MiB" }}\n')
    result = CliRunner().invoke(main, ["run", str(output)])
    assert result.exit_code == 0, result.output
    assert "hierarchical(" in result.output


ONE = NETWORK.replace("Ring, Switch", "Switch").replace("2, 2", "4").replace("50, 25", "50").replace("500, 250", "500")


@pytest.mark.parametrize(
    ("name", "pattern", "algorithm"),
    [
        ("oneRing", "all-reduce", "ring"),
        ("direct2", "all-gather", "direct"),
        ("halvingDoubling", "reduce-scatter", "recursive-halving-doubling"),
        ("doubleBinaryTree", "all-reduce", {"name": "tree", "shape": "double-binary", "chunks": 4}),
        ("doubleBinaryTree", "all-gather", "direct"),
        ("halvingDoubling", "all-to-all", "direct"),
    ],
)
def test_implementations_along_one_dimension(name: str, pattern: str, algorithm: Any, folder: Path) -> None:
    (folder / "net.yml").write_text(ONE)
    system(folder, **{key: ["ring"] for key in IMPLEMENTATIONS} | {f"{pattern}-implementation": [name]})
    assert experiment(folder)["fabrics"]["astra-sim"]["collectives"][pattern] == algorithm


def test_where_compute_times_come_from(folder: Path) -> None:
    replay: list[dict[str, Any]] = [{"roofline_enabled": 0}, {"replay_only": 1}]
    for changes in (*replay, {"roofline_enabled": None, "peak_perf": None}, {}):
        system(folder, **changes)
        mode = "replay" if changes else "roofline"  # which the file enables
        assert experiment(folder)["workloads"]["traces"]["workload"]["mode"] == mode


@pytest.mark.parametrize(
    ("changes", "key", "remark"),
    [
        ({}, "boost-mode", "not read by ASTRA-sim any more"),
        ({}, "scheduling-policy", "left out"),
        ({}, "all-to-all-implementation", "one exchange of all ranks"),
        ({"collective_optimization": "baseline"}, "collective-optimization", "baseline has no counterpart"),
        ({"collective_optimization": None}, "collective-optimization", "baseline has no counterpart"),
        ({"active_chunks_per_dimension": 2}, "active-chunks-per-dimension", "left out"),
        ({"endpoint_delay": None}, "endpoint-delay", "not in the file: 10 ns"),
        ({"all_gather_implementation": None}, "all-gather-implementation", "not in the file"),
        ({"all_reduce_implementation": ["ring", "doubleBinaryTree"]}, "all-reduce-implementation", "doublebinarytree"),
        ({"all_reduce_implementation_custom": ["x"]}, "all-reduce-implementation-custom", "no counterpart"),
        ({"local_reduction_delay": 1}, "local-reduction-delay", "no counterpart"),
        ({"peak_pref": 1}, "peak-pref", "unknown to ASTRA-sim; did you mean 'peak-perf'?"),
        ({"a\nb = 1\x7f\ud800": 1}, r"a\nb = 1\x7f\ud800", "unknown to ASTRA-sim"),
    ],
)
def test_what_has_no_counterpart_is_printed_and_in_the_file(
    changes: dict[str, Any], key: str, remark: str, folder: Path
) -> None:
    system(folder, **changes)
    assert any(line.startswith(f"# {key}: {remark}") for line in lines(folder))
    assert key in imported(folder, "--output", folder / "again.toml").output


@pytest.mark.parametrize(
    ("kind", "scope"),
    [
        ("PER_NPU_MEMORY_EXPANSION", {"scope": "npu"}),
        ("PER_NODE_MEMORY_EXPANSION", {"scope": "node", "npus": 2}),
        ("MEMORY_POOL", {"scope": "fabric"}),
    ],
)
def test_a_remote_memory_is_a_memory_tier(kind: str, scope: dict[str, Any], folder: Path) -> None:
    memory = {"memory-type": kind, "remote-mem-bw": 100, "remote-mem-latency": 250.5, "num-npus-per-node": 2}
    (folder / "memory.json").write_text(json.dumps(memory))
    found = experiment(folder)
    tier = {"name": "remote", "bandwidth": "100 GB/s", "latency": "250.5 ns", "discipline": "one-at-a-time"}
    assert found["fabrics"]["astra-sim"]["memories"] == [tier | scope]


def test_an_experiment_of_large_and_small_numbers_can_be_read(folder: Path) -> None:
    system(folder, endpoint_delay=1_000_000, peak_perf=1e17, local_mem_bw=1e-5)
    memory = {"memory-type": "MEMORY_POOL", "remote-mem-bw": 1e20, "remote-mem-latency": 123456.7891}
    (folder / "memory.json").write_text(json.dumps(memory))
    experiment(folder)
    read = Framework().load_experiment(folder.parent / "experiment.toml")
    (fabric,) = read.fabrics
    assert fabric.slots["transport"].step == (1e-3,)
    assert [(one.bandwidth, one.latency) for one in fabric.memories] == [(1e29, 123456.7891e-9)]
    assert (read.npu.peak, read.npu.memory_bandwidth) == (1e29, 1e4)


THREE_A_NODE = '{"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-bw": 100, "num-npus-per-node": 3}'


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"all_reduce_implementation": ["ring"]}, "all-reduce-implementation: 1 implementations for 2 dimensions"),
        ({"all_reduce_implementation": ["ring", "rong"]}, "all-reduce-implementation[1]: 'rong' is not an"),
        ({"all_reduce_implementation": "ring"}, "all-reduce-implementation: 'ring' is not a list"),
        ({"scheduling_policy": "SJF"}, "scheduling-policy: 'SJF' is not known (accepted: LIFO, FIFO, EXPLICIT)"),
        ({"preferred_dataset_splits": 0}, "preferred-dataset-splits: 0 is refused"),
        ({"peak_perf": "tbd"}, "peak-perf: 'tbd' is refused"),
        ({"peak_perf": 1e90}, "peak-perf: 1e+90 is refused"),
        ({"peak_perf": None}, "peak-perf: is missing, and roofline-enabled needs it"),
        ({"roofline_enabled": 2}, "roofline-enabled: 2 is refused"),
        ({"endpoint_delay": -1}, "endpoint-delay: -1 is refused"),
    ],
)
def test_bad_system_files(changes: dict[str, Any], message: str, folder: Path) -> None:
    system(folder, **changes)
    assert f"sys.json: {message}" in refused(folder)


@pytest.mark.parametrize(
    ("files", "words", "message"),
    [
        ({}, ["."], "is not in the folder"),
        ({}, ["--groups", "inputs/groups.json"], "--network: is not named"),
        ({}, ["nowhere"], "cannot be read"),
        ({}, ["inputs", "--network", "nowhere.yml"], "--network"),
        ({}, ["inputs", "--workload", "inputs/none"], "there is no file none.0.et"),
        ({"trace.4.et": ""}, [], "traces of 5 ranks, and the network has 4 NPUs"),
        ({"other.0.et": "", "other.2.et": ""}, ["inputs", "--workload", "inputs/other"], "there is no file other.1.et"),
        ({"second.yml": NETWORK}, [], "several files for --network: net.yml, second.yml"),
        ({"net.yml": NETWORK.replace("25", "tbd")}, [], "bandwidth[1]: 'tbd' is refused"),
        ({"memory.json": THREE_A_NODE}, [], "num-npus-per-node: 3 is refused"),
        ({"memory.json": '{"memory-type": "LOTS"}'}, [], "memory-type: 'LOTS' is not known"),
        ({"memory.json": '{"memory-type": "MEMORY_POOL"}'}, [], "remote-mem-bw: is missing, and MEMORY_POOL needs it"),
        ({"sys.json": '{"peak-perf": '}, [], "sys.json: is not JSON: line 1, column 15"),
        ({"sys.json": "[]"}, ["inputs", "--system", "inputs/sys.json"], "is not a JSON object"),
    ],
)
def test_bad_input_writes_nothing(
    files: dict[str, str], words: list[str], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    for name, text in files.items():
        (folder / name).write_text(text)
    assert message in refused(folder, *words)


def test_a_file_is_replaced_only_when_told(folder: Path) -> None:
    output = folder.parent / "experiment.toml"
    output.write_text("mine")
    result = imported(folder, "--output", output)
    assert (result.exit_code, output.read_text()) == (2, "mine")
    assert "exists already (accepted: a new file, or --overwrite)" in result.output
    assert experiment(folder)["title"] == "inputs"
    result = imported(folder, "--output", folder / "net.yml", "--overwrite")
    assert result.exit_code == 2
    assert "is also the input" in result.output


GIB = 2**30


def network(folder: Path, text: str) -> AstraSimNetwork:
    file = folder / "network.yml"
    file.write_text(text, encoding="utf-8")
    return AstraSimNetwork(File.at(file))


def described(topology: str, npus: str, bandwidth: str, latency: str) -> str:
    return f"topology: [{topology}]\nnpus_count: [{npus}]\nbandwidth: [{bandwidth}]\nlatency: [{latency}]\n"


THREE = described("Ring, FullyConnected, Switch", "2, 8, 4", "200.0, 100.0, 50.0", "50.0, 500.0, 2000.0")


# The unit tests of ASTRA-sim's congestion-unaware analytical backend: 1,048,576 B over one dimension, 50 x 2^30 B/s and
# 500 ns, and over three, of which the destinations differ from NPU 0 in one.
@pytest.mark.parametrize(
    ("text", "destination", "nanoseconds"),
    [
        *((described("Ring", "16", "50.0", "500.0"), destination, 21_031) for destination in (3, 13)),
        (described("FullyConnected", "16", "50.0", "500.0"), 3, 20_031),
        (described("Switch", "16", "50.0", "500.0"), 3, 20_531),
        *((THREE, *along) for along in ((1, 4_932), (6, 10_265), (16, 23_531))),
    ],
)
def test_one_message_takes_as_long_as_in_astra_sim(
    text: str, destination: int, nanoseconds: int, tmp_path: Path
) -> None:
    backend = NetworkBackend(network(tmp_path, text).build())
    backend.send(0, destination, 1_048_576)
    backend.run_until_idle()
    assert backend.now * 1e9 == pytest.approx(nanoseconds, abs=1)


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
ALIASES = "x0: &x0 [1, 1]\n" + "".join(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (RING.replace("50]", "tbd]"), "bandwidth[0]", "'tbd' is refused"),
        (RING.replace("[50]", "[0]"), "bandwidth[0]", "0 is refused"),
        (RING.replace("[50]", "[true]"), "bandwidth[0]", "True is refused"),
        (RING.replace("[50]", f"[1{'0' * 400}]"), "bandwidth[0]", "is refused"),
        (RING.replace("[4]", "[1]"), "npus_count[0]", "1 is refused"),
        (RING.replace("Ring", "Torus"), "topology[0]", "'Torus' is refused"),
        (RING.replace("[Ring]", "Ring"), "topology", "'Ring' is not a list"),
        (RING.replace("[Ring]", "[]"), "topology", "[] is not a list of values"),
        (RING.replace("latency: [500]\n", ""), "latency", "is missing"),
        (RING + "dims: 1\n", "dims", "unknown key"),
        (RING.replace("npus_count", "npu_count"), "npu_count", "did you mean 'npus_count'?"),
        (RING.replace("[50]", "[50, 60]"), None, "different lengths: 1 in topology, 1 in npus_count, 2 in bandwidth"),
        (RING + "latency: [1]\n", None, "line 5, column 1: the key 'latency' is there twice"),
        ("[1, 2]", None, "is not a network file"),
        ("topology: [Ring\nnpus_count", None, "line 2, column"),
        ("a: !!python/object/apply:os.system [true]", None, "could not determine a constructor"),
        (ALIASES, "x0", "unknown key"),  # which do not fill the message
        ("\x00", None, "unacceptable character"),
        pytest.param("[" * 3000, None, "is nested too deeply", marks=pytest.mark.slow),
    ],
)
def test_bad_input(text: str, key: str | None, message: str, tmp_path: Path) -> None:
    with experiments.refused(key, message, file=str(tmp_path / "network.yml")):
        network(tmp_path, text)


class TestAstraSimNetwork(TopologyTests):
    plugin = fredfw_topology_astra_sim_network
    topologies = (AstraSimNetwork(File.at(Path(__file__).parent / "network.yml")),)
