"""Which wavelength is in use on which link, in one simulation, and what is still set up from before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from attrs import frozen

from fredfw.typing import BoolArray, IntArray
from fredfw_topology_optical_ring.circuits import Circuits


@frozen(eq=False)
class Assignment:
    """``C`` circuits, the ``(C, stripes)`` wavelengths of each, and numbers of all pairs of link and wavelength."""

    circuits: Circuits
    lanes: IntArray
    cells: IntArray

    @cached_property
    def stripes(self) -> int:
        """Wavelengths of each circuit."""
        return int(self.lanes.shape[1])

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Direction and wavelength of each pair of these that occurs, once."""
        width = int(self.lanes.max()) + 1
        return np.divmod(np.unique(self.circuits.direction[:, None] * width + self.lanes), width)


class Spectrum:
    """The wavelengths on the links of one ring; ``load`` is the ``(2 * nodes,)`` circuits on each link."""

    def __init__(self, nodes: int, lanes: int) -> None:
        self.load = np.zeros(2 * nodes, dtype=np.intp)
        self._lanes = lanes
        # How many assignments have a wavelength, anywhere; and whether it is in use, link by link.
        self._users = np.zeros((2, lanes), dtype=np.intp)
        self._busy = np.zeros((2 * nodes, lanes), dtype=bool)
        # What was set up last on each wavelength of each link, by a number; and that which is whole, by its arcs.
        self._latest = np.zeros(2 * nodes * lanes, dtype=np.int32)
        self._count = 0
        self._alone: dict[Circuits, Assignment] = {}  # what circuits get where nothing else runs
        self._whole: dict[bytes, tuple[int, Assignment]] = {}

    @property
    def used(self) -> int:
        """Different wavelengths in use, in the direction that uses more of them."""
        return int((self._users > 0).sum(axis=1).max())

    def find(self, circuits: Circuits, *, stripe: bool) -> Assignment | None:
        """Return wavelengths for ``circuits`` that are free, as low as possible, or ``None`` if there are too few.

        With ``stripe`` they get as many wavelengths each, all the same number, as there are for all.
        """
        if self.load.any():
            lanes = self._lanes_beside_others(circuits, stripe=stripe)
            return None if lanes is None else self._assignment(circuits, lanes)
        if circuits not in self._alone:
            lanes = _by_colour(circuits, [np.arange(self._lanes)] * 2, stripe=stripe)
            self._alone[circuits] = self._assignment(circuits, lanes)
        return self._alone[circuits]

    def standing(self, circuits: Circuits) -> Assignment | None:
        """Return the wavelengths on which the same arcs are still set up and not in use, if they are."""
        _, known = self._whole.get(circuits.key, (0, None))
        return None if known is None or self._flat[known.cells].any() else known

    def set_up(self, assignment: Assignment) -> None:
        """Note that ``assignment`` is set up, and that all it takes a wavelength from no longer is."""
        lost = set(np.unique(self._latest[assignment.cells]).tolist())
        self._whole = {key: one for key, one in self._whole.items() if one[0] not in lost}
        self._count += 1
        self._latest[assignment.cells] = self._count
        self._whole[assignment.circuits.key] = self._count, assignment

    def take(self, assignment: Assignment) -> None:
        """Use the wavelengths of ``assignment``."""
        self._flat[assignment.cells] = True
        self._users[assignment.pairs] += 1
        self.load += assignment.circuits.load

    def free(self, assignment: Assignment) -> None:
        """Use them no longer."""
        self._flat[assignment.cells] = False
        self._users[assignment.pairs] -= 1
        self.load -= assignment.circuits.load

    @property
    def _flat(self) -> BoolArray:
        return self._busy.reshape(-1)

    def _lanes_beside_others(self, circuits: Circuits, *, stripe: bool) -> IntArray | None:
        # Of each direction, those that are free on all links that the circuits use.
        both = zip(np.split(circuits.load > 0, 2), np.split(self._busy, 2), strict=True)
        free = [np.flatnonzero(~np.logical_or.reduce(busy[links])) for links, busy in both]
        enough = all(len(lanes) >= count for lanes, count in zip(free, circuits.colours, strict=True))
        return _by_colour(circuits, free, stripe=stripe) if enough else self._first_fit(circuits)

    def _first_fit(self, circuits: Circuits) -> IntArray | None:
        """Return the ``(C, 1)`` lowest wavelengths that are free, in the order in which the arcs begin."""
        busy, routes = self._busy.copy(), circuits.routes
        lanes = np.empty((len(circuits), 1), dtype=np.intp)
        for one in np.lexsort((circuits.start, circuits.direction)).tolist():
            links = routes.links_of(circuits.flows[one : one + 1])
            taken: BoolArray = np.logical_or.reduce(busy[links])
            lane = int(taken.argmin())
            if taken[lane]:
                return None
            busy[links, lane] = True
            lanes[one] = lane
        return lanes

    def _assignment(self, circuits: Circuits, lanes: IntArray) -> Assignment:
        cells = (circuits.routes.links * self._lanes)[:, None] + lanes[circuits.circuit]
        return Assignment(circuits, lanes, cells.ravel())


def _by_colour(circuits: Circuits, free: Sequence[IntArray], *, stripe: bool) -> IntArray:
    """Return the ``(C, stripes)`` wavelengths of each colour; of each direction's ``free`` ones there are enough."""
    needed = circuits.colours.tolist()
    most = min(len(lanes) // count for lanes, count in zip(free, needed, strict=True) if count)
    stripes = np.arange(most if stripe else 1)
    lanes = np.empty((len(circuits), len(stripes)), dtype=np.intp)
    for direction in (0, 1):
        chosen = circuits.direction == direction
        lanes[chosen] = free[direction][circuits.colour[chosen, None] * len(stripes) + stripes]
    return lanes
