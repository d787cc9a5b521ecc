from collections import Counter
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from task_graphs import longest_path, names_before, of_kind

import fredfw_workload_transformer
from fredfw import Kernels
from fredfw.collectives import Pattern
from fredfw.errors import InputError
from fredfw.fabric import MemoryTier
from fredfw.testing import WorkloadTests
from fredfw.workloads import System, TaskGraph, TaskKind, Work
from fredfw_workload_transformer import Transformer
from fredfw_workload_transformer.model import Way
from fredfw_workload_transformer.stationary import order
from fredfw_workload_transformer.workload import filling

WAFER = System(npus=20, controllers=18)
SHAPE: dict[str, Any] = {"layers": 4, "hidden": 8, "sequence": 4, "heads": 2, "vocabulary": 10}
ACTIVATIONS = 4 * 8 * 2  # bytes per sample between layers
LAYER = 12 * 8**2 + 13 * 8  # parameters
HEAD = (10 + 4 + 2) * 8


def small(**fields: Any) -> Transformer:
    return Transformer(**(SHAPE | fields))


def members(graph: TaskGraph, task: int) -> Any:
    return graph.tables[graph.members[task]]


def total_flops(graph: TaskGraph) -> float:
    return float(sum(graph.flops[t] * len(members(graph, t)) for t in of_kind(graph, TaskKind.COMPUTE)))


def streamed(graph: TaskGraph, kind: TaskKind) -> float:
    return sum(float(graph.bytes[t]) * len(members(graph, t)) for t in of_kind(graph, kind))


CONFIGURATIONS = st.fixed_dictionaries(
    {
        "layers": st.integers(3, 7),
        "mp": st.integers(1, 3),
        "dp": st.integers(1, 3),
        "pp": st.integers(1, 3),
        "minibatch": st.just(12),
        "microbatches": st.sampled_from([1, 2, 3, 6]),
        "execution": st.sampled_from(["stationary", "streaming"]),
        "pipeline": st.sampled_from(["1f1b", "gpipe"]),
        "dp_communication": st.sampled_from(["all-reduce", "reduce-scatter+all-gather"]),
        "overlap_dp": st.booleans(),
        "recompute": st.booleans(),
        "pp_transfer": st.sampled_from(["point-to-point", "multicast"]),
        "prefetch": st.integers(0, 2),
        "streams": st.sampled_from(["all", "needed"]),
    }
)


@given(fields=CONFIGURATIONS)
def test_every_configuration_conserves_work_and_orders_each_rank(fields: dict[str, Any]) -> None:
    unused = {"stationary": ("prefetch", "streams"), "streaming": ("dp_communication", "overlap_dp")}
    workload = small(**{key: fields[key] for key in fields.keys() - unused[fields["execution"]]})
    graph = workload.graph(WAFER).expanded()
    mp, dp, pp, microbatches = (fields[key] for key in ("mp", "dp", "pp", "microbatches"))
    assert graph.ranks == mp * dp * pp

    for task in range(len(graph)):
        for before in graph.after(task):
            assert before < task
            assert set(graph.participants(task)) & set(graph.participants(before))

    layer = (24 * 4 * 8**2 + 4 * 4**2 * 8) * 12 * dp
    head = 2 * 4 * 8 * 10 * 12 * dp
    passes = 4 if fields["recompute"] else 3
    assert total_flops(graph) == pytest.approx(passes * fields["layers"] * layer + 3 * head, rel=1e-12)

    reductions = of_kind(graph, TaskKind.COLLECTIVE, "mp")
    directions = 3 if fields["recompute"] else 2
    assert len(reductions) == (mp > 1) * fields["layers"] * microbatches * 2 * directions
    assert {float(graph.bytes[t]) for t in reductions} <= {12 / microbatches * ACTIVATIONS}

    gradients = of_kind(graph, TaskKind.COLLECTIVE, "dp")
    if fields["execution"] == "streaming":
        assert not gradients
        assert streamed(graph, TaskKind.STORE) == pytest.approx(2 * workload.parameters, rel=1e-12)
    else:
        copies = 2 if "+" in fields["dp_communication"] else 1
        whole = sum(float(graph.bytes[t]) * mp for t in gradients)
        assert whole == pytest.approx((dp > 1) * copies * 2 * workload.parameters, rel=1e-12)
        assert not of_kind(graph, TaskKind.LOAD)

    # On each rank one chain of dependencies holds all computation in order: nothing is left to choose.
    reach: list[set[int]] = []
    reach += ({task}.union(*(reach[before] for before in graph.after(task))) for task in range(len(graph)))
    for rank in range(graph.ranks):
        chain = [t for t in of_kind(graph, TaskKind.COMPUTE) if rank in graph.participants(t)]
        assert all(earlier in reach[later] for earlier, later in pairwise(chain))


