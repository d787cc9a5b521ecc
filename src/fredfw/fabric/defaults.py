"""How a fabric wants to be simulated: one slot for each thing that an experiment may choose instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, fields, frozen

from fredfw.fabric.admission import AdmissionPolicy, OpenAdmission
from fredfw.fabric.routing import Router, ShortestPathRouter
from fredfw.fabric.transport import IdealTransport, Transport

if TYPE_CHECKING:
    from fredfw.simulation.sharing import SharingPolicy
    from fredfw.workloads.placement import Placement

__all__ = ["SLOTS", "Defaults"]


@frozen(eq=False, kw_only=True)
class Defaults:
    """Configured plugins, one in each slot.

    Args:
        router: How transfers become links.
        sharing: How flows share links; ``None`` for ``max-min``.
        admission: What may run beside what.
        transport: What launching, steps and messages cost beside bandwidth.
        placement: Which NPU a worker is on; ``None`` for ``linear``.
    """

    router: Router = field(factory=ShortestPathRouter)
    sharing: SharingPolicy | None = None
    admission: AdmissionPolicy = field(factory=OpenAdmission)
    transport: Transport = field(factory=IdealTransport)
    placement: Placement | None = None

    @property
    def rules(self) -> tuple[str, ...]:
        """What is chosen beside the router, such as ``sharing roce``: no file that holds a network alone has it."""
        plain = {"sharing": "max-min", "admission": "open", "transport": "ideal", "placement": "linear"}
        chosen = {slot: getattr(self, slot) for slot in plain}
        return tuple(
            f"{slot} {one.name}" for slot, one in chosen.items() if one is not None and one.name != plain[slot]
        )


SLOTS: tuple[str, ...] = tuple(one.name for one in fields(Defaults))
"""The names of the slots, which are keys of ``[fabrics.NAME]`` in an experiment."""
