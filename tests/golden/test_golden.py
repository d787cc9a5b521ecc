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
from fredfw.experiment.results import GraphResult
from fredfw.fabric import Decision, IdealTransport

# What was recorded has the names of its release.
pytestmark = pytest.mark.filterwarnings("ignore:fidelity '(per-rank|stepwise):DeprecationWarning")
HERE = Path(__file__).parent
EXPERIMENTS = HERE.parents[1] / "experiments"
CALM = 1e-9
"""Relative change of an end, at a change of all volumes by 1e-12, from which on a program is chaotic."""
Outcome = GraphResult | str
"""Of a program: its result, or the text of its error."""
Place = tuple[int, int]
"""A task and a rank."""
Span = tuple[float, float, int, float, float]
"""Start and end; task, start and end of what it waited for last, -1 for nothing."""
BLOCK = 25
"""Programs that are one test."""
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


def read(name: str) -> Any:
    return json.loads(lzma.decompress((HERE / f"{name}.json.xz").read_bytes()))


@cache
def golden() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read("programs")
    return found


@cache
def recorded() -> dict[str, dict[str, Any]]:
    """Return the cells of each experiment at a fidelity."""
    found: dict[str, dict[str, Any]] = read("experiments")
    return found


# --- what an admission is asked


@define(eq=False)
class Notebook(AdmissionPolicy):
    """Makes the admissions of another policy, and has them note what they are asked.

    Attributes:
        calls: Those of the simulation that was asked last; what ``auto`` tries comes before it.
        asked: Those of them about flow sets that do not always start, and which of these run beside them.
    """

    name: ClassVar[str] = "notebook"

    policy: AdmissionPolicy  # the other one
    exempt: bool = False  # whether the admissions still say what always starts; else they are asked about everything
    calls: list[str] = field(factory=list, init=False)
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
                asked.append(f"{text} {closed.of(flows)} beside {closed.of(*others)}: {answer}")

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


# --- programs


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


def same_ends(one: Mapping[Place, Span], other: Mapping[Place, Span]) -> bool:
    """Return whether the same is done, and ends at the same times."""
    return one.keys() == other.keys() and close([one[at][1] for at in one], [other[at][1] for at in one])


def same_spans(one: Mapping[Place, Span], other: Mapping[Place, Span]) -> bool:
    """Return whether the same is done at the same times, and what each rank waited for is the same."""
    return one.keys() == other.keys() and all(one[at][2] == other[at][2] and close(one[at], other[at]) for at in one)


def moved(result: GraphResult) -> dict[str, tuple[float, float]]:
    """Return by label the bytes of all links, and their sum with a weight for each link."""
    weights = np.random.default_rng(0).uniform(0, 1, len(result.link_bytes))
    return {label: (float(loads.sum()), float(loads @ weights)) for label, loads in result.link_bytes_by_label.items()}


def close(one: Iterable[float], other: Iterable[float], relative: float = CALM) -> bool:
    return bool(np.allclose(list(one), list(other), rtol=relative, atol=1e-15))


def named(lines: Sequence[str]) -> list[Any]:
    """Return how many lines there are, and a digest of them."""
    return [len(lines), digest(lines)]


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
    different = {
        seed: why for seed in range(first, first + BLOCK) if (why := list(differences(program(seed), golden()[seed])))
    }
    assert not different


def test_few_programs_are_chaotic() -> None:
    """As many as 2 % were, when they were recorded."""
    chaotic = [seed for seed, kept in enumerate(golden()) if "chaotic" in kept]
    print(f"{len(chaotic)} of {len(golden())} programs are chaotic: {chaotic}")
    assert 0 < len(chaotic) < 0.03 * len(golden())


def differences(one: Program, kept: Mapping[str, Any]) -> Iterator[str]:
    found = outcome(one)
    if "chaotic" in kept:
        if isinstance(found, str):
            yield f"ends with {found}"
        else:
            yield from _outside(found.seconds, *kept["chaotic"])
        return
    if one.seed in ORDER:
        fabric = one.fabric()
        today, found = found, outcome(one, fabric.with_defaults(admission=Notebook(fabric.defaults.admission)))
        if isinstance(today, str) or isinstance(found, str):
            alike = isinstance(today, str) and isinstance(found, str)
        else:
            alike = same_ends(spans(today.timeline), spans(found.timeline))
        if not alike:
            yield "ends otherwise than where the admission is asked about everything"
    if isinstance(found, str) or "error" in kept:
        if found != kept.get("error"):
            yield f"ends with {found}, and did with {kept.get('error')}"
        return
    yield from _of_result(found, kept)
    if "calls" in kept and "turns" not in kept and one.seed not in EMPTY and not _merged(one):
        everything = called(one)
        if named(everything.calls) != kept["calls"]:
            yield "the admission is asked something else"
        if _let_in(called(one, exempt=True)) != _let_in(everything):
            yield "the admission is asked something else of what does not always start"


