"""A collective or transfer of a task graph that ranks enter one by one: which run of which group each rank joins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from fredfw.simulation.assignment import Assignment, Share
from fredfw.simulation.schedules import ScheduleRun
from fredfw.typing import IntArray

_NOBODY = -1

Start = Callable[[Share, IntArray, Callable[[IntArray], None], Callable[[IntArray, IntArray], None]], ScheduleRun]


class _Run(NamedTuple):
    """Groups that one run serves, since their first ranks enter at the same moment.

    Args:
        groups: ``(k,)`` which ones of the task's table.
        run: Of them.
        began: When.
    """

    groups: IntArray
    run: ScheduleRun
    began: float


class Entering:
    """One task.

    Args:
        task: Its index.
        tasks: The graph on its fabric.
        sender_alone: Whether all ranks of a group enter with its first one.
        new_run: Returns a run of a share in ``(k, n)`` nodes, with its ``on_complete`` and ``on_through``.
        on_through: Gets the ``(k,)`` slots that are through with a group each, and the mark of the last entry that each
            has waited for. A slot may be there more than once, if it belongs to more groups.
        on_complete: Gets a share where the group has ended that stands for all, and when its first rank entered.
    """

    def __init__(
        self,
        task: int,
        tasks: Assignment,
        *,
        sender_alone: bool,
        new_run: Start,
        on_through: Callable[[IntArray, IntArray], None],
        on_complete: Callable[[Share, float], None],
    ) -> None:
        self._table = table = tasks.table(task)
        self._shares = tasks.planned(task)
        self._sender_alone = sender_alone
        self._new_run = new_run
        self._on_through = on_through
        self._on_complete = on_complete
        self._runs: list[_Run] = []
        self._run_of = np.full(len(table.groups), _NOBODY)
        self._marks = np.full(table.groups.shape, _NOBODY)  # of the members that enter at this moment

    def add(self, slots: IntArray, mark: int) -> int:
        """Note that the participants ``slots`` enter at this moment; return as how many members of groups."""
        table = self._table
        if slots is table.everybody:
            self._marks[:] = mark
            return self._marks.size
        arrived = np.zeros(len(table.participants), dtype=bool)
        arrived[slots] = True
        members = arrived[table.slots[:, :1] if self._sender_alone else table.slots]
        members = np.broadcast_to(members, self._marks.shape)
        self._marks[members] = mark
        return int(np.count_nonzero(members))

    def enter(self, now: float) -> None:
        """Have those enter who were added at this moment."""
        marks = self._marks
        entering = (marks != _NOBODY).any(axis=1)
        begun = entering & (self._run_of == _NOBODY)
        if begun.any():
            for share in self._shares:
                groups = np.flatnonzero(begun if share.served is None else begun & share.served)
                if len(groups):
                    self._begin(share, groups, now)
        for number in np.unique(self._run_of[entering]).tolist():
            groups, run, _ = self._runs[number]
            mine = marks[groups].ravel()
            nodes = np.flatnonzero(mine != _NOBODY)
            run.enter(nodes, mine[nodes])
        self._marks = np.full(marks.shape, _NOBODY)

    def _begin(self, share: Share, groups: IntArray, now: float) -> None:
        self._run_of[groups] = len(self._runs)
        part = self._table.part(groups)
        ended, through = partial(self._ended, share, groups, now), partial(self._through, groups)
        self._runs.append(_Run(groups, self._new_run(share, part.nodes, ended, through), now))

    def _through(self, groups: IntArray, nodes: IntArray, marks: IntArray) -> None:
        self._on_through(self._table.slots[groups].ravel()[nodes], marks)

    def _ended(self, share: Share, groups: IntArray, began: float, done: IntArray) -> None:
        if share.first in groups[done]:
            self._on_complete(share, began)
