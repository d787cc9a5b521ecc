"""Which plugin it is, what its code is, and why it is left out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from attrs import Factory, frozen

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # with which a PyPA "dependency specifier" begins
# A class or function, and the first line of its docstring.
_DOCUMENTED = r"""^(?:class|def) {}\b[^"']*:\s+[rR]?(\"\"\"|\'\'\')\s*(.*?)\s*(?:\n|\1)"""
BUNDLE = "fredfw-plugins"
_MOST_FILES = 5000  # of one plugin, to read
_BEGAN = time.time()
CORE = "core"  # what the core's own plugins are called, and what switches call them


@frozen(eq=False)
class Plugin:
    """A module or object that implements hooks, or one named thing that is imported when it is used; and its origin."""

    name: str  # of its entry point, or the one it was registered under; `CORE` for all of the core
    module: str
    package: Distribution | None = None  # `None` if it was given by hand
    digest: str | None = None  # of the content, where it is a file that is not installed
    point: EntryPoint | None = None  # where it is installed: its entry point

    @property
    def hook(self) -> str | None:
        """The hook that would register what is imported when it is used."""
        kind = "" if self.point is None else self.point.group.partition(".")[2]
        return f"fredfw_{kind}" if kind else None

    @property
    def registered(self) -> str | None:
        """The name that it would register that under."""
        return None if self.point is None or self.hook is None else self.point.name

    @property
    def distribution(self) -> str | None:
        """Name of its distribution; of its package alone, where that is installed together with others."""
        return canonical(self.module.partition(".")[0]) if self.bundled else _stated(self.package, "Name")

    @property
    def bundled(self) -> bool:
        return _stated(self.package, "Name") == BUNDLE

    @property
    def version(self) -> str | None:
        return _stated(self.package, "Version")

    @cached_property
    def location(self) -> str | None:
        """File of its module, or of the package around it, or else where it is installed."""
        file = file_of(self.module)
        if file is None and self.package is not None:
            file = file_of(self.module.partition(".")[0]) or str(self.package.locate_file(""))
        return file

    @cached_property
    def description(self) -> str:
        """First line of the docstring of what its entry point names, read without an import; may be empty."""
        named = "" if self.point is None else self.point.value.partition(":")[2].strip()
        if not named or self.location is None:
            return ""
        try:
            text = Path(self.location).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""
        # To parse the whole module would take a hundred times as long.
        found = re.search(_DOCUMENTED.format(re.escape(named)), text, re.MULTILINE | re.DOTALL)
        return found[2] if found else ""

    def load(self) -> Any:
        """Import what its entry point names, which it must have."""
        assert self.point is not None
        if not self.point.pattern.match(self.point.value):
            raise ImportError(f"its entry point is {self.point.value!r}, not MODULE or MODULE:NAME")
        return self.point.load()

    @cached_property
    def requirements(self) -> tuple[str, ...]:
        """Normal names of the distributions that it requires; where it is bundled, in the extra of its name."""
        stated = (None if self.package is None else self.package.requires) or ()
        if self.bundled:
            stated = [one for one in stated if re.search(rf"extra == .{self.distribution}.$", one)]
        return _names(stated)

    @property
    def code(self) -> str | None:
        """What decides what it does, as text; ``None`` where that is not known."""
        if self.digest is not None and os.path.dirname(self.location or "") not in map(os.path.realpath, sys.path):
            return self.digest  # of a file that can import nothing beside it
        found = code_digest(self.module, self.package)
        return found and f"{self.version} {found}"

    @property
    def is_core(self) -> bool:
        return self.package is not None and self.module.partition(".")[0] == "fredfw"

    @property
    def by_hand(self) -> bool:
        """Whether it was given to a manager, not found by it."""
        return self.package is None

    def __str__(self) -> str:
        installed = f"{self.distribution or 'unnamed'} {self.version or 'without a version'}"
        by_hand = "" if self.digest else "registered in process"  # its file says where it is from
        known = ", ".join(filter(None, (by_hand if self.by_hand else installed, self.location)))
        return f"plugin {self.name!r} ({known})" if known else f"plugin {self.name!r}"


@cache  # each look-up reads all of the metadata, which takes a millisecond
def _stated(package: Distribution | None, key: str) -> str | None:
    stated = None if package is None else package.metadata.get_all(key)
    return stated[0] if stated else None  # a damaged installation may lack it


@frozen
class LeftOut:
    """A plugin that is not used, or not for one hook or one name: those of what is imported when it is used."""

    plugin: Plugin
    cause: str  # why, as the end of a sentence that starts with the plugin
    broken: bool = True  # whether it was to be used
    hook: str | None = Factory(lambda self: self.plugin.hook, takes_self=True)  # the only one that is affected
    name: str | None = Factory(lambda self: self.plugin.registered, takes_self=True)  # the only one that it fails on

    def __str__(self) -> str:
        return f"{self.plugin} {self.cause}"


def _names(requirements: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(canonical(name[0]) for name in map(_NAME.match, requirements or ()) if name)


def file_of(module: str) -> str | None:
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    top, *inner = module.split(".")
    try:
        found = find_spec(top)
    except (ImportError, ValueError):  # no name of a module, or a module that hides where it comes from
        return None
    if found is None:
        return None
    if not inner:
        return found.origin
    paths = [Path(folder, *inner) for folder in found.submodule_search_locations or ()]
    files = (file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py"))
    return next((str(file) for file in files if file.is_file()), None)


def canonical(name: str) -> str:
    """Return the normal form of a distribution's name (PyPA specification "Names and normalization")."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def code_digest(module: str, package: Distribution | None = None) -> str | None:
    """Return the SHA-256 of all files that are installed with a module; ``None`` where these are not known.

    Of a bundled one it is those of its package. Of what is edited in place it is the package, and all modules below the
    folder that both are imported from. What has changed since this process began may be imported in its former state.
    """
    location, top = Path(file_of(module) or "").resolve(), module.partition(".")[0]
    if not location.is_file():
        return None
    site, listed = _listed(package)
    if location in listed:
        inside = f"{site / top}{os.sep}" if _stated(package, "Name") == BUNDLE else ""
        return _digest(site, (one for one in listed if one == location or str(one).startswith(inside)))
    root = location.parents[module.count(".") + (location.name == "__init__.py")]
    return _digest(root, chain((root / top).rglob("*"), _modules(root)))


@cache
def release(distribution: str) -> tuple[str | None, tuple[str, ...]]:
    """Return what decides what a distribution does, as text if that is known, and what else it requires.

    Where it is not edited in place, that is its version.
    """
    from importlib import metadata

    try:
        found = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return "not installed", ()
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return found.version, ()
    project = Path(unquote(urlsplit(origin["url"]).path))
    return _digest(project, _modules(project)), _names(found.requires)


@cache
def _listed(package: Distribution | None) -> tuple[Path, frozenset[Path]]:
    """Return where a distribution is installed, and its files there; scripts are elsewhere, and say where Python is."""
    if package is None:
        return Path(), frozenset()
    site = Path(str(package.locate_file(""))).resolve()
    files = (one for one in package.files or () if one.parts[0] != ".." and not one.parts[0].endswith(".dist-info"))
    return site, frozenset(site / one for one in files)


def _modules(root: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(root):
        inner[:] = [one for one in inner if one[0] != "." and not Path(folder, one, "pyvenv.cfg").exists()]
        yield from (Path(folder, name) for name in names if name.endswith(".py"))


def _digest(root: Path, files: Iterable[Path]) -> str | None:
    found = hashlib.sha256()
    different = list(islice(dict.fromkeys(one for one in files if "__pycache__" not in one.parts), _MOST_FILES + 1))
    if len(different) > _MOST_FILES:
        return None
    try:
        for one in filter(Path.is_file, sorted(different)):
            if one.stat().st_mtime > _BEGAN:
                return None
            found.update(f"{one.relative_to(root).as_posix()}\0".encode())
            found.update(hashlib.sha256(one.read_bytes()).digest())
    except OSError:  # one that may not be read
        return None
    return found.hexdigest()
