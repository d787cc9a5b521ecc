"""The transport: asks the model what a call costs on the machine that a fabric is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen, validators

from fredfw import Call, Costs, Fabric, File, Transport, units
from fredfw_transport_nccl.model import steps_of, terms
from fredfw_transport_nccl.tables import (
    PROTOCOLS,
    Fit,
    families,
    fitted,
    given_families,
    networks,
    origin,
    published,
    ratio_error,
    sources,
)
from fredfw_transport_nccl.tuner import COLLNET, NVLS_TREE, Machine

_TREES = "tree(shape=nodes)", "tree(shape=nodes, chunks=64)", "tree(shape=nodes, chunks=256)"
_NVLS_TREE = "hierarchical(chunks=16, steps=('in-network', 'by-kind'))"
_SHARP = "hierarchical(chunks=16, steps=('in-network', 'in-network'))"
_COLLNET = "hierarchical(chunks=16, steps=('direct', 'in-network'))"
_SAME = 0.01  # how near rates are that are the same
_ROUND = frozenset({"reduce-scatter", "all-gather", "broadcast", "reduce"})


@frozen
class Nccl(Transport):
    """NVIDIA's NCCL: algorithms, and the protocols LL, LL128 and Simple.

    The protocol of a call is what NCCL's own tuner would choose, by its published constants. A call then costs what was
    fitted to measurements of such GPUs: a launch, a latency for each step, and shares of the links' rates. The
    published constants, the fitted ones and their residuals are files of the package.

    Tier 0 of a fabric is the inside of a node, with NVLink and NVSwitch. The other tiers are the network. In-network
    collectives are those of the NVSwitch (NVLS). Ring and tree have their schedules between nodes with the options
    ``rotated`` and ``shape = "nodes"``, which ``auto`` tries.
    """

    name: ClassVar[str] = "nccl"

    family: str | None = units.choice(
        families(),
        None,
        help="GPUs whose constants are used; default: those whose NVLinks are nearest to the links of the fabric, "
        "with a note where they are others",
    )
    network: str = units.choice(networks(), "infiniband", help="what connects nodes, whose constants are used")
    constants: File | None = units.file(
        None, help="fitted constants, written by fredfw nccl fit; default: those of the package"
    )
    without: str | None = units.option(
        None,
        validator=validators.optional(validators.instance_of(str)),
        help="source or system (a100-node) that the constants were fitted without, to see how they predict it",
    )

    def __attrs_post_init__(self) -> None:
        if self.family is not None:
            known: Sequence[str] = (self.family,)
        else:
            known = families() if self.constants is None else given_families(self.constants)
        for family in known:
            self.fit(family)

    def fit(self, family: str) -> Fit:
        """Return what is fitted to GPUs of a family."""
        return fitted(family, self.without, self.constants)

    @property
    def ends_with_links(self) -> bool:
        """See ``Transport.ends_with_links``: a queue pair that gives up ends the communicator."""
        return True

    def algorithms(self, pattern: str) -> Sequence[str] | None:
        facts = published()["families"].get(self.family, {})
        rings = facts.get("ring", "ring")
        if pattern == "all-reduce":
            switched = _NVLS_TREE
            if published()["networks"][self.network].get("reduces"):
                switched = _SHARP if facts.get("nvls") else _COLLNET
            return rings, "in-network", *_TREES, switched
        return (rings,) if pattern in _ROUND else ("direct",)

    def settled(self, fabric: Fabric) -> Nccl:
        return evolve(self, family=_family(fabric.derived(_Server))[0]) if self.family is None else self

    def notes(self, fabric: Fabric) -> Sequence[str]:
        server = fabric.derived(_Server)
        family, same = _family(server) if self.family is None else (self.family, True)
        fit, source, far = self.fit(family), origin(family), []
        if not same:
            rate = units.render(server.link, units.Unit.BYTES_PER_SECOND)
            far.append(f"to GPUs that send {rate} {'to switches' if server.switched else 'to other GPUs'}")
        elif source != family:
            far.append(f"to {family}")
        between = ""
        if server.several:
            between = f" and {fit.network_of(self.network)}"
            if self.network not in fit.own:
                far.append(f"to {source} with {self.network}")
        extrapolated = f", extrapolated {' and '.join(far)}" if far else ""
        options = "transport.family, transport.network" if server.several else "transport.family"
        error = self.ratio_error(fabric)
        unsure = () if error is None else (f"nccl: ratios of two times are {100 * error:.0f} % off, held out",)
        return (f"nccl: constants of {source}{between}{extrapolated} ({options})", *unsure)

    def ratio_error(self, fabric: Fabric) -> float | None:
        return ratio_error(self.constants, self.family or _family(fabric.derived(_Server))[0])

    def fitted_to(self) -> Sequence[str]:
        return sources(self.constants)

    def machine(self, fabric: Fabric, ranks: int, nodes: int) -> Machine:
        """Return what a call of so many ranks in so many nodes of ``fabric`` runs on."""
        known = fabric.derived(_Server)
        family = self.family or _family(known)[0]
        return Machine(family, ranks, nodes, known.link, known.nic, known.reduces, self.network, known.lane)

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        """See ``Transport.costs``; a step is as long on all tiers, and has the latency of links in it."""
        known, machine = fabric.derived(_Server), self.machine(fabric, max(call.ranks, 2), call.nodes)
        algorithm, steps = call.algorithm, call.steps
        if algorithm == "hierarchical" and call.switched:
            algorithm = COLLNET if machine.between_switches(COLLNET, 1.0) else NVLS_TREE
        elif algorithm == "hierarchical" and "ring" in machine.facts:
            steps = steps_of(call.pattern, machine.ranks)
        cost = terms(machine, self.fit(machine.family), call.pattern, algorithm, call.size, steps)
        hop = cost.hops / max(call.steps, 1)
        outer = int(fabric.tiers.max(initial=0))
        return Costs(
            launch=cost.launch,
            step=(max(hop - known.latency, 0.0), *(max(hop - known.away, 0.0),) * outer),
            efficiency=(cost.inside, *(cost.between,) * outer),
            protocol=f"{PROTOCOLS[cost.protocol]} ({cost.rule})",
        )


def _family(server: _Server) -> tuple[str, bool]:
    """Return the family of GPUs whose links are those of ``server``, or the nearest; and whether it is those."""
    entries = published()["families"]
    sheets = {
        name: float(entry["sheet"]) * 1e9 for name, entry in entries.items() if server.switched == ("ring" not in entry)
    }
    name, sheet = min(sheets.items(), key=lambda one: abs(math.log(server.link / one[1])))
    return name, abs(server.link / sheet - 1) <= _SAME


class _Server:
    """What a server of a fabric has."""

    def __init__(self, fabric: Fabric) -> None:
        inside, npus = fabric.tiers == 0, fabric.npus
        link, nic = (
            float(np.bincount(fabric.sources[part], fabric.bandwidths[part], len(fabric.kinds))[npus].min())
            for part in (inside, ~inside)
        )
        each = int(np.bincount(fabric.servers[npus]).max(initial=1))
        # The levels of a fabric say best what an NPU sends while all do: those of a server come first.
        sizes = np.cumprod([level.size for level in fabric.levels])
        within = int((sizes <= each).sum())
        inner, outer = fabric.levels[:within], fabric.levels[within:]
        if outer:
            nic = outer[0].bandwidth
        lanes = fabric.bandwidths[inside & np.isin(fabric.sources, npus) & np.isin(fabric.destinations, npus)]
        self.link = link or nic  # bytes per second that an NPU sends inside of it
        self.lane = float(lanes.min(initial=self.link))  # bytes per second that it sends to one other NPU there
        self.nic = nic or link  # bytes per second that an NPU sends out of it while all others do
        self.latency = inner[0].latency if inner else 0.0  # seconds from an NPU to another one inside of it
        self.away = outer[0].latency if outer else 0.0  # seconds to the nearest one in another server
        self.reduces = fabric.offers.reduces and fabric.offers.multicasts  # whether switches combine and copy streams
        self.switched = not len(lanes)  # whether all that NPUs send inside of it goes through switches
        self.several = bool(fabric.servers[npus].max(initial=0))  # whether there are others
