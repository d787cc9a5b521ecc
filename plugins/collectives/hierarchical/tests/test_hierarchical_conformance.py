from __future__ import annotations

import fredfw_collective_hierarchical
from fredfw.testing import CollectiveTests
from fredfw_collective_hierarchical import Hierarchical


class TestHierarchical(CollectiveTests):
    plugin = fredfw_collective_hierarchical
    algorithms = (Hierarchical(), Hierarchical(orders="opposite", chunks=2))
