from typing import Any

import numpy as np
from attrs import astuple

from fredfw.fabric import AlwaysStart, FlowSet, Routes, Start

ONE = Routes.of([np.array([3, 1]), np.array([], dtype=np.intp)], [2.0, 0.0])
OTHER = Routes.of([np.array([4, 5])], [1.0], [np.array([0.5, 0.25])])


def columns(routes: Routes) -> Any:
    return [None if one is None else one.tolist() for one in astuple(routes, recurse=False)]


def test_concatenated_and_selected_routes_keep_their_order_and_coefficients() -> None:
    shares = [1.0, 1.0, 0.5, 0.25]
    assert columns(Routes.concatenate([ONE, OTHER])) == [[0, 2, 2, 4], [3, 1, 4, 5], [2.0, 0.0, 1.0], shares]
    assert Routes.concatenate([ONE, ONE]).coefficients is None
    some = Routes.concatenate([ONE, OTHER, ONE]).select(np.array([2, 1, 0]))
    assert columns(some) == [[0, 2, 2, 4], [4, 5, 3, 1], [1.0, 0.0, 2.0], [0.5, 0.25, 1.0, 1.0]]
    assert ONE.select(np.array([0])).coefficients is None
    assert len(ONE.select(np.zeros(0, dtype=np.intp))) == 0


def test_the_default_admission_starts_everything() -> None:
    flows = FlowSet(ONE, np.ones(2), np.zeros(2, dtype=np.intp), 1)
    decision = AlwaysStart().admit(flows, [flows])
    assert isinstance(decision, Start)
    assert (decision.setup, decision.caps) == (0.0, None)
    assert (dict(AlwaysStart().figures()), AlwaysStart().notes()) == ({}, ())


def test_a_part_keeps_numbers_of_activities_and_its_own_rows() -> None:
    fields: dict[str, Any] = {"repeat": 4, "setup": 5.0, "priority": 9, "label": "mp", "caps": np.array([6.0, 7, 8])}
    routes, volumes = Routes.concatenate([ONE, OTHER]), np.array([1.0, 2.0, 3.0])
    flows = FlowSet(routes, volumes, np.array([0, 1, 1]), 3, **fields)
    part = flows.part(np.array([2, 0]))
    assert part.caps is not None
    columns = part.volumes, part.activity, part.sizes, part.caps
    assert [one.tolist() for one in columns] == [[3.0, 1.0], [1, 0], [1, 1, 0], [8.0, 6.0]]
    assert (part.activities, part.repeat, part.setup, part.priority, part.label) == (3, 4, 5.0, 9, "mp")
    assert part.takes_turns
    assert flows.part(np.array([2, 0])) is part
    assert part.routes is flows.routes.select(np.array([2, 0]))


def test_selections_are_kept_while_there_is_room() -> None:
    count = 1_000
    routes = Routes(np.arange(count + 1), np.arange(count), np.zeros(count))
    alone = [routes.select(np.array([flow])) for flow in range(count)]
    assert all(routes.select(np.array([flow])) is alone[flow] for flow in range(count))
    random = np.random.default_rng(1)
    halves = [random.permutation(count)[: count // 2] for _ in range(2_000)]
    first, *_ = [routes.select(half) for half in halves]
    kept = routes._selections._values.values()
    assert sum(len(one.links) + len(one) + 64 for one in kept) <= 2**18 + 2 * 66 * count
    assert routes.select(halves[0]) is not first
    np.testing.assert_array_equal(routes.select(halves[0]).links, halves[0])
    # One without room is made each time.
    once = np.zeros(300_000, dtype=np.intp)
    assert ONE.select(once) is not ONE.select(once)
