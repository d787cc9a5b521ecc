"""What the switches of a FRED wafer are made of: chiplets, their area, their power.

A switch of the tree is wider than any chiplet, so it is several of them side by side. Its ports are dealt out to
*planes*, each of which still reaches every child and so works alone, and every port of a plane is cut into *slices*,
one per chiplet. All bandwidths are each way. The paper (FRED, ISCA 2025) gives chiplets, their areas and totals for
its own wafer; its figures are used where they apply and scaled by their I/O density elsewhere, and every figure says
which. How many switches there are, and with which ports, is the configuration and carries no such mark.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Self

from attrs import frozen

from fredfw import units
from fredfw.errors import InputError
from fredfw_topology_fred.topology import PAPER_POWER, Fred

WAFER_AREA = 70_000.0  # mm2 of the paper's wafer
WAFER_POWER = 15_000.0  # W of the paper's wafer
PAPER = "FRED, ISCA 2025"
PAPER_CHIPLETS = 35  # chiplets of the paper's fabric
PAPER_AREA = 25_195.0  # mm2 of them
PORT_LIMIT = 600e9  # B/s of the widest port of a published chiplet: an NPU's 3 TB/s over the 5 chiplets of an L1 switch
CHIPLET_LIMIT = 6e12  # B/s through the largest published chiplet: the 20 x 3 TB/s of the L2 switch over its 10 chiplets


class FigureStatus(StrEnum):
    """How far a figure can be trusted, best first: given by the paper, following from that by a rule, or neither."""

    PUBLISHED = "published"
    DERIVED = "derived"
    ASSUMED = "assumed"


@frozen
class Figure:
    """A number, how far it can be trusted, and where it is published or how it was computed."""

    value: float
    status: FigureStatus
    source: str


@frozen
class Ports:
    """So many equal ports, with the B/s of each, each way."""

    count: int
    bandwidth: float

    @property
    def total(self) -> float:
        return self.count * self.bandwidth


@frozen
class Chiplet:
    """One FRED_3 chiplet: its ports, equal ones together, the widest first."""

    ports: tuple[Ports, ...]

    @classmethod
    def of(cls, *groups: Ports) -> Self:
        """Return the chiplet with these ports; groups may be empty or alike."""
        counts: Counter[float] = Counter()
        for group in groups:
            counts[group.bandwidth] += group.count
        return cls(tuple(Ports(count, width) for width, count in sorted(counts.items(), reverse=True) if count))

    @property
    def size(self) -> int:
        return sum(group.count for group in self.ports)

    @property
    def bandwidth(self) -> float:
        return sum(group.total for group in self.ports)


_GATE = 128e9 / 5  # B/s of an I/O controller's port on each of the 5 chiplets of an L1 switch
L1_FOUR = Chiplet.of(Ports(8, PORT_LIMIT), Ports(4, _GATE))  # FRED_3(12), of the L1 switches with 4 I/O controllers
L1_THREE = Chiplet.of(Ports(8, PORT_LIMIT), Ports(3, _GATE))  # the same of the L1 switches with 3 I/O controllers
L2 = Chiplet.of(Ports(10, PORT_LIMIT))
"""Of the L2 switch. That it has 10 ports is derived: 10 chiplets for 20 ports of 3 TB/s."""
PAPER_AREAS: Mapping[Chiplet, float] = {L1_FOUR: 685.0, L1_THREE: 678.0, L2: 814.0}  # mm2 of each
L1_FOUR_POWER = 3.75  # W of a FRED_3(12), the only chiplet whose power we know


def density(chiplet: Chiplet) -> float:
    """Return the I/O density of one of the paper's chiplets, in B/s each way per mm2."""
    return chiplet.bandwidth / PAPER_AREAS[chiplet]


