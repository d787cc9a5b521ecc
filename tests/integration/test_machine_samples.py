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
GB = 1e9


def built(topology: str, name: str, **fields: Any) -> Fabric:
    assert SAMPLES is not None
    return Framework().topology(topology, file=str(SAMPLES / name), **fields).build()


@pytest.mark.parametrize(
    ("name", "title", "bandwidths"),
    [
        ("analytical_Ring_FullyConnected_Switch", "Ring(2)_FullyConnected(8)_Switch(4)", [50, 100, 200]),
        ("examples_HGX-H100-validated", "Switch(8)", [400]),
        ("inputs_hgx_h100_32gpu", "Switch(8)_Ring(4)", [50, 400]),
        ("inputs_tpu_v3_32_2dtorus", "Ring(4)_Ring(8)", [80]),
        ("inputs_dgx_v100_4gpu", "Ring(4)", [3.125]),
    ],
)
def test_networks_of_astra_sim(name: str, title: str, bandwidths: list[float]) -> None:
    fabric = built("astra-sim-network", f"astra/network/{name}.yml")
    assert fabric.name == title
    np.testing.assert_allclose(np.unique(fabric.bandwidths / 2**30), bandwidths)


def test_a_network_whose_values_are_to_be_done() -> None:
    with pytest.raises(InputError, match=r"bandwidth\[0\]: 'tbd' is refused"):
        built("astra-sim-network", "astra/network/inputs_dgx_v100_8gpu.yml")


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


@pytest.mark.parametrize(
    ("name", "gpus", "level", "rates"),
    [
        # 12 NVLinks of 20 GB/s of an A100, four to each other GPU.
        ("simllm_perlmutter_a100_4gpu", 4, ("fully-connected", 80), [16, 24, 80]),
        ("rccl_topo_4p1h", 4, None, [12, 24]),
        ("rccl_topo_8p_90a", 8, None, [0.1875, 6, 24, 36]),
        ("rccl_topo_collnet_n4", 8, None, [16, 24]),
        # NCCL's own graph of this machine has speedintra="12".
        ("azure_ncv4-topo", 4, None, [12, 12.5, 16]),
        ("azure_ndv2-topo", 8, None, [10, 24]),
        ("azure_ndv4-topo", 8, None, [16, 24]),
        ("azure_ndv5-topo", 8, None, [22, 48]),
    ],
)
def test_servers_of_nccl(name: str, gpus: int, level: tuple[str, float] | None, rates: list[float]) -> None:
    fabric = built("nccl-topology", f"topology/nccl/{name}.xml")
    assert len(fabric.npus) == gpus
    assert [(one.kind, one.bandwidth / GB) for one in fabric.levels] == ([level] if level else [])
    np.testing.assert_allclose(np.unique(fabric.bandwidths) / GB, rates)
    assert Framework().simulate_collective(fabric, "all-reduce", size="1 MB", algorithm="ring").duration > 0


@pytest.mark.parametrize(("name", "preset", "rate"), [("azure_ndv4", "dgx-a100", 300), ("azure_ndv5", "dgx-h100", 450)])
def test_nvlinks_from_a_preset(name: str, preset: str, rate: float) -> None:
    fabric = built("nccl-topology", f"topology/nccl/{name}-topo.xml", preset=preset)
    assert fabric.levels[0].bandwidth == rate * GB
    assert any(f"those of the preset {preset} are used" in note for note in fabric.notes)


@pytest.mark.parametrize(
    ("name", "kind", "rate"), [("topo_m_hgx_h200", "switch", 450), ("topo_m_perlmutter_a100", "fully-connected", 100)]
)
def test_matrices_of_nvidia_smi(name: str, kind: str, rate: float) -> None:
    (level,) = built("nvidia-smi-topo", f"topology/smi/{name}.txt").levels
    assert (level.kind, level.bandwidth) == (kind, rate * GB)


@pytest.mark.parametrize(
    ("name", "nodes", "links", "rate"),
    [
        ("AlibabaHPN_16g_8gps_DualToR_SinglePlane_200Gbps_H100", 35, 64, 50),
        ("DCN+SingleToR_16g_8gps_400Gbps_H100", 20, 33, 50),
        ("Spectrum-X_16g_8gps_400Gbps_H100", 27, 40, 50),
    ],
)
def test_topologies_of_simai(name: str, nodes: int, links: int, rate: float) -> None:
    fabric = built("simai", f"topology/simai/{name}")
    assert (len(fabric.kinds), len(fabric.sources)) == (nodes, 2 * links)
    assert [(one.size, one.bandwidth / GB) for one in fabric.levels] == [(8, 360), (2, rate)]
