from __future__ import annotations

import fredfw_collective_tree
from fredfw.testing import CollectiveTests
from fredfw_collective_tree import Tree


class TestTree(CollectiveTests):
    plugin = fredfw_collective_tree
    algorithms = (Tree(), Tree(shape="binary", chunks=3), Tree(shape="double-binary", chunks=4))
