from __future__ import annotations

from pathlib import Path

import fredfw_transport_measured
from fredfw import File
from fredfw.testing import TransportTests
from fredfw_transport_measured import Measured


class TestMeasured(TransportTests):
    plugin = fredfw_transport_measured
    transports = (Measured(file=File.at(Path(__file__).with_name("table.csv"))),)
