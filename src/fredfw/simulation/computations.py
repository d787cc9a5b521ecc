"""Computations that compete for ranks: each rank does one at a time.

They are done in the order in which they get ready for it; those that the same event makes ready in the order of their
numbers. A computation that has begun is not interrupted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from fredfw.simulation.assignment import Assignment
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.repeats import Repeats
from fredfw.simulation.timeline import Record
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import Kernels

End = Callable[[int, IntArray, float, int, IntArray], None]
"""Gets a task, the slots that have ended it, when they began, the span that made them, and the ranks."""


class _Waiting(NamedTuple):
    """A computation that is ready on some ranks.

    Args:
        order: How many computations got ready before it.
        since: When it did.
        task: Its task.
        slots: Of the ranks.
        ranks: Where.
        trigger: The span that made it ready.
    """

    order: int
    since: float
    task: int
    slots: IntArray
    ranks: IntArray
    trigger: int


class Computations:
    """The computations of one graph.

    Args:
        tasks: The graph on its fabric.
        network: Has the clock.
        repeats: Is told of all that begins and ends, if there is something to jump over.
        seconds: Duration of ``(flops, bytes, kernels)`` on an NPU; the last is ``None`` where it is not known.
        spans: What has ended.
        on_end: Is told of ranks that have ended a computation.
        factors: How many times longer a task takes on each of some slots, where not all ranks are equally fast.
    """

    def __init__(
        self,
        tasks: Assignment,
        network: FlowNetwork,
        repeats: Repeats | None,
        seconds: Callable[[float, float, Kernels | None], float],
        spans: Record,
        on_end: End,
        factors: Callable[[int, IntArray], FloatArray] | None = None,
    ) -> None:
        graph = tasks.graph
        self._tasks = tasks
        self._network = network
        self._repeats = repeats
        self._compute_seconds = seconds
        self._spans = spans
        self._on_end = on_end
        self._factors = factors
        self._seconds: list[float] = graph.seconds.tolist()
        self._flops: list[float] = graph.flops.tolist()
        self._kernels: list[int] = graph.kernels.tolist()
        self._known: dict[tuple[float, float, int], float] = {}  # seconds of what was computed before
        self._busy = np.zeros(graph.ranks, dtype=bool)
        self._freed_by = np.full(graph.ranks, -1)
        # Those that wait: of single ranks by rank, unless some of several ranks wait too.
        self._queues: list[deque[tuple[int, float, int, int]]] = [deque() for _ in range(graph.ranks)]
        self._queued = 0
        self._queue: list[_Waiting] = []
        self._waited = 0

    @property
    def waiting(self) -> bool:
        """Whether a computation that is ready waits for a rank."""
        return bool(self._queue) or self._queued > 0

    def start(self, task: int, slots: IntArray, ranks: IntArray, trigger: int) -> None:
        """Start ``task`` on ``ranks``, its participants ``slots``, or have it wait for those before it."""
        if self._queue or self._queued or np.count_nonzero(self._busy[ranks]):
            self._queue_together()
            self._wait(task, slots, ranks, trigger)
        else:
            self._begin(task, slots, ranks, trigger)

    def start_alone(self, task: int, trigger: int) -> None:
        """Start a computation of a single rank, or have it wait for those before it."""
        table = self._tasks.table(task)
        ranks = table.participants
        if self._queue:
            self._wait(task, table.everybody, ranks, trigger)
            return
        rank = ranks.item()
        busy, queue = self._busy.item(rank), self._queues[rank]
        if busy or queue:
            queue.append((self._waited, self._network.now, task, trigger))
            self._waited += 1
            self._queued += 1
            if not busy:
                self._next(rank)
        else:
            self._begin(task, table.everybody, ranks, trigger)

    def freed(self, ranks: IntArray, span: int) -> None:
        """Note that ``span`` was the last computation of ``ranks``, though it was not simulated."""
        self._freed_by[ranks] = span

    def _next(self, rank: int) -> None:
        """Start the first of the computations that wait for ``rank`` alone, which is free."""
        _, since, task, trigger = self._queues[rank].popleft()
        self._queued -= 1
        if since < self._network.now:
            trigger = self._freed_by.item(rank)
        table = self._tasks.table(task)
        self._begin(task, table.everybody, table.participants, trigger)

    def _queue_together(self) -> None:
        """Have what waits for single ranks wait in the queue of all, which is empty."""
        if self._queued:
            for queue in self._queues:
                for order, since, task, trigger in queue:
                    table = self._tasks.table(task)
                    self._queue.append(_Waiting(order, since, task, table.everybody, table.participants, trigger))
                queue.clear()
            self._queue.sort(key=itemgetter(0))
            self._queued = 0

    def _wait(self, task: int, slots: IntArray, ranks: IntArray, trigger: int) -> None:
        """Queue a computation that is ready on ``ranks``, and start it on those of them that nothing keeps busy."""
        self._queue.append(_Waiting(self._waited, self._network.now, task, slots, ranks, trigger))
        self._waited += 1
        self._start_queued()

    def _start_queued(self) -> None:
        """Start queued computations on the ranks that are free, those first that were ready first."""
        waiting = []
        for one in self._queue:
            order, since, task, slots, ranks, trigger = one
            free = ~self._busy[ranks]
            if free.any() and since < self._network.now:
                # What made it start is the computation that kept the rank busy until now.
                for span in np.unique(self._freed_by[ranks[free]]).tolist():
                    mine = free & (self._freed_by[ranks] == span)
                    self._begin(task, slots[mine], ranks[mine], span)
            elif free.any():
                self._begin(task, slots[free], ranks[free], trigger)
            if not free.all():
                waiting.append(_Waiting(order, since, task, slots[~free], ranks[~free], trigger))
        self._queue = waiting

    def _begin(self, task: int, slots: IntArray, ranks: IntArray, trigger: int) -> None:
        seconds = self._seconds[task]
        if seconds != seconds:  # it follows from what is computed
            seconds = self._duration(task)
        self._busy[ranks] = True
        if self._repeats is not None:
            self._repeats.begin(task, ranks, 1)
        seconds *= self._tasks.repeats[task]
        now = self._network.now
        if self._factors is None:
            self._network.schedule(seconds, partial(self._end, task, slots, ranks, now, trigger))
            return
        factors, group = np.unique(self._factors(task, slots), return_inverse=True)
        for index, factor in enumerate(factors.tolist()):
            mine = group == index
            ended = partial(self._end, task, slots[mine], ranks[mine], now, trigger)
            if len(factors) == 1:
                ended = partial(self._end, task, slots, ranks, now, trigger)  # whose slots are known as everybody
            self._network.schedule(seconds * factor, ended)

    def _duration(self, task: int) -> float:
        """Return how long a repetition of the computation ``task`` takes."""
        work = self._flops[task], self._tasks.bytes[task], self._kernels[task]
        if work not in self._known:
            table = self._kernels[task]
            kernels = None if table < 0 else self._tasks.graph.kernel_tables[table]
            self._known[work] = self._compute_seconds(*work[:2], kernels)
        return self._known[work]

    def _end(self, task: int, slots: IntArray, ranks: IntArray, start: float, trigger: int) -> None:
        if self._repeats is not None:
            self._repeats.end(task, ranks, 1, self._network.now)
        self._busy[ranks] = False
        self._freed_by[ranks] = len(self._spans)
        self._on_end(task, slots, start, trigger, ranks)
        if self._queued and len(ranks) > 1:
            self._queue_together()
        if self._queue:
            self._start_queued()
        elif self._queued:
            rank = ranks.item()
            if self._queues[rank] and not self._busy.item(rank):
                self._next(rank)
