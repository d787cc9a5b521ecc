import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from task_graphs import of_kind

import fredfw_workload_repurpose
from fredfw import File, Framework, Npu, System
from fredfw.errors import InputError
from fredfw.testing import WorkloadTests
from fredfw.workloads import TaskKind
from fredfw_workload_repurpose import Layer, Network, Repurpose, draw, write

SYSTEM = System(npus=2)
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "repurpose_digits.py"
# Outputs 0 and 2 read inputs 0 and 1; outputs 1 and 3 read inputs 2 and 3, and output 1 reads input 0 a little.
SMALL = np.array([[3.0, 2, 0, 0], [0.1, 0, 3, 2], [2, 3, 0, 0], [0, 0, 2, 3]])


class TestRepurpose(WorkloadTests):
    plugin = fredfw_workload_repurpose
    workloads = (
        Repurpose(widths=(64, 96, 32), noise=0.3),
        Repurpose(widths=(64, 96, 32), noise=0.3, workers=(8, 4), received=40, epsilon=0.6),
        Repurpose(widths=(32, 64), taps=9, positions=16, workers=(4,), shares=(1, 1, 2, 4), method="spectral"),
        Repurpose(widths=(32, 64), noise=0.5, workers=(4,), granularity="weight", overlap=False),
        Repurpose(widths=(32, 64), noise=0.5, workers=(4,), method="magnitude", tolerance=0.25),
    )


class TestSplits(WorkloadTests):
    """The same weights on any number of workers."""

    plugin = fredfw_workload_repurpose
    workloads = tuple(
        Repurpose(widths=(64, 64), blocks=8, noise=1.0, epsilon=0.0, workers=(workers,)) for workers in (16, 4, 1)
    )
    conserved = ("flops", "samples")


def saved(folder: Path, **options: Any) -> Repurpose:
    write(folder / "small.npz", Network([Layer(SMALL), Layer(SMALL[:, [0, 2, 1, 3]])]))
    return Repurpose(weights=File.at("small.npz", folder), **options)


def test_tasks_memory_and_work_by_hand(tmp_path: Path) -> None:
    workload = saved(tmp_path, workers=(2,), epsilon=0.0, batch=10, weight_bytes=4, activation_bytes=2)
    graph = workload.graph(SYSTEM)
    exchanges, computed = of_kind(graph, TaskKind.COLLECTIVE), of_kind(graph, TaskKind.COMPUTE)
    # In each layer one activation goes from the worker of inputs 0 and 1 to the other one: 10 samples x 2 B.
    sizes = [graph.split_tables[graph.splits[task]][0] for task in exchanges]
    assert [sorted(one.ravel().tolist()) for one in sizes] == [[0, 0, 0, 20]] * 2
    # 4 weights each of inputs at home, and the one of the activation that comes
    assert sorted(graph.flops[computed[:3]].tolist()) == [2 * 1 * 10, 2 * 4 * 10, 2 * 4 * 10]
    near = 4 * 4 + 10 * 2 * (2 + 2)  # weights, inputs and outputs
    far = 1 * 4 + 10 * 2 * (1 + 2 * 2)  # weights, inputs, and outputs that are read and written
    assert sorted(graph.bytes[computed[:3]].tolist()) == sorted([near, near, far])
    (late,) = (task for task in computed[:3] if graph.flops[task] == 20)
    assert exchanges[0] in graph.after(late)
    assert all(exchanges[0] not in graph.after(task) for task in computed[:3] if task != late)
    use, work = workload.memory(SYSTEM), workload.work(SYSTEM)
    # The cut activation may be on the same worker in both layers, or not.
    assert use.weights in (4 * (4 + 4 + 1), 4 * (4 + 4 + 2))
    assert (use.activations, work.samples) == (10 * 2 * (2 + 1), 10)
    # Without overlap all wait for the activations.
    graph = saved(tmp_path, workers=(2,), epsilon=0.0, overlap=False).graph(SYSTEM)
    exchange = of_kind(graph, TaskKind.COLLECTIVE)[0]
    assert all(exchange in graph.after(task) for task in of_kind(graph, TaskKind.COMPUTE)[:3])


def test_what_is_pruned_needs_no_exchange(tmp_path: Path) -> None:
    workload = saved(tmp_path, workers=(2,), epsilon=0.02)
    assert not of_kind(workload.graph(SYSTEM), TaskKind.COLLECTIVE)
    error = f"{0.1 / np.linalg.norm(SMALL):.3g}"
    said = f"repurpose: 0 activations of a sample cross, relative errors of the layers {error}, {error}"
    assert workload.notes(SYSTEM) == (said,)


def test_channels_cross_with_all_their_positions() -> None:
    options: dict[str, Any] = {"widths": (8, 8), "noise": 0.5, "epsilon": 0.0, "workers": (2,), "taps": 9}
    one, many = (Repurpose(**options, positions=positions).graph(SYSTEM) for positions in (1, 49))
    sizes = [graph.split_tables[0].sum() for graph in (one, many)]
    assert sizes[1] == 49 * sizes[0] == 49 * 2 * 8
    assert many.flops.sum() == 49 * one.flops.sum() == 49 * 2 * 8 * 8 * 9


