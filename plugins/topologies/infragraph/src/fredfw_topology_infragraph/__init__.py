"""The topology ``infragraph``: infrastructure that InfraGraph describes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from operator import mul, truediv
from typing import Any, ClassVar

import numpy as np
from attrs import Attribute, Converter, Factory, field, frozen

from fredfw import Defaults, Fabric, File, MultipathRouter, NodeKind, Topology, limits, units, with_servers
from fredfw.errors import InputError, nearest
from fredfw.tables import as_quantity, as_table, as_tables, as_text, as_whole, check_keys, parse_json, shown

__all__ = ["InfraGraph"]

fredfw_contract = 2

_OF_FILE = "name", "description", "devices", "links", "instances", "edges"
_OF_DEVICE = "name", "description", "components", "links", "edges"
_KINDS = "custom", "device", "cpu", "xpu", "nic", "memory", "port", "switch"
_SCHEMES = "one2one", "many2many", "ring"
_BANDWIDTHS = {"gigabits_per_second": 1e9 / 8, "gigabytes_per_second": 1e9}
_TRANSFERS = "gigatransfers_per_second"
_LATENCIES = {"ms": 1e3, "us": 1e6, "ns": 1e9}
"""Parts of a second: divided by these, decimal numbers stay what they are."""
_PART = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<slice>[^\[\]]*)\])?")
_FORM = "InfraGraph as YAML or JSON, with devices, instances, links and edges"
_SHOWN = 60


@frozen
class Link:
    """What is known of a link: its name, bytes per second and seconds, each ``None`` where the file does not say."""

    name: str
    bandwidth: float | None
    latency: float | None


def _load(content: bytes) -> Mapping[str, Any]:
    if content.lstrip().startswith(b"{"):
        return as_table(parse_json(content, accepted=_FORM), "", accepted=_FORM)
    import yaml  # which takes longer to import than the rest of this plugin, and is needed for files alone

    try:
        table = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InputError(f"{place}{error.problem or error.context}", accepted=_FORM) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = "is nested too deeply" if isinstance(error, RecursionError) else str(error).partition("\n")[0]
        raise InputError(reason, accepted=_FORM) from None
    if not isinstance(table, dict):
        raise InputError("is not a mapping", accepted=_FORM)
    return table


class _Device:
    def __init__(self, table: Mapping[str, Any], place: str) -> None:
        self.place = place
        self.components = dict[str, tuple[str, int]]()  # kind and count of each by its name
        for where, one in _entries(table, "components", place):
            if (kind := one.get("choice")) not in _KINDS:
                raise _wrong(f"{where}.choice", f"{shown(kind)} is not known", ", ".join(_KINDS))
            check_keys(one, ("name", "description", "count", "choice", kind), where)
            self.components[_name(one, self.components, where, "components")] = kind, _count(one, where)
        self.edges = [one for _, one in _entries(table, "edges", place)]  # as in the file
        self.links = _links(table, place)


class Infrastructure:
    """What a file describes; raises ``InputError`` that names key and value where it is none."""

    def __init__(self, content: bytes) -> None:
        table = _load(content)
        check_keys(table, _OF_FILE, "")
        self.name = as_text(table.get("name", ""), "name")  # may be empty
        self.nodes: dict[str, str] = {}  # kind of each node by its name, such as ``server.0.xpu.1``
        # the link of each pair of nodes, and whether it is inside an instance
        self.edges: dict[tuple[str, str], tuple[Link, bool]] = {}
        self._devices: dict[str, _Device] = {}
        for place, one in _entries(table, "devices", ""):
            check_keys(one, _OF_DEVICE, place)
            self._devices[_name(one, self._devices, place, "devices")] = _Device(one, place)
        instances = dict[str, tuple[str, int]]()
        for place, one in _entries(table, "instances", ""):
            check_keys(one, ("name", "description", "device", "count"), place)
            name = _name(one, instances, place, "instances")
            device = _known(as_text(one.get("device"), f"{place}.device"), self._devices, f"{place}.device", "device")
            instances[name] = device, _count(one, place)
        for name, (device, count) in instances.items():
            for index in range(count):
                self._instantiate(device, f"{name}.{index}", ())
        links = _links(table, "")
        for place, one in _entries(table, "edges", ""):
            ends = [self._outer(one, end, place, instances) for end in ("ep1", "ep2")]
            self._join(one, place, ends, links, None)

    def _instantiate(self, name: str, prefix: str, within: tuple[str, ...]) -> None:
        """Add the nodes of a device and the edges inside it; ``within`` are the devices that it is a part of."""
        device = self._devices[name]
        for part, (kind, count) in device.components.items():
            for index in range(count):
                node = f"{prefix}.{part}.{index}"
                if kind != "device":
                    self.nodes[node] = kind
                    limits.check("nodes", len(self.nodes))
                    continue
                place, chain = f"{device.place}.components", (*within, name)
                _known(part, self._devices, place, "device")
                if part in chain:
                    circle = " > ".join((*chain[chain.index(part) :], part))
                    message = f"a device is a part of itself: {circle}"
                    raise _wrong(place, message, "devices in devices without a circle")
                self._instantiate(part, node, chain)
        for number, edge in enumerate(device.edges):
            place = f"{device.place}.edges[{number}]"
            ends = [self._inner(edge, end, place, name) for end in ("ep1", "ep2")]
            self._join(edge, place, ends, device.links, prefix)

    def _inner(self, edge: Mapping[str, Any], key: str, place: str, device: str) -> list[str]:
        """Return the nodes of an endpoint in a device, without the device's own name."""
        given = _endpoint(edge, key, place, ("device", "component"))
        path = ".".join(filter(None, (given.get("device"), given["component"])))
        return self._expanded(device, path, f"{place}.{key}.component")

    def _outer(
        self, edge: Mapping[str, Any], key: str, place: str, instances: Mapping[str, tuple[str, int]]
    ) -> list[str]:
        """Return the nodes of an endpoint in instances."""
        given = _endpoint(edge, key, place, ("instance", "component"))
        where = f"{place}.{key}.instance"
        name, rest = _part(as_text(given.get("instance"), where), where)
        device, count = instances[_known(name, instances, where, "instance")]
        inner = self._expanded(device, given["component"], f"{place}.{key}.component")
        return [f"{name}.{index}.{node}" for index in _indices(rest, count, where) for node in inner]

    def _expanded(self, device: str, path: str, place: str) -> list[str]:
        """Return the nodes that ``path``, such as ``cx5[0:2].port[0]``, means in a device."""
        parts = path.split(".")
        choices = list[list[str]]()
        for depth, one in enumerate(parts, 1):
            name, rest = _part(one, place)
            components = self._devices[device].components
            kind, count = components[_known(name, components, place, "component")]
            last = depth == len(parts)
            if last == (kind == "device"):
                what = "is a device" if last else "has no parts"
                raise _wrong(place, f"{name!r} {what}", "a path that ends at a component which is not a device")
            choices.append([f"{name}.{index}" for index in _indices(rest, count, place)])
            if not last:
                device = _known(name, self._devices, place, "device")
        return [".".join(one) for one in product(*choices)]

    def _join(
        self, edge: Mapping[str, Any], place: str, ends: list[list[str]], links: Mapping[str, Link], within: str | None
    ) -> None:
        if (scheme := edge.get("scheme")) not in _SCHEMES:
            raise _wrong(f"{place}.scheme", f"{shown(scheme)} is not known", ", ".join(_SCHEMES))
        link = links[_known(as_text(edge.get("link"), f"{place}.link"), links, f"{place}.link", "link")]
        prefix = "" if within is None else f"{within}."
        for one, other in _PAIRS[scheme](*ends):
            if one != other:
                pair = f"{prefix}{one}", f"{prefix}{other}"
                # An edge of the same two nodes is the same edge, as in InfraGraph's own graph.
                key = pair[::-1] if pair[::-1] in self.edges else pair
                self.edges[key] = link, within is not None
                limits.check("links", 2 * len(self.edges))


