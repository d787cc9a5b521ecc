"""Runs every split on every cluster that has room for it, and finds what is best."""

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import field, frozen

from fredfw import Experiment, Framework, System, units
from fredfw.errors import InputError
from fredfw_command_comet.problem import BASE, Problem, fabric_name


@frozen(eq=False)
class Time:
    """An iteration."""

    seconds: float
    breakdown: Mapping[str, float]  # seconds by cause; they add up to ``seconds``
    memory_bandwidth: float  # bytes per second at which computation moves what it holds


@frozen(eq=False)
class Case:
    """A split on a cluster."""

    cluster: str  # that of ``[cluster]`` is ``cluster``
    split: Mapping[str, Any]  # workers by axis of the workload's mesh, and swept fields that are no axes
    memory: Mapping[str, float] = field(factory=dict)  # bytes that one NPU needs, by what they hold, where known
    fits: str = "no"  # ``local``: in the local memory; ``expanded``: with expanded memory; ``no``
    reason: str = ""  # why it has no time, if it has none
    local: Time | None = None  # its iteration without expanded memory
    expanded: Mapping[float, Time] = field(factory=dict)  # the same with it, by its bandwidth, needed or not

    @property
    def total(self) -> float:
        return sum(self.memory.values())

    @property
    def name(self) -> str:
        return "-".join(f"{key.upper()}{value}" for key, value in self.split.items())


class Best:
    """The fastest splits on a cluster."""

    def __init__(self, cluster: str, problem: Problem, cases: tuple[Case, ...]) -> None:
        self.cluster = cluster
        own = [one for one in cases if one.cluster == cluster]
        local = [(one.local.seconds, number) for number, one in enumerate(own) if one.local is not None]
        # The fastest one without expanded memory, if any fits, and for each bandwidth of it.
        self.local = own[min(local)[1]] if local else None
        self.expanded: dict[float, Case] = {}
        for bandwidth in problem.bandwidths:
            timed = [one for one in own if bandwidth in one.expanded]
            if timed:
                self.expanded[bandwidth] = min(timed, key=lambda one: one.expanded[bandwidth].seconds)

    def gain(self, bandwidth: float) -> float | None:
        """Return how many times shorter expanded memory makes the iteration, if there is one without."""
        if self.local is None or self.local.local is None or bandwidth not in self.expanded:
            return None
        return self.local.local.seconds / self.expanded[bandwidth].expanded[bandwidth].seconds


@frozen(eq=False)
class Findings:
    """What the workflow has found."""

    cases: tuple[Case, ...]  # every split on every cluster, cluster by cluster
    best: tuple[Best, ...]  # of each cluster

    @property
    def splits(self) -> float | None:
        """The slowest split that fits ``[cluster]`` without expanded memory over the fastest, if any does."""
        return _ratio(one.local.seconds for one in self.cases if one.cluster == BASE and one.local is not None)

    @property
    def clusters(self) -> float | None:
        """The slowest configuration of a cluster over the fastest, each with its best split, if any has one."""
        local = [one.local.local.seconds for one in self.best if one.local is not None and one.local.local is not None]
        expanded = [case.expanded[bandwidth].seconds for one in self.best for bandwidth, case in one.expanded.items()]
        return _ratio([*local, *expanded])

    @property
    def gain(self) -> tuple[float, str, float] | None:
        """The most that expanded memory gains, on which cluster and with which bandwidth, if it can be said."""
        found = [
            (gain, one.cluster, bandwidth)
            for one in self.best
            for bandwidth in one.expanded
            if (gain := one.gain(bandwidth)) is not None
        ]
        return max(found, default=None, key=lambda one: one[0])


