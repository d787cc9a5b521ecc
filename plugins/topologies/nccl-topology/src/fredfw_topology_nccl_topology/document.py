"""NCCL's topology file: its devices and their links, as the XML has them."""

from __future__ import annotations

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
_IGNORED = {"pcilink"}


@frozen
class Link:
    """NVLinks or xGMI links of a GPU to one target.

    Args:
        target: Bus id in small letters.
        count: How many links.
        switch: Whether the target is an NVSwitch.
        cpu: Whether the target is the CPU.
        xgmi: Whether they are xGMI links.
    """

    target: str
    count: int
    switch: bool
    cpu: bool
    xgmi: bool


@frozen
class Gpu:
    """What is known of a GPU.

    Args:
        dev: Its number, or ``None``.
        sm: Compute capability, such as 80; 0 where it is not known.
        gcn: Architecture of an AMD accelerator, empty for others.
        links: Its links to other GPUs, and to NVSwitches.
        c2c: Megabytes per second of its link to the CPU, 0 without one.
    """

    dev: int | None
    sm: int
    gcn: str
    links: tuple[Link, ...]
    c2c: float


@frozen
class Port:
    """A port of a network card: its name and its speed in Mb/s, 0 where the file does not say."""

    name: str
    speed: float


@define
class Device:
    """A CPU, or a PCIe device.

    Args:
        kind: ``cpu``, ``bridge``, ``gpu``, ``nic`` or ``other``.
        name: For messages: its bus id, or the number of the CPU.
        parent: Index of what it is attached to, or ``None``.
        speed: Of its PCIe link, as written; empty where there is none.
        width: Lanes of that link, 0 where they are not known.
        gpu: What is known of a GPU.
        ports: Of a network card.
        cpu: Architecture, vendor, family and model of a CPU.
    """

    kind: str
    name: str
    parent: int | None = None
    speed: str = ""
    width: int = 0
    gpu: Gpu | None = None
    ports: tuple[Port, ...] = ()
    cpu: tuple[str, str, int, int] = ("", "", 0, 0)


@define
class Document:
    """What a file has: devices, parents before children, and names of elements that are not used."""

    devices: list[Device] = field(factory=list)
    unused: set[str] = field(factory=set)


def read(content: bytes, file: str) -> Document:
    """Return what is in a topology file.

    Raises:
        InputError: It is not XML, has a DTD or an entity, is another file of NCCL's, or a value is not a number; names
            file, device and attribute.
    """
    try:
        root = defusedxml.ElementTree.fromstring(content, forbid_dtd=True)
    except DefusedXmlException as error:
        raise InputError(f"has a DTD or an entity: {error}", file=file, accepted="XML without them") from None
    except (defusedxml.ElementTree.ParseError, LookupError, ValueError) as error:  # an encoding that does not exist
        raise InputError(f"is not XML: {error}", file=file, accepted=_FORM) from None
    if root.tag == "graphs":
        message = "is a graph of NCCL: the rings and trees that it chose, not the topology"
        raise InputError(message, file=file, accepted=_FORM)
    if root.tag != "system":
        raise InputError(f"is {root.tag!r}, not 'system'", file=file, accepted=_FORM)
    return _Reader(file).document(root)


