from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from experiments import FRAMEWORK

from fredfw.errors import SimulationError
from fredfw.experiment.results import Failure
from fredfw.experiment.run.cells import CellRunner, CellSpec, Means, Outcome, workers
from fredfw.experiment.store import Store
from fredfw.fabric import IdealTransport
from fredfw.fidelities import ESTIMATE
from fredfw.report.shown import Line, text_of
from fredfw.validation import sources
from fredfw.validation.iterations import IterationPoint, Iterations
from fredfw.validation.prediction import validate
from fredfw.validation.report import validation_report
from fredfw.validation.transports import Transports

PLUGINS = FRAMEWORK.plugins


@pytest.fixture(scope="module")
def points() -> list[IterationPoint]:
    """Two iterations of one node that take little time."""
    nodes = [one for one in sources.points() if isinstance(one, IterationPoint) and one.nodes == 1]
    return sorted(nodes, key=lambda one: one.passes)[:2]


def test_iterations_are_kept_in_a_store(
    tmp_path: Path, points: list[IterationPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []
    run = CellRunner.run

    def counted(self: CellRunner, spec: CellSpec, *share: Any) -> Outcome:
        ran.append(spec)
        return run(self, spec, *share)

    monkeypatch.setattr(CellRunner, "run", counted)
    plain = validate(points, Means(PLUGINS))
    assert len(ran) == 4  # by the transport and by ``ideal``
    told: list[tuple[float, int]] = []
    with Store.open(tmp_path / "iterations.cells") as store:
        first = validate(points, Means(PLUGINS, store, progress=lambda done, total, _: told.append((done, total))))
        assert len(ran) == 8
        again = validate(points, Means(PLUGINS, store))
    assert len(ran) == 8
    assert plain.to_json() == first.to_json() == again.to_json()
    # Each is simulated twice, and then compared.
    assert told == [(done, 6) for done in range(6)]


def test_estimates_are_close(points: list[IterationPoint]) -> None:
    found, simulated = validate(points, Means(PLUGINS), fidelity=ESTIMATE), validate(points, Means(PLUGINS))
    assert found.fidelity == ESTIMATE
    for one, other in zip(found.predictions, simulated.predictions, strict=True):
        # It leaves out what one communication does to another.
        assert 0.99 * other.seconds < one.seconds <= other.seconds * (1 + 1e-9)
    lines = [text_of(one.spans) for one in validation_report(found) if isinstance(one, Line)]
    assert "iterations are estimated by their longest path, not simulated" in lines


def test_a_transport_has_cells_of_its_own(points: list[IterationPoint]) -> None:
    found = validate(points[:1], Means(PLUGINS), transport={"name": "alpha-beta", "launch": "1 ms"})
    (one,) = found.predictions
    assert one.seconds > one.ideal


@pytest.mark.slow  # starts two processes
def test_other_processes_say_the_same(points: list[IterationPoint]) -> None:
    with workers(2, None, PLUGINS) as others:
        assert validate(points, Means(PLUGINS, workers=others)).to_json() == validate(points, Means(PLUGINS)).to_json()


def test_an_iteration_that_cannot_be_simulated(points: list[IterationPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: CellRunner, spec: CellSpec, *_share: Any) -> Outcome:
        return Failure(spec.workload, spec.fabric, "too large", infeasible=True)

    monkeypatch.setattr(CellRunner, "run", fails)
    failing = Iterations(Means(PLUGINS), Transports(PLUGINS, IdealTransport.name))
    with pytest.raises(SimulationError, match=r"\w+: line \d+ cannot be simulated: too large"):
        failing.seconds(points[0])
