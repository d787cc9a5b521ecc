from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import fredfw_transport_nccl
from fredfw import Fabric, File, Framework, Pattern
from fredfw.errors import InputError
from fredfw.experiment.cell.variation import Variation, changed as changed_by
from fredfw.experiment.file.spec import Experiment
from fredfw.experiment.results import RunResult
from fredfw.experiment.why import critical_path
from fredfw.fabric import IdealTransport
from fredfw.testing import TransportTests
from fredfw_collective_tree import Tree
from fredfw_topology_cluster import Cluster
from fredfw_topology_switch import Switch
from fredfw_transport_nccl import Nccl
from fredfw_transport_nccl.model import algorithm_of, seconds, time
from fredfw_transport_nccl.tables import PROTOCOLS, fitted, published
from fredfw_transport_nccl.tuner import Machine, expected

LINK, NIC = {"a100": 300e9, "h100": 450e9}, {"a100": 25e9, "h100": 50e9}


def machine(family: str, ranks: int, nodes: int = 1) -> Machine:
    return Machine(family, ranks, nodes, LINK[family], NIC[family], reduces=family == "h100")


def chosen(family: str, ranks: int, size: float) -> tuple[str, str]:
    found = expected(machine(family, ranks), "all-reduce", size, 2 * (ranks - 1))
    algorithm, protocol = min(found, key=lambda key: found[key])
    return algorithm, PROTOCOLS[protocol]


def node(family: str, nodes: int = 1) -> Fabric:
    return Cluster(preset=f"dgx-{family}", nodes=nodes).build().with_defaults(transport=Nccl(family=family))


def duration(fabric: Fabric, pattern: str, size: float, **options: Any) -> float:
    return Framework().simulate_collective(fabric, pattern, size=size, **options).duration


# By hand from src/graph/tuning.cc: of two A100, LL takes 6.6 + 2 x 0.6 us + bytes / 87.7 GB/s, and Simple
# 8.4 + 2 x 3.4 us + bytes / 240 GB/s, so that they are equal at 1.02 MB.
@pytest.mark.parametrize(("size", "protocol"), [(2**19, "LL"), (1.01e6, "LL"), (1.03e6, "Simple"), (2**30, "Simple")])
def test_protocols_change_where_the_tuner_expects_the_next_one_to_be_faster(size: float, protocol: str) -> None:
    assert chosen("a100", 2, size) == ("ring", protocol)


def test_expected_times_by_hand() -> None:
    found = expected(machine("a100", 8), "all-reduce", 2**20, 14)
    assert found["ring", 0] == pytest.approx(6.6e-6 + 14 * 0.6e-6 + 2**20 * 1.75 / 87.7e9)
    assert found["ring", 1] == pytest.approx(14e-6 + 14 * 1.9e-6 + 2**20 * 1.75 / (0.92 * 240e9))
    # treeCorrectionFactor of LL128 at 2^20 bytes, 2^14 times 64, is 0.6.
    tree = 14e-6 + 14 * 1.25e-6 + 2 * 2**20 / (0.92 * 240e9 * 7 / 9 * 0.6)
    assert found["tree", 1] == pytest.approx(tree)
    between = expected(machine("a100", 32, 4), "all-reduce", 2**20, 62)
    # Between nodes, of 8 x 24 GB/s; the cards of an AMD node take 2 us for each step.
    ring = 14e-6 + (56 * 2 + 6 * 4) * 1e-6 + 2**20 * 62 / 32 / (0.92 * 192e9)
    assert between["ring", 1] == pytest.approx(ring)
    # LL reaches at most 19 GB/s among more than two AMD nodes (llMaxBws), and half of that by treeCorrectionFactor.
    tree = 6.8e-6 + 2 * (7 * 0.6 + 2 * 5) * 1e-6 + 2 * 2**20 / (19e9 * 0.5)
    assert between["tree", 0] == pytest.approx(tree)


