"""Bytes, times and memory of sharding, context parallelism and pipelines, by their closed forms."""

from collections import Counter
from itertools import accumulate, product
from typing import Any

import numpy as np
import pytest
from task_graphs import longest_path, names_before, of_kind

from fredfw import Framework, Npu
from fredfw.collectives import Pattern
from fredfw.errors import InputError
from fredfw.typing import FloatArray
from fredfw.workloads import System, TaskGraph, TaskKind
from fredfw_workload_transformer import Transformer
from fredfw_workload_transformer.model import Way
from fredfw_workload_transformer.stationary import in_flight, order

SYSTEM = System(npus=64)
SHAPE: dict[str, Any] = {"layers": 4, "hidden": 8, "sequence": 8, "heads": 2, "vocabulary": 10}
LAYER = 12 * 8**2 + 13 * 8  # parameters
HEAD = (10 + 8 + 2) * 8
TIED = (10 + 8) * 8
KEYS = 2 * 8 * 8 * 2  # bytes of the keys and values of a sample in a layer


def small(**fields: Any) -> Transformer:
    return Transformer(**(SHAPE | fields))


def sent(graph: TaskGraph, label: str) -> FloatArray:
    """Return the ``(ranks,)`` bytes that each rank sends, as a ring does."""
    total = np.zeros(graph.ranks)
    for task in of_kind(graph, TaskKind.COLLECTIVE, label):
        groups = graph.tables[graph.members[task]]
        passes = 2 if graph.patterns[task] is Pattern.ALL_REDUCE else 1
        size = groups.shape[1]
        np.add.at(total, groups.ravel(), graph.repeats[task] * passes * (size - 1) / size * graph.bytes[task])
    for task in of_kind(graph, TaskKind.TRANSFER, label):
        groups = graph.tables[graph.members[task]]
        np.add.at(total, groups[:, 0], graph.repeats[task] * graph.bytes[task])
    return total


SHARDINGS = [
    *product((0,), (None,), (True,), (1, 2), (1, 3)),
    *product((1, 2, 3), (None, 4, 2, 1), (True, False), (1, 2), (1, 3)),
]
OTHERS = list(product(("none", "full"), (1, 2), (True, False)))