def _links(table: Mapping[str, Any], place: str) -> dict[str, Link]:
    links = dict[str, Link]()
    for where, one in _entries(table, "links", place):
        check_keys(one, ("name", "description", "physical"), where)
        name = as_text(one.get("name"), f"{where}.name")
        physical = one.get("physical") or {}
        inside = f"{where}.physical"
        as_table(physical, inside)
        check_keys(physical, ("bandwidth", "latency"), inside)
        bandwidth = _quantity(physical, "bandwidth", _BANDWIDTHS, mul, inside)
        latency = _quantity(physical, "latency", _LATENCIES, truediv, inside)
        if bandwidth == 0:
            raise _wrong(f"{inside}.bandwidth", "is 0", "more than 0")
        links[name] = Link(name, bandwidth, latency)
    return links


def _quantity(
    table: Mapping[str, Any], key: str, units: Mapping[str, float], convert: Callable[[float, float], float], place: str
) -> float | None:
    """Return a value in SI units, or ``None`` where the file does not say."""
    if (given := table.get(key)) is None:
        return None
    place, accepted = f"{place}.{key}", f"one of {', '.join(units)}"
    as_table(given, place, accepted=accepted)
    found = [unit for unit in given if unit != "choice"]
    if found == [_TRANSFERS] and key == "bandwidth":
        return None  # it says nothing without the number of lanes
    check_keys(given, ("choice", *units), place)
    if len(found) != 1 or given.get("choice", found[0]) != found[0]:
        raise _wrong(place, f"has {len(found)} values for one choice", accepted)
    value = given[found[0]]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST:
        raise _wrong(f"{place}.{found[0]}", f"{shown(value)} is refused", "a number of at least 0")
    return convert(float(value), units[found[0]])


