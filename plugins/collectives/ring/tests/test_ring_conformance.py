from __future__ import annotations

import fredfw_collective_ring
from fredfw.testing import CollectiveTests
from fredfw_collective_ring import Ring


class TestRing(CollectiveTests):
    plugin = fredfw_collective_ring
    algorithms = (Ring(), Ring(chunks=3))
