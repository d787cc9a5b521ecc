"""Predicts points of all kinds: each kind has a predictor."""

from collections.abc import Mapping, Sequence
from itertools import count

from fredfw.errors import InputError
from fredfw.experiment.run.cells import Means
from fredfw.fabric import IdealTransport
from fredfw.fidelities import EXACT
from fredfw.simulation.fidelity import Choice
from fredfw.validation.collectives import Collectives, presets
from fredfw.validation.iterations import IterationPoint, Iterations
from fredfw.validation.kernels import KernelPoint, KernelTimes
from fredfw.validation.points import CollectivePoint, Part, Point, folds, systems
from fredfw.validation.results import Prediction, Validation
from fredfw.validation.transports import Predictor, Transports


def predictors(
    means: Means, transports: Transports, fidelity: str = EXACT, *, bare: bool = False
) -> Mapping[str, Predictor]:
    return {
        KernelPoint.kind: KernelTimes(bare=bare),
        CollectivePoint.kind: Collectives(means.plugins, transports),
        IterationPoint.kind: Iterations(means, transports, fidelity),
    }


def validate(
    points: Sequence[Point], means: Means, *, transport: object = None, fidelity: str | None = None
) -> Validation:
    """Predict every one of ``points``: by a transport as ``Transports`` takes it, its fits without some, ``ideal``."""
    if not points:
        raise InputError("there are no measured times to compare with", accepted="one or more")
    plugins = means.plugins
    transports = Transports(plugins, transport)
    checks = predictors(means, transports)
    for point in points:
        checks[point.kind].check(point)
    if fidelity is None:
        different = {one.same: one for one in points if isinstance(one, IterationPoint)}.values()
        specs = map(Iterations(means, transports).spec, different)
        choice = means.choose([*specs], names=[one.where for one in different])
    else:
        choice = Choice(fidelity)
    fidelity = choice.fidelity
    usual = predictors(means, transports, fidelity)
    ideal = predictors(means, Transports(plugins, IdealTransport.name), fidelity, bare=True)
    models = {point.system.name: usual[point.kind].model(point) for point in points}
    names = {system: model["name"] for system, model in models.items()}
    # Constants that are given have no fits without the measurements that ours were fitted to.
    ours = not isinstance(transport, Mapping) or set(transport) <= {"name"}
    collectives = [one for one in points if one.kind == CollectivePoint.kind]
    without = {
        fold: [one for one in collectives if fold.leaves_out(one) and names[one.system.name] == fold.transport]
        for fold in (folds(set(names.values())) if ours else ())
    }
    others = [one for one in points if names[one.system.name] != IdealTransport.name]
    iterations = sum(one.kind == IterationPoint.kind for one in (*points, *others))
    total, done = iterations + len(points) + sum(map(len, without.values())), count()

    def tell(point: Point) -> None:
        if means.progress:
            means.progress(next(done), total, f"{point.pattern} on {point.system.title}")

    for among, wanted in ((ideal, points), (usual, others)):
        for kind, predictor in among.items():
            predictor.prepare([point for point in wanted if point.kind == kind], tell)

    def predicted(point: Point, by: Mapping[str, Predictor], part: Part) -> Prediction:
        tell(point)
        return Prediction(point, by[point.kind].seconds(point), ideal[point.kind].seconds(point), part)

    found = []
    for point in points:
        by = ideal if names[point.system.name] == IdealTransport.name else usual
        found.append(predicted(point, by, usual[point.kind].part(point)))
    left_out = {}
    for fold, among_them in without.items():
        if among_them:
            changed = Transports(plugins, transport, fields={fold.transport: fold.fields})
            refitted = predictors(means, changed, fidelity)
            left_out[fold] = tuple(predicted(point, refitted, Part.HELD_OUT) for point in among_them)
    measured = {system.preset for system in (*systems().values(), *(point.system for point in points))}
    unvalidated = tuple(one for one in presets(plugins) if one not in measured) if len(collectives) else ()
    return Validation(models, tuple(found), left_out, unvalidated, fidelity, choice.reason)
