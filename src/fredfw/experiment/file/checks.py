"""Checks across the tables of an experiment: what one names is there in another, and workloads have the labels."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from fredfw.errors import InputError, nearest, placed
from fredfw.experiment.file.spec import AnyOutline, Experiment, FabricSpec, Unfit, WorkloadSpec
from fredfw.experiment.naming import listed, repeated
from fredfw.simulation import answers
from fredfw.terminal import has_controls, quoted
from fredfw.workloads.labels import RESERVED

Causes = Mapping[tuple[str, str], Collection[str]]
"""What the breakdown of a cell has, by workload and fabric; cells that cannot be run are not in it."""
_MISSING = "no workload has the label"


def check(outline: AnyOutline) -> None:
    _check_texts(outline)
    priorities = outline.priorities or ()
    if found := repeated(priorities):
        place, _ = found
        raise InputError(f"{priorities[place]!r} is repeated", key=f"priorities[{place}]", accepted="each label once")
    for key, look_up, name in _names(outline):
        with placed(key=key):
            look_up(name)
    _check_calibrations(outline)
    _check_savings(outline)
    if found := repeated((one.workload, one.fabric) for one in outline.references):
        place, first = found
        one = outline.references[place]
        message = f"{one.workload!r} on {one.fabric!r} has a reference already, references[{first}]"
        raise InputError(message, key=f"references[{place}]", accepted="one reference for each cell")
    for fabric in outline.fabrics:
        outline.prices.check(fabric.scopes or (), key=f"fabrics.{fabric.name}.scopes")


def _check_texts(outline: AnyOutline) -> None:
    texts = {"title": outline.title}
    texts |= {f"fabrics.{one.name}": one.name for one in outline.fabrics}
    texts |= {f"workloads.{one.name}": one.name for one in outline.workloads}
    texts |= {f"savings[{index}].name": one.name for index, one in enumerate(outline.savings)}
    for key, text in texts.items():
        if has_controls(text):
            accepted = "text without tabs, line breaks and other control characters"
            raise InputError(f"{text!r} has control characters", key=key, accepted=accepted)


def _names(outline: AnyOutline) -> Iterator[tuple[str, Callable[[str], object], str]]:
    for fabric in outline.fabrics:
        key = f"fabrics.{fabric.name}.baseline" if "baseline" in fabric.table else "baseline"
        yield key, outline.fabric, fabric.baseline
    for index, reference in enumerate(outline.references):
        yield f"references[{index}].fabric", outline.fabric, reference.fabric
        yield f"references[{index}].workload", outline.workload, reference.workload
    for workload in outline.workloads:
        key = f"workloads.{workload.name}"
        if workload.baseline is not None:
            yield f"{key}.baseline", outline.workload, workload.baseline
        if workload.calibration is not None:
            yield f"{key}.calibration.fabric", outline.fabric, workload.calibration.fabric


def _check_calibrations(outline: AnyOutline) -> None:
    for workload in outline.workloads:
        if workload.calibration is None:
            continue
        key = f"workloads.{workload.name}"
        if workload.baseline not in (None, workload.name):
            message = f"{workload.name!r} is compared with {workload.baseline!r}, so its scale cannot be fitted"
            raise InputError(message, key=f"{key}.baseline", accepted="a baseline or a calibration")
        name = workload.calibration.fabric
        if outline.fabric(name).baseline == name:
            others = listed([quoted(one.name) for one in outline.fabrics if one.name != name])
            message = f"{name!r} is the baseline, whose speed-up is 1 at every scale"
            raise InputError(message, key=f"{key}.calibration.fabric", accepted=others or "another fabric")


def _check_savings(outline: AnyOutline) -> None:
    for index, saving in enumerate(outline.savings):
        if saving.name in [one.name for one in outline.savings[:index]]:
            raise InputError(f"{saving.name!r} is repeated", key=f"savings[{index}].name", accepted="another name")
        with placed(key=f"savings[{index}]"):
            groups = {saving.group(pair.settings) for pair in outline.pairs(saving)}
            about = {place: one for place, one in enumerate(saving.references) if not saving.is_claim(one)}
            for place, one in about.items():
                if set(one.at) != set(saving.by) or saving.group(one.at) not in groups:
                    known = listed([" / ".join(group) for group in sorted(groups)])
                    message = f"there is no group {dict(one.at)!r}"
                    accepted = f"a value for each of {list(saving.by)}: {known}"
                    raise InputError(message, key=f"references[{place}].at", accepted=accepted)
            if found := repeated(saving.group(one.at) for one in about.values()):
                place, first = (list(about)[one] for one in found)
                message = f"the group {dict(about[place].at)!r} has a reference already, references[{first}]"
                raise InputError(message, key=f"references[{place}]", accepted="one reference for each group")


def check_causes(outline: AnyOutline, causes: Causes) -> None:
    """Make sure that cells have the labels that savings compare, and some cell each that has a class or a share."""
    for index, saving in enumerate(outline.savings):
        for pair in () if saving.part is None else outline.pairs(saving):
            for name in (pair.of, pair.over):
                known = causes.get((pair.workload, name))
                if known is not None and saving.part not in known:
                    message = f"{pair.workload!r} on {name!r} has no part {saving.part!r}"
                    key, accepted = f"savings[{index}].part", ", ".join(map(quoted, known))
                    raise InputError(message, file=outline.file, key=key, accepted=accepted)
    if not outline.complete:
        return
    if outline.priorities is not None and len(causes) == len(outline.cells):
        found = [cause for row, column in outline.cells for cause in causes[row.name, column.name]]
        with placed(file=outline.file):
            check_labels(outline.priorities, found, _MISSING)
    if isinstance(outline, Experiment):
        for fabric in outline.fabrics:
            cells = [(one.name, fabric.name) for one in outline.workloads]
            if all(cell in causes for cell in cells):
                found = [cause for cell in cells for cause in causes[cell]]
                with placed(file=outline.file):
                    check_labels(labels_of_sharing(fabric), found, _MISSING, f"fabrics.{fabric.name}.sharing")


def error_of(workload: WorkloadSpec, fabric: FabricSpec) -> InputError | None:
    return next((one.error for one in (fabric.topology, workload.workload) if isinstance(one, Unfit)), None)


def labels_of_sharing(fabric: FabricSpec) -> Sequence[str]:
    sharing = fabric.slots.get("sharing")
    return () if sharing is None else answers.labels(sharing)


def check_labels(labels: Sequence[str], causes: Iterable[str], missing: str, key: str | None = None) -> None:
    """Raise ``InputError``, which begins with what is ``missing``, for one of ``labels`` that is not in ``causes``."""
    known = [cause for cause in dict.fromkeys(causes) if cause not in RESERVED]
    listed = ", ".join(map(quoted, known))
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        accepted = f"a list of {listed}" if known else "an empty list"
        raise InputError(f"{labels!r} is not a list of labels", key=key or "priorities", accepted=accepted)
    own = {cause.partition("/")[2] for cause in known}  # ``vision/dp`` of the job ``vision`` goes by ``dp``, too
    for index, label in enumerate(labels):
        if label not in known and (not label or label not in own):
            message = f"{missing} {label!r}{nearest(str(label), known)}"
            raise InputError(message, key=key or f"priorities[{index}]", accepted=listed or "an empty list")
