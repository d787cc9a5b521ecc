from __future__ import annotations

import fredfw_topology_multi_dimensional
from fredfw.testing import TopologyTests
from fredfw_topology_multi_dimensional import MultiDimensional


class TestMultiDimensional(TopologyTests):
    plugin = fredfw_topology_multi_dimensional
    topologies = (
        MultiDimensional(),
        MultiDimensional(
            dimensions=("ring 4", "fully-connected 3", "switch 4"),
            bandwidths=(2e9, 4e9, 3e9),
            latencies=(1e-6, 2e-6, 4e-6),
            names=("chiplet", "package", "pod"),
        ),
        MultiDimensional(dimensions=("switch 3", "line 4", "switch 2"), link_bandwidths=(1e9,), latencies=(1e-6,)),
        MultiDimensional(dimensions=("fully-connected 2", "ring 2"), bandwidths=(1e9,), latencies=(0.0,)),
    )
