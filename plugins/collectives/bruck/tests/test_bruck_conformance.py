from __future__ import annotations

import fredfw_collective_bruck
from fredfw.testing import CollectiveTests
from fredfw_collective_bruck import Bruck


class TestBruck(CollectiveTests):
    plugin = fredfw_collective_bruck
    algorithms = (Bruck(),)
