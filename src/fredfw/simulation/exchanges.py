"""Messages of a task graph: a send begins one, and a receive ends when it is ready and the message has arrived."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from fredfw.simulation.assignment import Assignment, Share
from fredfw.simulation.computations import End
from fredfw.simulation.dependents import Dependents
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.repeats import Repeats
from fredfw.simulation.runs import Runs
from fredfw.simulation.schedules import ScheduleRun
from fredfw.typing import IntArray

# At one moment ranks enter after all that ends.
ENTRIES = 1
# Nodes of a message.
_SENDER, _RECEIVER, _BOTH = np.array([0]), np.array([1]), np.array([0, 1])


class _Message(NamedTuple):
    """A message that has left its sender, or has arrived.

    Args:
        start: When the ranks that it waited for were ready.
        trigger: The span that made the last of them so.
    """

    start: float
    trigger: int


class Exchanges:
    """The messages of one graph.

    Args:
        tasks: The graph on its fabric.
        network: Carries them.
        repeats: Is told of all that begins and ends, if there is something to jump over.
        runs: Makes their runs.
        dependents: Know whether anything is missing before a receive.
        on_end: Is told of sends and receives that have ended.
    """

    def __init__(
        self,
        tasks: Assignment,
        network: FlowNetwork,
        repeats: Repeats | None,
        runs: Runs,
        dependents: Dependents,
        on_end: End,
    ) -> None:
        self._tasks = tasks
        self._network = network
        self._repeats = repeats
        self._runs = runs
        self._dependents = dependents
        self._on_end = on_end
        self._arrivals: dict[int, _Message] = {}  # messages that have arrived, by the receive that is not ready
        self._posted: set[int] = set()  # receives that are ready, and whose messages have not begun
        self._waiting: dict[int, ScheduleRun] = {}  # messages under way that wait for their receive
        self._entries: list[_Message] = []  # of senders and receivers, by mark

    def send(self, task: int, trigger: int) -> None:
        """Send the message of ``task``, whose sender is ready."""
        (share,) = self._tasks.planned(task)
        message, receive = _Message(self._network.now, trigger), self._tasks.partners[task]
        nodes = self._tasks.groups(task).nodes
        if self._repeats is not None:
            # Until it is sent, and until it is there.
            self._repeats.begin(task, self._tasks.table(task).participants, 2)
        if not self._runs.rank_by_rank:
            self._runs.run(task, share, nodes, partial(self._delivered, task, share, message)).start()
            return
        mark = self._enter(message)
        over = partial(self._over, task, share, message)
        run = self._runs.rank_run(task, share, nodes, over, partial(self._passed, task))
        if not self._runs.rendezvous or receive in self._posted:
            self._posted.discard(receive)
            self._network.schedule(0.0, partial(run.enter, _BOTH, mark), ENTRIES)
        else:
            self._waiting[receive] = run
            self._network.schedule(0.0, partial(run.enter, _SENDER, mark), ENTRIES)

    def receive(self, task: int, trigger: int) -> None:
        """Note that nothing but the message keeps ``task`` from its end."""
        if task in self._arrivals:  # later, because the end of one may let the next one end, and so on
            del self._arrivals[task]
            now = self._network.now
            self._network.schedule(0.0, partial(self._end, task, _Message(now, trigger)))
        elif task in self._waiting:
            mark = self._enter(_Message(self._network.now, trigger))
            self._network.schedule(0.0, partial(self._waiting.pop(task).enter, _RECEIVER, mark), ENTRIES)
        else:
            self._posted.add(task)

    def _enter(self, entry: _Message) -> int:
        """Return the mark of ``entry``."""
        self._entries.append(entry)
        return len(self._entries) - 1

    def _delivered(self, task: int, share: Share, message: _Message, done: IntArray) -> None:
        """Note that the message of the send ``task`` has arrived, and with it the send has ended."""
        self._over(task, share, message, done)
        self._sent(task, message)
        self._arrived(task, message)

    def _over(self, task: int, share: Share, message: _Message, _done: IntArray) -> None:
        self._runs.compare(task, share, message.start)

    def _passed(self, task: int, nodes: IntArray, marks: IntArray) -> None:
        """Note that ``nodes`` of the message of the send ``task`` are through: 0 has sent it, 1 has it."""
        for node, mark in zip(nodes.tolist(), marks.tolist(), strict=True):
            if node == 0:
                self._sent(task, self._entries[mark])
            else:
                self._arrived(task, self._entries[mark])

    def _sent(self, task: int, message: _Message) -> None:
        if self._repeats is not None:
            self._repeats.end(task, self._tasks.table(task).participants, 1, self._network.now)
        self._end(task, message)

    def _arrived(self, task: int, message: _Message) -> None:
        receive = self._tasks.partners[task]
        if self._repeats is not None:
            self._repeats.end(task, self._tasks.table(task).participants, 1, self._network.now)
        if self._dependents.missing[receive]:
            self._arrivals[receive] = message
        else:
            self._posted.discard(receive)
            self._end(receive, message)

    def _end(self, task: int, message: _Message) -> None:
        table = self._tasks.table(task)
        self._on_end(task, table.everybody, message.start, message.trigger, table.participants)
