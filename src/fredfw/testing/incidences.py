"""Flows in another order."""

from __future__ import annotations

import numpy as np

from fredfw.simulation import Incidence
from fredfw.typing import IntArray


def permuted(incidence: Incidence, order: IntArray) -> Incidence:
    """Return the flows in ``(F,)`` ``order``."""
    pairs = np.concatenate([np.arange(incidence.offsets[one], incidence.offsets[one + 1]) for one in order])
    return Incidence(
        np.concatenate([[0], np.cumsum(np.diff(incidence.offsets)[order])]).astype(np.intp),
        incidence.links[pairs],
        None if incidence.coefficients is None else incidence.coefficients[pairs],
        None if incidence.caps is None else incidence.caps[order],
        incidence.priorities[order],
        None if incidence.weights is None else incidence.weights[order],
    )
