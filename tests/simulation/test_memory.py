import platform
import subprocess
import sys

import pytest

# Prints the page faults of making five arrays of 3 MiB, small enough for no huge pages, a hundred times over.
PROGRAM = """
import resource
import numpy as np
from fredfw.simulation.memory import keep_freed_memory

{call}
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

before = faults()
for _ in range(100):
    arrays = [np.ones(3 * 2**17) for _ in range(5)]
    del arrays
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have their own rules")
def test_memory_that_was_freed_is_not_asked_for_again() -> None:
    def faults(call: str) -> int:
        command = [sys.executable, "-c", PROGRAM.format(call=call)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    once = 5 * 3 * 2**20 // 4096  # pages of the arrays
    assert faults("keep_freed_memory()") < 3 * once
    assert faults("") > 30 * once
