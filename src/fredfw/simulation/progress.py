"""One schedule running in many groups: starts phases when what they depend on is done and their channel is free."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from fredfw import limits
from fredfw.collectives import Schedule
from fredfw.errors import InputError
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.order import Order
from fredfw.simulation.turns import Turns
from fredfw.typing import IntArray

_AFTER_COMPLETIONS = 1


class ScheduleRun:
    """Runs ``schedule`` in each of ``groups``; groups that keep in step are started together.

    Args:
        network: Carries the flows.
        lowering: Turns phases into flows on the network's fabric.
        schedule: What to run.
        groups: ``(G, ranks)`` node of each rank.
        on_complete: Gets the ``(k,)`` indices of the groups that end, as often as some end at the same time.
        priority: Class of the flows.
        label: What their bytes are accounted to.
        stepwise: Whether a repeated phase is simulated repetition by repetition.
        times: How often the whole schedule is done; every phase is scaled by it.
    """

    def __init__(
        self,
        network: FlowNetwork,
        lowering: Lowering,
        schedule: Schedule,
        groups: IntArray,
        on_complete: Callable[[IntArray], None],
        *,
        priority: int = 0,
        label: str = "",
        stepwise: bool = False,
        times: int = 1,
    ) -> None:
        self._times = times
        self._network = network
        self._lowering = lowering
        self._schedule = schedule
        self._groups = groups
        self._on_complete = on_complete
        self._priority = priority
        self._label = label
        self._stepwise = stepwise
        phases, count = schedule.phases, len(groups)
        self._order = lowering.built(partial(Order.of, schedule), None, schedule, Order)
        if stepwise:
            limits.check("phases", self._order.steps)  # each repetition is one then
        # Phases that a group is not done with; nobody counts them where one of them comes after all others.
        self._left = None if self._order.last >= 0 else np.full(count, len(phases))
        self._waiting: dict[int, IntArray] = {}  # phases before each that a group is not done with; once one is done
        self._turns = Turns.of(schedule, self._order, count) if self._order.channels else None
        # Repetitions that each group is done with, of phases that take turns repetition by repetition.
        self._reached: dict[int, IntArray] = {}
        self._due: dict[int | None, int] = {}  # events, by channel; by None launching, or an empty end
        self._tickets: list[int] = []

    def start(self) -> None:
        """Start now, in all groups; what launching takes comes before the first flows."""
        price = self._lowering.price(self._schedule, self._groups)
        if price is None or price.launch == 0:
            self._launched()
            return
        self._due[None] = self._network.schedule(price.launch * self._times, self._launched)

    def _launched(self) -> None:
        self._due.pop(None, None)
        everybody = np.arange(len(self._groups))
        if not self._schedule.phases:
            self._due[None] = self._network.schedule(0.0, partial(self._end_empty, everybody))
            return
        for index, phase in enumerate(self._schedule.phases):
            if not phase.waits:
                self._ready(index, everybody)

    def cancel(self) -> None:
        """Stop now, in all groups; no more of them end."""
        if self._turns is not None:
            self._turns.withdraw()  # so that no channel starts anything
        for event in self._due.values():
            self._network.unschedule(event)
        self._due.clear()
        for ticket in self._tickets:
            with suppress(InputError):  # it has ended
                self._network.cancel(ticket)

    def _end_empty(self, groups: IntArray) -> None:
        self._due.clear()
        self._on_complete(groups)

    def _ready(self, index: int, groups: IntArray) -> None:
        channel = self._schedule.phases[index].channel
        if self._turns is None or channel < 0:
            self._begin(index, groups, 0)
            return
        at_once = self._turns.ready(index, groups, channel, self._network.now)
        if len(at_once):
            self._begin(index, at_once, 0)
        if len(at_once) < len(groups):
            self._dispatch_later(channel)

    def _dispatch_later(self, channel: int) -> None:
        # All that ends at this moment must be known before a channel chooses.
        if channel not in self._due:
            self._due[channel] = self._network.schedule(0.0, partial(self._dispatch, channel), _AFTER_COMPLETIONS)

    def _dispatch(self, channel: int) -> None:
        self._due.pop(channel, None)
        assert self._turns is not None  # there are channels
        for index, groups in self._turns.choose(channel):
            reached = self._reached.get(index)
            if reached is None:
                self._begin(index, groups, 0)
                continue
            for repetition in np.unique(reached[groups]).tolist():
                self._begin(index, groups[reached[groups] == repetition], repetition)

    def _let_go(self, index: int, groups: IntArray, activities: IntArray | slice = slice(None)) -> None:
        """Let the channel of the phase go on to the next turn where nothing of this one holds it any more."""
        channel = self._schedule.phases[index].channel
        if self._turns is not None and channel >= 0 and self._turns.leave(index, groups[activities], channel):
            self._dispatch_later(channel)

    def _begin(self, index: int, groups: IntArray, repetition: int) -> None:
        schedule, phase = self._schedule, self._schedule.phases[index]
        stepping = phase.repeat > 1 and (self._stepwise or not schedule.uniform(phase))
        lower = partial(
            self._lowering.phase,
            schedule,
            index,
            self._groups if len(groups) == len(self._groups) else self._groups[groups],
            priority=self._priority,
            label=self._label,
            repetition=repetition if stepping else None,
            times=self._times,
        )

        unicasts = None if phase.stream is None else partial(lower, unicasts=True)
        last = not stepping or repetition + 1 == phase.repeat
        ended = partial(self._end if last else self._step, index, groups, repetition)
        followed = last and self._is_followed_early(index)
        drained = partial(self._drained, index, groups, followed) if followed or self._lets_go_early(index) else None
        self._tickets.append(self._network.start(lower(), ended, unicasts=unicasts, on_drained=drained, checked=True))

    def _drained(self, index: int, groups: IntArray, followed: bool, activities: IntArray) -> None:
        """Begin what is behind the phase, and let go of its channel."""
        if self._lets_go_early(index):
            self._let_go(index, groups, activities)
        if followed:
            self._wait_less(self._order.followers[index], groups[activities])

    def _is_followed_early(self, index: int) -> bool:
        """Return whether others begin during the latency of the phase; of repetitions nobody says when they drain."""
        repeat = self._schedule.phases[index].repeat * self._times
        return bool(self._order.followers[index]) and repeat == 1

    def _lets_go_early(self, index: int) -> bool:
        """Return whether others have the channel of the phase during its latency."""
        return self._turns is not None and not self._turns.keeps and self._schedule.phases[index].channel >= 0

    def _step(self, index: int, groups: IntArray, repetition: int, activities: IntArray) -> None:
        """Begin the next repetition where one has ended; on a channel that others may have had, when it is free."""
        groups = groups[activities]
        if not self._lets_go_early(index):
            self._begin(index, groups, repetition + 1)
            return
        assert self._turns is not None  # it has a channel
        self._reached.setdefault(index, np.zeros(len(self._groups), dtype=np.intp))[groups] = repetition + 1
        self._turns.take_again(index, groups)
        self._ready(index, groups)

    def _end(self, index: int, members: IntArray, repetition: int, activities: IntArray) -> None:
        """Note that the phase has ended, and begin what has waited for it."""
        del repetition
        groups = members[activities]
        self._let_go(index, groups)
        self._wait_less(self._order.dependents[index], groups)
        if not self._is_followed_early(index):
            self._wait_less(self._order.followers[index], groups)
        if self._left is None:
            done = groups if index == self._order.last else groups[:0]
        else:
            self._left[groups] -= 1
            done = groups[self._left[groups] == 0]
        if len(done):
            self._on_complete(done)

    def _wait_less(self, dependents: list[int], groups: IntArray) -> None:
        """Note that ``dependents`` wait for one phase less in ``groups``, and begin those that wait for none."""
        for dependent in dependents:
            ready = groups
            before = len(self._schedule.phases[dependent].waits)
            if before > 1:
                waiting = self._waiting.get(dependent)
                if waiting is None:
                    waiting = self._waiting[dependent] = np.full(len(self._groups), before)
                waiting[groups] -= 1
                ready = groups[waiting[groups] == 0]
            if len(ready):
                self._ready(dependent, ready)
