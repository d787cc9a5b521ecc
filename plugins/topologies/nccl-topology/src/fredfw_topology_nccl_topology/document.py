"""NCCL's topology file: its devices and their links, as the XML has them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from xml.etree.ElementTree import Element  # for the type alone: defusedxml parses

import defusedxml.ElementTree
from attrs import define, field, frozen
from defusedxml import DefusedXmlException

from fredfw.errors import InputError

_FORM = "the file that NCCL writes with NCCL_TOPO_DUMP_FILE, or one for NCCL_TOPO_FILE"
_GPU_CLASSES = "0x03", "0x12"
_NIC_CLASS = "0x02"
_NVSWITCH_CLASS = "0x068000"
_BRIDGE_CLASS = "0x068001"
_NVSWITCH_TARGET = "fffffff:ff:ff.0"


@frozen
class Link:
    """NVLinks or ``xgmi`` links of a GPU to one target: a bus id in small letters, an NVSwitch, or the CPU."""

    target: str
    count: int
    switch: bool
    cpu: bool
    xgmi: bool


@frozen
class Gpu:
    """What is known of a GPU.

    Args:
        dev: Its number.
        sm: Compute capability, such as 80; 0 where it is not known.
        gcn: Architecture of an AMD accelerator.
        links: To other GPUs, and to NVSwitches.
        c2c: Megabytes per second of its link to the CPU, 0 without one.
    """

    dev: int | None = None
    sm: int = 0
    gcn: str = ""
    links: tuple[Link, ...] = ()
    c2c: float = 0.0


@frozen
class Device:
    """A CPU, or a PCIe device.

    Args:
        kind: ``cpu``, ``bridge``, ``gpu``, ``nic`` or ``other``.
        name: For messages: its bus id, or the number of the CPU.
        parent: Index of what it is attached to, or ``None``.
        speed: Of its PCIe link, as written; empty where there is none.
        width: Lanes of that link, 0 where they are not known.
        gpu: What is known of a GPU.
        ports: Name of each port of a network card, and its speed in Mb/s, 0 where the file does not say.
        cpu: Architecture, vendor, family and model of a CPU.
    """

    kind: str
    name: str
    parent: int | None = None
    speed: str = ""
    width: int = 0
    gpu: Gpu = Gpu()
    ports: tuple[tuple[str, float], ...] = ()
    cpu: tuple[str, str, int, int] = ("", "", 0, 0)


@define
class Document:
    """What a file has: devices, parents before children, and names of elements that are not used."""

    devices: list[Device] = field(factory=list)
    unused: set[str] = field(factory=set)


def read(content: bytes) -> Document:
    """Return what is in a topology file; raises ``InputError`` that names device and attribute."""
    try:
        root = defusedxml.ElementTree.fromstring(content, forbid_dtd=True)
    except DefusedXmlException as error:
        raise InputError(f"has a DTD or an entity: {error}", accepted="XML without them") from None
    except (defusedxml.ElementTree.ParseError, LookupError, ValueError) as error:  # an encoding that does not exist
        raise InputError(f"is not XML: {error}", accepted=_FORM) from None
    if root.tag != "system":
        graph = "is a graph of NCCL: the rings and trees that it chose, not the topology"
        raise InputError(graph if root.tag == "graphs" else f"is {root.tag!r}, not 'system'", accepted=_FORM)
    found, names = Document(), set[str]()
    pending: list[tuple[Element, int | None]] = [(one, None) for one in reversed(root)]
    while pending:
        element, parent = pending.pop()
        device = _device(element, parent, found)
        if device is None:
            continue
        if device.name in names:
            raise _wrong(device.name, "is there twice", "devices with different bus ids")
        names.add(device.name)
        nested = ("pci", "nic", "cpu") if device.kind in ("cpu", "bridge", "other") else ("pci",)
        pending += [(one, len(found.devices)) for one in reversed(element) if one.tag in nested]
        found.devices.append(device)
    return found


def _device(element: Element, parent: int | None, found: Document) -> Device | None:
    if element.tag == "cpu":
        name = f"cpu{element.get('numaid', len(found.devices))}"
        family, model = (_whole(element, key, name) for key in ("familyid", "modelid"))
        return Device("cpu", name, cpu=(element.get("arch", ""), element.get("vendor", ""), family, model))
    if element.tag == "nic":  # without a PCIe device of its own
        ports = tuple(_ports(element))
        return Device("nic", "+".join(port for port, _ in ports) or f"nic{len(found.devices)}", parent, ports=ports)
    if element.tag == "pci":
        return _pci(element, parent, found)
    found.unused.add(element.tag)
    return None


def _pci(element: Element, parent: int | None, found: Document) -> Device:
    name = element.get("busid", "").lower()
    if not name:
        raise _wrong("pci", "has no busid", "a bus id such as 0000:3b:00.0")
    written, gpu, nics = element.get("class", ""), element.find("gpu"), element.findall("nic")
    if gpu is not None or written.startswith(_GPU_CLASSES):
        kind = "gpu"
    elif nics or written.startswith(_NIC_CLASS):
        kind = "nic"
    else:
        kind = "other" if element.find("pci") is None else "bridge"
    width = _whole(element, "link_width", name)
    known = Gpu() if gpu is None else _gpu(gpu, name, found)
    found.unused |= {one.tag for one in element} - {"pci", "gpu", "nic", "pcilink"}
    ports = tuple(port for one in nics for port in _ports(one))
    return Device(kind, name, parent, element.get("link_speed", ""), width, known, ports)


def _gpu(element: Element, name: str, found: Document) -> Gpu:
    links = tuple(_links(element, name))
    c2c = sum(_number(one, "bw", name) * _whole(one, "count", name, 1) for one in element.findall("c2c"))
    found.unused |= {one.tag for one in element} - {"nvlink", "xgmi", "c2c"}
    dev, sm = _whole(element, "dev", name, -1), _whole(element, "sm", name)
    return Gpu(None if dev < 0 else dev, sm, element.get("gcn", ""), links, c2c)


def _links(element: Element, name: str) -> Iterator[Link]:
    for one in (*element.findall("nvlink"), *element.findall("xgmi")):
        target, tclass = one.get("target", "").lower(), one.get("tclass", "")
        if not target:
            raise _wrong(f"{name}.{one.tag}.target", "is missing", "the bus id of the other end")
        count = _whole(one, "count", name, 1)
        if count < 1:
            raise _wrong(f"{name}.{one.tag}.count", f"{count} is refused", "a whole number of at least 1")
        switch = target == _NVSWITCH_TARGET or tclass.startswith(_NVSWITCH_CLASS)
        yield Link(target, count, switch, tclass.startswith(_BRIDGE_CLASS), one.tag == "xgmi")


def _ports(element: Element) -> Iterator[tuple[str, float]]:
    for number, one in enumerate(element.findall("net")):
        name = one.get("name") or f"net{one.get('dev', number)}"
        yield name, _number(one, "speed", name)


def _whole(element: Element, key: str, name: str, default: int = 0) -> int:
    return int(_number(element, key, name, default, whole=True))


def _number(element: Element, key: str, name: str, default: float = 0, *, whole: bool = False) -> float:
    text = element.get(key)
    if text is None:
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


_SHOWN = 60
_LARGEST = 1e12
