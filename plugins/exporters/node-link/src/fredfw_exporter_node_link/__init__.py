"""The exporter ``node-link``: the network of a result as JSON node-link data of NetworkX."""

import json
from typing import Any, ClassVar

import attrs
from attrs import frozen

from fredfw import Exporter, Fabric, NodeKind

fredfw_contract = 2

_ROUTERS = "shortest-path", "multipath", "dimension-order"
_OFFERS = "reduces", "multicasts", "circuits"


@frozen
class NodeLinkExporter(Exporter):
    """The network of a run as a graph: NetworkX reads it with ``node_link_graph``, and the topology ``node-link`` too.

    Nodes and directed links are in the order of the fabric, in SI units, with levels, coordinates, and a router that
    every fabric has. What else decides times, such as circuits and the topology's own router, is named in the notes.
    """

    name: ClassVar[str] = "node-link"
    takes: ClassVar[tuple[str, ...]] = ("run", "collective")
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    def export(self, result: Any) -> str:
        fabric: Fabric = result.fabric
        graph = {"directed": True, "multigraph": True, "graph": _attributes(fabric)}
        return json.dumps({**graph, "nodes": _nodes(fabric), "edges": _edges(fabric)}, indent=1) + "\n"


def _attributes(fabric: Fabric) -> dict[str, Any]:
    found: dict[str, Any] = {"name": fabric.name}
    if fabric.levels and fabric.coordinates is not None:
        # What a level offers follows from the servers and the offers of the fabric.
        levels = (attrs.asdict(level) for level in fabric.levels)
        found["levels"] = [{key: value for key, value in level.items() if key != "offers"} for level in levels]
    offers = [one for one in _OFFERS if getattr(fabric.offers, one)]
    if offers:
        found |= {"offers": offers, "local_offers": fabric.local_offers}
    defaults = fabric.defaults
    left = []
    if defaults.router.name in _ROUTERS and defaults.router == type(defaults.router)():
        found["router"] = defaults.router.name
    else:
        left.append(f"router {defaults.router.name}")
    left += defaults.rules
    notes = list(fabric.notes)
    if left:
        notes.append(f"exported without its {', '.join(left)}")
    if notes:
        found["notes"] = notes
    return found


def _nodes(fabric: Fabric) -> list[dict[str, Any]]:
    columns = zip(fabric.kinds.tolist(), fabric.copies.tolist(), fabric.reduces.tolist(), strict=True)
    found: list[dict[str, Any]] = []
    for node, (kind, copies, reduces) in enumerate(columns):
        said = {"kind": NodeKind(kind).name.lower(), "name": fabric.node_name(node)}
        found.append({"id": node, **said, "copies": copies, "reduces": reduces})
    if fabric.levels and fabric.coordinates is not None:
        for npu, place in zip(fabric.npus.tolist(), fabric.coordinates.tolist(), strict=True):
            found[npu]["coordinates"] = place
    return found


def _edges(fabric: Fabric) -> list[dict[str, Any]]:
    names = {"source": "sources", "target": "destinations", "bandwidth": "bandwidths", "latency": "latencies"}
    names |= {"energy": "energies", "tier": "tiers"}
    rows = zip(*(getattr(fabric, column).tolist() for column in names.values()), strict=True)
    return [{**dict(zip(names, row, strict=True)), "key": link} for link, row in enumerate(rows)]
