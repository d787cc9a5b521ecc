"""Fits constants: the values with the least error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fredfw.typing import FloatArray

_SIZES = 0.5, -0.2, 0.1, -0.05


def least(error: Callable[[FloatArray], float], start: FloatArray) -> FloatArray:
    """Return the ``(n,)`` values near ``start`` where ``error`` is least; it is infinite for those that may not be.

    By the simplex method of Nelder and Mead (The Computer Journal 7, 1965), four times with a smaller simplex each.
    """
    factors = np.ones(len(start))
    for size in _SIZES:
        factors = _simplex(lambda one: error(start * one), factors, size)
    return start * factors


def _simplex(error: Callable[[FloatArray], float], start: FloatArray, size: float) -> FloatArray:
    corners = [start, *(start * (1 + size * one) for one in np.eye(len(start)))]
    values = [error(one) for one in corners]
    for _ in range(100 * len(start)):
        order = np.argsort(values, kind="stable")
        corners, values = [corners[one] for one in order], [values[one] for one in order]
        if values[-1] - values[0] < 1e-6:
            break
        middle = np.mean(corners[:-1], axis=0)
        step = middle - corners[-1]
        tried, value = middle + step, error(middle + step)
        if value < values[0]:
            further = error(middle + 2 * step)
            tried, value = (middle + 2 * step, further) if further < value else (tried, value)
        elif value >= values[-2]:
            tried, value = middle - 0.5 * step, error(middle - 0.5 * step)
            if value >= values[-1]:
                corners = [corners[0], *((corners[0] + one) / 2 for one in corners[1:])]
                values = [values[0], *(error(one) for one in corners[1:])]
                continue
        corners[-1], values[-1] = tried, value
    return corners[int(np.argmin(values))]
