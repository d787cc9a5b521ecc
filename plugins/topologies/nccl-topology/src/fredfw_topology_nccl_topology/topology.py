"""The topology ``nccl-topology``: its fields, and how a server becomes a fabric."""

from collections import defaultdict
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
from attrs import define, field, frozen

from fredfw import Capabilities, Fabric, File, Level, NodeKind, Topology, units
from fredfw.errors import InputError, placed
from fredfw_topology_cluster import Cluster
from fredfw_topology_nccl_topology import rates
from fredfw_topology_nccl_topology.document import CPU, SWITCH, Device, read

_UNKNOWN_CPU = 10e9
_NVLS = 90  # compute capability of the GPUs whose NVSwitches combine and copy streams


@frozen
class NcclTopology(Topology):
    """A server from NCCL's topology XML: GPUs, NVLinks or xGMI, the PCIe tree, network cards.

    Bandwidths are those that NCCL counts with: a PCIe 4.0 x16 link has 24 GB/s, an NVLink of A100 20 GB/s. All
    NVSwitches of the server are one switch. GPUs are numbered by ``dev``, or in the order of the file. Messages take
    the fewest hops, over NVLink where that is as short as PCIe.

    A file for NCCL_TOPO_FILE often has the PCIe tree alone, because NCCL finds NVLinks itself. ``preset`` names the
    machine of the topology ``cluster`` whose NVLinks the GPUs have then. Results note what the file does not say.

    A network of such servers is ``cluster`` with this topology as its ``node``.
    """

    name: ClassVar[str] = "nccl-topology"

    file: File = units.file(help="XML file that NCCL_TOPO_DUMP_FILE names, or one for NCCL_TOPO_FILE")
    preset: str | None = units.option(
        None, help="preset of the topology cluster that has the NVLinks of a file without any; default: PCIe alone"
    )
    nvlink_latency: float = units.duration("25 ns", help="latency of an NVLink or xGMI link; no file has it")
    pcie_latency: float = units.duration(0.0, help="latency of a PCIe link, and of one between CPUs; no file has it")

    def __attrs_post_init__(self) -> None:
        _ = self.fabric

    @cached_property
    def fabric(self) -> Fabric:
        """The server in the file."""
        inside = None
        if self.preset is not None:
            with placed(key="preset", anew=True):
                inside = Cluster(preset=self.preset, nodes=1).build()
        with self.file.named():
            return _Server(self, *read(self.file.read())).fabric(inside)

    def build(self) -> Fabric:
        return self.fabric


