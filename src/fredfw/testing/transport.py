"""What is checked of a transport: its costs of many calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw.collectives import Pattern
from fredfw.errors import PluginError, UnsupportedError
from fredfw.fabric import Call, Costs, Fabric, Transport
from fredfw.simulation import answers
from fredfw.testing.conformance import NOTHING, Faults, check_all, otherwise
from fredfw.testing.fabrics import standard
from fredfw.testing.process import Deterministic

_OTHERS = "direct", "ring", "tree"


@frozen(eq=False, kw_only=True)
class TransportCase(Deterministic[Transport, tuple[Call, Fabric], Costs | None]):
    """A transport, and the small fabrics on which it is asked."""

    shows: ClassVar[str] = "what it costs"
    mend: ClassVar[str] = "costs follow from the fields"

    fabrics: Sequence[Fabric] = otherwise(standard)

    @property
    def asked(self) -> list[tuple[Call, Fabric]]:
        """Calls on all fabrics, and on the first once more with every other link in an outer tier."""
        first = self.fabrics[0]
        tiers = np.arange(len(first.sources)) % 2
        fabrics = (*self.fabrics, evolve(first, name=f"{first.name} in two tiers", tiers=tiers))
        return [(call, fabric) for fabric in fabrics for call in calls(self.subject)]

    def answer(self, question: tuple[Call, Fabric]) -> Costs | None:
        """See ``Deterministic.answer``; ``None`` where it refuses."""
        try:
            return answers.costs(self.subject, *question)
        except UnsupportedError:
            return None

    def words(self, question: tuple[Call, Fabric]) -> str:
        """See ``Deterministic.words``."""
        call, fabric = question
        return f"{call} on a {fabric.name}"

    def costs_can_be_used(self) -> Faults:
        """Times are finite and not negative, rates above 0, an efficiency is at most 1, with a number for each tier."""
        for question in self.asked:
            try:
                self.answer(question)
            except PluginError as error:
                yield f"{self.words(question)}: {error}"

    def some_calls_have_costs(self) -> Faults:
        """It does not refuse everything."""
        if all(costs is None for _, costs in self.answers):
            yield f"all of {len(self.answers)} calls are refused"

    def refusals_have_reasons(self) -> Faults:
        """A call that it knows no costs for is refused with a reason in words."""
        for question in self.asked:
            try:
                answers.costs(self.subject, *question)
            except UnsupportedError as error:
                if not error.message.strip():
                    yield f"{self.words(question)} is refused without a reason"


def calls(transport: Transport) -> Iterator[Call]:
    """Yield calls of all patterns, by algorithms that the transport has, of few and many bytes."""
    for pattern in Pattern:
        library = answers.algorithms(transport, str(pattern))
        for algorithm in dict.fromkeys(one.partition("(")[0] for one in library or _OTHERS):
            for ranks in (2,) if pattern is Pattern.POINT_TO_POINT else (2, 3, 8):
                for size in (1.0, 1e3, 1e6, 1e9):
                    yield Call(str(pattern), algorithm, ranks, size, nodes=1, steps=ranks - 1)
                    yield Call(str(pattern), algorithm, ranks, size, nodes=2, steps=2 * (ranks - 1))


def check_transport(
    transport: Transport,
    *,
    fabrics: Sequence[Fabric] = (),
    plugin: object = None,
    expected_failures: Mapping[str, str] = NOTHING,
) -> None:
    """Check a configured transport, on ``fabrics`` or else on small ones of the kit; see ``check_topology``."""
    check_all("transport", TransportCase(subject=transport, plugin=plugin, fabrics=fabrics), expected_failures)
