"""The comparison of an experiment from what stores have of its cells; nothing runs, and no plugin is needed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import asdict

from fredfw.errors import InputError
from fredfw.experiment.file.checks import check_causes
from fredfw.experiment.file.spec import AnyOutline, FabricSection, WorkloadSection
from fredfw.experiment.matrix.comparison import assemble, comparable
from fredfw.experiment.naming import listed
from fredfw.experiment.results import Cell, Comparison, Failure
from fredfw.experiment.run.cells import Outcome, key_of, tables
from fredfw.experiment.store import Store
from fredfw.fidelities import EXACT, SIMULATED
from fredfw.files import File, Files
from fredfw.simulation.fidelity import chosen
from fredfw.units import counted

FORM = "what `fredfw compare` or `fredfw run --store` keeps"


def merge(outline: AnyOutline, stores: Sequence[Store]) -> Comparison:
    fidelity = fidelity_of(outline, stores)
    cells: dict[tuple[str, str], Cell] = {}
    failures: dict[tuple[str, str], Failure] = {}
    missing: list[str] = []
    versions: dict[str, tuple[str, str]] = {}
    for row, column in outline.cells:
        key, title = (row.name, column.name), f"{row.name} on {column.name}"
        try:
            found = find(outline, row, column, stores, fidelity)
            if isinstance(found, Cell):
                _check_files(found, outline.folder)
                _check_versions(found, title, versions)
        except InputError as error:
            raise error.at(file=", ".join(str(one.path) for one in stores), key=title) from None
        if found is None:
            missing.append(title)
        elif isinstance(one := comparable(found), Cell):
            cells[key] = one
        else:
            failures[key] = one
    if missing:
        message = f"there is no result for {len(missing)} of {counted(len(outline.cells), 'cell')}: {listed(missing)}"
        raise InputError(message, file=outline.file, accepted=f"{FORM}, of every cell as the file is now")
    if not cells:
        raise next(iter(failures.values())).error(outline.file)
    check_causes(outline, {key: cell.breakdown for key, cell in cells.items()})
    counts = [(f"{row} on {column}", cell.provenance.get("transfers", 0)) for (row, column), cell in cells.items()]
    reason = "" if outline.fidelity or fidelity == EXACT else chosen(counts).reason
    return assemble(outline, cells, [cell.statistics for cell in cells.values()], reason, failures)


def fidelity_of(outline: AnyOutline, stores: Sequence[Store]) -> str:
    """Return the one that ``outline`` names, or the one that ``stores`` have the most cells of."""

    def count(fidelity: str) -> int:
        content = (tables(outline, row, column) for row, column in outline.cells)
        return sum(any(store.find(key_of(one, fidelity)) for store in stores) for one in content)

    return outline.fidelity or max(SIMULATED, key=count)


def find(
    outline: AnyOutline, workload: WorkloadSection, fabric: FabricSection, stores: Sequence[Store], fidelity: str
) -> Outcome | None:
    key = key_of(tables(outline, workload, fabric), fidelity)
    found = [outcome for store in stores for outcome in store.find(key)]
    if any(asdict(one) != asdict(found[0]) for one in found):
        message = f"has {len(found)} results that differ: of other plugins or files, or of another version of them"
        raise InputError(message, accepted="a store with one of them, or fredfw compare, which knows what is installed")
    return found[0] if found else None


def _check_files(cell: Cell, folder: Path) -> None:
    for one in cell.provenance["files"]:
        path = one["path"]
        now = Files.at(path, folder) if isinstance(path, list) else File.at(path, folder)
        if now.digest != one["sha256"]:
            named = ", ".join(path) if isinstance(path, list) else path
            raise InputError(f"was run with another content of {named}", accepted="a cell of the files as they are")


def _check_versions(cell: Cell, title: str, known: dict[str, tuple[str, str]]) -> None:
    stated: Mapping[str, str] = cell.provenance["versions"]
    for distribution, version in stated.items():
        other, first = known.setdefault(distribution, (version, title))
        if other != version:
            message = f"was run with {distribution} {version}, {first} with {other}"
            raise InputError(message, accepted="cells that were run with the same versions")
