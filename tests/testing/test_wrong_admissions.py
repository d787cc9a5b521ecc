"""Admissions that are wrong on purpose: the kit finds each and says what to mend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from attrs import frozen
from kit import found
from small import Admitting

from fredfw import Admission, Decompose, Fabric, FlowSet, Refuse, Split, Start, Topology, Wait, units
from fredfw.fabric import Decision
from fredfw.testing.admission import AdmissionCase
from fredfw.testing.fabrics import star

EVER: list[FlowSet] = []
ALWAYS: dict[str, Decision] = {
    "early": Start(setup=-1e-6),
    "apart": Decompose("streams are not carried"),
    "mute": Refuse(" "),
    "number": Refuse(42),  # type: ignore[arg-type]  # wrong on purpose
    "maybe": Start(setup_once="maybe"),  # type: ignore[arg-type]  # as above
}


@frozen
class Gated(Topology):
    """A star on which two flow sets run at a time, streams one by one; with one fault or none."""

    name: ClassVar[str] = "gated"

    fault: str = units.option("none", help="which")

    def build(self) -> Fabric:
        return star(5).with_defaults(admission=Admitting(partial(Gate, self.fault)))


class Gate(Admission):
    """Two at a time."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._running = 0
        self._seen = 0
        self._waits = 0

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        self._seen += 1
        EVER.append(flows)
        count = len(flows.volumes)
        if self._fault in ALWAYS:
            return ALWAYS[self._fault]
        match self._fault:
            case "generous":
                return Start(caps=np.full(count, 1e15))
            case "shut":
                return Start(caps=np.zeros(count))
            case "nobody":
                return Start() if active else Wait()
            case "loses" if count > 2:
                return Split((np.arange(1), np.arange(2, count)))
            case "moody":
                return Start(setup=float(np.random.random()))
            case "remembers":
                return Start(setup=1e-9 * len(EVER))
            case "tires" if self._seen > 9 and count > 1:
                return Split((np.arange(1), np.arange(1, count)))
            case "spoils":
                flows.volumes[:] = 1.0
            case "none" | "same" if count > 8:
                return Split((np.arange(8), np.arange(8, count)))
        if self._running >= 2:
            self._waits += 1
            return Wait("two run already")
        self._running += 1
        return Start(setup=1e-6)

    def release(self, flows: FlowSet) -> None:
        if self._fault != "leaks":
            self._running -= 1

    def compatible(self, together: Sequence[FlowSet]) -> bool:
        return self._fault == "same"

    def figures(self) -> Mapping[str, float]:
        return {"" if self._fault == "nameless" else "waits": np.nan if self._fault == "nan" else self._waits}

    def notes(self) -> tuple[str, ...]:
        return ("",) if self._fault == "says nothing" else ()


@pytest.mark.parametrize(
    ("fault", "check", "expected"),
    [
        ("early", "decisions_are_well_formed", "Gate.admit() returned Start with a setup of -1e-06"),
        ("loses", "decisions_are_well_formed", "into parts that do not hold each of its "),
        ("mute", "decisions_are_well_formed", "Refuse has no reason; say why, in words"),
        ("number", "decisions_are_well_formed", "the reason is 42; a text"),
        ("maybe", "decisions_are_well_formed", "setup_once is 'maybe'; True or False"),
        ("generous", "caps_keep_to_those_of_the_flows", " B/s and gets one of 1e+15 B/s; return the smaller of"),
        ("same", "compatible_flows_start_at_once", "although compatible() says that they start "),
        ("apart", "only_streams_are_decomposed", "on star of 5 are decomposed, but they are unicasts; refuse, spl"),
        ("nobody", "waits_end", "wait for ever: nothing runs any more that could be released; free in release() all"),
        ("leaks", "waits_end", "wait for ever: nothing runs any more that could be released; free in release() all"),
        ("tires", "release_undoes_admit", "get a start, and a split into [[0], [1"),
        ("shut", "everything_arrives", "cannot go on: a cap of 0, or a wait without end"),
        ("nan", "figures_and_notes_are_well_formed", "Gate.figures() returned {'waits': nan}; expected finite numbers"),
        ("nameless", "figures_and_notes_are_well_formed", "names say what the figure is, and its unit"),
        ("says nothing", "figures_and_notes_are_well_formed", "notes() has an empty text in it"),
        ("moody", "is_deterministic", "get a start with a set-up of 0."),
        ("remembers", "is_deterministic", "a simulation must know nothing of those before it"),
        ("spoils", "is_deterministic", "admit() changes the flows it is given; copy what has to change"),
    ],
)
def test_wrong_admissions(fault: str, check: str, expected: str) -> None:
    assert expected in found(AdmissionCase(subject=Gated(fault)), check)
