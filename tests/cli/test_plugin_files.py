"""Plugins that are files, named on the command line or in an experiment."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import fails, fredfw, refused, succeeds, words

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


def test_a_file_is_a_plugin_for_one_call(plugin: Path) -> None:
    Path("network.py").write_text(plugin.read_text().replace('"tiny"', '"mine"').split("@hookimpl")[0] + FILE_HOOK)
    Path("command.py").write_text(COMMAND.format(name="greet"))
    files = ("--plugin", "network.py", "--plugin", "command.py")
    assert succeeds(*files, "greet") == "hello\n"
    assert "1000000.00" in succeeds(*files, "collective", "broadcast", "--topology", "mine", "--size", "1GB")
    assert ["greet", "[--plugin]"] in words(succeeds(*files, "--help"))
    refused("greet")


def test_files_that_are_no_plugins() -> None:
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
    """Write a plugin file and an experiment that names it."""
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
