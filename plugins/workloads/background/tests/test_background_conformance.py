from __future__ import annotations

import fredfw_workload_background
from fredfw.testing import WorkloadTests
from fredfw_workload_background import Background


class TestBackground(WorkloadTests):
    plugin = fredfw_workload_background
    workloads = (
        Background(bandwidth=1e9, duration=0.01),
        Background(bandwidth=1e9, duration=0.01, pairs="permutation", sizes="exponential", ranks=5, seed=2),
        Background(bandwidth=1e9, duration=0.01, load=0),
    )
