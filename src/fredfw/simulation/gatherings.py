"""Communication of a task graph in groups: collectives, transfers, loads and stores.

A collective begins in a group when all of its members are ready, and ends for all of them at once. Where ranks do not
wait for each other, each enters it when it is ready itself, and is through with it on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from fredfw.simulation.assignment import STREAMS, TRANSFER, Assignment, Part, Share
from fredfw.simulation.computations import End
from fredfw.simulation.entering import Entering
from fredfw.simulation.exchanges import ENTRIES
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.repeats import Repeats
from fredfw.simulation.runs import Runs
from fredfw.simulation.transactions import Transactions
from fredfw.typing import IntArray


class _Entry(NamedTuple):
    """An entry of ranks into a collective.

    Args:
        time: When.
        trigger: The span that made them ready.
    """

    time: float
    trigger: int


class Gatherings:
    """The communication in groups of one graph.

    Args:
        tasks: The graph on its fabric.
        network: Carries the flows.
        repeats: Is told of all that begins and ends, if there is something to jump over.
        runs: Makes the runs of schedules.
        transactions: Have what uses a memory wait for its turn, where it serves one at a time.
        on_end: Is told of ranks that have ended a task in all of their groups.
    """

    def __init__(
        self,
        tasks: Assignment,
        network: FlowNetwork,
        repeats: Repeats | None,
        runs: Runs,
        transactions: Transactions,
        on_end: End,
    ) -> None:
        self._tasks = tasks
        self._network = network
        self._repeats = repeats
        self._runs = runs
        self._transactions = transactions
        self._on_end = on_end
        # What is missing before the groups of a task, and which groups the slots are in that have not ended.
        self._absent: dict[int, IntArray] = {}
        self._running: dict[int, IntArray] = {}
        self._entering: dict[int, Entering] = {}  # tasks that some rank has entered, and not all are through with
        self._enter_now: dict[int, Entering] = {}  # those that some enter at this moment
        self._entries: list[_Entry] = []

    def ready(self, task: int, slots: IntArray, trigger: int) -> None:
        """Note that the participants ``slots`` of ``task`` are ready, ``everybody`` of its table if all are."""
        table, kind = self._tasks.table(task), self._tasks.kinds[task]
        if self._runs.rank_by_rank and kind not in STREAMS:
            self._enter_later(task, slots, trigger)
            return
        absent = self._absent.get(task)
        if slots is table.everybody and absent is None:
            self.begin(task, table.whole, trigger)
            return
        awaited = table.slots[:, :1] if kind == TRANSFER else table.slots
        if absent is None:
            absent = self._absent[task] = np.full(len(awaited), awaited.shape[1])
        arrived = np.zeros(len(table.participants), dtype=bool)
        arrived[slots] = True
        newly = arrived[awaited].sum(axis=1)
        absent -= newly
        groups = ((newly > 0) & (absent == 0)).nonzero()[0]
        if len(groups):
            self.begin(task, table.part(groups), trigger)

    def begin(self, task: int, part: Part, trigger: int) -> None:
        """Begin ``task`` in the groups of ``part``, all of whose members are ready."""
        start = self._network.now
        if self._repeats is not None:
            self._repeats.begin(task, part.ranks, len(part.groups))
        if self._tasks.kinds[task] in STREAMS:
            self._stream(task, part, partial(self._end, task, part, start, trigger, None))
            return
        table = self._tasks.table(task)
        for share in self._tasks.planned(task):
            mine = part
            if share.served is not None:
                groups = part.groups[share.served[part.groups]]
                if not len(groups):
                    continue
                mine = table.part(groups)
            ended = partial(self._end, task, mine, start, trigger, share)
            self._runs.run(task, share, mine.nodes, ended).start()

    def _stream(self, task: int, part: Part, on_complete: Callable[[IntArray], None]) -> None:
        """Start the streams of a load or store, or have them wait for their memories."""
        flows, tier = self._tasks.stream(task, part), self._tasks.memory(task)
        if tier is None or not tier.one_at_a_time:
            self._network.start(flows, on_complete, checked=True)
        else:
            self._transactions.start(flows, on_complete)

    def _end(self, task: int, part: Part, start: float, trigger: int, share: Share | None, done: IntArray) -> None:
        """Note the end of the groups ``done`` of ``part``."""
        table = self._tasks.table(task)
        if len(done) < len(part.groups):
            part = table.part(part.groups[done])
        if self._repeats is not None:
            self._repeats.end(task, part.ranks, len(part.groups), self._network.now)
        if share is not None and (part is table.whole or share.first in part.groups):
            self._runs.compare(task, share, start)
        slots = part.slots
        if table.memberships is not None:
            running = self._running.get(task)
            if running is None:
                running = self._running[task] = table.memberships.copy()
            running -= np.bincount(table.slots[part.groups].ravel(), minlength=len(running))
            slots = slots[running[slots] == 0]
        self._on_end(task, slots, start, trigger, part.ranks)

    def _enter_later(self, task: int, slots: IntArray, trigger: int) -> None:
        """Have the participants ``slots`` enter ``task`` with all that do at this moment."""
        table = self._tasks.table(task)
        entering = self._entering.get(task)
        if entering is None:
            entering = self._entering[task] = Entering(
                task,
                self._tasks,
                sender_alone=self._tasks.kinds[task] == TRANSFER and not self._runs.rendezvous,
                new_run=partial(self._runs.rank_run, task),
                on_through=partial(self._through, task),
                on_complete=partial(self._runs.compare, task),
            )
            self._running[task] = np.bincount(table.slots.ravel())
        if not self._enter_now:
            self._network.schedule(0.0, self._enter, ENTRIES)
        self._enter_now[task] = entering
        self._entries.append(_Entry(self._network.now, trigger))
        members = entering.add(slots, len(self._entries) - 1)
        if self._repeats is not None:
            self._repeats.begin(task, table.participants[slots], members)

    def _enter(self) -> None:
        entering, self._enter_now = self._enter_now, {}
        for one in entering.values():
            one.enter(self._network.now)

    def _through(self, task: int, slots: IntArray, marks: IntArray) -> None:
        """Note that ``(k,)`` ``slots`` are through with a group each, and the ``marks`` of what each awaited last."""
        table, running = self._tasks.table(task), self._running[task]
        for mark in np.unique(marks).tolist():
            mine = slots[marks == mark]
            if self._repeats is not None:
                self._repeats.end(task, table.participants[mine], len(mine), self._network.now)
            np.subtract.at(running, mine, 1)
            mine = np.unique(mine)
            over, entry = mine[running[mine] == 0], self._entries[mark]
            whole = len(over) == len(table.everybody)
            self._on_end(task, table.everybody if whole else over, entry.time, entry.trigger, table.participants[mine])
        if not running.any():
            del self._entering[task]