def _endpoint(edge: Mapping[str, Any], key: str, place: str, known: Sequence[str]) -> Mapping[str, Any]:
    check_keys(edge, ("ep1", "ep2", "scheme", "link"), place)
    given = as_table(edge.get(key), f"{place}.{key}", accepted=" and ".join(known))
    check_keys(given, known, f"{place}.{key}")
    as_text(given.get("component"), f"{place}.{key}.component")
    return given


def _part(text: str, place: str) -> tuple[str, str]:
    if (match := _PART.fullmatch(text)) is None:
        raise _wrong(place, f"{text[:_SHOWN]!r} is not a name with a slice", "such as nic[0] or xpu[0:4]")
    return match["name"], match["slice"] or ""


def _indices(text: str, count: int, place: str) -> range:
    words = text.split(":") if text else ["", ""]
    found = range(0)
    try:
        bounds = [int(word) if word.strip() else None for word in words]
        if len(bounds) == 1 and bounds[0] is not None:
            found = range(count)[bounds[0] :][:1] if -count <= bounds[0] else found
        elif len(bounds) <= 3:
            found = range(*slice(*bounds).indices(count))
    except (ValueError, TypeError):
        pass
    if not found:
        raise _wrong(place, f"[{text[:_SHOWN]}] is none of {count}", f"positions from 0 to {count - 1}")
    return found


def _count(table: Mapping[str, Any], place: str) -> int:
    value = as_whole(table.get("count"), f"{place}.count", 1)
    limits.check("nodes", value)
    return value


def _name(table: Mapping[str, Any], known: Mapping[str, Any], place: str, what: str) -> str:
    if (name := as_text(table.get("name"), f"{place}.name")) in known:
        raise _wrong(f"{place}.name", f"{name!r} is there twice", f"{what} of different names")
    return name


def _known(name: str, known: Mapping[str, Any], place: str, what: str) -> str:
    if name not in known:
        accepted = ", ".join(known) or f"a {what} that the file defines"
        raise _wrong(place, f"there is no {what} {name[:_SHOWN]!r}{nearest(name, known)}", accepted)
    return name


def _entries(table: Mapping[str, Any], key: str, place: str) -> list[tuple[str, Mapping[str, Any]]]:
    return as_tables(table.get(key) or [], f"{place}.{key}" if place else key)


def _wrong(key: str, message: str, accepted: str) -> InputError:
    return InputError(message, key=key, accepted=accepted)


_MOST = 1e12


def _ring(one: list[str], other: list[str]) -> Iterator[tuple[str, str]]:
    members = list(dict.fromkeys((*one, *other)))
    yield from zip(members, (*members[1:], members[0]), strict=True)


_PAIRS: dict[str, Callable[[list[str], list[str]], Iterator[tuple[str, str]]]] = {
    "one2one": lambda one, other: zip(one, other, strict=False),
    "many2many": product,
    "ring": _ring,
}


_NODES = {"xpu": NodeKind.NPU, "memory": NodeKind.MEMORY}


