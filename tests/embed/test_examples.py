"""The examples run, and their numbers are those of closed forms."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from fredfw import Framework

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=name)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_ring_of_messages_takes_what_a_ring_takes(ranks: int, capsys: pytest.CaptureFixture[str]) -> None:
    # 2 (n - 1) steps of size / n (Patarasuk and Yuan 2009), and n - 1 additions at 1 TB/s.
    size, bandwidth, latency = 1e9, 50e9, 2e-6
    block = size / ranks
    expected = 2 * (ranks - 1) * (block / bandwidth + latency) + (ranks - 1) * block / 1e12
    ring = example("ring_by_messages")
    ends = ring["all_reduce"](ranks, size, bandwidth=bandwidth, latency=latency)
    assert ends == [pytest.approx(expected, rel=1e-9)] * ranks
    ring["main"]()
    # 4 ranks: 6 steps of 250 MB at 100 GB/s and 1 us, 3 additions of 250 us.
    assert capsys.readouterr().out.splitlines()[0] == "  4 ranks: 15.756 ms"


def test_training_exposes_what_the_backward_pass_does_not_hide(capsys: pytest.CaptureFixture[str]) -> None:
    training = example("simpy_training")
    # The switches of FRED-D reduce, so an all-reduce of S takes S / 3 TB/s, and four links of 20 ns, up and down the
    # tree (FRED, ISCA 2025). The slowest worker has a layer's gradients every 1.25 ms. What begins while others run
    # shares the links with them, so that four end as if they ran one after the other.
    pause, layers = 1.25 * 1e-3, 4
    for step in training["train"]((0.1e9, 3e9, 6e9, 20e9)):
        alone = step.size / 3e12
        exposed = max(alone, layers * alone - (layers - 1) * pause) + 4 * 20e-9
        assert step.compute == pytest.approx(1.25 * 2e-3 + layers * pause)
        assert step.exposed == pytest.approx(exposed, rel=1e-9)
    training["main"]()
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["gradients", "step", "compute", "exposed"]
    assert [line.split()[::2] for line in lines] == [
        ["0.3", "7.600", "7.500", "0.100"],
        ["3.0", "8.500", "7.500", "1.000"],
        ["6.0", "11.750", "7.500", "4.250"],
    ]


def test_a_request_alone_waits_for_its_cache_and_for_its_tokens() -> None:
    serving = example("simpy_serving")
    bandwidth, tokens = 5e9, 31
    ((ttft,), (tpot,)) = serving["serve"](1, 1.0, "5 GB/s")
    framework = Framework()
    fabric = framework.topology("switch", npus=8, link_bandwidth="5 GB/s").build()
    latency = 2 * float(fabric.latencies[0])
    # 2 x 32 layers x 8 heads of 128 x 2,048 tokens x 2 B, a fourth of it from each NPU.
    cache = 2 * 32 * 8 * 128 * 2048 * 2 / 4 / bandwidth + latency
    # Two all-reduces of 4096 x 2 B in each of 32 layers; direct: three fourths of the buffer there and back.
    reduced = 2 * (3 / 4 * 2 * 32 * 4096 * 2 / bandwidth + latency)
    assert ttft == pytest.approx(30e-3)
    assert tpot == pytest.approx((cache + tokens * (4e-3 + reduced)) / tokens, rel=1e-9)
    # A cache under way makes tokens slower.
    medians = [sorted(serving["serve"](12, 25.0, bandwidth)[1])[6] for bandwidth in ("50 GB/s", "5 GB/s")]
    assert 4e-3 < medians[0] < medians[1]