WAYS = {"f": Way.FORWARD, "b": Way.BACKWARD, "i": Way.INPUTS, "w": Way.WEIGHTS}


@pytest.mark.parametrize(
    ("arguments", "passes"),
    [
        (("1f1b", 0, 3, 4), "f0 f1 f2 b0 f3 b1 b2 b3"),
        (("gpipe", 2, 3, 2), "f0 f1 b0 b1"),
        # Narayanan et al. 2021, figure 4, with 2 stages and 4 microbatches
        (("1f1b", 0, 2, 4, 2), "f0.0 f0.1 f1.0 f1.1 f0.2 b1.0 f0.3 b1.1 f1.2 b0.0 f1.3 b0.1 b1.2 b1.3 b0.2 b0.3"),
        (("1f1b", 1, 2, 4, 2), "f0.0 f0.1 f1.0 b1.0 f1.1 b1.1 f0.2 b0.0 f0.3 b0.1 f1.2 b1.2 f1.3 b1.3 b0.2 b0.3"),
        # Qi et al. 2023, figure 2, of 4 stages: the second one defers the gradients of weights by one microbatch
        (("zb-h1", 1, 4, 5), "f0 f1 f2 i0 f3 i1 w0 f4 i2 w1 i3 w2 i4 w3 w4"),
        (("zb-h1", 3, 4, 5), "f0 i0 f1 i1 f2 i2 f3 i3 w0 f4 i4 w1 w2 w3 w4"),
    ],
)
def test_passes_of_a_stage_by_hand(arguments: tuple[Any, ...], passes: str) -> None:
    # ``f0.3`` is forward through chunk 0, microbatch 3; the chunk is 0 where it is not written.
    pairs = [(one[0], *one[1:].rpartition(".")[::2]) for one in passes.split()]
    assert order(*arguments) == [(WAYS[way], int(chunk or 0), int(microbatch)) for way, chunk, microbatch in pairs]


@pytest.mark.parametrize(
    ("pp", "microbatches", "interleave"),
    [*((pp, m, 1) for pp, m in ((1, 4), (2, 1), (2, 8), (4, 4), (4, 8))), (2, 4, 2), (4, 8, 2), (2, 6, 4), (4, 4, 2)],
)
def test_a_pipeline_takes_its_closed_form(pp: int, microbatches: int, interleave: int) -> None:
    # Narayanan et al. 2021, section 2.2: a bubble of (p - 1)(tf + tb) / v with free communication and equal stages.
    batch = 24 if interleave > 1 else 16
    fields = {"layers": 8, "pp": pp, "minibatch": batch, "microbatches": microbatches, "interleave": interleave}
    samples = batch / microbatches
    stage = 3 * (8 / pp) * (24 * samples * 4 * 8**2 + 4 * samples * 4**2 * 8)
    for pipeline in ("1f1b", "gpipe") if interleave == 1 else ("1f1b",):
        graph = small(**fields, pipeline=pipeline).graph(System(npus=pp)).expanded()
        cost = np.where(np.char.find(np.array(graph.names), "head") >= 0, 0.0, graph.flops)
        expected = (microbatches + (pp - 1) / interleave) * stage
        assert longest_path(graph, cost) == pytest.approx(expected, rel=1e-12)


def test_sequence_parallelism_scatters_and_gathers() -> None:
    fields = {"mp": 2, "pp": 2, "dp": 1, "microbatches": 2}
    graph = small(**fields, sequence_parallel=True).graph(WAFER)
    plain = small(**fields).graph(WAFER)
    patterns = Counter(graph.patterns[t] for t in of_kind(graph, TaskKind.COLLECTIVE, "mp"))
    reductions = of_kind(plain, TaskKind.COLLECTIVE, "mp")
    assert patterns == {Pattern.ALL_GATHER: len(reductions), Pattern.REDUCE_SCATTER: len(reductions)}
    assert {float(graph.bytes[t]) for t in of_kind(graph, TaskKind.COLLECTIVE, "mp")} == {8 * ACTIVATIONS}
    assert {float(graph.bytes[t]) for t in of_kind(graph, TaskKind.TRANSFER)} == {8 * ACTIVATIONS / 2}
    assert total_flops(graph) == total_flops(plain)
    # Korthikanti et al. 2022, equation 4
    use = small(layers=8, mp=2, dp=1, sequence_parallel=True).memory(WAFER)
    layer = 16 * 4 * 8 / 2 * (34 + 5 * 2 * 4 / 8)
    assert use.activations == pytest.approx(8 * layer + 16 * 4 * (4 * 8 / 2 + 4 * 10 / 2), rel=1e-12)


