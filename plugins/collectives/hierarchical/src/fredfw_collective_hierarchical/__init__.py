"""The collective algorithm ``hierarchical``: one level of the group after the other, each in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
from attrs import Attribute, evolve, frozen

from fredfw import (
    CollectiveAlgorithm,
    CollectiveRequest,
    GroupView,
    LevelSteps,
    Pattern,
    Schedule,
    balanced_shares,
    parallel,
    pipelined,
    units,
)
from fredfw.errors import InputError, nearest

fredfw_contract = 2

_MOST = 5  # levels whose orders are all tried: 120 of them
_ALONG = "ring", "by-kind", "bidirectional-ring", "direct", "halving-doubling", "in-network"


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class _StepNames:
    """A validator of the field ``steps``."""

    accepted = f"{', '.join(_ALONG)}; or a list of these, the last one for all further levels"

    def __call__(self, _instance: object, attribute: Attribute[Any], value: Any) -> None:
        names = value if isinstance(value, tuple) else (value,)
        for name in names or [()]:
            if name not in _ALONG:
                hint = nearest(name, _ALONG) if isinstance(name, str) else ""
                shown = name if names else []
                raise InputError(f"{shown!r} is not known{hint}", key=attribute.name, accepted=self.accepted)


@frozen
class Hierarchical(CollectiveAlgorithm):
    """Reduce-scatter along each level in turn, then all-gather along the levels in reverse.

    The ranks that differ in one level alone do its step algorithm: a ring, or with ``steps = "by-kind"`` both ways
    round a ring, a direct exchange where all are connected, and halving-doubling on a switch (a ring where its size is
    not a power of two). One channel per level, so that pieces and parts take turns on it. Fits groups that are a full
    product of positions (Cho et al., "BlueConnect", MLSys 2019; two parts in opposite orders: FRED's baseline mesh,
    ISCA 2025; step algorithms by kind: ASTRA-sim, ISPASS 2023).
    """

    name: ClassVar[str] = "hierarchical"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER})
    proportional: ClassVar[bool] = True

    chunks: int = units.count(
        1, help="pieces of the data that follow each other in a pipeline, where the group has two or more levels"
    )
    orders: str = units.choice(
        ("forward", "reverse", "opposite", "all"),
        help="order of the levels in a reduce-scatter: innermost first, outermost first, one part each at once, or a "
        "part in every order that there is",
    )
    shares: str = units.choice(
        ("balanced", "equal"),
        help="share of each of several parts: so that all levels finish together as far as they can, or the same",
    )
    steps: str | tuple[str, ...] = units.option(
        "ring",
        converter=_listed,
        validator=_StepNames(),
        help="step algorithm of every level, or a list from the innermost one on, of which the last is for all further "
        "levels; by-kind: the one that fits the kind of a level",
    )
    policy: str = units.choice(
        ("fifo", "smallest-first"),
        help="what a level takes next of what is ready: what was ready first, or what has the fewest bytes",
    )
    release: str = units.choice(
        ("delivered", "drained"),
        help="when a level takes it: when the bytes of the one before have arrived, or already when they have left",
    )

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        # Step algorithms by kind come in one order and in all, in one piece and in pipelines without gaps. Of an
        # all-reduce switches may do the innermost level, all others, or all.
        rings = [cls(chunks=chunks, orders=one) for one in ("forward", "reverse", "opposite") for chunks in _CHUNKS]
        return [
            *rings,
            cls(steps="by-kind"),
            *(
                cls(chunks=chunks, orders="all", steps="by-kind", policy="smallest-first", release="drained")
                for chunks in _CHUNKS[1::2]
            ),
            *(cls(chunks=16, steps=steps) for steps in _SWITCHED if pattern is Pattern.ALL_REDUCE),
        ]

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        if self.orders == "all" and len(view.levels) > _MOST:
            return f"the group has {len(view.levels)} levels, which is too many for all their orders"
        if view.unstructured:
            return view.unstructured
        if isinstance(self.steps, tuple) and len(self.steps) > len(view.levels):
            return f"the group has {len(view.levels)} levels, and steps are given for {len(self.steps)}"
        return self._steps(view).refusal() or super().refusal(request, view)

    def worthwhile(self, view: GroupView) -> bool:
        """See ``CollectiveAlgorithm.worthwhile``: a tree's levels share links."""
        return self.steps == "ring" or view.independent

    def equivalent(self, view: GroupView) -> CollectiveAlgorithm:
        """See ``CollectiveAlgorithm.equivalent``: one level has one order and nothing to overlap, two have two."""
        if isinstance(self.steps, tuple) and len(self.steps) > len(view.levels):
            return self  # which is refused
        steps = self._steps(view).steps
        named = steps[0] if len(set(steps)) == 1 else self.steps
        if len(view.levels) < 2:
            return type(self)(steps=named)
        orders = "opposite" if self.orders == "all" and len(view.levels) == 2 else self.orders
        return evolve(self, steps=named, orders=orders)

    def undivided(self) -> CollectiveAlgorithm:
        return self if self.chunks == 1 else evolve(self, chunks=1)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        steps = self._steps(view)
        # With one level there is nothing to take turns with, and nothing that the pieces of a pipeline could overlap.
        chunks = self.chunks if len(view.levels) > 1 else 1
        return parallel(
            [
                pipelined(self._part(request, steps, order, share), chunks)
                for order, share in self._parts(steps, request.pattern)
                if share > 0
            ]
        )

    def _steps(self, view: GroupView) -> LevelSteps:
        if isinstance(self.steps, str):
            return LevelSteps.of(view, self.steps)
        further = (self.steps[-1],) * (len(view.levels) - len(self.steps))
        alone = zip(view.levels, self.steps + further, strict=True)
        return LevelSteps(
            view, tuple(LevelSteps.of(evolve(view, levels=(level,)), one).steps[0] for level, one in alone)
        )

    def _parts(self, steps: LevelSteps, pattern: Pattern) -> list[tuple[tuple[int, ...], float]]:
        """Return the orders of the levels, and the share of the data that goes in each."""
        forward = tuple(range(len(steps.steps)))
        orders = {
            "forward": [forward],
            "reverse": [forward[::-1]],
            # One level, or none, has one order.
            "opposite": list(dict.fromkeys([forward, forward[::-1]])),
        }.get(self.orders) or list(permutations(forward))
        if len(orders) == 1 or self.shares == "equal":
            return [(order, 1 / len(orders)) for order in orders]
        times = np.array([steps.busy_times(order, pattern) for order in orders]).T
        return list(zip(orders, balanced_shares(times).tolist(), strict=True))

    def _part(self, request: CollectiveRequest, steps: LevelSteps, order: tuple[int, ...], share: float) -> Schedule:
        part = steps.schedule(request.pattern, request.size * share, order)
        if len(order) < 2:
            return evolve(part, phases=tuple(evolve(phase, channel=-1) for phase in part.phases))
        return evolve(part, policy=self.policy, release=self.release)


_CHUNKS = 1, 2, 4, 8, 16
_SWITCHED = ("in-network", "by-kind"), ("direct", "in-network"), ("in-network", "in-network")