@frozen
class SwitchRow:
    """The switches of one kind, and what each is made of."""

    level: int  # 1 for the switches above the NPUs, and so on
    switches: int  # how many there are
    down: Ports  # ports to the children: one per NPU below
    up: Ports  # ports to the parent: as many, none at the root
    controllers: Ports  # ports to I/O controllers, only at level 1
    planes: int  # parts of a switch that share no port
    slices: int  # chiplets of a plane, between which each of its ports is cut
    chiplet: Chiplet  # the chiplet, all of whose ports a plane has
    chiplets: Figure  # how many make one switch
    chiplet_ports: Figure  # of each chiplet, as are ``chiplet_area`` in mm2 and ``chiplet_power`` in W
    chiplet_area: Figure
    chiplet_power: Figure

    @property
    def ports(self) -> int:
        return self.down.count + self.up.count + self.controllers.count

    @property
    def bandwidth(self) -> float:
        return self.down.total + self.up.total + self.controllers.total

    @property
    def link_bandwidth(self) -> float:
        """B/s, each way, of all links whose upper end is on a switch of this row."""
        return self.switches * (self.down.total + self.controllers.total)

    @property
    def total_chiplets(self) -> Figure:
        return Figure(self.switches * self.chiplets.value, self.chiplets.status, "switches x chiplets of each")

    def total(self, each: Figure) -> Figure:
        status = _weakest(self.chiplets, each)
        return Figure(self.total_chiplets.value * each.value, status, "number of chiplets x that of each")


@frozen
class Hardware:
    """The switches of a wafer, and what they all have: chiplets, mm2, W."""

    # one per kind of switch: level by level, at level 1 those with more I/O controllers first
    rows: tuple[SwitchRow, ...]
    chiplets: Figure  # how many
    area: Figure  # of the chiplets
    chiplet_power: Figure  # of the chiplets
    wire_power: Figure  # of the wires and whatever else the fabric adds
    power: Figure  # of all that

    @property
    def area_share(self) -> Figure:
        """``area`` as a fraction of the paper's wafer; above 1 where it does not fit."""
        return _share(self.area, WAFER_AREA, f"{WAFER_AREA:,.0f} mm2")

    @property
    def power_share(self) -> Figure:
        return _share(self.power, WAFER_POWER, f"{WAFER_POWER / 1e3:g} kW")


def hardware(topology: Fred) -> Hardware:
    """Return what the switches of ``topology`` are made of."""
    # The chiplets of a switch are the fewest that keep to the widest port (600 GB/s) and the largest bandwidth (6 TB/s)
    # of a published chiplet, in as many planes, and so with as few ports each, as that number allows. That gives the
    # paper's 35 chiplets for its wafer. Area goes with bandwidth, at the density of FRED_3(12) for a switch with I/O
    # controllers and that of the L2 chiplet for one without; for the third published chiplet, 678 mm2, this would give
    # 0.5 % too much. Power of chiplets goes with their area; what else the fabric takes, which is the published total
    # less the chiplets, with the bandwidth of all links.
    rows, paper = tuple(_rows(topology)), tuple(_rows(Fred()))
    chiplets = _sum([row.total_chiplets for row in rows])
    area = _sum([row.total(row.chiplet_area) for row in rows])
    chiplet_power = _sum([row.total(row.chiplet_power) for row in rows])

    rest = PAPER_POWER - _sum([row.total(row.chiplet_power) for row in paper]).value
    ratio = sum(row.link_bandwidth for row in rows) / sum(row.link_bandwidth for row in paper)
    how = f"{PAPER_POWER} W of the paper's fabric less its chiplets"
    if rows == paper:
        return Hardware(
            rows=rows,
            chiplets=Figure(PAPER_CHIPLETS, FigureStatus.PUBLISHED, PAPER),
            area=Figure(PAPER_AREA, FigureStatus.PUBLISHED, PAPER),
            chiplet_power=chiplet_power,
            wire_power=Figure(rest, chiplet_power.status, how),
            power=Figure(PAPER_POWER, FigureStatus.PUBLISHED, PAPER),
        )
    wires = Figure(rest * ratio, FigureStatus.ASSUMED, f"{how}, x {ratio:.4g}, the ratio of the bandwidth of all links")
    return Hardware(rows, chiplets, area, chiplet_power, wires, _sum([chiplet_power, wires]))


def _rows(topology: Fred) -> Iterator[SwitchRow]:
    below = 1  # NPUs below each child
    for level, children in enumerate(topology.arity, start=1):
        npus = below * children
        root = level == len(topology.arity)
        down = Ports(npus, topology.uplinks[level - 1] / below)
        up = Ports(0, 0.0) if root else Ports(npus, topology.uplinks[level] / npus)
        switches = math.prod(topology.arity[level:])
        share, extra = divmod(topology.io_controllers if level == 1 else 0, switches)
        for count, gates in ((extra, share + 1), (switches - extra, share)):
            if count:
                yield _row(level, count, below, down, up, Ports(gates, topology.io_bandwidth))
        below = npus


