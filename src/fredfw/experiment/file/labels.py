"""Checks of labels that an experiment names: workloads must have them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from fredfw.errors import InputError, nearest
from fredfw.experiment.file.spec import AnyOutline, Experiment, FabricSpec
from fredfw.simulation import answers
from fredfw.terminal import quoted
from fredfw.workloads.labels import RESERVED

Causes = Mapping[tuple[str, str], Collection[str]]
"""What the breakdown of a cell has, by workload and fabric; cells that cannot be run are not in it."""
_MISSING = "no workload has the label"


def check_parts(outline: AnyOutline, causes: Causes) -> None:
    """Make sure that cells have the part of their time that a saving compares.

    Raises:
        InputError: One has not.
    """
    for index, saving in enumerate(outline.savings):
        if saving.part is None:
            continue
        for pair in outline.pairs(saving):
            for fabric in (pair.of, pair.over):
                known = causes.get((pair.workload, fabric))
                if known is not None and saving.part not in known:
                    raise InputError(
                        f"{pair.workload!r} on {fabric!r} has no part {saving.part!r}",
                        file=outline.file,
                        key=f"savings[{index}].part",
                        accepted=", ".join(map(quoted, known)),
                    )


def check_priorities(outline: AnyOutline, causes: Causes) -> None:
    """Make sure that some cell has each label of ``priorities``, where all cells are known.

    Raises:
        InputError: None has.
    """
    if not outline.complete or outline.priorities is None or len(causes) < len(outline.cells):
        return
    found = dict.fromkeys(cause for cell in outline.cells for cause in causes[cell[0].name, cell[1].name])
    check_labels(outline.priorities, found, _MISSING, file=outline.file)


def names_of(fabric: FabricSpec) -> Sequence[str]:
    """Return the labels that the sharing policy that ``fabric`` is given names."""
    sharing = fabric.slots.get("sharing")
    return () if sharing is None else answers.labels(sharing)


def check_sharing(experiment: Experiment, causes: Causes) -> None:
    """Make sure that some workload has each label that a sharing policy names, where all cells of its fabric are known.

    Raises:
        InputError: None has.
    """
    for fabric in experiment.fabrics:
        cells = [(one.name, fabric.name) for one in experiment.workloads]
        if experiment.complete and all(cell in causes for cell in cells):
            found = dict.fromkeys(cause for cell in cells for cause in causes[cell])
            key = f"fabrics.{fabric.name}.sharing"
            check_labels(names_of(fabric), found, _MISSING, file=experiment.file, key=key)


def check_labels(
    labels: Sequence[str],
    causes: Iterable[str],
    missing: str,
    *,
    file: str | None = None,
    key: str | None = None,
) -> None:
    """Raise ``InputError``, which begins with what is ``missing``, for one of ``labels`` that is not in ``causes``.

    The label of a job, such as ``vision/dp``, goes by its own name, too. ``key`` gives the labels, by default a list
    ``priorities``.
    """
    known = [cause for cause in causes if cause not in RESERVED]
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        accepted = f"a list of {', '.join(map(quoted, known))}" if known else "an empty list"
        raise InputError(f"{labels!r} is not a list of labels", file=file, key=key or "priorities", accepted=accepted)
    own = {cause.partition("/")[2] for cause in known}
    for index, label in enumerate(labels):
        if label not in known and (not label or label not in own):
            raise InputError(
                f"{missing} {label!r}{nearest(str(label), known)}",
                file=file,
                key=key or f"priorities[{index}]",
                accepted=", ".join(map(quoted, known)) or "an empty list",
            )
