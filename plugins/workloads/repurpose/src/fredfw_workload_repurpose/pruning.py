"""Which activations may stay where they are: l0 thresholding with a bounded error, and one refit of what is kept."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from attrs import field, frozen
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from fredfw.errors import FredfwError, InputError
from fredfw.typing import BoolArray, FloatArray, IntArray

DAMPING = 1e-3
_ROUNDING = 1e-9


@frozen(eq=False)
class Moments:
    """Second moments of what a layer reads: how much a change of its weights changes its outputs.

    Args:
        gram: ``(inputs x taps, inputs x taps)`` mean of the products of each two activations.
        damping: What is added to its diagonal, relative to the mean of that: rare activations are in few samples.
    """

    gram: FloatArray
    damping: float = field(default=DAMPING)

    @classmethod
    def of(cls, inputs: FloatArray, damping: float = DAMPING) -> Moments:
        """Return the moments of ``(samples, inputs, taps)`` activations."""
        columns = inputs.reshape(len(inputs), -1)
        return cls(columns.T @ columns / len(columns), damping)

    @cached_property
    def inverse(self) -> FloatArray:
        """Inverse of the damped moments."""
        size = len(self.gram)
        # Where nothing is ever read, any number will do.
        added = self.damping * float(np.trace(self.gram)) / size or 1.0
        inverse: FloatArray = cho_solve(cho_factor(self.gram + added * np.eye(size)), np.eye(size))
        return inverse


@frozen(eq=False)
class Pruned:
    """A layer on its workers, without the weights of activations that are not sent.

    Args:
        weights: ``(outputs, inputs, taps)`` weights that are kept, refitted.
        sent: ``(inputs, workers)`` whether the activation is sent to the worker, which does not hold it.
        error: Norm of the change of the outputs, relative to that of the outputs.
        penalty: The lambda: the largest score among what was dropped; see ``Pruner``.
    """

    weights: FloatArray
    sent: BoolArray
    error: float
    penalty: float

    @property
    def crossing(self) -> int:
        """Activations that are sent, one for each worker that gets it."""
        return int(self.sent.sum())


def sent(weights: FloatArray, before: IntArray, after: IntArray, workers: int) -> BoolArray:
    """Return ``(inputs, workers)`` whether an activation goes to a worker that does not hold it.

    Args:
        weights: ``(outputs, inputs, taps)`` weights.
        before: ``(inputs,)`` worker of each input.
        after: ``(outputs,)`` worker of each output.
        workers: Workers of the outputs.
    """
    used = weights.any(axis=2).T.astype(float) @ (after[:, None] == np.arange(workers))
    crossing: BoolArray = (used > 0) & (before[:, None] != np.arange(workers))
    return crossing


@frozen(eq=False)
class Pruner:
    """Prunes one layer, for any partition of its neurons.

    A unit is what is kept or dropped as one: the weights between an input and all outputs of a worker (a pair), or
    those between an input and one output. Its score is the least change of the outputs if it alone is dropped and all
    other weights are refitted (Hassibi and Stork, Optimal Brain Surgeon, 1992). Units whose score is at most the
    penalty are dropped. Then what is kept is refitted, once for each worker (or output).

    Args:
        weights: ``(outputs, inputs, taps)`` weights.
        moments: Of what the layer reads; without, the change of a weight is the change of the outputs.
        each: Whether a unit is one weight (with its taps).
        received: Most activations that a worker may get from others; ``None`` is no limit.
    """

    weights: FloatArray
    moments: Moments | None = field(default=None)
    each: bool = field(default=False)
    received: int | None = field(default=None)

    @cached_property
    def energies(self) -> FloatArray:
        """``(outputs, inputs)`` change of an output without an input, as a share of the energy of all outputs."""
        if self.moments is None:
            changes = np.einsum("jit,jit->ji", self.weights, self.weights)
        else:
            taps, inverse = self.weights.shape[2], self.moments.inverse
            inputs = self.weights.shape[1]
            own = inverse.reshape(inputs, taps, inputs, taps)[np.arange(inputs), :, np.arange(inputs)]
            changes = np.einsum("jit,its,jis->ji", self.weights, np.linalg.inv(own), self.weights)
        scaled: FloatArray = changes / (self.energy or 1.0)
        return scaled

    @cached_property
    def energy(self) -> float:
        """Sum of the squares of the outputs."""
        return self._squares(self.weights)

    def error(self, weights: FloatArray) -> float:
        """Return the norm of the change of the outputs, relative to that of the outputs, with other ``weights``."""
        change = self._squares(self.weights - weights)
        return math.sqrt(change / self.energy) if self.energy else math.sqrt(change)

    def _squares(self, weights: FloatArray) -> float:
        rows = weights.reshape(len(weights), -1)
        return float(np.vdot(rows, rows if self.moments is None else rows @ self.moments.gram))

    def scores(self, after: IntArray, workers: int) -> FloatArray:
        """Return ``(inputs, workers)`` scores of the pairs, for the ``(outputs,)`` workers of the outputs."""
        members = (after[:, None] == np.arange(workers)).astype(float)
        scores: FloatArray = self.energies.T @ members
        return scores

    def pruned(self, before: IntArray, after: IntArray, workers: int, epsilon: float) -> Pruned:
        """Return the layer with as few units between workers as a relative error of ``epsilon`` allows.

        Args:
            before: ``(inputs,)`` worker of each input.
            after: ``(outputs,)`` worker of each output.
            workers: How many there are; the inputs may be on more.
            epsilon: The bound.

        Raises:
            InputError: A limit of ``received`` makes a larger error.
        """
        rows = np.arange(len(after)) if self.each else after
        homes = after if self.each else np.arange(workers)
        scores = self.energies if self.each else self.scores(after, workers).T
        chains = [self._chain(rows == unit, before != home, scores[unit]) for unit, home in enumerate(homes)]
        units = np.repeat(np.arange(len(chains)), [len(chain.inputs) for chain in chains])
        steps = np.concatenate([chain.steps for chain in chains])
        costs = np.concatenate([scores[unit][chain.inputs] for unit, chain in enumerate(chains)])
        forced = np.concatenate([np.arange(len(chain.inputs)) < self._forced(chain) for chain in chains])
        order = np.lexsort((costs, ~forced))
        errors = np.cumsum(steps[order])
        count = int(np.searchsorted(errors, epsilon**2, side="right"))
        if count < forced.sum():
            raise InputError(
                f"{self.received} activations leave an error of {math.sqrt(errors[forced.sum() - 1]):.3g}",
                key="received",
                accepted=f"more, for an error of at most epsilon = {epsilon:g}",
            )
        dropped = np.bincount(units[order[:count]], minlength=len(chains))
        weights = self.weights.copy()
        for unit, chain in enumerate(chains):
            weights[rows == unit] = chain.refitted(weights[rows == unit], int(dropped[unit]))
        error = self.error(weights)
        if error > epsilon + _ROUNDING:
            raise FredfwError(f"the error of a layer is {error:.6g}, above its bound {epsilon:g}")
        penalty = float(costs[order[count - 1]]) if count else 0.0
        return Pruned(weights, sent(weights, before, after, workers), error, penalty)

    def _forced(self, chain: _Chain) -> int:
        """Return how many units must be dropped, whatever the error."""
        return 0 if self.received is None else max(0, len(chain.inputs) - self.received)

    def _chain(self, rows: BoolArray, foreign: BoolArray, scores: FloatArray) -> _Chain:
        inputs = np.flatnonzero(foreign)
        inputs = inputs[np.argsort(scores[inputs], kind="stable")]
        if self.moments is None:
            return _Chain(inputs, scores[inputs])
        taps = self.weights.shape[2]
        columns = (inputs[:, None] * taps + np.arange(taps)).ravel()
        factor = cholesky(self.moments.inverse[np.ix_(columns, columns)], lower=True)
        weights = self.weights[rows].reshape(int(rows.sum()), -1)[:, columns]
        solved = solve_triangular(factor, weights.T, lower=True)
        steps = np.einsum("cr,cr->c", solved, solved).reshape(-1, taps).sum(axis=1) / (self.energy or 1.0)
        return _Chain(inputs, steps, self.moments, factor, solved)


@frozen(eq=False)
class _Chain:
    """The units that a worker can do without, the least important first.

    The error of the first ``d`` of them, with all other weights refitted, is ``w (H_dd)^-1 w^T`` with the inverse ``H``
    of the moments: so each adds the square of its row of ``L^-1 w^T``, with the Cholesky factor ``L`` of ``H``.

    Args:
        inputs: ``(units,)`` their inputs.
        steps: ``(units,)`` error that each adds, as a share of the energy of all outputs.
        moments: Of what the layer reads.
        factor: ``(units x taps, units x taps)`` the factor.
        solved: ``(units x taps, outputs)`` the solution.
    """

    inputs: IntArray
    steps: FloatArray
    moments: Moments | None = None
    factor: FloatArray | None = None
    solved: FloatArray | None = None

    def refitted(self, weights: FloatArray, count: int) -> FloatArray:
        """Return ``(outputs, inputs, taps)`` weights without the first ``count`` units, the others refitted."""
        dropped = self.inputs[:count]
        if self.moments is None or self.factor is None or self.solved is None:
            weights[:, dropped] = 0
            return weights
        taps = weights.shape[2]
        size = count * taps
        columns = (dropped[:, None] * taps + np.arange(taps)).ravel()
        shares = solve_triangular(self.factor[:size, :size].T, self.solved[:size], lower=False)
        fitted: FloatArray = weights - (self.moments.inverse[:, columns] @ shares).T.reshape(weights.shape)
        fitted[:, dropped] = 0
        return fitted
