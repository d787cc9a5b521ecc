"""Fills the reference of the conformance kit: all checks of each class of plugins, by their docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fredfw import testing

if TYPE_CHECKING:  # the tests read this module without Sphinx
    from sphinx.application import Sphinx

PAGE = "reference/testing"
PLACE = "<!-- every check, from docs/_ext/kit_reference.py -->"


def reference() -> str:
    """Return the checks of each test class as Markdown, a section each; those of all plugins come first."""
    classes = {name: getattr(testing, name) for name in testing.__all__ if name.endswith("Tests")}
    checks = {
        name: {check.__name__: str(check.__doc__).replace("``", "`") for check in cls.checks}
        for name, cls in classes.items()
    }
    common = dict.fromkeys(one for one in checks["TopologyTests"] if all(one in listed for listed in checks.values()))
    lines = ["### All classes", *_table({one: checks["TopologyTests"][one] for one in common})]
    for name, listed in checks.items():
        lines += [f"### {name}", *_table({one: text for one, text in listed.items() if one not in common})]
    return "\n".join(lines)


def _table(checks: dict[str, str]) -> list[str]:
    return [
        "",
        "| check | holds where |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in checks.items()),
        "",
    ]


def _fill(_app: Sphinx, name: str, source: list[str]) -> None:
    if name == PAGE:
        source[0] = source[0].replace(PLACE, reference())


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True}
