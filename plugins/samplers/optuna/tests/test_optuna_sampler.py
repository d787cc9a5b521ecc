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
BOARD = tuple(product(NUMBERS, NUMBERS))


def searched(sampler: OptunaSampler, space: SearchSpace, *, refused: int = -1) -> list[int]:
    """Return the points that are asked for, in order; the loss is the distance from the point (5, 2)."""
    search = sampler.start(space)
    found: list[int] = []
    while asked := search.ask():
        found += [one.point for one in asked]
        told = []
        for one in asked:
            x, y = (number or 0 for number in space.points[one.point])
            loss = ((x - 5.0) ** 2 + (y - 2.0) ** 2,)
            told.append(Told(one, None, False) if x == refused else Told(one, loss, True))
        search.tell(told)
    return found


@pytest.mark.slow
def test_each_point_is_asked_for_once_and_all_of_them_where_there_are_few() -> None:
    space = SearchSpace(("x", "y"), (NUMBERS, NUMBERS), BOARD[:20])
    assert sorted(searched(OptunaSampler(trials=100), space)) == list(range(20))


def test_it_finds_the_lowest_point_of_a_bowl_in_fewer_trials_than_points() -> None:
    """The best of 20 random points of 64 is on average worse than 2 off: 21 points are within that distance."""
    space = SearchSpace(("x", "y"), (NUMBERS, NUMBERS), BOARD)
    best = []
    for seed in range(5):
        found = searched(OptunaSampler(trials=24, seed=seed), space)
        best.append(min((BOARD[one][0] - 5) ** 2 + (BOARD[one][1] - 2) ** 2 for one in found))
    assert median(best) <= 1


def test_what_the_constraints_leave_out_and_what_has_no_result_is_passed_over() -> None:
    diagonal = tuple(one for one in BOARD if sum(one) == 7)
    space = SearchSpace(("x", "y"), (NUMBERS, NUMBERS), diagonal)
    assert sorted(searched(OptunaSampler(trials=50), space, refused=5)) == list(range(8))


def test_there_are_as_many_as_trials_other_ones_for_another_seed_and_text_values_are_categories() -> None:
    space = SearchSpace(("x", "y"), (("a", "b"), NUMBERS), tuple(product(range(2), NUMBERS)))
    one, other = (searched(OptunaSampler(trials=10, seed=seed), space) for seed in (1, 2))
    assert len(set(one)) == len(set(other)) == 10
    assert one != other


def test_without_optuna_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"sampler.*Optuna.*pip install optuna"):
        OptunaSampler().start(SearchSpace(("x", "y"), (NUMBERS, NUMBERS), BOARD))


class TestOptunaSampler(SamplerTests):
    plugin = fredfw_sampler_optuna
    samplers = (OptunaSampler(trials=8), OptunaSampler(trials=8, seed=3, algorithm="nsgaii", batch=3))
