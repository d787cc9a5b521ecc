"""Failures and defects, of models and of plugins: one line, an exit code, a traceback where it helps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import TWO, fails, fredfw


def test_a_failure_of_a_model_is_one_line_and_code_1() -> None:
    Path(TWO).write_text(Path(TWO).read_text().replace('"step"', '"failing"'))
    assert fails("compare", TWO, "--json", "out.json", code=1) == "fredfw: error: it went wrong\n"
    assert os.listdir() == [TWO]


def test_too_little_memory_is_one_line_and_code_1() -> None:
    unlimited = [word for limit in ("nodes", "links") for word in ("--limit", f"{limit}=10000000000000000")]
    npus = "npus=1000000000000000"
    told = fails(*unlimited, "collective", "all-reduce", "--topology", "switch", "--set", npus, code=1)
    assert told.startswith("fredfw: error: there is not enough memory: Unable to allocate")


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fredfw.experiment.matrix.comparison.speedup", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fredfw("compare", TWO)


def test_a_defect_of_a_plugin_is_one_line_and_its_traceback_is_logged() -> None:
    Path(TWO).write_text(Path(TWO).read_text().replace('"step"', '{ name = "failing", defect = true }'))
    told = fails("compare", TWO, code=1)
    (line,) = told.splitlines()
    assert line.startswith("fredfw: error: plugin 'tiny' (")
    assert "of 'failing' fails: ZeroDivisionError" in line
    logged = fails("--log-level", "debug", "compare", TWO, code=1)
    assert "Traceback (most recent call last)" in logged
    assert logged.endswith(told)


def test_a_broken_plugin_is_blamed_for_an_unknown_command(broken: None) -> None:
    warning, error = fails("nonsense").splitlines()
    assert warning.startswith("fredfw: warning: plugin 'broken' (fredfw-test-broken 2.0, ")
    assert ") cannot be imported: ModuleNotFoundError: " in warning
    assert error.startswith("fredfw: error: no command 'nonsense'; plugin 'broken' (fredfw-test-broken 2.0, ")
