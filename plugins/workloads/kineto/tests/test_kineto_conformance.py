from __future__ import annotations

from pathlib import Path

import fredfw_workload_kineto
from fredfw import Files
from fredfw.testing import WorkloadTests
from fredfw_workload_kineto import Kineto

TRACES = Files.at(str(Path(__file__).parent / "ddp.*.json"))


class TestKineto(WorkloadTests):
    plugin = fredfw_workload_kineto
    workloads = (
        Kineto(traces=TRACES),
        Kineto(traces=TRACES, step=3, order="observed", host=False),
        Kineto(traces=Files.at(TRACES.files[0].path), replicate=True),
    )
