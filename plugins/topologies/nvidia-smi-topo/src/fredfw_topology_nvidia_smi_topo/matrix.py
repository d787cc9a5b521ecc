"""The text of ``nvidia-smi topo -m``: who is connected to whom, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

from attrs import frozen

from fredfw.errors import InputError

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_DEVICE = re.compile(r"GPU\d+|NIC\d+|mlx\d+_\w+")
_NVLINKS = re.compile(r"NV([1-9]\d{0,2})")
_LEGEND = re.compile(r"\s*(NIC\d+)\s*:\s*(\S+)\s*")
_AFFINITY = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
PCIE = "PIX", "PXB", "PHB", "NODE", "SYS"
"""What a path over PCIe crosses at most, from one bridge to the link between NUMA nodes."""
_FORM = "the text that nvidia-smi topo -m prints"


@frozen
class Matrix:
    """Who is connected to whom.

    Args:
        gpus: Names of the GPUs, in the order of their numbers.
        cards: Names of the network cards.
        names: What the legend calls a card.
        cells: For each pair of different devices ``NV#`` or one of ``PCIE``.
        affinity: The CPUs of a GPU, as written, where the text says.
    """

    gpus: tuple[str, ...]
    cards: tuple[str, ...]
    names: Mapping[str, str]
    cells: Mapping[tuple[str, str], str]
    affinity: Mapping[str, str]

    def nvlinks(self, one: str, other: str) -> int:
        """Return how many NVLinks join two GPUs."""
        match = _NVLINKS.fullmatch(self.cells[one, other])
        return int(match[1]) if match else 0


def read(text: str) -> Matrix:
    """Return the matrix in ``text``.

    Raises:
        InputError: There is none, a row is missing, or a cell is not known; names line, device and value.
    """
    lines = [_ESCAPES.sub("", line).split() for line in text.splitlines()]
    start = next((index for index, words in enumerate(lines) if words[:1] == ["GPU0"]), None)
    if start is None:
        raise InputError("has no matrix", accepted=_FORM)
    devices = list(takewhile(_DEVICE.fullmatch, lines[start]))
    if len(set(devices)) < len(devices):
        raise InputError(f"line {start + 1}: a device is there twice", accepted=_FORM)
    rows, affinity = dict[str, Sequence[str]](), dict[str, str]()
    for index, words in enumerate(lines[start + 1 :], start + 2):
        if not words or words[0] not in devices or words[0] in rows:
            continue
        row, rest = words[1 : len(devices) + 1], words[len(devices) + 1 :]
        if len(row) < len(devices):
            message = f"line {index}: {len(row)} values for {len(devices)} devices"
            raise InputError(message, key=words[0], accepted=_FORM)
        for column, cell in zip(devices, row, strict=True):
            if cell not in (*PCIE, "X") and not _NVLINKS.fullmatch(cell):
                known = f"X, NV and a number, {', '.join(PCIE)}"
                message = f"line {index}: {cell!r} is not a connection"
                raise InputError(message, key=f"{words[0]}, {column}", accepted=known)
        rows[words[0]] = row
        if rest and _AFFINITY.fullmatch(rest[0]):
            affinity[words[0]] = rest[0]
    names = {match[1]: match[2] for line in text.splitlines() if (match := _LEGEND.fullmatch(line))}
    return _checked(devices, rows, affinity, names)


def _checked(
    devices: Sequence[str], rows: Mapping[str, Sequence[str]], affinity: Mapping[str, str], names: Mapping[str, str]
) -> Matrix:
    for device in devices:
        if device not in rows:
            raise InputError("has no row", key=device, accepted="a row for each column")
    cells = {(one, other): rows[one][place] for one in devices for place, other in enumerate(devices) if one != other}
    for (one, other), cell in cells.items():
        key = f"{one}, {other}"
        if cell != cells[other, one]:
            raise InputError(f"{cell!r} there and {cells[other, one]!r} back", key=key, accepted="the same both ways")
        if cell == "X" or (_NVLINKS.fullmatch(cell) and not (one.startswith("GPU") and other.startswith("GPU"))):
            raise InputError(f"{cell!r} is refused", key=key, accepted=", ".join(PCIE))
    gpus = sorted((one for one in devices if one.startswith("GPU")), key=lambda name: int(name[3:]))
    cards = tuple(one for one in devices if not one.startswith("GPU"))
    return Matrix(tuple(gpus), cards, names, cells, affinity)
