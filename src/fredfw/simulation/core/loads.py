"""Flows that were put on the links together, and the counters of an engine."""

from __future__ import annotations

import numpy as np
from attrs import asdict, define, field

from fredfw.fabric import Routes
from fredfw.simulation.sharing import Incidence
from fredfw.typing import BoolArray, FloatArray, IntArray

# What a flow still has as long as it is not drained, so that without a rate it never ends.
LEAST = float(np.finfo(float).tiny)


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
        caps: ``(F,)`` upper limits of their rates, or ``None``.
        priority: Their class.
        label: What their bytes are accounted to.
        weight: What the policy says that it weighs.
        count: How many of them still have bytes to send.
        first: Place of the first in the table; those of the others follow.
        key: Names the draining flows; empty until it is asked for.
    """

    routes: Routes
    volumes: FloatArray
    caps: FloatArray | None
    priority: int
    label: str = ""
    weight: float = 1.0
    count: int = field(init=False)
    first: int = field(init=False, default=-1)
    key: tuple[object, ...] = field(init=False, default=())
    _draining: BoolArray | None = field(init=False, default=None)  # where some drain and others do not

    def __attrs_post_init__(self) -> None:
        self.count = len(self.volumes)

    @property
    def draining(self) -> BoolArray:
        """``(F,)`` which of them still have bytes to send."""
        return np.full(len(self.volumes), self.count > 0) if self._draining is None else self._draining

    @property
    def whole(self) -> bool:
        """Whether all of them have bytes to send."""
        return self.count == len(self.volumes)

    def take(self, flows: IntArray | None) -> None:
        """Note that ``(k,)`` ``flows``, or all, have nothing to send any more."""
        self.key = ()
        if flows is None:
            self.count, self._draining = 0, None
        else:
            draining = self._draining = self.draining
            draining[flows] = False
            self.count -= len(flows)

    def name(self) -> tuple[object, ...]:
        """Name the draining flows, by the identity of their routes and limits."""
        caps = None if self.caps is None else _Itself(self.caps)
        self.key = self.routes, caps, self.priority, self.weight, b"" if self.whole else self.draining.tobytes()
        return self.key

    def incidence(self) -> Incidence:
        """Return the links of the flows that drain."""
        routes, classes = self.routes, np.broadcast_to(np.intp(self.priority), len(self.volumes))
        weights = None if self.weight == 1.0 else np.full(len(self.volumes), self.weight)
        whole = Incidence(routes.offsets, routes.links, routes.coefficients, self.caps, classes, weights)
        return whole if self.whole else whole.select(self.draining)


@define
class Statistics:
    """Counters of one engine.

    Args:
        events: Moments at which something happened.
        batches: Flow sets started.
        flows: Flows started.
        solves: Times that rates were computed, of all flows or of those that share links.
        cached: Times that they were found in the cache instead.
        solved: Flows whose rates all solves together computed.
        passes: Passes over the flows that all solves took together.
        most_passes: Passes of the solve that took most.
        waits: Flow sets that had to wait for others, however often they were asked about again.
        splits: Flow sets that ran in parts.
        decompositions: Flow sets that were replaced by unicasts.
        met: Meetings of flow sets out of step, of which one was repetitions that are simulated as one. If there is
            none, the flow sets take as long one repetition after the other.
        skipped: Repetitions of a graph's blocks that were not simulated, since they are like one that was.
    """

    events: int = 0
    batches: int = 0
    flows: int = 0
    solves: int = 0
    cached: int = 0
    solved: int = 0
    passes: int = 0
    most_passes: int = 0
    waits: int = 0
    splits: int = 0
    decompositions: int = 0
    met: int = 0
    skipped: int = 0

    def count_solve(self, flows: int, passes: int) -> None:
        """Count that the rates of so many flows were computed in so many passes."""
        self.solves += 1
        self.solved += flows
        self.passes += passes
        self.most_passes = max(self.most_passes, passes)

    def as_dict(self) -> dict[str, int]:
        """Return the counters by name."""
        return asdict(self)

    def __add__(self, other: Statistics) -> Statistics:
        """Return the counters of two simulations."""
        mine, others = asdict(self), asdict(other)
        sums = {name: value + others[name] for name, value in mine.items()}
        return Statistics(**sums | {"most_passes": max(self.most_passes, other.most_passes)})
