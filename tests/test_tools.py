"""The tools of a contributor are those of tox.ini."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SCAFFOLD = "src/fredfw/scaffold/templates/tox.ini.tmpl"
HOOKS = ".pre-commit-config.yaml"


def pins(path: str) -> dict[str, str]:
    found = re.findall(r"\b([a-z][a-z-]*)==([\d.]+\d)\b", (ROOT / path).read_text(encoding="utf-8"))
    assert len(set(found)) == len(dict(found)), "two versions of one tool"
    return dict(found)


@pytest.mark.parametrize("path", [HOOKS, SCAFFOLD])
def test_ruff_and_mypy_have_one_version(path: str) -> None:
    tox = pins("tox.ini")
    assert pins(path) == {name: tox[name] for name in ("mypy", "ruff")}


def test_mypy_before_a_commit_sees_what_the_code_imports() -> None:
    requirements = [
        *PROJECT["project"]["dependencies"],
        "matplotlib",  # of the exporter of pictures
        *(ROOT / "requirements-test.txt").read_text(encoding="utf-8").split(),
    ]
    hooks = (ROOT / HOOKS).read_text(encoding="utf-8")
    listed = set(re.findall(r"^ +- ([a-z-]+)$", hooks, re.MULTILINE))
    # The engine is of this repository; mypy has its source.
    assert {re.split(r"[<>=]", one)[0] for one in requirements} - {"fredfw-engine"} <= listed
