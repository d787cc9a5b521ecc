from __future__ import annotations

import fredfw_collective_in_network
from fredfw.testing import CollectiveTests
from fredfw_collective_in_network import InNetwork


class TestInNetwork(CollectiveTests):
    plugin = fredfw_collective_in_network
    algorithms = (InNetwork(),)
