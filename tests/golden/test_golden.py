"""Today's engine gives what the release before it gave, whose engine was in Python (93fc39f).

The programs are never written again: their worth is that they come from another program than what they are compared
with. The experiments were written when ``exact`` became the default; before, all of their cells were compared with that
release, too.

Where several things happen at one moment, a change of the volumes by 1e-12 may turn their order, and all that follows.
Programs are chaotic whose ends change then by more than ``CALM``: their least and most seconds are kept. ``turns`` says
that admissions are asked in another order then.
"""

import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import define, evolve, field
from programs import Program, program

from fredfw import Admission, AdmissionPolicy, Fabric, FlowSet, Framework, RunResult, Timeline
from fredfw.errors import InputError, SimulationError
from fredfw.experiment.file.spec import FabricSpec
from fredfw.experiment.results import GraphResult
from fredfw.fabric import Decision, IdealTransport

# What was recorded has the names of its release.
pytestmark = pytest.mark.filterwarnings("ignore:fidelity '(per-rank|stepwise):DeprecationWarning")
HERE = Path(__file__).parent
EXPERIMENTS = HERE.parents[1] / "experiments"
# Relative change of an end, at a change of all volumes by 1e-12, from which on a program is chaotic.
CALM = 1e-9
Outcome = GraphResult | str  # of a program: its result, or the text of its error
Place = tuple[int, int]  # a task and a rank
Span = tuple[float, float, int, float, float]  # start, end, the task waited for last or -1, its start and end
BLOCK = 25  # programs that are one test
# Programs with an all-to-all-v that moves nothing: the admission is not asked about it, and was.
EMPTY = (292,)
# Programs in which a message and a stream begin at one moment, and would end at one. Today the message,
# which the admission is not asked about, is first, and named first as a cause or in an error. Where the admission is
# asked about it, all is as it was.
ORDER = (715, 1097, 1227)
# What notes say of fidelities, which had other names, and of what they said nothing.
RENAMED = "admits phases as a whole", "simulated as one", "change in time, so", "slows nothing here"
# Experiments that take a second or two at each fidelity.
SMALL = ("fred-routing", "inference")


@cache
def read(name: str) -> Any:
    return json.loads(lzma.decompress((HERE / f"{name}.json.xz").read_bytes()))


# --- what an admission is asked


