"""A part of the fuzzers' cases, the same every time; ``tox run -e fuzz`` runs others for as long as is wanted."""

import sys
from collections.abc import Callable
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


def broken(mutator: Mutator) -> str:
    raise OverflowError(str(mutator.random.random()))


def endless(_: Mutator) -> str:
    while True:
        pass


def vast(_: Mutator) -> str:
    return repr(bytearray(2 * fuzzing.BYTES)[:1])


LIMITED = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (broken, "OverflowError: 0.32"),  # the same number each time
        (endless, "more than 0.1 s"),
        pytest.param(vast, "MemoryError", marks=LIMITED),
    ],
)
def test_a_failure_says_what_it_is_and_how_to_repeat_it(
    kind: Callable[[Mutator], str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    usual = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setitem(fuzzing.KINDS, "wrong", kind)
    monkeypatch.setattr(fuzzing, "SECONDS", 0.1)
    failure = fuzzing.fuzz("wrong", 7)
    assert failure is not None
    assert failure.startswith("wrong 7: ")
    assert said in failure
    assert failure.endswith("again: python tests/fuzz/fuzzing.py --kind wrong --case 7")
    assert resource.getrlimit(resource.RLIMIT_AS) == usual
