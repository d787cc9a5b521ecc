"""The hot loops in C, from the package ``fredfw-compiled``, where that is installed.

They do the same operations on the same numbers in the same order as the loops in Python, so that results are the same
to the last bit.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_double, c_int64, c_void_p
from functools import cache
from typing import TypeVar

import numpy as np

from fredfw.typing import FloatArray, IntArray

# What the C code and this module have agreed on; a library that says otherwise is of another version.
ABI = 4
_NO_MEMORY = -2


_Number = TypeVar("_Number", int, float)


class Library:
    """The functions of the C code.

    Args:
        path: The shared library.

    Raises:
        OSError: There is none that can be loaded.
        AttributeError: It has other functions.
    """

    def __init__(self, path: str) -> None:
        code = ctypes.CDLL(path)
        table, number, real, array = c_void_p, c_int64, c_double, c_void_p
        code.fredfw_abi.restype = number
        self.abi = int(code.fredfw_abi())
        self._max_min = _function(code.fredfw_max_min, number, number, number, array, array, array, array, array)
        self.index = _function(code.fredfw_index, None, table)
        self.assign = _function(code.fredfw_assign, real, table, real, array)
        self.solve = _function(code.fredfw_solve, number, table, array)
        self.settle = _function(code.fredfw_settle, real, table, real)
        self.take = _function(code.fredfw_take, number, table, real, array)
        self.drop = _function(code.fredfw_drop, number, table, array, number)
        self.put = _function(code.fredfw_put, number, table)
        self.deliver = _function(code.fredfw_deliver, None, table, number, number)
        self.step = _function(code.fredfw_step, number, table)

    def max_min(
        self,
        offsets: IntArray,
        links: IntArray,
        coefficients: FloatArray | None,
        capacities: FloatArray,
        rates: FloatArray,
    ) -> int:
        """Set the ``rates``, which begin as the caps; see ``fill.max_min``. Return the number of passes."""
        offsets, links = (np.ascontiguousarray(one, dtype=np.int64) for one in (offsets, links))
        weights = None if coefficients is None else np.ascontiguousarray(coefficients)
        capacities = np.ascontiguousarray(capacities)
        passes: int = self._max_min(
            len(offsets) - 1,
            len(capacities),
            offsets.ctypes.data,
            links.ctypes.data,
            None if weights is None else weights.ctypes.data,
            capacities.ctypes.data,
            rates.ctypes.data,
        )
        return checked(passes)


def _function(function: ctypes._NamedFuncPointer, result: type | None, *arguments: type) -> ctypes._NamedFuncPointer:
    function.restype, function.argtypes = result, list(arguments)
    return function


def checked(result: _Number) -> _Number:
    """Return what a function returned; raises ``MemoryError`` where it got no memory."""
    if result == _NO_MEMORY:
        raise MemoryError("the flow table got no memory for a solve")
    return result


@cache
def library() -> Library | None:
    """Return the C code, or ``None`` where it is not installed, is of another version, or is not to be used.

    ``FREDFW_COMPILED=0`` in the environment says that it is not to be used.
    """
    if os.environ.get("FREDFW_COMPILED") == "0":
        return None
    try:
        from fredfw_compiled import PATH

        found = Library(str(PATH))
    except (ImportError, OSError, AttributeError):
        return None
    return found if found.abi == ABI else None
