"""Commands of plugins."""

from __future__ import annotations

from click.testing import CliRunner
from command_line import fails, refused, succeeds, words

from fredfw.plugin.manager import PluginManager


def test_a_plugins_command_runs_like_one_of_the_core() -> None:
    assert ["any", "2e+09"] in words(succeeds("speed", "--rate", "2 GB/s"))
    assert succeeds("speed", "--json", "-") == "1000000000.0"
    assert "Tell the speed of the tiny network." in succeeds("speed", "--help")
    succeeds("--log-level", "debug", "--log-format", "json", "speed")


def test_errors_of_a_plugins_command_are_reported_like_those_of_the_core() -> None:
    assert refused("speed", "--rate", "1 GB").startswith("rate: '1 GB' has the unit 'GB'")
    assert refused("speed", "--json", "missing/out.json").startswith("missing/out.json: --json: cannot be written")
    assert fails("speed", "--fail", code=1) == "fredfw: error: it went wrong\n"


def test_a_plugins_command_runs_on_its_own() -> None:
    command = PluginManager.discover().commands.get("speed")
    assert "1e+09" in CliRunner().invoke(command, catch_exceptions=False).stdout
