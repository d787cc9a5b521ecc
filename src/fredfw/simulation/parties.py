"""Who takes part in the flows of a phase: the nodes that a flow waits for, and the flows that a node waits for."""

from __future__ import annotations

import numpy as np
from attrs import field, frozen

from fredfw.simulation.lowering import Ends
from fredfw.typing import IntArray


@frozen(eq=False)
class Table:
    """Rows of different lengths: row ``i`` is ``values[offsets[i]:offsets[i + 1]]``.

    Args:
        offsets: ``(rows + 1,)``.
        values: All rows, one after the other.
    """

    offsets: IntArray
    values: IntArray
    _lists: dict[int, list[int]] = field(factory=dict, init=False)

    @classmethod
    def of(cls, row: IntArray, values: IntArray, rows: int) -> Table:
        """Put each of ``(n,)`` ``values`` into its ``row``, in order."""
        offsets = np.zeros(rows + 1, dtype=np.intp)
        np.cumsum(np.bincount(row, minlength=rows), out=offsets[1:])
        return cls(offsets, values[np.argsort(row, kind="stable")])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def count(self, chosen: IntArray) -> IntArray:
        """Return the ``(k,)`` lengths of rows."""
        lengths: IntArray = self.offsets[chosen + 1] - self.offsets[chosen]
        return lengths

    def row(self, one: int) -> IntArray:
        """Return the values of a row."""
        return self.values[self.offsets[one] : self.offsets[one + 1]]

    def list(self, one: int) -> list[int]:
        """Return the values of a row, which are looked up once."""
        known = self._lists.get(one)
        if known is None:
            known = self._lists[one] = self.row(one).tolist()
        return known

    def rows(self, chosen: IntArray) -> IntArray:
        """Return the values of ``(k,)`` rows, one after the other."""
        if len(chosen) == 1:
            return self.row(int(chosen[0]))
        lengths = self.count(chosen)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        values: IntArray = self.values[np.repeat(self.offsets[chosen], lengths) + within]
        return values


@frozen(eq=False)
class Parties:
    """Who takes part in the flows of a phase, in ``G`` groups.

    A node is a rank of a group: ``group * ranks + rank``. Flows are numbered likewise, as in the flow set of the phase.

    Args:
        sources: Nodes that each flow comes from.
        destinations: Nodes that each goes to.
        starters: Nodes that must be ready before each can start.
        sends: Flows that come from each node.
        receives: Flows that go to each.
        starts: Flows that wait for each to be ready.
    """

    sources: Table
    destinations: Table
    starters: Table
    sends: Table
    receives: Table
    starts: Table

    @classmethod
    def of(cls, ends: Ends, ranks: int, groups: int, *, rendezvous: bool) -> Parties:
        """Return those of flows with these ``ends``.

        Args:
            ends: Of the flows of one group, as ranks.
            ranks: Of a group.
            groups: How many.
            rendezvous: Whether a flow waits for its destinations too.
        """
        alone, streams = np.arange(len(ends.sources)), range(len(ends.sources), len(ends))
        many = list(zip(streams, ends.streams, strict=True))

        def pairs(unicast: IntArray, streamed: list[IntArray]) -> tuple[IntArray, IntArray]:
            flow = np.concatenate([alone, *(np.full(len(one), f) for f, one in zip(streams, streamed, strict=True))])
            rank = np.concatenate([unicast, *streamed])
            number = np.arange(groups)[:, None]
            return (flow + number * len(ends)).ravel(), (rank + number * ranks).ravel()

        sources = pairs(ends.sources, [one for _, (one, _) in many])
        destinations = pairs(ends.destinations, [one for _, (_, one) in many])
        starters = sources
        if rendezvous:
            both = np.stack([np.concatenate(one) for one in zip(sources, destinations, strict=True)])
            starters = tuple(np.unique(both, axis=1))  # a node that sends to itself is one
        flows, nodes = groups * len(ends), groups * ranks
        return cls(
            *(Table.of(flow, node, flows) for flow, node in (sources, destinations, starters)),
            *(Table.of(node, flow, nodes) for flow, node in (sources, destinations, starters)),
        )
