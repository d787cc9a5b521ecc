"""What is installed, plugins that are files, and commands of plugins."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import fails, fredfw, refused, succeeds, words
from showing import printed

from fredfw.cli.plugins import KINDS
from fredfw.plugin.manager import PluginInfo, PluginManager
from fredfw.report import plugins


def test_plugins_list_of_all_kinds_or_one() -> None:
    listed = succeeds("plugins", "list")
    assert ["topology", "tiny", "Two", "NPUs", "below", "one", "switch."] in words(listed)
    assert ["command", "speed", "Tell", "the", "speed", "of", "the", "tiny", "network."] in words(listed)
    assert "..." not in listed  # in a pipe nothing is cut
    rows = [line[:4] for line in words(succeeds("plugins", "list", "--long"))]
    assert ["topology", "tiny", "fredfw-test-tiny", "1.0"] in rows
    assert ["command", "compare", "fredfw", version("fredfw")] in rows
    document = json.loads(succeeds("plugins", "list", "--json", "-"))
    assert document["format"] == "fredfw.plugins"
    (tiny,) = (one for one in document["plugins"] if one["name"] == "tiny")
    assert (tiny["kind"], tiny["distribution"], tiny["version"]) == ("topology", "fredfw-test-tiny", "1.0")
    assert tiny["description"] == "Two NPUs below one switch."
    registries = PluginManager.discover().registries
    assert [kind.replace("-", " ") for kind in KINDS] == [*(one.kind for one in registries), "command"]
    (policies,) = (one for one in registries if one.kind == "sharing policy")
    rows = words(succeeds("plugins", "list", "--kind", "sharing-policy"))[2:]
    assert [row[2] for row in rows] == [one.name for one in policies.infos()]


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


def test_plugins_are_shown_and_their_commands_run_and_fail_like_those_of_the_core() -> None:
    text = succeeds("plugins", "show", "tiny")
    assert "Two NPUs below one switch." in text
    assert ["rate", "float", "B/s", "1", "GB/s", "of", "each", "link"] in words(text)
    assert succeeds("plugins", "show", "speed").startswith("Usage: fredfw speed [OPTIONS]")
    assert "did you mean 'tiny'?" in refused("plugins", "show", "tny")
    assert ["any", "2e+09"] in words(succeeds("speed", "--rate", "2 GB/s"))
    assert succeeds("speed", "--json", "-") == "1000000000.0"
    assert refused("speed", "--rate", "1 GB").startswith("rate: '1 GB' has the unit 'GB'")
    assert refused("speed", "--json", "missing/out.json").startswith("missing/out.json: --json: cannot be written")
    assert fails("speed", "--fail", code=1) == "fredfw: error: it went wrong\n"
    command = PluginManager.discover().commands.get("speed")
    assert "1e+09" in CliRunner().invoke(command, catch_exceptions=False).stdout


@pytest.mark.usefixtures("broken")
def test_plugins_are_discovered_once() -> None:
    assert len(fredfw("speed").stderr.splitlines()) == 1


COMMAND = """
import click
from fredfw.plugin import hookimpl

@hookimpl
def fredfw_commands():
    return [click.Command("{name}", callback=lambda: click.echo("hello"))]
"""


def test_a_name_of_the_core_stays_with_the_core() -> None:
    Path("mine.py").write_text(COMMAND.format(name="compare"))
    assert "Run every workload" in succeeds("--plugin", "mine.py", "compare", "--help")
    told = fails("--plugin", "mine.py", "nonsense", code=1)
    for part in ("plugin 'core'", "plugin 'mine.py'", "'compare'"):
        assert part in told
    # Help is what helps to find that out.
    helped = fredfw("--plugin", "mine.py", "--help")
    assert (helped.exit_code, helped.stderr) == (0, told.replace("error", "warning"))
    assert "calibrate" in helped.stdout


FILE_HOOK = """
@hookimpl
def fredfw_topologies():
    return [Tiny]
"""


def test_files_that_are_plugins_for_one_call_or_none(plugin: Path) -> None:
    Path("network.py").write_text(plugin.read_text().replace('"tiny"', '"mine"').split("@hookimpl")[0] + FILE_HOOK)
    Path("command.py").write_text(COMMAND.format(name="greet"))
    files = ("--plugin", "network.py", "--plugin", "command.py")
    assert succeeds(*files, "greet") == "hello\n"
    assert "1000000.00" in succeeds(*files, "collective", "broadcast", "--topology", "mine", "--size", "1GB")
    assert ["greet", "[--plugin]"] in words(succeeds(*files, "--help"))
    refused("greet")
    assert refused("--plugin", "absent.py", "plugins", "list").startswith("absent.py: --plugin: does not exist")
    Path("bad.py").write_text("1 / 0")
    told = fails("--plugin", "bad.py", "plugins", "list", code=1)
    where = Path("bad.py").resolve()
    assert told.startswith(f"fredfw: error: plugin 'bad.py' ({where}) cannot be imported: ZeroDivisionError")


HOOK = """
from fredfw import hookimpl

@hookimpl
def fredfw_exporters():
    return []

"""

TRUSTED_NOWHERE = """
plugins = ["sub/evil.py"]
fabrics.one.topology = "tiny"
workloads.one.workload = "step"
"""


@pytest.fixture(autouse=True)
def evil(plugin: Path) -> Path:
    file = Path("sub/evil.py")
    file.parent.mkdir()
    file.write_text(HOOK)
    Path("evil.toml").write_text(TRUSTED_NOWHERE)
    return file


@pytest.mark.parametrize("command", ["compare", "run", "calibrate"])
def test_plugin_files_of_an_experiment_run_only_if_trusted(command: str, evil: Path) -> None:
    evil.write_text(f"{HOOK}open('executed', 'w').close()")
    assert refused(command, "evil.toml") == (
        "evil.toml: plugins[0]: the plugin file 'sub/evil.py' is not trusted: its code would run "
        "(accepted: fredfw --trust-plugins, fredfw --plugin sub/evil.py, or in Python Framework(trust_plugins=True))"
    )
    assert succeeds("cells", "evil.toml") == "one\tone\n"
    assert not Path("executed").exists()
    if command != "calibrate":  # there is nothing to fit
        for option in (["--trust-plugins"], ["--plugin", "sub/evil.py"]):
            succeeds(*option, command, "evil.toml")
            Path("executed").unlink()


@pytest.mark.parametrize(
    ("option", "arguments"),
    [
        ("--plugin", ["compare", "evil.toml", "--csv"]),
        ("--plugin", ["collective", "all-reduce", "--topology", "tiny", "--csv"]),
        ("--plugin", ["speed", "--json"]),  # a command of a plugin
        ("--trust-plugins", ["calibrate", "evil.toml", "--json"]),
    ],
)
def test_no_output_replaces_a_plugin_file(option: str, arguments: list[str], evil: Path) -> None:
    Path("link.py").symlink_to("sub/evil.py")
    given = [option, "sub/evil.py"] if option == "--plugin" else [option]
    for path in ("sub/evil.py", "./sub/../link.py"):
        assert refused(*given, *arguments, path).startswith(f"{arguments[-1]}: {path!r} is also the input")
        assert evil.read_text() == HOOK
