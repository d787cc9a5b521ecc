"""Plugins that are files, named on the command line or in an experiment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

COMMAND = """
import click
from fredfw.plugin import hookimpl

@hookimpl
def fredfw_commands():
    return [click.Command("{name}", callback=lambda: click.echo("hello"))]
"""


def test_a_name_of_the_core_stays_with_the_core(
    tmp_path: Path, fredfw: Callable[..., Result], succeeds: Callable[..., str]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(COMMAND.format(name="compare"))
    assert "Run every workload" in succeeds("--plugin", str(file), "compare", "--help")
    result = fredfw("--plugin", str(file), "nonsense")
    assert result.exit_code == 1
    assert "plugin 'core'" in result.stderr
    assert "plugin 'mine.py'" in result.stderr
    assert "'compare'" in result.stderr
    # Help is what helps to find that out.
    helped = fredfw("--plugin", str(file), "--help")
    assert (helped.exit_code, helped.stderr) == (0, result.stderr.replace("error", "warning"))
    assert "calibrate" in helped.stdout


FILE_HOOK = """
@hookimpl
def fredfw_topologies():
    return [Tiny]
"""


def test_a_file_is_a_plugin_for_one_call(
    tmp_path: Path,
    fredfw: Callable[..., Result],
    succeeds: Callable[..., str],
    words: Callable[[str], list[list[str]]],
    plugin: Path,
) -> None:
    network = tmp_path / "network.py"
    network.write_text(plugin.read_text().replace('"tiny"', '"mine"').split("@hookimpl")[0] + FILE_HOOK)
    command = tmp_path / "command.py"
    command.write_text(COMMAND.format(name="greet"))
    files = ("--plugin", str(network), "--plugin", str(command))
    assert succeeds(*files, "greet") == "hello\n"
    assert "1000000.00" in succeeds(*files, "collective", "broadcast", "--topology", "mine", "--size", "1GB")
    assert ["greet", "[--plugin]"] in words(succeeds(*files, "--help"))
    assert fredfw("greet").exit_code == 2


def test_files_that_are_no_plugins(
    experiment: str, tmp_path: Path, fredfw: Callable[..., Result], is_refused: Callable[..., str]
) -> None:
    del experiment  # only its empty directory is needed
    assert is_refused("--plugin", "absent.py", "plugins", "list").startswith("absent.py: --plugin: does not exist")
    (tmp_path / "bad.py").write_text("1 / 0")
    result = fredfw("--plugin", "bad.py", "plugins", "list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"fredfw: error: plugin 'bad.py' ({tmp_path}")
    assert "bad.py) cannot be imported: ZeroDivisionError" in result.stderr


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


@pytest.mark.parametrize("command", ["compare", "run", "calibrate"])
def test_plugin_files_of_an_experiment_run_only_if_trusted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    succeeds: Callable[..., str],
    is_refused: Callable[..., str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/evil.py").write_text(f"{HOOK}open('executed', 'w').close()")
    Path("evil.toml").write_text(TRUSTED_NOWHERE)
    assert is_refused(command, "evil.toml") == (
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
    ("option", "arguments", "what"),
    [
        ("--plugin", ["compare", "evil.toml", "--csv"], "--csv"),
        ("--plugin", ["run", "evil.toml", "--trace"], "--trace"),
        ("--plugin", ["collective", "all-reduce", "--topology", "tiny", "--csv"], "--csv"),
        ("--plugin", ["speed", "--json"], "--json"),  # a command of a plugin
        ("--trust-plugins", ["compare", "evil.toml", "--json"], "--json"),
        ("--trust-plugins", ["run", "evil.toml", "--json"], "--json"),
        ("--trust-plugins", ["calibrate", "evil.toml", "--json"], "--json"),
    ],
)
def test_no_output_replaces_a_plugin_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    arguments: list[str],
    what: str,
    is_refused: Callable[..., str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/evil.py").write_text(HOOK)
    Path("link.py").symlink_to("sub/evil.py")
    Path("evil.toml").write_text(TRUSTED_NOWHERE)
    given = [option, "sub/evil.py"] if option == "--plugin" else [option]
    for path in ("sub/evil.py", "./sub/../link.py"):
        assert is_refused(*given, *arguments, path).startswith(f"{what}: {path!r} is also the input")
        assert Path("sub/evil.py").read_text() == HOOK
