"""The core's own plugin: what fits every fabric, registered through the same hooks as everybody's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fredfw.collectives import CollectiveAlgorithm
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.fabric import (
    AdmissionPolicy,
    DimensionOrderRouter,
    IdealTransport,
    MultipathRouter,
    OpenAdmission,
    Router,
    ShortestPathRouter,
    Transport,
    ValiantRouter,
)
from fredfw.plugin import hookimpl
from fredfw.plugin.exporter import Exporter
from fredfw.plugin.sampler import Sampler
from fredfw.simulation.sharing import CircuitPreempt, MaxMin, SharingPolicy, StrictLinks, WeightedMaxMin
from fredfw.workloads import LinearPlacement, MegatronPlacement, NestedPlacement, Placement, SnakePlacement

if TYPE_CHECKING:
    import click


@hookimpl
def fredfw_routers() -> Sequence[type[Router]]:
    """Register the routers that fit every fabric, and the one for all products of dimensions."""
    return [DimensionOrderRouter, MultipathRouter, ShortestPathRouter, ValiantRouter]


@hookimpl
def fredfw_collectives() -> Sequence[type[CollectiveAlgorithm]]:
    """Register the algorithm that needs no knowledge of the fabric."""
    return [DirectAlgorithm]


@hookimpl
def fredfw_placements() -> Sequence[type[Placement]]:
    """Register the placements."""
    return [LinearPlacement, MegatronPlacement, NestedPlacement, SnakePlacement]


@hookimpl
def fredfw_sharing_policies() -> Sequence[type[SharingPolicy]]:
    """Register the sharing policies."""
    return [CircuitPreempt, MaxMin, StrictLinks, WeightedMaxMin]


@hookimpl
def fredfw_admissions() -> Sequence[type[AdmissionPolicy]]:
    """Register the admission that lets everything start."""
    return [OpenAdmission]


@hookimpl
def fredfw_transports() -> Sequence[type[Transport]]:
    """Register the transport that costs nothing."""
    return [IdealTransport]


@hookimpl
def fredfw_exporters() -> Sequence[type[Exporter]]:
    """Register what --json, --csv, --trace and --report write through."""
    # The reports cost more to import than most commands need.
    from fredfw.report.exporters import CsvExporter, HtmlExporter, JsonExporter, TraceExporter

    return [CsvExporter, HtmlExporter, JsonExporter, TraceExporter]


@hookimpl
def fredfw_samplers() -> Sequence[type[Sampler]]:
    """Register the samplers that need no other library."""
    from fredfw.studies.samplers import GridSampler, HalvingSampler, RandomSampler

    return [GridSampler, HalvingSampler, RandomSampler]


@hookimpl
def fredfw_commands() -> Sequence[click.Command]:
    """Register the core's commands, so that no plugin can take one of their names."""
    from fredfw.cli import main

    return list(main.commands.values())
