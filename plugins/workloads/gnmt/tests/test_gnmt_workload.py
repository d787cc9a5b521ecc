import pytest
from task_graphs import of_kind

import fredfw_workload_gnmt
from fredfw.collectives import Pattern
from fredfw.errors import InputError
from fredfw.testing import WorkloadTests
from fredfw.workloads import System, TaskKind
from fredfw_workload_gnmt import Gnmt
from fredfw_workload_gnmt.workload import PRESETS, Shape

SYSTEM = System(npus=4)
SMALL = Shape(encoder_layers=3, decoder_layers=2, hidden=2, vocabulary=7, sequence=5)


class TestGnmt(WorkloadTests):
    plugin = fredfw_workload_gnmt
    workloads = (Gnmt(), Gnmt(model="mlperf", dp=3, gradients="matrices", bucket=25e6), Gnmt(dp=2, overlap_dp=False))


class TestSplits(WorkloadTests):
    """The same global minibatch in parts of any size."""

    plugin = fredfw_workload_gnmt
    workloads = tuple(Gnmt(dp=dp, global_batch=64) for dp in (16, 4, 1))
    conserved = ("flops", "samples", "model_flops")


def test_published_parameters_and_gradients() -> None:
    # NVIDIA apex, tests of its optimizers: "MLPerf GNMT has 160671297 parameters"
    assert Gnmt(model="mlperf").parameters == 160_671_297
    # Themis (ISCA 2022) reduces 267,788,288 bytes per iteration. The source embedding, the last layer of backward, has
    # no matrix: a bucket before must not be lost.
    for bucket in (0, 1e9):
        graph = Gnmt(gradients="matrices", bucket=bucket).graph(SYSTEM)
        assert graph.bytes[of_kind(graph, TaskKind.COLLECTIVE)].sum() == 267_788_288


def test_layers_by_hand() -> None:
    found = {layer.name: layer.parameters for layer in SMALL.layers}
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
    # Two per weight and word piece.
    assert all(layer.flops == 2 * 5 * layer.matrices for layer in SMALL.layers if layer.matrices)
    attention = next(layer for layer in SMALL.layers if layer.name == "attention")
    assert attention.flops == 5 * 2 * (4 + 4) + 25 * (2 * 2 + 2 * 2)
    # An LSTM reads the weights of its state in each time step.
    found = {layer.name: layer.read for layer in SMALL.layers}
    assert found["encoder 0"] == 2 * (16 + 5 * 16)
    assert found["encoder 1"] == 32 + 5 * 16
    assert found["decoder 0"] == 16 + 5 * (16 + 16)


@pytest.mark.parametrize("model", PRESETS)
def test_each_layer_reduces_its_gradients_during_backward(model: str) -> None:
    workload = Gnmt(model=model)
    graph = workload.graph(SYSTEM)
    found = of_kind(graph, TaskKind.COLLECTIVE)
    backward = [layer for layer in reversed(workload.shape.layers) if layer.parameters]
    assert [graph.names[task] for task in found] == [f"gradients down to {layer.name}" for layer in backward]
    assert graph.bytes[found].tolist() == [2 * layer.parameters for layer in backward]
    assert {(graph.patterns[task], graph.label(task)) for task in found} == {(Pattern.ALL_REDUCE, "dp")}
    assert graph.flops.sum() == 3 * 128 * sum(layer.flops for layer in workload.shape.layers)


def test_one_all_reduce_behind_the_backward_pass() -> None:
    graph = Gnmt(overlap_dp=False).graph(SYSTEM)
    (task,) = of_kind(graph, TaskKind.COLLECTIVE)
    assert task == len(graph) - 1
    assert graph.bytes[task] == 2 * Gnmt().parameters
    assert len(of_kind(Gnmt(bucket=100e6).graph(SYSTEM), TaskKind.COLLECTIVE)) == 3
    assert not of_kind(Gnmt(dp=1).graph(SYSTEM), TaskKind.COLLECTIVE)


def test_work_and_memory_and_fields_that_change_the_preset() -> None:
    with pytest.raises(InputError, match=r"^global_batch: 80 samples cannot be .* among 3 replicas.*\(accepted: "):
        Gnmt(global_batch=80, dp=3)
    work = Gnmt(global_batch=64).work(SYSTEM)
    assert (work.samples, work.tokens, work.replicas) == (64, 6400, 4)
    assert work.model_flops == 3 * 64 * sum(layer.flops for layer in Gnmt().shape.layers)
    memory = Gnmt(model="mlperf", minibatch=2).memory(SYSTEM)
    assert (memory.weights, memory.gradients, memory.optimizer) == tuple(160_671_297 * each for each in (2, 2, 12))
    assert memory.activations == 2 * 2 * sum(layer.stored for layer in PRESETS["mlperf"].layers)
    workload = Gnmt(model="mlperf", encoder_layers=2, decoder_layers=3, hidden=8, vocabulary=9, sequence=10)
    shape = workload.shape
    assert (shape.encoder_layers, shape.decoder_layers, shape.hidden) == (2, 3, 8)
    assert (shape.vocabulary, shape.sequence, shape.lstm_biases) == (9, 10, 2)
