"""An InfraGraph file: devices, instances of them, and the edges between, expanded into nodes and links."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from attrs import define, field, frozen

from fredfw import limits
from fredfw.errors import InputError, nearest

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


@define
class Infrastructure:
    """What a file describes.

    Args:
        name: Of the infrastructure, may be empty.
        nodes: Kind of each node by its name, such as ``server.0.xpu.1``.
        edges: The link of each pair of nodes, and whether it is inside an instance.
    """

    name: str = ""
    nodes: dict[str, str] = field(factory=dict)
    edges: dict[tuple[str, str], tuple[Link, bool]] = field(factory=dict)


def read(content: bytes, file: str) -> Infrastructure:
    """Return what is in a file.

    Raises:
        InputError: It is neither YAML nor JSON, a key is unknown or missing, a name is not defined, a slice is empty,
            or a device is a part of itself; names file, key and value.
    """
    return _Reader(_load(content, file), file).infrastructure()


def _load(content: bytes, file: str) -> Mapping[str, Any]:
    import yaml  # which takes longer to import than the rest of this plugin, and is needed for files alone

    try:
        table = json.loads(content) if content.lstrip().startswith(b"{") else yaml.safe_load(content)
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise InputError(message, file=file, accepted=_FORM) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InputError(f"{place}{error.problem or error.context}", file=file, accepted=_FORM) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = "is nested too deeply" if isinstance(error, RecursionError) else str(error).partition("\n")[0]
        raise InputError(reason, file=file, accepted=_FORM) from None
    if not isinstance(table, dict):
        raise InputError("is not a mapping", file=file, accepted=_FORM)
    return table


@frozen
class _Component:
    kind: str
    count: int


@define
class _Device:
    """A device: its components by name, its links by name, and its edges as the file has them."""

    place: str
    components: dict[str, _Component]
    links: dict[str, Link]
    edges: list[Any]


@define
class _Reader:
    table: Mapping[str, Any]
    file: str
    devices: dict[str, _Device] = field(factory=dict)
    found: Infrastructure = field(factory=Infrastructure)

    def infrastructure(self) -> Infrastructure:
        self._check_keys(self.table, _OF_FILE, "")
        self.found.name = self._text(self.table.get("name", ""), "name")
        for place, one in self._entries(self.table, "devices", ""):
            self._check_keys(one, _OF_DEVICE, place)
            name = self._text(one.get("name"), f"{place}.name")
            if name in self.devices:
                raise self._error(f"{place}.name", f"{name!r} is there twice", "devices of different names")
            self.devices[name] = self._device(one, place)
        instances = dict[str, tuple[str, int]]()
        for place, one in self._entries(self.table, "instances", ""):
            self._check_keys(one, ("name", "description", "device", "count"), place)
            name, device = (self._text(one.get(key), f"{place}.{key}") for key in ("name", "device"))
            if name in instances:
                raise self._error(f"{place}.name", f"{name!r} is there twice", "instances of different names")
            self._known(device, self.devices, f"{place}.device", "device")
            instances[name] = device, self._count(one, place)
        for name, (device, count) in instances.items():
            for index in range(count):
                self._instantiate(device, f"{name}.{index}", ())
        links = self._links(self.table, "")
        for place, one in self._entries(self.table, "edges", ""):
            ends = [self._outer(one, end, place, instances) for end in ("ep1", "ep2")]
            self._join(one, place, ends, links, "", inside=False)
        return self.found

    def _device(self, table: Mapping[str, Any], place: str) -> _Device:
        components = dict[str, _Component]()
        for where, one in self._entries(table, "components", place):
            name = self._text(one.get("name"), f"{where}.name")
            kind = one.get("choice")
            if kind not in _KINDS:
                raise self._error(f"{where}.choice", f"{_shown(kind)} is not known", ", ".join(_KINDS))
            self._check_keys(one, ("name", "description", "count", "choice", kind), where)
            if name in components:
                raise self._error(f"{where}.name", f"{name!r} is there twice", "components of different names")
            components[name] = _Component(kind, self._count(one, where))
        edges = [one for _, one in self._entries(table, "edges", place)]
        return _Device(place, components, self._links(table, place), edges)

    def _links(self, table: Mapping[str, Any], place: str) -> dict[str, Link]:
        links = dict[str, Link]()
        for where, one in self._entries(table, "links", place):
            self._check_keys(one, ("name", "description", "physical"), where)
            name = self._text(one.get("name"), f"{where}.name")
            physical = one.get("physical") or {}
            if not isinstance(physical, dict):
                raise self._error(f"{where}.physical", "is not a mapping", "bandwidth and latency")
            self._check_keys(physical, ("bandwidth", "latency"), f"{where}.physical")
            rate, unit = self._quantity(physical, "bandwidth", tuple(_BANDWIDTHS), f"{where}.physical")
            lag, part = self._quantity(physical, "latency", tuple(_LATENCIES), f"{where}.physical")
            if rate == 0:
                raise self._error(f"{where}.physical.bandwidth", "is 0", "more than 0")
            links[name] = Link(
                name,
                None if rate is None else rate * _BANDWIDTHS[unit],
                None if lag is None else lag / _LATENCIES[part],
            )
        return links

    def _quantity(
        self, table: Mapping[str, Any], key: str, units: Sequence[str], place: str
    ) -> tuple[float | None, str]:
        """Return a value, or ``None`` where the file does not say, and its unit."""
        given = table.get(key)
        if given is None:
            return None, ""
        place = f"{place}.{key}"
        if not isinstance(given, dict):
            raise self._error(place, "is not a mapping", f"one of {', '.join(units)}")
        found = [unit for unit in given if unit != "choice"]
        if found == [_TRANSFERS] and key == "bandwidth":
            return None, ""  # it says nothing without the number of lanes
        self._check_keys(given, ("choice", *units), place)
        if len(found) != 1 or given.get("choice", found[0]) != found[0]:
            raise self._error(place, f"has {len(found)} values for one choice", f"one of {', '.join(units)}")
        value = given[found[0]]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST:
            raise self._error(f"{place}.{found[0]}", f"{_shown(value)} is refused", "a number of at least 0")
        return float(value), found[0]

    def _instantiate(self, name: str, prefix: str, within: tuple[str, ...]) -> None:
        """Add the nodes of a device and the edges inside it; ``within`` are the devices that it is a part of."""
        device = self.devices[name]
        for part, component in device.components.items():
            for index in range(component.count):
                node = f"{prefix}.{part}.{index}"
                if component.kind != "device":
                    self.found.nodes[node] = component.kind
                    limits.check("nodes", len(self.found.nodes))
                    continue
                self._known(part, self.devices, f"{device.place}.components", "device")
                chain = (*within, name)
                if part in chain:
                    circle = " > ".join((*chain[chain.index(part) :], part))
                    message = f"a device is a part of itself: {circle}"
                    raise self._error(f"{device.place}.components", message, "devices in devices without a circle")
                self._instantiate(part, node, chain)
        for number, edge in enumerate(device.edges):
            place = f"{device.place}.edges[{number}]"
            ends = [self._inner(edge, end, place, name) for end in ("ep1", "ep2")]
            self._join(edge, place, ends, device.links, f"{prefix}.", inside=True)

    def _inner(self, edge: Mapping[str, Any], key: str, place: str, device: str) -> list[str]:
        """Return the nodes of an endpoint in a device, without the device's own name."""
        given = self._endpoint(edge, key, place, ("device", "component"))
        path = ".".join(filter(None, (given.get("device"), given["component"])))
        return self._expanded(device, path, f"{place}.{key}")

    def _outer(
        self, edge: Mapping[str, Any], key: str, place: str, instances: Mapping[str, tuple[str, int]]
    ) -> list[str]:
        """Return the nodes of an endpoint in instances."""
        given = self._endpoint(edge, key, place, ("instance", "component"))
        where = f"{place}.{key}"
        name, rest = self._part(self._text(given.get("instance"), f"{where}.instance"), f"{where}.instance")
        self._known(name, instances, f"{where}.instance", "instance")
        device, count = instances[name]
        inner = self._expanded(device, given["component"], where)
        return [f"{name}.{index}.{node}" for index in self._indices(rest, count, f"{where}.instance") for node in inner]

    def _endpoint(self, edge: Mapping[str, Any], key: str, place: str, known: Sequence[str]) -> Mapping[str, Any]:
        self._check_keys(edge, ("ep1", "ep2", "scheme", "link"), place)
        given = edge.get(key)
        if not isinstance(given, dict):
            raise self._error(f"{place}.{key}", "is not a mapping", " and ".join(known))
        self._check_keys(given, known, f"{place}.{key}")
        self._text(given.get("component"), f"{place}.{key}.component")
        return given

    def _expanded(self, device: str, path: str, place: str) -> list[str]:
        """Return the nodes that ``path``, such as ``cx5[0:2].port[0]``, means in a device."""
        parts = path.split(".")
        choices = list[list[str]]()
        for depth, one in enumerate(parts):
            name, rest = self._part(one, f"{place}.component")
            components = self.devices[device].components
            self._known(name, components, f"{place}.component", "component")
            component = components[name]
            last = depth == len(parts) - 1
            if last == (component.kind == "device"):
                what = "is a device" if last else "has no parts"
                message = f"{name!r} {what}"
                raise self._error(
                    f"{place}.component", message, "a path that ends at a component which is not a device"
                )
            indices = self._indices(rest, component.count, f"{place}.component")
            choices.append([f"{name}.{index}" for index in indices])
            if not last:
                self._known(name, self.devices, f"{place}.component", "device")
                device = name
        return [".".join(one) for one in product(*choices)]

    def _part(self, text: str, place: str) -> tuple[str, str]:
        match = _PART.fullmatch(text)
        if match is None:
            raise self._error(place, f"{text[:_SHOWN]!r} is not a name with a slice", "such as nic[0] or xpu[0:4]")
        return match["name"], match["slice"] or ""

    def _indices(self, text: str, count: int, place: str) -> range:
        """Return the positions that a slice of Python means among ``count``."""
        words = text.split(":") if text else ["", ""]
        try:
            bounds = [int(word) if word.strip() else None for word in words]
            if len(bounds) == 1 and bounds[0] is not None:
                one = bounds[0] + (count if bounds[0] < 0 else 0)
                found = range(one, one + 1) if 0 <= one < count else range(0)
            else:
                found = range(*slice(*bounds).indices(count)) if len(bounds) <= 3 else range(0)
        except (ValueError, TypeError):
            found = range(0)
        if not found:
            raise self._error(place, f"[{text[:_SHOWN]}] is none of {count}", f"positions from 0 to {count - 1}")
        return found

    def _join(
        self,
        edge: Mapping[str, Any],
        place: str,
        ends: list[list[str]],
        links: Mapping[str, Link],
        prefix: str,
        *,
        inside: bool,
    ) -> None:
        """Add the edges between the nodes of both ends."""
        scheme = edge.get("scheme")
        if scheme not in _SCHEMES:
            raise self._error(f"{place}.scheme", f"{_shown(scheme)} is not known", ", ".join(_SCHEMES))
        name = self._text(edge.get("link"), f"{place}.link")
        self._known(name, links, f"{place}.link", "link")
        for one, other in _PAIRS[scheme](*ends):
            if one != other:
                pair = f"{prefix}{one}", f"{prefix}{other}"
                # An edge of the same two nodes is the same edge, as in InfraGraph's own graph.
                key = pair[::-1] if pair[::-1] in self.found.edges else pair
                self.found.edges[key] = links[name], inside
                limits.check("links", 2 * len(self.found.edges))

    def _count(self, table: Mapping[str, Any], place: str) -> int:
        value = table.get("count")
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < _MOST:
            raise self._error(f"{place}.count", f"{_shown(value)} is refused", "a whole number of at least 1")
        limits.check("nodes", value)
        return value

    def _known(self, name: str, known: Mapping[str, Any], place: str, what: str) -> None:
        if name not in known:
            accepted = ", ".join(known) or f"a {what} that the file defines"
            raise self._error(place, f"there is no {what} {name[:_SHOWN]!r}{nearest(name, known)}", accepted)

    def _entries(self, table: Mapping[str, Any], key: str, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        where = f"{place}.{key}" if place else key
        listed = table.get(key) or []
        if not isinstance(listed, list):
            raise self._error(where, "is not a list", "a list of mappings")
        for index, one in enumerate(listed):
            if not isinstance(one, dict):
                raise self._error(f"{where}[{index}]", "is not a mapping", "a mapping")
            yield f"{where}[{index}]", one

    def _text(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            message = "is missing" if value is None else f"{_shown(value)} is not text"
            raise self._error(place, message, "text")
        return value

    def _check_keys(self, table: Mapping[str, Any], known: Sequence[str], place: str) -> None:
        for key in table:
            if key not in known:
                where = f"{place}.{key}" if place else str(key)
                raise self._error(where[:200], f"unknown key{nearest(str(key), known)}", ", ".join(known))

    def _error(self, key: str, message: str, accepted: str) -> InputError:
        return InputError(message, file=self.file, key=key, accepted=accepted)


_MOST = 1e12


def _shown(value: Any) -> str:
    """Return a value of the file for a message; aliases can make a list of any size from a few lines."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _ring(one: list[str], other: list[str]) -> Iterator[tuple[str, str]]:
    members = list(dict.fromkeys((*one, *other)))
    yield from zip(members, (*members[1:], members[0]), strict=True)


_PAIRS: dict[str, Callable[[list[str], list[str]], Iterator[tuple[str, str]]]] = {
    "one2one": lambda one, other: zip(one, other, strict=False),
    "many2many": product,
    "ring": _ring,
}
