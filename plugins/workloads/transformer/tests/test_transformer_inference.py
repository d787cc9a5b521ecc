import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import fredfw_workload_transformer
from fredfw import Framework, Npu
from fredfw.errors import InputError
from fredfw.experiment.results import GraphResult
from fredfw.testing import WorkloadTests
from fredfw.workloads import KernelModel, System
from fredfw_workload_transformer import Inference, latencies

SHAPE: dict[str, Any] = {"layers": 4, "hidden": 256, "sequence": 4096, "vocabulary": 1000}
SHAPE |= {"architecture": "llama", "heads": 8, "key_value_heads": 4, "intermediate": 512}
SMALL = partial(Inference, prompt_tokens=64, output_tokens=8, **SHAPE)
LLAMA = partial(Inference, model="llama-3-70b", prompt_tokens=2048, output_tokens=256)
SYSTEM = System(npus=16)


class TestInference(WorkloadTests):
    plugin = fredfw_workload_transformer
    workloads = (
        SMALL(phase="prefill", tp=4, batch=2, causal=True),
        SMALL(phase="decode", tp=2, pp=2, batch=4),
        SMALL(tp=2, pp=2),
        SMALL(experts=4, top_k=2, tp=2),
        SMALL(phase="disaggregated", tp=4, decode_tp=2, pp=2, decode_steps=2),
    )


def simulate(workload: Inference, bandwidth: str = "900 GB/s", npus: int = 8, npu: Npu | None = None) -> GraphResult:
    framework = Framework()
    fabric = framework.topology("switch", npus=npus, link_bandwidth=bandwidth, link_latency=0).build()
    return framework.simulate_graph(workload.graph(System(npus)), fabric, npu=npu, collectives={"default": "direct"})


def test_kv_cache_and_all_reduces_of_a_token_by_hand() -> None:
    # 80 layers, 8 heads of 128 numbers for keys and as many for values, 2 B: 320 KiB a token
    assert LLAMA().kv_bytes(1) == 2 * 80 * 8 * 128 * 2 == 327_680
    memory = LLAMA(phase="decode", tp=8, batch=4).memory(SYSTEM)
    assert memory.must_fit
    assert memory.cache == 4 * (2048 + 256) * 327_680 / 8
    assert memory.weights == pytest.approx(70.55e9 * 2 / 8, rel=1e-3)
    graph = LLAMA(phase="decode", tp=8, batch=4).graph(SYSTEM)
    reduced = [graph.bytes[task] for task in range(len(graph)) if graph.label(task) == "tp"]
    assert sum(reduced) == 2 * 80 * 4 * 8192 * 2


def test_decode_reads_weights_and_kv_cache_and_a_graph_of_kernels_takes_the_host_no_time() -> None:
    workload = LLAMA(phase="decode", batch=4)
    norms_and_look_up = 128256 * 8192 + 8192
    read = 2 * (workload.shape.parameters - norms_and_look_up) + 4 * (2048 + 128) * 327_680
    graph = workload.graph(SYSTEM)
    assert graph.bytes.sum() == pytest.approx(read, rel=1e-12)
    result = simulate(workload, npus=2, npu=Npu(memory_bandwidth=3e12))
    assert latencies(result.timeline, workload.steps).tpot == pytest.approx(read / 3e12, rel=1e-9)
    # Attention reads each key once for all heads that share it, so kernels move what decode needs.
    npu = Npu(memory_bandwidth=3e12, compute="kernels", kernels=KernelModel(launch=1.0))
    tpot = latencies(simulate(workload, npus=2, npu=npu).timeline, workload.steps).tpot or 0.0
    assert read / 3e12 < tpot < 1.01 * read / 3e12  # and activations


@pytest.mark.parametrize("workload", [*TestInference.workloads, LLAMA(causal=False)])
def test_kernels_compute_the_flops_of_their_tasks(workload: Inference) -> None:
    graph = workload.graph(SYSTEM)
    for task in np.flatnonzero(graph.flops > 0).tolist():
        kernels = graph.kernel_tables[graph.kernels[task]]
        assert kernels.graphed
        assert kernels.flops == pytest.approx(graph.flops[task], rel=1e-9), graph.names[task]


def test_a_causal_prefill_skips_half_of_the_scores() -> None:
    whole, causal = (LLAMA(batch=3, causal=mask).graph(SYSTEM).flops for mask in (False, True))
    # Q K' and its product with V: 2 FLOPs for each number of hidden size, two tokens and layer; decode has no mask.
    assert whole.sum() - causal.sum() == pytest.approx(3 * 80 * 2 * 2 * 2048**2 * 8192 / 2, rel=1e-9)
    decode = [LLAMA(phase="decode", causal=mask).graph(SYSTEM).flops.sum() for mask in (False, True)]
    assert decode[0] == decode[1]


@pytest.mark.parametrize(("tp", "decode_tp"), [(4, 4), (4, 2), (1, 4)])
def test_kv_transfer_moves_the_cache_once(tp: int, decode_tp: int) -> None:
    workload = SMALL(phase="disaggregated", tp=tp, decode_tp=decode_tp, batch=3)
    graph = workload.graph(SYSTEM)
    sent = np.zeros(tp + decode_tp)
    for task in (task for task in range(len(graph)) if graph.label(task) == "kv"):
        np.add.at(sent, graph.tables[graph.members[task]], graph.bytes[task])
    whole = workload.kv_bytes(3 * 64)
    assert sent == pytest.approx([whole / tp] * tp + [whole / decode_tp] * decode_tp)


def test_an_answer_is_prefill_and_its_steps_which_kv_transfer_slows_down() -> None:
    alone = [latencies(simulate(SMALL(phase=one, tp=2)).timeline, 1) for one in ("prefill", "decode")]
    both = SMALL(phase="both", tp=2)
    found = latencies(simulate(both).timeline, both.steps)
    assert found.ttft == pytest.approx(alone[0].ttft)
    assert found.tpot == pytest.approx(alone[1].tpot)
    quiet = simulate(SMALL(phase="decode", tp=2, batch=4), "1 GB/s").timeline
    busy = simulate(SMALL(phase="disaggregated", tp=2, batch=32, decode_batch=4, decode_steps=4), "1 GB/s").timeline
    assert (latencies(busy, 4).tpot or 0.0) > 1.01 * (latencies(quiet, 1).tpot or math.nan)


@pytest.mark.parametrize(
    ("fields", "key", "accepted"),
    [
        ({"tp": 3}, "tp", "1, 2, 4"),
        ({"phase": "disaggregated", "decode_tp": 3}, "decode_tp", "1, 2, 4"),
        ({"phase": "disaggregated", "decode_tp": 0}, "decode_tp", "1"),
        ({"decode_tp": 2}, "decode_tp", "disaggregated"),
        ({"prompt_tokens": 4096}, "prompt_tokens", "1 to 4088"),
        ({"pp": 5}, "pp", "at most 4"),
    ],
)
def test_bad_input(fields: dict[str, Any], key: str, accepted: str) -> None:
    with pytest.raises(InputError, match=f"^{key}: .*{accepted}"):
        SMALL(**fields)
