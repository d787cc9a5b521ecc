"""Where things are on a torus: shared by what builds the links and what chooses them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fredfw.typing import IntArray


def neighbours(sizes: Sequence[int], dimension: int, step: int) -> IntArray:
    """Return for each position the one that is ``step`` further along ``dimension``, round the ring.

    Positions are numbered with the first dimension fastest.
    """
    grid = np.arange(np.prod(sizes)).reshape(sizes[::-1])
    return np.roll(grid, -step, axis=len(sizes) - 1 - dimension).ravel()
