"""What is checked of a transport: its costs of many calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from attrs import evolve, field, frozen

from fredfw.collectives import Pattern
from fredfw.errors import PluginError, UnsupportedError
from fredfw.fabric import Call, Costs, Fabric, Transport
from fredfw.simulation import answers
from fredfw.testing.conformance import NOTHING, ConformanceError, check_all, twin
from fredfw.testing.fabrics import or_standard
from fredfw.testing.process import Elsewhere, digest

_OTHERS = "direct", "ring", "tree"


@frozen(eq=False, kw_only=True)
class TransportCase(Elsewhere[Transport]):
    """A transport, and the small fabrics on which it is asked."""

    shows: ClassVar[str] = "what calls cost"

    fabrics: Sequence[Fabric] = field(default=(), converter=or_standard)

    @cached_property
    def asked(self) -> list[tuple[Fabric, Call]]:
        """Calls on all fabrics, and on the first once more with every other link in an outer tier."""
        first = self.fabrics[0]
        tiers = np.arange(len(first.sources)) % 2
        fabrics = *self.fabrics, evolve(first, name=f"{first.name} in two tiers", tiers=tiers)
        return [(fabric, call) for fabric in fabrics for call in calls(self.subject)]

    def costs(self, call: Call, fabric: Fabric) -> Costs | None:
        """Return what it says, or ``None`` where it refuses."""
        try:
            return answers.costs(self.subject, call, fabric)
        except UnsupportedError:
            return None

    def observed(self) -> str:
        """See ``Elsewhere.observed``."""
        return digest(self.costs(call, fabric) for fabric, call in self.asked)

    def costs_can_be_used(self) -> None:
        """Times are finite and not negative, rates above 0, an efficiency is at most 1, with a number for each tier."""
        for fabric, call in self.asked:
            try:
                self.costs(call, fabric)
            except PluginError as error:
                raise ConformanceError(f"of {call} on a {fabric.name}: {error}") from None

    def some_calls_have_costs(self) -> None:
        """It does not refuse everything."""
        if all(self.costs(call, fabric) is None for fabric, call in self.asked):
            raise ConformanceError(f"all of {len(self.asked)} calls are refused")

    def refusals_have_reasons(self) -> None:
        """A call that it knows no costs for is refused with a reason in words."""
        for fabric, call in self.asked:
            try:
                answers.costs(self.subject, call, fabric)
            except UnsupportedError as error:
                if not error.message.strip():
                    raise ConformanceError(f"{call} is refused without a reason") from None

    def is_deterministic(self) -> None:
        """It gives the same costs when it is asked again, in another order, and so does an equal instance."""
        first = [self.costs(call, fabric) for fabric, call in self.asked]
        again = [self.costs(call, fabric) for fabric, call in reversed(self.asked)][::-1]
        other = evolve(self, subject=twin(self.subject))
        equal = [other.costs(call, fabric) for fabric, call in other.asked]
        for what, found in (("asked again", again), ("an equal instance", equal)):
            for (_, call), one, two in zip(self.asked, first, found, strict=True):
                if one != two:
                    raise ConformanceError(
                        f"{what}: {call} costs {two}, and {one} before; costs follow from the fields"
                    )


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
