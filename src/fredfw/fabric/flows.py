"""What the network carries: routes (which links) and flow sets (routes with volumes), as compressed sparse rows."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, frozen

from fredfw import arrays
from fredfw.errors import UnsupportedError
from fredfw.keeping import Latest, kept
from fredfw.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from fredfw.fabric.routing import Router

# Numbers of 8 bytes that selections of routes may have together at least, and what one takes beside its arrays.
_ROOM, _OVERHEAD = 2**18, 64


class Operation(Enum):
    """What a many-ended flow does on its way."""

    MULTICAST = "multicast"
    """One source, several destinations: the data is copied where the tree branches."""
    REDUCE = "reduce"
    """Several sources, one destination: the data is combined where the tree joins."""
    ALL_REDUCE = "all-reduce"
    """Several sources, several destinations: combined on the way up, copied on the way down."""


@frozen(eq=False)
class Routes:
    """The links of ``F`` flows: flow ``f`` uses ``links[offsets[f]:offsets[f + 1]]``, all at its one rate.

    Args:
        offsets: ``(F + 1,)`` start of each flow's links.
        links: ``(nnz,)`` link ids.
        latencies: ``(F,)`` seconds from the last byte's departure to its delivery (the deepest branch's, for a tree).
        coefficients: ``(nnz,)`` share of the flow's rate that each link carries; ``None`` means 1 everywhere.
    """

    offsets: IntArray
    links: IntArray
    latencies: FloatArray
    coefficients: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(
        cls, lists: list[IntArray], latencies: FloatArray | list[float], coefficients: list[FloatArray] | None = None
    ) -> Routes:
        """Build from one array of links per flow."""
        return cls(
            arrays.offsets([len(one) for one in lists]),
            np.concatenate(lists).astype(np.intp) if lists else np.zeros(0, dtype=np.intp),
            np.asarray(latencies, dtype=float),
            np.concatenate(coefficients) if coefficients else None,
        )

    @classmethod
    def concatenate(cls, parts: list[Routes]) -> Routes:
        """Return all flows of ``parts``, in order."""
        if len(parts) == 1:
            return parts[0]
        coefficients = None
        if any(part.coefficients is not None for part in parts):
            shares = [np.ones(len(part.links)) if part.coefficients is None else part.coefficients for part in parts]
            coefficients = np.concatenate(shares)
        return cls(
            arrays.offsets(np.concatenate([np.diff(part.offsets) for part in parts])),
            np.concatenate([part.links for part in parts]),
            np.concatenate([part.latencies for part in parts]),
            coefficients,
        )

    @classmethod
    def choose(cls, chosen: BoolArray, these: Routes, others: Routes) -> Routes:
        """Return ``F`` routes: of ``these`` where ``(F,)`` ``chosen`` is true, of ``others`` elsewhere."""
        return cls.concatenate([these, others]).select(np.arange(len(others)) + np.where(chosen, 0, len(these)))

    @cached_property
    def local(self) -> BoolArray:
        """``(F,)`` whether a flow crosses no link."""
        local: BoolArray = self.offsets[1:] == self.offsets[:-1]
        return local

    def links_of(self, flows: IntArray) -> IntArray:
        """Return the links of ``(k,)`` ``flows``, one flow after the other."""
        if len(flows) == 1:
            return self.links[self.offsets[flows[0]] : self.offsets[flows[0] + 1]]
        return arrays.rows_of(self.offsets, self.links, flows)[0]

    # Rates are remembered by the identity of routes, so a selection is made once, as long as there is room. There is
    # for each flow alone, which is what comes again most.
    @cached_property
    def _selections(self) -> Latest[bytes, Routes]:
        return Latest(_ROOM + 2 * (len(self.links) + (1 + _OVERHEAD) * len(self)), _size, least=0)

    def select(self, flows: IntArray) -> Routes:
        """Return the routes of ``(k,)`` ``flows`` in that order; the same object as the last time, if still known."""
        key = flows.tobytes()
        known = self._selections.known(key)
        if known is None:
            counts = self.offsets[flows + 1] - self.offsets[flows]
            pairs = arrays.ranges(self.offsets[flows], counts)
            coefficients = None if self.coefficients is None else self.coefficients[pairs]
            part = Routes(arrays.offsets(counts), self.links[pairs], self.latencies[flows], coefficients)
            known = self._selections.keep(key, part)
        return known


def _size(routes: Routes) -> int:
    return len(routes.links) + len(routes) + _OVERHEAD


@frozen(eq=False)
class FlowSet:
    """Flows that start together, in ``activities`` groups that each end on their own; ``FlowNetwork`` checks them.

    Args:
        routes: The links of the ``F`` flows.
        volumes: ``(F,)`` bytes of one repetition.
        activity: ``(F,)`` which activity each flow belongs to, ``0 .. activities - 1``.
        activities: How many activities there are; one without flows ends after the set-ups.
        repeat: How often the activity runs, one repetition after the other.
        setup: Seconds before a repetition, for instance to set up circuits.
        setup_once: Whether ``setup`` is paid once (circuits do not change) instead of at each repetition.
        caps: ``(F,)`` upper limit of each flow's rate in bytes per second, or ``None``.
        priority: Class of all these flows for the sharing policy; 0 is the highest.
        label: What the bytes are accounted to.
        takes_turns: Whether other flows run between two repetitions, so that setting up is never paid just once.
        continues: Whether the repetition before it, of the same flows, has just ended: what is set up once is there.
        again: Returns their routes by another router, where links are closed; without it they cannot go another way.
    """

    routes: Routes
    volumes: FloatArray
    activity: IntArray
    activities: int
    repeat: int = 1
    setup: float = 0.0
    setup_once: bool = False
    caps: FloatArray | None = None
    priority: int = 0
    label: str = ""
    takes_turns: bool = False
    continues: bool = False
    again: Callable[[Router], Routes] | None = None

    @property
    def totals(self) -> FloatArray:
        """``(F,)`` bytes of all repetitions."""
        return self.volumes * self.repeat

    @cached_property
    def sizes(self) -> IntArray:
        """``(activities,)`` flows of each activity."""
        return np.bincount(self.activity, minlength=self.activities)

    @cached_property
    def unhindered(self) -> BoolArray:
        """``(F,)`` whether a flow has nothing to send, or no link to send it over."""
        unhindered: BoolArray = (self.volumes <= 0) | self.routes.local
        return unhindered

    def routed(self, router: Router) -> Routes:
        """Return the routes by ``router``; raises ``UnsupportedError`` if there are none, or no ends are given."""
        if self.again is None:
            raise UnsupportedError(f"{self.label or 'flows'} cannot be routed again")
        return self.again(router)

    @cached_property
    def _parts(self) -> dict[bytes, FlowSet]:
        return {}

    def part(self, flows: IntArray) -> FlowSet:
        """Return ``(k,)`` ``flows`` alone, to take turns with others: always the same object, of as many activities."""
        key = flows.tobytes()
        return kept(self._parts, key, lambda: some(self, flows, activity=self.activity[flows], takes_turns=True))


def some(whole: FlowSet, flows: IntArray, **changes: Any) -> FlowSet:
    """Return ``(k,)`` ``flows`` alone, with ``changes`` of other fields, among them the activity of each."""
    return evolve(
        whole,
        routes=whole.routes.select(flows),
        volumes=whole.volumes[flows],
        caps=None if whole.caps is None else whole.caps[flows],
        again=None if whole.again is None else partial(_part_again, whole.again, flows),
        **changes,
    )


def _part_again(again: Callable[[Router], Routes], flows: IntArray, router: Router) -> Routes:
    return again(router).select(flows)