def test_members_share_the_way_to_the_next_stage() -> None:
    graph = small(mp=2, dp=2, pp=2, microbatches=4, pp_transfer="scatter-gather").graph(WAFER)
    transfers = of_kind(graph, TaskKind.TRANSFER, "pp")
    assert {float(graph.bytes[t]) for t in transfers} == {4 * ACTIVATIONS / 2}
    gathers = of_kind(graph, TaskKind.COLLECTIVE, "pp")
    assert len(gathers) == len(transfers) == 8
    for transfer, gather in zip(transfers, gathers, strict=True):
        assert graph.after(gather).tolist() == [transfer]
        assert (graph.patterns[gather], graph.bytes[gather]) == (Pattern.ALL_GATHER, 4 * ACTIVATIONS)
        assert set(members(graph, gather).ravel()) == {receiver for _, receiver in members(graph, transfer).tolist()}


@pytest.mark.parametrize(
    ("fields", "mp", "flops"),
    [
        # Korthikanti et al. 2022, section 5: QK^T and the weighted values are 4 b s^2 h FLOPs; 5 a s / h is not kept.
        ({"recompute": "selective"}, 2, 4),
        # Dao et al. 2022: the backward pass computes the scores again, a fifth matrix multiplication beside four.
        ({"attention": "fused", "causal": False}, 1, 2),
    ],
)
def test_the_core_of_attention_is_computed_again(fields: dict[str, Any], mp: int, flops: int) -> None:
    plain, again = small(mp=mp, dp=1), small(mp=mp, dp=1, **fields)
    whole, more = (total_flops(one.graph(WAFER).expanded()) for one in (plain, again))
    assert more == pytest.approx(whole + 4 * flops * 16 * 4**2 * 8, rel=1e-12)
    kept = plain.memory(WAFER).activations - again.memory(WAFER).activations
    assert kept == pytest.approx(4 * 16 * 4 * 5 * 2 * 4 / mp, rel=1e-12)


CONFIGURED = [
    {},
    {"recompute": "full"},
    {"recompute": "selective"},
    {"attention": "fused"},
    {"attention": "fused", "recompute": "selective"},
    {"mp": 3, "sequence_parallel": True},
    {"architecture": "llama", "key_value_heads": 1},
    {"architecture": "llama", "attention": "fused", "intermediate": 30, "mp": 2},
    {"architecture": "llama", "recompute": "operations", "mp": 2},
    {"architecture": "llama", "elementwise": "eager", "attention": "unfused"},
]
MOE = {"architecture": "llama", "experts": 8, "top_k": 2, "dp": 4, "ep": 4, "recompute": "full", "dense_layers": 1}


@pytest.mark.parametrize(
    "fields",
    [
        *CONFIGURED,
        MOE,
        MOE | {"shared_experts": 1, "routing": "zipf"},
        MOE | {"mp": 2, "sequence_parallel": True},
        MOE | {"architecture": "gpt", "expert_intermediate": 12},
        *({"dp": 1, "mp": 2, "cp": 2, "cp_communication": one} for one in ("ring", "all-gather")),
        {"cp": 2, "attention": "fused", "causal": True},
    ],
)
def test_kernels_compute_the_flops_of_their_tasks(fields: dict[str, Any]) -> None:
    graph = small(**fields).graph(WAFER)
    assert (graph.kernels[graph.kinds == TaskKind.COMPUTE] >= 0).all()
    for task in of_kind(graph, TaskKind.COMPUTE):
        kernels = graph.kernel_tables[graph.kernels[task]]
        assert kernels.flops == pytest.approx(graph.flops[task], rel=1e-12), graph.names[task]
        assert kernels.launches > len(kernels.gemms) - 1 or "cp" in fields


def totals(graph: TaskGraph) -> Kernels:
    tasks = [t for t in of_kind(graph, TaskKind.COMPUTE) for _ in range(len(members(graph, t)))]
    return sum((graph.kernel_tables[graph.kernels[t]] for t in tasks), start=Kernels())


def launches(graph: TaskGraph) -> float:  # of one rank of each task
    return float(sum(graph.kernel_tables[graph.kernels[t]].launches for t in of_kind(graph, TaskKind.COMPUTE)))


def test_every_second_product_is_computed_again() -> None:
    """As torchtitan does, which computes wk, wo and w3 of the seven matrices of a layer again; here wo and w2.

    What is kept of a token, in 2 bytes each: input, queries, keys and values, result of attention, gate and up.
    """
    llama = {"architecture": "llama", "key_value_heads": 1, "intermediate": 30, "dp": 1, "layers": 1}
    plain, again = small(**llama), small(**llama, recompute="operations")
    samples, sequence, h, heads = 16, SHAPE["sequence"], SHAPE["hidden"], SHAPE["heads"]
    tokens = samples * sequence
    graphs = [one.graph(WAFER).expanded() for one in (plain, again)]
    assert total_flops(graphs[1]) - total_flops(graphs[0]) == pytest.approx(2 * tokens * (h * h + h * 30), rel=1e-9)
    norms, rotary, rest = 2 * (4 + 6) * h, 4 * (h + h / heads), 4 * h + 6 * 30
    moved = [totals(one).moved for one in graphs]
    assert moved[1] - moved[0] == pytest.approx(tokens * (norms + rotary + rest), rel=1e-9)
    kept = 2 * tokens * (h + (h + 2 * h / heads) + h + 2 * 30)
    head = tokens * (4 * h + 4 * SHAPE["vocabulary"])
    assert again.memory(WAFER).activations == pytest.approx(kept + head, rel=1e-12)


