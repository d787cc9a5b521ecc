"""Flows, and a routed switch: what every microswitch does, and what comes out when values are pushed through them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from operator import add, index
from typing import Any

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
    """Make sure that a switch has the ports of ``flows``, and that no two use one; raises ``InvalidFlowError``."""
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


Value = Any  # whatever can be added with ``+``


@frozen(eq=False)
class SwitchConfiguration:
    """How a FRED_m(P) carries some flows.

    Inputs ``2i`` and ``2i + 1`` enter microswitch ``i`` of the first stage, outputs likewise leave the last one; with
    an odd number of ports the last one has a demultiplexer and a multiplexer instead. Port ``i`` of every middle switch
    is joined to microswitch ``i`` on both sides. A switch of two ports is one RD microswitch.
    """

    m: int  # number of middle switches
    ports: int  # P
    flows: tuple[SwitchFlow, ...]  # what is carried
    carriers: tuple[int, ...] = ()  # middle switch that carries each flow; empty where ``ports`` is 2
    middles: tuple[SwitchConfiguration | None, ...] = ()  # the middle switches, ``None`` for one that carries nothing

    @cached_property
    def reducers(self) -> tuple[dict[int, frozenset[int]], ...]:
        """The R microswitches, then a demultiplexer: which inputs each sends, reduced, to which middle switch."""
        settings: tuple[dict[int, frozenset[int]], ...] = tuple({} for _ in range(-(-self.ports // 2)))
        for flow, carrier in zip(self.flows, self.carriers, strict=True):
            for port in flow.inputs:
                settings[port // 2][carrier] = flow.inputs & {port, port ^ 1}
        return settings

    @cached_property
    def distributors(self) -> tuple[dict[int, int], ...]:
        """The D microswitches, then a multiplexer: which middle switch feeds each of their outputs."""
        settings: tuple[dict[int, int], ...] = tuple({} for _ in range(-(-self.ports // 2)))
        for flow, carrier in zip(self.flows, self.carriers, strict=True):
            for port in flow.outputs:
                settings[port // 2][port] = carrier
        return settings

    def evaluate(self, inputs: Sequence[Value | None] | None = None) -> list[Value | None]:
        """Push values through the microswitches, following their settings alone.

        Args:
            inputs: ``(P,)`` value at each input, ``None`` for none; by default each input of a flow is a
                ``Counter`` of its own port number, so that an output shows whose contributions it got, and how often.

        Returns:
            ``(P,)`` what arrives at each output: a sum of inputs, or ``None``.
        """
        if inputs is None:
            used = frozenset().union(*(flow.inputs for flow in self.flows)) if self.flows else _NONE
            inputs = [Counter({port: 1}) if port in used else None for port in range(self.ports)]
        if self.ports == 2:
            crosspoints = (next((flow.inputs for flow in self.flows if port in flow.outputs), _NONE) for port in (0, 1))
            return [_sum(inputs, taken) for taken in crosspoints]
        lines = [[_sum(inputs, sends.get(middle, _NONE)) for sends in self.reducers] for middle in range(self.m)]
        arrived = [
            [None] * len(line) if middle is None else middle.evaluate(line)
            for middle, line in zip(self.middles, lines, strict=True)
        ]
        feeds = {port: middle for fed in self.distributors for port, middle in fed.items()}
        return [arrived[feeds[port]][port // 2] if port in feeds else None for port in range(self.ports)]


_NONE: frozenset[int] = frozenset()


def _sum(inputs: Sequence[Value | None], taken: frozenset[int]) -> Value | None:
    values = [inputs[port] for port in sorted(taken) if inputs[port] is not None]
    return reduce(add, values) if values else None
