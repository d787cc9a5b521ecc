"""The topology ``nvidia-smi-topo``: a server from the matrix of ``nvidia-smi topo -m``."""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import combinations, takewhile
from typing import ClassVar

import numpy as np
from attrs import define, field, frozen

from fredfw import Fabric, File, Level, NodeKind, Topology, units
from fredfw.errors import InputError

__all__ = ["NvidiaSmiTopo"]

fredfw_contract = 2

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_DEVICE = re.compile(r"GPU\d+|NIC\d+|mlx\d+_\w+")
_NVLINKS = re.compile(r"NV([1-9]\d{0,2})")
_LEGEND = re.compile(r"\s*(NIC\d+)\s*:\s*(\S+)\s*")
_AFFINITY = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
PCIE = "PIX", "PXB", "PHB", "NODE", "SYS"
"""What a path over PCIe crosses at most, from one bridge to the link between NUMA nodes."""
_FORM = "the text that nvidia-smi topo -m prints"


class Matrix:
    """Who is connected to whom: ``NV#`` or one of ``PCIE`` for each pair of different GPUs and network cards."""

    def __init__(self, text: str) -> None:
        lines = [_ESCAPES.sub("", line).split() for line in text.splitlines()]
        start = next((index for index, words in enumerate(lines) if words[:1] == ["GPU0"]), None)
        if start is None:
            raise InputError("has no matrix", accepted=_FORM)
        devices = list(takewhile(_DEVICE.fullmatch, lines[start]))
        if len(set(devices)) < len(devices):
            raise InputError(f"line {start + 1}: a device is there twice", accepted=_FORM)
        rows = dict[str, list[str]]()
        self.affinity = dict[str, str]()  # the CPUs of a GPU, as written, where the text says
        for index, words in enumerate(lines[start + 1 :], start + 2):
            if not words or words[0] not in devices or words[0] in rows:
                continue
            row, rest = words[1 : len(devices) + 1], words[len(devices) + 1 :]
            if len(row) < len(devices):
                message = f"line {index}: {len(row)} values for {len(devices)} devices"
                raise InputError(message, key=words[0], accepted=_FORM)
            for column, cell in zip(devices, row, strict=True):
                if cell not in (*PCIE, "X") and not _NVLINKS.fullmatch(cell):
                    known = f"X, NV and a number, {', '.join(PCIE)}"
                    message = f"line {index}: {cell!r} is not a connection"
                    raise InputError(message, key=f"{words[0]}, {column}", accepted=known)
            rows[words[0]] = row
            if rest and _AFFINITY.fullmatch(rest[0]):
                self.affinity[words[0]] = rest[0]
        # what the legend calls a card
        self.names = {match[1]: match[2] for line in text.splitlines() if (match := _LEGEND.fullmatch(line))}
        for device in devices:
            if device not in rows:
                raise InputError("has no row", key=device, accepted="a row for each column")
        self.cells = {
            (one, other): rows[one][place] for one in devices for place, other in enumerate(devices) if one != other
        }
        self._check()
        self.gpus = sorted((one for one in devices if one.startswith("GPU")), key=lambda name: int(name[3:]))
        self.cards = [one for one in devices if not one.startswith("GPU")]

    def _check(self) -> None:
        for (one, other), cell in self.cells.items():
            key = f"{one}, {other}"
            if cell != self.cells[other, one]:
                message = f"{cell!r} there and {self.cells[other, one]!r} back"
                raise InputError(message, key=key, accepted="the same both ways")
            if cell == "X" or (_NVLINKS.fullmatch(cell) and not (one.startswith("GPU") and other.startswith("GPU"))):
                raise InputError(f"{cell!r} is refused", key=key, accepted=", ".join(PCIE))

    def nvlinks(self, one: str, other: str) -> int:
        match = _NVLINKS.fullmatch(self.cells[one, other])
        return int(match[1]) if match else 0


_MOST_LINKS = 18  # NVLinks of a GPU, up to Blackwell. More to all others together means that there are NVSwitches.


@frozen
class NvidiaSmiTopo(Topology):
    """A server from the text of ``nvidia-smi topo -m``: GPUs, NVLinks, network cards, PCIe as far as it says.

    NV# is a number of NVLinks. The text does not say whether they lead to an NVSwitch. They do if all pairs have the
    same number and a GPU would need more than 18 NVLinks for all others; ``nvswitch`` decides otherwise. Devices that
    are joined by PIX or PXB are on one PCIe switch. Those joined by PHB or NODE, or with the same CPU affinity,
    are on one CPU. All CPUs are connected. The text has neither bandwidths nor latencies; they are fields.
    """

    name: ClassVar[str] = "nvidia-smi-topo"

    file: File = units.file(help="text that nvidia-smi topo -m prints")
    nvswitch: bool | None = units.flag(None, help="whether NVLinks lead to NVSwitches; default: as far as they must")
    nvlink: float = units.bandwidth(
        "25 GB/s", help="of an NVLink, per direction: 25 GB/s for V100 to H100, 50 for B200"
    )
    nvlink_latency: float = units.duration("25 ns", help="latency of an NVLink")
    pcie: float = units.bandwidth("24 GB/s", help="of a PCIe link, per direction; 24 GB/s is what PCIe 4.0 x16 reaches")
    pcie_latency: float = units.duration(0.0, help="latency of a PCIe link, and of one between CPUs")
    cpus: float = units.bandwidth("16 GB/s", help="between two CPUs, per direction")

    def __attrs_post_init__(self) -> None:
        _ = self.matrix

    @cached_property
    def matrix(self) -> Matrix:
        """The matrix of the file."""
        with self.file.named():
            return Matrix(self.file.text())

    def build(self) -> Fabric:
        return _Server(self, self.matrix).fabric()