def explore(problem: Problem, framework: Framework, *, jobs: int = 1, store: str | None = None) -> Findings:
    """Run every split of ``problem`` on every cluster: without expanded memory, and with it where it is needed."""
    try:
        experiment = framework.load_experiment(problem.tables([None]))
        cases = {
            (fabric.name, workload.name): _estimated(experiment, problem, workload.name, fabric.name)
            for fabric in experiment.fabrics
            for workload in experiment.workloads
        }
        if all(one.fits == "no" for one in cases.values()):
            raise _nothing_fits(problem, list(cases.values()))
        times: dict[tuple[str, str], Time | str] = {}  # of each cell, or why it has none
        for bandwidths, kind in (((None,), "local"), (problem.bandwidths, "expanded")):
            chosen = list(dict.fromkeys(name for (_, name), one in cases.items() if one.fits == kind))
            if not chosen:
                continue
            matrix = framework.load_experiment(problem.tables(bandwidths), workloads=chosen)
            compared = framework.compare(matrix, jobs=jobs, store=store)
            for row in compared.rows:
                column = matrix.fabric(row.fabric)
                npu = matrix.npu_of(column, column.topology.build().accelerator).holding(sum(row.memory.values()))
                times[row.fabric, row.workload] = Time(row.seconds, row.breakdown, npu.memory_bandwidth)
            times |= {(one.fabric, one.workload): one.reason for one in compared.failures}
    except InputError as error:
        raise (error if error.file == problem.path else problem.blamed(error)) from None
    found = tuple(_timed(case, workload, problem, times) for (_, workload), case in cases.items())
    return Findings(found, tuple(Best(name, problem, found) for name in problem.clusters))


def _estimated(experiment: Experiment, problem: Problem, workload: str, fabric: str) -> Case:
    spec, column = experiment.workload(workload), experiment.fabric(fabric)
    built = column.topology.build()
    system = System(len(built.npus), len(built.controllers))
    try:
        mesh = spec.workload.mesh(system)
        use = spec.workload.memory(system)
    except InputError as error:
        return Case(fabric, dict(spec.settings), reason=str(error))
    axes = {key: size for key, size in mesh.axes.items() if size > 1 or key in ("mp", "dp")}
    split = {**axes, **{key: value for key, value in spec.settings.items() if key not in mesh.axes}}
    memory = experiment.npu_of(column, built.accelerator).memory
    if use.total <= memory or not use.must_fit:
        fits = "local"
    else:
        fits = "expanded" if use.total <= memory + problem.memory else "no"
    return Case(fabric, split, use.parts, fits)


def _timed(case: Case, workload: str, problem: Problem, times: Mapping[tuple[str, str], Time | str]) -> Case:
    """Return ``case`` with the times of its cells: what fits the local memory needs no other."""
    if case.fits == "no":
        return case
    names = [case.cluster, *(fabric_name(case.cluster, one) for one in problem.bandwidths)]
    cells = [times.get((name, workload)) for name in names]
    used = cells[:1] * len(problem.bandwidths) if case.fits == "local" else cells[1:]
    expanded = {one: time for one, time in zip(problem.bandwidths, used, strict=True) if isinstance(time, Time)}
    if not expanded:
        return attrs.evolve(case, reason=next((cell for cell in cells if isinstance(cell, str)), ""))
    local = expanded[problem.bandwidths[0]] if case.fits == "local" else None
    return attrs.evolve(case, local=local, expanded=expanded)


def _nothing_fits(problem: Problem, cases: list[Case]) -> InputError:
    needs = [one.total for one in cases if one.memory]
    if not needs:
        return InputError(f"no split can be used: {cases[0].reason}", file=problem.path, key="sweep")
    least, expansion = units.render(min(needs), units.Unit.BYTES), units.render(problem.memory, units.Unit.BYTES)
    message = f"no split fits, even with {expansion} of expanded memory: the least that an NPU needs is {least}"
    accepted = "more memory, more splits, recomputation, or a higher ZeRO stage"
    return InputError(message, file=problem.path, key="expansion.memory", accepted=accepted)


def _ratio(seconds: Any) -> float | None:
    listed = list(seconds)
    return max(listed) / min(listed) if listed else None
