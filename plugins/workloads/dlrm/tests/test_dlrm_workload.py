from typing import Any

import numpy as np
import pytest
from task_graphs import names_before

import fredfw_workload_dlrm
from fredfw.collectives import Pattern
from fredfw.errors import InputError
from fredfw.testing import WorkloadTests
from fredfw.workloads import System, TaskGraph, TaskKind
from fredfw_workload_dlrm import Dlrm
from fredfw_workload_dlrm.workload import PRESETS

SYSTEM = System(npus=4)


class TestDlrm(WorkloadTests):
    plugin = fredfw_workload_dlrm
    workloads = (
        Dlrm(dp=4),
        Dlrm(model="kaggle", dp=13, overlap_dp=False, overlap_mp=False),
        Dlrm(model="themis", dp=16, bucket=0),
    )


class TestSplits(WorkloadTests):
    """The same global minibatch in parts of any size."""

    plugin = fredfw_workload_dlrm
    workloads = tuple(Dlrm(dp=dp, global_batch=64) for dp in (16, 4, 1))
    conserved = ("flops", "samples", "model_flops")


def of_pattern(graph: TaskGraph, pattern: Pattern) -> list[int]:
    return [task for task in range(len(graph)) if graph.patterns[task] is pattern]


def test_bytes_and_times_of_themis() -> None:
    # Themis (ISCA 2022): all-to-all of 4,194,304 bytes each way, all-reduce of 114,823,168 bytes, 512 samples per NPU
    graph = Dlrm(model="themis", dp=1024, column_shards=16).graph(System(npus=1024))
    assert graph.bytes[of_pattern(graph, Pattern.ALL_TO_ALL)].tolist() == [4_194_304] * 2
    assert graph.bytes[of_pattern(graph, Pattern.ALL_REDUCE)].sum() == 114_823_168
    # inputs/workload/DLRM.txt of astra-sim/libra: ns of each layer in forward, at 60 TFLOP/s
    nanoseconds = [27962, *[17896] * 5, 1118, 145403, *[71583] * 10, 35]
    layers = [*PRESETS["themis"].bottom, *PRESETS["themis"].top]
    # The file has whole ns, and some of them one too many.
    assert [512 * layer.flops / 60e3 for layer in layers] == pytest.approx(nanoseconds, abs=1)


def test_parameters_of_mlperf_by_hand() -> None:
    # bottom 13-512-256-128; 27 features have 351 pairs, so the top MLP is 479-1024-1024-512-256-1
    bottom, top = 14 * 512 + 513 * 256 + 257 * 128, 480 * 1024 + 1025 * 1024 + 1025 * 512 + 513 * 256 + 257
    assert Dlrm().dense_parameters == bottom + top
    # num_embed of Criteo's data
    assert [sum(PRESETS[name].rows) for name in ("mlperf", "kaggle")] == [187_767_399, 33_762_577]
    assert Dlrm(tables=4).shape.rows == (round(187_767_399 / 26),)


def test_interaction_by_hand() -> None:
    shape: dict[str, Any] = {"tables": 3, "embedding_dim": 4, "rows": (8,), "bottom_mlp": (2, 4), "top_mlp": (5, 1)}
    for interaction, flops, stored in (("dot", 2 * 4 * 4 * 4, 4 + 6), ("concatenate", 0, 16)):
        found = Dlrm(**shape, interaction=interaction).shape
        assert (found.interacting.flops, found.interacting.stored) == (flops, stored)
        assert found.top[0].parameters == (stored + 1) * 5


def test_the_bottom_mlp_runs_beside_the_all_to_alls_or_waits() -> None:
    graph, plain = Dlrm(dp=2).graph(SYSTEM), Dlrm(dp=2, overlap_mp=False).graph(SYSTEM)
    assert names_before(graph, "embeddings") == names_before(graph, "forward bottom MLP 0") == {"look-up of embeddings"}
    assert names_before(graph, "forward interaction") == {"embeddings", "forward bottom MLP 2"}
    back = names_before(graph, "gradients of embeddings")
    assert back == names_before(graph, "backward bottom MLP 2") == {"backward interaction"}
    assert names_before(graph, "update of embeddings") == {"gradients of embeddings", "backward bottom MLP 0"}
    assert names_before(plain, "forward bottom MLP 0") == {"embeddings"}
    assert names_before(plain, "backward bottom MLP 2") == {"gradients of embeddings"}


