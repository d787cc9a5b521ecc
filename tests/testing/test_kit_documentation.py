"""docs/testing.md lists every check, by what its docstring says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fredfw.testing import (
    AdmissionTests,
    CollectiveTests,
    ExporterTests,
    PlacementTests,
    RouterTests,
    SamplerTests,
    SharingPolicyTests,
    TopologyTests,
    WorkloadTests,
)
from fredfw.testing.classes import _Tests

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
GENERAL, *SECTIONS = PAGE.partition("\n## The checks\n")[2].split("\n### ")


def rows(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("title", "cls"),
    [
        ("Topologies", TopologyTests),
        ("Routers", RouterTests),
        ("Collective algorithms", CollectiveTests),
        ("Workloads", WorkloadTests),
        ("Placements", PlacementTests),
        ("Sharing policies", SharingPolicyTests),
        ("Exporters", ExporterTests),
        ("Samplers", SamplerTests),
        ("Admissions", AdmissionTests),
    ],
)
def test_every_check_is_on_the_page(title: str, cls: type[_Tests]) -> None:
    (section,) = (one for one in SECTIONS if one.startswith(f"{title}\n"))
    checks = {check.__name__: str(check.__doc__).replace("``", "`") for check in cls.checks}
    own = rows(section)
    assert own.items() <= checks.items()
    assert {name: text for name, text in checks.items() if name not in own}.items() <= rows(GENERAL).items()


def test_every_class_and_call_is_on_the_page() -> None:
    from fredfw import testing

    for name in testing.__all__:
        assert f"{name}" in PAGE
