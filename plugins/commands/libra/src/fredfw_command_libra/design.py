"""Finds splits by the analytic model, and from there by simulations, where contention and latencies count."""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import scipy  # its parts load when they are used
from attrs import define, evolve, field, frozen

from fredfw import DeviceMesh, Framework, GraphBuilder, TaskGraph
from fredfw.errors import InputError, placed
from fredfw.typing import FloatArray
from fredfw_command_libra.constraints import Constraint
from fredfw_command_libra.model import Demand
from fredfw_command_libra.problem import Job, Network, Problem
from fredfw_command_libra.solve import Optimum, Programme, cheapest, fastest

_STEPS = 0.5, 0.2, 0.08, 0.03
"""Shares of the smaller of two bandwidths that move from one to the other, one after the other."""
_LEAST = 1e-3  # share of the budget that a dimension has at least in a simulation
_EXACT = 1e-9
_GROUP = "all"
_SHORTEST, _LONGEST = 1e-9, 1e6
_Value = Callable[[FloatArray], float]  # what is minimised, of bandwidths


@frozen
class Published:
    """A published split beside ours."""

    split: tuple[float, ...]  # shares of the budget
    ratio: float  # what is minimised, at our split over that at the published one
    distance: float  # the largest difference of a share
    source: str  # where it was published


@frozen
class Simulated:
    """What simulations say; seconds of an iteration, of all workloads by their weights in a group."""

    split: tuple[float, ...]  # the best shares of the budget that were found
    seconds: float  # with these
    equal: float | None  # with equal shares, or ``None`` where the constraints refuse them
    analytic: float  # with the optimum of the analytic model
    gain: float | None  # how many times less is minimised than with equal shares
    loss: float  # how much more is minimised with the analytic optimum than with the best shares, relative to them
    simulations: int  # how many splits were simulated


@frozen
class Design:
    """The best split for one network, workload, budget and objective."""

    network: str
    workload: str  # or ``all`` for a group
    objective: str  # ``time`` or ``time-cost``
    budget: float  # bytes per second of an NPU
    dimensions: tuple[str, ...]  # kind and size of each
    bandwidths: tuple[float, ...]  # bytes per second of an NPU in each dimension
    split: tuple[float, ...]  # shares of the budget
    seconds: float  # of an iteration by the analytic model
    equal: float | None  # with equal shares, or ``None`` where the constraints refuse them
    dollars: float | None  # what the network of an NPU costs, or ``None`` where a price is not known
    value: float  # what is minimised: seconds, or seconds x dollars of an NPU
    gain: float | None  # how many times less that is than with equal shares
    gap: float  # how far it may be above the least one, relative to it
    compute: float  # seconds of computation in an iteration
    status: str  # of ``compute``: ``calibrated`` to this network and budget, ``predicted`` by others, or ``model``
    published: Published | None = None  # beside a published split, if there is one
    simulated: Simulated | None = None  # what simulations say, if that was asked for
    notes: tuple[str, ...] = ()  # what a reader must know


def designs(
    problem: Problem, framework: Framework, *, simulate: bool = False, evaluations: int = 60
) -> Iterator[Design]:
    """Yield the best splits, network by network; a search may simulate so many."""
    with placed(file=problem.file):
        jobs = [_calibrated(job, problem) for job in problem.jobs]
        groups = [(_GROUP, jobs)] if problem.group else [(job.name, [job]) for job in jobs]
        for network in problem.networks.values():
            for name, members in groups:
                parts = [(job, job.demand(network)) for job in members]
                for budget in problem.budgets:
                    for objective in problem.objectives:
                        case = _Case(problem, network, name, objective, budget, parts, framework)
                        yield case.design(evaluations if simulate else 0)


def _programme(parts: Sequence[tuple[Job, Demand]], network: Network, budget: float) -> Programme:
    return Programme(
        messages=np.concatenate([demand.messages for _, demand in parts]),
        weights=np.concatenate([job.weight * demand.counts for job, demand in parts]),
        fixed=sum(job.weight * demand.compute for job, demand in parts),
        budget=budget,
        constraints=network.constraints,
        prices=network.prices,
    )


def _calibrated(job: Job, problem: Problem) -> Job:
    """Return the job with the compute time for which the published split is the one of least time x cost."""
    fit = job.calibration
    if fit is None:
        return job
    first, network = fit.split[0], problem.networks[fit.network]
    programme = _programme([(job, job.demand(network))], network, fit.budget)

    def off(exponent: float) -> float:
        best = cheapest(evolve(programme, fixed=float(np.exp(exponent))))
        return float(best.bandwidths[0]) / fit.budget - first

    low, high = np.log(_SHORTEST), np.log(_LONGEST)
    if off(low) * off(high) > 0:
        message = f"no compute time makes {first:.2%} the best share of the first dimension"
        key = f"workloads.{job.name}.calibration.split"
        raise InputError(message, key=key, accepted="a split that is the best of some compute time")
    return evolve(job, compute=float(np.exp(scipy.optimize.brentq(off, low, high, xtol=1e-5, rtol=1e-9))))


