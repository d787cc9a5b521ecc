"""What is kept of random programs and of experiments; writes what experiments take with the release that is installed.

The programs were written with the last release whose engine was in Python (93fc39f), by an older version of this file,
and are not to be written again: their worth is that they come from another program than what they are compared with.
A program is ``chaotic`` whose ends change by more than ``CALM`` where its volumes change by 1e-12; its least and most
seconds are kept. ``turns`` says that admissions are asked in another order then. The experiments were written when
``exact`` became the default; before, all of their cells were compared with that release, too.

    python tests/golden/record.py experiments.json.xz
"""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from attrs import define, evolve, field

sys.path.insert(0, str(Path(__file__).parent))

from programs import Program

from fredfw import Admission, AdmissionPolicy, Fabric, FlowSet, Framework, RunResult, Timeline
from fredfw.errors import InputError, SimulationError
from fredfw.experiment.results import GraphResult
from fredfw.fabric import Decision, IdealTransport
from fredfw.fidelities import SIMULATED

HERE = Path(__file__).parent
EXPERIMENTS = HERE.parents[1] / "experiments"
COUNT = 2000
"""Programs."""
CALM = 1e-9
"""Relative change of an end, at a change of all volumes by 1e-12, from which on a program is chaotic."""
_DIGITS = 12
Outcome = GraphResult | str
"""Of a program: its result, or the text of its error."""
Place = tuple[int, int]
"""A task and a rank."""
Span = tuple[float, float, int, float, float]
"""Start and end; task, start and end of what it waited for last, -1 for nothing."""

LEFT_OUT: Mapping[str, Sequence[str]] = {
    "comet": SIMULATED,  # its cells are not simulated, but read by a command of its own
    "gpt3-splits": SIMULATED,  # a study
    # What takes minutes.
    "roce": SIMULATED,
    "themis-training": ("exact",),
}


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
            known = getattr(cls, "always_starts", lambda *_: None)  # the release in Python had none
            open_ = known(admission, flows.routes)
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


def near(one: Outcome, other: Outcome) -> bool:
    """Return whether two runs of a program, with a little more or less to move, end alike."""
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    return same_ends(spans(one.timeline), spans(other.timeline))


def named(lines: Sequence[str]) -> list[Any]:
    """Return how many lines there are, and a digest of them."""
    return [len(lines), digest(lines)]


def digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def kept_spans(kept: Mapping[str, Any]) -> dict[Place, Span]:
    """Return the spans of a program that are kept."""
    times = kept["times"]
    return {
        (task, rank): (times[start], times[end], cause, times[since], times[until])
        for task, start, end, cause, since, until, ranks in kept["spans"]
        for rank in ranks
    }


# --- experiments


def cells(name: str, fidelity: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is kept of each cell of an experiment."""
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
        what = f"{workload.name} on {fabric.name}"
        try:
            result = framework.run(experiment, workload=workload.name, fabric=fabric.name, fidelity=fidelity)
        except (SimulationError, InputError) as error:
            yield what, {"error": f"{type(error).__name__}: {error}"}
        else:
            yield what, _cell(result)


_SHARE = {"npu.preset": "h100", "npu.efficiency": 0.6}
NPUS: Mapping[str, Mapping[str, Any]] = {
    "experts": {"npu.compute": "roofline"},
    "gpt3-splits": {"npu.compute": "roofline"},
    "fsdp": _SHARE,
    "inference": _SHARE,
}
"""What computed when cells were recorded, where that is not what the experiment says today."""


def published() -> list[tuple[str, str]]:
    """Return the experiments that are recorded, each with a fidelity."""
    return [
        (path.stem, fidelity)
        for path in sorted(EXPERIMENTS.glob("*.toml"))
        for fidelity in SIMULATED
        if fidelity not in LEFT_OUT.get(path.stem, ())
    ]


def _cell(result: RunResult) -> dict[str, Any]:
    return {
        "seconds": _rounded(result.seconds),
        "breakdown": {label: _rounded(seconds) for label, seconds in result.breakdown.items()},
        "bytes": {label: _rounded(moved) for label, moved in result.bytes_by_cause.items()},
        "figures": {name: _rounded(value) for name, value in result.figures.items()},
        "statistics": {name: result.statistics[name] for name in ("waits", "splits", "decompositions", "met")},
        "algorithms": result.algorithms,
        # Nothing was said of the peak.
        "notes": [note for note in result.notes if "whole peak" not in note and "slows nothing" not in note],
    }


# --- files


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


def write(path: Path, content: object) -> None:
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def read(path: Path) -> Any:
    return json.loads(lzma.decompress(path.read_bytes()))


PROGRAMS, CELLS = HERE / "programs.json.xz", HERE / "experiments.json.xz"

if __name__ == "__main__":
    if CELLS.name in sys.argv:
        write(CELLS, {f"{name} {fidelity}": dict(cells(name, fidelity)) for name, fidelity in published()})
