"""FRED_m(P): its parts, and routing by recursive colouring of conflict graphs (FRED, ISCA 2025, section on the switch).

Flows that share a microswitch on either side must take different middle switches. Which of them may share a middle
switch beyond that is only known inside it: where a set of flows turns out to be too much for one, it becomes a *clash*
of the outer graph, and the search goes on. A set that contains an impossible one is impossible, so this is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial, reduce
from operator import or_

from attrs import define, field, frozen

from fredfw.errors import SimulationError
from fredfw.units import whole
from fredfw_topology_fred.switch.configuration import SwitchConfiguration, SwitchFlow, check

STEPS = 200_000  # colours that one search may try, a few seconds' worth; a dozen flows never need that many


class RoutingConflict(SimulationError):  # noqa: N818  (the paper's word for it)
    """Flows that a switch cannot carry together.

    Args:
        m: Number of middle switches.
        ports: Ports of the switch.
        core: Flows that cannot be routed together; as few as the search's bound allows, so mostly the rest routes if
            any of them is left out.
        place: The middle switches on the way to where the recursion got stuck, outermost first.
        proven: Whether there is no way; ``False`` if the search was cut short.

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


@frozen
class FredSwitch:
    """FRED_m(P), the Clos-like recursive switch of FRED (ISCA 2025, section on the FRED switch).

    P = 2r or 2r + 1 ports: r R microswitches at the inputs and r D microswitches at the outputs, with m middle switches
    of r (even) or r + 1 (odd) ports between them, which are built the same way; an odd last port reaches every middle
    switch through a demultiplexer and a multiplexer. FRED_m(2) is one RD microswitch.

    Raises:
        InputError: ``m`` or ``ports``, which is P, is below 2.
    """

    m: int = field(validator=whole(2))
    ports: int = field(validator=whole(2))

    @cached_property
    def parts(self) -> Mapping[str, int]:
        """How many R, D and RD microswitches it has, multiplexers and demultiplexers, middle switches included."""
        if self.ports == 2:
            return Counter(RD=1)
        half, odd = divmod(self.ports, 2)
        parts = Counter(R=half, D=half, mux=odd, demux=odd)
        for kind, count in FredSwitch(self.m, _middle(self.ports)).parts.items():
            parts[kind] += self.m * count
        return parts

    def route(self, flows: Iterable[SwitchFlow]) -> SwitchConfiguration:
        """Return a configuration that carries ``flows`` together.

        Raises:
            InvalidFlowError: A port that does not exist, or that two flows use on the same side.
            RoutingConflict: There is no such configuration, or (``proven`` is false then) none was found within the
                search's bound.
        """
        listed = tuple(flows)
        check(listed, self.ports)
        search = Search(self.m)
        found = search.attempt(self.ports, listed)
        if isinstance(found, SwitchConfiguration):
            return found
        proven = not search.exhausted
        stuck = search.reduced(self.ports, found)
        raise RoutingConflict(self.m, self.ports, stuck.core, place=stuck.place, proven=proven)

    def idle(self) -> SwitchConfiguration:
        """Return the configuration that carries nothing."""
        return SwitchConfiguration(self.m, self.ports, (), (), (None,) * self.m if self.ports > 2 else ())

    def __str__(self) -> str:
        return f"FRED_{self.m}({self.ports})"


@define
class Search:
    """Routes flows, and to do so colours graphs by DSATUR with backtracking."""

    # That takes the vertex with the fewest colours left first (Brelaz, 1979). Within ``limit`` steps the search is
    # exact: where it finds nothing there is nothing. What comes after has only the greedy order left, for it may not go
    # back, and ``exhausted`` is set when that fails.
    colours: int  # how many there are; they are interchangeable
    limit: int = STEPS  # steps for all graphs together
    steps: int = field(default=0, init=False)  # colours tried so far
    exhausted: bool = field(default=False, init=False)  # whether any graph was given up
    # what is known about a middle switch, which holds for all switches of its size
    _known: dict[tuple[int, frozenset[SwitchFlow]], SwitchConfiguration | _Stuck] = field(factory=dict, init=False)

    def colour(self, conflicts: Sequence[int], clashes: Sequence[int]) -> list[int] | None:
        """Return the colour of each vertex, or ``None`` if there is no colouring (or none was found in time)."""
        # ``conflicts`` are the neighbours of each vertex, ``clashes`` sets of two or more vertices that may not all
        # have one colour, both as bit masks.
        count = len(conflicts)
        classes = [0] * self.colours  # vertices of each colour, as bit masks
        colour_of = [-1] * count
        degrees = [mask.bit_count() for mask in conflicts]
        concerning = [[clash for clash in clashes if clash >> vertex & 1] for vertex in range(count)]

        def extend(left: int, used: int, banned: list[int]) -> bool:
            """Colour the vertices of the mask ``left``; ``banned`` has the colours each may not take, as bit masks."""
            if not left:
                return True
            # Unused colours are equivalent, so only one of them need be tried.
            choices = (1 << min(used + 1, self.colours)) - 1
            vertex = min(_bits(left), key=lambda one: ((choices & ~banned[one]).bit_count(), -degrees[one]))
            for colour in _bits(choices & ~banned[vertex]):
                self.steps += 1
                classes[colour] |= 1 << vertex
                colour_of[vertex] = colour
                after = banned.copy()
                for neighbour in _bits(conflicts[vertex] & left):
                    after[neighbour] |= 1 << colour
                for clash in concerning[vertex]:
                    rest = clash & ~classes[colour]
                    if rest & (rest - 1) == 0:  # one is left, and must take another colour
                        after[rest.bit_length() - 1] |= 1 << colour
                if extend(left & ~(1 << vertex), max(used, colour + 1), after):
                    return True
                classes[colour] &= ~(1 << vertex)
                if self.steps >= self.limit:
                    self.exhausted = True
                    return False
            return False

        return colour_of if extend((1 << count) - 1, 0, [0] * count) else None

    def attempt(self, ports: int, flows: tuple[SwitchFlow, ...]) -> SwitchConfiguration | _Stuck:
        m = self.colours
        if ports == 2:
            return SwitchConfiguration(m, ports, flows)
        inner = [flow.inside() for flow in flows]
        conflicts = _conflicts(inner)
        clashes: list[int] = []
        place: tuple[int, ...] = ()
        while True:
            if (carriers := self.colour(conflicts, clashes)) is None:
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
        for flow in stuck.core:
            rest = tuple(one for one in stuck.core if one != flow)
            fewer = self.attempt(ports, rest)
            if self.exhausted:
                break
            if isinstance(fewer, _Stuck):
                stuck = _Stuck(rest, fewer.place)
        return stuck

    def _carry(self, ports: int, flows: tuple[SwitchFlow, ...]) -> SwitchConfiguration | _Stuck:
        key = ports, frozenset(flows)
        if key not in self._known:
            found = self.attempt(ports, flows)
            self._known[key] = self.reduced(ports, found) if isinstance(found, _Stuck) else found
        return self._known[key]


@define
class _Stuck:
    """Flows that cannot be carried together, and the middle switches on the way to where that shows."""

    core: tuple[SwitchFlow, ...]
    place: tuple[int, ...] = ()


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


def _bits(mask: int) -> list[int]:
    bits = []
    while mask:
        low = mask & -mask
        bits.append(low.bit_length() - 1)
        mask ^= low
    return bits