def test_attention_of_llama_is_fused_and_causal_and_eager_kernels_move_more() -> None:
    llama = {"architecture": "llama", "dp": 1}
    for default, written in (
        (small(**llama), small(**llama, attention="fused", causal=True)),
        (small(dp=1), small(dp=1, attention="unfused", causal=False)),
    ):
        assert totals(default.graph(WAFER)) == totals(written.graph(WAFER))
    # An RMS norm moves 40 bytes for a number instead of 4, rotary embeddings 20 for 4, SiLU and product 10 for 6.
    llama = {"architecture": "llama", "intermediate": 30, "dp": 1, "layers": 1}
    graphs = [small(**llama, elementwise=kind).graph(WAFER).expanded() for kind in ("fused", "eager")]
    fused, eager = (totals(graph).moved for graph in graphs)
    tokens, h = 16 * SHAPE["sequence"], SHAPE["hidden"]
    # Forward, and 1.5 times that in backward.
    assert eager - fused == pytest.approx(2.5 * tokens * (2 * 36 * h + 16 * 2 * h + 4 * 30), rel=1e-9)


def test_the_host_launches_communication_too() -> None:
    for fields, more in (({}, 4), ({"recompute": "full"}, 6), ({"sequence_parallel": True}, 8)):
        alone, split = (launches(small(layers=1, dp=1, mp=mp, **fields).graph(WAFER)) for mp in (1, 2))
        assert split == alone + more


@pytest.mark.parametrize("fields", [*CONFIGURED, {"recompute": "full", "mp": 2, "sequence_parallel": True}])
def test_passes_do_what_their_blocks_do(fields: dict[str, Any]) -> None:
    fields = {"mp": 2, "pp": 2, "dp": 2, "microbatches": 4} | fields
    whole, blocks = (small(**fields, tasks=tasks).graph(WAFER) for tasks in ("passes", "blocks"))
    assert len(whole) < len(blocks)
    whole, blocks = whole.expanded(), blocks.expanded()
    assert total_flops(whole) == pytest.approx(total_flops(blocks), rel=1e-12)
    sums = [
        Counter(
            (graph.label(t), graph.patterns[t], float(graph.bytes[t]))
            for t in np.flatnonzero(graph.kinds != TaskKind.COMPUTE).tolist()
        )
        for graph in (whole, blocks)
    ]
    assert sums[0] == sums[1]
    assert launches(whole) == launches(blocks)
    costs = [np.where(graph.kinds == TaskKind.COMPUTE, graph.flops, graph.bytes) for graph in (whole, blocks)]
    assert longest_path(whole, costs[0]) == pytest.approx(longest_path(blocks, costs[1]), rel=1e-12)


def test_blocks_of_a_layer_alternate_with_all_reduces() -> None:
    graph = small(layers=1, mp=2, dp=1).graph(System(npus=2))
    kinds = [TaskKind(int(kind)).name[:4] for kind in graph.kinds]
    assert kinds == ["COMP", "COLL"] * 2 + ["COMP"] * 2 + ["COMP", "COLL"] * 2
    blocks = ["0 attention [0]", "0 mlp [0]", "1 head [0]"]
    names = [f"forward {one}" for one in blocks] + [f"backward {one}" for one in reversed(blocks)]
    assert [graph.names[t] for t in of_kind(graph, TaskKind.COMPUTE)] == names
    assert [graph.after(t).tolist() for t in range(len(graph))] == [[], *[[t] for t in range(len(graph) - 1)]]
    tokens = 16 * 4
    assert graph.flops[0] == (8 * tokens * 8**2 + 4 * tokens * 4 * 8) / 2
    weights, activations = (4 * 8**2 + 6 * 8) / 2 * 2, tokens * (5 * 8 + (8 * 8 + 5 * 2 * 4) / 2)
    assert graph.bytes[0] == weights + 2 * activations


def test_stages_exchange_activations_member_by_member_or_by_multicast() -> None:
    fields = {"mp": 2, "dp": 2, "pp": 2, "microbatches": 4}
    graph = small(**fields).graph(WAFER)
    transfers = of_kind(graph, TaskKind.TRANSFER, "pp")
    assert len(transfers) == 2 * 4
    assert {float(graph.bytes[t]) for t in transfers} == {4 * ACTIVATIONS}
    # ranks are mp + 2 (pp + 2 dp)
    assert members(graph, transfers[0]).tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]
    multicast = small(**fields, pp_transfer="multicast").graph(WAFER)
    transfers = of_kind(multicast, TaskKind.TRANSFER, "pp")
    assert members(multicast, transfers[0]).tolist() == [[0, 2, 3], [4, 6, 7]]
    assert multicast.patterns[transfers[0]] is Pattern.BROADCAST


