"""The transport ``alpha-beta``: what launching, steps and messages cost, and the share of line rate, as numbers."""

import math
from typing import Any, ClassVar

from attrs import frozen

from fredfw import Call, Costs, Fabric, Transport, units
from fredfw.errors import InputError

fredfw_contract = 2


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


@frozen
class AlphaBeta(Transport):
    """Costs that are given, for every call alike: alpha for launch, step and message, beta as a share of line rate.

    A list has a value for each tier of the fabric, innermost first: in a cluster the inside of nodes, and the network
    between them. One value is for all tiers. The tier of a flow is the outermost one that it crosses.
    """

    name: ClassVar[str] = "alpha-beta"

    launch: float = units.duration(0.0, help="time before a collective starts, once")
    step: tuple[float, ...] = units.durations(0.0, help="time that each step takes longer; by tier")
    message: tuple[float, ...] = units.durations(
        0.0, help="time for each message that an NPU sends or receives in a step; by tier"
    )
    efficiency: tuple[float, ...] = units.option(
        (1.0,),
        converter=_listed,
        validator=units.at_least(units.LEAST, at_most=1),
        help="payload for each byte on a link, as a share of 1; by tier",
    )
    cap: float | None = units.bandwidth(None, help="rate that no flow exceeds; default: none")
    reduction: float | None = units.bandwidth(None, help="rate at which an NPU reduces what it receives; default: any")

    def __attrs_post_init__(self) -> None:
        if not self.efficiency:
            raise InputError("there are none", key="efficiency", accepted="a number, or a list of one for each tier")

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        """See ``Transport.costs``; raises ``InputError`` for lists of other lengths than the fabric has tiers."""
        return Costs(
            launch=self.launch,
            step=self._by_tier("step", fabric),
            message=self._by_tier("message", fabric),
            efficiency=self._by_tier("efficiency", fabric),
            cap=math.inf if self.cap is None else self.cap,
            reduction=math.inf if self.reduction is None else self.reduction,
        )

    def _by_tier(self, key: str, fabric: Fabric) -> tuple[float, ...]:
        values: tuple[float, ...] = getattr(self, key)
        tiers = 1 + int(fabric.tiers.max(initial=0))
        if len(values) not in (1, tiers):
            raise InputError(
                f"{units.counted(len(values), 'value')} for the {units.counted(tiers, 'tier')} of {fabric.name!r}",
                key=key,
                accepted=f"one value for all, or {tiers}",
            )
        return values * (tiers if len(values) == 1 else 1)
