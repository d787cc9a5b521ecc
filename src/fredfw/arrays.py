"""Numbers that callers give, alone or in arrays, lists or anything else."""

from collections.abc import Sequence
from numbers import Real
from typing import Any, TypeGuard

import numpy as np

from fredfw.errors import InputError
from fredfw.typing import AnyArray, FloatArray, IntArray

_LARGEST = np.iinfo(np.intp).max


def is_whole(value: object) -> TypeGuard[int]:
    return type(value) is int or isinstance(value, int | np.integer)  # what is mostly given costs the least


def is_real(value: object) -> TypeGuard[float]:
    return type(value) is float or isinstance(value, Real)


def count(key: str, value: object) -> int:
    """Return ``value`` where it is a whole number of at least 1; raises ``InputError`` with ``key``."""
    if not is_whole(value) or value < 1:
        raise InputError(f"{value!r} is refused", key=key, accepted="a whole number of at least 1")
    return int(value)


def whole(values: Any) -> IntArray | None:
    """Return ``values`` as an array of their shape, or ``None`` where they are not all whole numbers: 1.0 is none."""
    if isinstance(values, np.ndarray) and values.dtype == np.intp:
        return np.asarray(values, order="C")
    array = _array(values)
    if array is None or (array.size and array.dtype.kind not in "iub"):
        return None
    if array.dtype.kind == "u" and array.size and array.max() > _LARGEST:
        return None
    return np.asarray(array, dtype=np.intp, order="C")


def real(values: Any) -> FloatArray | None:
    """Return ``values`` as an array of the same shape, or ``None`` where they are not all real numbers."""
    array = _array(values)
    if array is None or array.dtype.kind not in "iuf":
        return None
    return np.asarray(array, dtype=float, order="C")


def offsets(counts: IntArray | Sequence[int]) -> IntArray:
    """Return 0 and the running totals of ``counts``."""
    found = np.zeros(len(counts) + 1, dtype=np.intp)
    np.cumsum(counts, out=found[1:])
    return found


def totals(groups: AnyArray, amounts: AnyArray, count: int) -> FloatArray:
    """Return the sum of the ``(n,)`` amounts in each of ``count`` groups, of which each amount is in one."""
    # NumPy counts in integers where there is nothing to add up, and its stub knows nothing else.
    return np.bincount(groups, amounts, count).astype(np.float64, copy=False)


def starts(*keys: AnyArray) -> IntArray:
    """Return where runs of equal ``(n,)`` values begin."""
    differs = np.zeros(len(keys[0]), dtype=bool)
    differs[:1] = True
    for key in keys:
        differs[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(differs)


def ranges(first: IntArray, counts: IntArray) -> IntArray:
    """Return ``first[i], first[i] + 1, ...``, ``counts[i]`` numbers for each ``i``, one after the other."""
    total = np.cumsum(counts)
    return np.repeat(first - total + counts, counts) + np.arange(total[-1] if len(total) else 0)


def rows_of(offsets: IntArray, values: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return ``values[offsets[r]:offsets[r + 1]]`` of all ``rows``, one after the other, and how many each has."""
    counts = offsets[rows + 1] - offsets[rows]
    return values[ranges(offsets[rows], counts)], counts


def reduced(ufunc: np.ufunc, values: AnyArray, offsets: IntArray, default: float) -> AnyArray:
    """Return what ``ufunc`` makes of ``values[offsets[i]:offsets[i + 1]]`` for each ``i``; ``default`` of no values."""
    found = np.full(len(offsets) - 1, default, dtype=values.dtype)
    used = offsets[1:] > offsets[:-1]
    if used.any():
        found[used] = ufunc.reduceat(values, offsets[:-1][used])
    return found


def _array(values: Any) -> AnyArray | None:
    try:
        return np.asarray(values)
    except ValueError:  # rows of different lengths
        return None
