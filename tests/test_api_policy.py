"""What docs/api-policy.md calls public changes only with an entry in the changelog.

``tests/api-snapshot.txt`` holds the public API of the last release, or, before the first one, of the state in which it
was written. Every name that has come, gone or changed since then must be mentioned as code in a fragment in
``changelog.d`` or in the section "Unreleased" of ``CHANGELOG.md``. With a release the snapshot is brought up to date::

    python tests/test_api_policy.py --write
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import attrs
import click
import pytest

from fredfw.cli import main
from fredfw.experiment import document
from fredfw.plugin import manager, schema, spec
from fredfw.plugin.registry import FIRST_PARTY

ROOT = Path(__file__).resolve().parents[1]
SNAPSHOT = Path(__file__).with_name("api-snapshot.txt")
CHANGELOG = ROOT / "CHANGELOG.md"
PUBLIC = "cli", "drawing", "embed", "embed.simpy", "errors", "fitting", "limits", "tables", "testing", "typing", "units"
MODULES = "fredfw", *(f"fredfw.{module}" for module in PUBLIC)
PLAIN = (str, int, float, bool, type(None))
EMPTY = inspect.Parameter.empty
Api = dict[str, str]


class Verbatim(str):
    """Text that appears in a signature as it is."""

    __slots__ = ()
    __repr__ = str.__str__


def annotation(hint: Any) -> Any:
    return hint if hint is EMPTY else Verbatim(hint if isinstance(hint, str) else inspect.formatannotation(hint))


def default(value: Any) -> Any:  # others look different from version to version
    return value if value is EMPTY else Verbatim(repr(value) if type(value) in PLAIN else "...")


def signature(function: Any) -> str:
    found = inspect.signature(function)
    parameters = [
        one.replace(annotation=annotation(one.annotation), default=default(one.default))
        for one in found.parameters.values()
    ]
    return str(found.replace(parameters=parameters, return_annotation=annotation(found.return_annotation)))


def fields(cls: type) -> str:
    """Return the parameters of an attrs class; how ``__init__`` looks depends on the version of attrs."""
    parameters = [
        inspect.Parameter(
            one.alias or one.name,
            inspect.Parameter.KEYWORD_ONLY if one.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            annotation=annotation(one.type),
            default=default(EMPTY if one.default is attrs.NOTHING else one.default),
        )
        for one in sorted(attrs.fields(cls), key=lambda one: one.kw_only)
        if one.init
    ]
    return str(inspect.Signature(parameters))


def assigned(cls: type) -> list[str]:
    """Return the public attributes that the constructor of a class sets."""
    initial = vars(cls).get("__init__")
    if attrs.has(cls) or not isinstance(initial, FunctionType):
        return []
    return re.findall(r"^ +self\.([a-z]\w*)(?:: .*)? = ", inspect.getsource(initial), re.MULTILINE)


def class_text(cls: type) -> str:
    bases = [base.__name__ for base in cls.__bases__ if base.__module__ not in ("abc", "typing") and base is not object]
    text = f"class of {', '.join(bases)}" if bases else "class"
    if issubclass(cls, Enum):
        return text
    if attrs.has(cls):
        return f"{text} {fields(cls)}"
    initial = next((vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base)), None)
    return f"{text} {signature(initial)}" if isinstance(initial, FunctionType) else text


def members(cls: type, public: frozenset[type]) -> Iterator[tuple[str, str]]:
    """Yield the public members of a class, those of bases that are not public themselves included."""
    if issubclass(cls, Enum):
        yield from ((one.name, f"= {one.value!r}" if type(one.value) in PLAIN else "member") for one in cls)
    configured = {one.name for one in attrs.fields(cls) if one.init} if attrs.has(cls) else set()
    for base in cls.__mro__:
        if not base.__module__.startswith("fredfw") or (base is not cls and base in public):
            continue
        own = {**inspect.get_annotations(base), **vars(base)}
        for name, value in own.items():
            if name.startswith("_") or name in configured or (issubclass(cls, Enum) and name in cls.__members__):
                continue
            if isinstance(value, classmethod | staticmethod):
                yield name, f"{type(value).__name__} {signature(value.__func__)}"
            elif isinstance(value, FunctionType):
                yield name, f"method {signature(value)}"
            elif isinstance(value, property | cached_property):
                function = value.fget if isinstance(value, property) else value.func
                yield name, f"property {signature(function)}"
            elif name in vars(base) or "ClassVar" in str(value):
                yield name, "attribute"
        yield from ((name, "attribute") for name in assigned(base))


def names(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    annotated = inspect.get_annotations(module)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (name in annotated or getattr(value, "__module__", None) == module.__name__)
    ]


def python_api() -> Api:
    found: dict[str, Any] = {}
    for path in MODULES:
        module = importlib.import_module(path)
        found |= {f"{path}.{name}": getattr(module, name) for name in names(module)}
    public = frozenset(one for one in found.values() if isinstance(one, type))
    api: Api = dict.fromkeys(found, "value")
    for name, one in found.items():
        if isinstance(one, type):
            api[name] = class_text(one)
            api |= {f"{name}.{member}": text for member, text in members(one, public)}
        elif isinstance(one, FunctionType):
            api[name] = f"function {signature(one)}"
        elif isinstance(one, ModuleType):
            api[name] = "module"
    return api | {"fredfw.CONTRACT_VERSION": f"= {found['fredfw.CONTRACT_VERSION']}"}


def hook_api() -> Api:
    hooks = {name: hook for name, hook in vars(spec).items() if name.startswith("fredfw_")}
    return {name: f"hook {signature(hook)}" for name, hook in hooks.items()}


def command_api() -> Api:
    def walk(path: str, command: click.Command) -> Iterator[tuple[str, str]]:
        yield path, "command"
        for parameter in command.params:
            kind = "argument" if isinstance(parameter, click.Argument) else "option"
            option_names = [*parameter.opts, *parameter.secondary_opts]
            for name in option_names if kind == "option" else [str(parameter.name).upper()]:
                yield f"{path} {name}", kind
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from walk(f"{path} {name}", inner)

    return dict(walk("fredfw", main))


def configuration_api() -> Api:
    """Return the fields of what the core and the first-party plugins register."""
    first_party = {f"fredfw-{kind}-{name}" for kind, names in FIRST_PARTY.items() for name in names}
    api: Api = {}
    for registry in manager.PluginManager.discover(manager.Switches()).registries:
        for info in registry.infos():
            if info.distribution not in {"fredfw", *first_party}:
                continue
            name = f"{registry.kind.replace(' ', '-')} {info.name}"
            api[name] = "registered name"
            for one in schema.fields(registry.get(info.name)):
                api[f"{name} {one.name}"] = f"field {one.type}{'' if one.required else f' = {one.default}'}"
    return api


def public_api() -> Api:
    other = {"entry-point group": manager.GROUP, "JSON documents": f"version {document.VERSION}"}
    return dict(sorted((python_api() | hook_api() | command_api() | configuration_api() | other).items()))


def written(api: Mapping[str, str]) -> str:
    return "".join(f"{name}: {text}\n" for name, text in api.items())


def read(text: str) -> Api:
    return dict(line.split(": ", 1) for line in text.splitlines())


def unreleased(changelog: str) -> str:
    (section,) = re.findall(r"^## \[Unreleased\]$(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return str(section)


def entries() -> str:
    """Return what is announced for the next release: the changelog's section, and the fragments that will join it."""
    fragments = sorted((ROOT / "changelog.d").glob("*.*.md"))
    return "\n".join([unreleased(CHANGELOG.read_text("utf-8")), *(one.read_text("utf-8") for one in fragments)])


