"""Routing and wavelength assignment as admission: which circuits run side by side, and what setting them up costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from attrs import define, field, frozen

from fredfw import Admission, AdmissionPolicy, Fabric, FlowSet, Refuse, Routes, Split, Start, Wait
from fredfw.typing import IntArray
from fredfw.units import counted
from fredfw_topology_optical_ring.circuits import Circuits
from fredfw_topology_optical_ring.spectrum import Assignment, Spectrum


@frozen
class LossBudget:
    """How far light gets, in dB: the loss of an arc, and the most that the receiver still makes do with.

    Args:
        available: Laser power less receiver sensitivity.
        ends: Lost by every arc: couplers and drop.
        node: Lost at each node that an arc passes; one of ``h`` hops passes ``h - 1``.
        span: Lost on the fibre of each hop.
    """

    available: float
    ends: float
    node: float
    span: float

    def margin(self, hops: int) -> float:
        """Return what is left for an arc of ``hops``; negative where the receiver gets too little."""
        return self.available - self.ends - (hops - 1) * self.node - hops * self.span

    def reaches(self, hops: int) -> bool:
        """Return whether an arc of ``hops`` is within the budget, but for rounding."""
        return self.margin(hops) > -1e-9


@define(eq=False, kw_only=True)
class Wavelengths(AdmissionPolicy):
    """The wavelengths of one fabric; remembers the circuits of all routes that it has seen.

    Args:
        nodes: Size of the ring.
        lanes: Wavelengths in each direction, over all waveguides.
        line_rate: Bytes per second of each.
        reconfiguration: Seconds to set circuits up.
        on_change: Whether that is paid only for circuits that are not set up already.
        stripe: Whether a circuit may have several wavelengths.
        split: Whether flows that need more than there are run in sub-steps.
        budget: Bounds the arcs, if given.
    """

    name: ClassVar[str] = "wavelengths"

    nodes: int
    lanes: int
    line_rate: float
    reconfiguration: float
    on_change: bool
    stripe: bool
    split: bool
    budget: LossBudget | None
    _known: dict[Routes, Circuits] = field(factory=dict, init=False)

    def circuits(self, routes: Routes) -> Circuits:
        """Return what ``routes`` need, which are kept alive."""
        if routes not in self._known:
            self._known[routes] = Circuits(routes, self.nodes)
        return self._known[routes]

    def parts(self, routes: Routes) -> tuple[IntArray, ...]:
        """Return ``routes``, which need more wavelengths than there are, in parts that do not."""
        circuits = self.circuits(routes)
        parts = circuits.parts(-(-circuits.most_colours // self.lanes))
        # A part keeps its colours: another assignment might need more of them.
        self._known.update((part.routes, part) for _, part in parts)
        return tuple(flows for flows, _ in parts)

    def refusal(self, circuits: Circuits) -> str | None:
        """Return why ``circuits`` can never be set up, or ``None``."""
        if not circuits.are_arcs:
            return "a flow does not follow the ring from node to node; use the shortest-arc router"
        budget, hops = self.budget, int(circuits.hops.max())
        if budget is not None and not budget.reaches(hops):
            arc, lost = circuits.name(int(circuits.hops.argmax())), budget.available - budget.margin(hops)
            return f"the arc from {arc}, loses {lost:g} dB, and the loss budget is {budget.available:g} dB"
        return None

    def begin(self, fabric: Fabric) -> WavelengthAdmission:
        """See ``AdmissionPolicy.begin``."""
        del fabric
        return WavelengthAdmission(self)


class WavelengthAdmission(Admission):
    """Gives every circuit wavelengths of its own on all links of its arc, until its flow set ends."""

    def __init__(self, wavelengths: Wavelengths) -> None:
        self._wavelengths = wavelengths
        self._spectrum = Spectrum(wavelengths.nodes, wavelengths.lanes)
        # What runs; the same flow set may run several times at once.
        self._running: dict[FlowSet, list[Assignment]] = {}
        self._splits: dict[Routes, str] = {}
        self._used = self._load = self._longest = self._reconfigurations = self._added = 0

    def cap(self) -> float:
        """See ``Admission.cap``: a wavelength, or all of them where a circuit may have several."""
        ring = self._wavelengths
        return ring.line_rate * (ring.lanes if ring.stripe else 1)

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Start | Wait | Split | Refuse:
        """See ``Admission.admit``."""
        del active
        ring = self._wavelengths
        circuits = ring.circuits(flows.routes)
        if not len(circuits):
            return Start()
        reason = ring.refusal(circuits)
        if reason is not None:
            return Refuse(reason)
        if circuits.most_colours > ring.lanes:
            return self._too_many(flows, circuits)
        # Flows that take turns displace each other, and pay each time.
        standing = self._spectrum.standing(circuits) if ring.on_change and not flows.takes_turns else None
        assignment = standing or self._spectrum.find(circuits, stripe=ring.stripe)
        if assignment is None:
            return Wait("too few wavelengths are free")
        self._begin(flows, assignment)
        if standing is None:
            self._reconfigurations += 1 if ring.on_change and not flows.takes_turns else flows.repeat
            if ring.on_change:
                self._spectrum.set_up(assignment)
        caps = circuits.caps(assignment.stripes * ring.line_rate)
        return Start(
            setup=ring.reconfiguration if standing is None else 0.0,
            caps=caps if flows.caps is None else np.minimum(caps, flows.caps),
            setup_once=ring.on_change,
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
        figures = {
            "wavelengths used": self._used,
            "largest link load": self._load,
            "longest arc (hops)": self._longest,
            "reconfigurations": self._reconfigurations,
            "sub-steps added by splitting": self._added,
        }
        budget = self._wavelengths.budget
        margin = {} if budget is None or not self._longest else {"loss margin (dB)": budget.margin(self._longest)}
        return figures | margin

    def notes(self) -> tuple[str, ...]:
        """See ``Admission.notes``: how many sets of circuits were split, and the first of them."""
        if not self._splits:
            return ()
        count, first = len(self._splits), next(iter(self._splits.values()))
        return (f"{counted(count, 'set')} of circuits ran in sub-steps, the first because it {first}",)

    def _too_many(self, flows: FlowSet, circuits: Circuits) -> Split | Refuse:
        ring = self._wavelengths
        needed = f"needs {circuits.most_colours} wavelengths (largest link load {circuits.load.max()})"
        reason = f"{needed}, there are {ring.lanes} in each direction"
        if not ring.split:
            return Refuse(reason)
        parts = ring.parts(flows.routes)
        self._added += (len(parts) - 1) * flows.repeat
        self._splits.setdefault(flows.routes, f"{reason}: {len(parts)} sub-steps")
        return Split(parts, reason)

    def _begin(self, flows: FlowSet, assignment: Assignment) -> None:
        self._running.setdefault(flows, []).append(assignment)
        spectrum = self._spectrum
        spectrum.take(assignment)
        self._used = max(self._used, spectrum.used)
        self._load = max(self._load, int(spectrum.load.max()))
        self._longest = max(self._longest, int(assignment.circuits.hops.max()))