# On H100 an all-reduce is NVLS from 5 or 6 GPUs on, and a ring below: measured busbw is above the wire's from there.
@pytest.mark.parametrize(("ranks", "algorithm"), [(2, "ring"), (4, "ring"), (6, "in-network"), (8, "in-network")])
def test_large_all_reduces_of_many_h100_are_in_the_switch(ranks: int, algorithm: str) -> None:
    assert chosen("h100", ranks, 2**30)[0] == algorithm
    assert chosen("a100", ranks, 2**30)[0] == "ring"


@pytest.mark.parametrize("family", ["a100", "h100"])
@pytest.mark.parametrize("size", [2.0**10, 2.0**20, 2.0**23, 2.0**30])
@pytest.mark.parametrize("ranks", [2, 8])
def test_a_simulated_ring_is_launch_and_steps_and_bytes(family: str, size: float, ranks: int) -> None:
    closed = seconds(machine(family, ranks), fitted(family), "all-reduce", "ring", size)
    for fidelity in ("compressed", "exact"):
        found = duration(node(family), "all-reduce", size, algorithm="ring", group=range(ranks), fidelity=fidelity)
        assert found == pytest.approx(closed, rel=1e-9)


def test_the_closed_form_by_hand() -> None:
    constants, n, size = fitted("a100"), 8, 2.0**30
    rate = 0.8 * 300e9
    launch = constants.launch["all-reduce"] + constants.tail["all-reduce"] * size / n / rate
    by_hand = launch + 14 * 3.4e-6 * constants.hops[2] + 14 * size / n / rate
    assert seconds(machine("a100", n), constants, "all-reduce", "ring", size) == pytest.approx(by_hand, rel=1e-12)


def test_other_patterns_take_as_long_as_the_closed_form() -> None:
    for pattern, size in product(("all-gather", "reduce-scatter", "all-to-all"), (2.0**13, 2.0**26)):
        closed = time(machine("h100", 8), fitted("h100"), pattern, size)
        assert duration(node("h100"), pattern, size) == pytest.approx(closed, rel=1e-9)


@pytest.mark.parametrize(("size", "algorithm"), [(2.0**20, "ring"), (2.0**24, "in-network")])
def test_auto_chooses_what_the_tuner_chooses(size: float, algorithm: str) -> None:
    result = Framework().simulate_collective(node("h100"), "all-reduce", size=size)
    assert result.algorithm == algorithm == algorithm_of(machine("h100", 8), "all-reduce", size)
    closed = time(machine("h100", 8), fitted("h100"), "all-reduce", size)
    # The latency of the switch's links comes on top of that of NVLS.
    assert result.duration == pytest.approx(closed, rel=0.002)


@pytest.mark.parametrize(("size", "algorithm"), [(2.0**13, "tree"), (2.0**28, "ring")])
def test_several_nodes_have_trees_and_rings(size: float, algorithm: str) -> None:
    result = Framework().simulate_collective(node("a100", 4), "all-reduce", size=size)
    assert result.algorithm.startswith(algorithm)
    assert algorithm_of(machine("a100", 32, 4), "all-reduce", size) == algorithm
    closed = time(machine("a100", 32, 4), fitted("a100"), "all-reduce", size)
    assert result.duration == pytest.approx(closed, rel=0.02)


def test_gpus_on_pcie_have_its_hops() -> None:
    """Of hwLatencies those of PCI, at 24 of 32 GB/s: a ring of LL takes 6.6 + 14 us and half as many bytes."""
    found = expected(Machine("pcie", 8, 1, 32e9, 25e9), "all-reduce", 2**10, 14)
    assert found["ring", 0] == pytest.approx(6.6e-6 + 14e-6 + 2**10 * 14 / 8 / 12e9)
    assert found["tree", 2] == pytest.approx(8.4e-6 + 2 * 7 * 4e-6 + 2 * 2**10 / (24e9 * 0.92 * 0.9))