@pytest.mark.parametrize(("interleave", "first", "last"), [(1, "1..0", "3..2"), (2, "0", "1")])
def test_gradients_are_reduced_behind_the_last_backward_pass(interleave: int, first: str, last: str) -> None:
    graph = small(mp=2, dp=3, pp=2, microbatches=2, interleave=interleave).graph(WAFER)
    reductions = sorted(of_kind(graph, TaskKind.COLLECTIVE, "dp"), key=lambda t: graph.participants(t)[0])
    assert [members(graph, t).tolist() for t in reductions] == [[[0, 4, 8], [1, 5, 9]], [[2, 6, 10], [3, 7, 11]]]
    assert [graph.bytes[t] for t in reductions] == [2 * 2 * LAYER / 2, 2 * (2 * LAYER + HEAD) / 2]
    before = [[graph.names[one] for one in graph.after(t)] for t in reductions]
    assert before == [[f"backward {layers} attention [1]"] for layers in (first, last)]


def test_overlapped_gradients_follow_their_layer() -> None:
    graph = small(dp=2, overlap_dp=True, microbatches=2).graph(WAFER)
    reductions = of_kind(graph, TaskKind.COLLECTIVE, "dp")
    assert [float(graph.bytes[t]) for t in reductions] == [2 * HEAD] + [2 * LAYER] * 4
    for earlier, later in pairwise(reductions):
        assert earlier in graph.after(later)
    expected = ["backward 4 head [1]", *(f"backward {layer} attention [1]" for layer in (3, 2, 1, 0))]
    assert [graph.names[graph.after(t)[0]] for t in reductions] == expected


def test_streams_reach_all_workers_or_the_holders_of_a_shard() -> None:
    fields = {"mp": 2, "dp": 3, "pp": 2, "execution": "streaming"}
    everywhere = small(**fields).graph(WAFER)
    load = of_kind(everywhere, TaskKind.LOAD)[0]
    assert members(everywhere, load).tolist() == [list(range(12))] * 18
    assert everywhere.controller_tables[everywhere.controllers[load]].tolist() == list(range(18))
    assert everywhere.bytes[load] == pytest.approx(2 * 2 * LAYER / 18, rel=1e-12)

    needed = small(**fields, streams="needed").graph(WAFER)
    loads = of_kind(needed, TaskKind.LOAD)[:2]  # of the two stages
    shards = Counter(tuple(row) for load in loads for row in members(needed, load).tolist())
    assert shards == {(0, 4, 8): 18, (1, 5, 9): 18, (2, 6, 10): 18, (3, 7, 11): 18}
    for load in loads:
        senders = Counter(needed.controller_tables[needed.controllers[load]].tolist())
        assert senders == dict.fromkeys(range(18), 2)
        assert needed.bytes[load] == pytest.approx(2 * LAYER / 2 / 18, rel=1e-12)


POOL = MemoryTier(name="pool", bandwidth=1e9)
POOLED = System(npus=12, controllers=18, memories=(MemoryTier(name="cxl", scope="npu", bandwidth=1e9), POOL))


@pytest.mark.parametrize(
    ("tier", "streams"), [(None, "all"), (None, "needed"), ("pool", "all"), ("pool", "needed"), ("pool", "sharded")]
)
def test_weights_come_twice_and_gradients_leave_once(tier: str | None, streams: str) -> None:
    fields = {"mp": 2, "dp": 3, "pp": 2, "execution": "streaming", "memory_tier": tier, "streams": streams}
    graph = small(**fields).graph(POOLED)
    # The last group (two layers and the head) is still there at the start of backward.
    assert streamed(graph, TaskKind.LOAD) == pytest.approx(2 * (4 * LAYER + HEAD) + 2 * (2 * LAYER), rel=1e-12)
    assert streamed(graph, TaskKind.STORE) == pytest.approx(2 * (4 * LAYER + HEAD), rel=1e-12)
    moves = of_kind(graph, TaskKind.LOAD) + of_kind(graph, TaskKind.STORE)
    assert {graph.label(t) for t in moves} == {"stream"}
    if tier is None:
        assert (graph.controllers[moves] >= 0).all()
    else:
        assert graph.memory_names == (tier,)
        assert (graph.controllers[moves] == -1).all()
        groups = {"all": (1, 12), "needed": (2, 3), "sharded": (6, 1)}[streams]
        assert members(graph, moves[0]).shape == groups


