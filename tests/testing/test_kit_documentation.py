"""The reference lists every check of the kit, and docs/testing.md every class and call."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from fredfw import testing

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_check_is_in_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS / "_ext")
    kit: Any = importlib.import_module("kit_reference")
    assert kit.PLACE in (DOCS / f"{kit.PAGE}.md").read_text(encoding="utf-8")
    common, *sections = kit.reference().split("### ")[1:]
    found = {section.split("\n")[0]: section + common for section in sections}
    assert set(found) == {name for name in testing.__all__ if name.endswith("Tests")}
    for name, section in found.items():
        for check in getattr(testing, name).checks:
            assert f"| `{check.__name__}` | {str(check.__doc__).replace('``', '`')} |" in section


def test_every_class_and_call_is_on_the_page() -> None:
    page = (DOCS / "testing.md").read_text(encoding="utf-8")
    for name in testing.__all__:
        assert name in page
