from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from attrs import evolve
from fabrics import streams
from hypothesis import given, strategies as st

import fredfw_topology_mesh2d
from fredfw import Fabric, Level, Operation, Routes, SnakePlacement
from fredfw.errors import UnsupportedError
from fredfw.testing import RouterTests, TopologyTests
from fredfw_topology_mesh2d import Mesh2D, XYRouter

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 6))


def mesh(rows: int, columns: int) -> Fabric:
    return Mesh2D(rows=rows, columns=columns).build()


def edges(fabric: Fabric, routes: Routes) -> list[tuple[int, int]]:
    return [(int(fabric.sources[link]), int(fabric.destinations[link])) for link in routes.links]


def test_the_default_is_the_baseline_of_the_fred_paper() -> None:
    # FRED (ISCA 2025): 20 NPUs, 750 GB/s and 20 ns per link, 18 controllers of 128 GB/s, 0.063 pJ/bit. Its phase table
    # fits 5 rows x 4 columns.
    fabric = mesh(5, 4)
    assert Mesh2D().build().name == fabric.name == "5x4 mesh"
    # 5 rows of 3 and 4 columns of 4 neighbour pairs, and a controller's pair, each in both directions.
    io = np.isin(fabric.sources, fabric.controllers) | np.isin(fabric.destinations, fabric.controllers)
    assert (len(io), int(io.sum())) == (2 * (16 + 15 + 18), 36)
    assert np.unique(fabric.bandwidths[~io]).tolist() == [750e9]
    assert np.unique(fabric.bandwidths[io]).tolist() == [128e9]
    assert np.unique(fabric.latencies).tolist() == [20e-9]
    assert fabric.energies[~io] == pytest.approx(0.063e-12 * 8)
    assert not fabric.energies[io].any()
    assert fabric.defaults.placement == SnakePlacement()
    assert fabric.levels == (Level(4, "line", 750e9, 20e-9), Level(5, "line", 750e9, 20e-9))


@given(SHAPES)
def test_npus_are_numbered_along_the_rows_and_controllers_clockwise(shape: tuple[int, int]) -> None:
    rows, columns = shape
    fabric = mesh(rows, columns)
    assert fabric.coordinates is not None
    assert (fabric.coordinates @ [1, columns]).tolist() == fabric.npus.tolist() == list(range(rows * columns))
    graph = nx.grid_2d_graph(rows, columns).to_directed()
    expected = {(a * columns + b, c * columns + d) for (a, b), (c, d) in graph.edges}
    inner = fabric.to_networkx().subgraph(range(rows * columns))
    assert sorted((a, b) for a, b, _ in inner.edges) == sorted(expected)
    # Every slot of the outer edge has a controller.
    slots = [fabric.destinations[fabric.sources == controller].tolist() for controller in fabric.controllers]
    grid = np.arange(rows * columns).reshape(rows, columns)
    clockwise = [*grid[0], *grid[:, -1], *grid[-1][::-1], *grid[:, 0][::-1]]
    assert slots == [[npu] for npu in clockwise]
    assert len(fabric.links_between(np.array(clockwise), fabric.controllers)) == 2 * (rows + columns)


def test_routes_go_along_the_row_first_and_pay_for_io_links() -> None:
    fabric = mesh(3, 4)
    for ends, way in (((0, 11), [0, 1, 2, 3, 7, 11]), ((11, 0), [11, 10, 9, 8, 4, 0]), ((12, 6), [12, 0, 1, 2, 6])):
        assert edges(fabric, fabric.defaults.router.path(fabric, *ends)) == list(pairwise(way))
    fabric = Mesh2D(rows=2, columns=2, link_latency=1.0, io_latency=10.0).build()
    # From the controller above NPU 0 to the one below NPU 3: two I/O links and two hops.
    first, fifth = fabric.controllers[[0, 4]].tolist()
    assert fabric.defaults.router.path(fabric, first, fifth).latencies.tolist() == [22.0]


def slow_broadcast(rows: int, columns: int, slot: int) -> set[tuple[int, int]]:
    """NPU to NPU links of a controller's stream to all, from the words of the paper; slots clockwise."""
    grid = np.arange(rows * columns).reshape(rows, columns)
    # Each side's lines inwards, and the lines that cross these.
    sides = (grid.T, grid), (grid[:, ::-1], grid.T), (grid.T[::-1, ::-1], grid), (grid[::-1], grid.T)
    line, across = [(line, across) for lines, across in sides for line in lines][slot]
    links = set(pairwise(line.tolist()))
    for npu in line.tolist():
        # The crossing line through this node, cut at it: outward to both sides.
        crossing = next(one for one in across.tolist() if npu in one)
        at = crossing.index(npu)
        for side in (crossing[at:], crossing[at::-1]):
            links |= set(pairwise(side))
    return links


@given(SHAPES)
def test_streams_of_controllers_go_straight_in_and_then_to_both_sides(shape: tuple[int, int]) -> None:
    fabric = mesh(*shape)
    for slot, controller in enumerate(fabric.controllers):
        root = np.array([controller])
        tree = fabric.defaults.router.tree(fabric, root, fabric.npus, Operation.MULTICAST)
        door = int(fabric.destinations[fabric.sources == controller][0])
        expected = slow_broadcast(*shape, slot) | {(int(controller), door)}
        assert sorted(edges(fabric, tree)) == sorted(expected)
        back = fabric.defaults.router.tree(fabric, fabric.npus, root, Operation.REDUCE)
        assert sorted(edges(fabric, back)) == sorted((end, start) for start, end in expected)
        # The farthest NPU is in the opposite corner, or at the end of the line across.
        hops = max(nx.single_source_shortest_path_length(nx.DiGraph(list(expected)), int(controller)).values())
        assert tree.latencies[0] == back.latencies[0] == pytest.approx(20e-9 * hops)


@pytest.mark.parametrize("operation", [Operation.MULTICAST, Operation.REDUCE])
@pytest.mark.parametrize(("rows", "columns"), [(5, 4), (3, 8), (8, 8)])
def test_the_hottest_link_carries_the_streams_of_the_closed_form(rows: int, columns: int, operation: Operation) -> None:
    # FRED (ISCA 2025): (2N - 1) P on an N x N mesh; 2 max(R, C) - 1 in general.
    assert streams(mesh(rows, columns), operation).max() == 2 * max(rows, columns) - 1


def test_the_router_refuses_all_reduce_trees_and_what_is_no_mesh() -> None:
    fabric = mesh(2, 2)
    with pytest.raises(UnsupportedError, match="no all-reduce tree"):
        fabric.defaults.router.tree(fabric, fabric.npus, fabric.npus, Operation.ALL_REDUCE)
    rings = evolve(fabric, levels=(Level(2, "ring", 1.0), Level(2, "line", 1.0)))
    for other in (rings, evolve(fabric, levels=(), coordinates=None)):
        with pytest.raises(UnsupportedError, match="xy router cannot route"):
            fabric.defaults.router.path(other, 0, 1)


class TestMesh2D(TopologyTests):
    plugin = fredfw_topology_mesh2d
    topologies = (
        Mesh2D(),
        Mesh2D(rows=1, columns=1),
        Mesh2D(rows=1, columns=6, link_bandwidth=5e9, link_latency=1e-6),
        Mesh2D(rows=3, columns=3, io_controllers=False),
        Mesh2D(rows=16, columns=12),
    )


class TestXYRouter(RouterTests):
    plugin = fredfw_topology_mesh2d
    routers = (XYRouter(),)
    fabrics = (Mesh2D().build(), Mesh2D(rows=2, columns=7).build())
