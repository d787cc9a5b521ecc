"""The order of a contest: whose bounds are looked at, and who is simulated."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
from attrs import frozen

from fredfw.simulation.bounds.schedules import Bound
from fredfw.simulation.choice import CLOSE, Entrant, contest


@frozen(eq=False)
class Bounds:
    """Bounds of an entrant, which are noted when they are asked for."""

    name: str
    seconds: tuple[float, ...]
    flows: int
    asked: list[str]
    crowd: int = 1

    @property
    def rungs(self) -> list[Callable[[], Bound]]:
        return [partial(self.ask, one) for one in self.seconds]

    def ask(self, seconds: float) -> Bound:
        self.asked.append(self.name)
        return Bound(seconds / 2, seconds)


def entrant(name: str, asked: list[str], *seconds: float, flows: int = 10) -> Entrant:
    return Entrant([name], (name,), Bounds(name, seconds, flows, asked))  # type: ignore[arg-type]  # a stand-in


def test_routes_of_many_flows_are_not_found_where_another_is_close_to_their_bound() -> None:
    # Its bound is lower by less than two thousandths, and its name comes first.
    asked: list[str] = []
    entrants = [entrant("a", asked, 1.0, 9.0, flows=1 << 24), entrant("b", asked, 1.0004, 1.0004)]
    outcome = contest(entrants, lambda one, limit: 1.0005)
    assert outcome.winner is entrants[1]
    assert asked == ["b", "a", "b"]


def test_routes_of_many_flows_are_found_where_they_may_win() -> None:
    asked: list[str] = []
    entrants = [entrant("a", asked, 1.0, 1.0, flows=1 << 24), entrant("b", asked, 1.0, 1.5)]
    outcome = contest(entrants, lambda one, limit: {"a": 1.2, "b": 1.6}[one.names[0]])
    assert outcome.winner is entrants[0]
    assert asked == ["b", "a", "b", "a"]
    assert outcome.seconds == {"a": 1.2}


def test_ranks_that_get_out_of_step_may_be_faster_than_barriers_let_them() -> None:
    asked: list[str] = []
    entrants = [entrant("a", asked, 1.0), entrant("b", asked, 1.5), entrant("c", asked, 2.6)]
    times, limits = {"a": 1.2, "b": 1.1, "c": 1.25}, dict[str, float]()

    def time(one: Entrant, limit: float) -> float:
        limits[one.names[0]] = limit
        return times[one.names[0]]

    # With barriers the bound of b is above the 1.2 of a; else it is half of that. That of c is too high even so.
    assert contest(entrants, time).winner is entrants[0]
    assert contest(entrants, time, barriers=False).winner is entrants[1]
    assert limits == {"a": math.inf, "b": pytest.approx(1.2)}


def test_low_effort_ends_where_none_can_be_much_faster() -> None:
    entrants = [entrant("a", [], 1.0, 1.0), entrant("b", [], 1.01, 1.01), entrant("c", [], 2.0, 2.0)]
    times = {"a": 1.05, "b": 1.02}
    low = contest(entrants, lambda one, limit: times[one.names[0]], close=CLOSE["low"])
    assert (low.seconds, low.slower) == ({"a": 1.05}, {"b": 1.01, "c": 2.0})
    normal = contest(entrants, lambda one, limit: times[one.names[0]])
    assert (normal.seconds, normal.slower) == (times, {"c": 2.0})


def test_what_is_cut_off_takes_longer_than_the_best() -> None:
    entrants = [entrant("a", [], 1.0, 1.0), entrant("b", [], 1.01, 1.01)]
    found = contest(entrants, lambda one, limit: 1.2 if one is entrants[0] else math.inf)
    assert (found.seconds, found.slower) == ({"a": 1.2}, {"b": 1.2})
