"""The topology ``fred``, NPUs and I/O controllers under a tree of switches, and the switches down to their parts.

Beside the topology: its router ``up-down``, the placement ``routable``, and the commands ``fredfw fred``. The switch
itself is ``FredSwitch``; it routes ``SwitchFlow`` objects into a ``SwitchConfiguration`` or raises ``RoutingConflict``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fredfw import Placement, Router, Topology, hookimpl
from fredfw_topology_fred.placement import RoutablePlacement
from fredfw_topology_fred.routing import UpDownRouter
from fredfw_topology_fred.switch import (
    FredSwitch,
    InvalidFlowError,
    Microswitches,
    RoutingConflict,
    SwitchConfiguration,
    SwitchFlow,
)
from fredfw_topology_fred.topology import Fred

if TYPE_CHECKING:
    import click

__all__ = [
    "Fred",
    "FredSwitch",
    "InvalidFlowError",
    "Microswitches",
    "RoutablePlacement",
    "RoutingConflict",
    "SwitchConfiguration",
    "SwitchFlow",
    "UpDownRouter",
]

fredfw_contract = 2


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``fred``."""
    return [Fred]


@hookimpl
def fredfw_routers() -> Sequence[type[Router]]:
    """Register ``up-down``."""
    return [UpDownRouter]


@hookimpl
def fredfw_placements() -> Sequence[type[Placement]]:
    """Register ``routable``."""
    return [RoutablePlacement]


@hookimpl
def fredfw_commands() -> Sequence[click.Command]:
    """Register ``fredfw fred``."""
    from fredfw_topology_fred.commands import fred

    return [fred]
