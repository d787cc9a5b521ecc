"""The command itself: help, names of commands, logs, warnings, what is printed, failures; and a collective."""

import csv
import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from command_line import TWO, fails, fredfw, refused, succeeds, words

from fredfw.cli import table


def test_the_version_usage_errors_and_unknown_commands() -> None:
    assert version("fredfw") in succeeds("--version")
    for arguments in (["collective", "all-reduce"], ["compare", "x", "--fidelity", "high"]):
        assert fredfw(*arguments).exit_code == 2
    for wrong, right in (("compar", "compare"), ("speeed", "speed")):
        assert refused(wrong).startswith(f"no command '{wrong}'; did you mean '{right}'? (accepted: calibrate, ")


def test_commands_of_the_core_start_without_plugins_whose_commands_help_lists_apart() -> None:
    for arguments, code in ((["compare", "--help"], 0), (["plugins", "show", "--help"], 0), (["compare"], 2)):
        assert fredfw(*arguments).exit_code == code
        assert "fredfw_test_tiny" not in sys.modules
    core, plugins = succeeds("--help").split("Commands of plugins:\n")
    listed = [line.split()[0] for line in core.split("Commands:\n")[1].split("\n") if line]
    assert listed[:6] == ["calibrate", "cells", "collective", "compare", "export-program", "merge"]
    assert listed[6:] == ["new", "plugins", "run", "validate"]
    assert ["speed", "Tell", "the", "speed", "of", "the", "tiny", "network.", "[fredfw-test-tiny]"] in words(plugins)
    assert "chat" not in plugins
    # Without arguments the same is printed, as a mistake.
    assert (fredfw().exit_code, "Commands of plugins" in fredfw().output) == (2, True)


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
    name = "two\x1b[31m.toml"
    Path(name).write_text(Path(TWO).read_text().replace('"a paper"', json.dumps(escape)))
    # Whether standard output is a terminal or not; colours are the console's own.
    for environment in ({}, {"FORCE_COLOR": "1", "TERM": "xterm-256color"}):
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        printed = succeeds("compare", name)
        assert "\x1b]" not in printed
        assert not set("\x07\x9b\u202e") & set(printed)
        assert "\\x1b]0;owned" in printed
    assert json.loads(succeeds("compare", name, "--json", "-"))["rows"][1]["reference_source"] == escape
    for arguments in (["compare", name, "--workload", escape], ["--log-level", "info", "compare", "absent\x9b.toml"]):
        assert not {"\x1b", "\x9b"} & set(fails(*arguments))
    assert "file=two\\x1b[31m.toml" in fredfw("--log-level", "info", "compare", name).stderr


TINY = "--topology", "tiny"


def test_collective_as_a_table_and_as_data() -> None:
    sizes = ("-b", "1GB", "-e", "4GB", "-f", "2")
    text = succeeds("collective", "all-reduce", *TINY, "--set", "rate=2 GB/s", *sizes, "--json", "out.json")
    # An all-reduce of n = 2 has busbw = algbw (nccl-tests).
    for size, microseconds in (("1000000000", "500000.00"), ("2000000000", "1000000.00"), ("4000000000", "2000000.00")):
        assert [size, microseconds, "2.000", "2.000", "direct", "2"] in [line[:4] + line[-2:] for line in words(text)]
    assert ["#", "Avg", "bus", "bandwidth", ":", "2", "GB/s"] in words(text)
    document = json.loads(Path("out.json").read_text())
    assert [one["size"] for one in document["results"]] == [1e9, 2e9, 4e9]
    assert (document["average_busbw"], document["missing"]) == (pytest.approx(2e9), [])
    arguments = ("collective", "broadcast", *TINY, "--group", "1,0", "--root", "1", "--size", "1GB")
    rows = list(csv.DictReader(succeeds(*arguments, "--csv", "-", "--json", "out.json").splitlines()))
    assert float(rows[0]["duration"]) == pytest.approx(1.0)
    document = json.loads(Path("out.json").read_text())
    assert document["provenance"]["group"] == [1, 0]
    assert document["provenance"]["topology"] == {"name": "tiny", "rate": 1e9}
    # Rank 1 is NPU 0, so the data goes from there to NPU 1.
    assert {link["name"] for link in document["results"][0]["links"]} == {"npu0->switch0", "switch0->npu1"}


@pytest.mark.parametrize("arguments", ["--size 1M --sizes 1M:2M:x2", "--size 1M -b 8", "-f 2 -i 1M"])
def test_sizes_are_given_in_one_way(arguments: str) -> None:
    assert "exclude each other" in fails("collective", "all-reduce", *TINY, *arguments.split())


def test_too_little_memory_is_one_line_and_code_1() -> None:
    switch = ("collective", "all-reduce", "--topology", "switch", "--set", f"npus={10**15}")
    told = fails("--limit", f"nodes={10**16}", "--limit", f"links={10**16}", *switch, code=1)
    assert told.startswith("fredfw: error: there is not enough memory: Unable to allocate")


def test_a_defect_keeps_its_traceback_and_one_of_a_plugin_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fredfw.experiment.matrix.comparison.speedup", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fredfw("compare", TWO)
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
