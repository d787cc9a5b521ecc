from __future__ import annotations

from pathlib import Path

import fredfw_collective_msccl
from fredfw import Framework
from fredfw.testing import CollectiveTests, ExporterTests
from fredfw_collective_msccl import Msccl, MscclExporter, Mscclpp

HERE = Path(__file__).parent
_FRAMEWORK = Framework()
_SMALL = (_FRAMEWORK.topology("switch", npus=2).build(), _FRAMEWORK.topology("fully-connected", npus=2).build())


class TestMsccl(CollectiveTests):
    plugin = fredfw_collective_msccl
    algorithms = (
        Msccl(file=HERE / "pair.xml"),  # type: ignore[arg-type]  # as a user names it
        Mscclpp(file=HERE / "pair.json"),  # type: ignore[arg-type]
    )
    ranks = (1, 2)
    fabrics = _SMALL


class TestMscclExporter(ExporterTests):
    plugin = fredfw_collective_msccl
    exporters = (MscclExporter(), MscclExporter(protocol="LL"))
    results = tuple(
        _FRAMEWORK.simulate_collective(_SMALL[0], pattern, size="1 MB", algorithm="direct")
        for pattern in ("all-reduce", "all-to-all", "point-to-point")
    )