def _merged(one: Program) -> bool:
    """Return whether the admission keeps phases whole: then it is asked once about repetitions that meet nobody."""
    fabric = one.fabric()
    return one.fidelity.startswith("per-rank") and not fabric.defaults.admission.begin(fabric).flow_by_flow


def _let_in(book: Notebook) -> list[str]:
    """Return what was let in: those that wait ask less often where nobody hears of the end of what always starts."""
    return [line for line in book.asked if not line.endswith("Wait")]


def _outside(seconds: float, least: float, most: float) -> Iterator[str]:
    width = max(most - least, CALM * most)  # of 20 draws: another one may well be as far beside them
    if not least - width <= seconds <= most + width:
        yield f"takes {seconds}, and took {least} to {most}"


def _of_result(found: GraphResult, kept: Mapping[str, Any]) -> Iterator[str]:
    now, then = spans(found.timeline), kept_spans(kept)
    if not same_ends(now, then):
        yield "ends"
    elif not same_spans(now, then):
        yield "starts or causes"
    if not same_numbers(found.breakdown, kept["breakdown"]):
        yield f"breakdown {found.breakdown}, and was {kept['breakdown']}"
    bytes_now = {f"{label} {number}": one for label, both in moved(found).items() for number, one in enumerate(both)}
    bytes_then = {f"{label} {number}": one for label, both in kept["bytes"].items() for number, one in enumerate(both)}
    if not same_numbers(bytes_now, bytes_then):
        yield f"bytes {bytes_now}, and were {bytes_then}"
    if _others(found.notes) != _others(kept["notes"]):
        yield f"notes {found.notes}, and were {kept['notes']}"


def _others(notes: Iterable[str]) -> list[str]:
    return [note for note in notes if not any(part in note for part in RENAMED)]


def same_numbers(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return one.keys() == other.keys() and close(one.values(), [other[name] for name in one])


# --- experiments


@pytest.mark.parametrize("name", [pytest.param(one, marks=slow(one.split()[0] not in SMALL)) for one in recorded()])
def test_experiments_take_what_they_took(name: str) -> None:
    found = dict(cells(*name.split()))
    assert found.keys() == recorded()[name].keys()
    different = {what: list(_of_cell(found[what], kept)) for what, kept in recorded()[name].items()}
    assert not {what: why for what, why in different.items() if why}


def cells(name: str, fidelity: str) -> Iterator[tuple[str, RunResult]]:
    """Yield the result of each cell of an experiment."""
    framework = Framework(trust_plugins=True)
    experiment = framework.load_experiment(EXPERIMENTS / f"{name}.toml", values=NPUS.get(name, {}))
    # Presets of machines had no transport and no PXN when cells were recorded, and attention no mask.
    bare = []
    for fabric in experiment.fabrics:
        topology: Any = fabric.topology
        if hasattr(topology, "pxn") and topology.network != "rail-only":
            topology = evolve(topology, pxn=False)
        bare.append(evolve(fabric, topology=topology, slots={"transport": IdealTransport(), **fabric.slots}))
    unmasked = []
    for one in experiment.workloads:
        workload: Any = one.workload
        unmasked.append(evolve(one, workload=evolve(workload, causal=False)) if hasattr(workload, "causal") else one)
    experiment = evolve(experiment, fabrics=tuple(bare), workloads=tuple(unmasked))
    for workload, fabric in experiment.cells:
        result = framework.run(experiment, workload=workload.name, fabric=fabric.name, fidelity=fidelity)
        yield f"{workload.name} on {fabric.name}", result


_SHARE = {"npu.preset": "h100", "npu.efficiency": 0.6}
NPUS: Mapping[str, Mapping[str, Any]] = {
    "experts": {"npu.compute": "roofline"},
    "fsdp": _SHARE,
    "inference": _SHARE,
}
"""What computed when cells were recorded, where that is not what the experiment says today."""


def _of_cell(found: RunResult, kept: Mapping[str, Any]) -> Iterator[str]:
    if not close([found.seconds], [kept["seconds"]]):
        yield f"takes {found.seconds}, and took {kept['seconds']}"
    numbers = {"breakdown": found.breakdown, "bytes": found.bytes_by_cause, "figures": found.figures}
    for what, now in numbers.items():
        if not same_numbers(now, kept[what]):
            yield f"{what} {now}, and was {kept[what]}"
    others = {
        "statistics": {name: found.statistics[name] for name in kept["statistics"]},
        "algorithms": found.algorithms,
        # Nothing was said of the peak.
        "notes": [note for note in found.notes if "whole peak" not in note and "slows nothing" not in note],
    }
    for what, said in others.items():
        if said != kept[what]:
            yield f"{what} {said}, and was {kept[what]}"
