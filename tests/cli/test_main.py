"""The command itself: help, names of commands, logs, warnings, what is printed."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from command_line import TWO, fails, fredfw, refused, succeeds, words

from fredfw.cli import table


def test_the_version_and_usage_errors() -> None:
    assert version("fredfw") in succeeds("--version")
    for arguments in ([], ["compare"], ["collective", "all-reduce"], ["compare", "x", "--fidelity", "high"]):
        assert fredfw(*arguments).exit_code == 2


def test_help_lists_the_commands_of_plugins_apart() -> None:
    core, plugins = succeeds("--help").split("Commands of plugins:\n")
    listed = [line.split()[0] for line in core.split("Commands:\n")[1].split("\n") if line]
    assert listed[:6] == ["calibrate", "cells", "collective", "compare", "export-program", "merge"]
    assert listed[6:] == ["new", "plugins", "run", "validate"]
    assert ["speed", "Tell", "the", "speed", "of", "the", "tiny", "network.", "[fredfw-test-tiny]"] in words(plugins)
    assert "chat" not in plugins
    # Without arguments the same is printed, as a mistake.
    assert (fredfw().exit_code, "Commands of plugins" in fredfw().output) == (2, True)


def test_commands_of_the_core_start_without_plugins() -> None:
    for arguments in (["compare", "--help"], ["plugins", "show", "--help"], ["--version"]):
        succeeds(*arguments)
        assert "fredfw_test_tiny" not in sys.modules
    assert fredfw("compare").exit_code == 2
    assert "fredfw_test_tiny" not in sys.modules


def test_an_unknown_command_is_refused_with_the_nearest() -> None:
    for wrong, right in (("compar", "compare"), ("speeed", "speed")):
        line = refused(wrong)
        assert line.startswith(f"no command '{wrong}'; did you mean '{right}'? (accepted: calibrate, ")


def test_hook_calls_are_traced_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREDFW_TRACE_HOOKS", "1")
    result = fredfw("plugins", "list")
    assert "fredfw_topologies" in result.stderr
    monkeypatch.delenv("FREDFW_TRACE_HOOKS")
    assert fredfw("plugins", "list").stdout == result.stdout


def test_a_ragged_table_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        table("Ragged", ["a", "b"], [(1, 2), (3,)])


def test_nothing_from_an_experiment_controls_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    escape = "\x1b]0;owned\x07\x9b31m\u202e"
    hostile = Path(TWO).read_text().replace('"a paper"', json.dumps(escape))
    Path(TWO).write_text(hostile)
    # Whether standard output is a terminal or not; colours are the console's own.
    for environment in ({}, {"FORCE_COLOR": "1", "TERM": "xterm-256color"}):
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        printed = succeeds("compare", TWO)
        assert "\x1b]" not in printed
        assert not set("\x07\x9b\u202e") & set(printed)
        assert "\\x1b]0;owned" in printed
    assert json.loads(succeeds("compare", TWO, "--json", "-"))["rows"][1]["reference_source"] == escape
    name = "two\x1b[31m.toml"
    Path(name).write_text(hostile.replace("title", "tittle"))
    for arguments in (["compare", name], ["--log-level", "info", "compare", "absent\x9b.toml"]):
        assert not {"\x1b", "\x9b"} & set(fails(*arguments))
    Path(name).write_text(hostile)
    result = fredfw("--log-level", "info", "compare", name)
    assert "file=two\\x1b[31m.toml" in result.stderr
