"""Routing and wavelength assignment as admission: which circuits run side by side, and what setting them up costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from attrs import define, field

from fredfw import Admission, AdmissionPolicy, Fabric, FlowSet, Refuse, Routes, Split, Start, Wait
from fredfw.typing import IntArray
from fredfw.units import counted
from fredfw_topology_optical_ring.circuits import Circuits
from fredfw_topology_optical_ring.spectrum import Assignment, Spectrum

if TYPE_CHECKING:
    from fredfw_topology_optical_ring.topology import OpticalRing


@define(eq=False)
class Wavelengths(AdmissionPolicy):
    """The wavelengths of one ``ring``; remembers the circuits of all routes that it has seen."""

    name: ClassVar[str] = "wavelengths"

    ring: OpticalRing
    _known: dict[Routes, Circuits] = field(factory=dict, init=False)

    def circuits(self, routes: Routes) -> Circuits:
        """Return what ``routes`` need, which are kept alive."""
        if routes not in self._known:
            self._known[routes] = Circuits(routes, self.ring.npus)
        return self._known[routes]

    def parts(self, routes: Routes) -> tuple[IntArray, ...]:
        """Return ``routes``, which need more wavelengths than there are, in parts that do not."""
        circuits = self.circuits(routes)
        parts = circuits.parts(-(-circuits.most_colours // self.ring.lanes))
        # A part keeps its colours: another assignment might need more of them.
        self._known.update((part.routes, part) for _, part in parts)
        return tuple(flows for flows, _ in parts)

    def refusal(self, circuits: Circuits) -> str | None:
        """Return why ``circuits`` can never be set up, or ``None``."""
        if not circuits.are_arcs:
            return "a flow does not follow the ring from node to node; use the shortest-arc router"
        lost = self.ring.too_much(int(circuits.hops.max()))
        if lost is not None:
            arc = circuits.name(int(circuits.hops.argmax()))
            return f"the arc from {arc}, loses {lost:g} dB, and the loss budget is {self.ring.budget:g} dB"
        return None

    def begin(self, fabric: Fabric) -> WavelengthAdmission:
        """See ``AdmissionPolicy.begin``."""
        del fabric
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
        """See ``Admission.cap``: a wavelength, or all of them where a circuit may have several."""
        return self._ring.line_rate * (self._ring.lanes if self._ring.stripe else 1)

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Start | Wait | Split | Refuse:
        """See ``Admission.admit``."""
        del active
        ring, spectrum = self._ring, self._spectrum
        circuits = self._wavelengths.circuits(flows.routes)
        if not len(circuits):
            return Start()
        reason = self._wavelengths.refusal(circuits)
        if reason is not None:
            return Refuse(reason)
        if circuits.most_colours > ring.lanes:
            return self._too_many(flows, circuits)
        on_change = ring.pay == "on-change"
        # Flows that take turns displace each other, and pay each time.
        stays = on_change and not flows.takes_turns
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
        """See ``Admission.release``."""
        running = self._running.get(flows)
        if running is not None:
            self._spectrum.free(running.pop(0))
            if not running:
                del self._running[flows]

    def figures(self) -> Mapping[str, float]:
        """See ``Admission.figures``.

        ``wavelengths used`` and ``largest link load`` are the most at any one time and in one direction; the first
        cannot be less than the second. ``reconfigurations`` are those that were paid for.
        """
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
        """See ``Admission.notes``: how many sets of circuits were split, and the first of them."""
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
