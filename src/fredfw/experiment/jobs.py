"""Several jobs on one fabric, as one row of an experiment: who gets which NPUs, when each starts, what it does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from random import Random
from statistics import fmean
from typing import Any, ClassVar, TypeAlias, TypeVar

import attrs
import numpy as np
from attrs import frozen

from fredfw import units
from fredfw.errors import InputError, placed
from fredfw.experiment import memories
from fredfw.experiment.naming import repeated
from fredfw.experiment.results import GraphResult, JobResult, Spread, Throughput
from fredfw.fabric import Fabric, MemoryTier
from fredfw.simulation.record import Timeline
from fredfw.terminal import has_controls, quoted
from fredfw.typing import IntArray
from fredfw.units import counted
from fredfw.workloads import DeviceMesh, Kernels, Label, MemoryUse, Npu, System, TaskGraph, Work, Workload, answers
from fredfw.workloads.composition import JobGraph, composed
from fredfw.workloads.kinds import TaskKind
from fredfw.workloads.labels import BUBBLE, COMPUTE, OWN, WAITING
from fredfw.workloads.placement import Placement, places_within
from fredfw.workloads.spilling import Spill, with_spills

_T = TypeVar("_T")
KEYS = "jobs", "job_placement", "job_seed", "arrivals"  # of a row that has jobs instead of a workload
PACKED, SPREAD, RANDOM = "packed", "spread", "random"
Duration = Callable[[float, float, Kernels | None], float]  # returns the seconds of a computation, see ``Executor``


def _called(_instance: object, _attribute: attrs.Attribute[str], value: str) -> None:
    if not value or "/" in value or has_controls(value):
        accepted = "text without / and control characters"
        raise InputError(f"{value!r} is not a name of a job", key="name", accepted=accepted)


def _npus(_instance: object, attribute: attrs.Attribute[Any], value: int | tuple[int, ...] | None) -> None:
    if isinstance(value, tuple):
        if not value or len(set(value)) < len(value) or min(value) < 0:
            accepted = "one or more different numbers of NPUs, from 0"
            raise InputError(f"{list(value)!r} is not a set of NPUs", key=attribute.name, accepted=accepted)
    elif value is not None and value < 1:
        raise InputError(f"{value!r} NPUs", key=attribute.name, accepted="1 or more, or a list of their numbers")


@frozen
class Job:
    """One of the jobs of a row."""

    name: ClassVar[str] = "job"

    called: str = attrs.field(alias="name", validator=_called)  # in results, before the labels of its tasks
    workload: Workload  # what one iteration of it does
    # How many NPUs it gets, or their numbers; by default as many as it has workers on the whole fabric.
    npus: int | tuple[int, ...] | None = attrs.field(default=None, validator=_npus)
    start: float | None = units.duration(None)  # seconds; by default 0, or what the arrivals of the row say
    iterations: int = attrs.field(default=1, validator=units.whole(1))  # how many it does, one after the other


def _rate(_instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not units.LEAST <= value <= units.MOST:
        accepted = f"jobs per second, a number from {units.LEAST:g} to {units.MOST:g}"
        raise InputError(f"{value!r} is not a rate", key=attribute.name, accepted=accepted)


@frozen
class Arrivals:
    """When jobs start that do not say it themselves: a Poisson process, in the order of the jobs."""

    rate: float = attrs.field(validator=_rate)  # jobs per second on average
    seed: int = attrs.field(default=0, validator=units.whole(0))  # equal seeds give equal times

    def times(self, count: int) -> list[float]:
        random, now, found = Random(self.seed), 0.0, []
        for _ in range(count):
            now -= math.log(1 - random.random()) / self.rate
            found.append(now)
        return found


@frozen
class Jobs(Workload):
    """Several jobs at once, each on NPUs of its own."""

    name: ClassVar[str] = "jobs"

    jobs: tuple[Job, ...]
    # Free NPUs for a job that names none, job by job: those with the lowest numbers, evenly spaced ones, or any.
    job_placement: str = attrs.field(default=PACKED, validator=units.one_of(PACKED, SPREAD, RANDOM))
    job_seed: int = attrs.field(default=0, validator=units.whole(0))  # of random placement; equal seeds give equal NPUs
    arrivals: Arrivals | None = None  # when jobs start that do not say it

    def __attrs_post_init__(self) -> None:
        if not self.jobs:
            raise InputError("there are no jobs", key="jobs", accepted="one or more")
        if found := repeated(job.called for job in self.jobs):
            key, name = f"jobs[{found[0]}].name", self.jobs[found[0]].called
            raise InputError(f"{name!r} is repeated", key=key, accepted="a name of its own")

    @cached_property
    def starts(self) -> tuple[float, ...]:
        arrivals = iter([0.0] * len(self.jobs) if self.arrivals is None else self.arrivals.times(len(self.jobs)))
        return tuple(next(arrivals) if job.start is None else job.start for job in self.jobs)

    def sets(self, system: System) -> tuple[IntArray, ...]:
        owners: dict[int, str] = {}
        for index, job in enumerate(self.jobs):
            for npu in job.npus if isinstance(job.npus, tuple) else ():
                key = f"jobs[{index}].npus"
                if npu >= system.npus:
                    raise InputError(f"there is no NPU {npu}", key=key, accepted=f"numbers from 0 to {system.npus - 1}")
                if npu in owners:
                    message = f"NPU {npu} is one of the job {owners[npu]!r} already"
                    raise InputError(message, key=key, accepted="NPUs that no other job has")
                owners[npu] = job.called
        free = [npu for npu in range(system.npus) if npu not in owners]
        if self.job_placement == RANDOM:
            random = Random(self.job_seed)
            drawn = [random.random() for _ in free]
            free = [free[one] for one in sorted(range(len(free)), key=drawn.__getitem__)]
        found = []
        for index, job in enumerate(self.jobs):
            if isinstance(job.npus, tuple):
                found.append(np.array(sorted(job.npus), dtype=np.intp))
                continue
            count = job.npus
            if count is None:
                with _placed(index):
                    count = answers.mesh(job.workload, system).ranks
            if count > len(free):
                are = f"of {system.npus} is", f"of {system.npus} are"
                message = f"the job {job.called!r} needs {counted(count, 'NPU')}, but {counted(len(free), *are)} free"
                raise InputError(message, key=f"jobs[{index}].npus", accepted=f"at most {len(free)}")
            step = len(free) if self.job_placement == SPREAD else count
            taken = {place * step // count for place in range(count)}
            found.append(np.array(sorted(free[place] for place in taken), dtype=np.intp))
            free = [npu for place, npu in enumerate(free) if place not in taken]
        return tuple(found)

    def parts(self, system: System) -> tuple[Part, ...]:
        """Return the jobs on their NPUs, in the order of the lowest of these, whatever their names and their order."""
        found = []
        for index, (job, npus, start) in enumerate(zip(self.jobs, self.sets(system), self.starts, strict=True)):
            own = attrs.evolve(system, npus=len(npus))
            with _placed(index):
                mesh = answers.mesh(job.workload, own)
                if mesh.ranks > len(npus):
                    message = f"{mesh} needs {counted(mesh.ranks, 'NPU')}, but the job {job.called!r} has {len(npus)}"
                    raise InputError(message, accepted=f"axes whose product is at most {len(npus)}")
            found.append(Part(index, job, npus, start, own, mesh))
        return tuple(sorted(found, key=lambda part: int(part.npus[0])))

    def mesh(self, system: System) -> DeviceMesh:
        return DeviceMesh({"job": sum(part.mesh.ranks for part in self.parts(system))})

    def graph(self, system: System) -> TaskGraph:
        return composed([part.graph for part in self.parts(system)])

    def labels(self, system: System) -> Mapping[str, Label]:
        """Return the labels of all jobs, without colours: two jobs would have the same."""
        labels = {label: one for part in self.parts(system) for label, one in part.labels.items()}
        return {label: attrs.evolve(one, colour=None) for label, one in labels.items()}

    def memory(self, system: System) -> MemoryUse:
        return max((part.memory for part in self.parts(system)), key=lambda memory: memory.total)

    def notes(self, system: System) -> tuple[str, ...]:
        return self._told(answers.notes, system)

    def omissions(self, system: System) -> tuple[str, ...]:
        return self._told(answers.omissions, system)

    def _told(self, what: Callable[[Workload, System], Iterable[str]], system: System) -> tuple[str, ...]:
        ordered = sorted(self.parts(system), key=lambda part: part.index)
        return tuple(f"{quoted(part.name)}: {note}" for part in ordered for note in part.asked(what))


@frozen(eq=False)
class Part:
    """A job on its NPUs."""

    index: int  # of the job, in the order of the experiment
    job: Job
    npus: IntArray  # the sorted numbers of its NPUs
    start: float
    system: System  # what it knows of the machine: its NPUs alone
    mesh: DeviceMesh
    spilled: tuple[Spill, ...] = ()  # what each of its ranks has in memory tiers, because its NPU has no room for it

    def memory_notes(self, npu: Npu) -> tuple[str, ...]:
        return tuple(f"{quoted(self.name)}: {note}" for note in memories.notes(self.memory, npu, self.spilled))

    @property
    def name(self) -> str:
        return self.job.called

    def places(self, placement: Placement, fabric: Fabric) -> IntArray:
        return places_within(placement, fabric, self.mesh, self.npus)

    def asked(self, answer: Callable[[Workload, System], _T]) -> _T:
        with _placed(self.index):
            return answer(self.job.workload, self.system)

    @property
    def graph(self) -> JobGraph:
        graph = self.asked(lambda workload, system: answers.graph(workload, system, self.mesh.ranks))
        graph = with_spills(graph, self.spilled, 1 if self.work is None else self.work.microbatches or 1)
        return JobGraph(self.name, self.index, graph, self.start, self.job.iterations)

    @property
    def labels(self) -> Mapping[str, Label]:
        return {f"{self.name}/{label}": one for label, one in self.asked(answers.labels).items()}

    @property
    def memory(self) -> MemoryUse:
        return self.asked(answers.memory)

    @property
    def work(self) -> Work | None:
        return self.asked(answers.work)


def spilling(parts: Sequence[Part], npu: Npu, tiers: Sequence[MemoryTier]) -> tuple[Part, ...]:
    """Return jobs with what each has in ``tiers``; of a tier for all NPUs it takes what those before it leave."""
    # What jobs keep there anyway has its place first.
    used = {tier.name: math.fsum(_kept(part, tier.name) for part in parts) for tier in tiers}
    found = []
    for part in parts:
        others = {name: size - _kept(part, name) for name, size in used.items()}
        with _placed(part.index):
            spilled = memories.spilled(part.memory, npu, tiers, part.mesh.ranks, others)
        for one in spilled:
            used[one.tier] += math.fsum(one.parts.values()) * part.mesh.ranks
        found.append(attrs.evolve(part, spilled=spilled))
    return tuple(found)


def _kept(part: Part, tier: str) -> float:
    return part.memory.tiers.get(tier, 0.0) * part.mesh.ranks


def _placed(index: int) -> AbstractContextManager[None]:
    return placed(key=f"jobs[{index}].workload")


def seconds_of(graph: TaskGraph, durations: Mapping[int, Duration]) -> TaskGraph:
    seconds = graph.seconds.copy()
    known: dict[tuple[int, float, float, int], float] = {}
    for task in np.flatnonzero((graph.kinds == TaskKind.COMPUTE) & np.isnan(seconds)).tolist():
        key = int(graph.jobs[task]), float(graph.flops[task]), float(graph.bytes[task]), int(graph.kernels[task])
        if key not in known:
            job, flops, size, kernels = key
            known[key] = durations[job](flops, size, None if kernels < 0 else graph.kernel_tables[kernels])
        seconds[task] = known[key]
    return attrs.evolve(graph, seconds=seconds)


Course: TypeAlias = tuple[list[float], dict[str, float]]
"""What one run made of a job: seconds of each iteration, and by cause, the mean over its ranks, with its own labels."""
Simulated: TypeAlias = tuple[GraphResult, Mapping[int, Sequence[Course]]]
"""A simulation of jobs: all of them together, and by the number of each its courses, run by run."""


def course(part: Part, timeline: Timeline) -> Course:
    iterations, prefix = timeline.iterations(part.index), f"{part.name}/"
    breakdown: dict[str, float] = {}
    for label, spent in ((label, spent) for one in iterations for label, spent in one.breakdown.items()):
        if label.startswith(prefix) or label in (COMPUTE, BUBBLE) or (label == WAITING and spent):
            cause = label.removeprefix(prefix)
            breakdown[cause] = breakdown.get(cause, 0.0) + spent
    return [one.duration for one in iterations], breakdown


def results_of(
    parts: Sequence[Part], together: Simulated, alone: Sequence[Simulated], npu: Npu, compute_scale: float
) -> tuple[JobResult, ...]:
    """Return what became of each job, in the order of the experiment; ``alone`` has each of ``parts`` by itself."""
    everything, courses = together
    found = {}
    for part, (single, lonely) in zip(parts, alone, strict=True):
        runs, breakdowns = zip(*courses[part.index], strict=True)
        times = list(map(math.fsum, runs))
        seconds, least = fmean(times), fmean(math.fsum(run) for run, _ in lonely[part.index])
        causes = dict.fromkeys(cause for one in breakdowns for cause in one)
        iterations = tuple(map(fmean, zip(*runs, strict=True)))
        prefix, work = f"{part.name}/", part.work
        found[part.index] = JobResult(
            name=part.name,
            workload=part.job.workload.name,
            npus=tuple(part.npus.tolist()),
            start=part.start,
            seconds=seconds,
            alone=least,
            slowdown=seconds / least if least else 1.0,
            iterations=iterations,
            breakdown={cause: fmean(one.get(cause, 0.0) for one in breakdowns) for cause in causes},
            bytes=sum(moved for label, moved in everything.bytes_by_cause.items() if label.startswith(prefix)),
            bytes_alone=sum(single.bytes_by_cause.values()),
            memory=part.memory.parts,
            work=work,
            throughput=Throughput.of(
                work, seconds / len(iterations), npus=part.mesh.ranks, peak=npu.peak, compute_scale=compute_scale
            ),
            spread=Spread.of(times) if len(times) > 1 else None,
        )
    return tuple(found[index] for index in sorted(found))


def breakdown_of(parts: Sequence[Part], jobs: Sequence[JobResult], seconds: float) -> dict[str, float]:
    """Return the seconds by cause of all jobs, mean over their ranks; they add up to the ``seconds`` of the longest."""
    ranks = {part.index: part.mesh.ranks for part in parts}
    total = dict.fromkeys(OWN, 0.0)
    for index, job in enumerate(jobs):
        share = ranks[index] / sum(ranks.values())
        for cause, spent in job.breakdown.items():
            name = cause if cause in OWN else f"{job.name}/{cause}"
            total[name] = total.get(name, 0.0) + share * spent
        total[WAITING] += share * (seconds - job.seconds)  # before its start and after its end
    return total
