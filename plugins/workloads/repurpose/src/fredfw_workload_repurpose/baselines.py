"""What RePurpose is compared with: other partitions with the same pruning, and pruning by magnitude."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray
from fredfw_workload_repurpose.plan import Plan
from fredfw_workload_repurpose.problem import Problem
from fredfw_workload_repurpose.pruning import Pruned, Pruner, sent
from fredfw_workload_repurpose.starts import Partition, contiguous, spectral


def in_order(problem: Problem) -> Plan:
    """Return the plan that leaves the neurons in their order and prunes as RePurpose does."""
    return partitioned(problem, contiguous(problem.network.widths, problem.workers))


def at_random(problem: Problem) -> Plan:
    """Return the plan of a random balanced partition, pruned as RePurpose does."""
    random = np.random.default_rng(problem.seed)
    return partitioned(
        problem, tuple(random.permutation(one) for one in contiguous(problem.network.widths, problem.workers))
    )


def clustered(problem: Problem) -> Plan:
    """Return the plan of the spectral partition of the graph of all weights, pruned as RePurpose does."""
    energies = [pruner.energies for pruner in problem.pruners]
    return partitioned(problem, spectral(energies, problem.workers, problem.seed))


def partitioned(problem: Problem, partition: Partition) -> Plan:
    """Return the plan of a given partition, pruned as RePurpose does.

    Raises:
        InputError: A limit on received activations makes a larger error than the bound.
    """
    layers = [
        pruner.pruned(pruner.selected(before, after, len(workers), problem.epsilon), problem.epsilon)
        for pruner, (before, after), workers in zip(
            problem.pruners, pairwise(partition), problem.workers[1:], strict=True
        )
    ]
    return Plan(problem.network, partition, tuple(layers))


def by_magnitude(problem: Problem, kept: Sequence[int] | None = None) -> Plan:
    """Return the plan that leaves the neurons in their order, without the smallest weights.

    Args:
        problem: What to place.
        kept: Weights to keep in each layer. By default as few as keep the bound of the error: all weights that are
            smaller than the largest one that is dropped are dropped, too.

    Raises:
        InputError: There is a limit on received activations.
    """
    if problem.received is not None:
        message = f"is {problem.received}, and pruning by magnitude knows no limit"
        raise InputError(message, key="received", accepted="no limit, or another method")
    partition = contiguous(problem.network.widths, problem.workers)
    layers = []
    for number, pruner in enumerate(problem.pruners):
        before, after = partition[number : number + 2]
        order = np.argsort(np.abs(pruner.weights), axis=None, kind="stable")
        count = _most(pruner, order, problem.epsilon) if kept is None else pruner.weights.size - kept[number]
        weights = _without(pruner, order, count)
        penalty = float(np.abs(pruner.weights.flat[order[count - 1]])) if count else 0.0
        crossing = sent(np.any(weights, axis=2), before, after, len(problem.workers[number + 1]))
        layers.append(Pruned(weights, crossing, pruner.error(weights), penalty))
    return Plan(problem.network, partition, tuple(layers))


def _most(pruner: Pruner, order: IntArray, epsilon: float) -> int:
    """Return how many of the smallest weights can be dropped, by bisection."""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if pruner.error(_without(pruner, order, middle)) <= epsilon:
            low = middle
        else:
            high = middle - 1
    return low


def _without(pruner: Pruner, order: IntArray, count: int) -> FloatArray:
    weights = pruner.weights.copy()
    weights.flat[order[:count]] = 0
    return weights