def _row(level: int, switches: int, below: int, down: Ports, up: Ports, controllers: Ports) -> SwitchRow:
    groups = (down, up, controllers)
    size, bandwidth = sum(group.count for group in groups), sum(group.total for group in groups)
    if size < 2:
        message = f"a switch at level {level} has a single port"
        raise InputError(message, key="arity", accepted="at least 2 ports on every switch")
    if not math.isfinite(bandwidth):
        message = f"the ports of a switch at level {level} add up to {bandwidth} B/s"
        accepted = "bandwidths with a finite sum, those of the I/O controllers included"
        raise InputError(message, key="bandwidths", accepted=accepted)
    widest = max(group.bandwidth for group in groups if group.count)

    def slices(planes: int) -> int:
        need = max(widest / PORT_LIMIT, bandwidth / planes / CHIPLET_LIMIT)
        return max(1, math.ceil(need * (1 - 1e-12)))  # rounding of the sum must not cost a chiplet

    # A plane has the same number of ports, at least one, of every child.
    possible = (planes for planes in range(1, below + 1) if below % planes == 0 and size // planes >= 2)
    planes = min(possible, key=lambda planes: (planes * slices(planes), -planes))
    cuts = slices(planes)
    chiplet = Chiplet.of(*(Ports(group.count // planes, group.bandwidth / cuts) for group in groups))
    area = _area(chiplet, has_controllers=controllers.count > 0)
    how = (
        f"planes x slices, {planes} x {cuts}: the fewest chiplets with at most {PORT_LIMIT / 1e9:g} GB/s a port and "
        f"{CHIPLET_LIMIT / 1e12:g} TB/s in all, as the paper's"
    )
    derived = FigureStatus.DERIVED, f"ports of the switch / planes, {size} / {planes}"
    return SwitchRow(
        level=level,
        switches=switches,
        down=down,
        up=up,
        controllers=controllers,
        planes=planes,
        slices=cuts,
        chiplet=chiplet,
        chiplets=Figure(planes * cuts, FigureStatus.DERIVED, how),
        chiplet_ports=Figure(chiplet.size, *((FigureStatus.PUBLISHED, PAPER) if chiplet == L1_FOUR else derived)),
        chiplet_area=area,
        chiplet_power=_power(chiplet, area),
    )


def _area(chiplet: Chiplet, *, has_controllers: bool) -> Figure:
    if chiplet in PAPER_AREAS:
        return Figure(PAPER_AREAS[chiplet], FigureStatus.PUBLISHED, PAPER)
    like = L1_FOUR if has_controllers else L2
    per_area, through = density(like), units.render(chiplet.bandwidth, units.Unit.BYTES_PER_SECOND)
    how = f"bandwidth / density: {through} / {per_area / 1e9:.3g} GB/s per mm2, as the published chiplet of "
    return Figure(chiplet.bandwidth / per_area, FigureStatus.DERIVED, f"{how}{PAPER_AREAS[like]:g} mm2")


def _power(chiplet: Chiplet, area: Figure) -> Figure:
    if chiplet == L1_FOUR:
        return Figure(L1_FOUR_POWER, FigureStatus.PUBLISHED, PAPER)
    reference = PAPER_AREAS[L1_FOUR]
    how = f"{L1_FOUR_POWER} W of FRED_3(12) x area / {reference:g} mm2"
    return Figure(L1_FOUR_POWER * area.value / reference, FigureStatus.ASSUMED, how)


def _weakest(*figures: Figure) -> FigureStatus:
    return max((figure.status for figure in figures), key=list(FigureStatus).index)


def _sum(figures: list[Figure]) -> Figure:
    return Figure(sum(figure.value for figure in figures), _weakest(*figures), "sum of its parts")


def _share(figure: Figure, whole: float, name: str) -> Figure:
    # Not published even where the figure is: the paper rounds its shares.
    status = FigureStatus.ASSUMED if figure.status is FigureStatus.ASSUMED else FigureStatus.DERIVED
    return Figure(figure.value / whole, status, f"of the {name} of the paper's wafer")
