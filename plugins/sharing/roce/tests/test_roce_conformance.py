from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import fredfw_sharing_roce
from fredfw.testing import SharingPolicyTests
from fredfw_sharing_roce import Dcqcn, Dctcp, Hpcc, Pfc, Timely


class TestRoce(SharingPolicyTests):
    plugin = fredfw_sharing_roce
    policies = (
        Dcqcn(),
        Dcqcn(delay=4e-6, start=(5e9 / 8,)),
        Dctcp(thresholds="by-rate"),
        Timely(),
        Timely(variant="original"),
        Pfc(),
    )


class TestHpcc(SharingPolicyTests):
    plugin = fredfw_sharing_roce
    policies = (Hpcc(increase=10e9 / 8),)  # so that it converges soon
    expected_failures: ClassVar[Mapping[str, str]] = {"no_capacity_is_wasted": "links are kept at 95 %"}
