"""The links that flows cross one after another, and what passes over them in a step."""

from functools import cached_property

import numpy as np

from fredfw.typing import BoolArray, FloatArray, IntArray


class Paths:
    """``P`` pairs of ``F`` flows and links, grouped by flow, in the order in which the flow crosses them."""

    def __init__(self, offsets: IntArray, links: IntArray, coefficients: FloatArray | None, count: int) -> None:
        # The pairs of flow ``f`` begin at ``offsets[f]``; ``coefficients``, 1 for None, are its shares on these links.
        self.offsets, self.links, self.count = offsets, links, count
        self.coefficients = np.ones(len(links)) if coefficients is None else coefficients
        lengths = np.diff(offsets)
        self.flows = np.repeat(np.arange(len(lengths)), lengths)  # ``(P,)`` flow of each pair
        self.places = np.arange(len(links)) - offsets[:-1][self.flows]  # ``(P,)`` its number among those of its flow
        self.bare: BoolArray = lengths == 0  # ``(F,)`` flows without links
        self.first, self.last = offsets[:-1][~self.bare], offsets[1:][~self.bare] - 1  # pairs of flows with links
        self.later = np.flatnonzero(self.places > 0)  # pairs that are not the first of their flow

    @cached_property
    def _groups(self) -> tuple[tuple[IntArray, IntArray, IntArray], ...]:
        """Pairs to serve together: all, those that get what was served in this step, and the pairs before these."""
        levels = self._levels[self.links]
        groups = []
        for level in np.unique(levels):
            pairs = np.flatnonzero(levels == level)
            later = pairs[self.places[pairs] > 0]
            fed = later[levels[later - 1] < level]
            groups.append((pairs, fed, fed - 1))
        return tuple(groups)

    @cached_property
    def _late(self) -> IntArray:
        """Pairs that get what was served in the step before, for their links are served first."""
        levels = self._levels[self.links]
        return self.later[levels[self.later - 1] >= levels[self.later]]

    @cached_property
    def _levels(self) -> IntArray:
        """``(links,)`` longest way to each link over links that flows cross before it."""
        before, after = self.links[self.later - 1], self.links[self.later]
        levels = np.zeros(self.count, dtype=np.intp)
        for _ in range(4 * int(self.places.max(initial=0)) + 8):
            known = levels.copy()
            np.maximum.at(levels, after, known[before] + 1)
            if np.array_equal(levels, known):
                return levels
        levels[:] = 0  # links form a cycle
        np.maximum.at(levels, self.links, self.places)
        return levels

    def load(self, amounts: FloatArray) -> FloatArray:
        """Return the ``(links,)`` sum of the ``(P,)`` amounts of flows on each link."""
        return np.bincount(self.links, self.coefficients * amounts, self.count).astype(float)

    def buffered(self, backlog: FloatArray) -> FloatArray:
        """Return the ``(links,)`` bytes that came over each link and wait at its far end for the next."""
        later = self.later
        return np.bincount(self.links[later - 1], (self.coefficients * backlog)[later], self.count).astype(float)

    def divided(self, wanted: FloatArray, capacities: FloatArray) -> FloatArray:
        """Return ``(F,)`` rates, at most the ``wanted`` ones, that the first links can carry."""
        links, shares, flows = self.links[self.first], self.coefficients[self.first], self.flows[self.first]
        demand = np.bincount(links, shares * wanted[flows], self.count)
        fits = np.divide(capacities, demand, out=np.ones(self.count), where=demand > capacities)
        rates = np.zeros(len(wanted))
        rates[flows] = wanted[flows] * fits[links]
        return rates

    def serve(
        self, sent: FloatArray, backlog: FloatArray, coming: FloatArray, room: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``(P,)`` bytes that come to each link in a step, and that leave it."""
        # Senders have ``(F,)`` bytes ``sent``; a ``(P,)`` ``backlog`` waits at links, ``coming`` left the link before
        # in earlier steps, and links have ``room`` for so many.
        arriving, served = coming.copy(), np.zeros(len(backlog))
        arriving[self.first] += sent[self.flows[self.first]]
        for pairs, fed, feeding in self._groups:
            arriving[fed] += served[feeding]
            there = (backlog + arriving)[pairs]
            links, shares = self.links[pairs], self.coefficients[pairs]
            demand = np.bincount(links, shares * there, self.count)
            fits = np.divide(room, demand, out=np.ones(self.count), where=demand > room)
            served[pairs] = there * fits[links]
        return arriving, served

    def onward(self, served: FloatArray, coming: FloatArray) -> FloatArray:
        """Return ``coming`` with what was ``served`` before links that only get it in the next step."""
        coming[self._late] += served[self._late - 1]
        return coming

    def delivered(self, served: FloatArray, flows: int) -> FloatArray:
        """Return the ``(F,)`` bytes that leave the last links."""
        ends = np.zeros(flows)
        ends[self.flows[self.last]] = served[self.last]
        return ends
