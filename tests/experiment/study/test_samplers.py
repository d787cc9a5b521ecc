import math
from collections import Counter
from collections.abc import Callable

import pytest
from experiments import refused
from hypothesis import given, strategies as st

from fredfw import Sampler, SearchSpace, Told, Trial
from fredfw.experiment.study.samplers import GridSampler, HalvingSampler, RandomSampler, fronts


def line(size: int, objectives: int = 1) -> SearchSpace:
    values = tuple(range(size))
    return SearchSpace(("x",), (values,), tuple((one,) for one in values), objectives)


def rounds(
    sampler: Sampler, space: SearchSpace, loss: Callable[[Trial], tuple[float, ...] | None]
) -> list[list[Trial]]:
    search = sampler.start(space)
    found = []
    while asked := search.ask():
        found.append(list(asked))
        search.tell([Told(one, loss(one), loss(one) is not None) for one in asked])
    return found


def distance(trial: Trial) -> tuple[float, ...]:
    return (abs(trial.point - 7.0),)


def test_a_grid_asks_for_all_at_once_and_random_points_follow_from_the_seed_and_are_equally_likely() -> None:
    assert rounds(GridSampler(), line(9), distance) == [[Trial(one) for one in range(9)]]
    ((*asked,),) = rounds(RandomSampler(trials=20, seed=4), line(50), distance)
    assert len({one.point for one in asked}) == 20
    assert rounds(RandomSampler(trials=20, seed=4), line(50), distance) == [asked]
    assert rounds(RandomSampler(trials=20, seed=5), line(50), distance) != [asked]
    assert rounds(RandomSampler(trials=20), line(5), distance) == [[Trial(one) for one in range(5)]]
    """Of 2,000 draws of 2 of 5 points each is drawn 800 times, give or take four standard deviations of 22."""
    samplers = (RandomSampler(trials=2, seed=seed) for seed in range(2000))
    drawn = Counter(one.point for sampler in samplers for one in rounds(sampler, line(5), distance)[0])
    assert all(abs(drawn[one] - 800) < 88 for one in range(5))


@given(st.integers(1, 60), st.sampled_from([2.0, 3.0, 4.0, 16.0]), st.integers(1, 4), st.integers(1, 5))
def test_halving_runs_one_in_eta_of_each_rung_at_the_next(size: int, eta: float, rungs: int, least: int) -> None:
    names = [f"rung{one}" for one in range(rungs)]
    asked = rounds(HalvingSampler(rungs=tuple(names), eta=eta, least=least), line(size), distance)
    assert [one[0].rung for one in asked] == names
    count = size
    for one in asked:
        assert len(one) == count
        count = min(count, max(least, math.ceil(count / eta)))
    # Losses are the same at every rung, so those that go on are the nearest ones.
    best = sorted(distance(Trial(one)) for one in range(size))[: len(asked[-1])]
    assert sorted(distance(one) for one in asked[-1]) == best


def test_points_of_the_first_rung_are_drawn_and_those_without_a_result_do_not_go_on() -> None:
    first, last = rounds(HalvingSampler(trials=12, eta=6.0, seed=3), line(100), distance)
    assert [(len(first), first[0].rung), (len(last), last[0].rung)] == [(12, "compressed"), (2, "exact")]
    assert {one.point for one in last} < {one.point for one in first}
    first, last = rounds(HalvingSampler(eta=2.0), line(8), lambda one: None if one.point < 6 else (float(one.point),))
    assert len(first) == 8
    assert [one.point for one in last] == [6, 7]
    assert len(rounds(HalvingSampler(eta=2.0), line(8), lambda _: None)) == 1


def test_halving_of_several_objectives_goes_by_fronts_and_equal_losses_have_equal_ranks() -> None:
    """Of (x, 3 - x) no point beats another; (5, 5) and (6, 6) are behind them in this order."""
    losses = [(6.0, 6.0), (5.0, 5.0), (0.0, 3.0), (1.0, 2.0), (2.0, 1.0)]
    sampler = HalvingSampler(eta=1.25)
    _, last = rounds(sampler, line(5, objectives=2), lambda one: losses[one.point])
    assert [one.point for one in last] == [1, 2, 3, 4]
    assert fronts([(2.0,), (1.0,), (2.0,), (3.0,)]) == [2, 1, 2, 4]
    assert fronts([]) == []


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_a_front_is_beaten_by_the_one_before_alone(pairs: list[tuple[int, int]]) -> None:
    losses = [(float(one), float(other)) for one, other in pairs]
    ranks = fronts(losses)
    for mine, rank in zip(losses, ranks, strict=True):
        others = ((one, other) for one, other in zip(losses, ranks, strict=True) if one != mine)
        assert rank == max((other for one, other in others if one[0] <= mine[0] and one[1] <= mine[1]), default=0) + 1


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: RandomSampler(trials=0), "trials"),
        (lambda: HalvingSampler(eta=1.0), "eta"),
        (lambda: HalvingSampler(rungs=()), "rungs"),
        (lambda: HalvingSampler(rungs=("compressed", "compressed")), "rungs"),
        (lambda: HalvingSampler(least=0), "least"),
    ],
)
def test_impossible_options_are_refused(make: Callable[[], Sampler], key: str) -> None:
    with refused(key):
        make()


def test_a_point_is_found_by_its_values_where_it_has_the_dimension() -> None:
    values = ("mesh", "tree"), (1, 2), (3, 4)
    space = SearchSpace(("fabric", "rows", "arity"), values, ((0, 0, None), (0, 1, None), (1, None, 0)))
    choices = (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 1, 0), (1, 0, 1)
    assert [space.find(one) for one in choices] == [1, 1, 2, 2, None]
