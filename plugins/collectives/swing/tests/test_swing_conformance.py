from __future__ import annotations

import fredfw_collective_swing
from fredfw.testing import CollectiveTests
from fredfw_collective_swing import Swing


class TestSwing(CollectiveTests):
    plugin = fredfw_collective_swing
    algorithms = (Swing(),)
