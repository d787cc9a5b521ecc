"""Buckets of gradients, by their sum and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw import GradientBuckets, GraphBuilder, TaskGraph, TaskKind


def reduced(sizes: list[float], capacity: float, workers: int = 3) -> TaskGraph:
    builder = GraphBuilder(workers)
    buckets = GradientBuckets(builder, np.arange(workers), capacity)
    before: tuple[int, ...] = ()
    for layer, size in enumerate(sizes):
        before = (builder.compute(f"backward {layer}", np.arange(workers), flops=1.0, after=before),)
        buckets.add(str(layer), size, *before)
    buckets.flush()
    return builder.build()


def all_reduces(graph: TaskGraph) -> list[tuple[str, float, list[str]]]:
    return [
        (graph.names[task], float(graph.bytes[task]), [graph.names[before] for before in graph.after(task)])
        for task in range(len(graph))
        if graph.kinds[task] == TaskKind.COLLECTIVE
    ]


def test_a_bucket_leaves_when_it_is_full() -> None:
    assert all_reduces(reduced([4.0, 3.0, 9.0, 1.0], 7.0)) == [
        ("gradients down to 1", 7.0, ["backward 1"]),
        ("gradients down to 2", 9.0, ["backward 2", "gradients down to 1"]),
        ("gradients down to 3", 1.0, ["backward 3", "gradients down to 2"]),
    ]


def test_no_capacity_reduces_each_layer_and_an_infinite_one_all() -> None:
    assert [size for _, size, _ in all_reduces(reduced([4.0, 0.0, 2.0], 0.0))] == [4.0, 2.0]
    assert all_reduces(reduced([4.0, 2.0, 0.0], math.inf)) == [("gradients down to 2", 6.0, ["backward 2"])]


@given(sizes=st.lists(st.integers(0, 9).map(float)), capacity=st.sampled_from([0.0, 5.0, math.inf]))
def test_all_gradients_are_reduced_once(sizes: list[float], capacity: float) -> None:
    buckets = [size for _, size, _ in all_reduces(reduced(sizes, capacity))]
    assert sum(buckets) == sum(sizes)
    assert all(size >= capacity for size in buckets[:-1])


@pytest.mark.parametrize("capacity", [0.0, math.inf])
def test_a_single_worker_reduces_nothing(capacity: float) -> None:
    assert not all_reduces(reduced([4.0, 2.0], capacity, workers=1))
