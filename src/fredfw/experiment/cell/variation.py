"""What a machine may be off by: its parameters, and the same machine with one of them changed."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw.experiment.file.spec import Experiment, FabricSpec
from fredfw.fabric import Call, Fabric, IdealTransport, Level, MemoryTier, Topology, Transport, answers, with_memories
from fredfw.fabric.fabric import tiers_of
from fredfw.fabric.transport import ByTier, Costs
from fredfw.plugin.answers import built
from fredfw.simulation.answers import algorithms, costs, settled
from fredfw.typing import FloatArray, IntArray

COMPUTE = "compute"  # the speed of the NPUs
ALPHAS = "launch, step and message times"  # what the transport adds, beside its efficiency and rates
LATENCY = "latency of links"
BANDWIDTH = "bandwidth of "  # what the parameters begin with that are bandwidths
ALL = f"{BANDWIDTH}all links"


def parameters(fabric: Fabric) -> tuple[str, ...]:
    """Return what of ``fabric`` may be off: the bandwidth of each tier, the latencies, and the transport's times."""
    tiers = bandwidths_of(fabric)
    names = [ALL, *tiers] if len(tiers) > 1 else [*tiers]
    if fabric.latencies.any():
        names.append(LATENCY)
    if not isinstance(fabric.defaults.transport, IdealTransport):
        names.append(ALPHAS)
    return tuple(names)


def varied(fabric: Fabric, parameter: str, factor: float) -> Fabric:
    """Return ``fabric`` with ``parameter``, one of ``parameters``, multiplied by ``factor``."""
    network = fabric.network
    # Which library and which accelerator it is does not change with how fast they are.
    fabric = fabric.with_defaults(transport=settled(fabric.defaults.transport, network))
    if parameter == ALPHAS:
        return fabric.with_defaults(transport=ScaledTransport(fabric.defaults.transport, factor))
    if parameter == LATENCY:
        levels = tuple(evolve(level, latency=level.latency * factor) for level in fabric.levels)
        return _with(fabric, fabric.bandwidths, fabric.latencies * factor, levels)
    links = np.arange(len(fabric.bandwidths)) if parameter == ALL else bandwidths_of(fabric)[parameter]
    bandwidths = fabric.bandwidths.copy()
    bandwidths[links] *= factor
    # Algorithms see levels as much narrower, or wider, as what all NPUs send along them at once becomes.
    levels = tuple(
        evolve(level, bandwidth=level.bandwidth * change)
        for level, change in zip(fabric.levels, _changes(network, bandwidths[: len(network.bandwidths)]), strict=True)
    )
    return _with(fabric, bandwidths, fabric.latencies, levels)


def _with(fabric: Fabric, bandwidths: FloatArray, latencies: FloatArray, levels: tuple[Level, ...]) -> Fabric:
    """Return ``fabric`` with other links; those of its memories come behind those of its network."""
    memories = fabric.memories
    if memories is not None:
        own = len(memories.network.bandwidths)
        network = evolve(memories.network, bandwidths=bandwidths[:own], latencies=latencies[:own], levels=levels)
        memories = evolve(memories, network=network)
    return evolve(fabric, bandwidths=bandwidths, latencies=latencies, levels=levels, memories=memories)


def _changes(fabric: Fabric, bandwidths: FloatArray) -> list[float]:
    """Return how many times as fast each level of ``fabric`` is with other ``(links,)`` bandwidths."""
    place, sizes = fabric.coordinates, tuple(level.size for level in fabric.levels)
    if place is None:
        return [float((bandwidths / fabric.bandwidths).min())] * len(sizes)
    at = np.empty(len(fabric.npus), dtype=np.intp)
    at[np.ravel_multi_index(tuple(place.T), sizes)] = fabric.npus
    changes = []
    for number, size in enumerate(sizes):
        rates = []
        for step in dict.fromkeys((1, size // 2)):  # all NPUs send to the next position at once, or half way round
            there = place.copy()
            there[:, number] = (there[:, number] + step) % size
            destinations = at[np.ravel_multi_index(tuple(there.T), sizes)]
            routes = answers.route(fabric.defaults.router, fabric, fabric.npus, destinations)
            loads = np.bincount(routes.links, routes.coefficients, len(bandwidths))
            used = loads > 0
            rates.append([(each[used] / loads[used]).min(initial=np.inf) for each in (fabric.bandwidths, bandwidths)])
        before, after = np.min(rates, axis=0)
        changes.append(float(after / before) if np.isfinite(before) else 1.0)
    return changes


def bandwidths_of(fabric: Fabric) -> dict[str, IntArray]:
    """Return the links of each tier, both directions together, by the parameter that their bandwidth is."""
    found: dict[str, list[IntArray]] = {}
    for name, links in tiers_of(fabric):
        ends, _, dimension = name.partition(", ")
        both = " - ".join(sorted(ends.split(" -> ")))
        key = f"{BANDWIDTH}{both}, {dimension}" if dimension else f"{BANDWIDTH}{both}"
        found.setdefault(key, []).append(links)
    return {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}


@frozen
class ScaledTransport(Transport):
    """Another transport whose times are all longer, or shorter; where it fails, errors are about the other one."""

    name: ClassVar[str] = "scaled"

    base: Transport
    factor: float

    @property
    def rendezvous(self) -> bool:
        return self.base.rendezvous

    @property
    def ends_with_links(self) -> bool:
        return self.base.ends_with_links

    def algorithms(self, pattern: str) -> Sequence[str] | None:
        return algorithms(self.base, pattern)

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        known = costs(self.base, call, fabric)
        step, message = (_times(one, self.factor) for one in (known.step, known.message))
        return evolve(known, launch=known.launch * self.factor, step=step, message=message)


def _times(value: ByTier, factor: float) -> ByTier:
    return tuple(one * factor for one in value) if isinstance(value, tuple) else value * factor


@frozen
class VariedTopology(Topology):
    """Another topology whose fabric is changed in one parameter."""

    name: ClassVar[str] = "varied"

    base: Topology
    slots: Mapping[str, Any]  # what is used instead of the defaults of its fabric
    memories: tuple[MemoryTier, ...]
    parameter: str
    factor: float

    def build(self) -> Fabric:
        fabric = with_memories(built(self.base).with_defaults(**self.slots), self.memories)
        return varied(fabric, self.parameter, self.factor)


@frozen
class Variation:
    """One parameter of one machine, changed."""

    fabric: str | None  # whose; ``None`` for all, whose NPUs are changed
    parameter: str
    factor: float

    def __str__(self) -> str:
        percent = f"{(self.factor - 1) * 100:+.4g} %"
        return f"{self.parameter}{f' of {self.fabric}' if self.fabric else ''} {percent}"


def changed(experiment: Experiment, variation: Variation | None) -> Experiment:
    if variation is None:
        return experiment
    if variation.fabric is None:
        rows = (evolve(row, compute_scale=row.compute_scale / variation.factor) for row in experiment.workloads)
        return evolve(experiment, workloads=tuple(rows))

    def column(one: FabricSpec) -> FabricSpec:
        if one.name != variation.fabric:
            return one
        topology = VariedTopology(one.topology, one.slots, one.memories, variation.parameter, variation.factor)
        return evolve(one, topology=topology, slots={}, memories=())

    return evolve(experiment, fabrics=tuple(map(column, experiment.fabrics)))
