import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from fabrics import ALPHA, BANDWIDTH, SIZE, on_a_switch

import fredfw_collective_tree
from fredfw import CollectiveRequest, GroupView, Level, Pattern, Schedule, check
from fredfw.testing import CollectiveTests
from fredfw.testing.fabrics import filled
from fredfw_collective_tree import Tree


def plan(pattern: Pattern, n: int, root: int = 0, **options: Any) -> Schedule:
    return Tree(**options).plan(CollectiveRequest(pattern, n, SIZE, root), GroupView(n))


duration = partial(on_a_switch, "tree")


@pytest.mark.parametrize("n", [2, 5, 8, 13, 16])
def test_binomial_time_on_a_switch(n: int) -> None:
    fidelity = "compressed"  # exactly, ranks with fewer ranks below them go on before
    one_way = math.ceil(math.log2(n)) * (ALPHA + SIZE / BANDWIDTH)
    assert duration("all-reduce", n, fidelity=fidelity) == pytest.approx(2 * one_way, rel=1e-9)
    for pattern in ("broadcast", "reduce"):
        assert duration(pattern, n, root=n // 2, fidelity=fidelity) == pytest.approx(one_way, rel=1e-9)


@pytest.mark.parametrize("chunks", [1, 3, 16])
@pytest.mark.parametrize("height", [2, 3, 4])
def test_binary_time_on_a_switch(height: int, chunks: int) -> None:
    # In a full tree every step has a rank with two children to serve: two pieces over one link.
    n, piece = 2 ** (height + 1) - 1, SIZE / chunks / BANDWIDTH
    options: dict[str, Any] = {"shape": "binary", "chunks": chunks, "fidelity": "compressed"}
    expected = (height + chunks - 1) * (ALPHA + 2 * piece)
    for pattern in ("broadcast", "reduce"):
        assert duration(pattern, n, root=n // 2, **options) == pytest.approx(expected, rel=1e-9)
    # While pieces go up and down, ranks between root and leaves get three: two going up and one going down.
    expected = (2 * height + chunks - 1) * ALPHA + (3 * (chunks - 1) + 2 * 2 * height) * piece
    if chunks > 1:
        assert duration("all-reduce", n, **options) == pytest.approx(expected, rel=1e-9)


@pytest.mark.sampled
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, *(pytest.param(n, marks=pytest.mark.slow) for n in (16, 17, 24, 33))])
@pytest.mark.parametrize("chunks", [1, 5, 16])
def test_double_binary_steps_use_each_link_twice_at_most(n: int, chunks: int) -> None:
    # A step brings a rank at most two halves of a piece, twice that where it goes both up and down.
    height, piece = math.floor(math.log2(n - 1)) + 1, SIZE / chunks / BANDWIDTH
    options: dict[str, Any] = {"shape": "double-binary", "chunks": chunks}
    for pattern, hops, step in (
        (Pattern.BROADCAST, height, ALPHA + piece),
        (Pattern.REDUCE, height, ALPHA + piece),
        (Pattern.ALL_REDUCE, 2 * height, ALPHA + 2 * piece),
    ):
        root, steps = n // 2 if pattern.rooted else 0, hops + chunks - 1
        assert plan(pattern, n, root, **options).steps == steps
        assert duration(pattern, n, root=root, **options) <= steps * step * (1 + 1e-9)


def nodes_of(inner: int, count: int) -> GroupView:
    """Return a group of ``count`` nodes of ``inner`` ranks, in an order of their own."""
    return filled(Level(inner, "switch", 300e9), Level(count, "switch", 25e9), seed=0)


@pytest.mark.parametrize("chunks", [1, 5])
@pytest.mark.parametrize(("inner", "count"), [(2, 2), (4, 3), (3, 4), (8, 2), (2, 9)])
def test_trees_of_nodes_load_all_network_cards_alike(inner: int, count: int, chunks: int) -> None:
    view, request = nodes_of(inner, count), CollectiveRequest(Pattern.ALL_REDUCE, inner * count, SIZE)
    assert view.coordinates is not None
    schedule = Tree(shape="nodes", chunks=chunks).plan(request, view)
    check(schedule, request)
    position, node = view.coordinates.T
    sent = np.zeros((count, inner))
    for phase in schedule.phases:
        away = node[phase.source] != node[phase.destination]
        assert (position[phase.source[away]] == position[phase.destination[away]]).all()
        carried = schedule.row_bytes(phase)[away] * phase.repeat
        np.add.at(sent, (node[phase.source[away]], position[phase.source[away]]), carried)
    # Each pair of trees carries its share up and down each of its edges: what a node sends, it sends on all its cards.
    assert sent == pytest.approx(np.broadcast_to(sent[:, :1], sent.shape))
    assert sent.sum() == pytest.approx(2 * (count - 1) * SIZE)
    assert sent.max() <= 2 * SIZE / inner * (1 + 1e-9)


@pytest.mark.parametrize(("inner", "count"), [(8, 2), (8, 16), (4, 4)])
def test_trees_of_nodes_go_up_and_down_a_chain_and_a_tree(inner: int, count: int) -> None:
    request = CollectiveRequest(Pattern.ALL_REDUCE, inner * count, SIZE)
    # NCCL's number of hops each way (src/graph/tuning.cc): those of a chain in the node, and log2 of the nodes.
    edges = inner - 1 + round(math.log2(count))
    schedule = Tree(shape="nodes", chunks=16).plan(request, nodes_of(inner, count))
    assert schedule.steps == 2 * edges + 16 - 1


def test_trees_of_nodes_need_nodes_and_do_an_all_reduce_and_a_long_pipeline_is_few_phases() -> None:
    of_nodes = Tree(shape="nodes")
    assert "not a full product" in str(of_nodes.refusal(CollectiveRequest(Pattern.ALL_REDUCE, 6, SIZE), GroupView(6)))
    assert of_nodes.served_patterns() == {Pattern.ALL_REDUCE}
    assert not of_nodes.worthwhile(GroupView(8))
    assert of_nodes.worthwhile(nodes_of(4, 2))
    assert len(plan(Pattern.ALL_REDUCE, 4096, shape="double-binary", chunks=1000).phases) == 2 * 2 * 12 - 1


class TestTree(CollectiveTests):
    plugin = fredfw_collective_tree
    algorithms = (
        Tree(),
        Tree(shape="binary", chunks=3),
        Tree(shape="double-binary"),
        Tree(shape="double-binary", chunks=3),
    )
