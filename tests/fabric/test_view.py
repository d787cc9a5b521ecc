from itertools import product
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from fredfw.errors import InputError
from fredfw.fabric import Capabilities, Fabric, GroupLinks, GroupView, Level, NodeKind, view as module
from fredfw.testing.fabrics import grid, star

MESH = (Level(5, "line", 750e9, 20e-9), Level(4, "line", 700e9, 30e-9))
TREE = (Level(4, "switch", 3e12, 40e-9), Level(5, "switch", 375e9, 80e-9))
RING = (Level(8, "ring", 1e9, 1e-6),)


def coordinates(levels: tuple[Level, ...]) -> Any:
    """All positions, the innermost level fastest."""
    return np.array([place[::-1] for place in product(*(range(level.size) for level in reversed(levels)))])


def view(levels: tuple[Level, ...], group: list[int]) -> GroupView:
    return GroupView.of(np.array(group), levels, coordinates(levels), Capabilities())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "star"}, "kind: a level of kind 'star' .accepted: ring, line, fully-connected, switch"),
        *(({"size": size}, f"size: {size} is refused .accepted: a whole number of at least 1") for size in (0, 2.5)),
        ({"lanes": 0}, "lanes: 0 is refused"),
        *(({"bandwidth": rate}, "bandwidth: .*: bytes per second, fini") for rate in (0.0, np.nan, "1 GB/s")),
        *(({"latency": late}, "latency: .*: seconds, finite and not negative") for late in (-1.0, np.inf)),
    ],
)
def test_impossible_levels_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        Level(**{"size": 4, "kind": "ring", "bandwidth": 1.0, **changes})


@pytest.mark.parametrize(
    ("levels", "group", "expected"),
    [
        # A block of a mesh is a product; positions that are left out take longer to pass.
        (MESH, [0, 1, 5, 6], (Level(2, "line", 750e9, 20e-9), Level(2, "line", 700e9, 30e-9))),
        (MESH, [1, 2, 4], (Level(3, "line", 750e9, 40e-9),)),
        (MESH, [7], ()),
        # One NPU below each switch is a group of the outer level.
        (TREE, [8, 0, 4], (Level(3, "switch", 375e9, 80e-9),)),
        # Part of a ring is a line; positions 0 and 7 of a ring of 8 are neighbours.
        (RING, list(range(8)), RING),
        (RING, [2, 3, 4], (Level(3, "line", 1e9, 1e-6),)),
        (RING, [0, 7], (Level(2, "line", 1e9, 1e-6),)),
    ],
)
def test_levels_are_cut_to_the_group(levels: tuple[Level, ...], group: list[int], expected: tuple[Level, ...]) -> None:
    assert view(levels, group).levels == expected


def test_keys_tell_views_apart() -> None:
    assert GroupView.of(np.arange(3), (), None).key == GroupView.of(np.arange(3), MESH, None).key
    assert view(MESH, [0, 1, 5, 6]).key == view(MESH, [7, 8, 12, 13]).key
    assert view(MESH, [0, 1, 5, 6]).key != view(MESH, [1, 0, 5, 6]).key
    assert view(MESH, [0, 1]).key != view(TREE, [0, 1]).key
    able = evolve(view(MESH, [0, 1]), capabilities=Capabilities(reduces=True))
    assert able.key != view(MESH, [0, 1]).key


ABLE = Capabilities(reduces=True, multicasts=True)


