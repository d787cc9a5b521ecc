from __future__ import annotations

import numpy as np
import pytest

from fredfw.fabric import Capabilities, Fabric, GroupLinks, NodeKind, links as module
from fredfw.testing.fabrics import grid, star


def links(fabric: Fabric, group: list[int] | None = None) -> GroupLinks:
    found = fabric.view(group).links
    assert found is not None
    return found


def pairs(found: GroupLinks) -> list[tuple[int, int]]:
    return list(zip(found.sources.tolist(), found.destinations.tolist(), strict=True))


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
    assert pairs(found) == [(0, 1), (0, 2), (1, 0), (2, 0)]
    assert (found.ranks, found.nodes, found.direct) == (3, 3, True)
    assert pairs(links(grid(3, 3), [0, 2, 4])) == []  # over others alone
    found = links(star(3))
    assert pairs(found) == [(0, 3), (1, 3), (2, 3), (3, 0), (3, 1), (3, 2)]
    assert not found.direct


def test_a_part_has_the_switches_of_the_fewest_tiers_that_join_it() -> None:
    fabric = tree()
    assert links(fabric).nodes == 8 + 4 + 2  # the switch that leads nowhere is left out
    assert links(fabric, [4, 5]).nodes == 2 + 1
    assert links(fabric, [0, 1, 2]).nodes == 3 + 2 + 2


def test_nodes_do_for_the_group_what_the_network_offers() -> None:
    found = links(tree())
    assert found.copies.all()
    assert not found.reduces.any()


def test_keys_tell_links_apart() -> None:
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


def test_too_many_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 10)
    assert tree().view().links is None
    assert tree().view([0, 1]).links is not None