def test_one_gpu_of_each_node_has_pat() -> None:
    """PAT: 8 us, 4 for each of log2(n) hops, 2.8 for each rank, at three quarters of the rate (tuning.cc)."""
    size, rate = 2.0**20, 0.75 * 0.96 * NIC["h100"]
    for ranks, hops in ((8, 3), (40, 5)):
        found = expected(machine("h100", ranks, ranks), "all-gather", size, ranks - 1)
        by_hand = 1e-6 * (8 + 4 * hops + 2.8 * ranks) + size * (ranks - 1) / ranks / rate
        assert found["pat", 2] == pytest.approx(by_hand)
    assert ("pat", 2) not in expected(machine("h100", 16, 8), "all-gather", size, 15)
    assert ("pat", 2) not in expected(machine("h100", 8, 8), "all-reduce", size, 14)
    # Of many nodes it takes less than a ring, which sends the same bytes, until its rate counts.
    fabric, group = Cluster(preset="dgx-h100", nodes=16).build(), range(0, 128, 8)
    for pattern in ("all-gather", "reduce-scatter"):
        run = partial(Framework().simulate_collective, fabric, pattern, group=group)
        small, large = run(size=2.0**20), run(size=2.0**30)
        assert (small.protocol, large.protocol) == ("Simple (PAT)", "Simple (fastest)")
        fit, known = fitted("h100"), Nccl("h100").machine(fabric, 16, 16)
        latency = 1e-6 * (2.8 * 16 + 4 * 4 * fit.between("infiniband")[0])
        sent = 2.0**20 / 16 / (0.75 * NIC["h100"] * fit.between("infiniband")[1])
        by_hand = fit.launch_of(pattern) + latency + (15 + fit.tail_of(pattern)) * sent
        assert small.duration == pytest.approx(by_hand, rel=1e-6)
        assert small.duration == pytest.approx(seconds(known, fit, pattern, "pat", 2.0**20), rel=1e-6)


def test_a_tree_on_a_node_without_switches_has_one_link_to_the_next_gpu() -> None:
    """LL, LL128 and Simple are chosen by what they reach there, so that more bytes never take less time."""
    fabric = Cluster(preset="mi300x", nodes=4).build()
    times = [duration(fabric, "all-reduce", 2.0**power) for power in range(16, 21)]
    assert times == sorted(times)
    known, fit = Nccl("mi300x").machine(fabric, 32, 4), Nccl("mi300x").fit("mi300x")
    assert (known.link, known.lane) == (448e9, 64e9)
    assert seconds(known, fit, "all-reduce", "tree", 2.0**30) > 2 * 2.0**30 / 64e9


# NVLS of both kinds: 25 us in a node, 18 beyond. CollNetDirect: 3.7 us, and 0.4 for each of 7 others, twice; 31 us.
@pytest.mark.parametrize(("family", "inside", "between"), [("h100", 25, 18), ("a100", 2 * (3.7 + 7 * 0.4), 31)])
def test_switches_between_nodes_reduce_with_sharp(family: str, inside: float, between: float) -> None:
    fabric = Cluster(preset=f"dgx-{family}", nodes=8, sharp=True).build()
    transport = fabric.defaults.transport
    assert isinstance(transport, Nccl)
    assert transport.network == "infiniband-sharp"
    known, size = transport.machine(fabric, 64, 8), 2.0**30
    rate = min(8 * NIC[family] * 0.96, known.between_switches("collnet", 1.0))
    by_hand = 1e-6 * (inside + between) + size / rate
    assert expected(known, "all-reduce", size, 126)["collnet", 2] == pytest.approx(by_hand)
    assert algorithm_of(known, "all-reduce", size) == "collnet"
    result = Framework().simulate_collective(fabric, "all-reduce", size=size)
    assert "in-network" in result.algorithm
    # Sixteen pieces fill their pipeline.
    closed = time(known, transport.fit(family), "all-reduce", size)
    assert closed < result.duration < 1.25 * closed
    assert not expected(machine(family, 64, 8), "all-reduce", size, 126).keys() & {("collnet", 2)}
    # One GPU of each node: its card carries the buffer once each way.
    alone = transport.machine(fabric, 8, 8)
    found = Framework().simulate_collective(fabric, "all-reduce", size=size, group=range(0, 64, 8))
    assert found.algorithm == "in-network"
    assert found.duration == pytest.approx(time(alone, transport.fit(family), "all-reduce", size), rel=0.01)


