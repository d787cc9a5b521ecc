from __future__ import annotations

from itertools import pairwise

import pytest

from fredfw.collectives import Pattern
from fredfw.errors import InputError
from fredfw.workloads import System, TaskGraph, TaskKind
from fredfw_workload_gnmt import Gnmt
from fredfw_workload_gnmt.model import PRESETS, Shape

SYSTEM = System(npus=4)


def reduces(graph: TaskGraph) -> list[int]:
    return [task for task in range(len(graph)) if graph.kinds[task] == TaskKind.COLLECTIVE]


def test_parameters_of_mlperf() -> None:
    # NVIDIA apex, tests of its optimizers: "MLPerf GNMT has 160671297 parameters"
    assert Gnmt(model="mlperf").parameters == 160_671_297


def test_gradients_of_themis() -> None:
    # Themis (ISCA 2022) reduces 267,788,288 bytes per iteration
    graph = Gnmt(gradients="matrices").graph(SYSTEM)
    assert graph.bytes[reduces(graph)].sum() == 267_788_288


def test_parameters_by_hand() -> None:
    shape = Shape(encoder_layers=3, decoder_layers=2, hidden=2, vocabulary=7, sequence=5)
    found = {layer.name: layer.parameters for layer in shape.layers}
    assert found == {
        "source embedding": 14,
        "encoder 0": 2 * (8 * (2 + 2) + 8),  # both ways
        "encoder 1": 8 * (4 + 2) + 8,
        "encoder 2": 8 * (2 + 2) + 8,
        "target embedding": 14,
        "decoder 0": 8 * (2 + 2 + 2) + 8,  # with the context of the time step before
        "attention": 4 + 4 + 2 + 2 + 1,
        "decoder 1": 8 * (4 + 2) + 8,
        "softmax": 14,
    }
    assert list(found) == [layer.name for layer in shape.layers]


def test_flops_are_two_per_weight_and_word_piece() -> None:
    shape = Shape(encoder_layers=3, decoder_layers=2, hidden=2, vocabulary=7, sequence=5)
    for layer in shape.layers:
        if layer.matrices:
            assert layer.flops == 2 * 5 * layer.matrices
    attention = next(layer for layer in shape.layers if layer.name == "attention")
    assert attention.flops == 5 * 2 * (4 + 4) + 25 * (2 * 2 + 2 * 2)


def test_an_lstm_reads_the_weights_of_its_state_in_each_time_step() -> None:
    shape = Shape(encoder_layers=2, decoder_layers=1, hidden=2, vocabulary=7, sequence=5)
    found = {layer.name: layer.read for layer in shape.layers}
    assert found["encoder 0"] == 2 * (16 + 5 * 16)
    assert found["encoder 1"] == 32 + 5 * 16
    assert found["decoder 0"] == 16 + 5 * (16 + 16)


@pytest.mark.parametrize("model", PRESETS)
def test_each_layer_reduces_its_gradients_during_backward(model: str) -> None:
    workload = Gnmt(model=model)
    graph = workload.graph(SYSTEM)
    found = reduces(graph)
    backward = [layer for layer in reversed(workload.shape.layers) if layer.parameters]
    assert [graph.names[task] for task in found] == [f"gradients down to {layer.name}" for layer in backward]
    assert graph.bytes[found].tolist() == [2 * layer.parameters for layer in backward]
    assert {graph.patterns[task] for task in found} == {Pattern.ALL_REDUCE}
    assert {graph.label(task) for task in found} == {"dp"}
    for earlier, later in pairwise(found):
        assert earlier in graph.after(later)
    assert graph.flops.sum() == 3 * 128 * sum(layer.flops for layer in workload.shape.layers)


def test_one_all_reduce_behind_the_backward_pass() -> None:
    graph = Gnmt(overlap_dp=False).graph(SYSTEM)
    (task,) = reduces(graph)
    assert task == len(graph) - 1
    assert graph.bytes[task] == 2 * Gnmt().parameters
    assert len(reduces(Gnmt(bucket=100e6).graph(SYSTEM))) == 3


def test_what_is_frozen_out_of_the_last_all_reduce_is_still_sent() -> None:
    # The source embedding, the last layer of backward, has no matrix: the bucket before must not be lost.
    graph = Gnmt(gradients="matrices", bucket=1e9).graph(SYSTEM)
    assert graph.bytes[reduces(graph)].sum() == 267_788_288


def test_a_single_worker_reduces_nothing() -> None:
    assert not reduces(Gnmt(dp=1).graph(SYSTEM))


def test_fields_change_the_preset() -> None:
    workload = Gnmt(model="mlperf", encoder_layers=2, decoder_layers=3, hidden=8, vocabulary=9, sequence=10)
    shape = workload.shape
    assert (shape.encoder_layers, shape.decoder_layers, shape.hidden) == (2, 3, 8)
    assert (shape.vocabulary, shape.sequence, shape.lstm_biases) == (9, 10, 2)


def test_work_and_memory() -> None:
    work = Gnmt(global_batch=64).work(SYSTEM)
    assert (work.samples, work.tokens, work.replicas) == (64, 6400, 4)
    assert work.model_flops == 3 * 64 * sum(layer.flops for layer in Gnmt().shape.layers)
    memory = Gnmt(model="mlperf", minibatch=2).memory(SYSTEM)
    assert (memory.weights, memory.gradients, memory.optimizer) == tuple(160_671_297 * each for each in (2, 2, 12))
    assert memory.activations == 2 * 2 * sum(layer.stored for layer in PRESETS["mlperf"].layers)


@pytest.mark.parametrize(
    ("field", "value"),
    [("model", "gnmt"), ("hidden", 0), ("gradients", "none"), ("sequence", 1.5), ("bucket", -1), ("dp", 0)],
)
def test_bad_input_names_the_key(field: str, value: object) -> None:
    with pytest.raises(InputError) as caught:
        Gnmt(**{field: value})  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.key == field
    assert caught.value.accepted


def test_batches_that_cannot_be() -> None:
    with pytest.raises(InputError, match=r"^minibatch: 4 is given, and global_batch = 80 too"):
        Gnmt(global_batch=80, minibatch=4)
    with pytest.raises(InputError, match=r"^global_batch: 80 samples cannot be divided evenly among 3 replicas"):
        Gnmt(global_batch=80, dp=3)
