from __future__ import annotations

from typing import Any

import pytest

from fredfw.errors import InputError
from fredfw.workloads import System, Work
from fredfw_workload_transformer import Transformer
from fredfw_workload_transformer.batch import filling

SHAPE: dict[str, Any] = {"layers": 4, "hidden": 8, "sequence": 4, "heads": 2, "vocabulary": 10}
SYSTEM = System(npus=16, controllers=4)


def small(**fields: Any) -> Transformer:
    return Transformer(**(SHAPE | fields))


@pytest.mark.parametrize(
    ("samples", "stages", "microbatches"),
    [
        (64, 1, 1),
        (64, 2, 8),
        (96, 8, 32),
        (36, 2, 9),  # 8 does not divide them
        (37, 2, 37),
        (7, 2, 7),  # there are no 8
        (2**10 * 3**5, 64, 256),
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
        ({"pp": 2, "execution": "streaming", "dp": 1, "global_batch": 16}, {"pp": 2, "dp": 1, "microbatches": 8}),
    ],
)
def test_equal_batches_are_equal_iterations(one: dict[str, Any], other: dict[str, Any]) -> None:
    given, before = (
        small(**one),
        small(**{"execution": "stationary"} | other | {key: one[key] for key in one if key == "execution"}),
    )
    graph, expected = given.graph(SYSTEM), before.graph(SYSTEM)
    assert graph.names == expected.names
    assert graph.flops.tolist() == expected.flops.tolist()
    assert graph.bytes.tolist() == expected.bytes.tolist()
    assert given.memory(SYSTEM) == before.memory(SYSTEM)
    assert given.work(SYSTEM) == before.work(SYSTEM)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"global_batch": 64, "minibatch": 16},
            "minibatch: 16 is given, and global_batch = 64 too (accepted: one of the two keys)",
        ),
        (
            {"dp": 3, "global_batch": 64},
            "global_batch: 64 samples cannot be divided evenly among 3 replicas (accepted: a multiple of 3)",
        ),
        (
            {"dp": 4, "global_batch": 64, "micro_batch": 3},
            "micro_batch: 3 does not divide the 16 samples of a replica (accepted: a divisor of 16)",
        ),
        (
            {"microbatches": 5},
            "microbatches: 5 does not divide the 16 samples of a replica (accepted: a divisor of 16)",
        ),
        (
            {"microbatches": 2, "micro_batch": 4},
            "micro_batch: 2 microbatches of 4 samples are not the 16 samples of a replica "
            "(accepted: one of the two keys, or numbers whose product is 16)",
        ),
        ({"global_batch": 0}, "global_batch: 0 is not a valid number (accepted: a whole number of at least 1)"),
    ],
)
def test_contradictions_are_refused_at_once(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        small(**fields)
    assert str(caught.value) == message


def test_what_depends_on_the_system_is_refused_with_it() -> None:
    workload = small(mp=5, global_batch=64)  # 3 replicas on 16 NPUs
    for ask in (workload.graph, workload.memory, workload.work):
        with pytest.raises(InputError, match=r"^global_batch: 64 samples cannot be divided evenly among 3 replicas"):
            ask(SYSTEM)
    assert workload.work(System(npus=20)).samples == 64


@pytest.mark.parametrize("fields", [{}, {"recompute": True}, {"mp": 2, "pp": 2}, {"execution": "streaming"}])
def test_the_work_is_that_of_the_model_however_it_is_executed(fields: dict[str, Any]) -> None:
    flops = 72 * 64 * 4 * 4 * 8**2 * (1 + 4 / (6 * 8) + 10 / (12 * 4 * 8))
    work = small(global_batch=64, **fields).work(SYSTEM)
    assert (work.samples, work.tokens) == (64, 64 * 4)
    assert work.model_flops == pytest.approx(flops, rel=1e-12)


def test_samples_of_replicas_add_up() -> None:
    assert small(dp=4).work(SYSTEM).samples == 64
    flops = small(global_batch=24, dp=1).work(SYSTEM).model_flops
    assert small(mp=2, minibatch=3).work(SYSTEM) == Work(24, 96, flops, replicas=8, microbatches=1)


def test_the_division_of_the_batch_is_told() -> None:
    # 16 NPUs: 4 replicas of 16 samples; the smallest divisor of 16 that is at least 4 x 2 stages.
    work = small(mp=2, pp=2, global_batch=64).work(SYSTEM)
    assert (work.replicas, work.microbatches) == (4, 8)


@pytest.mark.parametrize(
    ("shape", "batch", "gpus", "seconds", "mfu"),
    [
        # Korthikanti et al. 2022, arXiv 2205.05198, tables 3 and 5: A100 of 312 TFLOP/s, sequences of 2048 tokens
        ((48, 6144, 64), 4, 8, 1.10, 0.415),
        ((96, 12288, 96), 64, 64, 13.75, 0.514),
        ((105, 20480, 128), 280, 280, 37.83, 0.560),
        ((128, 25600, 160), 512, 512, 71.49, 0.563),
    ],
)
def test_mfu_as_published(shape: tuple[int, int, int], batch: int, gpus: int, seconds: float, mfu: float) -> None:
    layers, hidden, heads = shape
    workload = Transformer(
        layers=layers, hidden=hidden, heads=heads, sequence=2048, vocabulary=51200, mp=8, dp=1, global_batch=batch
    )
    flops = workload.work(System(npus=gpus)).model_flops
    assert flops is not None
    assert flops / (seconds * gpus * 312e12) == pytest.approx(mfu, rel=5e-3)
