"""The lowest layer: built networks, the routes through them, and what an algorithm may know of them."""

from fredfw.fabric.admission import Admission, AlwaysStart, Decision, Decompose, Refuse, Split, Start, Wait
from fredfw.fabric.dimension_order import DimensionOrderRouter
from fredfw.fabric.dimensions import Dimension, product_fabric
from fredfw.fabric.fabric import Capabilities, Fabric, Level, NodeKind, Topology
from fredfw.fabric.flows import FlowSet, Operation, Routes
from fredfw.fabric.links import GroupLinks
from fredfw.fabric.multipath import MultipathRouter
from fredfw.fabric.routing import LiveRouter, Router, ShortestPathRouter
from fredfw.fabric.valiant import ValiantRouter
from fredfw.fabric.view import GroupView

__all__ = [
    "Admission",
    "AlwaysStart",
    "Capabilities",
    "Decision",
    "Decompose",
    "Dimension",
    "DimensionOrderRouter",
    "Fabric",
    "FlowSet",
    "GroupLinks",
    "GroupView",
    "Level",
    "LiveRouter",
    "MultipathRouter",
    "NodeKind",
    "Operation",
    "Refuse",
    "Router",
    "Routes",
    "ShortestPathRouter",
    "Split",
    "Start",
    "Topology",
    "ValiantRouter",
    "Wait",
    "product_fabric",
]