@define
class _Server:
    """A fabric in the making: GPUs, switches of NVLinks, then what PCIe connects, as paths prefer lower numbers."""

    topology: NcclTopology
    devices: list[Device]
    unused: set[str]
    kinds: list[NodeKind] = field(factory=list)
    names: list[str] = field(factory=list)
    links: list[tuple[int, int, float, float]] = field(factory=list)
    notes: list[str] = field(factory=list)

    def fabric(self, inside: Fabric | None) -> Fabric:
        if not (gpus := self._gpus()):
            accepted = "a file with gpu elements, or PCIe devices of the classes 0x03 and 0x12"
            raise InputError("there is no GPU", accepted=accepted)
        node = {device.name: self._add(NodeKind.NPU, f"gpu{number}") for number, device in enumerate(gpus)}
        level = self._nvlinks(gpus, node)
        if self.links and inside is not None:
            message = "is given, and the file has NVLinks"
            raise InputError(message, key="preset", accepted="a preset for a file without NVLinks")
        active = [number for number, kind in enumerate(self.kinds) if kind is NodeKind.SWITCH]
        if min(device.sm for device in gpus) < _NVLS:
            active = []
        offers = Capabilities(reduces=bool(active), multicasts=bool(active))
        levels: tuple[Level, ...] = (level,) if level else ()
        coordinates = np.arange(len(gpus))[:, None] if level else None
        if inside is not None:
            active = self._take(inside, len(gpus))
            levels, coordinates, offers = inside.levels, inside.coordinates, inside.offers
        elif not self.links:
            self._note(" has no NVLinks: GPUs exchange over PCIe; preset names a machine with them")
        self._pcie(node)
        if self.unused:
            self._note(f": not used: {', '.join(sorted(self.unused))}")
        flags = np.array([kind is NodeKind.NPU for kind in self.kinds])
        flags[active] = True
        sources, destinations, bandwidths, latencies = np.array(self.links).reshape(-1, 4).T
        return Fabric(
            name=self.topology.file.name,
            kinds=np.array(self.kinds),
            sources=sources,
            destinations=destinations,
            bandwidths=bandwidths,
            latencies=latencies,
            energies=0.0,
            levels=levels,
            coordinates=coordinates,
            offers=offers,
            copies=flags,
            reduces=flags,
            node_names=self.names.__getitem__,
            notes=tuple(self.notes),
        )

    def _note(self, what: str) -> None:
        self.notes.append(f"{self.topology.file.path}{what}")

    def _add(self, kind: NodeKind, name: str) -> int:
        self.kinds.append(kind)
        self.names.append(name)
        return len(self.kinds) - 1

    def _gpus(self) -> list[Device]:
        found = [one for one in self.devices if one.kind == "gpu"]
        numbers = [one.whole(one.gpu, "dev", -1) for one in found]
        if min(numbers, default=0) < 0:
            self._note(" does not number all GPUs: they are in the order of the file")
            return found
        twice = next((number for number in numbers if numbers.count(number) > 1), None)
        if twice is not None:
            raise InputError(f"{twice} is there twice", key="gpu.dev", accepted="different numbers")
        return [one for _, one in sorted(zip(numbers, found, strict=True), key=lambda pair: pair[0])]

    def _nvlinks(self, gpus: list[Device], node: dict[str, int]) -> Level | None:
        """Add the NVLinks; return the level that the GPUs are, where their links are alike."""
        peers, switched = defaultdict[tuple[int, int], float](float), defaultdict[int, float](float)
        for device in gpus:
            number = node[device.name]
            for target, rate in device.links():
                if target == SWITCH:
                    switched[number] += rate
                elif target in node and target != device.name:
                    peers[number, node[target]] += rate
                else:
                    end = "itself" if target == device.name else target
                    why = "" if target in (device.name, CPU) else ": it has no such GPU"
                    self._note(f": NVLinks of {self.names[number]} to {end} are left out{why}")
        for pair in [one for one in peers if one[::-1] not in peers]:
            peers[pair[::-1]] = peers[pair]
            ends = " to ".join(self.names[number] for number in pair)
            self._note(f" has the NVLinks from {ends} in one direction: they go both ways")
        for (one, other), rate in peers.items():
            self.links.append((one, other, rate, self.topology.nvlink_latency))
        if switched:
            switch = self._add(NodeKind.SWITCH, "nvswitch")
            for number, rate in switched.items():
                self._cable(number, switch, rate, self.topology.nvlink_latency)
        return self._level(len(gpus), peers, switched)

    def _level(self, gpus: int, peers: dict[tuple[int, int], float], switched: dict[int, float]) -> Level | None:
        latency = self.topology.nvlink_latency
        if len(switched) == gpus and not peers and len(set(switched.values())) == 1:
            return Level(gpus, "switch", min(switched.values()), 2 * latency, name="node")
        if len(peers) == gpus * (gpus - 1) and gpus > 1 and not switched and len(set(peers.values())) == 1:
            return Level(gpus, "fully-connected", min(peers.values()), latency, name="node")
        return None

    def _cable(self, one: int, other: int, bandwidth: float, latency: float) -> None:
        self.links += [(one, other, bandwidth, latency), (other, one, bandwidth, latency)]

    def _take(self, inside: Fabric, gpus: int) -> list[int]:
        """Add the links inside a node of a preset; return its switches that combine and copy streams."""
        preset = self.topology.preset
        if len(inside.npus) != gpus:
            message = f"a node of {preset!r} has {len(inside.npus)} NPUs, and the file has {gpus} GPUs"
            raise InputError(message, key="preset", accepted=f"a preset of {gpus} NPUs")
        place, active = np.empty(len(inside.kinds), dtype=np.intp), []
        place[inside.npus] = np.arange(gpus)
        for number in np.flatnonzero(inside.kinds != NodeKind.NPU).tolist():
            place[number] = self._add(NodeKind.SWITCH, "nvswitch")
            if inside.reduces[number]:
                active.append(int(place[number]))
        columns = inside.sources, inside.destinations, inside.bandwidths, inside.latencies
        for source, destination, bandwidth, latency in zip(*(one.tolist() for one in columns), strict=True):
            self.links.append((int(place[source]), int(place[destination]), bandwidth, latency))
        self._note(f" has no NVLinks: those of the preset {preset} are used")
        return active

    def _pcie(self, node: dict[str, int]) -> None:
        latency = self.topology.pcie_latency
        place, root = list[int](), list[int]()  # node of each device, and of the CPU that it is attached to
        cpus = list[tuple[int, str, float | None]]()
        for device in self.devices:
            element, ports = device.element, device.ports
            if (number := node.get(device.name)) is None:
                plain = device.name if device.kind == "cpu" else f"{device.kind} {device.name}"
                number = self._add(NodeKind.SWITCH, "+".join(port for port, _ in ports) or plain)
            place.append(number)
            root.append(number if device.parent is None else root[device.parent])
            speed, width = element.get("link_speed", ""), device.whole(element, "link_width")
            if device.kind == "cpu":
                kind = element.get("arch", ""), element.get("vendor", "")
                rate = rates.between_cpus(*kind, *(device.whole(element, key) for key in ("familyid", "modelid")))
                cpus.append((number, device.name, rate))
            elif device.parent is not None:
                # A card without a PCIe device of its own has its ports as the limit.
                own = sum(rates.network(each) for _, each in ports)
                if device.kind != "nic" or speed or width or not own:
                    own = rates.pcie(speed, width)
                self._cable(number, place[device.parent], own, latency)
            if device.c2c and device.parent is not None:
                self._cable(number, root[-1], device.c2c / 1000 * rates.GIGABYTE, latency)
        for (one, near, first), (other, far, second) in combinations(cpus, 2):
            if first is None or second is None:
                self._note(f": NCCL knows no rate between {near} and {far}: 10 GB/s")
            self._cable(one, other, min(_UNKNOWN_CPU if rate is None else rate for rate in (first, second)), latency)
