"""Routing in a FRED switch: recursive colouring of conflict graphs (FRED, ISCA 2025, section on the FRED switch).

Flows that share a microswitch on either side must take different middle switches. Which of them may share a middle
switch beyond that is only known inside it: where a set of flows turns out to be too much for one, it becomes a *clash*
of the outer graph, and the search goes on. A set that contains an impossible one is impossible, so this is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial, reduce
from operator import or_

from attrs import define, evolve, field

from fredfw.errors import SimulationError
from fredfw_topology_fred.switch.colouring import Search
from fredfw_topology_fred.switch.configuration import SwitchConfiguration, SwitchFlow


class RoutingConflict(SimulationError):  # noqa: N818  (the paper's word for it)
    """Flows that a switch cannot carry together.

    Args:
        m: Number of middle switches.
        ports: Ports of the switch.
        core: Flows that cannot be routed together; as few as the search's bound allows, so mostly the rest routes if
            any of them is left out.
        place: The middle switches on the way to where the recursion got stuck, outermost first.
        proven: Whether there is no way; ``False`` if the search was cut short, or others were not to be moved.

    Attributes:
        depth: How many switches ``place`` has.
    """

    def __init__(
        self, m: int, ports: int, core: tuple[SwitchFlow, ...], *, place: tuple[int, ...] = (), proven: bool = False
    ) -> None:
        self.m, self.ports, self.core, self.place, self.proven = m, ports, core, place, proven
        self.depth = len(place)
        where = "in the switch itself" if not place else "in middle switch " + " of ".join(map(str, reversed(place)))
        how = "cannot be routed" if proven else "could not be routed"
        super().__init__(
            f"FRED_{m}({ports}): {', '.join(map(str, core))} {how} together, stuck at depth {self.depth} {where}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return partial(RoutingConflict, place=self.place, proven=self.proven), (self.m, self.ports, self.core)


def route(m: int, ports: int, flows: Sequence[SwitchFlow]) -> SwitchConfiguration:
    """Return a configuration of FRED_m(ports) that carries ``flows``, which share no input and no output.

    Raises:
        RoutingConflict: There is none, or (``proven`` is false then) none was found within the search's bound.
    """
    search = _Routing(Search(m))
    found = search.attempt(ports, tuple(flows))
    if isinstance(found, SwitchConfiguration):
        return evolve(found, steps=search.colours.steps, exact=not search.colours.exhausted)
    proven = not search.colours.exhausted
    stuck = search.reduced(ports, found)
    raise RoutingConflict(m, ports, stuck.core, place=stuck.place, proven=proven)


def add(configuration: SwitchConfiguration, flow: SwitchFlow) -> SwitchConfiguration:
    """Return ``configuration`` with ``flow`` added and all others left where they are.

    Raises:
        RoutingConflict: That needs a rearrangement, which may exist (``proven`` is false); ``core`` has the flows in
            the way, at whatever depth, and ``flow``.
    """
    added = _added(configuration, flow)
    if isinstance(added, SwitchConfiguration):
        return added
    raise RoutingConflict(configuration.m, configuration.ports, (*added, flow))


def _added(configuration: SwitchConfiguration, flow: SwitchFlow) -> SwitchConfiguration | tuple[SwitchFlow, ...]:
    """Return the configuration with ``flow``, or the flows that are in its way."""
    flows = (*configuration.flows, flow)
    if configuration.ports == 2:
        return evolve(configuration, flows=flows)
    inner = flow.inside()
    carried_by = dict(zip(configuration.flows, configuration.carriers, strict=True))
    blocking = {one for one in configuration.flows if one.inside().meets(inner)}
    taken = {carried_by[one] for one in blocking}
    for carrier, middle in enumerate(configuration.middles):
        if carrier in taken:
            continue
        carried = _added(middle or idle(configuration.m, _middle(configuration.ports)), inner)
        if isinstance(carried, SwitchConfiguration):
            return evolve(
                configuration,
                flows=flows,
                carriers=(*configuration.carriers, carrier),
                middles=(*configuration.middles[:carrier], carried, *configuration.middles[carrier + 1 :]),
            )
        blocking.update(one for one in configuration.flows if carried_by[one] == carrier and one.inside() in carried)
    return tuple(one for one in configuration.flows if one in blocking)


def idle(m: int, ports: int) -> SwitchConfiguration:
    """Return the configuration that carries nothing."""
    return SwitchConfiguration(m, ports, (), (), (None,) * m if ports > 2 else ())


@define
class _Stuck:
    """Flows that cannot be carried together, and the middle switches on the way to where that shows."""

    core: tuple[SwitchFlow, ...]
    place: tuple[int, ...] = ()


@define
class _Routing:
    """One search; what is known about a middle switch holds for all switches of its size."""

    colours: Search
    _known: dict[tuple[int, frozenset[SwitchFlow]], SwitchConfiguration | _Stuck] = field(factory=dict, init=False)

    def attempt(self, ports: int, flows: tuple[SwitchFlow, ...]) -> SwitchConfiguration | _Stuck:
        """Return a configuration of ``flows``, or all of them where there is none."""
        m = self.colours.colours
        if ports == 2:
            return SwitchConfiguration(m, ports, flows)
        inner = [flow.inside() for flow in flows]
        conflicts = _conflicts(inner)
        clashes: list[int] = []
        place: tuple[int, ...] = ()
        while True:
            carriers = self.colours.colour(conflicts, clashes)
            if carriers is None:
                return _Stuck(flows, place)
            middles: list[SwitchConfiguration | None] = []
            for middle in range(m):
                carried = tuple(one for one, carrier in zip(inner, carriers, strict=True) if carrier == middle)
                found = self._carry(_middle(ports), carried) if carried else None
                if isinstance(found, _Stuck):
                    stuck = set(found.core)
                    clashes.append(
                        sum(1 << at for at, one in enumerate(inner) if one in stuck and carriers[at] == middle)
                    )
                    place = (middle, *found.place)
                    break
                middles.append(found)
            else:
                return SwitchConfiguration(m, ports, flows, tuple(carriers), tuple(middles))

    def reduced(self, ports: int, stuck: _Stuck) -> _Stuck:
        """Leave out flows as long as the rest is still impossible, and the search's bound is not reached."""
        for flow in stuck.core:
            rest = tuple(one for one in stuck.core if one != flow)
            fewer = self.attempt(ports, rest)
            if self.colours.exhausted:
                break
            if isinstance(fewer, _Stuck):
                stuck = _Stuck(rest, fewer.place)
        return stuck

    def _carry(self, ports: int, flows: tuple[SwitchFlow, ...]) -> SwitchConfiguration | _Stuck:
        """Return a configuration of a middle switch for ``flows``, or an impossible part of them, reduced."""
        key = ports, frozenset(flows)
        if key not in self._known:
            found = self.attempt(ports, flows)
            self._known[key] = self.reduced(ports, found) if isinstance(found, _Stuck) else found
        return self._known[key]


def _middle(ports: int) -> int:
    return -(-ports // 2)


def _conflicts(inner: Sequence[SwitchFlow]) -> list[int]:
    """Return the conflict graph: for each flow the others that it meets, as a bit mask."""
    lines = [[(side, port) for side in ("inputs", "outputs") for port in getattr(flow, side)] for flow in inner]
    users: Counter[tuple[str, int]] = Counter()
    for at, used in enumerate(lines):
        for line in used:
            users[line] |= 1 << at
    return [reduce(or_, (users[line] for line in used)) & ~(1 << at) for at, used in enumerate(lines)]
