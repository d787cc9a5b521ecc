from __future__ import annotations

import fredfw_collective_torus_ring
from fredfw.testing import CollectiveTests
from fredfw_collective_torus_ring import TorusRing


class TestTorusRing(CollectiveTests):
    plugin = fredfw_collective_torus_ring
    algorithms = (TorusRing(), TorusRing(chunks=2))
