import pytest
from task_graphs import of_kind

import fredfw_workload_cnn
from fredfw.collectives import Pattern
from fredfw.errors import InputError
from fredfw.testing import WorkloadTests
from fredfw.workloads import System, TaskKind
from fredfw_workload_cnn import Cnn
from fredfw_workload_cnn.workload import Walk

WAFER = System(npus=20, controllers=18)


class TestCnn(WorkloadTests):
    plugin = fredfw_workload_cnn
    workloads = (Cnn(), Cnn(dp=3, overlap_dp=True, bucket=1e6))


class TestSplits(WorkloadTests):
    """The same global minibatch and its images, in parts of any size."""

    plugin = fredfw_workload_cnn
    workloads = (Cnn(dp=16, minibatch=2), Cnn(dp=4, minibatch=8), Cnn(dp=2, minibatch=16), Cnn(dp=1, minibatch=32))
    conserved = ("flops", "load", "samples", "model_flops")


# Krizhevsky et al. 2012, section 3.5, by hand: inputs and outputs of five convolutions and three linear layers
ALEXNET = (363, 96), (2400, 256), (2304, 384), (3456, 384), (3456, 256), (9216, 4096), (4096, 4096), (4096, 1000)


@pytest.mark.parametrize(
    ("model", "parameters", "multiply_adds"),
    [
        # torchvision.models documentation, "num_params" of the *_Weights.IMAGENET1K_V1 tables; multiply-adds of a
        # forward pass: He et al. 2016, table 1 and section 3.3 (VGG-16: section 4.1)
        ("resnet-50", 25_557_032, 3.8e9),
        ("resnet-101", 44_549_160, 7.6e9),
        ("resnet-152", 60_192_808, 11.3e9),
        ("vgg-16", 138_357_544, 15.3e9),
        ("alexnet", sum((inputs + 1) * outputs for inputs, outputs in ALEXNET), None),
        # bvlc_googlenet of the Caffe model zoo: 6.999 M (OpenVINO open_model_zoo, googlenet-v1)
        ("googlenet", 6_998_552, None),
    ],
)
def test_published_costs(model: str, parameters: int, multiply_adds: float | None) -> None:
    workload = Cnn(model=model, minibatch=4)
    flops = sum(block.flops for block in workload.blocks)
    assert workload.parameters == parameters
    assert multiply_adds is None or flops / 2 == pytest.approx(multiply_adds, rel=0.02)
    assert workload.graph(WAFER).flops.sum() == 3 * 4 * flops


def test_numbers_that_move_by_hand() -> None:
    walk = Walk(2, 4)  # 32 numbers
    walk.convolution(3, 3)  # 48 out
    assert walk.block("conv").moved == 32 + 48
    walk.convolution(5, 1, stride=2, norm=True)  # 20 out, once more by the normalisation
    assert walk.block("norm").moved == 48 + 20 + 20 + 20
    same = walk.fork()
    walk.join(same, how="add")
    added = walk.block("add")
    assert (added.stored, added.moved) == (20, 60)


def test_gradients_go_at_once_behind_the_backward_pass() -> None:
    graph = Cnn().graph(WAFER)
    (task,) = of_kind(graph, TaskKind.COLLECTIVE)
    assert task == len(graph) - 1
    assert graph.after(task).tolist() == [task - 1]
    assert graph.bytes[task] == 2 * 60_192_808
    assert graph.patterns[task] is Pattern.ALL_REDUCE
    assert graph.tables[graph.members[task]].shape == (1, 20)
    assert not of_kind(Cnn(dp=1, overlap_dp=True).graph(WAFER), TaskKind.COLLECTIVE)


def test_buckets_fill_in_backward_order_and_carry_all_gradients() -> None:
    graph = Cnn(model="vgg-16", overlap_dp=True, gradient_bytes=4).graph(WAFER)
    buckets = of_kind(graph, TaskKind.COLLECTIVE)
    assert graph.bytes[buckets].sum() == 4 * 138_357_544
    assert (graph.bytes[buckets][:-1] >= 25 * 2**20).all()
    assert graph.names[buckets[0]] == "gradients down to fc7"  # fc8 has 16.4 MB, less than a bucket


def test_nothing_waits_for_the_images_of_the_next_iteration() -> None:
    graph = Cnn(minibatch=16).graph(WAFER)
    (load,) = of_kind(graph, TaskKind.LOAD)
    assert graph.bytes[load] == 16 * 150_528
    assert graph.tables[graph.members[load]].shape == (20, 1)
    assert graph.controller_tables[graph.controllers[load]].tolist() == [*range(18), 0, 1]
    assert load not in graph.dependencies
    assert not of_kind(Cnn().graph(System(npus=20)), TaskKind.LOAD)
    assert not of_kind(Cnn(input_bytes=0).graph(WAFER), TaskKind.LOAD)


def test_memory_of_alexnet_by_hand() -> None:
    memory = Cnn(model="alexnet", minibatch=2).memory(WAFER)
    outputs = 96 * (55**2 + 27**2) + 256 * (27**2 + 13**2) + 2 * 384 * 13**2 + 256 * (13**2 + 6**2) + 2 * 4096 + 1000
    assert memory.activations == 2 * 2 * outputs
    assert (memory.weights, memory.gradients, memory.optimizer) == tuple(62_378_344 * each for each in (2, 2, 8))
    assert memory.must_fit


def test_a_global_batch_is_divided_among_the_workers_and_work_is_three_forward_passes_over_it() -> None:
    with pytest.raises(InputError, match=r"^global_batch: 80 samples cannot be .* among 3 replicas.*\(accepted: "):
        Cnn(global_batch=80, dp=3)
    given, before = Cnn(global_batch=80).graph(WAFER), Cnn(minibatch=4).graph(WAFER)
    assert given.flops.tolist() == before.flops.tolist()
    assert given.bytes.tolist() == before.bytes.tolist()
    assert Cnn(global_batch=80).memory(WAFER) == Cnn(minibatch=4).memory(WAFER)
    assert Cnn().work(WAFER) == Cnn(global_batch=320).work(WAFER)
    work = Cnn(model="resnet-152", global_batch=40).work(WAFER)
    assert (work.samples, work.tokens) == (40, None)
    # He et al. 2016, table 1: 11.3e9 multiply-adds
    assert work.model_flops == pytest.approx(3 * 40 * 2 * 11.3e9, rel=0.02)
