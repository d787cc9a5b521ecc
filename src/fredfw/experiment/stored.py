"""Reads what was stored of a cell, and makes sure that it is whole and possible."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from fredfw.errors import InputError
from fredfw.experiment.results import Cell
from fredfw.fidelities import FIDELITIES, RENAMED
from fredfw.plugin import configure
from fredfw.simulation import Statistics

FORM = "what a run gives"
# The parts of an iteration add up to it to this relative accuracy, as they did when it was simulated.
_EXACT = 1e-9
# What the provenance of a cell says, and the type of it.
_PROVENANCE: dict[str, type | tuple[type, ...]] = {
    "written": Mapping,
    "topology": Mapping,
    "router": Mapping,
    "sharing": Mapping,
    "admission": Mapping,
    "transport": Mapping,
    "placement": Mapping,
    "workload": Mapping,
    "collectives": (Mapping, str),
    "selection": str,
    "npu": Mapping,
    "compute_scale": (int, float),
    "priorities": list,
    "fidelity": str,
    "files": list,
    "versions": Mapping,
}


def cell_of(content: Mapping[str, Any]) -> Cell:
    """Return the cell whose fields ``content`` holds.

    Raises:
        InputError: A field is missing, unknown or of another type, or holds what no run can give.
    """
    cell = configure.build(Cell, content)
    counters = configure.build(Statistics, cell.statistics, key_prefix="statistics")
    cell = evolve(cell, statistics=counters.as_dict())
    _check_amounts(cell)
    _check_provenance(cell.provenance)
    return cell


def _check_amounts(cell: Cell) -> None:
    """Make sure that a run can have given the numbers of ``cell``."""
    amounts = {name: getattr(cell, name) for name in ("seconds", "energy", "injection_bandwidth")}
    amounts |= {f"breakdown.{cause}": seconds for cause, seconds in cell.breakdown.items()}
    amounts |= {f"statistics.{name}": count for name, count in cell.statistics.items()}
    amounts |= {f"memory.{name}": size for name, size in cell.memory.items()}
    if cell.cost is not None:
        amounts["cost"] = cell.cost
    for key, value in amounts.items():
        if value < 0:
            raise InputError(f"{value!r} is below 0", key=key, accepted="0 or more")
    total = math.fsum(cell.breakdown.values())
    if abs(total - cell.seconds) > _EXACT * cell.seconds:
        accepted = f"parts that add up to the {cell.seconds!r} s of the iteration"
        raise InputError(f"adds up to {total!r} s", key="breakdown", accepted=accepted)
    if not cell.placement or min(cell.placement) < 0 or len(set(cell.placement)) < len(cell.placement):
        accepted = "one or more different numbers of NPUs, from 0"
        raise InputError("has a negative number, a repeated number, or no number", key="placement", accepted=accepted)


def _check_provenance(provenance: Mapping[str, Any]) -> None:
    for key, kind in _PROVENANCE.items():
        where = f"provenance.{key}"
        if key not in provenance:
            raise InputError("is missing", key=where, accepted=FORM)
        if not isinstance(provenance[key], kind):
            raise InputError(f"{provenance[key]!r} is of another type", key=where, accepted=FORM)
    for index, file in enumerate(provenance["files"]):
        if not isinstance(file, Mapping) or file.keys() != {"path", "sha256"}:
            message = f"{file!r} is not a path and its digest"
            raise InputError(message, key=f"provenance.files[{index}]", accepted=FORM)
    if provenance["fidelity"] not in (*FIDELITIES, *RENAMED):
        message = f"{provenance['fidelity']!r} is not known"
        raise InputError(message, key="provenance.fidelity", accepted=", ".join(FIDELITIES))
    versions = provenance["versions"]
    if not versions:
        raise InputError("names no version", key="provenance.versions", accepted=FORM)
    for distribution, version in versions.items():
        if not isinstance(version, str) or not version:
            raise InputError(
                f"{version!r} is not a version", key=f"provenance.versions.{distribution}", accepted="text"
            )
