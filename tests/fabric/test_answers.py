"""Routers are asked for one pair: by ``path`` where that is theirs, by ``route`` elsewhere, and both are checked."""

import re
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen

from fredfw import Framework
from fredfw.embed import NetworkBackend, paths
from fredfw.errors import PluginError
from fredfw.fabric import Fabric, LiveRouter, Routes, ShortestPathRouter, answers
from fredfw.typing import IntArray

LATENCY = 0.1
# Node k has links to node k + 1 (number k) and back (number 4 + k): a ring of 4.
RING = Fabric("ring", np.zeros(4), np.arange(8) % 4, (np.arange(8) + np.repeat([1, 3], 4)) % 4, 1.0, LATENCY, 0.0)


@frozen
class Onward(ShortestPathRouter):
    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        pairs = zip(sources.tolist(), destinations.tolist(), strict=True)
        return Routes.concatenate([self.path(fabric, *pair) for pair in pairs])

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        return fabric.path([(source + step) % 4 for step in range((destination - source) % 4)])


@frozen
class Derived(Onward):
    """Says anew what a route is, and nothing of single pairs."""

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        return ShortestPathRouter().route(fabric, sources, destinations)


@frozen
class Wrong(ShortestPathRouter):
    """Says that routes from 0 and 1 to 2 are over links 0 and 1, with ``fields`` in place of what is right."""

    fields: Any

    def _answer(self, routes: Routes) -> Any:
        if isinstance(self.fields, BaseException):
            raise self.fields
        return None if self.fields is None else evolve(routes, **self.fields)

    def path(self, fabric: Fabric, source: int, destination: int) -> Any:
        return self._answer(fabric.path([0, 1]))

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Any:
        return self._answer(fabric.paths(np.array([0, 2, 3]), np.array([0, 1, 1])))

    tree = route  # type: ignore[assignment]  # with one argument too few


def test_a_path_is_a_route_with_the_latency_of_its_links() -> None:
    routes = answers.path(Onward(), RING, 3, 2)
    assert (routes.offsets.tolist(), routes.links.tolist()) == ([0, 3], [3, 0, 1])
    assert routes.latencies == pytest.approx([3 * LATENCY])
    assert routes.latencies.tobytes() == RING.paths(routes.offsets, routes.links).latencies.tobytes()
    assert answers.path(Onward(), RING, 1, 1).latencies.tolist() == [0.0]
    # A class that says what a route is is not asked for a path that it inherits.
    assert answers.path(Onward(), RING, 0, 3).links.tolist() == [0, 1, 2]
    assert answers.path(Derived(), RING, 0, 3).links.tolist() == [4]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("links", np.array([1, 0])),  # in another order, which a route may have
        ("links", np.array([0, 1], dtype=np.int32)),
        ("offsets", np.array([0, 2], dtype=np.uint8)),
        ("latencies", np.array([1])),
        ("coefficients", np.array([1.0, 0.5])),
        ("coefficients", np.array([1, 1])),
    ],
)
def test_an_unusual_path_that_is_right_passes(name: str, column: Any) -> None:
    assert getattr(answers.path(Wrong({name: column}), RING, 0, 2), name) is column


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (None, "returned None; expected fredfw.Routes"),
        *(({"links": links}, "; expected an array of integers") for links in ([0, 1], np.array([0.0, 1.0]))),
        ({"links": np.array([0, 8])}, "returned routes with link 8; expected links 0 to 7"),
        ({"links": np.array([-8, 1])}, "returned routes with link -8; expected links 0 to 7"),
        ({"links": np.array([1, 1])}, "from npu0 to npu2 that has no link that leaves its source"),
        ({"links": np.array([0, 2])}, "from npu0 to npu2 that has no link that enters its destination"),
        ({"offsets": np.array([0, 1])}, "with offsets that do not cut its 2 links"),
        ({"offsets": np.array([0, 1, 2])}, "with 3 offsets; expected 2 for 1 routes"),
        ({"offsets": np.zeros(2, dtype=np.intp), "links": np.zeros(0, dtype=np.intp)}, "npu2 that has no links"),
        ({"latencies": np.array([np.nan])}, "with latency nan; expected seconds"),
        ({"latencies": np.array([-1.0])}, "with latency -1.0; expected seconds"),
        ({"latencies": np.zeros(2)}, "with 2 latencies; expected 1"),
        ({"coefficients": np.ones(3)}, "with 3 coefficients; expected 2"),
        *(({"coefficients": np.array([1.0, share])}, f" {share}; expected finite") for share in (np.nan, np.inf)),
    ],
)
def test_a_wrong_path_is_an_error_that_names_the_router(fields: Any, expected: str) -> None:
    with pytest.raises(PluginError, match=rf"Wrong\.path\(\) of 'shortest-path' .*{re.escape(expected)}"):
        answers.path(Wrong(fields), RING, 0, 2)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (None, "returned None; expected fredfw.Routes"),
        (TypeError("x"), "fails: TypeError: x"),
        (SystemExit(0), "fails: SystemExit: 0"),
        ({"links": np.array([2, 1, 1])}, "a route from npu0 to npu2 that has no link that leaves its source"),
        ({"links": np.array([0, 0, 1])}, "a route from npu0 to npu2 that has no link that enters its destination"),
        ({"offsets": np.array([0, 0, 1]), "links": np.array([1])}, "a route from npu0 to npu2 that has no links"),
    ],
)
def test_wrong_routes_are_errors_too(fields: Any, expected: str) -> None:
    router = Wrong(fields)
    for one in (router, LiveRouter(router, np.arange(8) < 7)):
        with pytest.raises(PluginError, match=rf"Wrong\.route\(\) of 'shortest-path' .*{re.escape(expected)}"):
            answers.route(one, RING, np.array([0, 1]), np.array([2, 2]))


