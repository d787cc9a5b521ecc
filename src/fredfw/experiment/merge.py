"""The comparison of an experiment, from results of its cells that were stored one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fredfw.errors import InputError, nearest
from fredfw.experiment.comparison import assemble
from fredfw.experiment.labels import check_parts, check_priorities
from fredfw.experiment.naming import listed
from fredfw.experiment.reading import folder_of
from fredfw.experiment.results import Cell, Comparison
from fredfw.experiment.spec import AnyOutline
from fredfw.experiment.stored import FORM, read_cell
from fredfw.files import File, Files
from fredfw.plugin import configure


def merge(outline: AnyOutline, paths: Iterable[str | Path]) -> Comparison:
    """Return the comparison of ``outline`` whose cells are stored at ``paths``.

    Raises:
        InputError: A cell is missing, doubled, damaged, of another experiment, or was run with another configuration or
            other versions of the plugins than the rest.
    """
    files: dict[tuple[str, str], str] = {}
    cells: dict[tuple[str, str], Cell] = {}
    versions: dict[str, tuple[str, Cell]] = {}
    known = {(workload.name, fabric.name): (workload, fabric) for workload, fabric in outline.cells}
    for path in map(str, paths):
        cell = read_cell(path)
        key = cell.workload, cell.fabric
        try:
            if key not in known:
                hint = nearest(_title(*key), [_title(*one) for one in known])
                raise InputError(f"is not a cell of {_origin(outline)}{hint}", accepted="the cells of that experiment")
            if key in cells:
                raise InputError(f"is also in {files[key]}", accepted="each cell once")
            _check_configuration(cell, _expected(outline, *key), outline)
            _check_files(cell, folder_of(outline))
            _check_versions(cell, versions)
        except InputError as error:
            raise error.at(file=path, key=_title(*key)) from None
        cells[key], files[key] = cell, path
    missing = [_title(*key) for key in known if key not in cells]
    if missing:
        message = f"there is no result for {len(missing)} of {len(known)} cells: {listed(missing)}"
        raise InputError(message, file=outline.file, accepted=f"{FORM}, for every cell")
    causes = {key: cell.breakdown for key, cell in cells.items()}
    check_parts(outline, causes)
    check_priorities(outline, causes)
    return assemble(outline, cells, [cell.statistics for cell in cells.values()])


def _expected(outline: AnyOutline, workload: str, fabric: str) -> dict[str, Any]:
    """Return what the provenance of a cell has to say if it is of ``outline`` as it is now."""
    row, column = outline.workload(workload), outline.fabric(fabric)
    return {
        "written": {"fabric": column.written, "workload": row.written},
        "npu": configure.unstructure(outline.npu_of(column)),
        "compute_scale": row.compute_scale,
        **({} if outline.priorities is None else {"priorities": list(outline.priorities)}),
        "fidelity": outline.fidelity_of(row, column),
    }


def _check_configuration(cell: Cell, expected: Mapping[str, Any], outline: AnyOutline) -> None:
    for key, value in expected.items():
        place = _difference(cell.provenance.get(key), value, key)
        if place is not None:
            where, stored, wanted = place
            origin = _origin(outline)
            message = f"was run with another configuration: {where} was {stored!r}, in {origin} it is {wanted!r}"
            raise InputError(message, accepted="a cell that was run with the current file")


def _difference(stored: Any, wanted: Any, path: str) -> tuple[str, Any, Any] | None:
    """Return the first place where the two differ, and what is there in each."""
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        inside = (
            _difference(stored.get(key), wanted.get(key), f"{path}.{key}") for key in dict.fromkeys([*wanted, *stored])
        )
        return next((one for one in inside if one is not None), None)
    return None if stored == wanted else (path, stored, wanted)


def _check_files(cell: Cell, folder: Path) -> None:
    """Make sure that the files that decided ``cell``, relative to ``folder``, hold what they held then."""
    for one in cell.provenance["files"]:
        path = one["path"]
        now = Files.at(path, folder) if isinstance(path, list) else File.at(path, folder)
        if now.digest != one["sha256"]:
            named = ", ".join(path) if isinstance(path, list) else path
            raise InputError(f"was run with another content of {named}", accepted="a cell of the files as they are")


def _check_versions(cell: Cell, known: dict[str, tuple[str, Cell]]) -> None:
    """Make sure that ``cell`` was run with the versions ``known`` of other cells, and add its own to them."""
    for distribution, version in cell.provenance["versions"].items():
        other, first = known.setdefault(distribution, (version, cell))
        if other != version:
            message = f"was run with {distribution} {version}, {_title(first.workload, first.fabric)} with {other}"
            raise InputError(message, accepted="cells that were run with the same versions")


def _title(workload: str, fabric: str) -> str:
    return f"{workload} on {fabric}"


def _origin(outline: AnyOutline) -> str:
    return outline.file or repr(outline.title)
