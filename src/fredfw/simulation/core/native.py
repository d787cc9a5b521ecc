"""Slots whose loops are the ones in C."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fredfw.simulation.core.compiled import checked, library
from fredfw.simulation.core.slots import ARRAYS, ASKED, SEQUENCE, Places, Slots
from fredfw.simulation.core.ways import Way
from fredfw.typing import FloatArray

# What the functions for messages and steps are asked for stands in the table: to write it there takes less than to give
# it as an argument.
_ORDER, _TICKET, _WAY, _VOLUME, _UNTIL, _DUE = range(ASKED, ASKED + 6)
_DELIVERY = np.dtype([("time", np.float64), ("order", np.int64), ("ticket", np.int64)])


class NativeSlots(Slots):
    """See ``Slots``; needs the package ``fredfw-compiled``."""

    # A heap, as far as ``deliveries`` says.
    _deliveries = np.empty(0, dtype=_DELIVERY)

    def bind(self) -> None:
        """See ``Slots.bind``."""
        super().bind()
        self._found = np.empty(len(self.volume), dtype=np.int32)
        self._found_address = self._found.ctypes.data
        # Each message that drains is going to be delivered, and others drain before it is.
        more = np.empty(2 * (self.deliveries + len(self.volume)), dtype=_DELIVERY)
        more[: self.deliveries] = self._deliveries[: self.deliveries]
        self._deliveries, self.delivery_room = more, len(more)
        arrays = [*(getattr(self, name) for name in ARRAYS), self._found, self._deliveries]
        self.table[-len(arrays) :] = [0 if array is None else array.ctypes.data for array in arrays]
        self._address = self.table.ctypes.data
        self._rates = np.empty(len(self.volume))
        self._rates_address = self._rates.ctypes.data
        code = library()
        assert code is not None  # else there are other slots
        self._code, self._put, self._step = code, code.put, code.step

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

    def put(self, way: Way, ticket: int, volume: float) -> bool:
        """See ``Slots.put``."""
        self.counts[_TICKET], self.counts[_WAY], self.times[_VOLUME] = ticket, way.address, volume
        there: bool = self._put(self._address) >= 0
        return there

    def step(self, until: float, time: float, order: int, sequence: int) -> int:
        """See ``Slots.step``."""
        counts, times = self.counts, self.times
        counts[_ORDER], counts[SEQUENCE], times[_UNTIL], times[_DUE] = order, sequence, until, time
        what: int = self._step(self._address)
        return what if what >= 0 else checked(what)

    def found(self) -> Places:
        """See ``Slots.found``."""
        return self._found[: self.drained].copy()

    def deliver(self, slot: int, order: int) -> None:
        """See ``Slots.deliver``."""
        self._code.deliver(self._address, slot, order)

    def withdraw_deliveries(self) -> list[tuple[float, int, int]]:
        """See ``Slots.withdraw_deliveries``."""
        taken: list[tuple[float, int, int]] = self._deliveries[: self.deliveries].tolist()
        self.deliveries, self.first_delivery = 0, math.inf
        return taken

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        rebound = {name for name in state if name.startswith("_")}  # addresses, and memory of the loops in C alone
        return {name: value for name, value in state.items() if name not in rebound}
