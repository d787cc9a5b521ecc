"""Slots whose loops are the ones in C."""

from __future__ import annotations

from typing import Any

import numpy as np

from fredfw.simulation.core.compiled import checked, library
from fredfw.simulation.core.slots import ARRAYS, Places, Slots
from fredfw.typing import FloatArray


class NativeSlots(Slots):
    """See ``Slots``; needs the package ``fredfw-compiled``."""

    def bind(self) -> None:
        """See ``Slots.bind``."""
        super().bind()
        arrays = (getattr(self, name) for name in ARRAYS)
        self.table[-len(ARRAYS) :] = [0 if array is None else array.ctypes.data for array in arrays]
        self._address = self.table.ctypes.data
        self._found = np.empty(len(self.volume), dtype=np.int32)
        self._found_address = self._found.ctypes.data
        self._rates = np.empty(len(self.volume))
        self._rates_address = self._rates.ctypes.data
        code = library()
        assert code is not None  # else there are other slots
        self._code = code

    def index(self) -> None:
        """See ``Slots.index``."""
        self._code.index(self._address)

    def assign(self, now: float, rates: FloatArray) -> float:
        """See ``Slots.assign``."""
        # To copy them takes less than to ask for their address.
        self._rates[: len(rates)] = rates
        first: float = self._code.assign(self._address, now, self._rates_address)
        return first

    def solve(self) -> tuple[FloatArray, int]:
        """See ``Slots.solve``."""
        passes = checked(self._code.solve(self._address, self._rates_address))
        return self._rates[: self.active].copy(), passes

    def settle(self, now: float) -> float:
        """See ``Slots.settle``."""
        first: float = self._code.settle(self._address, now)
        return checked(first)

    def take(self, time: float) -> Places:
        """See ``Slots.take``."""
        count = checked(self._code.take(self._address, time, self._found_address))
        return self._found[:count].copy() if count > 1 else self._found[:count]

    def drop(self, slots: Places) -> None:
        """See ``Slots.drop``."""
        self._found[: len(slots)] = slots
        checked(self._code.drop(self._address, self._found_address, len(slots)))

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        rebound = ("_address", "_code", "_found", "_found_address", "_rates", "_rates_address")
        return {name: value for name, value in state.items() if name not in rebound}