def test_shares_are_gathered_before_and_reduced_behind_each_group() -> None:
    fields = {"mp": 2, "dp": 3, "execution": "streaming", "memory_tier": "pool", "streams": "sharded"}
    graph = small(**fields).graph(POOLED)
    collectives = of_kind(graph, TaskKind.COLLECTIVE, "dp")
    gathers = [t for t in collectives if graph.patterns[t] is Pattern.ALL_GATHER]
    reductions = [t for t in collectives if graph.patterns[t] is Pattern.REDUCE_SCATTER]
    # Four layers forward, all but the last backward; a shard is half of the weights.
    assert [float(graph.bytes[t]) for t in gathers] == pytest.approx([LAYER] * 3 + [LAYER + HEAD] + [LAYER] * 3)
    assert [float(graph.bytes[t]) for t in reductions] == pytest.approx([LAYER + HEAD, LAYER, LAYER, LAYER])
    assert all(graph.kinds[one] == TaskKind.LOAD for t in gathers for one in graph.after(t))
    stores = of_kind(graph, TaskKind.STORE)
    for reduction, store in zip(reductions, stores, strict=True):
        assert reduction in graph.after(store)
    assert not of_kind(small(**{**fields, "dp": 1}).graph(POOLED), TaskKind.COLLECTIVE, "dp")


def test_what_a_memory_tier_keeps_is_part_of_the_memory_and_one_that_is_not_there_is_refused() -> None:
    fields = {"mp": 2, "dp": 3, "execution": "streaming"}
    use = small(**fields, memory_tier="pool").memory(POOLED)
    assert use.tiers == {"pool": pytest.approx(16 * (4 * LAYER + HEAD) / 6, rel=1e-12)}
    assert use.total == small(**fields).memory(WAFER).total
    for ask in (Transformer.graph, Transformer.memory):
        with pytest.raises(InputError, match="no memory tier 'pol'; did you mean 'pool'") as caught:
            ask(small(dp=2, execution="streaming", memory_tier="pol"), POOLED)
        assert (caught.value.key, caught.value.accepted) == ("memory_tier", "cxl, pool")


@pytest.mark.parametrize("streams", ["all", "needed"])
@pytest.mark.parametrize("prefetch", [0, 1])
def test_loads_wait_for_their_buffer(prefetch: int, streams: str) -> None:
    graph = small(dp=2, execution="streaming", prefetch=prefetch, streams=streams).graph(WAFER)
    assert names_before(graph, "forward weights of group 0") == set()
    loads = [f"forward weights of group {k}" for k in range(4)] + [f"backward weights of group {k}" for k in (2, 1, 0)]
    ends = [f"forward {k} mlp [0]" for k in range(3)] + [f"backward {k} attention [0]" for k in (3, 2, 1)]
    for number in range(1, len(loads)):
        free = ends[max(number - 1 - prefetch, 0) : number - prefetch]
        assert names_before(graph, loads[number]) == {loads[number - 1], *free}
    assert "backward weights of group 3" not in graph.names
    assert "forward weights of group 2" in names_before(graph, "forward 2 attention [0]")
    assert "backward weights of group 2" in names_before(graph, "backward 2 mlp [0]")


def test_gradients_leave_in_order_backward_waits_for_a_free_buffer_and_the_last_group_may_be_small() -> None:
    graph = small(dp=2, execution="streaming", prefetch=0).graph(WAFER)
    assert names_before(graph, "gradients of group 3") == {"backward 3 attention [0]"}
    assert names_before(graph, "gradients of group 2") == {"gradients of group 3", "backward 2 attention [0]"}
    assert "gradients of group 3" in names_before(graph, "backward 2 mlp [0]")
    ahead = small(dp=2, execution="streaming", prefetch=1).graph(WAFER)
    assert "gradients of group 3" not in names_before(ahead, "backward 2 mlp [0]")
    assert "gradients of group 3" in names_before(ahead, "backward 1 mlp [0]")
    for streams in ("all", "needed"):
        graph = small(layers=3, pp=2, dp=1, execution="streaming", streams=streams).graph(WAFER)
        # Stage 1 ends forward with layer 1, and keeps it if its stream is its own.
        again = 2 if streams == "all" else 1
        assert streamed(graph, TaskKind.LOAD) == pytest.approx(2 * ((3 + again) * LAYER + HEAD), rel=1e-12)


def test_streamed_microbatches_flow_through_the_stages_and_back_to_the_first() -> None:
    graph = small(pp=2, dp=1, minibatch=2, microbatches=2, execution="streaming").graph(WAFER)
    transfers = {graph.names[t]: members(graph, t).tolist() for t in of_kind(graph, TaskKind.TRANSFER)}
    places = {"forward": ((0, 1), (1, 0), (1, 1)), "backward": ((1, 0), (0, 1), (0, 0))}
    assert transfers == {
        f"{way} to group {group} stage {stage} [{m}]": [[1 - stage, stage]]
        for way, m in product(places, range(2))
        for group, stage in places[way]
    }
    computed = [graph.names[t] for t in of_kind(graph, TaskKind.COMPUTE) if 0 in graph.participants(t)]
    ways = ("forward 0", "forward 2", "backward 2", "backward 0")
    expected = [f"{way} attention [{m}]" for way in ways for m in (0, 1)]
    assert [name for name in computed if "attention" in name] == expected


