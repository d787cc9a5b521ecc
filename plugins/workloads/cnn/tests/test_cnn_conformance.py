from __future__ import annotations

import fredfw_workload_cnn
from fredfw.testing import WorkloadTests
from fredfw_workload_cnn import Cnn


class TestCnn(WorkloadTests):
    plugin = fredfw_workload_cnn
    workloads = (Cnn(), Cnn(dp=3, overlap_dp=True, bucket=1e6))


class TestSplits(WorkloadTests):
    """The same global minibatch and its images, in parts of any size."""

    plugin = fredfw_workload_cnn
    workloads = (Cnn(dp=16, minibatch=2), Cnn(dp=4, minibatch=8), Cnn(dp=2, minibatch=16), Cnn(dp=1, minibatch=32))
    conserved = ("flops", "load", "samples", "model_flops")
