from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, strategies as st

from fredfw_topology_fred.switch.colouring import Search


def masks(vertices: int, edges: list[tuple[int, int]]) -> list[int]:
    neighbours = [0] * vertices
    for one, other in edges:
        neighbours[one] |= 1 << other
        neighbours[other] |= 1 << one
    return neighbours


def is_colouring(colours: tuple[int, ...], edges: list[tuple[int, int]], clashes: list[set[int]]) -> bool:
    return all(colours[one] != colours[other] for one, other in edges) and all(
        len({colours[vertex] for vertex in clash}) > 1 for clash in clashes
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[set[int]]]:
    """Vertices, edges, and sets of two or more vertices that may not all have one colour."""
    vertices = draw(st.integers(0, 7))
    edges = draw(st.lists(st.sampled_from(list(combinations(range(vertices), 2))), unique=True)) if vertices > 1 else []
    sets = st.sets(st.integers(0, max(vertices - 1, 0)), min_size=2, max_size=4)
    return vertices, edges, draw(st.lists(sets, max_size=4)) if vertices > 1 else []


@given(graphs(), st.integers(2, 4))
def test_it_finds_a_colouring_exactly_where_there_is_one(
    graph: tuple[int, list[tuple[int, int]], list[set[int]]], colours: int
) -> None:
    vertices, edges, clashes = graph
    search = Search(colours)
    found = search.colour(masks(vertices, edges), [sum(1 << vertex for vertex in clash) for clash in clashes])
    assert not search.exhausted
    if found is None:
        assert not any(is_colouring(every, edges, clashes) for every in product(range(colours), repeat=vertices))
    else:
        assert set(found) <= set(range(colours))
        assert is_colouring(tuple(found), edges, clashes)


@pytest.mark.parametrize("colours", [2, 3, 4, 5])
def test_a_complete_graph_needs_as_many_colours_as_vertices(colours: int) -> None:
    def complete(size: int) -> list[int]:
        return masks(size, list(combinations(range(size), 2)))

    search = Search(colours)
    assert sorted(search.colour(complete(colours), []) or []) == list(range(colours))
    assert search.steps == colours  # colours are interchangeable, so only one order of them is tried
    assert search.colour(complete(colours + 1), []) is None
    assert search.steps == 2 * colours


HARD = [0b1011, 0b1100, 0b0110]
"""Clashes of four vertices for which the first choice of two colours has to be taken back."""


def test_the_bound_is_for_all_graphs_together_and_ends_the_search() -> None:
    measure = Search(2)
    found = measure.colour([0] * 4, HARD)
    assert found is not None
    assert is_colouring(tuple(found), [], [{0, 1, 3}, {2, 3}, {1, 2}])
    assert measure.steps > 4
    search = Search(2, limit=2 * measure.steps)
    for _ in range(2):
        assert search.colour([0] * 4, HARD) == found
        assert not search.exhausted
    assert search.colour([0] * 4, HARD) is None
    assert search.exhausted


@pytest.mark.parametrize("size", [3, 4, 7, 10])
def test_beyond_the_bound_is_the_greedy_order(size: int) -> None:
    search = Search(2, limit=0)  # which is exact for bipartite graphs (Brelaz, 1979)
    path = [(at, at + 1) for at in range(size - 1)]
    found = search.colour(masks(size, path), [])
    assert found is not None
    assert is_colouring(tuple(found), path, [])
    assert (search.steps, search.exhausted) == (size, False)


def test_finding_nothing_within_the_bound_is_no_exhaustion() -> None:
    search = Search(2, limit=3)
    assert search.colour(masks(3, [(0, 1), (1, 2), (0, 2)]), []) is None
    assert not search.exhausted