def test_tables_that_cannot_be_divided_evenly() -> None:
    # 26 tables of 128 numbers on 4 workers: 7, 7, 6 and 6 of them; 3 samples, FP16
    graph = Dlrm(dp=4, minibatch=3).graph(SYSTEM)
    forward, backward = of_pattern(graph, Pattern.ALL_TO_ALL)
    sent = 3 * 128 * 2 * np.array([7, 7, 6, 6])
    (there,) = graph.split_tables[graph.splits[forward]]
    assert there.tolist() == [[each] * 4 for each in sent.tolist()]
    (back,) = graph.split_tables[graph.splits[backward]]
    assert back.tolist() == there.T.tolist()
    looks = [task for task in range(len(graph)) if graph.names[task] == "look-up of embeddings"]
    # 12 samples of all workers, a row of 128 numbers read and written for each table
    bytes_of = {tuple(graph.participants(task)): graph.bytes[task] for task in looks}
    assert bytes_of == {(0, 1): 12 * 7 * 128 * 4, (2, 3): 12 * 6 * 128 * 4}


def test_columns_of_tables_on_more_workers_than_tables_but_not_than_pieces() -> None:
    graph = Dlrm(model="themis", dp=128, column_shards=4, minibatch=2).graph(SYSTEM)
    # two pieces of 16 columns; 256 samples, 100 rows each
    assert graph.bytes[graph.names.index("look-up of embeddings")] == 256 * 32 * (100 * 2 + 2)
    assert graph.bytes[graph.names.index("update of embeddings")] == 256 * 32 * (2 * 100 * 2 + 2)
    with pytest.raises(InputError, match=r"^column_shards: 26 tables in 26 pieces cannot be placed on 27 workers"):
        Dlrm().graph(System(npus=27))


def test_buckets_carry_all_gradients_and_a_single_worker_sends_nothing() -> None:
    workload = Dlrm(model="themis", dp=4)
    graph = workload.graph(SYSTEM)
    assert graph.bytes[of_pattern(graph, Pattern.ALL_REDUCE)].sum() == 2 * workload.dense_parameters
    each = Dlrm(model="themis", dp=4, bucket=0).graph(SYSTEM)
    assert len(of_pattern(each, Pattern.ALL_REDUCE)) == 12 + 7
    once = Dlrm(model="themis", dp=4, overlap_dp=False).graph(SYSTEM)
    (task,) = of_pattern(once, Pattern.ALL_REDUCE)
    assert once.names[task] == "gradients down to bottom MLP 0"
    assert TaskKind.COLLECTIVE not in Dlrm(dp=1).graph(SYSTEM).kinds


def test_work_and_memory() -> None:
    shape = PRESETS["mlperf"]
    work = Dlrm(global_batch=64).work(SYSTEM)
    assert (work.samples, work.tokens, work.replicas) == (64, None, 4)
    assert work.model_flops == 3 * 64 * sum(layer.flops for layer in shape.dense)
    memory = Dlrm(minibatch=2).memory(SYSTEM)
    dense = Dlrm().dense_parameters
    held = max(sum(shape.rows[worker::4]) for worker in range(4)) * 128
    assert (memory.weights, memory.gradients, memory.optimizer) == (2 * dense + 2 * held, 2 * dense, 4 * dense)
    stored = 13 + 26 * 128 + (512 + 256 + 128) + 479 + (1024 + 1024 + 512 + 256 + 1)
    assert memory.activations == 2 * 2 * stored


@pytest.mark.parametrize(
    ("fields", "key", "accepted"),
    [
        ({"bottom_mlp": [128]}, "bottom_mlp", "the number of dense features, then"),
        ({"bottom_mlp": [13, 64]}, "bottom_mlp", "a list that ends in embedding_dim = 128"),
        ({"rows": [1, 2]}, "rows", "1 or 26 numbers"),
        ({"interaction": "sum"}, "interaction", "dot, concatenate"),
        ({"column_shards": 3}, "column_shards", "a divisor of embedding_dim = 128"),
        ({"dp": 27}, "column_shards", "2 or more, a divisor of 128"),
        ({"model": "themis", "dp": 1024}, "column_shards", "16 or more, a divisor of 64"),
        ({"model": "themis", "dp": 10000}, "column_shards", "dp of at most 4096"),
        ({"global_batch": 80, "dp": 3}, "global_batch", "a multiple of 3"),
    ],
)
def test_bad_input_names_the_key(fields: dict[str, Any], key: str, accepted: str) -> None:
    with pytest.raises(InputError, match=rf"^{key}\b.* \(accepted: .*{accepted}"):
        Dlrm(**fields)
