from __future__ import annotations

from typing import ClassVar

import fredfw_collective_themis
from fredfw.testing import CollectiveTests
from fredfw_collective_themis import Themis


class TestThemis(CollectiveTests):
    plugin = fredfw_collective_themis
    algorithms = (Themis(chunks=4), Themis(chunks=3, policy="fifo"))
    expected_failures: ClassVar[dict[str, str]] = {
        "stepwise_takes_as_long": "channels are released early, so steps of different chunks take turns on a ring"
    }
