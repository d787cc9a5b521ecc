"""Links that close, open or change while flows are under way."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

from fredfw.fabric import Router, Routes
from fredfw.simulation import repetition
from fredfw.simulation.carrier import Batch, Carrier
from fredfw.simulation.core.loads import LEAST
from fredfw.typing import FloatArray, IntArray


@frozen
class Rerouting:
    """What became of the flows whose links were closed.

    Args:
        moved: How many have other routes now.
        stranded: Labels of flow sets that have no other; they wait until links are back.
    """

    moved: int
    stranded: tuple[str, ...]


def set_bandwidths(carrier: Carrier, bandwidths: FloatArray) -> None:
    """Give the links other ``(links,)`` bandwidths."""
    carrier.claims.yield_links()
    carrier.table.pass_time(carrier.calendar.now)
    for batch in carrier.batches:
        repetition.split(carrier, batch)
    carrier.table.set_bandwidths(bandwidths)
    carrier.detours.close(bandwidths == 0)
    for load in [load for batch in carrier.batches for load in batch.loads]:
        # Messages without bytes that have waited for a way.
        waited = load.draining & (load.volumes <= LEAST) & ~carrier.detours.crossing(load.routes)
        carrier.drain_at_once(load, waited)


def reroute(carrier: Carrier, router: Router) -> Rerouting:
    """Route flows over closed links again with ``router``, with what they have left, and from now on what starts."""
    carrier.claims.yield_links()
    carrier.table.pass_time(carrier.calendar.now)
    detours = carrier.detours
    detours.use(router)
    moved, stranded = 0, set()
    for batch in carrier.batches:
        crossing = detours.crossing(batch.routes)
        if not crossing.any():
            continue
        routes = detours.routes(batch.request.flows)
        leaving = crossing & ~detours.crossing(routes)
        if leaving.any():
            batch.routes = Routes.choose(leaving, routes, batch.routes)
            repetition.split(carrier, batch)
        if math.isnan(batch.since) and not leaving[crossing].all():
            stranded.add(batch.request.flows.label)
        for place, load in enumerate(list(batch.loads)):
            draining = np.flatnonzero(load.draining)
            flows = load.flows(draining)
            if leaving[flows].any():
                moved += int(leaving[flows].sum())
                _replace(carrier, batch, place, draining[leaving[flows]])
            if (crossing & ~leaving)[flows].any():
                stranded.add(batch.request.flows.label)
    return Rerouting(moved, tuple(sorted(stranded)))


def _replace(carrier: Carrier, batch: Batch, place: int, leaving: IntArray) -> None:
    """Let the flows ``leaving`` of a load go on over the routes that they have now, with what they have left."""
    batch.progress()  # from now on the activities are not at the same point
    load = batch.loads[place]
    left = carrier.table.remaining(load, carrier.calendar.now)[leaving]
    flows = load.flows(leaving)
    carrier.withdraw(load, leaving, load.volumes[leaving] - left)
    delays = batch.routes.latencies[flows]
    if batch.laps is not None:
        delays = delays + batch.setup * (batch.laps.later[load.activity[leaving]] > 0)
    carrier.lay(batch, flows, left, delays)
