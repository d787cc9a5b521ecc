"""The test classes as an author uses them, in a pytest of their own; and the calls without any pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fredfw.simulation import MaxMin
from fredfw.testing import SharingPolicyTests

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
    class Some(SharingPolicyTests):
        policies = [MaxMin()]  # noqa: RUF012  (as an author would write it)

    class More(Some):
        policies = [MaxMin(), MaxMin()]  # noqa: RUF012  (as above)

    class Nothing(SharingPolicyTests): ...

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
