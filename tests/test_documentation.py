"""Every command and snippet of the documentation runs, and what it promises to print is printed."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from click.testing import CliRunner

from fredfw.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("plugins/*/*/README.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a test cannot run: installing, and running the tests.
OUTSIDE = ("python -m pip", "python -m tox", "tox", "git")


def blocks(language: str) -> list[ParameterSet]:
    found = []
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8"))):
            if match[1] == language:
                found.append(pytest.param(match[2], id=f"{page.relative_to(ROOT)}:{number}"))
    return found


@pytest.mark.parametrize("text", blocks("python"))
def test_python_snippets_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "snippet.py"
    script.write_text(text, encoding="utf-8")
    runpy.run_path(str(script), run_name="snippet")


@pytest.mark.parametrize("text", blocks("console"))
def test_commands_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
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
