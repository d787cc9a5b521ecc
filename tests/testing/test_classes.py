"""The test classes as an author uses them, and the check in another process, wherever a class is defined."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import frozen

from fredfw.simulation import MaxMin
from fredfw.testing import ConformanceError, SharingPolicyTests, check_sharing_policy

# Each call of the kit starts another Python.
pytestmark = pytest.mark.slow

MODULE = '''
from attrs import frozen
from fredfw.testing import SharingPolicyTests
from fredfw.simulation import MaxMin

@frozen
class Half(MaxMin):
    """Half of what there is."""
    name = "half"
    def rates(self, incidence, capacities, fabric):
        return super().rates(incidence, capacities / 2, fabric)

class TestRight(SharingPolicyTests):
    policies = [MaxMin()]

class TestWrong(SharingPolicyTests):
    policies = [Half()]

class TestExpected(SharingPolicyTests):
    policies = [Half()]
    expected_failures = {
        "no_capacity_is_wasted": "the other half is kept for emergencies",
        "rates_are_numbers": "they are",
        "no_capacity_is_lost": "",
    }
'''


def test_one_test_per_check_and_configuration(tmp_path: Path) -> None:
    (tmp_path / "test_policies.py").write_text(MODULE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "test_policies.py"]
    wide = {**os.environ, "COLUMNS": "300"}  # so that no line is cut
    done = subprocess.run(command, cwd=tmp_path, env=wide, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    at = "test_policies.py::Test"

    def reported(start: str) -> list[str]:
        return [line.removeprefix(f"{start} {at}") for line in lines if line.startswith(f"{start} {at}")]

    passed = [one for one in reported("PASSED") if one.startswith("Right::")]
    assert len(passed) == len(SharingPolicyTests.checks) + 1  # and one for expected_failures
    assert "Right::test_no_capacity_is_wasted[max-min]" in passed
    failed = [one.partition(" - ")[0] for one in reported("FAILED")]
    assert sorted(failed) == [
        "Expected::test_expected_failures",
        "Expected::test_rates_are_numbers[half]",
        "Wrong::test_no_capacity_is_wasted[half]",
    ]
    (expected,) = reported("XFAIL")
    assert expected.startswith("Expected::test_no_capacity_is_wasted[half] - the other half is kept")
    text = "\n".join(lines)
    assert "rates_are_numbers holds after all; take it out of expected_failures" in text
    assert "there is no check 'no_capacity_is_lost'; did you mean 'no_capacity_is_wasted'?" in text


def test_what_a_case_has_found_out_serves_all_tests() -> None:
    class Nothing(SharingPolicyTests): ...

    class Some(Nothing):
        policies = (MaxMin(),)

    class More(Some):
        policies = (MaxMin(), MaxMin())  # type: ignore[assignment]

    assert Some._kept_cases() is Some._kept_cases()
    assert [len(cls._kept_cases()) for cls in (Some, More)] == [1, 2]
    with pytest.raises(ValueError, match="Nothing names nothing to test; the docstring of its base class says how"):
        Nothing._kept_cases()


def test_the_calls_need_no_pytest_and_fredfw_no_kit() -> None:
    script = """
import sys
import fredfw
assert "fredfw.testing" not in sys.modules
sys.modules["pytest"] = None
from fredfw.simulation import MaxMin
from fredfw.testing import check_sharing_policy
check_sharing_policy(MaxMin())
"""
    subprocess.run([sys.executable, "-c", script], check=True)


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


def test_a_module_that_is_run_is_imported_and_one_that_cannot_be_again_is_told(tmp_path: Path) -> None:
    package = tmp_path / "acme"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "pair.py").write_text(script(PROCESS, "check_topology(Pair())"))
    assert DIFFERS in run("-m", "acme.pair", where=tmp_path)
    (tmp_path / "pair.py").write_text(script("self.rate").replace("import os\n", "import os\nos.mkdir('once')\n"))
    message = run("-c", "from pair import *; check_topology(Pair())", where=tmp_path)
    assert "Pair cannot be checked in another process: FileExistsError: " in message


def test_sound_scripts_pass_and_other_faults_do_not_hide_it(tmp_path: Path) -> None:
    file = tmp_path / "pair.py"
    # Also one that goes on to something else, or ends itself.
    for end in ("", "raise SystemExit(0)", "import sys; sys.argv[1]"):
        file.write_text(script("self.rate", "check_topology(Pair())", end))
        assert run(file, "argument", where=tmp_path) == ""
    # The first check of the script fails there, too, when the class is known already.
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