@define
class _Reader:
    file: str
    found: Document = field(factory=Document)

    def document(self, root: Element) -> Document:
        pending: list[tuple[Element, int | None]] = [(one, None) for one in reversed(root)]
        names = set[str]()
        while pending:
            element, parent = pending.pop()
            device = self._device(element, parent)
            if device is None:
                continue
            if device.name in names:
                raise self._error(device.name, "is there twice", "devices with different bus ids")
            names.add(device.name)
            self.found.devices.append(device)
            number = len(self.found.devices) - 1
            nested = ("pci", "nic", "cpu") if device.kind in ("cpu", "bridge", "other") else ("pci",)
            pending += [(one, number) for one in reversed(element) if one.tag in nested]
        return self.found

    def _device(self, element: Element, parent: int | None) -> Device | None:
        if element.tag == "cpu":
            return self._cpu(element)
        if element.tag == "nic":  # without a PCIe device of its own
            ports = self._ports(element)
            name = "+".join(port.name for port in ports) or f"nic{len(self.found.devices)}"
            return Device("nic", name, parent, ports=ports)
        if element.tag == "pci":
            return self._pci(element, parent)
        self.found.unused.add(element.tag)
        return None

    def _cpu(self, element: Element) -> Device:
        name = f"cpu{element.get('numaid', len(self.found.devices))}"
        arch, vendor = element.get("arch", ""), element.get("vendor", "")
        family, model = (self._whole(element, key, name, default=0) for key in ("familyid", "modelid"))
        return Device("cpu", name, cpu=(arch, vendor, family, model))

    def _pci(self, element: Element, parent: int | None) -> Device:
        name = element.get("busid", "").lower()
        if not name:
            raise self._error("pci", "has no busid", "a bus id such as 0000:3b:00.0")
        written = element.get("class", "")
        gpu, nic = element.find("gpu"), element.find("nic")
        kind = "other"
        if gpu is not None or written.startswith(_GPU_CLASSES):
            kind = "gpu"
        elif nic is not None or written.startswith(_NIC_CLASS):
            kind = "nic"
        elif element.find("pci") is not None:
            kind = "bridge"
        device = Device(kind, name, parent, speed=element.get("link_speed", ""))
        device.width = self._whole(element, "link_width", name, default=0)
        if gpu is not None:
            device.gpu = self._gpu(gpu, name)
        if nic is not None:
            device.ports = tuple(port for one in element.findall("nic") for port in self._ports(one))
        self.found.unused |= {one.tag for one in element} - {"pci", "gpu", "nic"} - _IGNORED
        return device

    def _gpu(self, element: Element, name: str) -> Gpu:
        links = tuple(self._links(element, name))
        c2c = 0.0
        for one in element.findall("c2c"):
            c2c += self._number(one, "bw", name) * self._whole(one, "count", name, default=1)
        self.found.unused |= {one.tag for one in element} - {"nvlink", "xgmi", "c2c"}
        dev = self._whole(element, "dev", name, default=-1)
        return Gpu(
            None if dev < 0 else dev,
            self._whole(element, "sm", name, default=0),
            element.get("gcn", ""),
            links,
            c2c,
        )

    def _links(self, element: Element, name: str) -> Iterator[Link]:
        for one in (*element.findall("nvlink"), *element.findall("xgmi")):
            target, tclass = one.get("target", "").lower(), one.get("tclass", "")
            if not target:
                raise self._error(f"{name}.{one.tag}.target", "is missing", "the bus id of the other end")
            count = self._whole(one, "count", name, default=1)
            if count < 1:
                raise self._error(f"{name}.{one.tag}.count", f"{count} is refused", "a whole number of at least 1")
            switch = target == _NVSWITCH_TARGET or tclass.startswith(_NVSWITCH_CLASS)
            yield Link(target, count, switch, tclass.startswith(_BRIDGE_CLASS), one.tag == "xgmi")

    def _ports(self, element: Element) -> tuple[Port, ...]:
        ports = list[Port]()
        for one in element.findall("net"):
            name = one.get("name") or f"net{one.get('dev', len(ports))}"
            ports.append(Port(name, self._number(one, "speed", name)))
        return tuple(ports)

    def _whole(self, element: Element, key: str, name: str, *, default: int) -> int:
        text = element.get(key)
        if text is None:
            return default
        try:
            number = int(text, 0)
            _check(number)
            return number
        except ValueError:
            raise self._error(f"{name}.{key}", f"{text[:_SHOWN]!r} is not a number", "a whole number") from None

    def _number(self, element: Element, key: str, name: str) -> float:
        text = element.get(key, "0")
        try:
            number = float(text)
            _check(number)
            return number
        except ValueError:
            raise self._error(f"{name}.{key}", f"{text[:_SHOWN]!r} is not a number", "a number") from None

    def _error(self, key: str, message: str, accepted: str) -> InputError:
        return InputError(message, file=self.file, key=key, accepted=accepted)


_SHOWN = 60
_LARGEST = 1e12


def _check(number: float) -> None:
    if not -_LARGEST < number < _LARGEST:
        raise ValueError(number)
