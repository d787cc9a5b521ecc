"""Which activations may stay where they are: l0 thresholding with a bounded error, and one refit of what is kept."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import scipy  # its parts load when they are used
from attrs import field, frozen

from fredfw.errors import FredfwError, InputError
from fredfw.typing import BoolArray, FloatArray, IntArray

DAMPING = 1e-3
_ROUNDING = 1e-9


@frozen(eq=False)
class Moments:
    """Second moments of what a layer reads: how much a change of its weights changes its outputs."""

    gram: FloatArray  # `(inputs x taps, inputs x taps)` mean of the products of each two activations
    # what is added to its diagonal, relative to the mean of that: rare activations are in few samples
    damping: float = field(default=DAMPING)

    @classmethod
    def of(cls, inputs: FloatArray, damping: float = DAMPING) -> Moments:
        """Return the moments of ``(samples, inputs, taps)`` activations."""
        columns = inputs.reshape(len(inputs), -1)
        return cls(columns.T @ columns / len(columns), damping)

    @cached_property
    def inverse(self) -> FloatArray:
        size = len(self.gram)
        # Where nothing is ever read, any number will do.
        added = self.damping * float(np.trace(self.gram)) / size or 1.0
        factor = scipy.linalg.cho_factor(self.gram + added * np.eye(size))
        inverse: FloatArray = scipy.linalg.cho_solve(factor, np.eye(size))
        return inverse


@frozen(eq=False)
class Pruned:
    """A layer on its workers, without the weights of activations that are not sent."""

    weights: FloatArray  # `(outputs, inputs, taps)` weights that are kept, refitted
    sent: BoolArray  # `(inputs, workers)` whether the activation is sent to the worker, which does not hold it
    error: float  # norm of the change of the outputs, relative to that of the outputs

    @property
    def crossing(self) -> int:
        return int(self.sent.sum())


def members(owners: IntArray, workers: int) -> BoolArray:
    """Return ``(neurons, workers)`` whether a worker holds a neuron, of ``(neurons,)`` workers of each."""
    held: BoolArray = owners[:, None] == np.arange(workers)
    return held


def sent(kept: BoolArray, before: IntArray, after: IntArray, workers: int) -> BoolArray:
    """Return ``(inputs, workers)`` whether ``(outputs, inputs)`` ``kept`` needs an input that a worker has not."""
    return (kept.T.astype(float) @ members(after, workers) > 0) & ~members(before, workers)


@frozen(eq=False)
class Selection:
    """What is kept of a layer between workers."""

    before: IntArray  # `(inputs,)` worker of each input
    after: IntArray  # `(outputs,)` worker of each output
    kept: BoolArray  # `(workers or outputs, inputs)` whether a unit between workers is kept; see `Pruner`
    sent: BoolArray  # `(inputs, workers)` whether the activation is sent to the worker
    penalty: float  # the lambda: the largest score among what was dropped; see `Pruner`
    error: float  # of the outputs, at most: the damping of the moments is in it

    @property
    def crossing(self) -> int:
        return int(self.sent.sum())


@frozen(eq=False)
class Pruner:
    """Prunes one layer, for any partition of its neurons.

    A unit is what is kept or dropped as one: the weights between an input and all outputs of a worker (a pair), or
    those between an input and one output. Its score is the least change of the outputs if it alone is dropped and all
    other weights are refitted (Hassibi and Stork, Optimal Brain Surgeon, 1992). Units whose score is at most the
    penalty are dropped. Then what is kept is refitted, once for each worker (or output).
    """

    weights: FloatArray  # `(outputs, inputs, taps)` weights
    # of what the layer reads; without, the change of a weight is the change of the outputs
    moments: Moments | None = field(default=None)
    each: bool = field(default=False)  # whether a unit is one weight (with its taps)
    # most activations that a worker may get from others; `None` is no limit
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
        scores: FloatArray = self.energies.T @ members(after, workers)
        return scores

    def selected(self, before: IntArray, after: IntArray, workers: int, epsilon: float) -> Selection:
        """Return as few units between workers as ``epsilon`` and ``received`` allow; inputs may have more workers."""
        homes = after if self.each else np.arange(workers)
        scores = self.energies if self.each else self.scores(after, workers).T
        units, inputs, steps, forced = [], [], [], []
        for unit, home in enumerate(homes):
            foreign = np.flatnonzero(before != home)
            foreign = foreign[np.argsort(scores[unit, foreign], kind="stable")]
            units.append(np.full(len(foreign), unit))
            inputs.append(foreign)
            steps.append(self._steps(self._rows(after, unit), foreign, scores[unit]))
            surplus = 0 if self.received is None else len(foreign) - self.received  # to drop, whatever the error
            forced.append(np.arange(len(foreign)) < surplus)
        places = np.concatenate(units), np.concatenate(inputs)
        costs, must = scores[places], np.concatenate(forced)
        order = np.lexsort((costs, ~must))
        errors = np.cumsum(np.concatenate(steps)[order])
        count = max(int(np.searchsorted(errors, epsilon**2, side="right")), int(must.sum()))
        kept = np.zeros(scores.shape, dtype=bool)
        kept[places[0][order[count:]], places[1][order[count:]]] = True
        crossing = sent(kept, before, after, workers) if self.each else kept.T
        penalty, error = (costs[order[:count]].max(), math.sqrt(errors[count - 1])) if count else (0.0, 0.0)
        return Selection(before, after, kept, crossing, float(penalty), error)

    def pruned(self, selection: Selection, epsilon: float) -> Pruned:
        """Return the layer with the units of ``selection`` alone between workers, refitted."""
        if selection.error > epsilon and self.received is not None:
            message = f"{self.received} activations leave an error of {selection.error:.3g}"
            raise InputError(message, key="received", accepted=f"more, for an error of at most epsilon = {epsilon:g}")
        weights = self.weights.copy()
        for unit, home in enumerate(selection.after if self.each else np.arange(selection.sent.shape[1])):
            dropped = np.flatnonzero((selection.before != home) & ~selection.kept[unit])
            rows = self._rows(selection.after, unit)
            weights[rows] = self._refitted(weights[rows], dropped)
        error = self.error(weights)
        if error > epsilon + _ROUNDING:
            raise FredfwError(f"the error of a layer is {error:.6g}, above its bound {epsilon:g}")
        return Pruned(weights, selection.sent, error)

    def _rows(self, after: IntArray, unit: int) -> IntArray:
        return np.array([unit]) if self.each else np.flatnonzero(after == unit)

    def _steps(self, rows: IntArray, inputs: IntArray, scores: FloatArray) -> FloatArray:
        """Return the error that each of ``inputs`` adds, as a share of the energy of all outputs, dropped in turn.

        The error of dropped weights ``w``, with all others refitted, is ``w (H_dd)^-1 w^T`` with the inverse ``H`` of
        the moments. So each adds the square of its row of ``L^-1 w^T``, with the Cholesky factor ``L`` of ``H_dd``.
        """
        if self.moments is None or not len(inputs):
            return scores[inputs]
        taps = self.weights.shape[2]
        columns = _columns(inputs, taps)
        factor = scipy.linalg.cholesky(self.moments.inverse[np.ix_(columns, columns)], lower=True)
        weights = self.weights[rows].reshape(len(rows), -1)[:, columns]
        solved = scipy.linalg.solve_triangular(factor, weights.T, lower=True)
        steps: FloatArray = np.einsum("cr,cr->c", solved, solved).reshape(-1, taps).sum(axis=1)
        return steps / (self.energy or 1.0)

    def _refitted(self, weights: FloatArray, dropped: IntArray) -> FloatArray:
        """Return ``(rows, inputs, taps)`` weights without the inputs ``dropped``, the others refitted."""
        if self.moments is not None and len(dropped):
            columns = _columns(dropped, weights.shape[2])
            inverse, rows = self.moments.inverse, weights.reshape(len(weights), -1)
            factor = scipy.linalg.cho_factor(inverse[np.ix_(columns, columns)])
            shares = scipy.linalg.cho_solve(factor, rows[:, columns].T)
            weights -= (inverse[:, columns] @ shares).T.reshape(weights.shape)
        weights[:, dropped] = 0
        return weights


def _columns(inputs: IntArray, taps: int) -> IntArray:
    return (inputs[:, None] * taps + np.arange(taps)).ravel()
