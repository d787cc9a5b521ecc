from __future__ import annotations

from pathlib import Path

import fredfw_workload_chakra
from fredfw import File, Files
from fredfw.testing import ExporterTests, WorkloadTests
from fredfw_workload_chakra import Chakra, ChakraExporter

_FOLDER = Path(__file__).parent
_TRACES = Files.at(_FOLDER / "step.*.json")
_GROUPS = File.at(_FOLDER / "comm_groups.json")


class TestChakra(WorkloadTests):
    plugin = fredfw_workload_chakra
    workloads = (
        Chakra(traces=_TRACES, comm_groups=_GROUPS),
        Chakra(traces=_TRACES, comm_groups=_GROUPS, mode="roofline"),
    )


class TestChakraExporter(ExporterTests):
    plugin = fredfw_workload_chakra
    exporters = (ChakraExporter(), ChakraExporter(prefix="step", compress=True))
