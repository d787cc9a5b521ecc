"""Where plugins are asked: what they raise by mistake, and what they answer wrongly, is an error that names them."""

from __future__ import annotations

import reprlib
import sys
import traceback
from functools import partial
from itertools import takewhile
from types import TracebackType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from fredfw.errors import FredfwError, PluginError

# What a plugin may raise; SystemExit, because it is the host that decides when it ends.
FAILURES = (Exception, SystemExit)
# Arrays of so many values are shown whole.
_SHOWN = 4


class Owner(Protocol):
    """A plugin that registers classes; its text names it."""

    @property
    def location(self) -> str | None:
        """The file that its text names."""

    @property
    def by_hand(self) -> bool:
        """Whether it is not part of an installed package."""


def speaks_for(cls: type, claim: str, method: str) -> bool:
    """Return whether what ``cls`` has as ``claim`` is said of its own ``method``, not of one that it overrides."""
    for one in cls.__mro__:
        if claim in one.__dict__:
            return True
        if method in one.__dict__:
            break
    return False


_owners: WeakKeyDictionary[type, Owner] = WeakKeyDictionary()


def introduce(cls: type, owner: Owner) -> None:
    """Note whose ``cls`` is, for messages."""
    _owners[cls] = owner


class Asking:
    """A context in which one method of a plugin is called.

    What the library raises on purpose passes, and so does what no plugin is to blame for: an interrupt, and memory that
    is used up.

    Args:
        plugin: An instance, a class, or a function that a plugin has handed over.
        method: Name of the method; empty where the class or the function itself is called.

    Raises:
        PluginError: The method raised anything else; names plugin, method, error and line.
    """

    __slots__ = ("_method", "_plugin")

    def __init__(self, plugin: object, method: str = "") -> None:
        self._plugin = plugin
        self._method = method

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, FAILURES) and not isinstance(error, FredfwError | MemoryError):
            author = self._author
            owner = _owner(author)
            file = module_file(author.__module__) if owner is None else owner.location
            raise PluginError(f"{self} fails: {explain(error, author.__module__, file)}") from error

    def wrong(self, what: str, expected: str) -> PluginError:
        """Return the error for an answer of which ``what`` is wrong, as the end of a sentence that starts with it."""
        return PluginError(f"{self} {what}; expected {expected}")

    def unexpected(self, answer: object, expected: str) -> PluginError:
        """Return the error for an ``answer`` of another kind than ``expected``."""
        return self.wrong(f"returned {brief(answer)}", expected)

    @property
    def _author(self) -> Any:
        """The class or function that the plugin has written."""
        author: Any = self._plugin
        while isinstance(author, partial):
            author = author.func
        return author if hasattr(author, "__qualname__") else type(author)

    def __str__(self) -> str:
        """Return the method and whose it is."""
        author = self._author
        name = getattr(author, "name", None)
        called = f" of {name!r}" if isinstance(name, str) else ""
        method = f".{self._method}" if self._method else ""
        return f"{whose(author)}: {author.__qualname__}{method}(){called}"


def whose(author: Any) -> str:
    """Return which plugin a class or function belongs to, or else its module, with the file."""
    owner = _owner(author)
    if owner is not None:
        return str(owner)
    file = module_file(author.__module__)
    return f"module {author.__module__!r} ({file})" if file else f"module {author.__module__!r}"


def _owner(author: Any) -> Owner | None:
    """Return who registered ``author``, or else something of its module, or of its package where that is installed."""
    if author in _owners:
        return _owners[author]
    module = str(author.__module__)

    def shared(cls: type) -> int:
        if cls.__module__ == module:
            return len(module)
        if _owners[cls].by_hand:  # a file is all that there is of it
            return 0
        pairs = zip(module.split("."), cls.__module__.split("."), strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    nearest = max(list(_owners), key=shared, default=None)
    return _owners[nearest] if nearest is not None and shared(nearest) else None


def brief(answer: object) -> str:
    """Return an answer in a few words."""
    import numpy as np  # not needed to find plugins

    if isinstance(answer, np.ndarray) and answer.size > _SHOWN:
        return f"an array of shape {answer.shape} and type {answer.dtype}"
    return " ".join(reprlib.repr(answer).split())


def explain(error: BaseException, module: str, file: str | None = None) -> str:
    """Return an error in one line, with the last line of code that it came through in the package of ``module``.

    Args:
        error: What was raised.
        module: Dotted name of a module whose author is to be told.
        file: The file that is named already.
    """
    text = " ".join(str(error).split())
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    package = module.partition(".")[0]
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            place = frame.f_code.co_filename
            return f"{text} (line {line})" if place == file else f"{text} (line {line} of {place})"
    return text


def module_file(module: str | None) -> str | None:
    """Return the file of a module that is imported."""
    file: str | None = getattr(sys.modules.get(module or ""), "__file__", None)
    return file
