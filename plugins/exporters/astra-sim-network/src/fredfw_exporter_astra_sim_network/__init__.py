"""The exporter ``astra-sim-network``: the network of a result as a file for ASTRA-sim's analytical backends."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from attrs import frozen

from fredfw import Dimension, Exporter, Fabric, Level, product_fabric
from fredfw.errors import UnsupportedError

fredfw_contract = 2

_GIGABYTE = 2**30
_NANOSECONDS = 1e9
_EXACT = 1e-9
_BLOCKS = {"ring": "Ring", "fully-connected": "FullyConnected", "switch": "Switch"}
# Routes by these are those of ASTRA-sim: along one dimension after the other.
_ROUTERS, _ROUTERS_OF_ONE = ("dimension-order",), ("dimension-order", "shortest-path", "crossbar")
_ACCEPTED = "a product of rings, full meshes and switches, each dimension with links that are alike"


@frozen
class AstraSimNetworkExporter(Exporter):
    """The network of a run as YAML with topology, npus_count, bandwidth and latency, innermost dimension first.

    It is for products of rings, full meshes and switches alone. Bandwidths are in units of 2^30 bytes per second, and
    latencies those of a link: a message through a switch takes two. Energies, and what switches do for collectives, are
    not in such a file. What else decides times, such as another router, is named in a comment.
    """

    name: ClassVar[str] = "astra-sim-network"
    takes: ClassVar[tuple[str, ...]] = ("run", "collective")
    suffixes: ClassVar[tuple[str, ...]] = (".yml", ".yaml")

    def export(self, result: Any) -> str:
        return _text(result.fabric)


def _text(fabric: Fabric) -> str:
    levels = [level for level in fabric.levels if level.size > 1]
    if not levels:
        raise UnsupportedError(f"fabric {fabric.name!r} has no dimensions", accepted=_ACCEPTED)
    columns = {
        "topology": [_block(fabric, level) for level in levels],
        "npus_count": [str(level.size) for level in levels],
        "bandwidth": [repr(level.bandwidth / _GIGABYTE) for level in levels],
        "latency": [f"{level.latency / (2 if level.kind == 'switch' else 1) * _NANOSECONDS:.15g}" for level in levels],
    }
    _check(fabric, levels)
    units = {"bandwidth": "  # GB/s of 2^30 B/s, each link and direction", "latency": "  # ns, each link"}
    # A comment must stay one.
    name = fabric.name.encode("unicode_escape").decode("ascii")
    lines = [f"# {name}, written by fredfw"]
    # What decides times and is not in the file.
    router, known = fabric.defaults.router, _ROUTERS if len(levels) > 1 else _ROUTERS_OF_ONE
    usual = router.name in known and router == type(router)()
    left = [*([] if usual else [f"router {router.name}"]), *fabric.defaults.rules]
    if left:
        lines.append(f"# exported without its {', '.join(left)}")
    lines += [f"{key}: [ {', '.join(values)} ]{units.get(key, '')}" for key, values in columns.items()]
    return "\n".join(lines) + "\n"


def _block(fabric: Fabric, level: Level) -> str:
    kind = "ring" if level.kind == "line" and level.size == 2 else level.kind
    if kind not in _BLOCKS or not level.two_way or level.lanes > 1:
        ways = "" if level.two_way else "one-way "
        lanes = f" with {level.lanes} lanes" if level.lanes > 1 else ""
        what = f"{ways}{level.kind} of {level.size}{lanes}, which ASTRA-sim does not have"
        raise UnsupportedError(f"fabric {fabric.name!r} has a {what}", accepted=_ACCEPTED)
    return _BLOCKS[kind]


def _check(fabric: Fabric, levels: Sequence[Level]) -> None:
    """Make sure that the fabric is the product of its levels, link by link."""
    product = product_fabric([Dimension.of_links(one.kind, one.size, one.bandwidth, one.latency) for one in levels])
    own = [column for column, level in enumerate(fabric.levels) if level.size > 1]
    same = (
        len(fabric.kinds) == len(product.kinds)
        and len(fabric.sources) == len(product.sources)
        and np.array_equal(fabric.kinds, product.kinds)
        and fabric.coordinates is not None
        and product.coordinates is not None
        and np.array_equal(fabric.coordinates[:, own], product.coordinates)
    )
    if same:
        one, other = _sorted(fabric), _sorted(product)
        same = np.array_equal(one[:, :2], other[:, :2]) and np.allclose(one[:, 2:], other[:, 2:], rtol=_EXACT, atol=0)
    if not same:
        raise UnsupportedError(f"the links of fabric {fabric.name!r} are not those of its levels", accepted=_ACCEPTED)


def _sorted(fabric: Fabric) -> Any:
    """Return ``(links, 4)`` source, destination, bandwidth and latency of each link, in order."""
    rows = np.stack([fabric.sources, fabric.destinations, fabric.bandwidths, fabric.latencies], axis=1)
    return rows[np.lexsort(rows.T[::-1])]
