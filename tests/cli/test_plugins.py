"""What is installed: plugins list, plugins show."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest
from click.testing import CliRunner
from command_line import fails, fredfw, refused, succeeds, words
from showing import printed

from fredfw.cli.plugins import KINDS
from fredfw.plugin.manager import PluginInfo, PluginManager
from fredfw.report import plugins


def test_plugins_list() -> None:
    rows = words(succeeds("plugins", "list"))
    assert ["topology", "tiny", "Two", "NPUs", "below", "one", "switch."] in rows
    assert ["workload", "step", "Compute,", "then", "reduce", "1", "GB", "of", "gradients."] in rows
    assert ["command", "speed", "Tell", "the", "speed", "of", "the", "tiny", "network."] in rows
    # In a pipe nothing is cut.
    assert "..." not in succeeds("plugins", "list")
    rows = [line[:4] for line in words(succeeds("plugins", "list", "--long"))]
    for kind, name in (("topology", "tiny"), ("command", "speed")):
        assert [kind, name, "fredfw-test-tiny", "1.0"] in rows
    for kind, name in (("placement", "linear"), ("command", "compare")):
        assert [kind, name, "fredfw", version("fredfw")] in rows
    document = json.loads(succeeds("plugins", "list", "--json", "-"))
    assert document["format"] == "fredfw.plugins"
    (tiny,) = (one for one in document["plugins"] if one["name"] == "tiny")
    assert (tiny["kind"], tiny["distribution"], tiny["version"]) == ("topology", "fredfw-test-tiny", "1.0")
    assert tiny["description"] == "Two NPUs below one switch."


def test_plugins_list_of_one_kind() -> None:
    rows = words(succeeds("plugins", "list", "--kind", "sharing-policy"))[2:]
    assert [row[2] for row in rows] == [
        *("circuit-preempt", "dcqcn", "dctcp", "hpcc", "max-min", "pfc", "strict-links", "timely", "weighted-max-min"),
    ]
    manager = PluginManager.discover()
    assert [kind.replace("-", " ") for kind in KINDS] == [*(one.kind for one in manager.registries), "command"]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_plugins_list_fits_the_terminal(width: int) -> None:
    infos = [
        PluginInfo("topology", "tiny", None, None, None, "Two NPUs below one switch."),
        PluginInfo("router", "long", None, None, None, "A description of more than a line " * 5),
    ]
    lines = printed(plugins.plugins_report(infos, width=width), width).splitlines()
    assert len(lines) == 4
    assert width - 5 < max(map(len, lines)) <= width
    assert lines[-1].rstrip().endswith("...")


def test_plugins_show() -> None:
    text = succeeds("plugins", "show", "tiny")
    assert "Two NPUs below one switch." in text
    assert ["rate", "float", "B/s", "1", "GB/s", "of", "each", "link"] in words(text)
    assert succeeds("plugins", "show", "speed").startswith("Usage: fredfw speed [OPTIONS]")
    assert "did you mean 'tiny'?" in refused("plugins", "show", "tny")


@pytest.mark.usefixtures("broken")
def test_plugins_are_discovered_once() -> None:
    assert len(fredfw("speed").stderr.splitlines()) == 1


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