@define(eq=False)
class Notebook(AdmissionPolicy):
    """Makes the admissions of another policy, and has them note what they are asked."""

    name: ClassVar[str] = "notebook"

    policy: AdmissionPolicy  # the other one
    exempt: bool = False  # whether the admissions still say what always starts; else they are asked about everything
    calls: list[str] = field(factory=list, init=False)  # of the last simulation; what ``auto`` tries is before it
    # Those about sets that do not always start, beside such sets, and that were let in: those that wait ask less often
    # where nobody hears of the end of what always starts.
    asked: list[str] = field(factory=list, init=False)

    def begin(self, fabric: Fabric) -> Admission:
        admission = self.policy.begin(fabric)
        cls, calls, asked = type(admission), list[str](), list[str]()
        everything, closed = _Names(), _Names()
        book = self

        def starts(flows: FlowSet) -> bool:
            open_ = cls.always_starts(admission, flows.routes)
            return open_ is not None and bool(open_.all())

        def note(text: str, flows: FlowSet, beside: Sequence[FlowSet], answer: str) -> None:
            book.calls, book.asked = calls, asked
            calls.append(f"{text} {everything.of(flows)} beside {everything.of(*beside)}: {answer}")
            if not starts(flows):
                others = [one for one in beside if not starts(one)]
                line = f"{text} {closed.of(flows)} beside {closed.of(*others)}: {answer}"
                asked.extend([] if answer == "Wait" else [line])

        def admit(self: Admission, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
            decision = cls.admit(self, flows, active)
            note("admit", flows, active, type(decision).__name__)
            return decision

        def release(self: Admission, flows: FlowSet) -> None:
            cls.release(self, flows)
            note("release", flows, (), "")

        members: dict[str, Any] = {"__slots__": (), "admit": admit, "release": release}
        if self.exempt:
            members["always_starts"] = cls.always_starts
        object.__setattr__(admission, "__class__", type(cls.__name__, (cls,), members))
        return admission


@define(eq=False)
class _Names:
    """Names flow sets by when they came: the same flows are one object as long as they run."""

    known: dict[int, str] = field(factory=dict)
    kept: list[FlowSet] = field(factory=list)

    def of(self, *sets: FlowSet) -> str:
        for one in sets:
            if id(one) not in self.known:
                links = digest(map(str, one.routes.links.tolist()))
                what = f"{one.label} {one.priority} {one.repeat} {len(one.volumes)} {links}"
                self.known[id(one)] = f"{len(self.known)} ({what})"
                self.kept.append(one)
        return ", ".join(self.known[id(one)] for one in sets)


def outcome(one: Program, fabric: Fabric | None = None) -> Outcome:
    """Return what becomes of a program; other errors than of what is simulated are mistakes of this file."""
    try:
        return one.run(fabric)
    except (SimulationError, InputError) as error:
        return f"{type(error).__name__}: {error}"


def called(one: Program, *, exempt: bool = False) -> Notebook:
    """Return what the admission of a program is asked, about all flows or without those that are exempt."""
    fabric = one.fabric()
    notebook = Notebook(fabric.defaults.admission, exempt)
    outcome(one, fabric.with_defaults(admission=notebook))
    return notebook


def spans(timeline: Timeline) -> dict[Place, Span]:
    """Return what each rank does in each task: how ranks that do the same make up spans is a matter of storage."""
    task, start, end = timeline.task.tolist(), timeline.start.tolist(), timeline.end.tolist()
    causes = [(-1, 0.0, 0.0) if one < 0 else (task[one], start[one], end[one]) for one in timeline.trigger.tolist()]
    return {
        (task[span], rank): (start[span], end[span], *causes[span])
        for span, ranks in enumerate(timeline.ranks)
        for rank in ranks.tolist()
    }


def moved(result: GraphResult) -> dict[str, tuple[float, float]]:
    """Return by label the bytes of all links, and their sum with a weight for each link."""
    weights = np.random.default_rng(0).uniform(0, 1, len(result.link_bytes))
    return {label: (float(loads.sum()), float(loads @ weights)) for label, loads in result.link_bytes_by_label.items()}


def same(one: Any, other: Any) -> bool:
    """Return whether two mappings have the same keys with the same numbers or rows of numbers."""
    return one.keys() == other.keys() and np.allclose(
        [one[key] for key in one], [other[key] for key in one], rtol=CALM, atol=1e-15
    )


def digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def kept_spans(kept: Mapping[str, Any]) -> dict[Place, Span]:
    times = kept["times"]
    return {
        (task, rank): (times[start], times[end], cause, times[since], times[until])
        for task, start, end, cause, since, until, ranks in kept["spans"]
        for rank in ranks
    }


def slow(condition: bool) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.slow,) if condition else ()


@pytest.mark.parametrize("first", [pytest.param(first, marks=slow(first > 0)) for first in range(0, 2000, BLOCK)])
def test_programs_take_what_they_took(first: int) -> None:
    programs, kept = map(program, range(first, first + BLOCK)), read("programs")[first : first + BLOCK]
    different = {one.seed: list(differences(one, then)) for one, then in zip(programs, kept, strict=True)}
    assert not {seed: why for seed, why in different.items() if why}


def differences(one: Program, kept: Mapping[str, Any]) -> Iterator[str]:
    found = outcome(one)
    if "chaotic" in kept:
        least, most = kept["chaotic"]
        width = max(most - least, CALM * most)  # of 20 draws: another one may well be as far beside them
        if isinstance(found, str) or not least - width <= found.seconds <= most + width:
            yield f"ends with {found}, and took {least} to {most} s"
        return
    if one.seed in ORDER:
        fabric = one.fabric()
        today, found = found, outcome(one, fabric.with_defaults(admission=Notebook(fabric.defaults.admission)))
        if not same(ends(today), ends(found)):
            yield "ends otherwise than where the admission is asked about everything"
    if isinstance(found, str) or "error" in kept:
        if found != kept.get("error"):
            yield f"ends with {found}, and did with {kept.get('error')}"
        return
    numbers = {"breakdown": found.breakdown, "bytes": moved(found), "spans": spans(found.timeline)}
    for what, now in numbers.items():
        then = kept_spans(kept) if what == "spans" else kept[what]
        if not same(now, then):
            yield f"{what} {now}, and was {then}"
    if _others(found.notes) != _others(kept["notes"]):
        yield f"notes {found.notes}, and were {kept['notes']}"
    if "calls" in kept and "turns" not in kept and one.seed not in EMPTY and not _merged(one):
        everything = called(one)
        if [len(everything.calls), digest(everything.calls)] != kept["calls"]:
            yield "the admission is asked something else"
        if called(one, exempt=True).asked != everything.asked:
            yield "the admission is asked something else of what does not always start"


