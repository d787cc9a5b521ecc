"""The flows that drain: what each has left, at which rate it runs, and when the first of them is done.

State is arrays with an entry per flow, load by load; there is no Python object per flow.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from hashlib import blake2b

import numpy as np
from attrs import asdict, define, field

from fredfw.fabric import Routes
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.sharing import Effort, Incidence
from fredfw.typing import BoolArray, FloatArray, IntArray

# A flow is drained when what remains is below this share of its own volume.
_DRAINED = 1e-11
# What a flow still has as long as it is not drained, so that without a rate it never ends.
LEAST = np.finfo(float).tiny
# Of how many loads at most sets are remembered.
_LOADS = 256
# It is worth to see which flows a change reaches where there are so many, and fewer than one in eight came or went.
_WORTH, _FEW = 256, 8
# After it has reached most of them, that is not tried again for so many solves at most.
_PATIENCE = 63


class _Itself:
    """An array as part of a key: equal to itself alone."""

    def __init__(self, array: FloatArray) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.array is other.array

    def __hash__(self) -> int:
        return id(self.array)


@define(eq=False, kw_only=True)
class Load:
    """Flows that were put on the links together.

    Args:
        routes: Their links.
        volumes: ``(F,)`` bytes of each.
        delays: ``(F,)`` seconds from the last byte's departure to its delivery.
        caps: ``(F,)`` upper limits of their rates, or ``None``.
        priority: Their class.
        draining: ``(F,)`` which of them still have bytes to send.
        count: How many those are.
        first: Serial number of the first; the others' follow.
        key: Names the draining flows; empty until it is asked for.
    """

    routes: Routes
    volumes: FloatArray
    delays: FloatArray
    caps: FloatArray | None
    priority: int
    draining: BoolArray = field(init=False)
    count: int = field(init=False)
    first: int = field(init=False, default=-1)
    key: tuple[object, ...] = field(init=False, default=())

    def __attrs_post_init__(self) -> None:
        self.count = len(self.volumes)
        self.draining = np.ones(self.count, dtype=bool)

    def name(self) -> tuple[object, ...]:
        """Name the draining flows, by the identity of their routes and limits."""
        caps = None if self.caps is None else _Itself(self.caps)
        self.key = self.routes, caps, self.priority, self.draining.tobytes()
        return self.key

    def incidence(self) -> Incidence:
        """Return the links of the flows that drain."""
        routes, classes = self.routes, np.broadcast_to(np.intp(self.priority), len(self.draining))
        whole = Incidence(routes.offsets, routes.links, routes.coefficients, self.caps, classes)
        return whole if self.count == len(self.draining) else whole.select(self.draining)


@define
class Statistics:
    """Counters of one engine.

    Args:
        events: Moments at which something happened.
        batches: Flow sets started.
        flows: Flows started.
        solves: Times that rates were computed, of all flows or of those that share links.
        cached: Times that they were found in the cache instead.
        passes: Passes over the flows that all solves took together.
        most_passes: Passes of the solve that took most.
        waits: Flow sets that had to wait for others, however often they were asked about again.
        splits: Flow sets that ran in parts.
        decompositions: Flow sets that were replaced by unicasts.
        met: Meetings of flow sets out of step, of which one was repetitions that are simulated as one. If there is
            none, the flow sets take as long one repetition after the other.
    """

    events: int = 0
    batches: int = 0
    flows: int = 0
    solves: int = 0
    cached: int = 0
    passes: int = 0
    most_passes: int = 0
    waits: int = 0
    splits: int = 0
    decompositions: int = 0
    met: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counters by name."""
        return asdict(self)

    def __add__(self, other: Statistics) -> Statistics:
        """Return the counters of two simulations."""
        mine, others = asdict(self), asdict(other)
        sums = {name: value + others[name] for name, value in mine.items()}
        return Statistics(**sums | {"most_passes": max(self.most_passes, other.most_passes)})