@pytest.mark.parametrize("nodes", [1, 2, 8, 128])
@pytest.mark.parametrize("family", ["a100", "h100"])
def test_more_bytes_never_take_less_time(family: str, nodes: int) -> None:
    known, fit = machine(family, 8 * nodes, nodes), fitted(family)
    for pattern in ("all-to-all", "point-to-point"):
        times = [time(known, fit, pattern, 2 ** (power / 4)) for power in range(136)]
        assert times == sorted(times)
    # The published factors of trees are for powers of two; they and rings of nodes are between nodes.
    for pattern, algorithm in (("all-reduce", "ring"), ("all-reduce", "tree"), ("all-gather", "ring")) * (nodes > 1):
        times = [seconds(known, fit, pattern, algorithm, 2.0**power) for power in range(34)]
        assert times == sorted(times)


@pytest.mark.sampled
@pytest.mark.parametrize("preset", ["dgx-a100", "dgx-h100", "p5", "mi300x"])
@pytest.mark.parametrize(("pattern", "group"), [("all-to-all", range(32)), ("point-to-point", [3, 12])])
def test_more_bytes_of_simulated_messages_take_more_time(preset: str, pattern: str, group: Sequence[int]) -> None:
    fabric = Cluster(preset=preset, nodes=4).build()
    times = [duration(fabric, pattern, 2.0**power, group=group) for power in range(10, 31)]
    assert times == sorted(set(times))


def test_auto_tries_what_nccl_has_and_any_algorithm_can_be_named_on_any_fabric() -> None:
    transport = Nccl()
    tried = transport.algorithms("all-reduce")
    assert tried is not None
    assert {"ring", "in-network", "tree(shape=nodes, chunks=64)"} < set(tried)
    # What it names is there.
    assert set(map(str, Tree.variants(Pattern.ALL_REDUCE))) > {one for one in tried if one.startswith("tree")}
    assert transport.algorithms("all-gather") == ("ring",)
    assert transport.algorithms("all-to-all") == ("direct",)
    fabric = Switch(npus=6).build().with_defaults(transport=Nccl(family="h100"))
    for algorithm in ("hierarchical", "direct", "recursive-halving-doubling"):
        assert duration(fabric, "all-reduce", 1e6, algorithm=algorithm) > fitted("h100").launch["all-reduce"]
    assert duration(fabric, "broadcast", 1.0) > 0


def test_it_refuses_what_it_does_not_know_and_published_constants_have_their_source(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"family: 'v100' is not known.*a100, h100"):
        Nccl(family="v100")
    (tmp_path / "some.toml").write_text("[h100.constants]\nlaunch = { all-reduce = 5.0 }\n")
    with pytest.raises(InputError, match=r"some.toml: constants: has no constants of h100, or not all of them"):
        Nccl(family="h100", constants=File.at(tmp_path / "some.toml"))
    assert "5067397c2676d5aed50042fc39e5c8ee96eb0027" in published()["source"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"preset": "dgx-a100"}, "a100 (transport.family)"),
        ({"preset": "gb300-nvl72"}, "b200 (transport.family)"),
        ({"preset": "p5", "nodes": 2}, "h100 and efa (transport.family, transport.network)"),
        ({"preset": "a4", "nodes": 2}, "b200 and infiniband, extrapolated to b200 with roce (transport.family, tra"),
        # Seven links of 64 GB/s are as fast as the NVLinks of an H100, and lead to no switch.
        ({"preset": "mi300x"}, "a100, extrapolated to mi300x (transport.family)"),
        ({"node": Switch(npus=4, link_bandwidth=32e9)}, "a100, extrapolated to pcie (transport.family)"),
        ({"node": Switch(npus=8, link_bandwidth=600e9)}, "h100, extrapolated to GPUs that send 600 GB/s to switches"),
    ],
)
def test_a_note_says_whose_constants_are_used(fields: dict[str, Any], said: str) -> None:
    fabric = Cluster(**{"nodes": 1, **fields}).build()
    if "node" in fields:
        assert isinstance(fabric.defaults.transport, IdealTransport)
        fabric = fabric.with_defaults(transport=Nccl())
    first, *_ = Framework().simulate_collective(fabric, "all-reduce", size=1e6).notes
    assert first.startswith(f"nccl: constants of {said}")


