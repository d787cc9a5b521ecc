"""Where things are on a mesh: shared by what builds the links and what chooses them."""

from __future__ import annotations

import numpy as np

from fredfw.typing import BoolArray, IntArray


def perimeter(rows: int, columns: int) -> tuple[IntArray, BoolArray]:
    """Return the edge slots, clockwise from the top left: top, right, bottom and left edge.

    Returns:
        ``(2 * (rows + columns),)`` grid position (row * columns + column) of each slot's NPU, and whether the slot is
        at the end of a column (top or bottom edge) instead of a row.
    """
    grid = np.arange(rows * columns).reshape(rows, columns)
    edges = [grid[0], grid[:, -1], grid[-1, ::-1], grid[::-1, 0]]
    return np.concatenate(edges), np.repeat([True, False, True, False], [columns, rows, columns, rows])
