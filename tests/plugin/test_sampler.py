from __future__ import annotations

from fredfw import SearchSpace


def test_a_point_is_found_by_its_values_where_it_has_the_dimension() -> None:
    space = SearchSpace(("x", "y"), ((1, 2), (1, 2, 4)), ((0, 0), (0, 2), (1, 1)))
    assert len(space) == 3
    assert [space.find(one) for one in ((0, 0), (0, 2), (1, 1), (1, 0))] == [0, 1, 2, None]
    values = ("mesh", "tree"), (1, 2), (3, 4)
    space = SearchSpace(("fabric", "rows", "arity"), values, ((0, 0, None), (0, 1, None), (1, None, 0)))
    choices = (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 1, 0), (1, 0, 1)
    assert [space.find(one) for one in choices] == [1, 1, 2, 2, None]
