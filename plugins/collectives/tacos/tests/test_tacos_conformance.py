from __future__ import annotations

import fredfw_collective_tacos
from fredfw.testing import CollectiveTests
from fredfw_collective_tacos import Tacos


class TestTacos(CollectiveTests):
    plugin = fredfw_collective_tacos
    algorithms = (Tacos(seeds=2),)
    ranks = (1, 2, 3, 4, 5, 6, 8, 9)
