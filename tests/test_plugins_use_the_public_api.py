"""Plugins and examples use what everybody may use: the top-level package, its public modules, and no private name."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

import fredfw

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = sorted(ROOT.glob("plugins/*/*/src/**/*.py"))
EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))
# ``fredfw.cli`` is for plugins with commands, as docs/plugins.md says.
MODULES = {"fredfw", "fredfw.cli", "fredfw.errors", "fredfw.fitting", "fredfw.tables", "fredfw.typing", "fredfw.units"}
# These are for those who use plugins, and for tests.
MORE = {"fredfw.embed", "fredfw.embed.simpy", "fredfw.testing"}
# What programs need of these is in docs/reference/api.md.
MORE |= {
    "fredfw.experiment.results",
    "fredfw.experiment.why",
    "fredfw.fabric",
    "fredfw.plugin.manager",
    "fredfw.simulation",
}


PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(ROOT.glob("plugins/*/*/README.md")),
    *sorted(ROOT.glob("examples/**/README.md")),
]
PYTHON = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def wrong_imports(tree: ast.AST, modules: Set[str]) -> Iterator[str]:
    """Yield what is imported of fredfw that is not public, or not of these modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                f"import {one.name}; from ... import ..." for one in node.names if one.name.startswith("fredfw.")
            )
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield "a relative import"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fredfw":
            if node.module not in modules:
                yield f"from {node.module}"
                continue
            module = importlib.import_module(str(node.module))
            listed = getattr(module, "__all__", [name for name in vars(module) if not private(name)])
            yield from (f"from {node.module} import {one.name}" for one in node.names if one.name not in listed)


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


PACKAGES = sorted({*ROOT.glob("plugins/*/*/src"), *(ROOT / "examples").iterdir()})


def sources(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py")) if package.is_dir() else [package][: package.suffix == ".py"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_are_public(package: Path) -> None:
    for path in sources(package):
        modules = MODULES | MORE if path in EXAMPLES else MODULES
        assert not list(wrong_imports(ast.parse(path.read_text(encoding="utf-8")), modules)), path


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_attribute_of_somebody_else(package: Path) -> None:
    for path in sources(package):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        own |= {name.id for name in ast.walk(tree) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
                line = f"{path}:{node.lineno} uses {node.attr}"
                assert isinstance(node.value, ast.Name), line
                assert node.value.id in ("self", "cls"), line


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_teach_public_names(page: Path) -> None:
    public = {*fredfw.__all__, "__all__", "__version__"}
    for block in PYTHON.findall(page.read_text(encoding="utf-8")):
        tree = ast.parse(block)
        assert not list(wrong_imports(tree, MODULES | MORE))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fredfw":
                assert node.attr in public or f"fredfw.{node.attr}" in MODULES, f"{page} uses fredfw.{node.attr}"


def test_there_are_plugins_to_look_at() -> None:
    assert len({path.relative_to(ROOT).parts[2] for path in PLUGINS}) >= 19
    assert {path.relative_to(ROOT).parts[2] for path in EXAMPLES if "third-party" in path.parts} >= {
        "fredfw-collective-scatter-allgather",
        "fredfw-topology-dragonfly",
    }
