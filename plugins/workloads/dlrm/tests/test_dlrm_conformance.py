from __future__ import annotations

import fredfw_workload_dlrm
from fredfw.testing import WorkloadTests
from fredfw_workload_dlrm import Dlrm


class TestDlrm(WorkloadTests):
    plugin = fredfw_workload_dlrm
    workloads = (
        Dlrm(dp=4),
        Dlrm(model="kaggle", dp=13, overlap_dp=False, overlap_mp=False),
        Dlrm(model="themis", dp=16, bucket=0),
    )


class TestSplits(WorkloadTests):
    """The same global minibatch in parts of any size."""

    plugin = fredfw_workload_dlrm
    workloads = tuple(Dlrm(dp=dp, global_batch=64) for dp in (16, 4, 1))
    conserved = ("flops", "samples", "model_flops")
