"""A part of the fuzzers' cases, the same every time; ``tox run -e fuzz`` runs others for as long as is wanted."""

import sys
from pathlib import Path

import fuzzing
import pytest
from mutations import Mutator

CASES = {"experiment": 120, "stored": 250, "command": 120}
PARTS = 4


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
@pytest.mark.parametrize("kind", fuzzing.KINDS)
def test_damaged_input_is_a_result_or_one_clear_error(
    kind: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failures = [fuzzing.fuzz(kind, case) for case in range(part, CASES[kind], PARTS)]
    assert [one for one in failures if one is not None] == []


def test_a_failure_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(mutator: Mutator) -> str:
        raise OverflowError(str(mutator.random.random()))

    monkeypatch.setitem(fuzzing.KINDS, "broken", broken)
    first = fuzzing.fuzz("broken", 7)
    assert first is not None
    assert first == fuzzing.fuzz("broken", 7)
    assert first.endswith("again: python tests/fuzz/fuzzing.py --kind broken --case 7")
    assert "OverflowError: 0." in first


def test_a_case_that_takes_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_: Mutator) -> str:
        while True:
            pass

    monkeypatch.setitem(fuzzing.KINDS, "endless", endless)
    monkeypatch.setattr(fuzzing, "SECONDS", 0.1)
    failure = fuzzing.fuzz("endless", 1)
    assert failure is not None
    assert "more than 0.1 s" in failure


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_a_case_that_needs_too_much_memory_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")

    def vast(_: Mutator) -> str:
        return repr(bytearray(2 * fuzzing.BYTES)[:1])

    monkeypatch.setitem(fuzzing.KINDS, "vast", vast)
    usual = resource.getrlimit(resource.RLIMIT_AS)
    failure = fuzzing.fuzz("vast", 1)
    assert failure is not None
    assert failure.startswith("vast 1: ")
    assert "MemoryError" in failure
    assert resource.getrlimit(resource.RLIMIT_AS) == usual
