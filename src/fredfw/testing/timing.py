"""A schedule alone on a fabric: how long it takes, and what crosses the links."""

from __future__ import annotations

import numpy as np
from attrs import evolve, frozen

from fredfw.collectives import Schedule
from fredfw.collectives.schedule import carried
from fredfw.errors import SimulationError
from fredfw.fabric import Fabric, IdealTransport, Operation
from fredfw.fidelities import COMPRESSED, STEPWISE
from fredfw.simulation import FlowNetwork, Lowering, ScheduleRun
from fredfw.typing import FloatArray, IntArray


@frozen(eq=False)
class Run:
    """How long a schedule took, and the ``(links,)`` bytes that crossed each link."""

    seconds: float
    link_bytes: FloatArray


def simulate(fabric: Fabric, schedule: Schedule, members: IntArray, *, stepwise: bool = False) -> Run:
    """Run ``schedule`` among the NPUs numbered ``members`` of ``fabric``, shared as it wants."""
    fabric = fabric.with_defaults(transport=IdealTransport())  # what a schedule takes, whoever runs it
    network = FlowNetwork(fabric)
    ended: list[IntArray] = []
    groups = fabric.npus[members][None, :]
    fidelity = STEPWISE if stepwise else COMPRESSED
    ScheduleRun(network, Lowering(fabric), schedule, groups, ended.append, fidelity=fidelity).start()
    network.advance()
    if not ended or not network.idle:
        raise SimulationError(f"{schedule.pattern} does not end on {fabric.name!r}: {', '.join(network.stalled())}")
    return Run(network.now, sum(network.link_bytes().values(), np.zeros(len(fabric.bandwidths))))


def expected_link_bytes(fabric: Fabric, schedule: Schedule, members: IntArray) -> FloatArray:
    """Return the ``(links,)`` bytes that ``schedule`` must put on each link, summed chunk by chunk."""
    total = np.zeros(len(fabric.bandwidths))
    nodes = fabric.npus[members]
    sizes: FloatArray = np.broadcast_to(schedule.chunk_bytes, schedule.chunks)
    for phase in schedule.phases:
        stream = np.full(len(phase), -1) if phase.stream is None else phase.stream
        source, destination = nodes[phase.source], nodes[phase.destination]
        routes = fabric.defaults.router.route(fabric, source, destination)
        flow = np.repeat(np.arange(len(phase)), np.diff(routes.offsets))
        share = 1.0 if routes.coefficients is None else routes.coefficients
        trees = {}
        for number in np.unique(stream[stream >= 0]):
            ends = np.unique(source[stream == number]), np.unique(destination[stream == number])
            trees[int(number)] = fabric.defaults.router.tree(fabric, *ends, _operation(*map(len, ends)))
        for repetition in range(phase.repeat):
            row, chunk = carried(phase, repetition)
            amount = np.bincount(row, sizes[chunk], len(phase))
            amount[stream >= 0] = 0.0
            total += np.bincount(routes.links, amount[flow] * share, len(total))
            for one, tree in trees.items():
                carries = np.unique(chunk[stream[row] == one])
                np.add.at(total, tree.links, sizes[carries].sum())
    return total


def _operation(sources: int, destinations: int) -> Operation:
    if sources == 1:
        return Operation.MULTICAST
    return Operation.REDUCE if destinations == 1 else Operation.ALL_REDUCE


def scaled(fabric: Fabric, factor: float) -> Fabric:
    """Return ``fabric`` with ``factor`` times the bandwidth everywhere."""
    levels = tuple(evolve(level, bandwidth=level.bandwidth * factor) for level in fabric.levels)
    return evolve(fabric, bandwidths=fabric.bandwidths * factor, levels=levels)
