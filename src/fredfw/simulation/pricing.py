"""What a fabric's transport adds to flows: their latencies, what they put on links, and the rates they reach."""

from collections.abc import Callable
from functools import partial

import numpy as np
from attrs import evolve, fields, frozen

from fredfw import arrays
from fredfw.collectives import Schedule
from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric import Call, Costs, Fabric, FlowSet, IdealTransport, Router, Routes
from fredfw.fabric.transport import ByTier
from fredfw.keeping import kept
from fredfw.simulation import answers
from fredfw.typing import AnyArray, FloatArray, IntArray

Load = tuple[IntArray, IntArray, IntArray]
"""Of each flow of a phase in one group: messages, steps that it stands for, and flows that its destination reduces.

The messages are those that its source sends, or its destination receives, if those are more.
"""
_ALONE: Load = (np.ones(1, dtype=np.intp), np.ones(1, dtype=np.intp), np.zeros(1, dtype=np.intp))


@frozen(eq=False, kw_only=True)
class Price(Costs):
    """The costs of one call on one fabric; no other is equal, for admissions tell the routes of two calls apart."""

    fabric: Fabric

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def routes(self, routes: Routes, load: Load) -> Routes:
        if self.free or not len(routes):
            return routes
        latencies = routes.latencies + self.added(routes, load)
        coefficients = routes.coefficients
        if np.not_equal(self.efficiency, 1).any():
            wire = 1 / _of_tiers(self.efficiency, self.fabric.tiers[routes.links])
            coefficients = wire if coefficients is None else coefficients * wire
        return evolve(routes, latencies=latencies, coefficients=coefficients)

    def routed(self, build: Callable[[Router], Routes], load: Load, router: Router) -> Routes:
        return self.routes(build(router), load)

    def added(self, routes: Routes, load: Load) -> FloatArray:
        """Return the ``(F,)`` seconds that these flows take for their steps and messages."""
        messages, steps, _ = load
        groups = len(routes) // len(messages)
        used = ~routes.local
        tier = _tiers(self.fabric, routes)[used]
        added = np.zeros(len(routes))
        each = _of_tiers(self.step, tier) + _of_tiers(self.message, tier) * np.tile(messages, groups)[used]
        added[used] = np.tile(steps, groups)[used] * each
        return added

    def caps(self, routes: Routes, load: Load) -> FloatArray | None:
        reduction = float(self.reduction)
        if np.isinf(np.asarray(self.cap, dtype=float)).all() and np.isinf(reduction):
            return None
        caps: FloatArray = np.where(routes.local, np.inf, _of_tiers(self.cap, _tiers(self.fabric, routes)))
        if np.isfinite(reduction):
            reductions = np.tile(load[2], len(routes) // max(len(load[2]), 1))
            np.minimum(caps, reduction / np.maximum(reductions, 1), out=caps, where=reductions > 0)
        return caps


class Pricing:
    """Asks the transport of a fabric what calls cost, once for each."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric.network
        self._transport = fabric.defaults.transport
        self.ideal = type(self._transport) is IdealTransport  # nothing costs anything, and nobody need be asked
        self._calls: dict[Schedule, tuple[str, float, float]] = {}
        self._prices: dict[Call, Price] = {}

    def introduce(self, schedule: Schedule, algorithm: str, size: float, delay: float = 0.0) -> None:
        """Note who wrote ``schedule``, for ``size`` bytes; its launch takes ``delay`` seconds more."""
        if not self.ideal:
            self._calls[schedule] = algorithm, size, delay

    def of(self, schedule: Schedule, groups: IntArray, steps: int, volume: tuple[float, float]) -> Price:
        """Return what ``schedule`` costs in ``groups``; ``steps`` and ``volume`` of its longest way, see ``Call``."""
        known = self._calls.get(schedule)
        if known is None:
            message = f"transport {self._transport.name!r} cannot tell what a schedule costs that no planner has chosen"
            raise InputError(message, accepted="a planner of the same fabric, or the transport 'ideal'")
        algorithm, size, delay = known
        servers = np.sort(self._fabric.servers[groups], axis=1)
        nodes = 1 + int((servers[:, 1:] != servers[:, :-1]).sum(axis=1).max(initial=0))
        switched = any(phase.stream is not None for phase in schedule.phases)
        price = self.price(Call(str(schedule.pattern), algorithm, schedule.ranks, size, nodes, steps, volume, switched))
        return evolve(price, launch=price.launch + delay) if delay else price

    def message(self, flows: FlowSet, source: int, destination: int) -> FlowSet:
        servers = self._fabric.servers
        if max(source, destination) >= len(servers):  # a memory, whose latency is all that its transactions cost
            return flows
        nodes = 1 if servers[source] == servers[destination] else 2
        size = float(flows.volumes[0])
        price = self.price(Call("point-to-point", "", 2, size, nodes, volume=(size, size)))
        routes = price.routes(flows.routes, _ALONE)
        again = flows.again
        return evolve(
            flows,
            routes=routes,
            caps=price.caps(routes, _ALONE),
            setup=price.launch,
            setup_once=True,
            again=None if again is None else partial(price.routed, again, _ALONE),
        )

    def price(self, call: Call) -> Price:
        """Return what ``call`` costs; ``UnsupportedError`` names the slot where the transport knows nothing of it."""
        return kept(self._prices, call, partial(self._ask, call))

    def _ask(self, call: Call) -> Price:
        try:
            costs = answers.costs(self._transport, call, self._fabric)
        except UnsupportedError as error:
            raise error.at(key="transport") from None
        return Price(fabric=self._fabric, **{one.name: getattr(costs, one.name) for one in fields(Costs)})


def _of_tiers(values: ByTier, tiers: AnyArray) -> FloatArray:
    known = np.asarray(values, dtype=float)
    return known[tiers] if known.ndim else np.broadcast_to(known, len(tiers))


def _tiers(fabric: Fabric, routes: Routes) -> AnyArray:
    """Return the ``(F,)`` outermost tier that each flow crosses; 0 for one that crosses nothing."""
    return arrays.reduced(np.maximum, fabric.tiers[routes.links], routes.offsets, 0)