def _quantities(unit: units.Unit, help: str) -> Any:  # noqa: A002  (as in fredfw.units)
    def convert(value: Any, attribute: Attribute[Any]) -> dict[str, float]:
        accepted = f"a table of link names, each with {units.accepted(unit)}"
        made = {}
        for name, one in as_table(value, attribute.name, accepted=accepted).items():
            key = f"{attribute.name}.{name}"
            made[str(name)] = as_quantity(one, unit, key, exclusive=unit is units.Unit.BYTES_PER_SECOND)
        return made

    return field(default=Factory(dict), converter=Converter(convert, takes_field=True), metadata={"help": help})


@frozen
class InfraGraph(Topology):
    """Infrastructure from an InfraGraph file, YAML or JSON: devices, instances, links and edges.

    Components of the kind xpu are NPUs, in the order of the instances. Those of the kind memory are memories, and all
    others switches. An edge is a link each way. Links often have a name alone; ``bandwidths`` and ``latencies`` say the
    rest. Messages are spread over all shortest paths. NPUs forward nothing where there is another way.

    Instances with the same number of NPUs are servers: the NPUs of one, and the instances, are two levels.
    """

    name: ClassVar[str] = "infragraph"

    file: File = units.file(help="InfraGraph file, YAML or JSON")
    bandwidths: Mapping[str, float] = _quantities(
        units.Unit.BYTES_PER_SECOND, "bandwidth of links by their name, before what the file says"
    )
    latencies: Mapping[str, float] = _quantities(
        units.Unit.SECONDS, "latency of links by their name, before what the file says; default: 0"
    )
    bandwidth: float | None = units.bandwidth(
        None, help="bandwidth of all links that neither the file nor bandwidths say; default: such links are refused"
    )

    def __attrs_post_init__(self) -> None:
        _ = self.fabric

    @cached_property
    def fabric(self) -> Fabric:
        """The network of the file."""
        with self.file.named():
            found = Infrastructure(self.file.read())
            if "xpu" not in found.nodes.values():
                raise InputError("there is no xpu", accepted="an instance with components xpu")
        links = [link for link, _ in found.edges.values()]
        known = sorted({link.name for link in links})
        for key in ("bandwidths", "latencies"):
            for name in getattr(self, key):
                if name not in known:
                    message = f"no edge has the link {name!r}{nearest(name, known)}"
                    raise InputError(message, key=f"{key}.{name}", accepted=", ".join(known))
        kinds = np.array([_NODES.get(kind, NodeKind.SWITCH) for kind in found.nodes.values()])
        number = {name: place for place, name in enumerate(found.nodes)}
        ends = np.array([[number[one] for one in pair] for pair in found.edges], dtype=np.intp).reshape(-1, 2)
        names = tuple(found.nodes)
        fabric = Fabric(
            name=found.name or self.file.name,
            kinds=kinds,
            sources=ends.ravel(),
            destinations=ends[:, ::-1].ravel(),
            bandwidths=np.repeat([self._rate(link) for link in links], 2),
            latencies=np.repeat([self.latencies.get(link.name, link.latency or 0.0) for link in links], 2),
            energies=0.0,
            copies=kinds == NodeKind.NPU,
            reduces=kinds == NodeKind.NPU,
            defaults=Defaults(router=MultipathRouter(through_npus=False)),
            tiers=np.repeat([not inside for _, inside in found.edges.values()], 2),
            node_names=names.__getitem__,
            notes=self._notes(links),
        )
        owners = Counter(".".join(name.split(".", 2)[:2]) for name, kind in found.nodes.items() if kind == "xpu")
        each, *others = set(owners.values())
        return fabric if others else with_servers(fabric, each, ("instance", "network"))

    def _rate(self, link: Link) -> float:
        rate = self.bandwidths.get(link.name, link.bandwidth) or self.bandwidth
        if rate is None:
            message = f"link {link.name!r} has no bandwidth in bits or bytes per second"
            accepted = f"one in the file, or bandwidths = {{ {link.name} = ... }}, or bandwidth for all such links"
            raise InputError(message, file=self.file.path, accepted=accepted)
        return rate

    def _notes(self, links: list[Link]) -> tuple[str, ...]:
        path, notes = self.file.path, []
        if given := {link.name for link in links if link.bandwidth is None}:
            notes.append(f"{path} has no bandwidth for {', '.join(sorted(given))}: that of the fields is used")
        if without := {link.name for link in links if link.latency is None} - set(self.latencies):
            notes.append(f"{path} has no latency for {', '.join(sorted(without))}: 0 s")
        return tuple(notes)

    def build(self) -> Fabric:
        return self.fabric
