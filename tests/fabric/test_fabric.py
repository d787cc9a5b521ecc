from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw import Fabric, Level, NodeKind, ShortestPathRouter
from fredfw.errors import InputError
from fredfw.fabric import Capabilities, Defaults, OpenAdmission, ValiantRouter


def build(**changes: Any) -> Fabric:
    """NPU 0 <-> switch 1 <-> NPU 2, controller 3 <-> switch 1, and a second, slower link from 0 to 1."""
    fields: dict[str, Any] = {
        "name": "star",
        "kinds": np.array([NodeKind.NPU, NodeKind.SWITCH, NodeKind.NPU, NodeKind.CONTROLLER]),
        "sources": np.array([0, 1, 2, 1, 3, 1, 0]),
        "destinations": np.array([1, 0, 1, 2, 1, 3, 1]),
        "bandwidths": np.array([4.0, 4.0, 4.0, 4.0, 2.0, 2.0, 1.0]),
        "latencies": np.arange(7.0),
        "energies": 0.5,
        "levels": (Level(2, "switch", 4.0),),
        "coordinates": np.array([[0], [1]]),
    }
    return Fabric(**{**fields, **changes})


def test_single_values_are_for_all_and_npus_come_in_node_order_with_names() -> None:
    assert build(node_names=lambda node: f"n{node}").link_name(3) == "n1->n2"
    fabric = build(bandwidths=3.0, copies=True)
    assert [fabric.node_name(node) for node in range(4)] == ["npu0", "switch0", "npu1", "controller0"]
    assert (fabric.npus.tolist(), fabric.controllers.tolist()) == ([0, 2], [3])
    assert fabric.energies.tolist() == [0.5] * 7
    assert fabric.bandwidths.tolist() == [3.0] * 7
    assert fabric.copies.tolist() == [True] * 4
    assert fabric.reduces.tolist() == [False] * 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"destinations": np.array([1, 0])}, "7 link sources, 2 ends"),
        ({"destinations": np.array([1, 0, 1, 2, 1, 3, 4])}, "ends at node 4, there are 4 nodes"),
        ({"destinations": np.array([1, 0, 1, 2, 1, 3, -1])}, "ends at node -1, there are 4 nodes"),
        ({"bandwidths": np.ones(6)}, r"bandwidths have shape \(6,\), expected \(7,\)"),
        ({"copies": np.ones(3)}, r"copies have shape \(3,\), expected \(4,\)"),
        ({"bandwidths": [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]}, "link npu1->switch0 has bandwidth 0.0"),
        ({"bandwidths": np.inf}, "link npu0->switch0 has bandwidth inf"),
        ({"latencies": -1.0}, "has latency -1.0"),
        ({"energies": np.nan}, "has energy nan"),
        ({"coordinates": np.array([0, 1])}, r"shape \(2,\), expected \(2, 1\)"),
        ({"coordinates": np.array([[0], [2]])}, r"outside the levels' sizes \[2\]"),
        ({"coordinates": np.array([[0.0], [1.0]])}, "coordinates are .*, expected whole numbers"),
        ({"coordinates": [["a"], ["b"]]}, r"coordinates are \[\['a'\], \['b'\]\], expected whole numbers"),
        ({"levels": (Level(3, "switch", 4.0),)}, r"levels of \[3\] have 3 positions for 2 NPUs"),
        ({"coordinates": np.array([[0], [0]])}, "two NPUs have the same coordinates"),
    ],
)
def test_what_is_no_network_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"fabric 'star': .*{message}"):
        build(**changes)


def test_links_between() -> None:
    fabric = build(coordinates=[[1], [0]])
    assert fabric.coordinates is not None
    assert fabric.coordinates.tolist() == [[1], [0]]
    # The first of the two parallel links from 0 to 1.
    assert fabric.links_between(np.array([0, 1, 3]), np.array([1, 3, 1])).tolist() == [0, 5, 4]
    assert fabric.links_between(np.array([[0, 1]]), np.array([[1, 0]])).tolist() == [[0, 1]]
    with pytest.raises(InputError, match="no link from npu0 to npu1"):
        fabric.links_between(np.array([[1], [0]]), np.array([[0], [2]]))
    lonely = Fabric("lonely", np.array([0]), np.array([]), np.array([]), 1.0, 0.0, 0.0)
    with pytest.raises(InputError, match="no link"):
        lonely.links_between(np.array([0]), np.array([0]))


@pytest.mark.parametrize(
    ("group", "message"),
    [([], "empty"), ([0, 2], "NPU 2"), ([-1], "NPU -1"), ([1, 0, 1], "NPU 1 is repeated in the group")],
)
def test_a_group_must_name_npus_once(group: list[int], message: str) -> None:
    with pytest.raises(InputError, match=rf"^group: .*{message}.* \(accepted: "):
        build().view(group)


@given(st.integers(1, 4), st.booleans(), st.randoms(use_true_random=False))
def test_groups_that_look_alike_share_the_view_that_each_would_have(size: int, divided: bool, random: Random) -> None:
    levels = (Level(4, "ring", 1.0), Level(3, "line", 1.0))
    npus = np.arange(12)
    place = np.stack([npus % 4, npus // 4], axis=1)
    # A link from each NPU to the next one, some of them between servers, which need not fit the levels.
    tiers = np.array([random.randrange(2) for _ in npus]) if divided else 0
    more: dict[str, Any] = {"tiers": tiers, "offers": Capabilities(reduces=True), "local_offers": divided}
    for fields in (more | {"levels": levels, "coordinates": place}, more):
        fabric = Fabric("grid", np.zeros(12), npus, np.roll(npus, -1), 1.0, 0.0, 0.0, **fields)
        groups = np.array([random.sample(range(12), size) for _ in range(20)])
        views = fabric.views(groups)
        assert sorted(index for _, indices in views for index in indices) == list(range(20))
        for view, indices in views:
            assert {fabric.view(groups[index]).key for index in indices} == {view.key}


def test_defaults_can_be_replaced() -> None:
    other = ValiantRouter()
    fabric = build().with_defaults(router=other)
    assert fabric.defaults.router is other
    assert (fabric.name, fabric.with_defaults(name="other").name) == ("star", "other")
    assert build().with_defaults().defaults.router == ShortestPathRouter()
    # Rules are what is chosen beside the router.
    assert Defaults().rules == ()
    assert Defaults(router=ValiantRouter(), admission=OpenAdmission()).rules == ()
    names = {"sharing": "roce", "transport": "nccl", "placement": "linear"}
    slots: dict[str, Any] = {slot: SimpleNamespace(name=name) for slot, name in names.items()}
    assert Defaults(**slots).rules == ("sharing roce", "transport nccl")


def test_the_networkx_view_has_every_node_and_link() -> None:
    graph = build().to_networkx()
    assert graph.nodes[3] == {"kind": "controller", "name": "controller0"}
    assert graph.number_of_edges() == 7
    assert graph.edges[0, 1, 6] == {"bandwidth": 1.0, "latency": 6.0, "energy": 0.5}
    fabric, derive = build(), Fabric.to_networkx  # or any other function: what it returns is kept with the fabric
    assert fabric.derived(derive) is fabric.derived(derive) is not build().derived(derive)
