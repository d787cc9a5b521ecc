import re
from pathlib import Path
from typing import Any

import pytest
from experiments import refused
from fabrics import gigabytes

import fredfw_topology_nccl_topology
from fredfw import Fabric, File, Framework, Level
from fredfw.testing import TopologyTests
from fredfw_topology_nccl_topology import NcclTopology, rates

SERVER = (Path(__file__).parent / "server.xml").read_text()
GB = 1e9


def read(folder: Path, text: str, **fields: Any) -> Fabric:
    file = folder / "topo.xml"
    file.write_text(text, encoding="utf-8")
    return NcclTopology(File.at(file), **fields).build()


def pair(gpus: str, cpu: str = 'vendor="GenuineIntel" familyid="6" modelid="85"') -> str:
    """Return a server whose two GPUs, on PCIe 3.0, hold ``gpus``, with {0} for the other's bus id."""
    parts = [
        f'<cpu numaid="{number}" arch="x86_64" {cpu}><pci busid="{own}" class="0x030200" link_speed="8 GT/s" '
        f'link_width="16"><gpu dev="{number}" sm="70">{gpus.format(other)}</gpu></pci></cpu>'
        for number, (own, other) in enumerate((("aa", "bb"), ("bb", "aa")))
    ]
    return f'<system version="1">{"".join(parts)}</system>'


def test_a_server_with_nvswitches(tmp_path: Path) -> None:
    fabric = read(tmp_path, SERVER)
    found = gigabytes(fabric)
    # NCCL: 20 GB/s an NVLink of sm 80, PCIe 4.0 x16 24 GB/s, PCIe 3.0 x16 12 GB/s, AMD sockets 16 GB/s.
    pcie = {"gpu0->cpu1": 12, "gpu1->bridge 0000:01:00.0": 24}
    switch = {"gpu0->nvswitch": 240, "gpu1->nvswitch": 240}
    assert {name: rate for name, rate in found.items() if name.startswith("gpu")} == pcie | switch
    assert found["cpu0->cpu1"] == found["cpu1->cpu0"] == 16
    assert found["mlx5_0->bridge 0000:01:00.0"] == 12
    assert fabric.levels == (Level(2, "switch", 240 * GB, 50e-9, name="node"),)
    assert not fabric.offers.reduces
    assert not fabric.notes


def test_nvswitches_of_hopper_combine_and_copy_and_blackwell_names_none(tmp_path: Path) -> None:
    fabric = read(tmp_path, SERVER.replace('sm="80"', 'sm="90"').replace('count="6"', 'count="9"'))
    assert fabric.levels[0].bandwidth == pytest.approx(18 * 20.6 * GB)
    assert fabric.offers.reduces
    assert Framework().simulate_collective(fabric, "all-reduce", size=1e6, algorithm="in-network").duration > 0
    text = re.sub(r'target="[^"]*"', 'target="fffffff:ff:ff.0"', SERVER).replace("0x068000", "0x0")
    text = text.replace('"80"', '"100"')
    assert read(tmp_path, text).levels[0].bandwidth == pytest.approx(12 * 40.1 * GB)


def test_gpus_that_are_connected_directly_even_in_one_direction(tmp_path: Path) -> None:
    text = pair('<nvlink target="{0}" count="2" tclass="0x030200"/>')
    fabric = read(tmp_path, text)
    assert gigabytes(fabric)["gpu0->gpu1"] == 40
    assert gigabytes(fabric)["cpu0->cpu1"] == 10  # Intel from Skylake on
    assert fabric.levels == (Level(2, "fully-connected", 40 * GB, 25e-9, name="node"),)
    fabric = read(tmp_path, text.replace('target="aa"', 'target="cc"'))
    assert gigabytes(fabric)["gpu1->gpu0"] == 40
    assert any("NVLinks from gpu0 to gpu1 in one direction" in note for note in fabric.notes)
    assert any("NVLinks of gpu1 to cc are left out" in note for note in fabric.notes)


def test_links_that_lead_nowhere_are_noted(tmp_path: Path) -> None:
    fabric = read(tmp_path, pair('<nvlink target="{0}" count="1" tclass="0x068001"/><c2c bw="25000" count="2"/>'))
    assert any("NVLinks of gpu0 to a CPU are left out" in note for note in fabric.notes)
    assert 50 in gigabytes(fabric).values()  # C2C, in MB/s
    fabric = read(tmp_path, pair('<nvlink target="aa" count="12" tclass="0x030200"/>'))
    assert any("NVLinks of gpu0 to itself are left out" in note for note in fabric.notes)


@pytest.mark.parametrize(("gcn", "rate"), [("906", 24), ("910", 36), ("gfx90a", 36), ("gfx942", 48)])
def test_xgmi(gcn: str, rate: float, tmp_path: Path) -> None:
    text = pair('<xgmi target="{0}" count="1" tclass="0x038000"/>').replace('sm="70"', f'sm="104" gcn="{gcn}"')
    assert gigabytes(read(tmp_path, text))["gpu0->gpu1"] == rate


