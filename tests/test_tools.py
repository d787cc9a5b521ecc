"""The tools of a contributor are those of tox.ini."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
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
