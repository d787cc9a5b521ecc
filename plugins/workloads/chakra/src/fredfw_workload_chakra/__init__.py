"""Chakra execution traces: the workload ``chakra`` reads them, and the exporter ``chakra`` writes them."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Exporter, Workload, hookimpl
from fredfw_workload_chakra.exporter import ChakraExporter
from fredfw_workload_chakra.workload import Chakra

__all__ = ["Chakra", "ChakraExporter"]

fredfw_contract = 2


@hookimpl
def fredfw_workloads() -> Sequence[type[Workload]]:
    """Register the workload."""
    return [Chakra]


@hookimpl
def fredfw_exporters() -> Sequence[type[Exporter]]:
    """Register the exporter."""
    return [ChakraExporter]
