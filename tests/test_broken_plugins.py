"""Broken distributions, built as wheels and installed by pip beside everything else: the command line names each."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sysconfig
import venv
import zipfile
from pathlib import Path
from subprocess import CompletedProcess
from textwrap import dedent

import pytest
from attrs import frozen

import fredfw

# Makes an environment with wheels of its own.
pytestmark = pytest.mark.slow
HEAD = """
from typing import ClassVar
import click
import numpy as np
from attrs import frozen
from fredfw import CollectiveAlgorithm, Fabric, NodeKind, Topology, hookimpl

class Pair(Topology):
    def build(self):
        return Fabric("pair", np.full(2, NodeKind.NPU), [0, 1], [1, 0], 1e9, 0.0, 0.0)
"""
WORKS = """
@frozen
class Works(Pair):
    name: ClassVar[str] = "works"
@hookimpl
def fredfw_topologies(): return [Works]
@hookimpl
def fredfw_commands(): return [click.Command("wave", callback=lambda: click.echo("hello"))]
"""
TWIN = """
@frozen
class Twin(Pair):
    name: ClassVar[str] = "twin"
@hookimpl
def fredfw_topologies(): return [Twin]
"""
# What is wrong by the name of the entry point, with what must be said about it; tests/plugin has all that may be wrong.
BROKEN = {
    # found when it is loaded
    "import": (
        "import no_such_module",
        "cannot be imported: ModuleNotFoundError: No module named 'no_such_module' (line ",
    ),
    "exit": ("raise SystemExit(3)", "cannot be imported: SystemExit: 3 (line "),
    # found when something of its kind is looked up
    "raises": (
        "@hookimpl\ndef fredfw_topologies():\n    return {}[0]",
        "fails in fredfw_topologies: KeyError: 0 (line ",
    ),
    "plain": (
        "class Plain(Pair): name = 'plain'\n@hookimpl\ndef fredfw_topologies(): return [Plain]",
        "registers the topology Plain, which is not an attrs class",
    ),
    "twin-a": (TWIN, "both register the topology 'twin', of which all but one must be switched off"),
}
# Beside the one who is named first.
UNNAMED = {"twin-b": TWIN}
# What fails around a run only.
LISTENERS = {
    "before": (
        "@hookimpl\ndef fredfw_before_run(experiment): 1 / 0",
        "fails in fredfw_before_run: ZeroDivisionError: ",
    ),
    "after": ("@hookimpl\ndef fredfw_after_run(result): result.seconds = 0", "fails in fredfw_after_run: "),
}
EXPERIMENT = """
[fabrics]
pair.topology = "works"
mesh.topology = { name = "mesh2d", rows = 2, columns = 2 }
[workloads.gradients]
workload = { name = "microbenchmark", pattern = "all-reduce", size = "1 GB" }
"""
# Each plugin alone, so that each is the one that strict mode stops at.
ALONE = """
import json, sys
from click.testing import CliRunner
from fredfw.cli import main
found = {}
for names, arguments in json.load(sys.stdin):
    result = CliRunner().invoke(main, ["--strict-plugins", *arguments], env={"FREDFW_PLUGINS": names})
    found[names] = result.exit_code, result.stdout, result.stderr
