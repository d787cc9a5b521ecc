"""RePurpose: neurons rearranged over workers layer by layer, and pruned so that little crosses between workers.

Abdi, Rashidi, Fekri and Krishna, Efficient Distributed Inference of Deep Neural Networks via Restructuring and Pruning,
AAAI 2023 (arXiv 2008.08289). The alternation of assignment and l0 thresholding is theirs. The bound on the error, and
the penalty that exhausts it, take the place of their constants.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fredfw.typing import BoolArray, IntArray
from fredfw_workload_repurpose.partition import Workers
from fredfw_workload_repurpose.plan import Plan
from fredfw_workload_repurpose.problem import Problem
from fredfw_workload_repurpose.pruning import Pruned, Pruner
from fredfw_workload_repurpose.starts import Partition, components, contiguous, spectral


def rearranged(problem: Problem) -> Plan:
    """Return the network rearranged and pruned: with as few activations between workers as the bound allows.

    Each partition to begin with (connected components, spectral clusters, the neurons' own order) is improved layer by
    layer. The one with the fewest activations between workers is returned.

    Raises:
        InputError: A limit on received activations makes a larger error than the bound.
    """
    energies = [pruner.energies for pruner in problem.pruners]
    starts = (
        components(energies, problem.workers),
        spectral(energies, problem.workers, problem.seed),
        contiguous(problem.network.widths, problem.workers),
    )
    plans = []
    for start in starts:
        if start is not None:
            plans.append(_improved(problem, start))
            if not plans[-1].crossing:
                break
    return min(plans, key=lambda plan: plan.crossing)


def _improved(problem: Problem, start: Partition) -> Plan:
    """Return a plan whose layers, one after the other, begin with ``start`` or with what suits their inputs."""
    before, partition, layers = start[0], [start[0]], []
    for number, pruner in enumerate(problem.pruners):
        ends = problem.workers[number : number + 2]
        near = ends[1].assigned(-pruner.energies @ _members(before, len(ends[1])))
        found = [
            _alternated(pruner, ends, before, after, problem.epsilon, free=number == 0)
            for after in (near, start[number + 1])
        ]
        before, after, pruned = min(found, key=lambda one: (one[2].crossing, one[2].error))
        partition[-1:] = [before, after]
        layers.append(pruned)
        before = after
    return Plan(problem.network, tuple(partition), tuple(layers))


def _alternated(
    pruner: Pruner, workers: Sequence[Workers], before: IntArray, after: IntArray, epsilon: float, *, free: bool
) -> tuple[IntArray, IntArray, Pruned]:
    """Assign the outputs (and ``free`` inputs) and prune in turn until that gains nothing.

    With the penalty fixed, an activation costs the smaller of the penalty and its score, if it is not at home. This
    is concave in the scores. So the assignment to least cost of what is not sent now cannot make the sum larger.
    """
    count = len(workers[1])
    best = before, after, pruner.pruned(before, after, count, epsilon)
    while best[2].crossing:
        penalty = best[2].penalty
        absent = (pruner.scores(after, count) <= penalty) & ~_members(before, count)
        after = workers[1].assigned(pruner.energies @ absent)
        if free:
            before = workers[0].assigned(-np.minimum(penalty, pruner.scores(after, count)))
        pruned = pruner.pruned(before, after, count, epsilon)
        if pruned.crossing >= best[2].crossing:
            break
        best = before, after, pruned
    return best


def _members(owners: IntArray, workers: int) -> BoolArray:
    members: BoolArray = owners[:, None] == np.arange(workers)
    return members
