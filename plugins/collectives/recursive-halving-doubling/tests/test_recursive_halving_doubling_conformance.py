from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import fredfw_collective_recursive_halving_doubling
from fredfw.testing import CollectiveTests
from fredfw_collective_recursive_halving_doubling import RecursiveHalvingDoubling


class TestHalvingDoubling(CollectiveTests):
    plugin = fredfw_collective_recursive_halving_doubling
    algorithms = (RecursiveHalvingDoubling(),)


class TestDoubling(CollectiveTests):
    plugin = fredfw_collective_recursive_halving_doubling
    algorithms = (RecursiveHalvingDoubling(method="doubling"),)
    expected_failures: ClassVar[Mapping[str, str]] = {
        "what_it_supports_is_served": "recursive doubling does no reduce-scatter, which the other method does",
    }
