"""RePurpose: neurons rearranged over workers layer by layer, and pruned so that little crosses between workers.

Abdi, Rashidi, Fekri and Krishna, Efficient Distributed Inference of Deep Neural Networks via Restructuring and Pruning,
AAAI 2023 (arXiv 2008.08289). The alternation of assignment and l0 thresholding is theirs. The bound on the error, and
the penalty that exhausts it, take the place of their constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fredfw.typing import BoolArray, IntArray
from fredfw_workload_repurpose.partition import Workers
from fredfw_workload_repurpose.plan import Plan
from fredfw_workload_repurpose.problem import Problem
from fredfw_workload_repurpose.pruning import Pruner, Selection
from fredfw_workload_repurpose.starts import components, contiguous, spectral

_GAIN = 1e-3
"""Least share of the activations that another round must save."""


def rearranged(problem: Problem) -> Plan:
    """Return the network rearranged and pruned: with as few activations between workers as the bound allows.

    Each layer begins with the best of several partitions: connected components, spectral clusters, the neurons' own
    order, and each output on the worker that holds most of its inputs. Assignment and pruning improve it in turn.

    Raises:
        InputError: A limit on received activations makes a larger error than the bound.
    """
    energies = [pruner.energies for pruner in problem.pruners]
    known = (
        components(energies, problem.workers),
        spectral(energies, problem.workers, problem.seed),
        contiguous(problem.network.widths, problem.workers),
    )
    starts = [start for start in known if start is not None]
    partition: list[IntArray] = []
    layers = []
    for number, pruner in enumerate(problem.pruners):
        workers = problem.workers[number : number + 2]
        inputs = partition[-1:] or [start[0] for start in starts]
        near = [(before, _nearest(pruner, before, workers[1])) for before in inputs]
        outputs = [start[number + 1] for start in starts]
        # The first layer may have the inputs and outputs of one start each.
        pairs = [*near, *zip(inputs * len(outputs) if number else inputs, outputs, strict=True)]
        count, epsilon = len(workers[1]), problem.epsilon
        found = [pruner.selected(before, after, count, epsilon) for before, after in pairs]
        best = _alternated(pruner, workers, min(found, key=_rank(epsilon)), epsilon, free=not number)
        partition[-1:] = [best.before, best.after]
        layers.append(pruner.pruned(best, epsilon))
    return Plan(problem.network, tuple(partition), tuple(layers))


def _alternated(
    pruner: Pruner, workers: Sequence[Workers], best: Selection, epsilon: float, *, free: bool
) -> Selection:
    """Assign the outputs (and ``free`` inputs) and prune in turn until that gains next to nothing.

    With the penalty fixed, an activation costs the smaller of the penalty and its score, if it is not at home. This
    is concave in the scores. So the assignment to least cost of what is not sent now cannot make the sum larger.
    """
    count, rank = len(workers[1]), _rank(epsilon)
    while best.crossing:
        absent = (pruner.scores(best.after, count) <= best.penalty) & ~_members(best.before, count)
        before, after = best.before, workers[1].assigned(pruner.energies @ absent)
        if free:
            before = workers[0].assigned(-np.minimum(best.penalty, pruner.scores(after, count)))
        selection = pruner.selected(before, after, count, epsilon)
        if rank(selection) >= rank(best):
            break
        gain, best = best.crossing - selection.crossing, selection
        if best.error <= epsilon and gain < _GAIN * best.crossing:
            break
    return best


def _nearest(pruner: Pruner, before: IntArray, workers: Workers) -> IntArray:
    """Return the workers of the outputs that hold the most of what each reads."""
    return workers.assigned(-pruner.energies @ _members(before, len(workers)))


def _rank(epsilon: float) -> Callable[[Selection], tuple[float, int]]:
    """Return what is to be small: an error above the bound, which a limit may cause, and then what is sent."""
    return lambda selection: (max(0.0, selection.error - epsilon), selection.crossing)


def _members(owners: IntArray, workers: int) -> BoolArray:
    members: BoolArray = owners[:, None] == np.arange(workers)
    return members