def test_memory_of_a_stationary_run_by_hand() -> None:
    workload = small(mp=2, dp=2, pp=2, microbatches=4)
    layer = 4 * 4 * 8 * (10 + 24 / 2 + 5 * 2 * 4 / (8 * 2))  # 4 samples
    head = 4 * 4 * (4 * 8 + 4 * 10 / 2)
    first, last = 2 * LAYER / 2, (2 * LAYER + HEAD) / 2
    use = workload.memory(WAFER)
    stages = [(16 * first, 2 * 2 * layer), (16 * last, 2 * layer + head)]
    assert use.total == pytest.approx(max(state + activations for state, activations in stages), rel=1e-12)
    assert use.must_fit
    gpipe = small(mp=2, dp=2, pp=2, microbatches=4, pipeline="gpipe").memory(WAFER)
    assert gpipe.activations == pytest.approx(4 * (2 * layer + head), rel=1e-12)
    assert (gpipe.weights, gpipe.gradients, gpipe.optimizer) == pytest.approx((2 * last, 2 * last, 12 * last))
    # Full recomputation, which is what true means, keeps the input of each layer.
    assert (small(recompute=True), small(recompute=False)) == (small(recompute="full"), small(recompute="none"))
    head = 16 * 4 * (4 * 8 + 4 * 10)
    assert small(recompute=True).memory(WAFER).activations == pytest.approx(4 * 16 * ACTIVATIONS + head, rel=1e-12)


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_zero_stages_shard_memory_over_replicas(stage: int) -> None:
    use = small(dp=4, zero_stage=stage).memory(WAFER)
    whole = 4 * LAYER + HEAD
    expected = [each * whole / (4 if place < stage else 1) for place, each in enumerate((12, 2, 2))]
    expected[1] += 2 * whole * (stage == 2)  # whole until they are reduced, all behind the backward pass
    assert [use.optimizer, use.gradients, use.weights] == pytest.approx(expected, rel=1e-12)


def test_gradients_are_whole_until_they_are_reduced() -> None:
    whole = 4 * LAYER + HEAD
    fields = {"dp": 4, "zero_stage": 2, "microbatches": 4}
    # One all-reduce at the end of the iteration takes what all microbatches have added up.
    assert small(**fields, dp_communication="all-reduce").memory(WAFER).gradients == 2 * whole
    head = small(**fields, overlap_dp=True).memory(WAFER).gradients - 2 * whole / 4
    assert head == pytest.approx(2 * max(LAYER, HEAD), rel=1e-12)


def test_memory_of_a_streaming_run_by_hand() -> None:
    use = small(mp=2, dp=2, pp=2, microbatches=2, execution="streaming", prefetch=2, recompute=True).memory(WAFER)
    head = 8 * 4 * (4 * 8 + 4 * 10 / 2)
    assert use.weights == use.gradients == pytest.approx(3 * 2 * (LAYER + HEAD) / 2, rel=1e-12)
    assert use.activations == pytest.approx(2 * (2 * 8 * ACTIVATIONS + head), rel=1e-12)
    assert use.optimizer == 0
    assert not use.must_fit


def test_fields_override_the_preset_but_not_what_the_system_or_the_stages_cannot_do() -> None:
    with pytest.raises(InputError, match="without I/O controllers"):
        small(execution="streaming").graph(System(npus=20))
    with pytest.raises(InputError, match=r"^interleave: 2 microbatches cannot be interleaved on 4 stages"):
        small(layers=8, pp=4, microbatches=2, interleave=2).graph(WAFER)
    assert Transformer(model="gpt-3", layers=2).shape.layers == 2
    assert Transformer(model="gpt-3", layers=2).shape.hidden == 12288
    tied = Transformer(model="llama-3-8b", tied_embeddings=True)
    assert Transformer(model="llama-3-8b").parameters - tied.parameters == 128256 * 4096


@pytest.mark.parametrize(
    ("fields", "npus", "dp", "note"),
    [
        ({"mp": 3}, 8, 2, "2 of 8 NPUs are idle: the 3 of a replica do not divide 8"),
        ({"mp": 2, "pp": 2}, 7, 1, "3 of 7 NPUs are idle: the 4 of a replica do not divide 7"),
        ({"mp": 3, "dp": 1}, 8, 1, None),  # as was asked for
        ({"mp": 3, "pp": 2}, 18, 3, None),
    ],
)
def test_replicas_fill_the_system_and_idle_npus_are_noted(
    fields: dict[str, int], npus: int, dp: int, note: str | None
) -> None:
    workload, system = small(**fields), System(npus=npus)
    assert workload.mesh(system).size("dp") == dp
    assert workload.notes(system) == (() if note is None else (note,))


