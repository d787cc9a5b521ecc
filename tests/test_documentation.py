"""Every command and snippet of the documentation runs, and what it promises to print is printed."""

from __future__ import annotations

import inspect
import re
import runpy
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from click.testing import CliRunner

from fredfw import Framework
from fredfw.cli import main
from fredfw.errors import InputError
from fredfw.plugin import spec

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("plugins/*/*/README.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A file that the commands of its page use.
FILE = re.compile(r'^```\w+ title="([\w.-]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
# What a test cannot run: installing, and running the tests.
OUTSIDE = ("python -m pip", "python -m tox", "tox", "git")


def blocks(language: str) -> list[ParameterSet]:
    found = []
    for page in PAGES:
        content = page.read_text(encoding="utf-8")
        files = dict(FILE.findall(content))
        for number, match in enumerate(BLOCK.finditer(content)):
            if match[1] == language:
                found.append(pytest.param(match[2], files, id=f"{page.relative_to(ROOT)}:{number}"))
    return found


def prepare(directory: Path, files: dict[str, str]) -> None:
    (directory / "experiments").symlink_to(ROOT / "experiments")
    for name, content in files.items():
        (directory / name).write_text(content, encoding="utf-8")


@pytest.mark.parametrize(("text", "files"), blocks("python"))
def test_python_snippets_run(text: str, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "snippet.py"
    script.write_text(text, encoding="utf-8")
    runpy.run_path(str(script), run_name="snippet")


@pytest.mark.parametrize(("text", "files"), blocks("console"))
def test_commands_run(text: str, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    assert commands
    for command in commands:
        for part in command.split("&&"):
            words = shlex.split(part)
            if part.strip().startswith(OUTSIDE):
                continue
            assert words[0] == "fredfw", part
            result = CliRunner().invoke(main, words[1:], catch_exceptions=False)
            assert result.exit_code == 0, result.output


def test_readme_is_covered() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"console", "python", "toml"} <= {match[1] for match in BLOCK.finditer(text)}


FABRICS: dict[str, Any] = {"mesh": {"topology": "mesh2d"}}
WORKLOADS: dict[str, Any] = {"gradients": {"workload": {"name": "microbenchmark", "size": "1 MB"}}}
WRONG = {"?": 1}


@pytest.mark.parametrize(("text", "files"), blocks("toml"))
def test_experiments_run(text: str, files: dict[str, str]) -> None:
    del files  # tables alone need none
    content = tomllib.loads(text)
    if "project" in content:
        return
    complete = {"fabrics", "workloads"} <= set(content)
    framework = Framework()
    experiment = framework.load_experiment({"fabrics": FABRICS, "workloads": WORKLOADS, **content})
    if complete:
        assert framework.compare(experiment).rows


@pytest.mark.parametrize(
    ("section", "tables"),
    [
        ("Top level", WRONG),
        ("[npu]", {"npu": WRONG}),
        ("[fabrics.NAME]", {"fabrics": {"NAME": WRONG}}),
        ("[fabrics.NAME.collectives]", {"fabrics": {"NAME": {"topology": "mesh2d", "collectives": WRONG}}}),
        ("[workloads.NAME]", {"workloads": {"NAME": WRONG}}),
        ("[workloads.NAME.calibration]", {"workloads": {"NAME": {"workload": "cnn", "calibration": WRONG}}}),
        ("[[references]]", {"references": [WRONG]}),
        ("[[savings]]", {"savings": [WRONG]}),
        ("[[savings.references]]", {"savings": [{"name": "x", "of": "mesh", "over": "mesh", "references": [WRONG]}]}),
    ],
)
def test_every_key_of_an_experiment_is_documented(section: str, tables: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"\?: unknown key") as refused:
        Framework().load_experiment({"fabrics": FABRICS, "workloads": WORKLOADS, **tables})
    accepted = str(refused.value.accepted).split(", ")
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    (text,) = (part for part in page.split("\n## ") if part.startswith(f"{section}\n"))
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)) == sorted(accepted)


def test_every_hook_is_documented() -> None:
    hooks = {name: inspect.signature(hook) for name, hook in vars(spec).items() if name.startswith("fredfw_")}
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(fredfw_\w+\([\w, ]*\))` \|", page, re.MULTILINE)
    assert documented == [f"{name}({', '.join(signature.parameters)})" for name, signature in hooks.items()]
