"""The check in another process, wherever a class is defined: it sees the fault, or says that it cannot look."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from attrs import frozen

from fredfw.simulation import MaxMin
from fredfw.testing import ConformanceError, check_sharing_policy

# Each call of the kit starts another Python.
pytestmark = pytest.mark.slow

SCRIPT = """
import os
print("noise, which is no answer")
from typing import ClassVar
import numpy as np
from attrs import frozen
import fredfw
from fredfw import units
from fredfw.testing import check_topology

@frozen
class Pair(fredfw.Topology):
    \"\"\"Two NPUs.\"\"\"
    name: ClassVar[str] = "pair"
    rate: float = units.bandwidth("1 GB/s", help="of each link")
    def build(self):
        bandwidth = {bandwidth}
        return fredfw.Fabric("pair", np.full(2, fredfw.NodeKind.NPU), [0, 1], [1, 0], bandwidth, 1e-6, 0.0)

"""
PROCESS, SEED = "1e9 * os.getpid()", "1e9 + abs(hash('a')) % 10**6"
DIFFERS = "is_the_same_in_another_process: the fabric that is built differs in another process"


def script(bandwidth: str, *more: str) -> str:
    return SCRIPT.format(bandwidth=bandwidth) + "\n".join(more)


def run(*arguments: str | Path, where: Path) -> str:
    """Return what a Python says as it ends, empty if nothing is wrong."""
    done = subprocess.run([sys.executable, *arguments], cwd=where, capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(done.stderr), done.stderr
    assert done.stdout.count("noise") == 1  # the other process does not print, nor start a third
    return done.stderr


@pytest.mark.parametrize(("bandwidth", "guard"), [(PROCESS, ""), (SEED, "if __name__ == '__main__': ")])
def test_a_script_is_run_again(bandwidth: str, guard: str, tmp_path: Path) -> None:
    file = tmp_path / "pair.py"
    file.write_text(script(bandwidth, f"{guard}check_topology(Pair())"))
    assert DIFFERS in run(file, where=tmp_path)


def test_a_module_that_is_run_is_imported(tmp_path: Path) -> None:
    package = tmp_path / "acme"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "pair.py").write_text(script(PROCESS, "check_topology(Pair())"))
    assert DIFFERS in run("-m", "acme.pair", where=tmp_path)


def test_sound_scripts_pass(tmp_path: Path) -> None:
    file = tmp_path / "pair.py"
    # Also one that goes on to something else, or ends itself.
    for end in ("", "raise SystemExit(0)", "import sys; sys.argv[1]"):
        file.write_text(script("self.rate", "check_topology(Pair())", end))
        assert run(file, "argument", where=tmp_path) == ""


def test_other_faults_do_not_hide_it(tmp_path: Path) -> None:
    # The first check of the script fails there, too, when the class is known already.
    file = tmp_path / "pair.py"
    file.write_text(script("[1e9 * os.getpid(), 5e8]", "check_topology(Pair())"))
    message = run(file, where=tmp_path)
    assert DIFFERS in message
    assert "capacity_is_symmetric: " in message


def test_what_nobody_else_can_import_is_not_passed_over(tmp_path: Path) -> None:
    code = script("self.rate", "check_topology(Pair())")
    cannot = "is_the_same_in_another_process: Pair cannot be checked in another process: "
    assert f"{cannot}it is defined in no file; move it to one" in run("-c", code, where=tmp_path)

    @frozen
    class Local(MaxMin):
        """Nobody else knows it."""

    with pytest.raises(ConformanceError, match="it is defined in a function; move it to the top level"):
        check_sharing_policy(Local())
    check_sharing_policy(Local(), expected_failures={"is_the_same_in_another_process": "it is of this test alone"})


def test_a_module_that_cannot_be_imported_again_is_told(tmp_path: Path) -> None:
    (tmp_path / "pair.py").write_text(script("self.rate").replace("import os\n", "import os\nos.mkdir('once')\n"))
    message = run("-c", "from pair import *; check_topology(Pair())", where=tmp_path)
    assert "Pair cannot be checked in another process: FileExistsError: " in message
