"""Commands and snippets of the documentation run and print what they promise, and use public names, as plugins do."""

import ast
import importlib
import inspect
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Set
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import click
import pytest
from _pytest.mark import ParameterSet
from click.testing import CliRunner

import fredfw
from fredfw import Framework
from fredfw.cli import main
from fredfw.errors import InputError
from fredfw.plugin import spec

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("plugins/*/*/README.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A file that the commands of its page use.
FILE = re.compile(r'^```\w+ title="([\w.-]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
# What a test cannot run: what needs the network, or other environments.
OUTSIDE = ("python -m pip", "python -m tox", "tox", "git", "cd", "export")


def id_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(language: str) -> list[ParameterSet]:
    found = []
    for page in PAGES:
        content = page.read_text(encoding="utf-8")
        files = dict(FILE.findall(content))
        for number, match in enumerate(BLOCK.finditer(content)):
            if match[1] == language:
                found.append(pytest.param(match[2], files, id=f"{id_of(page)}:{number}"))
    return found


@pytest.fixture
def folder(files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the files of a page, in which its snippets run."""
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("text", "files"), blocks("python"))
def test_python_snippets_run(text: str, folder: Path) -> None:
    script = folder / "snippet.py"
    script.write_text(text, encoding="utf-8")
    runpy.run_path(str(script), run_name="snippet")


@pytest.mark.parametrize(("text", "files"), blocks("console"))
@pytest.mark.usefixtures("folder")
def test_commands_run(text: str) -> None:
    first, *sessions = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not first
    assert sessions
    for session in sessions:
        command, *promised = session.splitlines()
        inside = [part for part in command.split("&&") if not part.strip().startswith(OUTSIDE)]
        printed = [collapsed(line) for part in inside for line in output_of(shlex.split(part)).splitlines()]
        # A page may leave lines out, and may say so with dots.
        rest = iter(printed)
        missing = [line for line in map(collapsed, promised) if line not in ("", "...") and line not in rest]
        assert not missing, "\n".join(printed)


def output_of(words: list[str]) -> str:
    if words[:3] == ["python", "-m", "pytest"]:
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    assert words[0] == "fredfw", words
    result = CliRunner().invoke(main, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def collapsed(line: str) -> str:
    """Return a line whose columns are apart by one blank."""
    return " ".join(line.split())


FABRICS: dict[str, Any] = {"mesh": {"topology": "mesh2d"}}
WORKLOADS: dict[str, Any] = {"gradients": {"workload": {"name": "microbenchmark", "size": "1 MB"}}}
SPACE: dict[str, Any] = {"space": {"fabrics.mesh.topology.rows": [1, 2]}, "objective": {"minimise": "time"}}
WRONG = {"?": 1}


def test_the_readme_names_all_plugins_of_its_kinds_and_the_index_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Plugins in this repository")[2]
    rows = dict(re.findall(r"^\| (\w+) \| (.*) \|$", text, re.MULTILINE))
    plugins = Framework().plugins
    for kind, registry in (
        ("topology", plugins.topologies),
        ("collective", plugins.collectives),
        ("transport", plugins.transports),
        ("workload", plugins.workloads),
        ("sharing", [one for one in plugins.sharing_policies if not one.__module__.startswith("fredfw.")]),
    ):
        assert {one.name for one in registry} <= set(re.findall(r"`([\w-]+)`", rows[kind])), kind
    docs = ROOT / "docs"
    listed = set(re.findall(r"^([\w/-]+)$", (docs / "index.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert {str(page.relative_to(docs).with_suffix("")) for page in PAGES if docs in page.parents} - listed == {"index"}


@pytest.mark.parametrize(("text", "files"), blocks("toml"))
def test_experiments_run(text: str, files: dict[str, str]) -> None:
    del files  # tables alone need none
    content = tomllib.loads(text)
    if "project" in content:
        return
    framework, tables = Framework(), {"fabrics": FABRICS, "workloads": WORKLOADS, **content}
    if {"space", "objective", "sampler", "rungs"} & set(content):
        assert framework.study({**SPACE, **tables}).points
        return
    experiment = framework.load_experiment(tables)
    if {"fabrics", "workloads"} <= set(content):
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


def anchors(page: Path) -> set[str]:
    """Return what links to headings of ``page`` may name, by the rule of GitHub and MyST."""
    headings = re.findall(r"^#{1,4} (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=id_of)
def test_links_lead_somewhere_and_headings_go_down_one_level_at_a_time(page: Path) -> None:
    content = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", content):
        there = (page.parent / target).resolve() if target else page
        assert there.exists() or target.startswith("_generated/"), target  # pictures that the site's build draws
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"
    text = re.sub(r"^```.*?^```$", "", content, flags=re.MULTILINE | re.DOTALL)
    levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
    assert levels[:1] == [1]
    assert all(below <= above + 1 for above, below in pairwise(levels))


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    documented: dict[str, set[str]] = {"": set()}
    module = ""
    for kind, name in re.findall(r"^\.\. (currentmodule|auto(?:class|data|function|module)):: ([\w.]+)$", page, re.M):
        if kind == "currentmodule":
            module = name
        elif kind == "automodule":
            documented.setdefault("fredfw", set()).add(name.removeprefix("fredfw."))
        else:
            documented.setdefault(module, set()).add(name)
    modules = "cli", "drawing", "embed", "embed.simpy", "errors", "tables", "typing"
    assert documented.pop("fredfw") == {*fredfw.__all__, *modules}
    assert not documented.pop("")
    for module, names in documented.items():
        for name in names:
            assert getattr(importlib.import_module(module), name).__doc__
            with pytest.warns(DeprecationWarning, match=f"^fredfw.{name} is {module}.{name} now$"):
                getattr(fredfw, name)


def test_every_hook_is_documented() -> None:
    hooks = {name: inspect.signature(hook) for name, hook in vars(spec).items() if name.startswith("fredfw_")}
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(fredfw_\w+\([\w, ]*\))` \|", page, re.MULTILINE)
    assert documented == [f"{name}({', '.join(signature.parameters)})" for name, signature in hooks.items()]


def commands(command: click.Command, parent: click.Context | None = None) -> Iterator[click.Context]:
    context = click.Context(command, info_name=command.name if parent else "fredfw", parent=parent)
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            assert one is not None
            yield from commands(one, context)


def test_the_reference_of_the_command_line_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    references: Any = importlib.import_module("references")
    for page, (place, _) in references.PAGES.items():
        assert place in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in f"\n{references.commands()}".split("\n## ")[1:])
    found = {context.command_path: context for context in commands(main)}
    # Those of first-party plugins are there as well.
    assert set(found) < set(sections)
    for path, context in found.items():
        assert context.command.get_usage(context).removeprefix("Usage: ") in sections[path]
        rows = [line.split("` |") for line in sections[path].splitlines() if line.startswith("| `")]
        listed = {name: meaning for names, meaning in rows for name in re.findall(r"(?<=[ `])-[\w-]+", names)}
        for option in context.command.params:
            if isinstance(option, click.Option):
                for name in (*option.opts, *option.secondary_opts):
                    assert (option.help or "").replace("|", "\\|") in listed[name]


def listed(module: ModuleType) -> Set[str]:
    """Return the names of a module that others may use."""
    return set(getattr(module, "__all__", (name for name in vars(module) if not private(name))))


def public() -> Iterator[tuple[str, Any]]:
    """Yield what others may use, of the core and of first-party plugins."""
    modules = {*MODULES, *MORE, *(path.parent.name for path in ROOT.glob("plugins/*/*/src/*/__init__.py"))}
    for module in sorted(modules):
        one = importlib.import_module(module)
        yield from ((f"{module}.{name}", getattr(one, name)) for name in sorted(listed(one)))


def test_what_others_may_use_is_documented_where_it_is_or_in_what_it_overrides() -> None:
    found = {place: one for place, one in public() if inspect.isclass(one) or inspect.isfunction(one)}
    found = {place: one for place, one in found.items() if one.__module__.startswith("fredfw")}
    methods = {
        f"{place}.{name}": getattr(cls, name)
        for place, cls in found.items()
        for name, one in vars(cls).items()
        if not name.startswith("_") and isinstance(one, FunctionType | property | classmethod | staticmethod)
    }
    assert len(methods) > 200
    assert not [place for place, one in {**found, **methods}.items() if not inspect.getdoc(one)]


# --- Plugins, examples and pages use what everybody may use: public modules, and no private name.

EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))
# ``fredfw.cli`` is for plugins with commands, as docs/plugins.md says.
MODULES = {
    f"fredfw{module}" for module in ("", ".cli", ".drawing", ".errors", ".fitting", ".tables", ".typing", ".units")
}
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


def wrong_imports(tree: ast.AST, modules: Set[str]) -> Iterator[str]:
    """Yield what is imported of fredfw that is not public, or not of these modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = (one.name for one in node.names if one.name.startswith("fredfw."))
            yield from (f"import {name}; from ... import ..." for name in named)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield "a relative import"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fredfw":
            if node.module not in modules:
                yield f"from {node.module}"
                continue
            names = listed(importlib.import_module(str(node.module)))
            yield from (f"from {node.module} import {one.name}" for one in node.names if one.name not in names)


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


PACKAGES = sorted({*ROOT.glob("plugins/*/*/src"), *(ROOT / "examples").iterdir()})


def sources(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py")) if package.is_dir() else [package][: package.suffix == ".py"]


@pytest.mark.parametrize("package", PACKAGES, ids=id_of)
def test_imports_are_public_and_no_attribute_is_a_private_one_of_somebody_else(package: Path) -> None:
    for path in sources(package):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not list(wrong_imports(tree, MODULES | MORE if path in EXAMPLES else MODULES)), path
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        own |= {name.id for name in ast.walk(tree) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
                line = f"{path}:{node.lineno} uses {node.attr}"
                assert isinstance(node.value, ast.Name), line
                assert node.value.id in ("self", "cls"), line


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("examples/**/README.md")], ids=id_of)
def test_pages_teach_public_names(page: Path) -> None:
    public = {*fredfw.__all__, "__all__", "__version__"}
    for language, text in re.findall(r"^```(\w+)[^\n]*\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        tree = ast.parse(text if language == "python" else "")
        assert not list(wrong_imports(tree, MODULES | MORE))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fredfw":
                assert node.attr in public or f"fredfw.{node.attr}" in MODULES, f"{page} uses fredfw.{node.attr}"


def test_there_are_plugins_to_look_at() -> None:
    assert len(PACKAGES) > 19
    assert sum("third-party" in path.parts for path in EXAMPLES) > 2