def test_the_latency_is_that_of_the_busiest_link() -> None:
    # Computing takes no time, so the busiest link decides: it carries all activations of one worker.
    workload = Repurpose(widths=(64, 64), noise=1.0, epsilon=0.0, workers=(2,), weight_bytes=2, activation_bytes=2)
    fabric = Framework().topology("switch", npus=2, link_bandwidth="1 GB/s", link_latency="0 s").build()
    npu = Npu(peak=1e21, memory_bandwidth=1e21)
    result = Framework().simulate_graph(workload.graph(SYSTEM), fabric, npu=npu, collectives={"default": "direct"})
    assert result.timeline.duration == pytest.approx(32 * 2 / 1e9, rel=1e-3)


@pytest.mark.parametrize("method", ["repurpose", "contiguous", "random", "spectral", "magnitude"])
def test_all_methods_keep_the_bound(method: str) -> None:
    for granularity in ("pair", "weight"):
        workload = Repurpose(widths=(32, 32, 16), noise=0.5, workers=(4, 3), method=method, granularity=granularity)
        plan = evolve(workload, epsilon=0.3).plan(SYSTEM)
        assert 0.2 < min(plan.errors) <= max(plan.errors) <= 0.3
        assert [len(np.unique(owners)) for owners in plan.partition] == [4, 4, 3]


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    plan = Repurpose(widths=(32, 32), noise=0.3, epsilon=0.3, workers=(4,)).plan(SYSTEM)
    draw(plan, 0, tmp_path / "layer.png")
    assert (tmp_path / "layer.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="path"):
        draw(plan, 0, tmp_path / "layer.txt")
    with pytest.raises(InputError, match=r"layer: 1 is not a layer \(accepted: 0 to 0\)"):
        draw(plan, 1, tmp_path / "layer.png")


@pytest.mark.parametrize(
    ("options", "key", "message"),
    [
        ({"epsilon": 1.0}, "epsilon", "1.0 is out of range"),
        ({"epsilon": True}, "epsilon", "True is not a number"),
        ({"workers": []}, "workers", "[] is empty"),
        ({"workers": 17, "widths": [32, 16]}, "workers", "17 workers for a layer of 16"),
        ({"workers": [2, 2, 2], "widths": [32, 16]}, "workers", "3 numbers for 1 layer"),
        ({"workers": 2, "widths": [16]}, "widths", "[16] has no layer"),
        ({"workers": 2, "widths": [16, 16], "blocks": 17}, "blocks", "17 blocks of 16"),
        ({"shares": [1, 0]}, "shares", "[1, 0] has 0"),
        ({"workers": 2, "shares": [1, 2, 3]}, "shares", "3 shares for 2 workers"),
        ({"workers": 2, "received": 1, "granularity": "weight"}, "received", "is 1, and single weights"),
    ],
)
def test_bad_options(options: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"^{re.escape(key)}: .*{re.escape(message)}.* \(accepted: "):
        Repurpose(**options)


def test_what_only_the_system_or_the_file_tells_is_refused(tmp_path: Path) -> None:
    for method in ("repurpose", "magnitude"):
        limited = Repurpose(widths=(32, 32), noise=1.0, epsilon=0.1, workers=(4,), received=2, method=method)
        with pytest.raises(InputError, match=r"^received: .* \(accepted: "):
            limited.graph(System(npus=4))
    assert Repurpose(widths=(32, 32)).graph(System(npus=4)).ranks == 4  # by default all NPUs are workers
    with pytest.raises(InputError, match=r"workers: 33 workers for a layer of 32 neurons"):
        Repurpose(widths=(32, 32)).graph(System(npus=33))
    for key, value in {"widths": [8, 8], "blocks": 2, "noise": 2, "taps": 2, "positions": 2}.items():
        with pytest.raises(InputError, match=f"^{key}: .*describes a random network"):
            saved(tmp_path, **{key: value})
    (tmp_path / "net.npz").write_bytes(b"")
    with pytest.raises(InputError, match=r"net\.npz: is not a whole"):
        Repurpose(weights=File.at("net.npz", tmp_path))


@pytest.mark.parametrize("method", ["repurpose", "spectral"])
def test_layers_of_zeros_send_nothing(tmp_path: Path, method: str) -> None:
    write(tmp_path / "zeros.npz", Network([Layer(np.zeros((4, 4)))]))
    plan = Repurpose(weights=File.at("zeros.npz", tmp_path), method=method).plan(SYSTEM)
    assert [(layer.crossing, layer.error) for layer in plan.layers] == [(0, 0.0)]


@pytest.mark.slow
def test_a_trained_network_sends_less_than_half_of_what_magnitude_pruning_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("sklearn")
    runpy.run_path(str(EXAMPLE))["main"](4)
    crossing = {line.split()[0]: float(line.split()[3]) for line in capsys.readouterr().out.splitlines()[2:]}
    assert 2 * crossing["repurpose"] <= crossing["magnitude"]
