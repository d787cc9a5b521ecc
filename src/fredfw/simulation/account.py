"""How many bytes have crossed each link, by what they are accounted to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fredfw.fabric import Routes
from fredfw.simulation.core.ways import Way, Ways
from fredfw.typing import FloatArray, IntArray

# Numbers of 8 bytes that routes and their bytes may have together: so many, and so many times those of the largest, so
# that a schedule's phases, which come again, are all there. And what one entry takes beside its arrays.
_ROOM, _TIMES, _OVERHEAD = 2**22, 16, 64
# How many ways of messages are remembered.
_WAYS = 2**17
# Bytes on so few links are added one by one, without a look at all links.
_FEW = 64


class Account:
    """Bytes that have left their sources.

    Args:
        links: How many links there are.
    """

    def __init__(self, links: int) -> None:
        self._links = links
        # By identity of routes, and label; they are added up by link when somebody asks, or when they are too many.
        self._moved: dict[tuple[int, str], tuple[Routes, FloatArray]] = {}
        self._held = self._largest = 0
        self._by_link: dict[str, FloatArray] = {}
        self._sent: dict[str, dict[Way, float]] = {}  # by messages

    def add_message(self, label: str, way: Way, volume: float) -> None:
        """Note that a message of ``volume`` bytes has gone its ``way``."""
        sent = self._sent.get(label)
        if sent is None:
            sent = self._sent[label] = {}
        elif len(sent) >= _WAYS:
            self._add_up()
            sent = self._sent[label] = {}
        sent[way] = sent.get(way, 0.0) + volume

    def _add_up(self) -> None:
        """Remember no ways of messages, but what has crossed the links."""
        self._by_link, self._sent, self._moved, self._held = self.by_link([]), {}, {}, 0

    def add(self, label: str, routes: Routes, volumes: FloatArray) -> None:
        """Note that ``(F,)`` ``volumes`` have gone over ``routes``."""
        key = id(routes), label
        before = self._moved.get(key)
        if before is None:
            size = len(routes.links) + len(routes.latencies) + _OVERHEAD
            self._held += size
            self._largest = max(self._largest, size)
            if self._held > _ROOM + _TIMES * self._largest:
                self._add_up()
                self._held = size
        self._moved[key] = routes, volumes if before is None else before[1] + volumes

    def by_link(self, more: Iterable[tuple[str, Routes, FloatArray]]) -> dict[str, FloatArray]:
        """Return the ``(links,)`` bytes that have crossed each link, by label.

        Args:
            more: Label, routes and bytes of what is under way and has not been added.
        """
        moved = [(label, routes, volumes) for (_, label), (routes, volumes) in self._moved.items()]
        totals = {label: load.copy() for label, load in self._by_link.items()}
        crossed = [(label, routes.links, _on_links(routes, volumes)) for label, routes, volumes in [*moved, *more]]
        for label, links, weights in [*self._messages(), *crossed]:
            if label not in totals:
                totals[label] = np.zeros(self._links)
            if len(links) < _FEW:
                np.add.at(totals[label], links, weights)
            else:
                totals[label] += np.bincount(links, weights=weights, minlength=self._links)
        return totals

    def _messages(self) -> Iterator[tuple[str, IntArray, FloatArray]]:
        """Yield label, links and bytes on each of messages, in the order in which their ways were first gone.

        So the sums do not depend on which ways were found together, which differs in a copy.
        """
        for label, sent in self._sent.items():
            together: dict[Ways, list[tuple[int, int, float]]] = {}
            for number, (way, volume) in enumerate(sent.items()):
                together.setdefault(way.ways, []).append((number, way.place, volume))
            order, links, weights = [], [], []
            for ways, gone in together.items():
                numbers, places, volumes = (np.array(column) for column in zip(*gone, strict=True))
                routes = ways.routes.select(places)
                order.append(np.repeat(numbers, np.diff(routes.offsets)))
                links.append(routes.links)
                weights.append(_on_links(routes, volumes))
            turn = np.argsort(np.concatenate(order), kind="stable")
            yield label, np.concatenate(links)[turn], np.concatenate(weights)[turn]

    def __getstate__(self) -> dict[str, Any]:
        if self._sent:  # ways are of this process
            self._add_up()
        return {**self.__dict__, "_moved": list(self._moved.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Keys name routes by identity, which is another one in a copy.
        self._moved = {(id(routes), label): (routes, moved) for (_, label), (routes, moved) in state["_moved"]}


def _on_links(routes: Routes, volumes: FloatArray) -> FloatArray:
    """Return the bytes that ``(F,)`` ``volumes`` put on each link of their routes."""
    weights = np.repeat(volumes, np.diff(routes.offsets))
    return weights if routes.coefficients is None else weights * routes.coefficients
