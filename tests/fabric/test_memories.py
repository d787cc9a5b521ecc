from typing import Any

import numpy as np
import pytest
from attrs import evolve

from fredfw import Framework, NodeKind
from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric import LiveRouter, MemoryTier, Operation, answers, with_memories
from fredfw.testing.fabrics import star

FRAMEWORK = Framework()
MESH = FRAMEWORK.topology("mesh2d", rows=2, columns=4).build()
CXL = MemoryTier(name="cxl", scope="npu", bandwidth=64e9, latency=2e-7)
NODE = MemoryTier(name="node", scope="node", npus=4, bandwidth=100e9, npu_bandwidth=50e9)
POOL = MemoryTier(name="pool", bandwidth=10e9, latency=1e-6, memories=3, npus=2, switch_bandwidth=15e9, in_network=True)


def test_nodes_and_links_of_the_fabric_keep_their_numbers() -> None:
    fabric = with_memories(MESH, [CXL, NODE, POOL])
    nodes, links = len(MESH.kinds), len(MESH.sources)
    assert fabric.kinds[:nodes].tolist() == MESH.kinds.tolist()
    assert fabric.bandwidths[:links].tolist() == MESH.bandwidths.tolist()
    assert (fabric.kinds[nodes:] == NodeKind.MEMORY).sum() == 8 + 2 + 3
    # Switches: one of each node, and of the pool one above and one for each pair of NPUs.
    assert (fabric.kinds[nodes:] == NodeKind.SWITCH).sum() == 2 + 1 + 4
    assert len(fabric.sources) - links == 2 * (8 + (2 + 8) + (3 + 4 + 8))
    assert [fabric.node_name(nodes), fabric.node_name(len(fabric.kinds) - 1)] == ["cxl0", "pool.leaf3"]
    assert fabric.network is MESH
    assert MESH.network is MESH


@pytest.mark.parametrize(
    ("tier", "hops", "narrowest"), [(CXL, 1, 64e9), (NODE, 2, 50e9), (POOL, 3, 10e9)], ids=lambda one: str(one)[:20]
)
def test_the_way_from_a_memory_leads_over_its_own_links(tier: MemoryTier, hops: int, narrowest: float) -> None:
    fabric = with_memories(MESH, [tier])
    assert fabric.memories is not None
    for npu, memory in zip(fabric.npus, fabric.memories.serving(tier.name)[:, 0], strict=True):
        for start, end in ((memory, npu), (npu, memory)):
            route = answers.path(fabric.defaults.router, fabric, start, end)
            assert len(route.links) == hops
            assert route.links.min() >= len(MESH.sources)
            assert fabric.bandwidths[route.links].min() == narrowest
            assert route.latencies.tolist() == [tier.latency]
            assert [start, *fabric.destinations[route.links]] == [*fabric.sources[route.links], end]


def test_collectives_do_not_see_the_memories() -> None:
    fabric = with_memories(MESH, [MemoryTier(name="pool", bandwidth=1e15), CXL])
    for pattern in ("all-reduce", "all-to-all"):
        found, plain = (FRAMEWORK.simulate_collective(one, pattern, size=1e9) for one in (fabric, MESH))
        assert (found.duration, found.algorithm, found.bound) == (plain.duration, plain.algorithm, plain.bound)


def test_messages_of_npus_take_the_routes_of_the_fabric_beside_those_of_memories() -> None:
    fabric = with_memories(MESH, [POOL])
    assert fabric.memories is not None
    memory, router = fabric.memories.serving("pool")[0, 0], fabric.defaults.router
    routes = answers.route(router, fabric, np.array([0, memory, 3]), np.array([7, 1, memory]))
    alone = answers.path(MESH.defaults.router, MESH, 0, 7)
    assert routes.links_of(np.array([0])).tolist() == alone.links.tolist()
    assert np.diff(routes.offsets)[1:].tolist() == [3, 3]
    # Switches copy and reduce where they may.
    load = answers.tree(router, fabric, np.array([memory]), fabric.npus, Operation.MULTICAST)
    store = answers.tree(router, fabric, fabric.npus, np.array([memory]), Operation.REDUCE)
    assert len(load.links) == len(store.links) == 1 + 4 + 8
    plain = with_memories(MESH, [evolve(POOL, in_network=False)])
    with pytest.raises(UnsupportedError, match="cannot copy"):
        answers.tree(router, plain, np.array([memory]), fabric.npus, Operation.MULTICAST)
    cxl = with_memories(MESH, [CXL])
    with pytest.raises(UnsupportedError, match="has no path from cxl0 to npu1"):
        answers.route(router, cxl, np.array([len(MESH.kinds)]), cxl.npus[1:2])


def test_no_detour_leads_through_the_memories() -> None:
    fabric = with_memories(star(3), [CXL, MemoryTier(name="pool", bandwidth=1e9)])
    live = np.ones(len(fabric.sources), dtype=bool)
    live[0] = False  # the only way out of NPU 0
    ends = fabric.npus[:1], fabric.npus[1:2]
    ruled = answers.route(fabric.defaults.router, fabric, *ends)
    routes = answers.route(LiveRouter(fabric.defaults.router, live), fabric, *ends)
    assert routes.links.tolist() == ruled.links.tolist()


def test_room_is_shared_memories_may_be_added_later_and_defaults_be_changed() -> None:
    assert [evolve(tier, capacity=8e9).room(8) for tier in (CXL, NODE, POOL)] == [8e9, 2e9, 3e9]
    assert POOL.room(8) == np.inf
    fabric = with_memories(with_memories(MESH, [CXL]), [POOL])
    assert fabric.memories is not None
    assert [one.name for one in fabric.memories.tiers] == ["cxl", "pool"]
    renamed = fabric.with_defaults(name="other")
    assert (renamed.name, renamed.network.name, fabric.network.name) == ("other", "other", MESH.name)
    assert with_memories(MESH, []) is MESH
    with pytest.raises(InputError, match=r"^memories\[1\]\.npus: 3 does not divide the 8 NPUs"):
        with_memories(MESH, [CXL, MemoryTier(name="odd", scope="node", npus=3, bandwidth=1e9)])
    with pytest.raises(InputError, match=r"^memories\[1\]\.name: 'cxl' is the name of another tier"):
        with_memories(MESH, [CXL, CXL])


@pytest.mark.parametrize(
    ("fields", "key", "accepted"),
    [
        ({"name": " "}, "name", "text"),
        ({"scope": "rack"}, "scope", "npu, node, fabric"),
        ({"bandwidth": 0}, "bandwidth", "more than 0 B/s"),
        ({"latency": -1}, "latency", "at least 0 s"),
        ({"capacity": 0}, "capacity", "more than 0 B"),
        ({"discipline": "fifo"}, "discipline", "shared, one-at-a-time"),
        ({"scope": "node"}, "npus", "NPUs of each memory"),
        *(({"scope": "npu", key: 2}, key, "another scope") for key in ("npus", "memories", "npu_bandwidth")),
        ({"scope": "npu", "in_network": True}, "in_network", "another scope"),
        ({"switch_bandwidth": 1e9}, "switch_bandwidth", "scope fabric with npus"),
        ({"memories": 0}, "memories", "at least 1"),
    ],
)
def test_impossible_tiers_are_refused(fields: dict[str, Any], key: str, accepted: str) -> None:
    with pytest.raises(InputError, match=rf"^{key}: .*\(accepted: .*{accepted}"):
        MemoryTier(**{"name": "pool", "bandwidth": 1e9, **fields})
