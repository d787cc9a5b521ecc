"""The kit on transports that are wrong in one way each, and on sound ones."""

from __future__ import annotations

import math
from itertools import count
from typing import ClassVar

import pytest
from attrs import frozen

from fredfw import Call, Costs, Fabric, Transport, units
from fredfw.errors import UnsupportedError
from fredfw.fabric import IdealTransport
from fredfw.testing import ConformanceError, check_transport

# Each call of the kit starts another Python.
pytestmark = pytest.mark.slow

_COUNTER = count()


@frozen
class Faulty(Transport):
    """Costs with one fault or none."""

    name: ClassVar[str] = "faulty"

    fault: str = units.option("none", help="which")

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        """See ``Transport.costs``."""
        match self.fault:
            case "negative":
                return Costs(step=-1.0 if call.size == 1 else 1.0)
            case "endless":
                return Costs(launch=math.inf)
            case "tiers":
                return Costs(step=(1.0, 2.0))
            case "refuses":
                raise UnsupportedError("not this one")
            case "speechless":
                if call.ranks == 3:
                    raise UnsupportedError(" ")
            case "drifts":
                return Costs(launch=float(next(_COUNTER)))
            case "hash":
                return Costs(launch=float(hash(call.pattern) % 1000))
        return Costs(launch=1e-6, step=1e-6 * call.nodes, efficiency=0.5 if call.size < 1e6 else 1.0)


@pytest.mark.parametrize(
    ("fault", "broken", "message"),
    [
        ("negative", "costs_can_be_used", "returned step -1.0"),
        ("endless", "costs_can_be_used", "returned launch inf"),
        ("tiers", "costs_can_be_used", "returned step"),
        ("refuses", "some_calls_have_costs", "are refused"),
        ("speechless", "refusals_have_reasons", "is refused without a reason"),
        ("drifts", "is_deterministic", "asked again"),
        ("hash", "is_the_same_in_another_process", "differs in another process"),
    ],
)
def test_wrong_ones(fault: str, broken: str, message: str) -> None:
    with pytest.raises(ConformanceError, match=message) as caught:
        check_transport(Faulty(fault))
    assert broken in str(caught.value)


@pytest.mark.parametrize("transport", [IdealTransport(), Faulty()])
def test_sound_ones_pass(transport: Transport) -> None:
    check_transport(transport)
