from __future__ import annotations

import fredfw_workload_gnmt
from fredfw.testing import WorkloadTests
from fredfw_workload_gnmt import Gnmt


class TestGnmt(WorkloadTests):
    plugin = fredfw_workload_gnmt
    workloads = (Gnmt(), Gnmt(model="mlperf", dp=3, gradients="matrices", bucket=25e6), Gnmt(dp=2, overlap_dp=False))


class TestSplits(WorkloadTests):
    """The same global minibatch in parts of any size."""

    plugin = fredfw_workload_gnmt
    workloads = tuple(Gnmt(dp=dp, global_batch=64) for dp in (16, 4, 1))
    conserved = ("flops", "samples", "model_flops")
