from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fredfw.collectives import Pattern
from fredfw.errors import InputError
from fredfw.typing import FloatArray
from fredfw.workloads import System, TaskGraph, TaskKind
from fredfw_workload_transformer import Transformer, fredfw_workloads
from fredfw_workload_transformer.stationary import Direction, order, split_layers
from fredfw_workload_transformer.streaming import group_layers

WAFER = System(npus=20, controllers=18)
SHAPE: dict[str, Any] = {"layers": 4, "hidden": 8, "sequence": 4, "heads": 2, "vocabulary": 10}
ACTIVATIONS = 4 * 8 * 2  # bytes per sample between layers
LAYER = 12 * 8**2 + 13 * 8  # parameters
HEAD = (10 + 4 + 2) * 8


def small(**fields: Any) -> Transformer:
    return Transformer(**(SHAPE | fields))


def of_kind(graph: TaskGraph, kind: TaskKind, label: str | None = None) -> list[int]:
    return [t for t in range(len(graph)) if graph.kinds[t] == kind and label in (None, graph.label(t))]


def members(graph: TaskGraph, task: int) -> Any:
    return graph.tables[graph.members[task]]


def total_flops(graph: TaskGraph) -> float:
    return float(sum(graph.flops[t] * len(members(graph, t)) for t in of_kind(graph, TaskKind.COMPUTE)))


def streamed(graph: TaskGraph, kind: TaskKind) -> float:
    return sum(float(graph.bytes[t]) * len(members(graph, t)) for t in of_kind(graph, kind))


def computed(graph: TaskGraph, rank: int) -> list[str]:
    return [graph.names[t] for t in of_kind(graph, TaskKind.COMPUTE) if rank in graph.participants(t)]


def longest_path(graph: TaskGraph, cost: FloatArray) -> float:
    end = np.zeros(len(graph))
    for task in range(len(graph)):
        end[task] = cost[task] + max((end[before] for before in graph.after(task)), default=0.0)
    return float(np.max(end))


def test_it_is_registered() -> None:
    assert fredfw_workloads() == [Transformer]


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


@settings(max_examples=80, deadline=None)
@given(fields=CONFIGURATIONS)
def test_every_configuration_conserves_work_and_orders_each_rank(fields: dict[str, Any]) -> None:
    workload = small(**fields)
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
    for task in range(len(graph)):
        reach.append({task}.union(*(reach[before] for before in graph.after(task))))
    for rank in range(graph.ranks):
        chain = [t for t in of_kind(graph, TaskKind.COMPUTE) if rank in graph.participants(t)]
        assert all(earlier in reach[later] for earlier, later in pairwise(chain))


def test_layers_are_spread_evenly_with_the_extra_ones_in_front() -> None:
    assert split_layers(78, 2) == [tuple(range(39)), tuple(range(39, 79))]
    assert [len(stage) for stage in split_layers(10, 4)] == [3, 3, 2, 3]  # the last one is the head


def test_one_forward_one_backward_by_hand() -> None:
    f, b = Direction.FORWARD, Direction.BACKWARD
    assert order("1f1b", 0, 3, 4) == [(f, 0), (f, 1), (f, 2), (b, 0), (f, 3), (b, 1), (b, 2), (b, 3)]
    assert order("1f1b", 2, 3, 4) == [(f, 0), (b, 0), (f, 1), (b, 1), (f, 2), (b, 2), (f, 3), (b, 3)]
    assert order("1f1b", 0, 4, 2) == [(f, 0), (f, 1), (b, 0), (b, 1)]
    assert order("gpipe", 2, 3, 2) == [(f, 0), (f, 1), (b, 0), (b, 1)]


@pytest.mark.parametrize("pipeline", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("pp", "microbatches"), [(1, 4), (2, 1), (2, 8), (4, 4), (4, 8)])
def test_pipeline_takes_its_closed_form(pipeline: str, pp: int, microbatches: int) -> None:
    # Narayanan et al. 2021, section 2.2.1: (m + p - 1)(tf + tb) with free communication and equal stages.
    graph = small(pp=pp, microbatches=microbatches, pipeline=pipeline).graph(System(npus=pp)).expanded()
    cost = np.where(np.char.find(np.array(graph.names), "head") >= 0, 0.0, graph.flops)
    samples = 16 / microbatches
    stage = 3 * (4 / pp) * (24 * samples * 4 * 8**2 + 4 * samples * 4**2 * 8)
    assert longest_path(graph, cost) == pytest.approx((microbatches + pp - 1) * stage, rel=1e-12)


