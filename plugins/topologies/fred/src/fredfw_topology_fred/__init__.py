"""The topology ``fred``, NPUs and I/O controllers under a tree of switches, and the switches down to their parts.

Beside the topology: its router ``up-down``, the placement ``routable``, and the commands ``fredfw fred``. The switch
itself is ``FredSwitch``; it routes ``SwitchFlow`` objects into a ``SwitchConfiguration`` or raises ``RoutingConflict``.
"""

from fredfw_topology_fred.placement import RoutablePlacement
from fredfw_topology_fred.routing import UpDownRouter
from fredfw_topology_fred.switch import FredSwitch, InvalidFlowError, RoutingConflict, SwitchConfiguration, SwitchFlow
from fredfw_topology_fred.topology import Fred

__all__ = [
    "Fred",
    "FredSwitch",
    "InvalidFlowError",
    "RoutablePlacement",
    "RoutingConflict",
    "SwitchConfiguration",
    "SwitchFlow",
    "UpDownRouter",
]

fredfw_contract = 2
