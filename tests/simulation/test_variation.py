"""NPUs that are slower than others, and computations that do not take the same time twice."""

import math

import numpy as np
import pytest

from fredfw import Framework, GraphBuilder, Pattern, TaskGraph
from fredfw.errors import InputError
from fredfw.experiment.results import GraphResult
from fredfw.simulation import Jitter, Stragglers, Variation


def compute_then_reduce(ranks: int, *, repeats: int = 1, size: float = 0.0) -> TaskGraph:
    """Everybody computes for a second and then waits for everybody, so often."""
    builder = GraphBuilder(ranks)
    everybody = np.arange(ranks)
    last: list[int] = []
    for _ in range(repeats):
        work = builder.compute("work", everybody, seconds=1.0, after=last)
        last = [builder.collective("sum", Pattern.ALL_REDUCE, everybody[None, :], size, label="dp", after=[work])]
    return builder.build()


def simulate(graph: TaskGraph, variation: Variation | None, fidelity: str = "compressed") -> GraphResult:
    framework, given = Framework(), {"link_bandwidth": "1 GB/s", "link_latency": 0}
    fabric = framework.topology("fully-connected", npus=graph.ranks, **given).build()
    chosen = {"default": "direct"}
    return framework.simulate_graph(graph, fabric, variation=variation, collectives=chosen, fidelity=fidelity)


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
def test_everybody_waits_for_one_straggler(fidelity: str) -> None:
    slow = Variation(stragglers=(Stragglers(factor=1.5, npus=(2,)),))
    result = simulate(compute_then_reduce(4, repeats=3), slow, fidelity=fidelity)
    assert result.seconds == pytest.approx(4.5)
    assert result.breakdown["compute"] == pytest.approx((3 * 3.0 + 4.5) / 4)
    assert simulate(compute_then_reduce(4, repeats=3), None, fidelity=fidelity).seconds == pytest.approx(3.0)
    # Factors of an NPU that is named twice multiply.
    both = Variation(stragglers=(Stragglers(factor=2.0, npus=(0, 1)), Stragglers(factor=1.5, npus=(1,))))
    assert simulate(compute_then_reduce(4), both).seconds == pytest.approx(3.0)


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.001, 1), (0.25, 25), (1.0, 100)])
def test_a_share_is_of_the_npus_and_differs_from_run_to_run(share: float, count: int) -> None:
    slow = Variation(stragglers=(Stragglers(factor=2.0, share=share),), seed=7)
    paces = [slow.pace(run, 100).slowness for run in (0, 0, 1)]
    assert [int((one == 2.0).sum()) for one in paces] == [count] * 3
    assert np.array_equal(paces[0], paces[1])
    assert np.array_equal(paces[0], paces[2]) == (share in (0.0, 1.0))


@pytest.mark.parametrize(
    ("distribution", "deviation"), [("lognormal", 0.5), ("normal", 0.3), ("uniform", 0.5), ("exponential", 0.5)]
)
def test_factors_have_the_mean_and_the_deviation(distribution: str, deviation: float) -> None:
    count = 200_000
    factors = Jitter(distribution, deviation).draw(count, np.random.Generator(np.random.PCG64(3)))
    error = deviation / math.sqrt(count)
    assert factors.min() >= 0
    assert factors.mean() == pytest.approx(1.0, abs=5 * error)
    assert factors.std() == pytest.approx(deviation, rel=0.03)


def test_the_slowest_of_n_exponential_computations_is_the_harmonic_number() -> None:
    n, runs = 8, 200
    varied = Variation(runs=runs, seed=5, jitter=Jitter("exponential", 1.0))
    spread = simulate(compute_then_reduce(n), varied).spread
    assert spread is not None
    harmonic = sum(1 / k for k in range(1, n + 1))
    deviation = math.sqrt(sum(1 / k**2 for k in range(1, n + 1)))
    assert spread.standard_error == pytest.approx(deviation / math.sqrt(runs), rel=0.2)
    assert spread.mean == pytest.approx(harmonic, abs=4 * deviation / math.sqrt(runs))
    # P(max <= x) = (1 - exp(-x))**n
    assert spread.p50 == pytest.approx(-math.log(1 - 0.5 ** (1 / n)), rel=0.1)
    assert spread.p99 == pytest.approx(-math.log(1 - 0.99 ** (1 / n)), rel=0.25)


def test_runs_do_not_depend_on_how_many_there_are() -> None:
    graph, jitter = compute_then_reduce(4, size=1e6), Jitter("lognormal", 0.1)
    few, many = (simulate(graph, Variation(runs=runs, seed=3, jitter=jitter)).spread for runs in (3, 6))
    assert few is not None
    assert many is not None
    assert many.seconds[:3] == few.seconds
    assert len(set(many.seconds)) == 6


def test_equal_seeds_draw_equal_numbers() -> None:
    """The digits that every supported version of Python draws."""
    drawn = {"lognormal": 1.0562666750630871, "normal": 1.0598647085526505, "uniform": 1.0984450852070171}
    for name, number in {**drawn, "exponential": 0.940925520273298}.items():
        assert Jitter(name, 0.1).draw(1, Variation(seed=1).generator(2, 1)).item() == number


def test_parts_add_up_to_the_mean_of_the_runs() -> None:
    varied = Variation(runs=5, jitter=Jitter("lognormal", 0.2))
    result = simulate(compute_then_reduce(4, repeats=2, size=4e8), varied)
    assert result.spread is not None
    assert result.seconds == result.spread.mean == pytest.approx(sum(result.breakdown.values()))
    assert any("mean of 5 runs" in note for note in result.notes)
    still = simulate(compute_then_reduce(4, repeats=2, size=4e8), None)
    assert result.bytes_by_cause["dp"] == pytest.approx(still.bytes_by_cause["dp"])


def test_repetitions_of_a_block_vary_one_by_one() -> None:
    builder = GraphBuilder(4)
    with builder.repeated(50):
        work = builder.compute("work", range(4), seconds=1.0)
        builder.collective("sum", Pattern.ALL_REDUCE, [range(4)], 0.0, label="dp", after=[work])
    result = simulate(builder.build(), Variation(jitter=Jitter("exponential", 1.0)))
    # The sum of 50 maxima of four, not the maximum of four sums.
    assert result.seconds == pytest.approx(50 * (1 + 1 / 2 + 1 / 3 + 1 / 4), rel=0.3)
    assert any("on its own" in note for note in result.notes)


@pytest.mark.parametrize(
    ("build", "key"),
    [
        (lambda: Jitter("exponential", 1.1), "deviation"),
        (lambda: Jitter("lognormal", -0.1), "deviation"),
        (lambda: Stragglers(factor=1.5), "share"),
        (lambda: Stragglers(factor=1.5, share=0.1, npus=(1,)), "share"),
        (lambda: Stragglers(factor=0.0, share=0.1), "factor"),
        (lambda: Stragglers(factor=1.5, share=1.1), "share"),
        (lambda: Stragglers(factor=1.5, npus=(-1,)), "npus"),
        (lambda: Stragglers(factor=1.5, npus=(1, 1)), "npus"),
        (lambda: Stragglers(factor=1.5, npus=()), "npus"),
        (lambda: Variation(runs=0), "runs"),
        (lambda: Variation(seed=-1), "seed"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(build: object, key: str) -> None:
    with pytest.raises(InputError, match=f"^{key}: "):
        build()  # type: ignore[operator]
