"""Which plugin it is and why it is left out, for messages."""

from __future__ import annotations

import re
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from attrs import frozen

from fredfw.answers import module_file

if TYPE_CHECKING:
    from importlib.metadata import Distribution

# A requirement begins with a name (PyPA specification "Dependency specifiers").
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# The module of the core's own plugin.
CORE = "fredfw.defaults"


@frozen(eq=False)
class Plugin:
    """A module or object that implements hooks, and where it comes from.

    Args:
        name: Of its entry point, or the one it was registered under.
        module: Dotted name of the module it is, or is defined in.
        package: The installed distribution it belongs to; ``None`` if it was registered in process.
        digest: Of the content, where it is a file that is not installed.
    """

    name: str
    module: str
    package: Distribution | None = None
    digest: str | None = None

    # Looked up once: each look-up reads all of the distribution's metadata, which takes a millisecond.
    @cached_property
    def distribution(self) -> str | None:
        """Name of its distribution."""
        return self._stated("Name")

    @cached_property
    def version(self) -> str | None:
        """Version of its distribution."""
        return self._stated("Version")

    @cached_property
    def location(self) -> str | None:
        """File of its module, or of the package around one that cannot be imported, or else where it is installed."""
        file = module_file(self.module)
        if file is None and self.package is not None:
            try:
                top = find_spec(self.module.partition(".")[0])
            except (ImportError, ValueError):  # no name of a module, or a module that hides where it comes from
                top = None
            file = top.origin if top is not None and top.origin else str(self.package.locate_file(""))
        return file

    @cached_property
    def requirements(self) -> tuple[str, ...]:
        """Names of the distributions that its own requires."""
        stated = None if self.package is None else self.package.requires
        names = map(_NAME.match, stated or ())
        return tuple(name[0] for name in names if name)

    @property
    def by_hand(self) -> bool:
        """Whether it was given to a manager, not found by it."""
        return self.package is None

    def _stated(self, key: str) -> str | None:
        stated = None if self.package is None else self.package.metadata.get_all(key)
        return stated[0] if stated else None  # a damaged installation may lack it

    def __str__(self) -> str:
        installed = f"{self.distribution or 'unnamed'} {self.version or 'without a version'}"
        by_hand = "" if self.digest else "registered in process"  # its file says where it is from
        known = ", ".join(filter(None, (by_hand if self.by_hand else installed, self.location)))
        return f"plugin {self.name!r} ({known})" if known else f"plugin {self.name!r}"


@frozen
class LeftOut:
    """A plugin that is installed but not used, or not for one hook or one name.

    Args:
        plugin: Which.
        cause: Why, as the end of a sentence that starts with the plugin.
        broken: Whether it was to be used.
        hook: The only hook that is affected; ``None`` for all.
        name: The only name that it fails to register; ``None`` if that is not known.
    """

    plugin: Plugin
    cause: str
    broken: bool = True
    hook: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.plugin} {self.cause}"


def canonical(name: str) -> str:
    """Return the normal form of a distribution's name (PyPA specification "Names and normalization")."""
    return re.sub(r"[-_.]+", "-", name).lower()
