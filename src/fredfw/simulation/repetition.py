"""Repetitions that are simulated as one, where something changes on the way: they are split at the current one.

Compressed, all repetitions drain before the latency or the next set-up of any is paid, and a fast flow runs ahead of
the slowest of its activity. Where an activity really is, then, says its slowest flow: a repetition that drains in t,
has a latency of l and a set-up of s takes t + l + s.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fredfw.fabric import Routes
from fredfw.simulation.laps import Lap, Laps, Position, SteadyLap, position, was_alone
from fredfw.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from fredfw.simulation.carrier import Batch, BatchLoad, Carrier


def split(carrier: Carrier, batch: Batch) -> None:
    """Leave on the links what the current repetitions of ``batch`` have still to send; the others come after them."""
    flows = batch.request.flows
    if flows.repeat == 1 or math.isnan(batch.since) or not len(flows.volumes):
        return
    laps = batch.laps = _laps(batch)
    for place, load in enumerate(list(batch.loads)):
        mine = _several(batch, laps, place)
        if mine.any():
            _split_load(carrier, batch, laps, load, mine)


def correct(carrier: Carrier, batch: Batch, place: int, carried: FloatArray) -> None:
    """Set the ``(F,)`` bytes ``carried`` by a load to those of the repetitions that have begun."""
    laps = _laps(batch)
    mine = _several(batch, laps, place)
    if mine.any():
        load = batch.loads[place]
        chosen = mine[load.activity]
        carried[chosen] = _position(carrier, batch, laps, load)[1][chosen]


def next_laps(carrier: Carrier, batch: Batch, laps: Laps, activities: IntArray) -> IntArray:
    """Start the repetitions that are left of ``activities``; return those that have none left."""
    more = laps.later[activities] > 0
    again, over = activities[more], activities[~more]
    batch.progress()[0][over] = -1
    if len(again):
        laps.now[again], laps.later[again] = laps.later[again], 0
        flows = batch.request.flows
        members = np.flatnonzero(np.isin(flows.activity, again))
        times = laps.now[flows.activity[members]]
        detours = carrier.detours
        if detours.router is not None:
            begin = np.zeros(len(flows.volumes), dtype=bool)
            begin[members] = True
            batch.routes = Routes.choose(begin, detours.routes(flows), batch.routes)
            if detours.crossing(batch.routes)[members].any():
                carrier.hold(flows.label)
        _lay(carrier, batch, laps, members, flows.volumes[members] * times, batch.delays(members, times))
    return over


def _laps(batch: Batch) -> Laps:
    """Return how far ``batch`` is; all of its repetitions are on the links where nothing has split them."""
    return batch.laps or Laps.of(batch.request.flows.activities, batch.request.flows.repeat, batch.since)


def _several(batch: Batch, laps: Laps, place: int) -> BoolArray:
    """Return the ``(activities,)`` mask of those with several repetitions on a load that have not ended."""
    several: BoolArray = laps.several(place) & (batch.progress()[0] >= 0)
    return several


def _split_load(carrier: Carrier, batch: Batch, laps: Laps, load: BatchLoad, mine: BoolArray) -> None:
    chosen = np.flatnonzero(mine[load.activity])
    at, sent = _position(carrier, batch, laps, load)
    carrier.withdraw(load, chosen, sent[chosen])
    divided = np.unique(load.activity[chosen])
    laps.later[divided] = laps.now[divided] - at.done[divided] - 1
    laps.now[mine] = 1
    _lay(carrier, batch, laps, load.flows(chosen), at.left[chosen], at.delays[chosen])


def _position(carrier: Carrier, batch: Batch, laps: Laps, load: BatchLoad) -> tuple[Position, FloatArray]:
    """Return where the repetitions are that are on a load, and the ``(F,)`` bytes that have been sent by now.

    Args:
        carrier: The network.
        batch: Theirs.
        laps: Its.
        load: What is on the links of them.
    """
    now = carrier.calendar.now
    activity, elapsed = load.activity, now - laps.since
    times = laps.now[activity]
    volumes = load.volumes / times
    sent = load.volumes - carrier.table.remaining(load, now)
    if load.lap is None:
        load.lap = Lap(carrier.solver, carrier.table.bandwidths, load, volumes)
    lap: Lap | SteadyLap = load.lap
    if not was_alone(load.lap, sent, volumes, elapsed[activity], times):
        assert load.drained is not None  # it has several repetitions
        seconds = np.minimum(load.drained, now) - laps.since[activity]
        lap = SteadyLap(volumes, np.divide(sent, seconds, out=np.zeros(len(sent)), where=seconds > 0))
    at = position(
        lap,
        volumes=volumes,
        latencies=load.routes.latencies,
        setup=batch.setup,
        activity=activity,
        elapsed=elapsed,
        laps=laps.now,
    )
    return at, at.done[activity] * volumes + volumes - at.left


def _lay(carrier: Carrier, batch: Batch, laps: Laps, flows: IntArray, volumes: FloatArray, delays: FloatArray) -> None:
    """Put ``flows`` of ``batch``, all that there are of some activities, on the links once more."""
    pending, end = batch.progress()
    counts = np.bincount(batch.request.flows.activity[flows], minlength=len(pending))
    mine = counts > 0
    laps.since[mine] = carrier.calendar.now
    laps.load[mine] = len(batch.loads)
    end[mine] = carrier.calendar.now
    pending[mine] = counts[mine]
    # Deliveries that were due are not any more.
    carrier.calendar.drop(batch)
    carrier.deliver(batch, np.flatnonzero((pending == 0) & ~mine))
    carrier.lay(batch, flows, volumes, delays)
