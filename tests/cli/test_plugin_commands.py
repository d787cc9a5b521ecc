"""Commands of plugins."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import CliRunner, Result

from fredfw.plugin.manager import PluginManager


def test_a_plugins_command_runs_like_one_of_the_core(
    fredfw: Callable[..., Result], succeeds: Callable[..., str], words: Callable[[str], list[list[str]]]
) -> None:
    assert ["any", "2e+09"] in words(succeeds("speed", "--rate", "2 GB/s"))
    assert succeeds("speed", "--json", "-") == "1000000000.0"
    assert "Tell the speed of the tiny network." in succeeds("speed", "--help")
    entry = fredfw("--log-level", "debug", "--log-format", "json", "speed")
    assert entry.exit_code == 0


def test_errors_of_a_plugins_command_are_reported_like_those_of_the_core(
    experiment: str, fredfw: Callable[..., Result], is_refused: Callable[..., str]
) -> None:
    del experiment  # only its empty directory is needed
    assert is_refused("speed", "--rate", "1 GB").startswith("rate: '1 GB' has the unit 'GB'")
    assert is_refused("speed", "--json", "missing/out.json").startswith("missing/out.json: --json: cannot be written")
    result = fredfw("speed", "--fail")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "fredfw: error: it went wrong\n")


def test_a_plugins_command_runs_on_its_own() -> None:
    command = PluginManager.discover().commands.get("speed")
    assert "1e+09" in CliRunner().invoke(command, catch_exceptions=False).stdout
