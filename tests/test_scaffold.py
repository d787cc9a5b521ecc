"""What ``fredfw new`` writes; ``tests/run_scaffolds.py`` runs it all the way, with style, types and wheels."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from command_line import refused, succeeds

import fredfw
from fredfw import Framework, scaffold
from fredfw.errors import InputError

LONGEST = "abcdefghijklmnopqrstuvwxyz-01234"


def written(kind: str, name: str, into: Path) -> Path:
    succeeds("new", kind, name, "--into", str(into))
    return into / f"fredfw-{kind}-{name}"


def installed(package: Path) -> Path:
    """Return a folder to import ``package`` from, as pip would leave it for an editable one."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = package / "src" / f"{project['name'].replace('-', '_')}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    ((group, points),) = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return package / "src"


@pytest.mark.slow
@pytest.mark.parametrize("kind", scaffold.KINDS)
def test_the_package_passes_its_own_tests(kind: str, tmp_path: Path) -> None:
    package = written(kind, "my-own", tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed(package)), *sys.path])}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(command, check=False, cwd=package, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # None skipped, and none expected to fail.
    assert re.fullmatch(r"=+ \d+ passed in .*", done.stdout.splitlines()[-1])


@pytest.mark.sampled
@pytest.mark.parametrize("kind", scaffold.KINDS)
def test_the_comparison_has_a_row_of_it(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = written(kind, "my-own", tmp_path)
    monkeypatch.syspath_prepend(installed(package))
    rows = Framework().compare(package / "comparison.toml").rows
    assert len({row.fabric for row in rows}) == 2
    assert any("my-own" in (row.fabric, row.workload) for row in rows)


@pytest.mark.parametrize("kind", scaffold.KINDS)
def test_names_versions_and_lines(kind: str) -> None:
    contents = scaffold.render(kind, "my-own")
    project = tomllib.loads(contents["pyproject.toml"])["project"]
    assert project["name"] == f"fredfw-{kind}-my-own"
    named = f"MyOwn{kind.title()}" if kind != "command" else "main"
    (points,) = project["entry-points"].values()
    assert points["my-own"] == f"fredfw_{kind}_my_own:{named}"
    assert f"fredfw>={fredfw.__version__}" in project["dependencies"]
    module = contents[f"src/fredfw_{kind}_my_own/__init__.py"]
    assert f"\nfredfw_contract = {fredfw.CONTRACT_VERSION}\n" in module
    assert (f"\nclass {named}(" if kind != "command" else f"\ndef {named}(") in module
    assert not [path for path, text in contents.items() if "${" in text or "$kind" in text]
    contents = scaffold.render(kind, LONGEST)  # which makes no line too long
    assert max(len(line) for path in contents if path.endswith(".py") for line in contents[path].splitlines()) <= 120


def test_every_template_is_used() -> None:
    templates = {one.name for one in (files(scaffold) / "templates").iterdir()}
    ours = {"README.md", "gitignore", "pyproject.toml", "tox.ini"}
    ours |= {name for kind in scaffold.KINDS for name in (f"{kind}.py", f"test_{kind}.py", f"{kind}.toml")}
    assert templates == {f"{name}.tmpl" for name in ours}


def test_it_says_what_it_wrote_and_what_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listed = {line[2:] for line in succeeds("new", "router", "my-own").splitlines() if line.startswith("  ")}
    (package,) = tmp_path.iterdir()
    there = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    assert there < listed
    assert {"cd fredfw-router-my-own", "python -m pytest"} < listed - there


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("topolgy", "x", "KIND: no kind 'topolgy'; did you mean 'topology'? (accepted: topology, router"),
        ("sharing", "max-min", "NAME: there is a sharing 'max-min' already, in fredfw (accepted: "),
        ("command", "compare", "NAME: there is a command 'compare' already, in fredfw"),
        ("topology", "MyRing", "NAME: 'MyRing' is not a name of a plugin; did you mean 'my-ring'? (accepted: "),
        ("topology", "my_ring", "NAME: 'my_ring' is not a name of a plugin; did you mean 'my-ring'? (accepted: "),
        ("topology", "2d", "NAME: '2d' is not a name of a plugin (accepted: "),
        ("topology", "ring\n", "NAME: 'ring\\n' is not a name of a plugin; did you mean 'ring'? (accepted: "),
        ("topology", "../x", "NAME: '../x' is not a name of a plugin; did you mean 'x'? (accepted: "),
        ("topology", f"{LONGEST}5", f"NAME: '{LONGEST}5' is not a name of a plugin (accepted: up to 32 "),
        ("topology", "mesh2d", "NAME: there is a topology 'mesh2d' already, in fredfw-topology-mesh2d (accepted: "),
    ],
)
def test_what_cannot_be_a_plugin(kind: str, name: str, message: str, tmp_path: Path) -> None:
    assert refused("new", kind, name, "--into", str(tmp_path)).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_names_of_first_party_plugins_are_taken_anyway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREDFW_PLUGINS", "core")
    message = refused("new", "collective", "ring", "--into", str(tmp_path))
    assert message.startswith("NAME: there is a collective 'ring' already, in fredfw-collective-ring (")
    assert written("topology", "ring", tmp_path).is_dir()  # a name is taken for its kind alone


def test_a_folder_is_left_alone_that_has_something_in_it_or_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="package: cannot be written: "):
        scaffold.write({"file": "", "file/inside": ""}, tmp_path / "package")
    assert list(tmp_path.iterdir()) == []
    package = tmp_path / "fredfw-topology-my-own"
    package.mkdir()
    (package / "notes.txt").write_text("mine")
    assert "--into: is there already (accepted: " in refused("new", "topology", "my-own", "--into", str(tmp_path))
    assert [path.name for path in tmp_path.rglob("*")] == ["fredfw-topology-my-own", "notes.txt"]
    (package / "notes.txt").unlink()
    assert (written("topology", "my-own", tmp_path) / "tox.ini").is_file()
    absent = refused("new", "topology", "x", "--into", str(tmp_path / "absent"))
    assert "absent: --into: is not a folder (accepted: " in absent
    (tmp_path / "fredfw-topology-x").write_text("a file")
    assert "--into: is there already" in refused("new", "topology", "x", "--into", str(tmp_path))