json.dump(found, sys.stdout)
"""


@frozen
class Environment:
    """A virtual environment with the broken distributions, the core and the first-party plugins."""

    python: Path
    site: Path
    directory: Path

    def run(self, code: str, *arguments: str, stdin: str = "", **environ: str) -> CompletedProcess[str]:
        return subprocess.run(
            [self.python, "-c", code, *arguments],
            cwd=self.directory,
            env={**os.environ, **environ},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def fredfw(self, *arguments: str, **environ: str) -> CompletedProcess[str]:
        return self.run("from fredfw.cli import main; main(prog_name='fredfw')", *arguments, **environ)

    def named(self, name: str) -> str:
        """Return how a plugin is named: its entry point, distribution, version and file."""
        return f"plugin '{name}' (acme-{name} 1.{len(name)}, {self.site / module(name)}.py)"


def module(name: str) -> str:
    return f"acme_{name}".replace("-", "_")


def write_wheel(directory: Path, name: str, source: str) -> Path:
    """Write the wheel of a distribution of one module (PyPA specification "Binary distribution format")."""
    full, version = module(name), f"1.{len(name)}"
    info = f"{full}-{version}.dist-info"
    files = {
        f"{full}.py": HEAD + dedent(source),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: acme-{name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[fredfw]\n{name} = {full}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    path = directory / f"{full}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, content in files.items():
            wheel.writestr(file, content)
    return path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    root = tmp_path_factory.mktemp("broken")
    sources = {name: source for name, (source, _) in (BROKEN | LISTENERS).items()} | UNNAMED | {"works": WORKS}
    wheels = [write_wheel(root, name, source) for name, source in sources.items()]
    venv.create(root / "venv", with_pip=True)
    paths = {"base": str(root / "venv"), "platbase": str(root / "venv")}
    scripts, packages = (Path(sysconfig.get_path(key, "venv", paths)) for key in ("scripts", "purelib"))
    python = scripts / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", *wheels], check=True
    )
    # What the tests run with is there as well, the plugins that are installed from a checkout among it.
    lines = [f"import site; site.addsitedir({path!r})" for path in site.getsitepackages()]
    (packages / "host.pth").write_text("\n".join([*lines, str(Path(fredfw.__file__).parents[1])]))
    (root / "two.toml").write_text(EXPERIMENT)
    return Environment(python, packages, root)


def warnings_of(result: CompletedProcess[str]) -> list[str]:
    """Return the lines on standard error, all of which must be warnings about plugins."""
    lines = result.stderr.splitlines()
    assert all(line.startswith("fredfw: warning: plugin ") for line in lines), result.stderr
    return [line.removeprefix("fredfw: warning: ") for line in lines]


def test_each_is_named_with_version_file_and_cause_and_the_rest_is_listed(installed: Environment) -> None:
    result = installed.fredfw("plugins", "list", "--long")
    assert result.returncode == 0
    found = warnings_of(result)
    for name, (_, cause) in BROKEN.items():
        (line,) = (line for line in found if line.startswith(installed.named(name)))
        assert cause in line
        assert line.endswith("; it is left out")
    assert len(found) == len(BROKEN)
    rows = [line.split()[:3] for line in result.stdout.splitlines()]
    assert ["topology", "works", "acme-works"] in rows
    assert ["command", "wave", "acme-works"] in rows
    assert ["topology", "mesh2d", "fredfw-topology-mesh2d"] in rows
    assert ["command", "compare", "fredfw"] in rows
    assert not {"twin", "plain"} & {row[1] for row in rows if len(row) > 1}


def test_results_are_what_they_are_without_them(installed: Environment) -> None:
    broken = ",".join([*BROKEN, *UNNAMED, *LISTENERS])
    beside = installed.fredfw("compare", "two.toml", "--json", "-")
    without = installed.fredfw("compare", "two.toml", "--json", "-", FREDFW_DISABLE_PLUGINS=broken)
    assert (without.returncode, without.stderr) == (0, "")
    assert (beside.returncode, beside.stdout) == (0, without.stdout)
    assert len(json.loads(beside.stdout)["rows"]) == 2
    found = warnings_of(beside)
    for name, (_, cause) in LISTENERS.items():
        (line,) = (line for line in found if line.startswith(installed.named(name)))  # once, for two cells
        assert cause in line


def test_a_collective_works(installed: Environment) -> None:
    result = installed.fredfw("collective", "all-reduce", "--topology", "works", "--size", "1GB")
    assert result.returncode == 0
    # Each of two sends half of 1 GB at 1 GB/s, twice.
    assert ["1000000000", "1000000.00"] in [line.split()[:2] for line in result.stdout.splitlines()]
    assert warnings_of(result)


def test_a_command_works_and_calls_of_hooks_are_traced(installed: Environment) -> None:
    result = installed.fredfw("wave", FREDFW_TRACE_HOOKS="1")
    assert (result.returncode, result.stdout) == (0, "hello\n")
    assert "fredfw_commands" in result.stderr
    assert "<Command wave>" in result.stderr


def test_what_is_asked_for_and_left_out_is_an_error_with_the_cause(installed: Environment) -> None:
    result = installed.fredfw("collective", "all-reduce", "--topology", "twin", FREDFW_PLUGINS="twin-a,twin-b")
    assert (result.returncode, result.stdout) == (2, "")
    *_, error = result.stderr.splitlines()
    assert error.startswith(f"fredfw: error: --topology: no topology 'twin'; {installed.named('twin-a')} and ")
    assert installed.named("twin-b") in error


def test_strict_is_an_error_about_each(installed: Environment) -> None:
    listing = {name: (name, ["plugins", "list"]) for name in BROKEN}
    listing["twin-a"] = ("twin-a,twin-b", ["plugins", "list"])
    running = {name: (f"{name},works,mesh2d,microbenchmark", ["compare", "two.toml"]) for name in LISTENERS}
    calls = listing | running
    result = installed.run(
        ALONE, stdin=json.dumps([*calls.values(), ("", ["plugins", "list"]), ("works", ["plugins", "list"])])
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    for name, (_, cause) in (BROKEN | LISTENERS).items():
        code, output, error = found[calls[name][0]]
        assert (code, output) == (1, "")
        assert error.startswith(f"fredfw: error: {installed.named(name)}")
        assert cause in error
        assert error.count("\n") == 1
    assert found["works"][0] == 0
    code, _, error = found[""]  # all of them
    assert code == 1
    assert error.startswith("fredfw: error: plugin '")
    assert error.count("\n") == 1