def test_the_family_stays_where_links_are_varied_and_messages_that_change_rails_have_the_rate_of_cards() -> None:
    fabric = node("h100", 2).with_defaults(transport=Nccl())
    found = Framework().collective_sensitivity(fabric, "all-reduce", size=1e9, share=0.2, algorithm="ring")
    (links,) = [one for one in found if one.parameter == "bandwidth of all links"]
    assert links.less > links.seconds > links.more
    assert Nccl(family="a100").settled(fabric) == Nccl(family="a100")
    fabric = node("h100", 4)
    same, others = (duration(fabric, "all-to-all", 2.0**30, group=group) for group in ([0, 8, 16, 24], [0, 9, 18, 27]))
    assert others == pytest.approx(same, rel=1e-3)


# Each change of 4 nodes, the same machine written by hand, and what is in the tables of a comparison.
H100 = {"name": "cluster", "preset": "dgx-h100", "nodes": 4}
FAST = {"name": "switch", "npus": 8, "link_bandwidth": "900 GB/s", "link_latency": "25 ns", "in_network": True}
NVLINK, CARDS = "bandwidth of node.npu - node.switch", "bandwidth of leaf - node.npu"


@pytest.mark.sampled
@pytest.mark.parametrize(("pattern", "size"), [("all-reduce", 1e6), ("all-reduce", 1e9), ("all-gather", 1e9)])
@pytest.mark.parametrize(
    ("parameter", "factor", "by_hand"),
    [(NVLINK, 2.0, {"node": FAST}), (CARDS, 0.5, {"nic": "200 Gbps"}), (CARDS, 0.5, {"nics": 4})],
)
def test_what_if_is_the_full_model_of_the_changed_machine(
    parameter: str, factor: float, by_hand: dict[str, Any], pattern: str, size: float
) -> None:
    work = {"workload": {"name": "microbenchmark", "pattern": pattern, "size": size}}
    transport = {"name": "nccl", "family": "h100"}

    def cell(fields: dict[str, Any]) -> Experiment:
        fabrics = {"f": {"topology": {**H100, **fields}, "transport": transport}}
        return Framework().load_experiment({"fabrics": fabrics, "workloads": {"w": work}})

    changed = changed_by(cell({}), Variation("f", parameter, factor))
    found, hand = (Framework().run(one) for one in (changed, cell(by_hand)))
    assert found.algorithms == hand.algorithms
    assert found.seconds == pytest.approx(hand.seconds, rel=1e-12)


def test_a_job_fails_with_a_network_card_and_restarts() -> None:
    """After 30 s of NCCL's timeouts, and what 466 interruptions of Llama 3 took at most of 10 % of 54 days."""
    work = {"workload": {"name": "microbenchmark", "pattern": "all-gather", "size": 1e8}}
    card = {"links": "node0.npu0->leaf*", "at": "0.1 ms"}

    def cell(work: dict[str, Any], *events: dict[str, Any]) -> RunResult:
        fabrics = {"f": {"topology": H100, "events": list(events)}}
        return Framework().run(Framework().load_experiment({"fabrics": fabrics, "workloads": {"w": work}}))

    whole, fails = cell(work), cell(work, card)
    assert whole.seconds > 1e-4
    assert fails.seconds == pytest.approx(whole.seconds + 1e-4 + 54 * 86400 / 10 / 466, rel=1e-12)
    assert critical_path(fails).seconds == fails.seconds
    jobs = {"jobs": [{"name": name, "npus": 8, **work} for name in "ab"]}
    with pytest.raises(InputError, match=r"fabrics\.f\.events: .*several jobs.*then = 'reroute'"):
        cell(jobs, card)


class TestNccl(TransportTests):
    plugin = fredfw_transport_nccl
    transports = (Nccl(family="h100"), Nccl(family="a100"))
