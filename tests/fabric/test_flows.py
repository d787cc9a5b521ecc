from __future__ import annotations

import numpy as np

from fredfw.fabric import AlwaysStart, FlowSet, Routes, Start

ONE = Routes.of([np.array([3, 1]), np.array([], dtype=np.intp)], [2.0, 0.0])
OTHER = Routes.of([np.array([4, 5])], [1.0], [np.array([0.5, 0.25])])


def test_routes_of_lists() -> None:
    assert len(ONE) == 2
    assert ONE.offsets.tolist() == [0, 2, 2]
    assert ONE.links.tolist() == [3, 1]
    assert ONE.latencies.tolist() == [2.0, 0.0]
    assert ONE.coefficients is None


def test_no_routes() -> None:
    empty = Routes.of([], [])
    assert len(empty) == 0
    assert empty.links.dtype == np.intp


def test_concatenated_routes_keep_their_order_and_coefficients() -> None:
    both = Routes.concatenate([ONE, OTHER])
    assert both.offsets.tolist() == [0, 2, 2, 4]
    assert both.links.tolist() == [3, 1, 4, 5]
    assert both.latencies.tolist() == [2.0, 0.0, 1.0]
    assert both.coefficients is not None
    assert both.coefficients.tolist() == [1.0, 1.0, 0.5, 0.25]


def test_concatenating_without_coefficients_adds_none() -> None:
    assert Routes.concatenate([ONE, ONE]).coefficients is None


def test_the_default_admission_starts_everything() -> None:
    flows = FlowSet(ONE, np.ones(2), np.zeros(2, dtype=np.intp), 1)
    decision = AlwaysStart().admit(flows, [flows])
    assert isinstance(decision, Start)
    assert (decision.setup, decision.caps) == (0.0, None)
