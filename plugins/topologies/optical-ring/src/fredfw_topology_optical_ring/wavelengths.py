"""Wavelengths as admission: which are in use on which link, what runs side by side, and what setting up costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from attrs import define, field

from fredfw import Admission, AdmissionPolicy, Fabric, FlowSet, Refuse, Routes, Split, Start, Wait
from fredfw.typing import BoolArray, IntArray
from fredfw.units import counted
from fredfw_topology_optical_ring.circuits import Circuits

if TYPE_CHECKING:
    from fredfw_topology_optical_ring.topology import OpticalRing


class Assignment:
    """The ``(C, stripes)`` wavelengths ``lanes`` of ``C`` circuits, where there are so ``many`` in each direction."""

    def __init__(self, circuits: Circuits, lanes: IntArray, many: int) -> None:
        self.circuits, self.lanes, self.stripes = circuits, lanes, int(lanes.shape[1])
        # Direction and wavelength of each pair of these that occurs, once; numbers of all pairs of link and wavelength.
        self.pairs = np.divmod(np.unique(circuits.direction[:, None] * many + lanes), many)
        self.cells = ((circuits.routes.links * many)[:, None] + lanes[circuits.circuit]).ravel()


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
        """Return free wavelengths, the lowest, or ``None``; with ``stripe`` as many each as there are for all."""
        if self.load.any():
            # Of each direction, those that are free on all links that the circuits use.
            both = zip(np.split(circuits.load > 0, 2), np.split(self._busy, 2), strict=True)
            free = [np.flatnonzero(~np.logical_or.reduce(busy[links])) for links, busy in both]
            enough = all(len(lanes) >= count for lanes, count in zip(free, circuits.colours, strict=True))
            lanes = _by_colour(circuits, free, stripe=stripe) if enough else self._first_fit(circuits)
            return None if lanes is None else Assignment(circuits, lanes, self._lanes)
        if circuits not in self._alone:
            lanes = _by_colour(circuits, [np.arange(self._lanes)] * 2, stripe=stripe)
            self._alone[circuits] = Assignment(circuits, lanes, self._lanes)
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
        self._flat[assignment.cells] = True
        self._users[assignment.pairs] += 1
        self.load += assignment.circuits.load

    def free(self, assignment: Assignment) -> None:
        self._flat[assignment.cells] = False
        self._users[assignment.pairs] -= 1
        self.load -= assignment.circuits.load

    @property
    def _flat(self) -> BoolArray:
        return self._busy.reshape(-1)  # which in a copy must be of its own

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


@define(eq=False)
class Wavelengths(AdmissionPolicy):
    """The wavelengths of one ``ring``; remembers the circuits of all routes that it has seen."""

    name: ClassVar[str] = "wavelengths"

    ring: OpticalRing
    _known: dict[Routes, Circuits] = field(factory=dict, init=False)

    def circuits(self, routes: Routes) -> Circuits:
        if routes not in self._known:
            self._known[routes] = Circuits(routes, self.ring.npus)
        return self._known[routes]

    def parts(self, routes: Routes) -> tuple[IntArray, ...]:
        circuits = self.circuits(routes)
        parts = circuits.parts(-(-circuits.most_colours // self.ring.lanes))
        # A part keeps its colours: another assignment might need more of them.
        self._known.update((part.routes, part) for _, part in parts)
        return tuple(flows for flows, _ in parts)

    def refusal(self, circuits: Circuits) -> str | None:
        if not circuits.are_arcs:
            return "a flow does not follow the ring from node to node; use the shortest-arc router"
        if (lost := self.ring.too_much(int(circuits.hops.max()))) is not None:
            arc = circuits.name(int(circuits.hops.argmax()))
            return f"the arc from {arc}, loses {lost:g} dB, and the loss budget is {self.ring.budget:g} dB"
        return None

    def begin(self, fabric: Fabric) -> WavelengthAdmission:
        return WavelengthAdmission(self)


class WavelengthAdmission(Admission):
    """Gives every circuit wavelengths of its own on all links of its arc, until its flow set ends."""

    def __init__(self, wavelengths: Wavelengths) -> None:
        self._wavelengths = wavelengths
        self._ring = wavelengths.ring
        self._spectrum = Spectrum(self._ring.npus, self._ring.lanes)
        # What runs; the same flow set may run several times at once.
        self._running: dict[FlowSet, list[Assignment]] = {}
        self._splits: dict[Routes, str] = {}
        self._used = self._load = self._longest = self._reconfigurations = self._added = 0

    def cap(self) -> float:
        return self._ring.line_rate * (self._ring.lanes if self._ring.stripe else 1)

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Start | Wait | Split | Refuse:
        ring, spectrum = self._ring, self._spectrum
        circuits = self._wavelengths.circuits(flows.routes)
        if not len(circuits):
            return Start()
        if (reason := self._wavelengths.refusal(circuits)) is not None:
            return Refuse(reason)
        if circuits.most_colours > ring.lanes:
            return self._too_many(flows, circuits)
        on_change = ring.pay == "on-change"
        stays = on_change and not flows.takes_turns  # flows that take turns displace each other, and pay each time
        standing = spectrum.standing(circuits) if stays else None
        assignment = standing or spectrum.find(circuits, stripe=ring.stripe)
        if assignment is None:
            return Wait("too few wavelengths are free")
        self._running.setdefault(flows, []).append(assignment)
        spectrum.take(assignment)
        self._used = max(self._used, spectrum.used)
        self._load = max(self._load, int(spectrum.load.max()))
        self._longest = max(self._longest, int(circuits.hops.max()))
        if standing is None:
            self._reconfigurations += 1 if stays else flows.repeat
            if on_change:
                spectrum.set_up(assignment)
        caps = circuits.caps(assignment.stripes * ring.line_rate)
        return Start(
            setup=ring.reconfiguration if standing is None else 0.0,
            caps=caps if flows.caps is None else np.minimum(caps, flows.caps),
            setup_once=on_change,
        )

    def release(self, flows: FlowSet) -> None:
        if (running := self._running.get(flows)) is not None:
            self._spectrum.free(running.pop(0))
            if not running:
                del self._running[flows]

    def figures(self) -> Mapping[str, float]:
        # Wavelengths and load are the most at any one time and in one direction; the first cannot be less than the
        # second.
        figures: dict[str, float] = {
            "wavelengths used": self._used,
            "largest link load": self._load,
            "longest arc (hops)": self._longest,
            "reconfigurations": self._reconfigurations,
            "sub-steps added by splitting": self._added,
        }
        if self._ring.budget is not None and self._longest:
            figures["loss margin (dB)"] = self._ring.margin(self._longest)
        return figures

    def notes(self) -> tuple[str, ...]:
        if not self._splits:
            return ()
        count, first = len(self._splits), next(iter(self._splits.values()))
        return (f"{counted(count, 'set')} of circuits ran in sub-steps, the first because it {first}",)

    def _too_many(self, flows: FlowSet, circuits: Circuits) -> Split | Refuse:
        needed = f"needs {circuits.most_colours} wavelengths (largest link load {circuits.load.max()})"
        reason = f"{needed}, there are {self._ring.lanes} in each direction"
        if self._ring.shortage == "refuse":
            return Refuse(reason)
        parts = self._wavelengths.parts(flows.routes)
        self._added += (len(parts) - 1) * flows.repeat
        self._splits.setdefault(flows.routes, f"{reason}: {len(parts)} sub-steps")
        return Split(parts, reason)
