from pathlib import Path
from typing import Any

import pytest
from experiments import refused
from fabrics import gigabytes

import fredfw_topology_nvidia_smi_topo
from fredfw import Fabric, File, Framework, Level
from fredfw.testing import TopologyTests
from fredfw_topology_nvidia_smi_topo import NvidiaSmiTopo

SERVER = (Path(__file__).parent / "topo.txt").read_text()
GB = 1e9


def read(folder: Path, text: str, **fields: Any) -> Fabric:
    file = folder / "topo.txt"
    file.write_text(text, encoding="utf-8")
    return NvidiaSmiTopo(File.at(file), **fields).build()


def test_many_links_alike_lead_to_an_nvswitch(tmp_path: Path) -> None:
    fabric = read(tmp_path, SERVER)
    assert gigabytes(fabric, 2) == {
        **{f"GPU{number}->NVSwitch": 300 for number in range(4)},
        # NIC0 is beside GPU0, NIC1 beside GPU2; GPU1 and GPU3 are on the CPUs themselves.
        **dict.fromkeys(("PCIe0->CPU0", "GPU0->PCIe0", "GPU1->CPU0", "mlx5_0->PCIe0"), 24),
        **dict.fromkeys(("PCIe1->CPU1", "GPU2->PCIe1", "GPU3->CPU1", "mlx5_7->PCIe1"), 24),
        "CPU0->CPU1": 16,
    }
    assert fabric.levels == (Level(4, "switch", 300 * GB, 50e-9, name="node"),)
    assert fabric.notes[0].endswith("does not say where NVLinks lead: to one NVSwitch is assumed")
    result = Framework().simulate_collective(fabric, "broadcast", size=1e9, group=[0, 3], algorithm="direct")
    assert result.duration == pytest.approx(1 / 300 + 50e-9, rel=1e-12)
    assert fabric.notes[0] in result.notes


@pytest.mark.parametrize(("text", "fields"), [(SERVER, {"nvswitch": False}), (SERVER.replace("NV12", "NV4"), {})])
def test_few_links_lead_from_gpu_to_gpu(text: str, fields: dict[str, Any], tmp_path: Path) -> None:
    fabric = read(tmp_path, text, **fields)
    each = 300 if fields else 100
    found = {name: rate for name, rate in gigabytes(fabric, 2).items() if name.startswith("GPU0->GPU")}
    assert found == {f"GPU0->GPU{other}": each for other in (1, 2, 3)}
    assert fabric.levels == (Level(4, "fully-connected", each * GB, 25e-9, name="node"),)
    assert fabric.notes[0].endswith("from GPU to GPU is assumed")


def test_links_that_differ_are_no_level_and_a_server_may_have_none(tmp_path: Path) -> None:
    # The beginning of a DGX-1: GPU0 and GPU3 have no NVLink, so their messages take the fewest hops, over GPU1.
    rows = ["GPU0\tGPU1\tGPU2\tGPU3", "GPU0\tX\tNV1\tNV2\tSYS", "GPU1\tNV1\tX\tSYS\tNV2"]
    rows += ["GPU2\tNV2\tSYS\tX\tNV1", "GPU3\tSYS\tNV2\tNV1\tX"]
    fabric = read(tmp_path, "\t" + "\n".join(rows))
    assert not fabric.levels
    result = Framework().simulate_collective(fabric, "broadcast", size=1e9, group=[0, 3], algorithm="direct")
    assert result.duration == pytest.approx(1 / 25 + 50e-9, rel=1e-12)
    fabric = read(tmp_path, "\tGPU0\tGPU1\nGPU0\tX\tPHB\nGPU1\tPHB\tX\n", pcie="12 GB/s")
    assert gigabytes(fabric, 2) == {"GPU0->CPU0": 12, "GPU1->CPU0": 12}
    assert fabric.notes[0].endswith("has no NVLinks: GPUs exchange over PCIe")


def test_escapes_of_a_terminal_are_passed_over(tmp_path: Path) -> None:
    head, rest = SERVER.split("\n", 1)
    head = head.replace("GPU", "\x1b[4mGPU").replace("\t", "\x1b[0m\t")
    assert gigabytes(read(tmp_path, f"$ nvidia-smi topo -m\n{head}\n{rest}"), 2) == gigabytes(read(tmp_path, SERVER), 2)


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("", None, "has no matrix"),
        (SERVER.replace("GPU1\tNV12", "GPUx\tNV12"), "GPU1", "has no row"),
        (SERVER.replace("GPU3\tNIC0", "GPU2\tNIC0"), None, "a device is there twice"),
        (SERVER.replace("NV12", "NVx", 1), "GPU0, GPU1", "line 2: 'NVx' is not a connection"),
        (SERVER.replace("NV12", "NV0", 1), "GPU0, GPU1", "line 2: 'NV0' is not a connection"),
        (SERVER.replace("NV12", "NV6", 1), "GPU0, GPU1", "'NV6' there and 'NV12' back"),
        (SERVER.replace("NODE", "X"), "GPU1, NIC0", "'X' is refused"),
        (SERVER.replace("NIC1\tSYS\tSYS\tPXB\tPHB\tSYS\t X", "NIC1\tSYS"), "NIC1", "line 7: 1 values for 6 devices"),
    ],
)
def test_bad_input(text: str, key: str | None, message: str, tmp_path: Path) -> None:
    with refused(key, message, file=str(tmp_path / "topo.txt")):
        read(tmp_path, text)


class TestNvidiaSmiTopo(TopologyTests):
    plugin = fredfw_topology_nvidia_smi_topo
    topologies = (
        NvidiaSmiTopo(File.at(Path(__file__).parent / "topo.txt")),
        NvidiaSmiTopo(File.at(Path(__file__).parent / "topo.txt"), nvswitch=False, pcie_latency=1e-7),
    )
