"""Files of machines that other programs wrote; they are no part of the checkout, and may be beside it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fredfw import Fabric, Framework
from fredfw.cli import main
from fredfw.errors import InputError

_PLACES = (parent / "shared" / "samples" for parent in Path(__file__).resolve().parents)
SAMPLES = next((one for one in _PLACES if (one / "topology").is_dir()), None)
pytestmark = pytest.mark.skipif(SAMPLES is None, reason="there are no samples beside the checkout")
GIB = 2**30 / 1e9
FOLDERS = {
    "astra-sim-network": "astra/network",
    "nccl-topology": "topology/nccl",
    "nvidia-smi-topo": "topology/smi",
    "simai": "topology/simai",
}


def built(topology: str, name: str, **fields: Any) -> Fabric:
    assert SAMPLES is not None
    return Framework().topology(topology, file=str(SAMPLES / FOLDERS[topology] / name), **fields).build()


@pytest.mark.parametrize(
    ("topology", "name", "fields", "npus", "levels", "rates"),
    [
        ("astra-sim-network", "examples_HGX-H100-validated.yml", {}, 8, ["switch 8"], [400 * GIB]),
        ("astra-sim-network", "inputs_hgx_h100_32gpu.yml", {}, 32, ["switch 8", "ring 4"], [50 * GIB, 400 * GIB]),
        ("astra-sim-network", "inputs_tpu_v3_32_2dtorus.yml", {}, 32, ["ring 4", "ring 8"], [80 * GIB]),
        # 12 NVLinks of 20 GB/s of an A100, four to each other GPU.
        ("nccl-topology", "simllm_perlmutter_a100_4gpu.xml", {}, 4, ["fully-connected 4"], [16, 24, 80]),
        ("nccl-topology", "rccl_topo_4p1h.xml", {}, 4, [], [12, 24]),
        ("nccl-topology", "rccl_topo_8p_90a.xml", {}, 8, [], [0.1875, 6, 24, 36]),
        ("nccl-topology", "rccl_topo_collnet_n4.xml", {}, 8, [], [16, 24]),
        # NCCL's own graph of this machine has speedintra="12".
        ("nccl-topology", "azure_ncv4-topo.xml", {}, 4, [], [12, 12.5, 16]),
        ("nccl-topology", "azure_ndv2-topo.xml", {}, 8, [], [10, 24]),
        ("nccl-topology", "azure_ndv4-topo.xml", {"preset": "dgx-a100"}, 8, ["switch 8"], [16, 24, 300]),
        ("nccl-topology", "azure_ndv5-topo.xml", {}, 8, [], [22, 48]),
        ("nvidia-smi-topo", "topo_m_hgx_h200.txt", {}, 8, ["switch 8"], [16, 24, 450]),
        ("nvidia-smi-topo", "topo_m_perlmutter_a100.txt", {}, 4, ["fully-connected 4"], [16, 24, 100]),
        ("simai", "DCN+SingleToR_16g_8gps_400Gbps_H100", {}, 16, ["switch 8", "switch 2"], [50, 360]),
        ("simai", "Spectrum-X_16g_8gps_400Gbps_H100", {}, 16, ["switch 8", "switch 2"], [50, 360]),
    ],
)
def test_machines(
    topology: str, name: str, fields: dict[str, Any], npus: int, levels: list[str], rates: list[float]
) -> None:
    fabric = built(topology, name, **fields)
    assert len(fabric.npus) == npus
    assert [f"{one.kind} {one.size}" for one in fabric.levels] == levels
    np.testing.assert_allclose(np.unique(fabric.bandwidths) / 1e9, rates)
    assert Framework().simulate_collective(fabric, "all-reduce", size="1 MB", algorithm="ring").duration > 0


def test_a_network_whose_values_are_to_be_done() -> None:
    with pytest.raises(InputError, match=r"bandwidth\[0\]: 'tbd' is refused"):
        built("astra-sim-network", "inputs_dgx_v100_8gpu.yml")


# 14 steps of 131,072 B at 50 x 2^30 B/s, 1 us and 10 ns each; two all-reduces of 4 ranks with a computation between.
BY_HAND = {"T1D": 14 * (131_072 / (50 * 2**30) + 1.01e-6), "T2D": 2 * 6 * (262_144 / (50 * 2**30) + 1.01e-6) + 100e-6}


@pytest.mark.parametrize("name", BY_HAND)
def test_complete_inputs_run(name: str, tmp_path: Path) -> None:
    pytest.importorskip("fredfw_workload_chakra")
    assert SAMPLES is not None
    output = tmp_path / "experiment.toml"
    folder = SAMPLES / "chakra" / f"groups_{name}-analytical"
    result = CliRunner().invoke(main, ["import", "astra-sim", str(folder), "--output", str(output)])
    assert result.exit_code == 0, result.output
    framework = Framework()
    (row,) = framework.compare(framework.load_experiment(output)).rows
    assert row.seconds == pytest.approx(BY_HAND[name], rel=1e-9)
