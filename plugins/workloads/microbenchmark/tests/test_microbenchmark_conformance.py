from __future__ import annotations

import fredfw_workload_microbenchmark
from fredfw import Pattern
from fredfw.testing import WorkloadTests
from fredfw_workload_microbenchmark import Microbenchmark


class TestPatterns(WorkloadTests):
    plugin = fredfw_workload_microbenchmark
    workloads = (
        *(Microbenchmark(pattern=one.value, ranks=2 if one is Pattern.POINT_TO_POINT else None) for one in Pattern),
        Microbenchmark(groups=4, layout="strided", count=3),
    )


class TestLayouts(WorkloadTests):
    plugin = fredfw_workload_microbenchmark
    workloads = (Microbenchmark(groups=4), Microbenchmark(groups=4, layout="strided"), Microbenchmark(count=4))
    conserved = ("collective",)
