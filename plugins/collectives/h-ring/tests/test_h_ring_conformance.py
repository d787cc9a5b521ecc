from __future__ import annotations

import fredfw_collective_h_ring
from fredfw.testing import CollectiveTests
from fredfw_collective_h_ring import HRing


class TestHRing(CollectiveTests):
    plugin = fredfw_collective_h_ring
    algorithms = (HRing(), HRing(m=3))
