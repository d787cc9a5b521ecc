from __future__ import annotations

import fredfw_workload_repurpose
from fredfw.testing import WorkloadTests
from fredfw_workload_repurpose import Repurpose


class TestRepurpose(WorkloadTests):
    plugin = fredfw_workload_repurpose
    workloads = (
        Repurpose(widths=(64, 96, 32), noise=0.3),
        Repurpose(widths=(64, 96, 32), noise=0.3, workers=(8, 4), received=40, epsilon=0.6),
        Repurpose(widths=(32, 64), taps=9, positions=16, workers=(4,), shares=(1, 1, 2, 4), method="spectral"),
        Repurpose(widths=(32, 64), noise=0.5, workers=(4,), granularity="weight", overlap=False),
        Repurpose(widths=(32, 64), noise=0.5, workers=(4,), method="magnitude", tolerance=0.25),
    )


class TestSplits(WorkloadTests):
    """The same weights on any number of workers."""

    plugin = fredfw_workload_repurpose
    workloads = tuple(
        Repurpose(widths=(64, 64), blocks=8, noise=1.0, epsilon=0.0, workers=(workers,)) for workers in (16, 4, 1)
    )
    conserved = ("flops", "samples")