def test_blocks_of_a_layer_alternate_with_all_reduces() -> None:
    graph = small(layers=1, mp=2, dp=1).graph(System(npus=2))
    kinds = [TaskKind(int(kind)).name[:4] for kind in graph.kinds]
    assert kinds == ["COMP", "COLL"] * 2 + ["COMP"] * 2 + ["COMP", "COLL"] * 2
    assert [graph.names[t] for t in of_kind(graph, TaskKind.COMPUTE)] == [
        "forward 0 attention [0]",
        "forward 0 mlp [0]",
        "forward 1 head [0]",
        "backward 1 head [0]",
        "backward 0 mlp [0]",
        "backward 0 attention [0]",
    ]
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


def test_gradients_are_reduced_behind_the_last_backward_pass_of_a_stage() -> None:
    graph = small(mp=2, dp=3, pp=2, microbatches=2).graph(WAFER)
    first, last = sorted(of_kind(graph, TaskKind.COLLECTIVE, "dp"), key=lambda t: graph.participants(t)[0])
    assert members(graph, first).tolist() == [[0, 4, 8], [1, 5, 9]]
    assert members(graph, last).tolist() == [[2, 6, 10], [3, 7, 11]]
    assert graph.bytes[first] == 2 * 2 * LAYER / 2
    assert graph.bytes[last] == 2 * (2 * LAYER + HEAD) / 2
    assert [graph.names[t] for t in graph.after(first)] == ["backward 1..0 attention [1]"]
    assert [graph.names[t] for t in graph.after(last)] == ["backward 3..2 attention [1]"]


def test_overlapped_gradients_follow_their_layer() -> None:
    graph = small(dp=2, overlap_dp=True, microbatches=2).graph(WAFER)
    reductions = of_kind(graph, TaskKind.COLLECTIVE, "dp")
    assert [float(graph.bytes[t]) for t in reductions] == [2 * HEAD] + [2 * LAYER] * 4
    for earlier, later in pairwise(reductions):
        assert earlier in graph.after(later)
    assert [graph.names[graph.after(t)[0]] for t in reductions] == [
        "backward 4 head [1]",
        *[f"backward {layer} attention [1]" for layer in (3, 2, 1, 0)],
    ]


def test_groups_hold_consecutive_layers_and_the_head_comes_last() -> None:
    assert group_layers(4, 2) == [((0,), (1,)), ((2,), (3, 4))]
    assert group_layers(3, 2) == [((0,), (1,)), ((2, 3), ())]
    assert group_layers(2, 1) == [((0,),), ((1, 2),)]


@pytest.mark.parametrize("streams", ["all", "needed"])
def test_weights_come_twice_and_gradients_leave_once(streams: str) -> None:
    graph = small(mp=2, dp=3, pp=2, execution="streaming", streams=streams).graph(WAFER)
    # The last group (two layers and the head) is still there at the start of backward.
    assert streamed(graph, TaskKind.LOAD) == pytest.approx(2 * (4 * LAYER + HEAD) + 2 * (2 * LAYER), rel=1e-12)
    assert streamed(graph, TaskKind.STORE) == pytest.approx(2 * (4 * LAYER + HEAD), rel=1e-12)
    assert {graph.label(t) for t in of_kind(graph, TaskKind.LOAD) + of_kind(graph, TaskKind.STORE)} == {"stream"}


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


def names_before(graph: TaskGraph, name: str) -> set[str]:
    return {graph.names[t] for t in graph.after(graph.names.index(name))}


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


def test_gradients_leave_in_order_and_backward_waits_for_a_free_buffer() -> None:
    graph = small(dp=2, execution="streaming", prefetch=0).graph(WAFER)
    assert names_before(graph, "gradients of group 3") == {"backward 3 attention [0]"}
    assert names_before(graph, "gradients of group 2") == {"gradients of group 3", "backward 2 attention [0]"}
    assert "gradients of group 3" in names_before(graph, "backward 2 mlp [0]")
    ahead = small(dp=2, execution="streaming", prefetch=1).graph(WAFER)
    assert "gradients of group 3" not in names_before(ahead, "backward 2 mlp [0]")
    assert "gradients of group 3" in names_before(ahead, "backward 1 mlp [0]")


