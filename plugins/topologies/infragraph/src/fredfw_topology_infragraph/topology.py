"""The topology ``infragraph``: its fields, and how infrastructure becomes a fabric."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from attrs import Attribute, Converter, Factory, field, frozen

from fredfw import Defaults, Fabric, File, MultipathRouter, NodeKind, Topology, units, with_servers
from fredfw.errors import InputError, nearest
from fredfw_topology_infragraph.document import Infrastructure, Link, read

_KINDS = {"xpu": NodeKind.NPU, "memory": NodeKind.MEMORY}


def _quantities(unit: units.Unit, help: str) -> Any:  # noqa: A002  (as in fredfw.units)
    """Declare a field with a table of quantities by the name of a link."""

    def convert(value: Any, attribute: Attribute[Any]) -> dict[str, float]:
        accepted = f"a table of link names, each with {units.accepted(unit)}"
        if not isinstance(value, Mapping):
            raise InputError(f"{value!r} is not a table", key=attribute.name, accepted=accepted)
        made = {}
        for name, one in value.items():
            try:
                made[str(name)] = units.parse(one, unit)
            except InputError as error:
                raise error.at(key=f"{attribute.name}.{name}") from None
            if made[str(name)] < 0 or (made[str(name)] == 0 and unit is units.Unit.BYTES_PER_SECOND):
                raise InputError(f"{one!r} is too small", key=f"{attribute.name}.{name}", accepted=accepted)
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
    bandwidth: float | None = units.quantity(
        units.Unit.BYTES_PER_SECOND,
        None,
        exclusive=True,
        optional=True,
        help="bandwidth of all links that neither the file nor bandwidths say; default: such links are refused",
    )

    def __attrs_post_init__(self) -> None:
        """Read the file.

        Raises:
            InputError: As ``document.read`` does, there is no NPU, a link has no bandwidth, or a name is not one of a
                link.
        """
        _ = self.fabric

    @cached_property
    def fabric(self) -> Fabric:
        """The network of the file."""
        found = read(self.file.read(), self.file.path)
        names = {link.name for link, _ in found.edges.values()}
        for key in ("bandwidths", "latencies"):
            for name in getattr(self, key):
                if name not in names:
                    message = f"no edge has the link {name!r}{nearest(name, names)}"
                    raise InputError(message, key=f"{key}.{name}", accepted=", ".join(sorted(names)))
        return self._fabric(found)

    def _fabric(self, found: Infrastructure) -> Fabric:
        kinds = [_KINDS.get(kind, NodeKind.SWITCH) for kind in found.nodes.values()]
        if NodeKind.NPU not in kinds:
            raise InputError("there is no xpu", file=self.file.path, accepted="an instance with components xpu")
        number = {name: place for place, name in enumerate(found.nodes)}
        ends = np.array([[number[one] for one in pair] for pair in found.edges], dtype=np.intp).reshape(-1, 2)
        links = [link for link, _ in found.edges.values()]
        names = tuple(found.nodes)
        npus = [kind is NodeKind.NPU for kind in kinds]
        fabric = Fabric(
            name=found.name or self.file.path.replace("\\", "/").rsplit("/", 1)[-1],
            kinds=np.array(kinds),
            sources=ends.ravel(),
            destinations=ends[:, ::-1].ravel(),
            bandwidths=np.repeat([self._rate(link) for link in links], 2),
            latencies=np.repeat([self.latencies.get(link.name, link.latency or 0.0) for link in links], 2),
            energies=0.0,
            copies=npus,
            reduces=npus,
            defaults=Defaults(router=MultipathRouter(through_npus=False)),
            tiers=np.repeat([not inside for _, inside in found.edges.values()], 2),
            node_names=names.__getitem__,
            notes=self._notes(links),
        )
        owners = [".".join(name.split(".", 2)[:2]) for name, kind in found.nodes.items() if found.nodes[name] == "xpu"]
        each = owners.count(owners[0])
        even = all(owners.count(owner) == each for owner in dict.fromkeys(owners))
        return with_servers(fabric, each, ("instance", "network")) if even else fabric

    def _rate(self, link: Link) -> float:
        rate = self.bandwidths.get(link.name, link.bandwidth) or self.bandwidth
        if rate is None:
            raise InputError(
                f"link {link.name!r} has no bandwidth in bits or bytes per second",
                file=self.file.path,
                accepted=f"one in the file, or bandwidths = {{ {link.name} = ... }}, or bandwidth for all such links",
            )
        return rate

    def _notes(self, links: list[Link]) -> tuple[str, ...]:
        def listed(names: set[str]) -> str:
            return ", ".join(sorted(names))

        path, notes = self.file.path, []
        given = {link.name for link in links if link.bandwidth is None}
        if given:
            notes.append(f"{path} has no bandwidth for {listed(given)}: that of the fields is used")
        without = {link.name for link in links if link.latency is None} - set(self.latencies)
        if without:
            notes.append(f"{path} has no latency for {listed(without)}: 0 s")
        return tuple(notes)

    def build(self) -> Fabric:
        """Return the network of the file."""
        return self.fabric