def test_links_of_a_route_need_no_order_and_a_tree_is_checked() -> None:
    router = Wrong({"links": np.array([1, 0, 1])})
    assert len(answers.route(router, RING, np.array([0, 1]), np.array([2, 2]))) == 2
    with pytest.raises(PluginError, match=r"Wrong\.tree\(\) .* takes 4 positional arguments but 5 were given"):
        answers.tree(router, RING, np.array([0]), np.array([1, 2]), None)  # type: ignore[arg-type]


def test_a_path_over_a_failed_link_goes_another_way() -> None:
    live = np.ones(8, dtype=bool)
    live[1] = False
    router = LiveRouter(Onward(), live)
    assert answers.path(router, RING, 0, 1).links.tolist() == [0]
    assert router.left == 0
    assert answers.path(router, RING, 0, 2).links.tolist() == [4, 7]
    assert answers.path(router, RING, 1, 3).links.tolist() == [5, 4]
    assert router.left == 2


def test_a_backend_keeps_the_routes_of_so_many_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_ALONE", 2)
    network, ends = NetworkBackend(RING.with_defaults(router=Onward())), []
    for destination in (1, 2, 3, 1, 2):
        network.send(0, destination, 1.0, on_complete=lambda: ends.append(network.now))
        network.run_until_idle()
    # A second for each, and a tenth for each link.
    assert ends == pytest.approx([1.1, 2.3, 3.6, 4.7, 5.9])
    assert list(network._paths._ways) == [(0, 1), (0, 2)]


def test_hops_of_many_pairs_are_known_from_a_few() -> None:
    fabric = Framework().topology("torus", dimensions=[16, 16]).build()
    # From each NPU to each other, in order: even steps through such a list find the same way again and again.
    sources, destinations = np.divmod(np.arange(256 * 256), 256)
    found = answers.hops(fabric.defaults.router, fabric, fabric.npus[sources], fabric.npus[destinations])
    # Around a ring of 16 it is 4 links on average, in each of two dimensions.
    assert found == pytest.approx(8 * 256 * 256, rel=0.25)
