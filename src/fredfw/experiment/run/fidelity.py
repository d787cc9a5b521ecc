"""Which fidelity cells have that nobody has asked one for: all of them the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fredfw.experiment.results import Cell
from fredfw.experiment.run.cells import CellSpec, CellStore, Outcome
from fredfw.fidelities import COMPRESSED
from fredfw.simulation.fidelity import Choice, chosen


def choose(
    specs: Sequence[CellSpec],
    count: Callable[[Sequence[CellSpec]], Iterable[int]],
    known: Sequence[Outcome | None],
    names: Sequence[str] = (),
) -> Choice:
    """Return the fidelity of ``specs``, see ``chosen``.

    Args:
        specs: All cells that are compared, exact.
        count: Returns about how many transfers each of some cells has.
        known: What is known of each, see ``stored``.
        names: What the cells are called, where not as workload and fabric are.
    """
    counts = [_transfers(one) for one in known]
    missing = [number for number, found in enumerate(counts) if found is None]
    for number, found in zip(missing, count([specs[number] for number in missing]), strict=True):
        counts[number] = found
    return chosen(zip(names or map(str, specs), (one or 0 for one in counts), strict=True))


def stored(store: CellStore | None, specs: Sequence[CellSpec]) -> list[Outcome | None]:
    """Return what ``store`` knows of each of ``specs``, or of it compressed."""
    return [None if store is None else _stored(store, spec) for spec in specs]


def _transfers(known: Outcome | None) -> int | None:
    if isinstance(known, Cell):
        return known.provenance.get("transfers")
    return None if known is None else 0


def _stored(store: CellStore, spec: CellSpec) -> Outcome | None:
    found = store.get(*spec.identity)
    return store.get(*spec.with_fidelity(COMPRESSED).identity) if found is None else found
