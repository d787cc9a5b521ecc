from __future__ import annotations

import fredfw_exporter_node_link
from fredfw.testing import ExporterTests
from fredfw_exporter_node_link import NodeLinkExporter


class TestNodeLinkExporter(ExporterTests):
    plugin = fredfw_exporter_node_link
    exporters = (NodeLinkExporter(),)
