"""The examples run, and their numbers are those of closed forms."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=name)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_ring_of_messages_takes_what_a_ring_takes(ranks: int) -> None:
    # 2 (n - 1) steps of size / n (Patarasuk and Yuan 2009), and n - 1 additions at 1 TB/s.
    size, bandwidth, latency = 1e9, 50e9, 2e-6
    block = size / ranks
    expected = 2 * (ranks - 1) * (block / bandwidth + latency) + (ranks - 1) * block / 1e12
    ends = example("ring_by_messages")["all_reduce"](ranks, size, bandwidth=bandwidth, latency=latency)
    assert ends == [pytest.approx(expected, rel=1e-9)] * ranks


def test_the_ring_prints_its_times(capsys: pytest.CaptureFixture[str]) -> None:
    example("ring_by_messages")["main"]()
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
