from __future__ import annotations

from pathlib import Path

import fredfw_workload_astra_sim_text
from fredfw import File
from fredfw.testing import WorkloadTests
from fredfw_workload_astra_sim_text import AstraSimText

_FOLDER = Path(__file__).parent


class TestAstraSimText(WorkloadTests):
    plugin = fredfw_workload_astra_sim_text
    workloads = (
        AstraSimText(file=File.at(_FOLDER / "experts.txt"), passes=2),
        AstraSimText(file=File.at(_FOLDER / "data.txt")),
    )
