"""The same search with simulations in place of the analytic model: contention and latencies count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from attrs import define, field

from fredfw import DeviceMesh, Framework, GraphBuilder, TaskGraph
from fredfw.typing import FloatArray
from fredfw_command_libra.constraints import Constraint
from fredfw_command_libra.model import Demand
from fredfw_command_libra.problem import Job, Network

_STEPS = 0.5, 0.2, 0.08, 0.03
"""Shares of the smaller of two bandwidths that move from one to the other, one after the other."""
_LEAST = 1e-3
"""Share of the budget that a dimension has at least in a simulation."""
_EXACT = 1e-9


@define(eq=False)
class Simulations:
    """The time of an iteration by simulation, for any bandwidths.

    Collectives of a list run one after the other, all groups of one at once, and each kind is simulated once. The
    iteration of a workload plugin is simulated as it is, with its overlap.
    """

    network: Network
    parts: Sequence[tuple[Job, Demand]]  # the workloads, and what they ask
    algorithm: Any  # of the collectives
    framework: Framework
    budget: float  # bytes per second of an NPU
    known: dict[bytes, float] = field(factory=dict)  # seconds by bandwidths

    def seconds(self, bandwidths: FloatArray) -> float:
        """Return the seconds of an iteration, of all workloads by their weights."""
        key = bandwidths.tobytes()
        if key not in self.known:
            fabric = self.network.fabric(np.maximum(bandwidths, _LEAST * self.budget))
            self.known[key] = sum(job.weight * sum(self._parts(job, demand, fabric)) for job, demand in self.parts)
        return self.known[key]

    def _parts(self, job: Job, demand: Demand, fabric: Any) -> Iterator[float]:
        if demand.graph is not None:
            yield self._simulated(demand.graph, fabric, npu=job.npu)
            return
        yield demand.compute
        mesh = DeviceMesh(dict(job.axes))
        alike: dict[Any, float] = {}
        for one in job.collectives:
            groups = mesh.groups(*one.axes)
            if groups.shape[1] == 1:
                continue
            key = one.pattern, one.size, one.axes
            if key not in alike:
                builder = GraphBuilder(mesh.ranks)
                builder.collective("collective", one.pattern, groups, one.size, label=" ".join(one.axes))
                alike[key] = self._simulated(builder.build(), fabric)
            yield one.count * alike[key]

    def _simulated(self, graph: TaskGraph, fabric: Any, **more: Any) -> float:
        chosen = self.algorithm if self.algorithm == "auto" else {"default": self.algorithm}
        result = self.framework.simulate_graph(graph, fabric, collectives=chosen, attribution=False, **more)
        return result.seconds


def search(
    value: Callable[[FloatArray], float],
    starts: Sequence[FloatArray],
    constraints: Sequence[Constraint],
    budget: float,
    evaluations: int,
) -> FloatArray:
    """Return the bandwidths of the least ``value`` that a pattern search finds, never worse than ``starts``.

    It begins at the best of the ``starts``. Each step moves a share of the smaller of two bandwidths from one dimension
    to another, or scales what the constraints tie together, takes the best such move, and makes smaller moves where
    none is better. Deterministic.
    """
    tried = {one.tobytes(): value(one) for one in starts}
    best = min(starts, key=lambda one: tried[one.tobytes()])
    least = tried[best.tobytes()]
    equalities = np.array([np.ones(len(best))] + [one.factors + one.share for one in constraints if one.sense == "="])
    for step in _STEPS:
        while True:
            moves = [one for one in _moves(best, step, equalities) if meets(constraints, one, budget)]
            before = least
            for one in moves:
                if one.tobytes() not in tried:
                    if len(tried) >= evaluations:
                        return best
                    tried[one.tobytes()] = value(one)
                if tried[one.tobytes()] < least:
                    best, least = one, tried[one.tobytes()]
            if not least < before * (1 - _EXACT):
                break
    return best


def _moves(bandwidths: FloatArray, step: float, equalities: FloatArray) -> Iterator[FloatArray]:
    """Yield bandwidths near by; directions that an equality refuses are bent until it does not."""
    _, sizes, base = np.linalg.svd(equalities)
    rank = int((sizes > _EXACT * sizes[0]).sum())
    free = base[rank:]
    for giver, taker in permutations(range(len(bandwidths)), 2):
        wanted = np.zeros(len(bandwidths))
        wanted[giver], wanted[taker] = -1.0, 1.0
        direction = free.T @ (free @ wanted)
        longest = float(np.abs(direction).max())
        if longest > _EXACT:
            yield bandwidths + direction / longest * step * min(bandwidths[giver], bandwidths[taker])


def meets(constraints: Sequence[Constraint], bandwidths: FloatArray, budget: float) -> bool:
    """Return whether ``bandwidths`` are above 0 and meet the constraints."""
    return bool((bandwidths > 0).all()) and all(one.misses(bandwidths) <= _EXACT * budget for one in constraints)
