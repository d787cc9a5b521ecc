"""The topology ``multi-dimensional``: a product of dimensions (``ring 4``, ASTRA-sim's ``Ring(4)_Switch(8)``)."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

import attrs
from attrs import evolve, frozen

from fredfw import Dimension, Fabric, Topology, product_fabric, scopes_of_dimensions, units
from fredfw.errors import InputError, nearest

__all__ = ["MultiDimensional"]

fredfw_contract = 2

Kind = Literal["ring", "line", "fully-connected", "switch"]
_KINDS: dict[str, Kind] = {
    "ring": "ring",
    "line": "line",
    "fullyconnected": "fully-connected",
    "fc": "fully-connected",
    "switch": "switch",
    "sw": "switch",
}
FORM = (
    'a list such as ["ring 4", "fully-connected 8", "switch 8"] or "Ring(4)_FC(8)_Switch(8)", innermost first; kinds '
    "are ring, line, fully-connected (FC) and switch, sizes 2 or more"
)
_ENTRY = re.compile(r"\s*([^\W\d](?:[\w -]*[^\W\d])?)\s*(?:\(\s*(\d+)\s*\)|\s(\d+))\s*")


def _read(given: object, attribute: attrs.Attribute[Any]) -> tuple[str, ...]:
    key = attribute.name
    if isinstance(given, str):
        given = re.split(r"(?<=\))_|,", given)
    if not isinstance(given, list | tuple) or not given:
        raise InputError(f"{given!r} are not dimensions", key=key, accepted=FORM)
    return tuple(_entry(one, f"{key}[{index}]") for index, one in enumerate(given))


def _entry(given: object, key: str) -> str:
    match = _ENTRY.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        raise InputError(f"{given!r} is not a dimension", key=key, accepted=FORM)
    if (kind := _KINDS.get(_plain(match[1]))) is None:
        hint = nearest(match[1].lower(), ["ring", "line", "fully-connected", "switch"])
        raise InputError(f"{match[1]!r} is not a kind of dimension{hint}", key=key, accepted=FORM)
    if (digits := (match[2] or match[3]).lstrip("0")) in ("", "1"):
        raise InputError(f"{given!r} has no neighbours", key=key, accepted=FORM)
    return f"{kind} {digits}"


def _plain(kind: str) -> str:
    return re.sub(r"[\s_-]", "", kind).lower()


_DIMENSIONS: Any = attrs.field(
    default=("FC 8", "ring 16", "switch 8"),
    converter=attrs.Converter(_read, takes_field=True),
    metadata={"help": "kind and size of each dimension, innermost first", "accepted": FORM},
)
_THEMIS = ("fully-connected 8", "ring 16", "switch 8")
_THEMIS_BANDWIDTHS = tuple(gigabits * 1e9 / 8 for gigabits in (1400, 800, 400))
_THEMIS_LATENCIES = (700e-9, 700e-9, 1700e-9)


@frozen
class MultiDimensional(Topology):
    """NPUs at all combinations of positions in several dimensions: rings, lines, full meshes and switches.

    Dimensions come innermost first. NPU x0 + k0 x1 + k0 k1 x2 + ... is at position (x0, x1, x2, ...), and has links in
    each dimension to NPUs that differ from it in that dimension alone. Messages go along dimension 0 first, then 1, and
    so on.

    ``bandwidths`` are those of an NPU in a dimension, per direction, all its links together: a ring or line has two
    links of half, a fully connected dimension of k has k - 1 links of 1 / (k - 1), and a switch one link. In a
    dimension of 2 a pair has one link of all. ``link_bandwidths`` are those of a single link. Latencies are those of a
    step from an NPU to the next; through a switch each of the two links has half.

    The default is 3D-FC_Ring_SW of Themis (ISCA 2022), table 2: 1,024 NPUs with 1400, 800 and 400 Gbps and 700, 700 and
    1700 ns. The paper gives no energy, so it is 0 here. Other dimensions need bandwidths and latencies of their own.
    """

    name: ClassVar[str] = "multi-dimensional"

    dimensions: tuple[str, ...] = _DIMENSIONS
    bandwidths: tuple[float, ...] | None = units.bandwidths(
        None,
        per="dimensions",
        help="of an NPU per dimension and direction, all its links together: one per dimension, or one for all",
    )
    link_bandwidths: tuple[float, ...] | None = units.bandwidths(
        None, per="dimensions", help="of each link, in place of bandwidths: one per dimension, or one for all"
    )
    latencies: tuple[float, ...] | None = units.durations(
        None, per="dimensions", help="of a step from an NPU to the next: one per dimension, or one for all"
    )
    names: tuple[str, ...] | None = units.option(
        None, help="what the dimensions are called, such as chiplet, package, node and pod; one per dimension"
    )
    link_energy: tuple[float, ...] = units.quantities(
        units.Unit.JOULES_PER_BYTE,
        0.0,
        per="dimensions",
        help="energy per byte and link: one per dimension, or one for all",
    )

    def __attrs_post_init__(self) -> None:
        count, own = len(self.dimensions), self.dimensions != _THEMIS
        form = f"bandwidths (of an NPU) or link_bandwidths (of a link): one value for all, or {count}"
        if self.bandwidths is not None and self.link_bandwidths is not None:
            raise InputError("is given beside bandwidths", key="link_bandwidths", accepted=f"either {form}")
        if own and self.bandwidths is None and self.link_bandwidths is None:
            raise InputError(f"is missing for {list(self.dimensions)}", key="bandwidths", accepted=form)
        if own and self.latencies is None:
            message = f"is missing for {list(self.dimensions)}"
            raise InputError(message, key="latencies", accepted=f"times such as '20 ns' or 0: one for all, or {count}")
        if self.names is not None and len(self.names) != count:
            message = f"{len(self.names)} names for the {count} dimensions {list(self.dimensions)}"
            raise InputError(message, key="names", accepted=f"{count} names")

    @property
    def scopes(self) -> tuple[str, ...]:
        return scopes_of_dimensions(len(self.dimensions), self.names or ())

    def build(self) -> Fabric:
        count = len(self.dimensions)
        given = self.link_bandwidths or self.bandwidths or _THEMIS_BANDWIDTHS
        latencies = units.per_dimension(self.latencies or _THEMIS_LATENCIES, self.dimensions)
        energies, names = units.per_dimension(self.link_energy, self.dimensions), self.names or ("",) * count
        dimensions = []
        for number, bandwidth in enumerate(units.per_dimension(given, self.dimensions)):
            written, size = self.dimensions[number].split()
            kind, make = _KINDS[_plain(written)], Dimension if self.link_bandwidths is None else Dimension.of_links
            one = make(kind, int(size), bandwidth, latencies[number], names[number], energy=energies[number])
            dimensions.append(evolve(one, tier=number))
        return product_fabric(dimensions)
