"""Which fidelity cells have that nobody has asked one for: all of them the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fredfw.experiment.cells import CellSpec, CellStore
from fredfw.experiment.results import Cell
from fredfw.fidelities import COMPRESSED
from fredfw.simulation.fidelity import Choice, chosen


def choose(
    specs: Sequence[CellSpec],
    count: Callable[[Sequence[CellSpec]], Iterable[int]],
    store: CellStore | None = None,
    names: Sequence[str] = (),
) -> Choice:
    """Return the fidelity of ``specs``, see ``chosen``.

    Args:
        specs: All cells that are compared, exact.
        count: Returns about how many transfers each of some cells has.
        store: May know that of some.
        names: What the cells are called, where not as workload and fabric are.
    """
    known = [_stored(store, spec) for spec in specs]
    missing = [number for number, found in enumerate(known) if found is None]
    for number, found in zip(missing, count([specs[number] for number in missing]), strict=True):
        known[number] = found
    return chosen(zip(names or map(str, specs), (one or 0 for one in known), strict=True))


def _stored(store: CellStore | None, spec: CellSpec) -> int | None:
    """Return how many transfers a cell has that ``store`` knows; ``None`` where it does not know it."""
    for one in (spec, spec.with_fidelity(COMPRESSED)):
        if store is not None and (found := store.get(*one.identity)) is not None:
            return found.provenance.get("transfers") if isinstance(found, Cell) else 0
    return None
