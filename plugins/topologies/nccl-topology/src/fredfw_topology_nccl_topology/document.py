"""NCCL's topology file: its devices and their links, as the XML has them."""

import math
from collections.abc import Iterator
from xml.etree.ElementTree import Element  # holds what defusedxml parses

import defusedxml.ElementTree
from defusedxml import DefusedXmlException

from fredfw.errors import InputError
from fredfw_topology_nccl_topology import rates

_FORM = "the file that NCCL writes with NCCL_TOPO_DUMP_FILE, or one for NCCL_TOPO_FILE"
_GPU_CLASSES = "0x03", "0x12"
_NIC_CLASS = "0x02"
_NVSWITCH_CLASS = "0x068000"
_BRIDGE_CLASS = "0x068001"
_NVSWITCH_TARGET = "fffffff:ff:ff.0"
_SHOWN = 60
_LARGEST = 1e12


SWITCH, CPU = "NVSwitch", "a CPU"  # targets of NVLinks that are no GPU


class Device:
    """A CPU, a PCIe device, or a network card without one."""

    def __init__(self, element: Element, number: int, parent: int | None) -> None:
        self.element, self.parent = element, parent  # all that the file says of it; index of what it is attached to
        self.kind = _pci_kind(element) if element.tag == "pci" else element.tag  # or ``cpu`` or ``nic``
        self.name = _name(element, number)  # for messages: its bus id, the number of the CPU, or the ports of the card
        found = element.find("gpu")
        self.gpu = Element("gpu") if found is None else found  # what is known of a GPU, if anything is
        self.gcn = self.gpu.get("gcn", "")  # architecture of an AMD accelerator

    @property
    def sm(self) -> int:
        """Compute capability of a GPU, such as 80; 0 where it is not known."""
        return self.whole(self.gpu, "sm")

    @property
    def c2c(self) -> float:
        """Megabytes per second of the link of a GPU to the CPU, 0 without one."""
        return sum(_number(one, "bw", self.name) * self.whole(one, "count", 1) for one in self.gpu.findall("c2c"))

    def links(self) -> Iterator[tuple[str, float]]:
        """Yield targets of NVLinks or ``xgmi`` links (small bus id, ``SWITCH`` or ``CPU``) and all bytes/s to each."""
        for one in (*self.gpu.findall("nvlink"), *self.gpu.findall("xgmi")):
            target, tclass = one.get("target", "").lower(), one.get("tclass", "")
            if not target:
                raise _wrong(f"{self.name}.{one.tag}.target", "is missing", "the bus id of the other end")
            if (count := self.whole(one, "count", 1)) < 1:
                raise _wrong(f"{self.name}.{one.tag}.count", f"{count} is refused", "a whole number of at least 1")
            rate = rates.xgmi(self.gcn) if one.tag == "xgmi" or self.gcn else rates.nvlink(self.sm)
            if rate is None:
                raise _wrong(f"{self.name}.sm", f"{self.sm} is not a compute capability with NVLinks", "60 or more")
            if target == _NVSWITCH_TARGET or tclass.startswith(_NVSWITCH_CLASS):
                target = SWITCH
            elif tclass.startswith(_BRIDGE_CLASS):
                target = CPU
            yield target, rate * count

    @property
    def ports(self) -> list[tuple[str, float]]:
        """Name of each port of a network card, and its speed in Mb/s, 0 where the file does not say."""
        cards = self.element.findall("nic") if self.element.tag == "pci" else [self.element]
        return [port for card in cards for port in _ports(card)]

    def whole(self, element: Element, key: str, default: int = 0) -> int:
        return int(_number(element, key, self.name, default, whole=True))


def read(content: bytes) -> tuple[list[Device], set[str]]:
    """Return the devices, parents before children, and names of elements that are not used."""
    try:
        root = defusedxml.ElementTree.fromstring(content, forbid_dtd=True)
    except DefusedXmlException as error:
        raise InputError(f"has a DTD or an entity: {error}", accepted="XML without them") from None
    except (defusedxml.ElementTree.ParseError, LookupError, ValueError) as error:  # an encoding that does not exist
        raise InputError(f"is not XML: {error}", accepted=_FORM) from None
    if root.tag != "system":
        graph = "is a graph of NCCL: the rings and trees that it chose, not the topology"
        raise InputError(graph if root.tag == "graphs" else f"is {root.tag!r}, not 'system'", accepted=_FORM)
    devices, unused = dict[str, Device](), set[str]()
    pending: list[tuple[Element, int | None]] = [(one, None) for one in reversed(root)]
    while pending:
        element, parent = pending.pop()
        if element.tag not in _USED:
            unused.add(element.tag)
            continue
        device = Device(element, len(devices), parent)
        if device.name in devices:
            raise _wrong(device.name, "is there twice", "devices with different bus ids")
        nested = _USED if device.kind in ("cpu", "bridge", "other") else ("pci",)
        pending += [(one, len(devices)) for one in reversed(element) if one.tag in nested]
        if element.tag == "pci":
            unused |= {one.tag for one in element} - {"pci", "gpu", "nic", "pcilink"}
            unused |= {one.tag for one in device.gpu} - {"nvlink", "xgmi", "c2c"}
        devices[device.name] = device
    return list(devices.values()), unused


_USED = "pci", "nic", "cpu"


def _pci_kind(element: Element) -> str:
    written = element.get("class", "")
    if element.find("gpu") is not None or written.startswith(_GPU_CLASSES):
        return "gpu"
    if element.find("nic") is not None or written.startswith(_NIC_CLASS):
        return "nic"
    return "other" if element.find("pci") is None else "bridge"


def _name(element: Element, number: int) -> str:
    if element.tag == "cpu":
        return f"cpu{element.get('numaid', number)}"
    if element.tag == "nic":  # without a PCIe device of its own
        return "+".join(port for port, _ in _ports(element)) or f"nic{number}"
    if not (name := element.get("busid", "").lower()):
        raise _wrong("pci", "has no busid", "a bus id such as 0000:3b:00.0")
    return name


def _ports(card: Element) -> Iterator[tuple[str, float]]:
    for number, one in enumerate(card.findall("net")):
        name = one.get("name") or f"net{one.get('dev', number)}"
        yield name, _number(one, "speed", name)


def _number(element: Element, key: str, name: str, default: float = 0, *, whole: bool = False) -> float:
    if (text := element.get(key)) is None:
        return default
    try:
        number = int(text, 0) if whole else float(text)
    except ValueError:
        number = math.nan
    if not -_LARGEST < number < _LARGEST:
        accepted = "a whole number" if whole else "a number"
        raise _wrong(f"{name}.{key}", f"{text[:_SHOWN]!r} is not a number", accepted)
    return number


def _wrong(key: str, message: str, accepted: str) -> InputError:
    return InputError(message, key=key, accepted=accepted)
