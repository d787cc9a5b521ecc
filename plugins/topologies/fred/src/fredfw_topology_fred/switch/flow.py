"""A flow through one switch, and what makes a set of flows impossible from the start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index

from attrs import field, frozen

from fredfw.errors import InputError


class InvalidFlowError(InputError):
    """A flow that no switch could carry, or that does not fit the switch or the other flows."""


def _refused(message: str, accepted: str) -> InvalidFlowError:
    return InvalidFlowError(message, key="flow", accepted=accepted)


def _ports(value: Iterable[int]) -> frozenset[int]:
    try:
        return frozenset(index(port) for port in value)
    except TypeError:
        raise _refused(f"{value!r} is not a set of ports", "whole numbers from 0") from None


@frozen(cache_hash=True, repr=False, order=False)
class SwitchFlow:
    """What enters at ``inputs`` is reduced, and the result is delivered to every port of ``outputs``.

    An all-reduce has the same ports on both sides, a multicast one input, a reduction one output, a unicast one of each
    (FRED, ISCA 2025, section on the FRED switch).

    Raises:
        InvalidFlowError: No inputs, or no outputs, or something that is not a port number.
    """

    inputs: frozenset[int] = field(converter=_ports)
    outputs: frozenset[int] = field(converter=_ports)

    def __attrs_post_init__(self) -> None:
        for side, ports in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not ports:
                raise _refused(f"flow {self} has no {side}", "one or more on each side")

    def inside(self) -> SwitchFlow:
        """Return the same flow in the ports of the middle switch that carries it: one port per outer microswitch."""
        return SwitchFlow((port // 2 for port in self.inputs), (port // 2 for port in self.outputs))

    def meets(self, other: SwitchFlow) -> bool:
        """Return whether the two share an input or an output port."""
        return not (self.inputs.isdisjoint(other.inputs) and self.outputs.isdisjoint(other.outputs))

    def __str__(self) -> str:
        inputs, outputs = (",".join(map(str, sorted(ports))) for ports in (self.inputs, self.outputs))
        return f"{{{inputs}}}->{{{outputs}}}"

    __repr__ = __str__


def check(flows: Sequence[SwitchFlow], ports: int) -> None:
    """Make sure that ``flows`` can be asked of a switch with ``ports`` ports.

    Raises:
        InvalidFlowError: A port that does not exist, or an input or output port that two flows use.
    """
    for flow in flows:
        if not isinstance(flow, SwitchFlow):
            raise _refused(f"{flow!r} is not a flow", "SwitchFlow(inputs, outputs)")
    for side in ("inputs", "outputs"):
        taken: dict[int, SwitchFlow] = {}
        for flow in flows:
            for port in sorted(getattr(flow, side)):
                what = f"{side.removesuffix('s')} port {port}"
                if not 0 <= port < ports:
                    raise _refused(f"flow {flow} uses {what}, but the switch has {ports} ports", f"0 to {ports - 1}")
                if port in taken:
                    accepted = "flows that share no input and no output"
                    raise _refused(f"flows {taken[port]} and {flow} both use {what}", accepted)
                taken[port] = flow
