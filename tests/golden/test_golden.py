"""Today's engine gives what the release before it gave, whose engine was in Python: see ``record.py``.

Where several things happen at one moment, a change of the volumes by 1e-12 may turn their order, and all that follows.
Such programs are chaotic: they need only take as long as they did with some such change.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from programs import Program, program
from record import (
    CALM,
    CELLS,
    COUNT,
    PROGRAMS,
    Notebook,
    called,
    cells,
    close,
    kept_spans,
    moved,
    named,
    near,
    outcome,
    published,
    read,
    same_ends,
    same_spans,
    spans,
)

from fredfw.experiment.results import GraphResult

# What was recorded has the names of its release.
pytestmark = pytest.mark.filterwarnings("ignore:fidelity '(per-rank|stepwise):DeprecationWarning")
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


@cache
def golden() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(PROGRAMS)
    return found


def slow(condition: bool) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.slow,) if condition else ()


@pytest.mark.parametrize("first", [pytest.param(first, marks=slow(first > 0)) for first in range(0, COUNT, BLOCK)])
def test_programs_take_what_they_took(first: int) -> None:
    different = {
        seed: why for seed in range(first, first + BLOCK) if (why := list(differences(program(seed), golden()[seed])))
    }
    assert not different


def test_few_programs_are_chaotic() -> None:
    """As many as 2 % were, when they were recorded."""
    chaotic = [seed for seed, kept in enumerate(golden()) if "chaotic" in kept]
    print(f"{len(chaotic)} of {COUNT} programs are chaotic: {chaotic}")
    assert 0 < len(chaotic) < 0.03 * COUNT


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
        if not near(today, found):
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


@pytest.mark.parametrize(
    ("name", "fidelity"), [pytest.param(*one, id=" ".join(one), marks=slow(one[0] not in SMALL)) for one in published()]
)
def test_experiments_take_what_they_took(name: str, fidelity: str) -> None:
    recorded, found = read(CELLS)[f"{name} {fidelity}"], dict(cells(name, fidelity))
    assert found.keys() == recorded.keys()
    different = {what: list(_of_cell(found[what], kept)) for what, kept in recorded.items()}
    assert not {what: why for what, why in different.items() if why}


def _of_cell(found: Mapping[str, Any], kept: Mapping[str, Any]) -> Iterator[str]:
    if "chaotic" in kept:
        yield from _outside(found["seconds"], *kept["chaotic"])
        return
    if "error" in found or "error" in kept:
        if found.get("error") != kept.get("error"):
            yield f"ends with {found.get('error')}, and did with {kept.get('error')}"
        return
    if not close([found["seconds"]], [kept["seconds"]]):
        yield f"takes {found['seconds']}, and took {kept['seconds']}"
    for what in ("breakdown", "bytes", "figures"):
        if not same_numbers(found[what], kept[what]):
            yield f"{what} {found[what]}, and was {kept[what]}"
    for what in ("statistics", "algorithms", "notes"):
        if found[what] != kept[what]:
            yield f"{what} {found[what]}, and was {kept[what]}"