class Traffic:
    """Flows on the links of a fabric, from when they are put there to when they are drained.

    Args:
        solver: Knows rates.
        statistics: Counts solves.

    Attributes:
        loads: Those with flows that drain, in the order in which they came.
        bandwidths: ``(links,)`` bytes per second; 0 for a link that is closed.
        first_done: In how many seconds the first flow is drained, infinite if none will be; NaN where that is not known
            because flows have come or gone.
    """

    def __init__(self, solver: RateSolver, statistics: Statistics) -> None:
        self._solver = solver
        self._statistics = statistics
        self.bandwidths = solver.fabric.bandwidths
        self._setting = b""  # names the bandwidths, where they are not the fabric's
        self.loads: list[Load] = []
        self._firsts: list[int] = []
        self._issued = 0
        # One entry per draining flow, in the order of their serial numbers.
        self._serials: IntArray = np.zeros(0, dtype=np.intp)
        self._remaining = np.zeros(0)
        self._volumes = np.zeros(0)
        self._rates = np.zeros(0)
        self._joining: list[FloatArray] = []  # volumes of loads that have no entries yet
        self.first_done = math.inf
        self._first = 0
        # The incidence of flows that drained when it was last asked for, their serial numbers, and the next one then.
        self._incidence: tuple[Incidence, IntArray, int] | None = None
        self._effort = Effort()
        # What has changed since rates were last known: the flows that left, how many, and the first new one.
        self._left: list[tuple[Routes, IntArray]] = []
        self._gone = 0
        self._new = 0
        self._everything = True
        self._skips = self._skipped = 0

    def __len__(self) -> int:
        self._join()
        return len(self._serials)

    def put(self, load: Load) -> None:
        """Put ``load`` on the links."""
        load.first = self._issued
        self._issued += len(load.volumes)
        self.loads.append(load)
        self._firsts.append(load.first)
        self._joining.append(load.volumes)
        self.first_done = math.nan

    def _join(self) -> None:
        """Append what was put, all at once: often that is many loads at the same moment."""
        if self._joining:
            volumes = self._joining[0] if len(self._joining) == 1 else np.concatenate(self._joining)
            count, self._joining = len(volumes), []
            fresh = np.arange(self._issued - count, self._issued)
            if len(self._serials):
                self._serials = np.concatenate([self._serials, fresh])
                self._remaining = np.concatenate([self._remaining, volumes])
                self._volumes = np.concatenate([self._volumes, volumes])
                self._rates = np.concatenate([self._rates, np.zeros(count)])
            else:  # nothing is copied, for of millions of flows a new array takes as long as a pass over it
                self._serials, self._remaining, self._volumes, self._rates = fresh, volumes, volumes, np.zeros(count)

    def settle(self) -> float:
        """Give all flows their rates; return in how many seconds the first is drained, infinite if none will be."""
        self._join()
        self._solve()
        return self.first_done

    def drain(self, seconds: float) -> None:
        """Let time pass in which no flow is drained."""
        if seconds > 0 and len(self):
            left = self._rates * seconds
            np.subtract(self._remaining, left, out=left)
            self._remaining = np.maximum(left, LEAST, out=left)
            self.first_done -= seconds

    def drain_first(self) -> BoolArray:
        """Let time pass until the first flow is drained, and return the ``(F,)`` mask of those that then are."""
        left = self._rates * self.first_done
        np.subtract(self._remaining, left, out=left)
        # The first defines this moment; others join if what they have left then is rounding.
        done = left <= _DRAINED * self._volumes
        done[self._first] = True
        self._remaining = np.maximum(left, 0.0, out=left)
        self.first_done = 0.0
        return done

    def of(self, load: Load) -> slice:
        """Return where the draining flows of ``load`` are."""
        self._join()
        start = int(np.searchsorted(self._serials, load.first))
        return slice(start, start + load.count)

    def remaining(self, load: Load, ahead: float | FloatArray = 0.0) -> FloatArray:
        """Return the ``(F,)`` bytes that each flow of ``load`` has left ``ahead`` seconds from now, one or ``(F,)``."""
        place, left = self.of(load), np.zeros(len(load.volumes))
        seconds = np.broadcast_to(ahead, left.shape)[load.draining]
        left[load.draining] = np.maximum(self._remaining[place] - self._rates[place] * seconds, 0.0)
        return left

    def stalled(self) -> list[Load]:
        """Return the loads with flows that cannot move, now that rates are settled."""
        still = self._rates == 0
        return [load for load in self.loads if still[self.of(load)].any()]

    def take(self, done: BoolArray) -> list[tuple[Load, IntArray]]:
        """Take the ``(F,)`` flows ``done`` off the links; return them by load, as indices into it."""
        gone, keep = self._serials[done], ~done
        self._serials, self._remaining = self._serials[keep], self._remaining[keep]
        self._volumes, self._rates = self._volumes[keep], self._rates[keep]
        self.first_done = math.nan
        self._gone += len(gone)
        # Which links they leave matters where what that reaches will be looked for.
        local = self._solver.sharing.local and len(done) > _WORTH
        self._everything |= not local
        taken, low, count = [], 0, len(gone)
        while low < count:
            place = bisect_right(self._firsts, gone[low]) - 1
            load = self.loads[place]
            last = place + 1 == len(self._firsts)
            high = count if last else int(np.searchsorted(gone, self._firsts[place + 1]))
            flows = gone[low:high] - load.first
            load.draining[flows] = False
            load.count -= high - low
            load.key = ()
            if local:
                self._left.append((load.routes, flows))
            if not load.count:
                del self.loads[place], self._firsts[place]
            taken.append((load, flows))
            low = high
        return taken

    def drop(self, load: Load, flows: IntArray) -> None:
        """Take the ``flows`` of ``load`` off the links that are still there."""
        gone = np.zeros(len(load.volumes), dtype=bool)
        gone[flows] = True
        done = np.zeros(len(self), dtype=bool)
        done[self.of(load)] = gone[load.draining]
        self.take(done)

    def set_bandwidths(self, bandwidths: FloatArray) -> None:
        """Give the links other ``bandwidths``."""
        self.bandwidths = bandwidths
        same = np.array_equal(bandwidths, self._solver.fabric.bandwidths)
        self._setting = b"" if same else blake2b(bandwidths.tobytes()).digest()
        self._everything = True
        self.first_done = math.nan

    def _solve(self) -> None:
        """Set the rates of all flows, and with them when the first is drained."""
        if not self.loads:
            self.first_done = math.inf
            return
        apart = self._apart()
        if len(apart) == 1:
            self._rates = self._rates_of(self.loads)
        else:
            rates, self._incidence = np.empty(len(self)), None
            for loads in apart:
                bounds = np.cumsum([load.count for load in loads])[:-1]
                for load, known in zip(loads, np.split(self._rates_of(loads), bounds), strict=True):
                    rates[self.of(load)] = known
            self._rates = rates
        self._left, self._gone, self._new, self._everything = [], 0, self._issued, False
        with np.errstate(divide="ignore"):
            finish = self._remaining / self._rates  # infinite where a flow has no rate
        self._first = int(finish.argmin())
        self.first_done = float(finish[self._first])

    def _apart(self) -> list[list[Load]]:
        """Return the loads, apart where they share no links, directly or through others, and that is worth to know."""
        if len(self.loads) == 1 or len(self) < _WORTH * len(self.loads) or not self._solver.sharing.local:
            return [self.loads]
        islands: list[list[Load]] = []
        for load in self.loads:
            touched = [any(self._solver.meet(load.routes, one.routes) for one in island) for island in islands]
            joined = [one for island, near in zip(islands, touched, strict=True) if near for one in island]
            islands = [island for island, near in zip(islands, touched, strict=True) if not near]
            islands.append([*joined, load])
        return [sorted(island, key=lambda load: load.first) for island in islands]

    def _rates_of(self, loads: list[Load]) -> FloatArray:
        """Return the rates of the flows of ``loads``, which share no links with the others."""
        # Where so many loads are under way the same set never comes again.
        key = None if len(loads) > _LOADS else (self._setting, *[load.key or load.name() for load in loads])
        known = None if key is None else self._solver.find(key)
        if known is not None:
            self._statistics.cached += 1
            return known
        before = self._effort.passes
        rates = self._solved() if len(loads) == len(self.loads) else self._solved_alone(loads)
        passes = self._effort.passes - before
        self._statistics.solves += 1
        self._statistics.passes += passes
        self._statistics.most_passes = max(self._statistics.most_passes, passes)
        if key is not None:
            self._solver.remember(key, rates)
        return rates

    def _solved_alone(self, loads: list[Load]) -> FloatArray:
        """Return the rates of the flows of ``loads``."""
        incidence = Incidence.concatenate([load.incidence() for load in loads], self._effort)
        return self._solver.solve(incidence, self.bandwidths)

    def _solved(self) -> FloatArray:
        """Return the rates of all flows; what a change does not reach keeps the rate that it has."""
        solver, incidence = self._solver, self._links()
        reached = None if self._everything else self._reached(incidence)
        if reached is None:
            return solver.solve(incidence, self.bandwidths)
        rates = self._rates.copy()
        rates[reached] = solver.solve(incidence.select(reached), self.bandwidths)
        return rates

    def _reached(self, incidence: Incidence) -> BoolArray | None:
        """Return the ``(F,)`` mask of flows that what has come and gone reaches, or ``None`` for all."""
        fresh = int(np.searchsorted(self._serials, self._new))
        changed = len(self._serials) - fresh + self._gone
        if len(self._serials) <= max(_WORTH, _FEW * changed) or not self._solver.sharing.local:
            return None
        if self._skipped < self._skips:
            self._skipped += 1
            return None
        disturbed = np.zeros(len(self.bandwidths), dtype=bool)
        disturbed[incidence.links[incidence.offsets[fresh] :]] = True
        for routes, flows in self._left:
            disturbed[routes.links_of(flows)] = True
        reached = incidence.reach(disturbed)
        self._skips = min(2 * self._skips + 1, _PATIENCE) if 2 * reached.sum() > len(reached) else 0
        self._skipped = 0
        return reached

    def _links(self) -> Incidence:
        """Return the links of all flows: those of the last time that still drain, and what has come since."""
        parts, since = [], 0
        if self._incidence is not None:
            last, serials, since = self._incidence
            place = np.searchsorted(self._serials, serials)
            kept = self._serials[np.minimum(place, len(self._serials) - 1)] == serials
            parts.append(last.select(kept))
        new = len(self.loads)
        while new and self.loads[new - 1].first >= since:
            new -= 1
        parts += [load.incidence() for load in self.loads[new:]]
        whole = Incidence.concatenate(parts, self._effort)
        self._incidence = whole, self._serials, self._issued
        return whole
