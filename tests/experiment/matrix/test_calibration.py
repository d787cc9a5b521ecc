from typing import Any

import pytest
from experiments import FRAMEWORK, compare, run

from fredfw.errors import InputError
from fredfw.experiment.matrix.calibration import Fit, solve

# VGG-16's gradients, 138,357,544 parameters of 2 bytes (Simonyan & Zisserman 2015), around a ring of 4 NPUs.
GRADIENTS = 2 * 138_357_544


def content(speedup: float, **changes: Any) -> dict[str, Any]:
    """Two 2 x 2 meshes without latency, the second one with links of twice the bandwidth."""

    def mesh(bandwidth: str) -> dict[str, Any]:
        size = {"rows": 2, "columns": 2, "io_controllers": False}
        topology = {"name": "mesh2d", **size, "link_bandwidth": bandwidth, "link_latency": 0}
        return {"topology": topology, "placement": "snake", "collectives": {"default": "ring"}}

    fitted = {"fabric": "fast", "speedup": speedup}
    net = {"workload": {"name": "cnn", "model": "vgg-16"}, "calibration": fitted, **changes}
    return {"fabrics": {"slow": mesh("100 GB/s"), "fast": mesh("200 GB/s")}, "workloads": {"net": net}}


def calibrate(tables: dict[str, Any], **options: Any) -> Fit:
    (fit,) = FRAMEWORK.calibrate(FRAMEWORK.load_experiment(tables), **options)
    return fit


def roofline() -> float:
    """Seconds of computation at the roofline, which no fabric has a part in."""
    return run(content(1.5), fabric="slow").breakdown["compute"]


def communication(bandwidth: float) -> float:
    """A ring all-reduce in a ring of four links: 2 (n - 1) / n of the gradients over every link."""
    return 1.5 * GRADIENTS / bandwidth


@pytest.mark.parametrize("target", [1.2, pytest.param(1.9, marks=pytest.mark.slow)])
def test_one_solution_is_the_closed_form(target: float) -> None:
    fit = calibrate(content(target))
    slow, fast = communication(100e9), communication(200e9)
    # (c + slow) / (c + fast) = target
    compute = (slow - target * fast) / (target - 1)
    assert fit.solutions == pytest.approx([compute / roofline()], rel=1e-6)
    assert (fit.workload, fit.fabric, fit.target, fit.recorded) == ("net", "fast", target, 1.0)
    low, high = ((scale * roofline() + slow) / (scale * roofline() + fast) for scale in reversed(fit.range))
    assert fit.reached == pytest.approx((low, high), rel=1e-9)


@pytest.mark.parametrize("target", [0.5, 2.5])
def test_no_solution_where_the_target_is_out_of_reach(target: float) -> None:
    # Between 1, where computation is everything, and 2, the ratio of the bandwidths.
    fit = calibrate(content(target))
    assert fit.solutions == ()
    assert 1 < fit.reached[0] < fit.reached[1] < 2


@pytest.mark.parametrize("fidelity", ["exact", "compressed"])
def test_the_solution_gives_the_target_where_cells_are_run_as_they_were(fidelity: str) -> None:
    fit = calibrate({**content(1.5), "fidelity": fidelity})
    rows = compare({**content(1.5, compute_scale=fit.solutions[0]), "fidelity": fidelity}).rows
    assert [row.speedup for row in rows] == pytest.approx([1.0, 1.5], rel=1e-8)
    assert {row.fidelity for row in rows} == {fidelity}
    assert not any("fitted" in note for row in rows for note in row.notes)


def test_a_scalar_that_no_longer_fits_is_noted_and_progress_counts_workloads() -> None:
    fit = calibrate(content(1.5))
    slow, fast = compare(content(1.5, compute_scale=2 * fit.solutions[0])).rows
    assert any("not the 1.5 it was fitted to: run fredfw calibrate" in note for note in fast.notes)
    assert not any("fitted" in note for note in slow.notes)
    steps: list[tuple[int, int, str]] = []
    calibrate(content(1.5), progress=lambda *step: steps.append(step))
    assert (steps[0], steps[-1]) == ((0, 1, "net"), (1, 1, ""))
    assert {step[1:] for step in steps[:-1]} == {(1, "net")}
    shares = [step[0] for step in steps]
    assert shares == sorted(shares)
    assert len(set(shares)) > 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload": {"name": "cnn", "model": "vgg-16", "dp": 5}}, "needs 5 NPUs"),
        ({"workload": {"name": "microbenchmark", "ranks": 1}}, "takes no time on 'slow'"),
    ],
)
def test_what_cannot_be_fitted_is_refused(changes: dict[str, Any], message: str) -> None:
    steps: list[object] = []
    with pytest.raises(InputError, match=message):
        calibrate(content(1.5, **changes), progress=lambda *step: steps.append(step))
    assert steps == [] or "no time" in message  # what does not fit is known before anything runs
    with pytest.raises(InputError, match="no workload has a calibration"):
        calibrate({**content(1.5), "workloads": {"net": {"workload": "cnn"}}})


GRID = [0.1 * step for step in range(1, 31)]


def test_solve_finds_all_roots_once_and_takes_a_jump_for_none() -> None:
    # (x - 1.23) (x - 2.34) = x^2 - 3.57 x + 2.8782
    roots, reached = solve(lambda x: x * x - 3.57 * x, -2.8782, GRID)
    assert roots == pytest.approx((1.23, 2.34), rel=1e-8)
    assert reached == pytest.approx((1.8 * 1.8 - 3.57 * 1.8, 0.01 - 0.357), rel=1e-12)
    assert solve(lambda x: x, GRID[4], GRID)[0] == (GRID[4],)
    assert solve(lambda x: x, GRID[-1], GRID)[0] == (GRID[-1],)
    assert solve(lambda x: 1.0, 1.0, GRID) == (tuple(GRID), (1.0, 1.0))
    assert solve(lambda x: 1.0, 1.5, GRID)[0] == ()
    assert solve(lambda x: 1.0 if x < 1.234 else 2.0, 1.5, GRID) == ((), (1.0, 2.0))
