from __future__ import annotations

import fredfw_collective_forest
from fredfw.testing import CollectiveTests
from fredfw_collective_forest import Forest


class TestForest(CollectiveTests):
    plugin = fredfw_collective_forest
    algorithms = (Forest(), Forest(pieces=3))
    ranks = (1, 2, 3, 4, 5, 6, 8)
