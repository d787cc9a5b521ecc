"""What runs the schedules of a task graph's communication, and notes those that are faster than they can be."""

from __future__ import annotations

from collections.abc import Callable

from fredfw.simulation.assignment import Assignment, Share
from fredfw.simulation.fidelity import RENDEZVOUS, goes_rank_by_rank
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.schedules import ScheduleRun
from fredfw.typing import IntArray


class Runs:
    """Makes the runs of one graph.

    Args:
        tasks: The graph on its fabric.
        network: Carries the flows.
        lowering: Turns transfers into flows.
        fidelity: How closely they are simulated.

    Attributes:
        rank_by_rank: Whether ranks do not wait for each other.
        rendezvous: Whether a transfer starts only when its destinations are ready for it too.
    """

    def __init__(self, tasks: Assignment, network: FlowNetwork, lowering: Lowering, fidelity: str) -> None:
        self._tasks = tasks
        self._network = network
        self._lowering = lowering
        self._fidelity = fidelity
        self.rank_by_rank = goes_rank_by_rank(fidelity, network)
        self.rendezvous = fidelity == RENDEZVOUS

    def run(self, task: int, share: Share, nodes: IntArray, on_complete: Callable[[IntArray], None]) -> ScheduleRun:
        """Return a run of ``share`` in ``(k, n)`` ``nodes`` whose ranks start together."""
        label = self._tasks.labels[task]
        return ScheduleRun(
            self._network,
            self._lowering,
            share.plan.schedule,
            nodes,
            on_complete,
            fidelity=self._fidelity,
            priority=self._tasks.priority[label],
            label=label,
            times=self._tasks.repeats[task],
        )

    def rank_run(
        self,
        task: int,
        share: Share,
        nodes: IntArray,
        on_complete: Callable[[IntArray], None],
        on_through: Callable[[IntArray, IntArray], None],
    ) -> ScheduleRun:
        """Return a run of ``share`` in ``(k, n)`` ``nodes`` that ranks enter one by one."""
        label = self._tasks.labels[task]
        return ScheduleRun(
            self._network,
            self._lowering,
            share.plan.schedule,
            nodes,
            on_complete,
            fidelity=self._fidelity,
            on_through=on_through,
            priority=self._tasks.priority[label],
            label=label,
        )

    def compare(self, task: int, share: Share, began: float) -> None:
        """Note a time that no algorithm can reach, of a run that ends now, once for all of a kind."""
        seconds = self._network.now - began
        note = share.too_fast(seconds / self._tasks.repeats[task], self._network.now)
        if note is not None:
            request = share.request
            kind = f"{share.plan.algorithm} {request.pattern} {request.ranks} {request.size}"
            self._tasks.notes.setdefault(kind, note)
