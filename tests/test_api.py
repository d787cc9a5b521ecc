from __future__ import annotations

import importlib

import numpy as np
import pytest

import fredfw


def test_public_names_can_be_imported_and_are_documented() -> None:
    assert sorted(set(fredfw.__all__)) == fredfw.__all__
    for name in fredfw.__all__:
        assert getattr(fredfw, name).__doc__, name
    for name in ("errors", "tables", "typing", "units"):
        assert importlib.import_module(f"fredfw.{name}") is getattr(fredfw, name)


def test_simulate_collective() -> None:
    fw = fredfw.Framework()
    fabric = fw.topology("mesh2d", rows=1, columns=2, link_bandwidth="100 GB/s", link_latency=0, io_controllers=False)
    result = fw.simulate_collective(fabric.build(), "all-reduce", size="1 GB", algorithm="ring")
    # Two steps of half the buffer at 100 GB/s; busbw = algbw x 2 (n - 1) / n (nccl-tests), which is 1 for n = 2.
    assert result.duration == pytest.approx(0.01, rel=1e-12)
    assert result.algbw == pytest.approx(100e9, rel=1e-12)
    assert result.busbw == pytest.approx(100e9, rel=1e-12)
    # The bound on two NPUs is S each way; nobody needs more than two such steps of half the buffer.
    assert result.bound.seconds == pytest.approx(0.01, rel=1e-12)
    assert result.bound_ratio == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(result.link_bytes, [1e9, 1e9], rtol=1e-12)
    np.testing.assert_allclose(result.link_utilization, [1.0, 1.0], rtol=1e-12)
    assert result.statistics["flows"] == result.statistics["batches"] * 2


def test_simulate_collective_has_the_documented_defaults() -> None:
    fw = fredfw.Framework()
    fabric = fw.topology("fred", arity=[2, 2]).build()
    every = fw.simulate_collective(fabric, "all-reduce", size=1e9)
    named = fw.simulate_collective(fabric, "all-reduce", size=1e9, group=None, algorithm="auto")
    assert every.duration == named.duration
    assert every.ranks == 4
    assert every.algorithm == min(every.candidates, key=every.candidates.__getitem__)
    chunked = fw.simulate_collective(fabric, "all-reduce", size=1e9, group=[0, 1], algorithm="hierarchical", chunks=2)
    assert (chunked.ranks, chunked.algorithm) == (2, "hierarchical(chunks=2)")