@define
class _Server:
    """A fabric in the making: GPUs, the NVSwitch, then what PCIe connects, for shortest paths prefer lower numbers."""

    topology: NvidiaSmiTopo
    matrix: Matrix
    kinds: list[NodeKind] = field(factory=list)
    names: list[str] = field(factory=list)
    links: list[tuple[int, int, float, float]] = field(factory=list)

    def fabric(self) -> Fabric:
        gpus = {name: self._add(NodeKind.NPU, name) for name in self.matrix.gpus}
        level, note = self._nvlinks(gpus)
        self._pcie(gpus)
        sources, destinations, bandwidths, latencies = np.array(self.links).T
        npu = np.array(self.kinds) == NodeKind.NPU
        return Fabric(
            name=self.topology.file.name,
            kinds=np.array(self.kinds),
            sources=sources,
            destinations=destinations,
            bandwidths=bandwidths,
            latencies=latencies,
            energies=0.0,
            levels=(level,) if level else (),
            coordinates=np.arange(len(gpus))[:, None] if level else None,
            copies=npu,
            reduces=npu,
            node_names=self.names.__getitem__,
            notes=(note,),
        )

    def _add(self, kind: NodeKind, name: str) -> int:
        self.kinds.append(kind)
        self.names.append(name)
        return len(self.kinds) - 1

    def _cable(self, one: int, other: int, bandwidth: float, latency: float) -> None:
        self.links += [(one, other, bandwidth, latency), (other, one, bandwidth, latency)]

    def _nvlinks(self, gpus: dict[str, int]) -> tuple[Level | None, str]:
        """Add the NVLinks; return the level that the GPUs are, and what was assumed."""
        of, path, count = self.topology, self.topology.file.path, len(gpus)
        joined = {pair: self.matrix.nvlinks(*pair) for pair in combinations(self.matrix.gpus, 2)}
        each = max(joined.values(), default=0)
        alike = bool(each) and min(joined.values()) == each
        if (switched := of.nvswitch) is None:
            switched = alike and each * (count - 1) > _MOST_LINKS
        if switched and each:
            switch = self._add(NodeKind.SWITCH, "NVSwitch")
            for name, number in gpus.items():
                if most := max(joined[pair] for pair in joined if name in pair):
                    self._cable(number, switch, most * of.nvlink, of.nvlink_latency)
            level = Level(count, "switch", each * of.nvlink, 2 * of.nvlink_latency, name="node") if alike else None
            return level, f"{path} does not say where NVLinks lead: to one NVSwitch is assumed"
        for (one, other), number in joined.items():
            if number:
                self._cable(gpus[one], gpus[other], number * of.nvlink, of.nvlink_latency)
        if not each:
            return None, f"{path} has no NVLinks: GPUs exchange over PCIe"
        level = Level(count, "fully-connected", each * of.nvlink, of.nvlink_latency, name="node") if alike else None
        return level, f"{path} does not say where NVLinks lead: from GPU to GPU is assumed"

    def _pcie(self, gpus: dict[str, int]) -> None:
        of = self.topology
        devices = (*self.matrix.gpus, *self.matrix.cards)
        node = dict(gpus)
        for card in self.matrix.cards:
            node[card] = self._add(NodeKind.SWITCH, self.matrix.names.get(card, card))
        close = _groups(devices, lambda one, other: self.matrix.cells[one, other] in ("PIX", "PXB"))
        near = _groups(devices, self._on_one_cpu)
        first_of_cpus = dict.fromkeys(near.values())
        cpus = {device: self._add(NodeKind.SWITCH, f"CPU{number}") for number, device in enumerate(first_of_cpus)}
        switches = dict[str, int]()
        for device in devices:
            first = close[device]
            if list(close.values()).count(first) == 1:
                self._cable(node[device], cpus[near[device]], of.pcie, of.pcie_latency)
                continue
            if first not in switches:
                switches[first] = self._add(NodeKind.SWITCH, f"PCIe{len(switches)}")
                self._cable(switches[first], cpus[near[device]], of.pcie, of.pcie_latency)
            self._cable(node[device], switches[first], of.pcie, of.pcie_latency)
        for one, other in combinations(cpus.values(), 2):
            self._cable(one, other, of.cpus, of.pcie_latency)

    def _on_one_cpu(self, one: str, other: str) -> bool:
        affinity = self.matrix.affinity
        alike = one in affinity and affinity.get(one) == affinity.get(other)
        return alike or self.matrix.cells[one, other] in ("PIX", "PXB", "PHB", "NODE")


def _groups(devices: Iterable[str], joined: Callable[[str, str], bool]) -> dict[str, str]:
    """Return the first device of the group that each is in: those that are joined, one by one."""
    group = {device: device for device in devices}
    for one, other in combinations(group, 2):
        if joined(one, other) and group[one] != group[other]:
            kept, gone = group[one], group[other]
            group = {device: kept if found == gone else found for device, found in group.items()}
    return group
