"""A fabric on which task graphs and collectives are simulated, with all that is kept between simulations."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern
from fredfw.errors import SimulationError
from fredfw.experiment.results import CollectiveResult, GraphResult, Spread
from fredfw.fabric import Fabric, NodeKind, Routes
from fredfw.plugin import configure
from fredfw.plugin.manager import PluginManager
from fredfw.simulation import Executor, FlowNetwork, Planner, ScheduleRun, Simulator, answers
from fredfw.simulation.assignment import Assignment
from fredfw.simulation.choice import too_fast
from fredfw.simulation.estimate import Estimate, Estimator
from fredfw.simulation.fidelity import block_notes, notes as fidelity_notes, possible, undisturbed, ways
from fredfw.simulation.links import LinkEvent, LinkEvents, check, ending, restarts
from fredfw.simulation.record import Timeline
from fredfw.simulation.variation import Pace, Variation, notes as variation_notes
from fredfw.typing import BoolArray, FloatArray, IntArray
from fredfw.units import Unit, render
from fredfw.workloads import Kernels, TaskGraph
from fredfw.workloads.labels import WAITING

_EXACT = 1e-9  # the relative accuracy to which an iteration must be accounted for
_MET = (
    "parts of the schedule met while their repetitions were simulated as one, so the time is an approximation; "
    "--fidelity exact simulates each repetition"
)


@frozen(eq=False)
class Iteration:
    """A task graph whose ranks are on NPUs."""

    graph: TaskGraph
    places: IntArray  # ``(ranks,)`` NPU number of each rank
    compute_seconds: Callable[[float, float, Kernels | None], float]  # see ``Executor``
    priorities: Mapping[str, int]


class Bench:
    """A built fabric with all that is kept between simulations on it."""

    def __init__(
        self,
        fabric: Fabric,
        collectives: Mapping[Pattern | None, tuple[CollectiveAlgorithm, ...]] | None,  # by pattern; ``None`` for all
        plugins: PluginManager,
        *,
        fastest: bool,  # whether the fastest of them is taken, or the first that can serve a request
        worthwhile: bool = False,  # whether those are left out that do not want to be tried, as ``auto`` does
        effort: str = "normal",  # how long the fastest is looked for, or ``low``
    ) -> None:
        self.fabric = fabric
        self.simulator = Simulator(fabric)
        candidates = self.simulator.automatic(plugins.collectives) if collectives is None else collectives
        self.algorithms = [*configure.parts(one for listed in candidates.values() for one in listed)]
        self.planner = Planner(
            self.simulator,
            candidates,
            fastest=fastest,
            worthwhile=worthwhile or collectives is None,
            others=lambda: [cls() for cls in plugins.collectives],
            effort=effort,
        )

    def facts(self) -> dict[str, Any]:
        fabric = self.fabric
        return {
            "fabric": fabric.name,
            "npus": len(fabric.npus),
            "links": len(fabric.bandwidths),
            "router": fabric.defaults.router.name,
            "sharing": self.simulator.sharing.name,
            "transport": fabric.defaults.transport.name,
        }

    def assignment(self, iteration: Iteration) -> Assignment:
        return Assignment(iteration.graph, **self._given(iteration))

    def _given(self, iteration: Iteration) -> dict[str, Any]:
        return {"planner": self.planner, "placement": iteration.places, "priorities": iteration.priorities}

    def graph(
        self,
        iteration: Iteration,
        *,
        name: str,
        fidelity: str,
        attribution: bool = True,  # whether anybody asks what the ranks have waited for
        progress: Callable[[float], None] | None = None,
        checked: bool = False,  # whether there are algorithms for all collectives and links for all streams
        variation: Variation | None = None,
        events: Sequence[LinkEvent] = (),
        watch: Callable[[GraphResult], None] = lambda _: None,
    ) -> GraphResult:
        """Simulate a task graph, as often as ``variation`` says; ``watch`` sees the result of each run."""
        if events:
            check(events, self.fabric)
        ends = ending(events, self.fabric)
        others = [one for one in events if one not in ends]
        runs = 1 if variation is None else variation.runs

        def once(run: int) -> GraphResult:
            pace = None if variation is None else variation.pace(run, len(self.fabric.npus))
            changes = LinkEvents(others, self.fabric, run) if others else None
            share = None if progress is None else lambda done: progress((run + done) / runs)
            for how in [fidelity] if changes else ways(fidelity, self.simulator.network()):
                network = self.simulator.network()
                whole = iteration if how == fidelity else evolve(iteration, graph=iteration.graph.expanded())
                executor = self._executor(whole, network, fidelity=how, progress=share, pace=pace, events=changes)
                if not checked and run == 0:
                    executor.tasks.check_collectives()
                    executor.tasks.check_streams()
                timeline = executor.run()
                if undisturbed(network):
                    break
            if attribution:
                _check_account(name, timeline.breakdown_by_rank, timeline.duration)
            notes = (*variation_notes(pace), *(() if changes is None else changes.notes))
            if timeline.graph is iteration.graph:
                notes = (*block_notes(iteration.graph, possible(fidelity, network)), *notes)
            notes = (*notes, *fidelity_notes(fidelity, network))
            found = self._result(executor, network, timeline, notes, attribution=attribution)
            watch(found)
            return _restarted(found, ends, run) if ends else found

        return once(0) if runs == 1 else over(once, runs)

    def _result(
        self, executor: Executor, network: FlowNetwork, timeline: Timeline, notes: tuple[str, ...], *, attribution: bool
    ) -> GraphResult:
        by_label = dict(sorted(network.link_bytes().items()))
        link_bytes = sum(by_label.values(), np.zeros(len(self.fabric.bandwidths)))
        return GraphResult(
            fabric=self.fabric,
            timeline=timeline,
            placement=executor.tasks.placement,
            seconds=timeline.duration,
            breakdown=timeline.breakdown if attribution else {},
            bytes_by_cause={label: float(loads.sum()) for label, loads in by_label.items()},
            link_bytes=link_bytes,
            link_bytes_by_label=by_label,
            energy=float(link_bytes @ self.fabric.energies),
            algorithms=dict(sorted(executor.tasks.algorithms.items())),
            statistics=network.statistics.as_dict(),
            figures=_figures(network),
            notes=(
                *self.fabric.notes,
                *notes,
                *answers.notes_of_sharing(self.simulator.sharing, self.fabric),
                *answers.notes_of_transport(self.fabric.defaults.transport, self.fabric),
                *_notes(network),
                *_unused(self.fabric, link_bytes),
                *executor.tasks.notes.values(),
            ),
            samples={} if network.dynamics is None else answers.samples(network.dynamics),
            demands=executor.demands,
        )

    def program(self, iteration: Iteration, *, fidelity: str, pace: Pace | None, routes: Routes | None) -> bytes:
        return self._executor(iteration, self.simulator.network(), fidelity=fidelity, pace=pace).exported(routes)

    def _executor(self, iteration: Iteration, network: FlowNetwork, **given: Any) -> Executor:
        seconds = iteration.compute_seconds
        return Executor(iteration.graph, network=network, compute_seconds=seconds, **self._given(iteration), **given)

    def estimate(self, iteration: Iteration) -> Estimate:
        return Estimator(self.assignment(iteration), iteration.compute_seconds).estimate()

    def collective(self, request: CollectiveRequest, group: IntArray, fidelity: str) -> CollectiveResult:
        plan = self.planner.plan(request, group, fidelity)
        bound = self.simulator.bounds.of(request, group)
        label, lowering = str(request.pattern), self.simulator.lowering
        nodes = self.fabric.npus[group][None, :]
        price = lowering.price(plan.schedule, nodes)
        for how in ways(fidelity, self.simulator.network()):
            network = self.simulator.network()
            ScheduleRun(network, lowering, plan.schedule, nodes, lambda _: None, fidelity=how, label=label).start()
            network.advance()
            if not network.idle:
                raise SimulationError(f"{plan.algorithm} {label}: flows that cannot move on {self.fabric.name!r}")
            if undisturbed(network):
                break
        link_bytes = network.link_bytes().get(label, np.zeros(len(self.fabric.bandwidths)))
        duration = network.now
        algbw = request.size / duration if duration > 0 else 0.0
        wrong = too_fast(plan.algorithm, request, duration, bound.seconds, network.now)
        return CollectiveResult(
            pattern=label,
            algorithm=plan.algorithm,
            ranks=request.ranks,
            size=request.size,
            duration=duration,
            algbw=algbw,
            busbw=algbw * request.pattern.bus_factor(request.ranks),
            steps=plan.schedule.steps,
            link_bytes=link_bytes,
            link_utilization=link_bytes / (self.fabric.bandwidths * duration) if duration > 0 else link_bytes,
            energy=float(link_bytes @ self.fabric.energies),
            bound=bound,
            candidates=dict(plan.candidates),
            slower=dict(plan.slower),
            refused=dict(plan.refused),
            statistics=network.statistics.as_dict(),
            figures=_figures(network),
            notes=(
                *self.fabric.notes,
                *answers.notes_of_transport(self.fabric.defaults.transport, self.fabric),
                *fidelity_notes(fidelity, network),
                *_notes(network),
                *_unused(self.fabric, link_bytes),
                *plan.notes,
                *([_MET] if network.statistics.met else ()),
                *([wrong] if wrong else ()),
            ),
            fidelity=fidelity,
            fabric=self.fabric,
            group=group,
            schedule=plan.schedule,
            protocol="" if price is None else price.protocol,
        )


_ENOUGH = 100  # so few runs say little about the slowest of a hundred


def over(once: Callable[[int], GraphResult], runs: int) -> GraphResult:
    """Return the first of ``runs`` runs with the mean of all in place of its time, parts, bytes and energy."""
    first = once(0)
    kept = [(first.seconds, first.energy, first.breakdown, first.link_bytes_by_label)]
    for run in range(1, runs):  # of the others nothing else, as timelines are large
        one = once(run)
        kept.append((one.seconds, one.energy, one.breakdown, one.link_bytes_by_label))
    seconds, energies, parts, moved = zip(*kept, strict=True)
    by_label = {
        label: sum((one[label] for one in moved[1:] if label in one), loads) / runs
        for label, loads in first.link_bytes_by_label.items()
    }
    found = Spread.of(seconds)
    p50, p99, error = (render(one, Unit.SECONDS, 4) for one in (found.p50, found.p99, found.standard_error))
    few = "; the P99 of so few runs is close to the slowest" if runs < _ENOUGH else ""
    times = f"P50 {p50}, P99 {p99}, standard error of the mean {error}{few}"
    note = f"mean of {runs} runs: {times}; the timeline is of the first"
    return evolve(
        first,
        seconds=found.mean,
        breakdown={cause: fmean(one[cause] for one in parts) for cause in first.breakdown},
        energy=fmean(energies),
        link_bytes=sum(by_label.values(), np.zeros_like(first.link_bytes)),
        link_bytes_by_label=by_label,
        bytes_by_cause={label: float(loads.sum()) for label, loads in by_label.items()},
        notes=(*first.notes, note),
        spread=found,
    )


def _check_account(name: str, parts: Mapping[str, FloatArray], duration: float) -> None:
    total = sum(parts.values(), np.zeros(1))
    if (np.abs(total - duration) > _EXACT * duration).any():
        rank = int(np.abs(total - duration).argmax())
        raise SimulationError(f"{name}: the parts of rank {rank} add up to {total[rank]!r} s, not to {duration!r} s")


def _restarted(found: GraphResult, ends: Sequence[LinkEvent], run: int) -> GraphResult:
    """Return ``found`` with the time that failures add, which all ranks wait."""
    added, note = restarts(ends, found.fabric, run, found.seconds, found.link_bytes)
    parts = found.breakdown
    waiting = {WAITING: parts.get(WAITING, 0.0) + added} if parts and added else {}
    return evolve(found, seconds=found.seconds + added, breakdown={**parts, **waiting}, notes=(*found.notes, note))


def _unused(fabric: Fabric, link_bytes: FloatArray) -> tuple[str, ...]:
    """Return that an oversubscription slows nothing, where no message goes from one switch to another."""
    between, ratio = fabric.derived(_oversubscription)
    if ratio <= 1 + _EXACT or link_bytes[between].any():
        return ()
    return (f"the oversubscription of {ratio:.4g} to 1 slows nothing here: no message goes from switch to switch",)


def _oversubscription(fabric: Fabric) -> tuple[BoolArray, float]:
    """Return which links are between switches, and the largest rate of a switch to NPUs over that to other switches."""
    switches, npus = fabric.kinds == NodeKind.SWITCH, fabric.kinds == NodeKind.NPU
    between = switches[fabric.sources] & switches[fabric.destinations]
    down, up = (
        np.bincount(fabric.sources[links], fabric.bandwidths[links], len(switches))[switches]
        for links in (npus[fabric.destinations], between)
    )
    return between, float((down[up > 0] / up[up > 0]).max(initial=0.0))


def _notes(network: FlowNetwork) -> tuple[str, ...]:
    dynamics = network.dynamics
    return answers.notes(network.admission) + (() if dynamics is None else answers.notes_of_dynamics(dynamics))


def _figures(network: FlowNetwork) -> dict[str, float]:
    dynamics = network.dynamics
    mine = {} if dynamics is None else answers.figures_of_dynamics(dynamics, network.now)
    return answers.figures(network.admission) | mine
