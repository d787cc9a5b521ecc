from __future__ import annotations

import fredfw_collective_wrht
from fredfw.testing import CollectiveTests
from fredfw_collective_wrht import Wrht


class TestWrht(CollectiveTests):
    plugin = fredfw_collective_wrht
    algorithms = (Wrht(), Wrht(m=3, all_to_all=False))
