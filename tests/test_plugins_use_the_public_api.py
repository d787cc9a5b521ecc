"""Plugins and examples use what everybody may use: the top-level package, its public modules, and no private name."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
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


def imported(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield module and name of everything that a file imports; without a name the module itself."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            yield from ((node.module or "", alias.name) for alias in node.names)


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


PACKAGES = sorted({*ROOT.glob("plugins/*/*/src"), *(ROOT / "examples").iterdir()})


def sources(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py")) if package.is_dir() else [package][: package.suffix == ".py"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_are_public(package: Path) -> None:
    for path in sources(package):
        for module, name in imported(path):
            if module.split(".")[0] != "fredfw":
                continue
            assert module in MODULES or (path in EXAMPLES and module in MORE), f"{path} imports {module}"
            if name is not None:
                assert not private(name), f"{path} imports {name} from {module}"
                if module == "fredfw":
                    assert name in fredfw.__all__, f"{path} imports {name} from fredfw, which does not export it"
            else:
                assert module == "fredfw", f"{path} imports {module}; from fredfw import ..."


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
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Import):
                modules = {alias.name for alias in node.names if alias.name.split(".")[0] == "fredfw"}
                assert modules <= {"fredfw"}, f"{page} imports {modules}; from ... import ..."
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fredfw":
                assert node.module in MODULES | MORE, f"{page} imports {node.module}"
                module = importlib.import_module(node.module)
                names = {alias.name for alias in node.names}
                listed = getattr(module, "__all__", [name for name in vars(module) if not private(name)])
                assert names <= set(listed), f"{page} imports {names - set(listed)} from {node.module}"
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fredfw":
                assert node.attr in public or f"fredfw.{node.attr}" in MODULES, f"{page} uses fredfw.{node.attr}"


def test_there_are_plugins_to_look_at() -> None:
    assert len({path.relative_to(ROOT).parts[2] for path in PLUGINS}) >= 19
    assert {path.relative_to(ROOT).parts[2] for path in EXAMPLES if "third-party" in path.parts} >= {
        "fredfw-collective-scatter-allgather",
        "fredfw-topology-dragonfly",
    }