# --- the samples of an iteration

BATCHES = System(npus=16, controllers=4)
STREAMED = {"pp": 2, "dp": 1, "execution": "streaming"}


@pytest.mark.parametrize(
    ("samples", "stages", "microbatches"),
    [
        (64, 1, 1),
        (96, 8, 32),
        (36, 2, 9),  # 8 does not divide them
        (37, 2, 37),
        (7, 2, 7),  # there are no 8
        (10**9 + 7, 4, 10**9 + 7),
    ],
)
def test_a_pipeline_is_filled_four_times(samples: int, stages: int, microbatches: int) -> None:
    # Huang et al. 2019, section 2.3: bubbles are negligible from 4 microbatches per stage on.
    assert filling(samples, stages) == microbatches


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"dp": 4, "global_batch": 64}, {"dp": 4, "minibatch": 16}),
        ({"mp": 2, "pp": 2, "global_batch": 64}, {"mp": 2, "pp": 2, "dp": 4, "microbatches": 8}),  # dp is left open
        ({"pp": 2, "dp": 2, "global_batch": 32, "micro_batch": 4}, {"pp": 2, "dp": 2, "microbatches": 4}),
        ({"pp": 2, "dp": 2, "global_batch": 32, "microbatches": 2}, {"pp": 2, "dp": 2, "microbatches": 2}),
        ({"pp": 2, "micro_batch": 2}, {"pp": 2, "microbatches": 8}),
        ({"pp": 2, "minibatch": 16}, {"pp": 2, "microbatches": 1}),
        (STREAMED | {"global_batch": 16}, STREAMED | {"microbatches": 8}),
    ],
)
def test_equal_batches_are_equal_iterations(one: dict[str, Any], other: dict[str, Any]) -> None:
    given, before = small(**one), small(**other)
    graph, expected = given.graph(BATCHES), before.graph(BATCHES)
    assert graph.names == expected.names
    assert graph.flops.tolist() == expected.flops.tolist()
    assert graph.bytes.tolist() == expected.bytes.tolist()
    assert given.memory(BATCHES) == before.memory(BATCHES)
    assert given.work(BATCHES) == before.work(BATCHES)


def test_the_work_is_that_of_the_model_and_what_depends_on_the_system_is_refused_with_it() -> None:
    # Narayanan et al. 2021, arXiv 2104.04473, appendix: 72 B s l h^2 (1 + s / 6 h + V / 12 l h), however it is executed
    flops = 72 * 64 * 4 * 4 * 8**2 * (1 + 4 / (6 * 8) + 10 / (12 * 4 * 8))
    for fields in ({"recompute": True}, {"mp": 2, "pp": 2}, {"execution": "streaming"}):
        work = small(global_batch=64, **fields).work(BATCHES)
        assert (work.samples, work.tokens) == (64, 64 * 4)
        assert work.model_flops == pytest.approx(flops, rel=1e-12)
    model_flops = small(global_batch=24, dp=1).work(BATCHES).model_flops
    assert small(mp=2, minibatch=3).work(BATCHES) == Work(24, 96, model_flops, replicas=8, microbatches=1)
    workload = small(mp=5, global_batch=64)  # 3 replicas on 16 NPUs
    for ask in (workload.graph, workload.memory, workload.work):
        with pytest.raises(InputError, match=r"^global_batch: 64 samples cannot be divided evenly among 3 replicas"):
            ask(BATCHES)
    assert workload.work(System(npus=20)).samples == 64


SMALL = partial(Transformer, layers=8, hidden=1024, sequence=128, heads=16, vocabulary=1000)


class TestTransformer(WorkloadTests):
    plugin = fredfw_workload_transformer
    workloads = (
        Transformer(model="transformer-17b", mp=3, dp=3, pp=1),
        SMALL(mp=2, pp=4, microbatches=4, recompute=True, pp_transfer="multicast"),
        SMALL(mp=2, dp=2, zero_stage=3, overlap_dp=True, dp_communication="reduce-scatter+all-gather"),
        SMALL(mp=2, pp=2, execution="streaming", prefetch=2, streams="needed"),
        SMALL(mp=2, pp=2, microbatches=4, interleave=2, sequence_parallel=True, recompute="selective"),
        SMALL(mp=2, pp=2, microbatches=4, attention="fused", pp_transfer="scatter-gather"),
        SMALL(cp=2, dp=4, pp=2, minibatch=4, microbatches=2, pipeline="zb-h1", zero_stage=3, dp_shard=2),
        SMALL(mp=2, ep=4, dp=4, pp=2, experts=8, top_k=2, shared_experts=1, routing="zipf", capacity_factor=1.5),
    )