TREE = """<system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
{gpus}<nic><net name="eth0" dev="0" speed="100000"/></nic><pci busid="ff" class="0x020700" link_speed="32 GT/s"/>
</cpu></system>""".format(
    gpus="".join(f'<pci busid="{n}" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>' for n in range(8))
)


def test_a_file_without_nvlinks(tmp_path: Path) -> None:
    fabric = read(tmp_path, TREE)
    assert len(fabric.npus) == 8
    assert gigabytes(fabric)["gpu3->cpu0"] == 48
    assert gigabytes(fabric)["eth0->cpu0"] == 12.5
    assert not fabric.levels
    assert [note.partition("topo.xml")[2] for note in fabric.notes] == [
        " does not number all GPUs: they are in the order of the file",
        " has no NVLinks: GPUs exchange over PCIe; preset names a machine with them",
    ]


def test_nvlinks_of_a_preset(tmp_path: Path) -> None:
    fabric = read(tmp_path, TREE, preset="dgx-h100")
    assert gigabytes(fabric)["gpu3->nvswitch"] == 450
    assert gigabytes(fabric)["gpu3->cpu0"] == 48
    assert fabric.levels[0].size == 8
    assert fabric.offers.reduces
    assert fabric.notes[-1].endswith("has no NVLinks: those of the preset dgx-h100 are used")


def test_the_rates_are_those_of_nccl() -> None:
    assert rates.pcie("", 0) == 12 * GB
    assert rates.pcie("99 GT/s", 4) == 3 * GB
    assert rates.network(0) == 1.25 * GB
    assert rates.nvlink(89) == 12 * GB
    assert rates.nvlink(35) is None
    assert rates.between_cpus("x86_64", "GenuineIntel", 6, 0xCF) == 40 * GB
    assert rates.between_cpus("x86_64", "GenuineIntel", 6, 79) == 6 * GB
    assert rates.between_cpus("arm64", "ARM", 0, 0) == 6 * GB
    assert rates.between_cpus("ppc64", "IBM", 0, 0) == 32 * GB


def test_cpus_that_nccl_does_not_know_and_elements_that_are_not_used_are_noted(tmp_path: Path) -> None:
    fabric = read(tmp_path, pair("", cpu='vendor="Acme"'))
    assert gigabytes(fabric)["cpu0->cpu1"] == 10
    assert any("NCCL knows no rate between cpu0 and cpu1" in note for note in fabric.notes)
    fabric = read(tmp_path, SERVER.replace("<nic>", "<fan/><nic>"))
    assert fabric.notes[-1].endswith("not used: fan")


BOMB = '<!DOCTYPE system [<!ENTITY a "1"><!ENTITY b "&a;&a;">]><system version="&b;"/>'


@pytest.mark.parametrize(
    ("text", "fields", "key", "message"),
    [
        (BOMB, {}, None, "has a DTD or an entity"),
        ("<graphs version='1'/>", {}, None, "is a graph of NCCL"),
        ("<topology/>", {}, None, "is 'topology', not 'system'"),
        ("<system>", {}, None, "is not XML"),
        ("<system/>", {}, None, "there is no GPU"),
        (SERVER.replace('dev="1"', 'dev="0"', 1), {}, "gpu.dev", "0 is there twice"),
        (SERVER.replace('sm="80"', 'sm="tbd"', 1), {}, "0000:03:00.0.sm", "'tbd' is not a number"),
        (SERVER.replace('sm="80"', 'sm="30"', 1), {}, "0000:03:00.0.sm", "30 is not a compute capability"),
        (SERVER.replace('count="6"', 'count="0"', 1), {}, "0000:03:00.0.nvlink.count", "0 is refused"),
        (SERVER.replace('link_width="8"', 'link_width="x8"'), {}, "0000:04:00.0.link_width", "'x8' is not a number"),
        (SERVER.replace('speed="200000"', 'speed="nan"'), {}, "mlx5_0.speed", "'nan' is not a number"),
        (SERVER.replace('busid="0000:01:00.0"', ""), {}, "pci", "has no busid"),
        (SERVER.replace("0000:81:00.0", "0000:03:00.0"), {}, "0000:03:00.0", "is there twice"),
        (SERVER, {"preset": "dgx-a100"}, "preset", "is given, and the file has NVLinks"),
        (TREE, {"preset": "gb200-nvl72"}, "preset", "has 72 NPUs, and the file has 8 GPUs"),
    ],
)
def test_bad_input(text: str, fields: dict[str, Any], key: str | None, message: str, tmp_path: Path) -> None:
    with refused(key, message, file=str(tmp_path / "topo.xml")):
        read(tmp_path, text, **fields)


def test_a_file_may_be_nested_deeply(tmp_path: Path) -> None:
    opened = "".join(f'<pci busid="{n}" class="0x060400">' for n in range(3000))
    gpu = '<pci busid="g" class="0x030200"/>'
    fabric = read(tmp_path, f'<system><cpu numaid="0">{opened}{gpu}{"</pci>" * 3000}</cpu></system>')
    assert len(fabric.npus) == 1


class TestNcclTopology(TopologyTests):
    plugin = fredfw_topology_nccl_topology
    topologies = (NcclTopology(File.at(Path(__file__).parent / "server.xml"), pcie_latency=1e-7),)
