"""The lowest layer: built networks, the routes through them, and what an algorithm may know of them."""

from fredfw.fabric.admission import (
    Admission,
    AdmissionPolicy,
    AlwaysStart,
    Decision,
    Decompose,
    OpenAdmission,
    Refuse,
    Split,
    Start,
    Wait,
)
from fredfw.fabric.cost import Bill, BillItem, Price, Prices, scopes_of_dimensions
from fredfw.fabric.dimension_order import DimensionOrderRouter
from fredfw.fabric.dimensions import Dimension, product_fabric, with_servers
from fredfw.fabric.fabric import SLOTS, Defaults, Fabric, NodeKind, Topology
from fredfw.fabric.flows import FlowSet, Operation, Routes
from fredfw.fabric.memories import MemoryTier, with_memories
from fredfw.fabric.multipath import MultipathRouter
from fredfw.fabric.routing import LiveRouter, Router, ShortestPathRouter
from fredfw.fabric.transport import Call, Costs, IdealTransport, Transport
from fredfw.fabric.valiant import ValiantRouter
from fredfw.fabric.view import Capabilities, GroupLinks, GroupView, Level

__all__ = [
    "SLOTS",
    "Admission",
    "AdmissionPolicy",
    "AlwaysStart",
    "Bill",
    "BillItem",
    "Call",
    "Capabilities",
    "Costs",
    "Decision",
    "Decompose",
    "Defaults",
    "Dimension",
    "DimensionOrderRouter",
    "Fabric",
    "FlowSet",
    "GroupLinks",
    "GroupView",
    "IdealTransport",
    "Level",
    "LiveRouter",
    "MemoryTier",
    "MultipathRouter",
    "NodeKind",
    "OpenAdmission",
    "Operation",
    "Price",
    "Prices",
    "Refuse",
    "Router",
    "Routes",
    "ShortestPathRouter",
    "Split",
    "Start",
    "Topology",
    "Transport",
    "ValiantRouter",
    "Wait",
    "product_fabric",
    "scopes_of_dimensions",
    "with_memories",
    "with_servers",
]