@pytest.mark.parametrize(
    ("group", "within"),
    [(list(range(20))[::-1], [True, False]), ([0, 4, 15, 19], [True, False]), ([0, 5, 10], [False]), ([5, 6], [True])],
)
def test_levels_say_what_the_network_does_within_servers(group: list[int], within: list[bool]) -> None:
    one = view(MESH, group)
    found = one.with_servers(np.array(group) // 5, ABLE)  # each row of the mesh is a server
    assert [level.offers == ABLE for level in found.levels] == within
    assert (found.key == one.key) == (not any(within))


def test_a_group_of_one_level_can_do_what_the_level_offers_too() -> None:
    """Ranks of several servers, of a network that does nothing for them, all of it, or some along the level."""
    nothing, copies = Capabilities(), Capabilities(multicasts=True)
    for able, offered, expected in (
        (nothing, nothing, nothing),
        (copies, nothing, copies),
        (nothing, copies, copies),
        (Capabilities(reduces=True), copies, ABLE),
    ):
        levels = (MESH[0], evolve(MESH[1], offers=offered))
        one = GroupView.of(np.array([0, 5, 10]), levels, coordinates(MESH), able)
        assert one.with_servers(np.array([0, 1, 2]), able).capabilities == expected

    servers = np.arange(20) // 5
    servers[19] = 7  # an end of a line is in another server
    assert not any(level.offers == ABLE for level in view(MESH, list(range(20))).with_servers(servers, ABLE).levels)


@given(st.permutations(range(12)), st.integers(1, 12))
def test_a_view_exists_exactly_for_products_whatever_the_rank_order(order: list[int], size: int) -> None:
    levels = (Level(3, "line", 1.0), Level(2, "ring", 1.0), Level(2, "switch", 1.0))
    places = [tuple(int(x) for x in place) for place in coordinates(levels)]
    members = [places[npu] for npu in order[:size]]
    axes = [sorted(set(axis)) for axis in zip(*members, strict=True)]
    one = view(levels, order[:size])
    if set(product(*axes)) != set(members):
        assert (one.size, one.levels, one.coordinates) == (size, (), None)
        with pytest.raises(InputError, match="not a full product"):
            one.require_levels()
        return
    used = [axis for axis in axes if len(axis) > 1]
    assert [level.size for level in one.levels] == [len(axis) for axis in used]
    for member, place in zip(members, one.require_levels(), strict=True):
        wide = [x for x, axis in zip(member, axes, strict=True) if len(axis) > 1]
        assert [axis[int(x)] for axis, x in zip(used, place, strict=True)] == wide


def links(fabric: Fabric, group: list[int] | None = None) -> GroupLinks:
    found = fabric.view(group).links
    assert found is not None
    return found


def tree() -> Fabric:
    """Four leaves of two NPUs, two spines, and a switch that nothing hangs from."""
    npus, leaves, spines = np.arange(8), np.arange(8, 12), [12, 13]
    pairs = [(npu, 8 + npu // 2) for npu in npus] + [(leaf, spine) for leaf in leaves for spine in spines] + [(12, 14)]
    sources, destinations = np.array(pairs + [(other, one) for one, other in pairs]).T
    kinds = [NodeKind.NPU] * 8 + [NodeKind.SWITCH] * 7
    offers = Capabilities(multicasts=True)
    return Fabric("tree", kinds, sources, destinations, 1.0, 1.0, 0.0, offers=offers, copies=True, reduces=True)


def test_members_come_in_the_order_of_the_group_and_switches_behind_them() -> None:
    found = links(grid(4), [2, 1, 3])
    assert (found.sources.tolist(), found.destinations.tolist()) == ([0, 0, 1, 2], [1, 2, 0, 0])
    assert (found.ranks, found.nodes, found.direct) == (3, 3, True)
    assert links(grid(3, 3), [0, 2, 4]).sources.tolist() == []  # over others alone
    found = links(star(3))
    assert (found.sources.tolist(), found.destinations.tolist()) == ([0, 1, 2, 3, 3, 3], [3, 3, 3, 0, 1, 2])
    assert not found.direct


def test_a_part_has_the_switches_of_the_fewest_tiers_that_join_it() -> None:
    fabric = tree()
    whole = links(fabric)
    assert whole.nodes == 8 + 4 + 2  # the switch that leads nowhere is left out
    assert whole.copies.all()  # as the network offers
    assert not whole.reduces.any()
    assert links(fabric, [4, 5]).nodes == 2 + 1
    assert links(fabric, [0, 1, 2]).nodes == 3 + 2 + 2


def test_keys_tell_links_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = tree()
    assert links(fabric, [0, 1]).key == links(fabric, [6, 7]).key
    assert links(fabric, [0, 1]).key != links(fabric, [0, 2]).key
    view, other = fabric.view([0, 1]), fabric.view([0, 2])
    assert view.key == other.key == view.without_links.key
    assert view.key_with_links != other.key_with_links
    assert view.without_links.links is None
    groups = np.array([[0, 1], [2, 4], [4, 5], [3, 6]])
    assert [alike.tolist() for _, alike in fabric.views(groups)] == [[0, 1, 2, 3]]
    assert [alike.tolist() for _, alike in fabric.views(groups, links=True)] == [[0, 2], [1, 3]]
    monkeypatch.setattr(module, "MOST", 10)  # more than that are not looked at
    assert tree().view().links is None
    assert tree().view([0, 1]).links is not None
