"""What was, some steps ago: delayed signals."""

from __future__ import annotations

import numpy as np

from fredfw.typing import FloatArray, IntArray


class History:
    """Rows of numbers, one for each step; 0 for steps that had none.

    Args:
        width: Numbers in a row.
    """

    def __init__(self, width: int) -> None:
        self._rows = np.zeros((64, width))
        self._last = -1

    def put(self, step: int, row: FloatArray) -> None:
        """Say what the ``(width,)`` numbers are at ``step``, which is never less than before."""
        size = len(self._rows)
        if step - self._last > size:
            self._rows[:] = 0.0
        else:
            self._rows[np.arange(self._last + 1, step) % size] = 0.0
        self._rows[step % size] = row
        self._last = step

    def at(self, back: IntArray, columns: IntArray) -> FloatArray:
        """Return the ``(K,)`` numbers of ``columns``, each as many steps before the last as ``back`` says."""
        if len(back) and int(back.max()) >= len(self._rows):
            self._grow(int(back.max()) + 1)
        return self._rows[(self._last - back) % len(self._rows), columns]

    def select(self, columns: IntArray, fresh: FloatArray) -> None:
        """Keep ``columns``; add those of which all numbers are the ``fresh`` ones."""
        new = np.broadcast_to(fresh, (len(self._rows), len(fresh)))
        self._rows = np.concatenate([self._rows[:, columns], new], axis=1)

    def _grow(self, size: int) -> None:
        old, self._rows = self._rows, np.zeros((2 * size, self._rows.shape[1]))
        steps = np.arange(self._last - len(old) + 1, self._last + 1)
        self._rows[steps % len(self._rows)] = old[steps % len(old)]
