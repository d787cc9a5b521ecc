"""The topology ``infragraph``: its fields, and how infrastructure becomes a fabric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from attrs import Attribute, Converter, Factory, field, frozen

from fredfw import Defaults, Fabric, File, MultipathRouter, NodeKind, Topology, units, with_servers
from fredfw.errors import InputError, nearest
from fredfw_topology_infragraph.document import Infrastructure, Link

_KINDS = {"xpu": NodeKind.NPU, "memory": NodeKind.MEMORY}


def _quantities(unit: units.Unit, help: str) -> Any:  # noqa: A002  (as in fredfw.units)
    """Declare a field with a table of quantities by the name of a link."""

    def convert(value: Any, attribute: Attribute[Any]) -> dict[str, float]:
        accepted = f"a table of link names, each with {units.accepted(unit)}"
        if not isinstance(value, Mapping):
            raise InputError(f"{value!r} is not a table", key=attribute.name, accepted=accepted)
        made = {}
        for name, one in value.items():
            key = f"{attribute.name}.{name}"
            try:
                made[str(name)] = quantity = units.parse(one, unit)
            except InputError as error:
                raise error.at(key=key) from None
            if quantity < 0 or (quantity == 0 and unit is units.Unit.BYTES_PER_SECOND):
                raise InputError(f"{one!r} is too small", key=key, accepted=accepted)
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
        """Read the file; raises ``InputError`` for it, a link without bandwidth, and a name that no link has."""
        _ = self.fabric

    @cached_property
    def fabric(self) -> Fabric:
        """The network of the file."""
        with self.file.named():
            found = Infrastructure.read(self.file.read())
            if "xpu" not in found.nodes.values():
                raise InputError("there is no xpu", accepted="an instance with components xpu")
        links = [link for link, _ in found.edges.values()]
        known = sorted({link.name for link in links})
        for key in ("bandwidths", "latencies"):
            for name in getattr(self, key):
                if name not in known:
                    message = f"no edge has the link {name!r}{nearest(name, known)}"
                    raise InputError(message, key=f"{key}.{name}", accepted=", ".join(known))
        kinds = np.array([_KINDS.get(kind, NodeKind.SWITCH) for kind in found.nodes.values()])
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
        given = {link.name for link in links if link.bandwidth is None}
        if given:
            notes.append(f"{path} has no bandwidth for {', '.join(sorted(given))}: that of the fields is used")
        without = {link.name for link in links if link.latency is None} - set(self.latencies)
        if without:
            notes.append(f"{path} has no latency for {', '.join(sorted(without))}: 0 s")
        return tuple(notes)

    def build(self) -> Fabric:
        """Return the network of the file."""
        return self.fabric