def test_each_sharding_sends_its_closed_form() -> None:
    # Rajbhandari et al. 2020, section 7: stages 1 and 2 reduce-scatter gradients and all-gather weights, stage 3
    # gathers weights for each pass. Zhang et al. 2022 (MiCS), section 3.4: copies of a group all-reduce shares once.
    # Without a pipeline, tied embeddings are gathered for the look-up, and stay.
    for index, (zero, shard, reshard, pp, m) in enumerate(SHARDINGS):
        recompute, cp, overlap = OTHERS[(index + index // 8) % 8]
        fields = {"dp": 4, "pp": pp, "cp": cp, "microbatches": m, "recompute": recompute, "overlap_dp": overlap}
        fields |= {"zero_stage": zero, "dp_shard": shard}
        if zero == 3:
            fields["reshard_after_forward"] = reshard
        found = sent(small(layers=2, minibatch=3, **fields).graph(SYSTEM), "dp")
        members, size = 4 * cp, (shard or 4) * cp
        whole, copies = (size - 1) / size, 2 * (members // size - 1) / (members // size) / size
        for stage in range(pp):
            layers = 2 * LAYER * 2 / pp
            weights = layers + (2 * HEAD if stage == pp - 1 else 0)
            if zero == 0 or size == 1:
                expected = 2 * (members - 1) / members * weights
            elif zero == 1:
                expected = (2 * whole + copies) * weights
            elif zero == 2:
                expected = ((m + 1) * whole + copies) * weights
            elif reshard:
                again = layers if recompute == "full" else 0  # the head is not computed again
                stay = 2 * TIED if pp == 1 else 0
                expected = (3 * m * whole + copies) * weights + m * whole * (again - stay)
            else:
                gathers = 1 if pp > 1 else m
                expected = ((gathers + m) * whole + copies) * weights
            assert found[stage * cp] == pytest.approx(expected, rel=1e-12), fields
            assert found.sum() > 0


def test_zero_is_an_all_reduce_where_that_is_asked_for() -> None:
    # As the FRED paper has it: one all-reduce for each stage, whatever is shared.
    plain = small(dp=4, minibatch=6, microbatches=3).graph(SYSTEM)
    for zero in (1, 2):
        asked = small(dp=4, minibatch=6, microbatches=3, zero_stage=zero, dp_communication="all-reduce").graph(SYSTEM)
        assert asked.names == plain.names
        assert asked.bytes.tolist() == plain.bytes.tolist()


@pytest.mark.parametrize("zero", [1, 2])
@pytest.mark.parametrize("fields", [{}, {"overlap_dp": True}, {"pp": 2, "interleave": 1, "overlap_dp": True}])
def test_weights_come_back_when_the_optimizer_has_all_gradients(zero: int, fields: dict[str, Any]) -> None:
    # The step follows the last gradient: its norm is that of all of them.
    graph = small(dp=2, minibatch=2, microbatches=2, zero_stage=zero, **fields).graph(SYSTEM)
    gathers = [task for task, name in enumerate(graph.names) if name.startswith("all-gather of the weights")]
    assert gathers
    reductions = [task for task, name in enumerate(graph.names) if "gradients of layers" in name]
    for gather in gathers:
        before, behind = [gather], set[int]()
        while before:
            after = graph.after(before.pop()).tolist()
            behind.update(after)
            before += [task for task in after if graph.label(task) == "dp"]
        ranks = graph.participants(gather)
        reduced = {task for task in reductions if np.isin(graph.participants(task), ranks).any()}
        assert reduced
        assert reduced <= behind


def test_pytorch_gathers_once_for_both_passes_and_groups_of_a_hybrid_are_consecutive_ranks() -> None:
    fields = {"dp": 4, "minibatch": 1, "recompute": "full", "zero_stage": 3}
    found = sent(small(**fields, reshard_after_recompute=False).graph(SYSTEM), "dp")
    assert found == pytest.approx(3 / 4 * 2 * (3 * (4 * LAYER + HEAD) - TIED), rel=1e-12)
    graph = small(mp=2, dp=4, dp_shard=2, zero_stage=3, minibatch=1).graph(SYSTEM)
    collectives = of_kind(graph, TaskKind.COLLECTIVE, "dp")
    tables = {graph.patterns[task]: graph.tables[graph.members[task]].tolist() for task in collectives}
    # ranks are mp + 2 dp
    shards, copies = [[0, 2], [4, 6], [1, 3], [5, 7]], [[0, 4], [2, 6], [1, 5], [3, 7]]
    assert tables == {Pattern.ALL_GATHER: shards, Pattern.REDUCE_SCATTER: shards, Pattern.ALL_REDUCE: copies}


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_gathers_are_as_far_ahead_as_there_are_buffers(prefetch: int) -> None:
    graph = small(dp=2, zero_stage=3, prefetch=prefetch, minibatch=1).graph(SYSTEM)
    layers = ["forward -1 embedding [0]", *(f"forward {layer} mlp [0]" for layer in range(4))]
    for layer in range(5):
        expected = {f"forward weights of layer {layer - 1} [0]"}
        if layer - prefetch >= 0:
            expected.add(layers[layer - prefetch])
        assert names_before(graph, f"forward weights of layer {layer} [0]") == expected


def test_memory_has_the_shares_and_what_is_gathered() -> None:
    fields = {"dp": 4, "zero_stage": 3, "minibatch": 1}
    whole = 4 * LAYER + HEAD
    for prefetch in (0, 1, 2):
        use = small(**fields, prefetch=prefetch).memory(SYSTEM)
        assert use.weights == pytest.approx(2 * (whole / 4 + TIED + (1 + prefetch) * LAYER), rel=1e-12)
    assert small(**fields, reshard_after_forward=False).memory(SYSTEM).weights == 2 * (whole / 4 + whole)
    hybrid = small(**fields, dp_shard=2).memory(SYSTEM)
    # Gradients of a layer are whole until they are reduced, those of tied embeddings until the end.
    reduced = 2 * (LAYER + TIED)
    assert (hybrid.optimizer, hybrid.gradients) == (12 * whole / 2, 2 * whole / 2 + reduced)
    # Members of CP have the same weights, too.
    spread = small(**fields, cp=2).memory(SYSTEM)
    assert (spread.optimizer, spread.gradients) == (12 * whole / 8, 2 * whole / 8 + reduced)
    assert spread.activations == small(**fields).memory(SYSTEM).activations / 2


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_embeddings_and_the_first_layer_are_exposed_at_both_ends(tied: bool, recompute: str) -> None:
    # Computation hides all but what comes before the first layer can begin, and what is complete with its gradients.
    shape = {"layers": 4, "hidden": 64, "sequence": 64, "heads": 4, "vocabulary": 100}
    fields = {"dp": 4, "minibatch": 8, "zero_stage": 3, "recompute": recompute, "tied_embeddings": tied}
    graph = Transformer(**shape, **fields).graph(System(npus=4))  # type: ignore[arg-type]  # plain data
    fabric = Framework().topology("torus", dimensions=[4], link_bandwidth="1 TB/s", link_latency=0).build()
    npu = Npu(peak=1e12, memory_bandwidth=1e15)
    result = Framework().simulate_graph(graph, fabric, npu=npu, collectives={"default": "hierarchical"})
    tokens = 8 * 64
    layers = 4 * (24 * tokens * 64**2 + 4 * tokens * 64 * 64)
    compute = ((4 if recompute == "full" else 3) * layers + 3 * 2 * tokens * 64 * 100) / 1e12
    embeddings, layer = 2 * (100 + 64) * 64, 2 * (12 * 64**2 + 13 * 64)
    assert result.seconds == pytest.approx(compute + 2 * 3 / 4 * (embeddings + layer) / 1e12, rel=1e-9)


def test_embeddings_that_are_not_tied_are_a_layer_of_the_first_stage() -> None:
    fields = {"dp": 2, "pp": 2, "minibatch": 2, "microbatches": 1, "tied_embeddings": False}
    graph = small(**fields).graph(SYSTEM)
    reduced = [float(graph.bytes[task]) for task in of_kind(graph, TaskKind.COLLECTIVE, "dp")]
    assert sorted(reduced) == [2 * (2 * LAYER + (10 + 2) * 8), 2 * (2 * LAYER + TIED)]
    # Backward gathers them, too, and their gradients leave behind them.
    gathered = small(**fields, zero_stage=3).graph(SYSTEM)
    name = "reduce-scatter of the gradients of layers -1 to -1"
    earlier = "reduce-scatter of the gradients of layers 0 to 0"
    assert names_before(gathered, name) == {"backward -1 embedding [0]", earlier}
    assert "backward weights of layer -1 [0]" in names_before(gathered, "backward -1 embedding [0]")
    whole = 4 * LAYER + HEAD + 10 * 8
    assert small(dp=2, tied_embeddings=False).parameters == whole
    sends = sent(small(dp=4, minibatch=1, zero_stage=3, tied_embeddings=False).graph(SYSTEM), "dp")
    assert sends == pytest.approx(3 * 3 / 4 * 2 * whole, rel=1e-12)


LLAMA: dict[str, Any] = {"architecture": "llama", "key_value_heads": 1, "intermediate": 16}
EXPERTS: dict[str, Any] = {**LLAMA, "experts": 4, "top_k": 2}


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_experts_are_shared_by_their_own_replicas(zero: int) -> None:
    # 8 replicas, of which 2 share the experts: 4 ranks hold the others, in two copies of 4 and 2 ranks.
    fields = {"dp": 8, "ep": 2, "minibatch": 1, "zero_stage": zero} | ({"dp_shard": 4} if zero else {})
    workload = small(**EXPERTS, **fields)
    experts = 2 * 4 * 2 * 3 * 8 * 16  # of a rank: bytes in 4 layers of 2 experts
    others = 2 * workload.parameters - 2 * experts

    def sends(weights: float, size: int) -> float:
        whole, copies = (size - 1) / size, 2 * (2 - 1) / 2 / size
        return ({1: 2, 2: 2, 3: 3}[zero] * whole + copies) * weights

    expected = 2 * (7 / 8 * others + 3 / 4 * experts) if zero == 0 else sends(others, 4) + sends(experts, 2)
    assert sent(workload.graph(SYSTEM), "dp") == pytest.approx(expected, rel=1e-12)


# --- context parallelism


def computed(**fields: Any) -> float:
    """Return the FLOPs of all ranks."""
    graph = small(minibatch=4 // fields["dp"], **fields).graph(SYSTEM).expanded()
    return float(sum(graph.flops[task] * len(graph.participants(task)) for task in range(len(graph))))


def test_all_ranks_together_compute_what_one_computes_alone() -> None:
    experts = {**EXPERTS, "dp": 1}
    alone = computed(**experts)
    for fields in (
        *({"cp": 4}, {"cp": 2, "ep": 2, "dp": 2}, {"cp": 4, "pipeline": "zb-h1"}, {"ep": 4, "dp": 4}),
        *({"ep": 4, "dp": 4, "routing": "zipf"}, {"ep": 2, "dp": 4, "dispatch": "across-first", "dispatch_node": 2}),
    ):
        assert computed(**experts | fields) == pytest.approx(alone, rel=1e-12)
    for attention, recompute in product(("unfused", "fused"), ("none", "selective", "full")):
        style = {"attention": attention, "recompute": recompute, "mp": 2, "dp": 1}
        for communication in ("ring", "all-gather"):
            split = computed(**style, cp=4, cp_communication=communication)
            assert split == pytest.approx(computed(**style), rel=1e-12)


@pytest.mark.parametrize("communication", ["ring", "all-gather"])
@pytest.mark.parametrize(("cp", "mp", "shared"), [(2, 1, {}), (4, 1, {}), (8, 2, {}), (4, 1, LLAMA)])
def test_keys_and_values_take_their_closed_form(communication: str, cp: int, mp: int, shared: dict[str, Any]) -> None:
    # Forward: all keys and values but the own ones, of all members. Backward: these again, and their gradients. Heads
    # that share them send less.
    fields = {"dp": 1, "mp": mp, "minibatch": 6, "microbatches": 3, **shared}
    keys = KEYS / 2 if shared else KEYS
    for recompute, passes in (("none", 3), ("full", 4)):
        graph = small(**fields, cp=cp, cp_communication=communication, recompute=recompute).graph(SYSTEM).expanded()
        assert sent(graph, "cp") == pytest.approx(passes * 4 * 6 * (cp - 1) / cp * keys / mp, rel=1e-12)


@pytest.mark.parametrize("slow", [0.5, 3.0])
@pytest.mark.parametrize("overlap", [True, False])
def test_a_ring_takes_its_closed_form(overlap: bool, slow: float) -> None:
    # A step computes c and sends for t: c + (n - 1) max(c, t) where both overlap, else n c + (n - 1) t. In backward the
    # last sum of gradients has one more step to go, or all of them do.
    size = 4
    graph = small(layers=1, dp=1, cp=size, minibatch=1, overlap_cp=overlap).graph(SYSTEM)
    cost = np.zeros(len(graph))
    for task, name in enumerate(graph.names):
        if " core " in name:
            cost[task] = 1.0 if name.startswith("forward") else 2.0
        elif graph.label(task) == "cp":
            cost[task] = slow
    if overlap:
        expected = 1 + (size - 1) * max(1, slow) + 2 + (size - 1) * max(2, slow) + slow
    else:
        expected = size * (1 + 2) + (size - 1) * (slow + 2 * slow)
    assert longest_path(graph, cost) == pytest.approx(expected, rel=1e-12)


CAUSAL: dict[str, Any] = {"attention": "fused", "causal": True, "dp": 1, "minibatch": 2}


def core_flops(graph: TaskGraph, way: str = "forward") -> FloatArray:
    """Return the ``(ranks,)`` FLOPs between the linear layers of attention that CP members compute."""
    total = np.zeros(graph.ranks)
    for task, name in enumerate(graph.names):
        if " core" in name and name.startswith(way) and graph.kinds[task] == TaskKind.COMPUTE:
            total[graph.participants(task)] += graph.repeats[task] * graph.flops[task]
    return total


@pytest.mark.parametrize("communication", ["ring", "all-gather"])
def test_a_causal_mask_is_balanced_by_a_zigzag_and_by_nothing_else(communication: str) -> None:
    # Count the blocks of 2 x cp parts by hand: a part sees those before it, and half of itself.
    cp = 4
    seen = np.tril(np.ones((2 * cp, 2 * cp))) - np.eye(2 * cp) / 2
    owners = {"zigzag": [(i, 2 * cp - 1 - i) for i in range(cp)], "contiguous": [(2 * i, 2 * i + 1) for i in range(cp)]}
    whole = core_flops(small(**CAUSAL | {"causal": False}, cp=cp).graph(SYSTEM)).sum()
    for layout, parts in owners.items():
        graph = small(**CAUSAL, cp=cp, cp_layout=layout, cp_communication=communication).graph(SYSTEM)
        expected = [seen[list(own)].sum() / (2 * cp) ** 2 * whole for own in parts]
        assert core_flops(graph) == pytest.approx(np.array(expected), rel=1e-12)
        # Fused, a backward pass computes five products for the two of a forward pass.
        assert core_flops(graph, "backward") == pytest.approx(2.5 * np.array(expected), rel=1e-12)


def test_steps_of_a_zigzag_are_halves_as_is_attention_without_cp() -> None:
    # Messages take no time. The last member computes half of its own keys, and all of the others'.
    for layout, steps in (("zigzag", 4 / 2), ("contiguous", 1 / 2 + 3)):
        graph = small(**CAUSAL, layers=1, cp=4, cp_layout=layout).graph(SYSTEM)
        forward = np.array([" core" in name and name.startswith("forward") for name in graph.names])
        step = core_flops(small(**CAUSAL | {"causal": False}, layers=1, cp=4).graph(SYSTEM))[0] / 4
        assert longest_path(graph, np.where(forward, graph.flops, 0.0)) == pytest.approx(steps * step, rel=1e-12)
    full, half = (small(**CAUSAL | {"causal": one}).graph(SYSTEM).expanded().flops.sum() for one in (False, True))
    core = 3.5 * 4 * 2 * 4 * 8 * 8 * 8  # forward and backward, 4 layers of 2 samples: 4 s^2 h each
    assert full - half == pytest.approx(core / 2, rel=1e-12)


def test_members_of_cp_are_next_to_each_other_and_reduce_gradients_together() -> None:
    workload = small(mp=2, cp=2, pp=2, dp=2, minibatch=2, microbatches=2)
    assert workload.mesh(SYSTEM).axes == {"mp": 2, "cp": 2, "pp": 2, "dp": 2}
    assert "cp" not in small(mp=2).mesh(SYSTEM).axes
    graph = workload.graph(SYSTEM)
    tables = [graph.tables[graph.members[task]].tolist() for task in of_kind(graph, TaskKind.TRANSFER, "cp")]
    # ranks are mp + 2 (cp + 2 (pp + 2 dp)); each of both members sends to the other
    assert {frozenset(map(tuple, table)) for table in tables} == {
        frozenset({(0, 2), (2, 0), (1, 3), (3, 1), (8, 10), (10, 8), (9, 11), (11, 9)}),
        frozenset({(4, 6), (6, 4), (5, 7), (7, 5), (12, 14), (14, 12), (13, 15), (15, 13)}),
    }
    first = next(t for t in of_kind(graph, TaskKind.COLLECTIVE, "dp") if 0 in graph.participants(t))
    assert graph.tables[graph.members[first]].tolist() == [[0, 2, 8, 10], [1, 3, 9, 11]]


# --- pipelines


@pytest.mark.parametrize(("pp", "microbatches"), [(1, 3), (2, 2), (4, 4), (4, 9), (6, 12)])
def test_bubbles_are_the_published_ones(pp: int, microbatches: int) -> None:
    # Qi et al. 2023, arXiv 2401.10241, table 1: (p - 1)(T_F + T_B + T_W) and (p - 1)(T_F + T_B - T_W).
    fields = {"layers": 12, "pp": pp, "minibatch": microbatches, "microbatches": microbatches, "tasks": "passes"}
    for pipeline, sign in (("1f1b", 1), ("zb-h1", -1)):
        graph = small(**fields, pipeline=pipeline).graph(System(npus=pp))
        for forward, inputs, weights in [(1.0, 1.0, 1.0), (1.0, 1.5, 1.0), (1.0, 1.2, 0.8), (1.0, 1.0, 0.25)]:
            seconds = {"forward": forward, "backward": inputs + weights}
            seconds |= {"input gradients": inputs, "weight gradients": weights}
            cost = np.zeros(len(graph))
            for task, name in enumerate(graph.names):
                if graph.kinds[task] == TaskKind.COMPUTE and not name.split(" [")[0].endswith(" 12"):  # the head
                    cost[task] = next(each for way, each in seconds.items() if name.startswith(way))
            bubble = (pp - 1) * (forward + inputs + sign * weights)
            busy = microbatches * (forward + inputs + weights)
            assert longest_path(graph, cost) == pytest.approx(busy + bubble, rel=1e-12)


@pytest.mark.parametrize(("schedule", "interleave"), [("1f1b", 1), ("1f1b", 2), ("gpipe", 1), ("zb-h1", 1)])
def test_a_stage_holds_what_its_order_needs(schedule: str, interleave: int) -> None:
    for stages, microbatches in product((1, 2, 4), (4, 8)):
        ended = Way.WEIGHTS if schedule == "zb-h1" else Way.BACKWARD
        for stage in range(stages) if stages > 1 or interleave == 1 else ():
            passes = order(schedule, stage, stages, microbatches, interleave)
            held = accumulate((way is Way.FORWARD) - (way is ended) for way, _, _ in passes)
            assert max(held) == in_flight(schedule, stage, stages, microbatches, interleave)


@pytest.mark.parametrize(
    "fields", [{}, {"recompute": "selective"}, {"attention": "fused", "mp": 2}, {"cp": 2}, LLAMA, EXPERTS]
)
def test_gradients_of_inputs_and_of_weights_are_a_backward_pass(fields: dict[str, Any]) -> None:
    numbers, gemms = [], []
    for pipeline in ("1f1b", "zb-h1"):
        one = small(dp=1, pp=2, minibatch=4, microbatches=4, pipeline=pipeline, **fields)
        graph = one.graph(SYSTEM).expanded()
        assert (graph.flops >= 0).all()
        compute = of_kind(graph, TaskKind.COMPUTE, "compute")
        kernels = [graph.kernel_tables[graph.kernels[task]] for task in compute]
        moved, launches = (sum(getattr(one, name) for one in kernels) for name in ("moved", "launches"))
        numbers.append([graph.flops.sum(), graph.bytes[compute].sum(), moved, launches, *sent(graph, "mp")])
        gemms.append(Counter(gemm for one in kernels for gemm in one.gemms))
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-12)
    assert gemms[0] == gemms[1]


def test_gradients_leave_with_the_last_gradients_of_weights() -> None:
    fields = {"dp": 2, "pp": 2, "minibatch": 2, "microbatches": 2, "pipeline": "zb-h1"}
    graph = small(**fields).graph(SYSTEM)
    reductions = of_kind(graph, TaskKind.COLLECTIVE, "dp")
    expected = [f"weight gradients {layers} attention [1]" for layers in ("1..0", "3..2")]
    assert sorted(graph.names[graph.after(task)[0]] for task in reductions) == expected
    # Gradients of weights need no weights.
    gathered = small(**fields, zero_stage=3).graph(SYSTEM)
    assert not [name for name in gathered.names if name.startswith("weight gradients weights")]


def test_replicas_and_groups_that_do_not_fit_the_system_are_refused() -> None:
    with pytest.raises(InputError, match=r"one replica needs 2 x 4 x 2 workers.*mp x cp x pp of at most 8"):
        small(mp=2, cp=4, pp=2).mesh(System(npus=8))
    with pytest.raises(InputError, match="2 does not divide the 3 replicas"):
        small(**EXPERTS, ep=2).mesh(System(npus=3))
    workload = small(zero_stage=3, dp_shard=3)
    for ask in (workload.graph, workload.memory):
        with pytest.raises(InputError, match=r"^dp_shard: 3 does not divide the 64 replicas \(accepted: 1, 2, 4, "):
            ask(SYSTEM)