@define(eq=False)
class _Case:
    problem: Problem
    network: Network
    name: str
    objective: str
    budget: float
    parts: Sequence[tuple[Job, Demand]]
    framework: Framework

    def design(self, evaluations: int) -> Design:
        programme = _programme(self.parts, self.network, self.budget)
        try:
            best = fastest(programme) if self.objective == "time" else cheapest(programme)
        except InputError as error:
            raise InputError(f"{self.network.name}: {error.message}", key=error.key, accepted=error.accepted) from None
        value = self._value(programme, programme.seconds)
        even = np.full(programme.dimensions, self.budget / programme.dimensions)
        equal = even if meets(self.network.constraints, even, self.budget) else None
        return Design(
            network=self.network.name,
            workload=self.name,
            objective=self.objective,
            budget=self.budget,
            dimensions=self.network.kinds,
            bandwidths=tuple(best.bandwidths.tolist()),
            split=tuple((best.bandwidths / self.budget).tolist()),
            seconds=programme.seconds(best.bandwidths),
            equal=None if equal is None else programme.seconds(equal),
            dollars=None if programme.prices is None else programme.dollars(best.bandwidths),
            value=best.value,
            gain=None if equal is None or not best.value else value(equal) / best.value,
            gap=best.gap,
            compute=programme.fixed,
            status=self._status(),
            published=self._published(best, value),
            simulated=self._simulated(programme, best, equal, evaluations) if evaluations else None,
            notes=tuple(dict.fromkeys(note for _, demand in self.parts for note in demand.notes)),
        )

    def _value(self, programme: Programme, seconds: _Value) -> _Value:
        if self.objective == "time":
            return seconds
        return lambda bandwidths: seconds(bandwidths) * programme.dollars(bandwidths)

    def _status(self) -> str:
        fits = [job.calibration for job, _ in self.parts if job.calibration is not None]
        if not fits:
            return "model"
        own = all((one.network, one.budget) == (self.network.name, self.budget) for one in fits)
        return "calibrated" if own and self.objective == "time-cost" else "predicted"

    def _published(self, best: Optimum, value: _Value) -> Published | None:
        for one in self.problem.references:
            if (one.network, one.workload, one.objective) == (self.network.name, self.name, self.objective):
                theirs = np.array(one.split)
                distance = float(np.abs(best.bandwidths / self.budget - theirs).max())
                return Published(one.split, best.value / value(theirs * self.budget), distance, one.source)
        return None

    def _simulated(self, programme: Programme, best: Optimum, equal: FloatArray | None, evaluations: int) -> Simulated:
        model = Simulations(self.network, self.parts, self.problem.algorithm, self.framework, self.budget)
        value = self._value(programme, model.seconds)
        analytic = best.bandwidths
        starts = [analytic] if equal is None else [analytic, equal]
        found = search(value, starts, self.network.constraints, self.budget, evaluations)
        least = value(found)
        return Simulated(
            split=tuple((found / self.budget).tolist()),
            seconds=model.seconds(found),
            equal=None if equal is None else model.seconds(equal),
            analytic=model.seconds(analytic),
            gain=None if equal is None else value(equal) / least,
            loss=value(analytic) / least - 1,
            simulations=len(model.known),
        )


@define(eq=False)
class Simulations:
    """The time of an iteration by simulation: collectives of a list in turn, a plugin's workload with its overlap."""

    network: Network
    parts: Sequence[tuple[Job, Demand]]  # the workloads, and what they ask
    algorithm: Any  # of the collectives
    framework: Framework
    budget: float  # bytes per second of an NPU
    known: dict[bytes, float] = field(factory=dict)  # seconds by bandwidths

    def seconds(self, bandwidths: FloatArray) -> float:
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
        return self.framework.simulate_graph(graph, fabric, collectives=chosen, attribution=False, **more).seconds


def search(
    value: _Value, starts: Sequence[FloatArray], constraints: Sequence[Constraint], budget: float, evaluations: int
) -> FloatArray:
    """Return what a pattern search finds from the best of ``starts``: the best of ``_moves``, then smaller ones."""
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
    free = base[int((sizes > _EXACT * sizes[0]).sum()) :]
    for giver, taker in permutations(range(len(bandwidths)), 2):
        wanted = np.zeros(len(bandwidths))
        wanted[giver], wanted[taker] = -1.0, 1.0
        direction = free.T @ (free @ wanted)
        longest = float(np.abs(direction).max())
        if longest > _EXACT:
            yield bandwidths + direction / longest * step * min(bandwidths[giver], bandwidths[taker])


def meets(constraints: Sequence[Constraint], bandwidths: FloatArray, budget: float) -> bool:
    return bool((bandwidths > 0).all()) and all(one.misses(bandwidths) <= _EXACT * budget for one in constraints)
