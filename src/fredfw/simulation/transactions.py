"""Transactions of memories that serve one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np
from attrs import define, field

from fredfw.fabric import FlowSet, NodeKind
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.typing import IntArray


@define(eq=False)
class Transactions:
    """Starts the flows of loads and stores of such memories: each is a transaction, which holds its memory to its end.

    A transaction waits for those that have come to its memory before it.

    Args:
        network: Carries the flows.
        lowering: Has made them.
    """

    network: FlowNetwork
    lowering: Lowering
    _waiting: dict[int, deque[FlowSet]] = field(factory=dict, init=False)  # by memory that is busy
    _ends: dict[int, deque[Callable[[], None]]] = field(factory=dict, init=False)

    def start(self, flows: FlowSet, on_complete: Callable[[IntArray], None]) -> None:
        """Ask for ``flows``, each from or to one memory; ``on_complete`` gets each activity that has ended."""
        left = flows.sizes.copy()

        def ended(activity: int) -> None:
            left[activity] -= 1
            if not left[activity]:
                on_complete(np.array([activity]))

        for flow in range(len(flows.volumes)):
            memory = self._memory(flows, flow)
            alone = self.lowering.each(flows, np.array([flow]))
            end = partial(ended, int(flows.activity[flow]))
            if memory in self._waiting:
                self._waiting[memory].append(alone)
                self._ends[memory].append(end)
            else:
                self._waiting[memory], self._ends[memory] = deque(), deque()
                self._serve(memory, alone, end)

    def _memory(self, flows: FlowSet, flow: int) -> int:
        """Return the node of the memory that ``flow`` begins or ends at."""
        fabric, links = self.lowering.fabric, flows.routes.links_of(np.array([flow]))
        ends = np.concatenate([fabric.sources[links], fabric.destinations[links]])
        return int(ends[fabric.kinds[ends] == NodeKind.MEMORY][0])

    def _serve(self, memory: int, flows: FlowSet, end: Callable[[], None]) -> None:
        def served(_done: IntArray) -> None:
            if self._waiting[memory]:
                self._serve(memory, self._waiting[memory].popleft(), self._ends[memory].popleft())
            else:
                del self._waiting[memory], self._ends[memory]
            end()

        self.network.start(flows, served, checked=True)