def test_streamed_microbatches_flow_through_the_stages_and_back_to_the_first() -> None:
    graph = small(pp=2, dp=1, minibatch=2, microbatches=2, execution="streaming").graph(WAFER)
    transfers = {graph.names[t]: members(graph, t).tolist() for t in of_kind(graph, TaskKind.TRANSFER)}
    assert transfers == {
        f"{way} to group {group} stage {stage} [{m}]": [[1 - stage, stage]]
        for m in range(2)
        for way, group, stage in [
            *(("forward", 0, 1), ("forward", 1, 0), ("forward", 1, 1)),
            *(("backward", 1, 0), ("backward", 0, 1), ("backward", 0, 0)),
        ]
    }
    attention = [name for name in computed(graph, 0) if "attention" in name]
    assert attention == [f"{name} attention [{m}]" for name in ("forward 0", "forward 2") for m in (0, 1)] + [
        f"{name} attention [{m}]" for name in ("backward 2", "backward 0") for m in (0, 1)
    ]


def test_a_last_group_that_is_not_full() -> None:
    for streams in ("all", "needed"):
        graph = small(layers=3, pp=2, dp=1, execution="streaming", streams=streams).graph(WAFER)
        assert streamed(graph, TaskKind.STORE) == pytest.approx(2 * (3 * LAYER + HEAD), rel=1e-12)
        # Stage 1 ends forward with layer 1, and keeps it if its stream is its own.
        again = 2 if streams == "all" else 1
        assert streamed(graph, TaskKind.LOAD) == pytest.approx(2 * ((3 + again) * LAYER + HEAD), rel=1e-12)


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


@pytest.mark.parametrize(("stage", "sharded"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_zero_stages_shard_memory_over_replicas(stage: int, sharded: int) -> None:
    use = small(dp=4, zero_stage=stage).memory(WAFER)
    whole = 4 * LAYER + HEAD
    expected = [each * whole / (4 if place < sharded else 1) for place, each in enumerate((12, 2, 2))]
    assert [use.optimizer, use.gradients, use.weights] == pytest.approx(expected, rel=1e-12)


def test_recomputation_keeps_the_input_of_each_layer() -> None:
    head = 16 * 4 * (4 * 8 + 4 * 10)
    assert small(recompute=True).memory(WAFER).activations == pytest.approx(4 * 16 * ACTIVATIONS + head, rel=1e-12)


def test_memory_of_a_streaming_run_by_hand() -> None:
    use = small(mp=2, dp=2, pp=2, microbatches=2, execution="streaming", prefetch=2, recompute=True).memory(WAFER)
    head = 8 * 4 * (4 * 8 + 4 * 10 / 2)
    assert use.weights == use.gradients == pytest.approx(3 * 2 * (LAYER + HEAD) / 2, rel=1e-12)
    assert use.activations == pytest.approx(2 * (2 * 8 * ACTIVATIONS + head), rel=1e-12)
    assert use.optimizer == 0
    assert not use.must_fit


def test_transformer_17b_fits_where_fred_puts_it() -> None:
    workload = Transformer(model="transformer-17b", mp=3, dp=3, pp=2, microbatches=8, zero_stage=2)
    assert workload.memory(WAFER).total < 80e9


def test_fields_override_the_preset() -> None:
    assert Transformer(model="gpt-3", layers=2).shape.layers == 2
    assert Transformer(model="gpt-3", layers=2).shape.hidden == 12288


@pytest.mark.parametrize(("npus", "dp"), [(20, 3), (18, 3), (6, 1)])
def test_replicas_fill_the_system(npus: int, dp: int) -> None:
    assert small(mp=3, pp=2).parallelism(System(npus=npus)).dp == dp


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"model": "gpt-4"}, "model"),
        ({"hidden": None}, "hidden"),
        ({"layers": 0}, "layers"),
        ({"mp": 0}, "mp"),
        ({"mp": 1.5}, "mp"),
        ({"pp": 5}, "pp"),
        ({"microbatches": 3}, "microbatches"),
        ({"execution": "magic"}, "execution"),
        ({"pipeline": "interleaved"}, "pipeline"),
        ({"zero_stage": 4}, "zero_stage"),
        ({"dp_communication": "gossip"}, "dp_communication"),
        ({"pp_transfer": "carrier pigeon"}, "pp_transfer"),
        ({"prefetch": -1}, "prefetch"),
        ({"streams": "some"}, "streams"),
    ],
)
def test_bad_input_names_the_key(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        small(**fields)
    assert caught.value.key == key
    assert caught.value.accepted


def test_a_system_too_small_for_one_replica() -> None:
    with pytest.raises(InputError, match="one replica needs 3 x 2 workers, but there are 5 NPUs"):
        small(mp=3, pp=2).parallelism(System(npus=5))


def test_streaming_needs_controllers() -> None:
    with pytest.raises(InputError, match="without I/O controllers"):
        small(execution="streaming").graph(System(npus=20))
