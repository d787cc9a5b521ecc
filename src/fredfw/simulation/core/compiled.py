"""The hot loops in C, from the package ``fredfw-compiled``, where that is installed.

They do the same operations on the same numbers in the same order as the loops in Python, so that results are the same
to the last bit.
"""

from __future__ import annotations

import ctypes
import os
import warnings
import zlib
from ctypes import c_double, c_int64, c_void_p
from functools import cache
from pathlib import Path
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
        checksum: A file with its CRC-32, in hexadecimal digits.

    Raises:
        OSError: It cannot be loaded, or is damaged.
        AttributeError: It has other functions.
        ValueError: It is of another version.
    """

    def __init__(self, path: Path, checksum: Path) -> None:
        if f"{zlib.crc32(path.read_bytes()):08x}" != checksum.read_text("ascii").strip():
            raise OSError(f"{path} is damaged")
        code = ctypes.CDLL(str(path))
        table, number, real, array = c_void_p, c_int64, c_double, c_void_p
        code.fredfw_abi.restype = number
        if code.fredfw_abi() != ABI:
            raise ValueError(f"{path} is of another version")
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
    """Return the C code, or ``None`` where it is not installed, cannot be used, or is not to be used.

    ``FREDFW_COMPILED=0`` in the environment says that it is not to be used. One that is there and cannot be used is
    warned of, once.
    """
    if os.environ.get("FREDFW_COMPILED") == "0":
        return None
    try:
        import fredfw_compiled
    except ImportError:
        return None
    if not fredfw_compiled.PATH.exists():  # there was no compiler
        return None
    try:
        return Library(fredfw_compiled.PATH, fredfw_compiled.CHECKSUM)
    except (OSError, AttributeError, ValueError) as error:
        warnings.warn(
            f"fredfw-compiled cannot be used: {error}; loops in Python take its place, which are slower and have the "
            "same results; install it again",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
