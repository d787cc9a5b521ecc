"""Every topology that comes with fredfw has a bill, and experiments may have prices of their own."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import succeeds

from fredfw import Bill, Framework, PluginManager
from fredfw.errors import InputError, PluginError

PLUGINS = Path(__file__).resolve().parents[2] / "plugins" / "topologies"
FILES = {
    "astra-sim-network": "network.yml",
    "infragraph": "cluster.yaml",
    "nccl-topology": "server.xml",
    "node-link": "machine.json",
    "nvidia-smi-topo": "topo.txt",
    "simai": "topology.txt",
}
FIELDS: dict[str, dict[str, Any]] = {
    "infragraph": {"bandwidths": {"nvlink": "450 GB/s"}, "latencies": {"nvlink": "25 ns"}},
    "nvidia-smi-topo": {"nvlink": "25 GB/s", "pcie": "25 GB/s"},
}
# A part of these has no price of LIBRA: a FRED switch, optics, and links of files that do not say what they are.
UNPRICED = "fred", "infragraph", "nccl-topology", "node-link", "nvidia-smi-topo", "optical-ring"


def bill_of(name: str, **fields: Any) -> Bill:
    given = FIELDS.get(name, {}) | fields
    if name in FILES:
        given["file"] = str(PLUGINS / name / "tests" / FILES[name])
    bill = Framework().topology(name, **given).cost()
    assert bill is not None
    return bill


@pytest.mark.parametrize("name", sorted(path.name for path in PLUGINS.iterdir() if path.is_dir()))
def test_topologies_have_a_price_or_a_part_that_has_none(name: str) -> None:
    bill, priced = bill_of(name), name not in UNPRICED
    assert (bill.dollars is not None and bill.dollars > 0) == priced
    assert all(item.count > 0 for item in bill.items)
    assert all(item.source.startswith("LIBRA") for item in bill.items) == priced
    assert any(item.status == "unknown" for item in bill.items) == (not priced)


def test_a_cluster_pays_for_its_cards_and_not_for_pcie() -> None:
    machine, more = {"preset": "dgx-h100", "nodes": 16}, {"pcie": "60 GB/s", "pcie_npus": 2}
    plain, pcie = (bill_of("cluster", **fields) for fields in (machine, machine | more))
    cards = {item.name: item for item in plain.items}["network cards, inter-pod"]
    # 16 nodes x 8 cards of 400 Gb/s.
    assert (cards.count, cards.bandwidth) == (128, 128 * 50e9)
    assert cards.dollars == pytest.approx(128 * 50 * 31.6)
    # PCIe changes neither.
    assert [(one.name, one.dollars) for one in pcie.items] == [(one.name, one.dollars) for one in plain.items]
    assert any("PCIe" in note for note in pcie.notes)


def test_dimensions_that_have_names_have_their_scopes() -> None:
    dimensions = {"dimensions": ["ring 4", "switch 2"], "bandwidths": "1 GB/s", "latencies": 0}
    named = bill_of("multi-dimensional", names=["chiplet", "package"], **dimensions)
    # 4 links each way of half a GB/s and $ 2; per NPU 1 GB/s at $ 4 + 13.
    assert named.dollars == pytest.approx(8 * (2 + 4 + 13))


def test_fred_has_the_power_of_its_chiplets() -> None:
    # FRED (ISCA 2025): 179.35 W of 35 chiplets, wires of 0.063 pJ/bit; 20 x 3 TB/s and 5 x 12 TB/s each way.
    wires = 2 * (20 * 3e12 + 5 * 12e12) * 8 * 0.063e-12
    assert bill_of("fred").watts == pytest.approx(179.35 + wires)
    assert (bill_of("fred", variant="A").watts or math.inf) < 179.35


EXPERIMENT: dict[str, Any] = {
    "fabrics": {"ring": {"topology": {"name": "torus", "dimensions": [4], "link_bandwidth": "10 GB/s"}}},
    "workloads": {"w": {"workload": {"name": "microbenchmark", "pattern": "all-gather", "size": "1 MB"}}},
}


def run(**changes: Any) -> Any:
    framework = Framework()
    return framework.run(framework.load_experiment({**EXPERIMENT, **changes}))


def test_an_experiment_may_have_prices_and_scopes() -> None:
    fabric = {**EXPERIMENT["fabrics"]["ring"], "scopes": ["fibre"]}
    content = {**EXPERIMENT, "prices": {"source": "us", "fibre": {"link": 1}}, "fabrics": {"ring": fabric}}
    result, framework = run(**content), Framework()
    (row,) = framework.compare(framework.load_experiment(content)).rows
    assert result.cost == row.cost == pytest.approx(8 * 10 * 1.0)
    assert result.bill.items[0].source == "us"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"prices": 3}, "prices"),
        ({"fabrics": {"ring": {"topology": "torus", "scopes": ["fibre"]}}}, "fabrics.ring.scopes[0]"),
        ({"fabrics": {"ring": {"topology": "torus", "scopes": 3}}}, "fabrics.ring.scopes"),
    ],
)
def test_wrong_prices_of_an_experiment_are_refused(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(key)}: "):
        run(**changes)


def test_a_stored_run_has_its_cost(tmp_path: Path) -> None:
    file, output = tmp_path / "x.toml", tmp_path / "run.json"
    file.write_text(
        '[fabrics.ring]\ntopology = { name = "torus", dimensions = [4], link_bandwidth = "10 GB/s" }\n'
        '[workloads.w]\nworkload = { name = "microbenchmark", pattern = "all-gather", size = "1 MB" }\n'
    )
    assert "cost of the network: $320 (prices: LIBRA" in succeeds("run", str(file), "--json", str(output))
    content = json.loads(output.read_text())
    assert content["cost"] == pytest.approx(320.0)
    assert content["bill"]["items"][0]["name"] == "links, inter-package"


def test_a_plugin_that_answers_something_else_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    torus = PluginManager.discover().topologies.get("torus")
    monkeypatch.setattr(torus, "cost", lambda *_: 17)
    with pytest.raises(PluginError, match=r"torus.*cost.*17"):
        run()
