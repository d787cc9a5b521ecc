"""The FRED switch down to its microswitches: structure, routing, and the proof of a routing by executing it."""

from fredfw_topology_fred.switch.configuration import InvalidFlowError, SwitchConfiguration, SwitchFlow
from fredfw_topology_fred.switch.routing import FredSwitch, RoutingConflict

__all__ = ["FredSwitch", "InvalidFlowError", "RoutingConflict", "SwitchConfiguration", "SwitchFlow"]
