"""The optical ring: its fields and its links."""

import math
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Bill, BillItem, Capabilities, Defaults, Fabric, Level, NodeKind, Prices, Topology, limits, units
from fredfw.errors import InputError
from fredfw_topology_optical_ring.routing import ShortestArcRouter, ring_links
from fredfw_topology_optical_ring.wavelengths import Wavelengths

_DARK = -200  # less than any receiver can see; a level in dBm may well be negative
_METRES_PER_KILOMETRE = 1000
_ROUNDING = 1e-9


@frozen
class OpticalRing(Topology):
    """NPUs on a ring of WDM waveguides, clockwise and counter-clockwise; every transfer is a circuit.

    A circuit has a wavelength on all links of its arc while its phase runs; circuits of one wavelength share no link of
    one direction. The defaults are those of the comparison of WRHT with others (Dai et al., "Efficient All-reduce for
    Distributed DNN Training in Optical Interconnect System", ICPP 2023; the line rate is assumed). It neglects
    propagation and O/E/O conversion and has no loss budget.
    """

    name: ClassVar[str] = "optical-ring"

    npus: int = units.count(64, minimum=2, help="NPUs on the ring")
    waveguides: int = units.count(1, help="waveguides in each direction")
    wavelengths: int = units.count(64, help="wavelengths of each waveguide")
    line_rate: float = units.bandwidth("40 Gbps", help="line rate of each wavelength")
    reconfiguration: float = units.duration("25 us", help="time to set up the circuits of a step")
    pay: str = units.choice(
        ("every-step", "on-change"),
        help="when a reconfiguration is paid: at each step, as published, or only if its circuits are not still set up",
    )
    hop_latency: float = units.duration(
        "0 s", help="propagation delay from a node to the next; 0 (as published) neglects it"
    )
    oeo_latency: float = units.duration(
        "0 s", help="of a transfer's conversions between electrical and optical; 0 neglects them, as published"
    )
    stripe: bool = units.flag(
        False,
        help="whether a step's circuits get several wavelengths each where there are more than needed; published: one",
    )
    shortage: str = units.choice(
        ("split", "refuse"), help="what is done with a step that needs more wavelengths than there are"
    )
    laser_power: float | None = units.number(
        None, minimum=_DARK, help="dBm; it and receiver_sensitivity bound the arcs, if given"
    )
    receiver_sensitivity: float | None = units.number(None, minimum=_DARK, help="dBm, the least that a receiver needs")
    coupler_loss: float = units.number(0.0, minimum=0, help="dB, all couplers of a path together")
    drop_loss: float = units.number(0.0, minimum=0, help="dB, at the node that a circuit ends at")
    node_loss: float = units.number(0.0, minimum=0, help="dB, at each node that a circuit passes")
    fibre_loss: float = units.number(0.0, minimum=0, help="dB per kilometre")
    node_spacing: float = units.number(0.0, minimum=0, help="metres from a node to the next")
    link_energy: float = units.energy("0 J/bit", help="energy per byte and link; no value is published")

    def __attrs_post_init__(self) -> None:
        powers = [key for key in ("laser_power", "receiver_sensitivity") if getattr(self, key) is not None]
        losses = [key for key in ("coupler_loss", "drop_loss", "node_loss", "fibre_loss") if getattr(self, key)]
        if self.budget is None and (alone := powers + losses):
            message = f"{getattr(self, alone[0])!r} alone bounds no arc"
            raise InputError(message, key=alone[0], accepted="laser_power and receiver_sensitivity as well")
        if (lost := self.too_much(1)) is not None:
            message = f"an arc of one hop loses {lost:g} dB, laser and receiver have {self.budget:g} dB between them"
            raise InputError(message, key="laser_power", accepted="enough power for one hop")

    @property
    def lanes(self) -> int:
        """Wavelengths in each direction, over all waveguides."""
        return self.waveguides * self.wavelengths

    @property
    def budget(self) -> float | None:
        """What an arc may lose between laser and receiver, in dB, if anything bounds it."""
        if self.laser_power is None or self.receiver_sensitivity is None:
            return None
        return self.laser_power - self.receiver_sensitivity

    def margin(self, hops: int) -> float:
        """Return how many dB of the budget an arc of ``hops`` leaves; negative where the receiver gets too little."""
        if self.budget is None:
            return math.inf
        span = self.fibre_loss * self.node_spacing / _METRES_PER_KILOMETRE
        return self.budget - (self.coupler_loss + self.drop_loss) - (hops - 1) * self.node_loss - hops * span

    def too_much(self, hops: int) -> float | None:
        """Return how many dB an arc of ``hops`` loses if that is more than the budget, but for rounding."""
        margin = self.margin(hops)
        return None if self.budget is None or margin > -_ROUNDING else self.budget - margin

    def cost(self, prices: Prices | None = None, fabric: Fabric | None = None) -> Bill:
        """See ``Topology.cost``; no prices of waveguides and transceivers are published with it."""
        ends = 2 * self.npus * self.lanes
        name = "transceivers, one for each NPU, direction and wavelength"
        links = Bill.of(fabric or self.build(), self.scopes, prices)
        return links.plus(BillItem(name, ends, ends * self.line_rate))

    def build(self) -> Fabric:
        """Return the ring; node ``i`` is NPU ``i``, link ``i`` leaves it clockwise, link ``npus + i`` the other way."""
        limits.check("nodes", self.npus, key="npus")
        sources, destinations = ring_links(self.npus)
        key = "wavelengths" if self.wavelengths > self.waveguides else "waveguides"
        limits.check("links", 2 * self.npus * self.lanes, key=key)  # a wavelength of a link is one
        bandwidth = self.lanes * self.line_rate
        return Fabric(
            name=f"optical ring of {self.npus}",
            kinds=np.full(self.npus, NodeKind.NPU),
            sources=sources,
            destinations=destinations,
            bandwidths=bandwidth,
            latencies=self.hop_latency,
            energies=self.link_energy,
            levels=(Level(self.npus, "ring", bandwidth, self.hop_latency + self.oeo_latency, lanes=self.lanes),),
            coordinates=np.arange(self.npus)[:, None],
            offers=Capabilities(circuits=True),
            defaults=Defaults(router=ShortestArcRouter(oeo_latency=self.oeo_latency), admission=Wavelengths(self)),
        )
