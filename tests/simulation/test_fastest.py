"""The order of a contest: whose bounds are looked at, and who is simulated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import frozen

from fredfw.simulation.choice.fastest import Entrant, contest


@frozen(eq=False)
class Bounds:
    """Bounds of an entrant, which are noted when they are asked for."""

    name: str
    seconds: tuple[float, ...]
    flows: int
    asked: list[str]
    crowd: int = 1

    @property
    def rungs(self) -> list[Callable[[], float]]:
        return [partial(self.ask, one) for one in self.seconds]

    def ask(self, seconds: float) -> float:
        self.asked.append(self.name)
        return seconds


def entrant(name: str, asked: list[str], *seconds: float, flows: int = 10) -> Entrant:
    return Entrant([name], (name,), Bounds(name, seconds, flows, asked))  # type: ignore[arg-type]  # a stand-in


def test_routes_of_many_flows_are_not_found_where_another_is_close_to_their_bound() -> None:
    # Its bound is lower by less than two thousandths, and its name comes first.
    asked: list[str] = []
    entrants = [entrant("a", asked, 1.0, 9.0, flows=1 << 24), entrant("b", asked, 1.0004, 1.0004)]
    outcome = contest(entrants, lambda one: 1.0005)
    assert outcome.winner is entrants[1]
    assert asked == ["b", "a", "b"]


def test_routes_of_many_flows_are_found_where_they_may_win() -> None:
    asked: list[str] = []
    entrants = [entrant("a", asked, 1.0, 1.0, flows=1 << 24), entrant("b", asked, 1.0, 1.5)]
    outcome = contest(entrants, lambda one: {"a": 1.2, "b": 1.6}[one.names[0]])
    assert outcome.winner is entrants[0]
    assert asked == ["b", "a", "b", "a"]
    assert outcome.seconds == {"a": 1.2}