def ends(found: Outcome) -> dict[Place, float]:
    """Return when each rank ends each task: never, where there is an error."""
    return {} if isinstance(found, str) else {at: span[1] for at, span in spans(found.timeline).items()}


def _merged(one: Program) -> bool:
    """Return whether the admission keeps phases whole: then it is asked once about repetitions that meet nobody."""
    fabric = one.fabric()
    return one.fidelity.startswith("per-rank") and not fabric.defaults.admission.begin(fabric).flow_by_flow


def _others(notes: Iterable[str]) -> list[str]:
    return [note for note in notes if not any(part in note for part in RENAMED)]


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=slow(one.split()[0] not in SMALL)) for one in read("experiments")]
)
def test_experiments_take_what_they_took(name: str) -> None:
    found, kept = dict(cells(*name.split())), read("experiments")[name]
    assert found.keys() == kept.keys()
    different = {what: list(_of_cell(found[what], kept[what])) for what in kept}
    assert not {what: why for what, why in different.items() if why}


def cells(name: str, fidelity: str) -> Iterator[tuple[str, RunResult]]:
    """Yield the result of each cell of an experiment."""
    framework = Framework(trust_plugins=True)
    experiment = framework.load_experiment(EXPERIMENTS / f"{name}.toml", values=NPUS.get(name, {}))
    experiment = evolve(
        experiment,
        fabrics=tuple(map(_before_transports, experiment.fabrics)),
        workloads=tuple(evolve(one, workload=_with(one.workload, causal=False)) for one in experiment.workloads),
    )
    for workload, fabric in experiment.cells:
        result = framework.run(experiment, workload=workload.name, fabric=fabric.name, fidelity=fidelity)
        yield f"{workload.name} on {fabric.name}", result


def _before_transports(fabric: FabricSpec) -> FabricSpec:
    """Return it as cells were recorded: presets of machines had no transport and no PXN, and attention no mask."""
    topology: Any = fabric.topology
    if getattr(topology, "network", None) != "rail-only":
        topology = _with(topology, pxn=False)
    return evolve(fabric, topology=topology, slots={"transport": IdealTransport(), **fabric.slots})


def _with(plugin: Any, **fields: Any) -> Any:
    """Return ``plugin`` with the fields that it has."""
    return evolve(plugin, **{name: value for name, value in fields.items() if hasattr(plugin, name)})


_SHARE = {"npu.preset": "h100", "npu.efficiency": 0.6}
# What computed when cells were recorded, where that is not what the experiment says today.
NPUS: Mapping[str, Mapping[str, Any]] = {"experts": {"npu.compute": "roofline"}, "fsdp": _SHARE, "inference": _SHARE}


def _of_cell(found: RunResult, kept: Mapping[str, Any]) -> Iterator[str]:
    numbers = {"breakdown": found.breakdown, "bytes": found.bytes_by_cause, "figures": found.figures}
    others = {
        "statistics": {name: found.statistics[name] for name in kept["statistics"]},
        "algorithms": found.algorithms,
        # Nothing was said of the peak.
        "notes": [note for note in found.notes if "whole peak" not in note and "slows nothing" not in note],
    }
    if found.seconds != pytest.approx(kept["seconds"], rel=CALM):
        yield f"takes {found.seconds}, and took {kept['seconds']}"
    for what, now in {**numbers, **others}.items():
        if not (same(now, kept[what]) if what in numbers else now == kept[what]):
            yield f"{what} {now}, and was {kept[what]}"
