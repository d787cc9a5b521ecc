"""The core's own plugin: what fits every fabric, registered through the same hooks as everybody's."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw.collectives import CollectiveAlgorithm
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.fabric import Router, ShortestPathRouter
from fredfw.plugin import hookimpl
from fredfw.simulation.sharing import CircuitPreempt, MaxMin, SharingPolicy, StrictLinks
from fredfw.workloads import LinearPlacement, Placement, SnakePlacement


@hookimpl
def fredfw_routers() -> Sequence[type[Router]]:
    """Register the router that needs no knowledge of the fabric."""
    return [ShortestPathRouter]


@hookimpl
def fredfw_collectives() -> Sequence[type[CollectiveAlgorithm]]:
    """Register the algorithm that needs no knowledge of the fabric."""
    return [DirectAlgorithm]


@hookimpl
def fredfw_placements() -> Sequence[type[Placement]]:
    """Register the placements."""
    return [LinearPlacement, SnakePlacement]


@hookimpl
def fredfw_sharing_policies() -> Sequence[type[SharingPolicy]]:
    """Register the sharing policies."""
    return [CircuitPreempt, MaxMin, StrictLinks]
