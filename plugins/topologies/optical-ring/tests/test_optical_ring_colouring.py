from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw.typing import IntArray
from fredfw_topology_optical_ring.colouring import colour_arcs, loads

Arcs = tuple[int, list[tuple[int, int]]]


@st.composite
def arcs(draw: st.DrawFn, *, interval: bool = False) -> Arcs:
    """Length of a ring and arcs on it, as first link and hops; as intervals none goes on after the last link."""
    links = draw(st.integers(2, 24))
    start = st.integers(0, links - 1)
    one = st.tuples(start, st.integers(1, links - 1)).filter(lambda arc: not interval or sum(arc) <= links)
    return links, draw(st.lists(one, min_size=1, max_size=30))


def covers(arc: tuple[int, int], links: int) -> set[int]:
    return {(arc[0] + step) % links for step in range(arc[1])}


def split(listed: list[tuple[int, int]]) -> tuple[IntArray, IntArray]:
    start, hops = np.array(listed, dtype=np.intp).T
    return start, hops


def most(links: int, listed: list[tuple[int, int]]) -> int:
    return max(sum(link in covers(arc, links) for arc in listed) for link in range(links))


def found(links: int, listed: list[tuple[int, int]]) -> list[int]:
    return [int(one) for one in colour_arcs(*split(listed), links)]


def is_valid(links: int, listed: list[tuple[int, int]], colours: list[int]) -> bool:
    pairs = itertools.combinations(zip(listed, colours, strict=True), 2)
    return all(c != d or covers(a, links).isdisjoint(covers(b, links)) for (a, c), (b, d) in pairs)


def fewest(links: int, listed: list[tuple[int, int]]) -> int:
    """The fewest colours, by trying all."""

    def fits(colours: list[int], count: int) -> bool:
        if not is_valid(links, listed[: len(colours)], colours):
            return False
        return len(colours) == len(listed) or any(fits([*colours, one], count) for one in range(count))

    return next(count for count in itertools.count(1) if fits([], count))


@given(arcs())
def test_loads_are_counted(drawn: Arcs) -> None:
    links, listed = drawn
    covered = [covers(arc, links) for arc in listed]
    assert loads(*split(listed), links).tolist() == [sum(link in one for one in covered) for link in range(links)]


@given(arcs())
def test_arcs_of_one_colour_share_no_link_and_colours_are_few(drawn: Arcs) -> None:
    links, listed = drawn
    colours = found(links, listed)
    assert is_valid(links, listed, colours)
    assert set(colours) == set(range(max(colours) + 1))
    assert most(links, listed) <= max(colours) + 1 <= 2 * most(links, listed)


@given(arcs(interval=True), st.integers(0, 23))
def test_intervals_need_no_more_than_the_largest_load(drawn: Arcs, turn: int) -> None:
    # Wherever the place is that none of them crosses.
    links, listed = drawn
    turned = [((start + turn) % links, hops) for start, hops in listed]
    assert max(found(links, turned)) + 1 == most(links, turned)


@pytest.mark.parametrize("links", [2, 3, 4, pytest.param(5, marks=pytest.mark.slow)])
def test_few_arcs_on_a_small_ring_get_the_fewest_colours(links: int) -> None:
    every = list(itertools.product(range(links), range(1, links)))
    for count in (1, 2, 3, 4):
        for listed in map(list, itertools.combinations_with_replacement(every, count)):
            if (0, listed[0][1]) == listed[0]:  # others are the same, turned
                assert max(found(links, listed)) + 1 == fewest(links, listed)


def test_nothing_needs_no_colour() -> None:
    assert colour_arcs(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), 4).tolist() == []
