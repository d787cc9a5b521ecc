from __future__ import annotations

from fredfw import SearchSpace


def test_a_point_is_found_by_its_values() -> None:
    space = SearchSpace(("x", "y"), ((1, 2), (1, 2, 4)), ((0, 0), (0, 2), (1, 1)))
    assert len(space) == 3
    assert [space.find(one) for one in ((0, 0), (0, 2), (1, 1), (1, 0))] == [0, 1, 2, None]


def test_a_dimension_that_a_point_does_not_have_does_not_matter() -> None:
    space = SearchSpace(
        ("fabric", "rows", "arity"), (("mesh", "tree"), (1, 2), (3, 4)), ((0, 0, None), (0, 1, None), (1, None, 0))
    )
    assert space.find((0, 1, 0)) == space.find((0, 1, 1)) == 1
    assert space.find((1, 0, 0)) == space.find((1, 1, 0)) == 2
    assert space.find((1, 0, 1)) is None
