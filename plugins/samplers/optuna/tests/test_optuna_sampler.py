import sys
from itertools import product
from statistics import median

import pytest

import fredfw_sampler_optuna
from fredfw import SearchSpace, Told
from fredfw.errors import InputError
from fredfw.testing import SamplerTests
from fredfw_sampler_optuna import OptunaSampler

NUMBERS = tuple(range(8))
BOARD = SearchSpace(("x", "y"), (NUMBERS, NUMBERS), tuple(product(NUMBERS, NUMBERS)))


def distance(space: SearchSpace, point: int) -> float:
    """Return the square of how far it is from (5, 2)."""
    x, y = (number or 0 for number in space.points[point])
    return (x - 5.0) ** 2 + (y - 2.0) ** 2


def searched(sampler: OptunaSampler, space: SearchSpace, *, refused: int = -1) -> list[int]:
    """Return the points that are asked for, in order; one of them may have no result."""
    search = sampler.start(space)
    found: list[int] = []
    while asked := search.ask():
        found += [one.point for one in asked]
        search.tell([Told(one, (distance(space, one.point),), True) for one in asked if one.point != refused])
        search.tell([Told(one, None, False) for one in asked if one.point == refused])
    return found


def test_it_finds_the_lowest_point_of_a_bowl_in_fewer_trials_than_points() -> None:
    """The best of 20 random points of 64 is on average worse than 2 off: 21 points are within that distance."""
    best = []
    for seed in range(5):
        found = searched(OptunaSampler(trials=24, seed=seed), BOARD)
        best.append(min(distance(BOARD, one) for one in found))
    assert median(best) <= 1


def test_what_the_constraints_leave_out_and_what_has_no_result_is_passed_over() -> None:
    diagonal = SearchSpace(("x", "y"), (NUMBERS, NUMBERS), tuple((x, 7 - x) for x in NUMBERS))
    assert sorted(searched(OptunaSampler(trials=50), diagonal, refused=5)) == list(range(8))


def test_there_are_as_many_as_trials_other_ones_for_another_seed_and_text_values_are_categories() -> None:
    space = SearchSpace(("x", "y"), (("a", "b"), NUMBERS), tuple(product(range(2), NUMBERS)))
    one, other = (searched(OptunaSampler(trials=10, seed=seed), space) for seed in (1, 2))
    assert len(set(one)) == len(set(other)) == 10
    assert one != other


def test_without_optuna_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"sampler.*Optuna.*pip install optuna"):
        OptunaSampler().start(BOARD)


class TestOptunaSampler(SamplerTests):
    plugin = fredfw_sampler_optuna
    samplers = (OptunaSampler(trials=8), OptunaSampler(trials=8, seed=3, algorithm="nsgaii", batch=3))
