from __future__ import annotations

import fredfw_exporter_astra_sim_network
from fredfw.testing import ExporterTests
from fredfw_exporter_astra_sim_network import AstraSimNetworkExporter


class TestAstraSimNetworkExporter(ExporterTests):
    plugin = fredfw_exporter_astra_sim_network
    exporters = (AstraSimNetworkExporter(),)
