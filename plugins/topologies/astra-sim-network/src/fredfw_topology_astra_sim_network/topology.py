"""The topology ``astra-sim-network``, and the file that it reads: one for ASTRA-sim's analytical backends."""

import math
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeVar

from attrs import evolve, frozen

from fredfw import Dimension, Fabric, File, Topology, product_fabric, scopes_of_dimensions, units
from fredfw.errors import InputError
from fredfw.tables import check_keys, shown
from fredfw_topology_astra_sim_network.inputs import read_yaml

T = TypeVar("T")

GIGABYTE = 2**30  # bytes of what ASTRA-sim calls GB
_NANOSECONDS = 1e9  # in a second: divided by these, decimal numbers stay what they are
_KINDS: dict[str, Literal["ring", "fully-connected", "switch"]] = {
    "Ring": "ring",
    "FullyConnected": "fully-connected",
    "Switch": "switch",
}
_MOST = 2**31 - 1
# What its parser takes for a number, and PyYAML for text: 1e3.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@frozen
class Block:
    """One dimension, as the file has it."""

    topology: str  # ``Ring``, ``FullyConnected`` or ``Switch``
    npus: int  # positions
    bandwidth: float  # of each link and direction, in units of 2^30 bytes per second
    latency: float  # nanoseconds of a link; a message through a switch takes two

    @property
    def dimension(self) -> Dimension:
        """The same, in SI units: the latency of a dimension is from an NPU to the next, through the switch."""
        kind = _KINDS[self.topology]
        latency = self.latency / _NANOSECONDS * (2 if kind == "switch" else 1)
        return Dimension.of_links(kind, self.npus, self.bandwidth * GIGABYTE, latency)


def read(content: bytes) -> tuple[Block, ...]:
    """Return the dimensions in a network file, innermost first; raises ``InputError`` that names key and value."""
    table = read_yaml(content)
    if not isinstance(table, dict):
        raise InputError("is not a network file", accepted=f"a mapping of {', '.join(_KEYS)}")
    check_keys(table, _KEYS, "")
    columns = []
    for key, (convert, form) in _KEYS.items():
        if key not in table:
            raise InputError("is missing", key=key, accepted=f"a list of {form}, one for each dimension")
        columns.append(_column(table[key], key, convert, form))
    lengths = {key: len(column) for key, column in zip(_KEYS, columns, strict=True)}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length} in {key}" for key, length in lengths.items())
        raise InputError(f"the lists have different lengths: {found}", accepted="one value per dimension")
    return tuple(Block(*values) for values in zip(*columns, strict=True))


def _column(values: Any, key: str, convert: Callable[[Any], T | None], form: str) -> list[T]:
    if not isinstance(values, list) or not values:
        raise InputError(f"{shown(values)} is not a list of values", key=key, accepted=f"a list of {form}")
    column = []
    for index, value in enumerate(values):
        if (one := convert(value)) is None:
            raise InputError(f"{shown(value)} is refused", key=f"{key}[{index}]", accepted=form)
        column.append(one)
    return column


def _number(value: Any) -> float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if 0 <= number < math.inf else None


_KEYS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "topology": (lambda value: value if isinstance(value, str) and value in _KINDS else None, ", ".join(_KINDS)),
    "npus_count": (
        lambda value: value if type(value) is int and 1 < value <= _MOST else None,
        "whole numbers of at least 2",
    ),
    "bandwidth": (lambda value: _number(value) or None, "numbers above 0, in GB/s of 2^30 B/s"),
    "latency": (_number, "numbers of at least 0, in ns"),
}


@frozen
class AstraSimNetwork(Topology):
    """The network of a file for ASTRA-sim's analytical backends: a product of rings, full meshes and switches.

    Units are those of ASTRA-sim: a GB is 2^30 bytes, and a message through a switch takes the latency twice. Bandwidths
    are those of each link and direction. The first dimension is the innermost one, that of NPUs with successive
    numbers. Messages go along it first.
    """

    name: ClassVar[str] = "astra-sim-network"

    file: File = units.file(help="YAML file with the keys topology, npus_count, bandwidth and latency")

    def __attrs_post_init__(self) -> None:
        _ = self.blocks

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The dimensions of the file, innermost first."""
        with self.file.named():
            return read(self.file.read())

    @property
    def scopes(self) -> tuple[str, ...]:
        return scopes_of_dimensions(len(self.blocks))

    def build(self) -> Fabric:
        dimensions = [evolve(block.dimension, tier=number) for number, block in enumerate(self.blocks)]
        name = "_".join(f"{block.topology}({block.npus})" for block in self.blocks)
        return product_fabric(dimensions, name, key="file")
