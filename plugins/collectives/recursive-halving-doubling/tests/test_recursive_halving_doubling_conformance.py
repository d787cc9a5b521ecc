from __future__ import annotations

import fredfw_collective_recursive_halving_doubling
from fredfw.testing import CollectiveTests
from fredfw_collective_recursive_halving_doubling import RecursiveHalvingDoubling


class TestHalvingDoubling(CollectiveTests):
    plugin = fredfw_collective_recursive_halving_doubling
    algorithms = (RecursiveHalvingDoubling(), RecursiveHalvingDoubling(method="doubling"))