def parent(name: str) -> str:
    """Return what a name is a part of: a class, command or plugin."""
    return re.split(r"[. ](?=[^. ]*$)", name)[0]


def spoken(name: str) -> str:
    """Return a name as the changelog must have it: ``Framework.run``, ``units.size``, ``--json``, ``link_latency``."""
    return name.rpartition(" ")[2].removeprefix("fredfw.")


def unannounced(before: Mapping[str, str], now: Mapping[str, str], announced: str) -> list[str]:
    """Return what has come, gone or changed and is no word of any piece of code in the entries."""
    code = " ".join(re.findall(r"`([^`]+)`", announced))
    different = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    moved = {name for name in different if name not in before or name not in now}
    return [
        f"{name}: was {before.get(name, 'absent')!r}, is {now.get(name, 'absent')!r}; not mentioned: `{spoken(name)}`"
        for name in different
        if parent(name) not in moved or parent(name) == name  # what comes or goes takes its parts along
        if not re.search(rf"(?<![\w-]){re.escape(spoken(name))}(?![\w-])", code)
    ]


def test_every_change_of_the_public_api_is_in_the_changelog() -> None:
    found = unannounced(read(SNAPSHOT.read_text("utf-8")), public_api(), entries())
    assert not found, "\n".join(["missing in changelog.d and under Unreleased in CHANGELOG.md:", *found])


# --- the rule is one

BEFORE = {"fredfw.Fabric": "class (name: str)", "fredfw.Fabric.npus": "property", "fredfw_routers": "hook ()"}


@pytest.mark.parametrize(
    ("key", "text", "name"),
    [
        ("fredfw.Fabric", "class (title: str)", "Fabric"),
        ("fredfw.Fabric.npus", "method ()", "Fabric.npus"),
        ("fredfw.Fabric.links", "property", "Fabric.links"),
        ("fredfw_routers", "hook (fabric)", "fredfw_routers"),
        ("fredfw run --csv", "option", "--csv"),
        ("topology mesh2d rows", "field int", "rows"),
    ],
)
def test_what_comes_goes_or_changes_needs_an_entry_that_names_it(key: str, text: str, name: str) -> None:
    assert unannounced(BEFORE, BEFORE, "") == []
    after = {**BEFORE, key: text}
    for before, now in ((BEFORE, after), (after, BEFORE)):
        (line,) = unannounced(before, now, f"- Words about {name}, `{name}_in`, `x-{name}` and `more`.")
        assert f"not mentioned: `{name}`" in line
        assert unannounced(before, now, f"- `fredfw.{name}(...)` is `another`.") == []
    # What comes or goes takes its parts along.
    (line,) = unannounced(BEFORE, {"fredfw_routers": "hook ()"}, "")
    assert line.startswith("fredfw.Fabric: ")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: python {sys.argv[0]} --write")
    current = public_api()
    if SNAPSHOT.exists():  # what was not announced must not be written off
        missing = unannounced(read(SNAPSHOT.read_text("utf-8")), current, entries())
        if missing:
            sys.exit("\n".join(["missing in changelog.d and under Unreleased in CHANGELOG.md:", *missing]))
    SNAPSHOT.write_text(written(current), encoding="utf-8")
