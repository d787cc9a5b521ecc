"""RePurpose: neurons rearranged over workers layer by layer, and pruned so that little crosses between workers.

Abdi, Rashidi, Fekri and Krishna, Efficient Distributed Inference of Deep Neural Networks via Restructuring and Pruning,
AAAI 2023 (arXiv 2008.08289); a bound on the error, and the penalty that exhausts it, replace their constants.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray
from fredfw_workload_repurpose.partition import Partition, Workers, components, contiguous, spectral
from fredfw_workload_repurpose.plan import Plan, Problem
from fredfw_workload_repurpose.pruning import Pruned, Pruner, Selection, members, sent

_GAIN = 1e-3  # least share of the activations that another round must save


def rearranged(problem: Problem) -> Plan:
    """Return the network rearranged and pruned: with as few activations between workers as the bound allows.

    Each layer begins with the best of several partitions: connected components, spectral clusters, the neurons' own
    order, and each output on the worker that holds most of its inputs. Assignment and pruning improve it in turn.
    ``InputError``: a limit on received activations makes a larger error than the bound.
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
        # Outputs on the workers that hold the most of what each reads.
        near = [(one, workers[1].assigned(-pruner.energies @ members(one, len(workers[1])))) for one in inputs]
        outputs = [start[number + 1] for start in starts]
        # The first layer may have the inputs and outputs of one start each.
        pairs = [*near, *zip(inputs * len(outputs) if number else inputs, outputs, strict=True)]
        count, epsilon = len(workers[1]), problem.epsilon
        found = [pruner.selected(before, after, count, epsilon) for before, after in pairs]
        best = _alternated(pruner, workers, min(found, key=_rank(epsilon)), epsilon, free=not number)
        partition[-1:] = [best.before, best.after]
        layers.append(pruner.pruned(best, epsilon))
    return Plan(problem.network, tuple(partition), tuple(layers))


def _alternated(pruner: Pruner, workers: Sequence[Workers], best: Selection, epsilon: float, free: bool) -> Selection:
    """Assign the outputs (and ``free`` inputs) and prune in turn until that gains next to nothing.

    With the penalty fixed, an activation costs the smaller of the penalty and its score, if it is not at home. This
    is concave in the scores. So the assignment to least cost of what is not sent now cannot make the sum larger.
    """
    count, rank = len(workers[1]), _rank(epsilon)
    while best.crossing:
        absent = (pruner.scores(best.after, count) <= best.penalty) & ~members(best.before, count)
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


def _rank(epsilon: float) -> Callable[[Selection], tuple[float, int]]:
    """Return what is to be small: an error above the bound, which a limit may cause, and then what is sent."""
    return lambda selection: (max(0.0, selection.error - epsilon), selection.crossing)


# What it is compared with: other partitions with the same pruning, and pruning by magnitude.


def in_order(problem: Problem) -> Plan:
    """Return the plan that leaves the neurons in their order and prunes as RePurpose does."""
    return partitioned(problem, contiguous(problem.network.widths, problem.workers))


def at_random(problem: Problem) -> Plan:
    """Return the plan of a random balanced partition, pruned as RePurpose does."""
    random = np.random.default_rng(problem.seed)
    ordered = contiguous(problem.network.widths, problem.workers)
    return partitioned(problem, tuple(random.permutation(one) for one in ordered))


def clustered(problem: Problem) -> Plan:
    """Return the plan of the spectral partition of the graph of all weights, pruned as RePurpose does."""
    energies = [pruner.energies for pruner in problem.pruners]
    return partitioned(problem, spectral(energies, problem.workers, problem.seed))


def partitioned(problem: Problem, partition: Partition) -> Plan:
    """Return the plan of a given partition, pruned as RePurpose does; raises as ``rearranged`` does."""
    layers, epsilon = [], problem.epsilon
    for pruner, ends, workers in zip(problem.pruners, pairwise(partition), problem.workers[1:], strict=True):
        layers.append(pruner.pruned(pruner.selected(*ends, len(workers), epsilon), epsilon))
    return Plan(problem.network, partition, tuple(layers))


def by_magnitude(problem: Problem, kept: Sequence[int] | None = None) -> Plan:
    """Return the plan that leaves the neurons in their order, without the smallest weights.

    It has ``kept`` weights in each layer, by default as few as keep the bound of the error. ``InputError``: there is a
    limit on received activations.
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
        crossing = sent(np.any(weights, axis=2), before, after, len(problem.workers[number + 1]))
        layers.append(Pruned(weights, crossing, pruner.error(weights)))
    return Plan(problem.network, partition, tuple(layers))


def _most(pruner: Pruner, order: IntArray, epsilon: float) -> int:
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
