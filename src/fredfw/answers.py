"""Where plugins are asked: what they raise by mistake, and what they answer wrongly, is an error that names them."""

from __future__ import annotations

import math
import reprlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from numbers import Real
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from attrs import frozen

from fredfw.errors import FredfwError, PluginError

if TYPE_CHECKING:
    from fredfw.plugin.origin import Plugin

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

FAILURES = (Exception, SystemExit)  # what a plugin may raise: it is the host that decides when it ends
_SHOWN = 4  # arrays of so many values are shown whole
_owners: WeakKeyDictionary[type, Plugin] = WeakKeyDictionary()


def speaks_for(cls: type, claim: str, method: str) -> bool:
    """Return whether what ``cls`` has as ``claim`` is said of its own ``method``, not of one that it overrides."""
    nearest: Mapping[str, Any] = next((vars(one) for one in cls.__mro__ if {claim, method} & vars(one).keys()), {})
    return claim in nearest


def introduce(cls: type, owner: Plugin) -> None:
    _owners[cls] = owner


class Asking:
    """A context in which one method of a plugin is called, or a class or function that it has handed over.

    What the library raises on purpose passes, as do an interrupt and memory that is used up; anything else is a
    ``PluginError`` that names plugin, method, error and line.
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
        """Return the error for an answer of which ``what`` is wrong, as the end of a sentence."""
        return PluginError(f"{self} {what}; expected {expected}")

    def unexpected(self, answer: object, expected: str) -> PluginError:
        return self.wrong(f"returned {brief(answer)}", expected)

    @property
    def _author(self) -> Any:
        author: Any = self._plugin
        while isinstance(author, partial):
            author = author.func
        return author if hasattr(author, "__qualname__") else type(author)

    def __str__(self) -> str:
        author = self._author
        called = f" of {author.name!r}" if isinstance(getattr(author, "name", None), str) else ""
        method = f".{self._method}" if self._method else ""
        return f"{whose(author)}: {author.__qualname__}{method}(){called}"


@frozen
class Kind(Generic[T]):
    """What an answer must be, in words and as a test, and what callers get of one that fits."""

    text: str
    fits: Callable[[Any], bool]
    made: Callable[[Any], T] = lambda answer: answer

    def of(self, asked: Asking, answer: object) -> T:
        """Return what callers get of ``answer``; raises what ``Asking.unexpected`` returns."""
        if not self.fits(answer):
            raise asked.unexpected(answer, self.text)
        return self.made(answer)


def instance(cls: Callable[..., T], text: str = "") -> Kind[T]:
    """Return the kind of instances of a public class, which may be abstract."""
    return Kind(text or f"a fredfw.{cls.__name__}", lambda answer: isinstance(answer, cls))  # type: ignore[arg-type]  # a class


def or_none(kind: Kind[T]) -> Kind[T | None]:
    made = kind.made
    return Kind(
        f"{kind.text} or None",
        lambda answer: answer is None or kind.fits(answer),
        lambda answer: None if answer is None else made(answer),
    )


def sequence(fits: Callable[[Any], bool], text: str) -> Kind[tuple[Any, ...]]:
    def all_fit(answer: object) -> bool:
        return isinstance(answer, Sequence) and not isinstance(answer, str) and all(map(fits, answer))

    return Kind(text, all_fit, tuple)


def number(text: str, fits: Callable[[float], bool]) -> Kind[float]:
    return Kind(text, lambda answer: isinstance(answer, Real) and fits(float(answer)), float)


def is_text(answer: object) -> bool:
    return isinstance(answer, str)


ANYTHING: Kind[object] = Kind("anything", lambda _: True)
FLAG: Kind[bool] = Kind("True or False", lambda answer: isinstance(answer, bool) or _is_numpy_bool(answer), bool)
TEXTS: Kind[tuple[str, ...]] = sequence(is_text, "a tuple of texts")
NAMES: Kind[tuple[str, ...]] = sequence(is_text, "a sequence of names")
FIGURES: Kind[dict[str, float]] = Kind(
    "finite numbers by name",
    lambda answer: isinstance(answer, Mapping) and all(map(_is_figure, answer.items())),
    # Whole numbers, NumPy's above all, are made what a result promises and JSON can hold.
    lambda answer: {name: float(value) for name, value in answer.items()},
)


def _is_figure(item: tuple[object, object]) -> bool:
    name, value = item
    return isinstance(name, str) and isinstance(value, Real) and math.isfinite(value)


def _is_numpy_bool(answer: object) -> bool:
    return type(answer).__module__ == "numpy" and type(answer).__name__ in ("bool", "bool_")


@frozen
class Method(Generic[S, P, T]):
    """A method of an interface, and what it must answer; to call it is to ask, which raises as ``Asking`` does."""

    method: Callable[Concatenate[S, P], object]
    kind: Kind[T]
    check: Callable[..., None] | None = None  # gets where it was asked, an answer that fits, the plugin, what is given

    def __call__(self, plugin: S, /, *given: P.args, **more: P.kwargs) -> T:
        name = self.method.__name__
        asked = Asking(plugin, name)
        with asked:
            answer: object = getattr(plugin, name)(*given, **more)
        made = self.kind.of(asked, answer)
        if self.check is not None:
            self.check(asked, made, plugin, *given, **more)
        return made


def whose(author: Any) -> str:
    """Return in words which plugin a class or function belongs to, or else which module."""
    owner = _owner(author)
    if owner is not None:
        return str(owner)
    file = module_file(author.__module__)
    return f"module {author.__module__!r} ({file})" if file else f"module {author.__module__!r}"


def _owner(author: Any) -> Plugin | None:
    """Return who registered ``author``, or else what is nearest to it in its package."""
    if author in _owners:
        return _owners[author]
    module = str(author.__module__)

    def shared(cls: type) -> int:
        if cls.__module__ == module:
            return len(module)
        # Where it was given by hand, a file is all that there is of it.
        return 0 if _owners[cls].by_hand else shared_names(module, cls.__module__)

    nearest = max(list(_owners), key=shared, default=None)
    return _owners[nearest] if nearest is not None and shared(nearest) else None


def shared_names(one: str, other: str) -> int:
    """Return how many names two dotted names begin with in common."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def brief(answer: object) -> str:
    import numpy as np  # not needed to find plugins

    if isinstance(answer, np.ndarray) and answer.size > _SHOWN:
        return f"an array of shape {answer.shape} and type {answer.dtype}"
    return " ".join(reprlib.repr(answer).split())


def explain(error: BaseException, module: str, file: str | None = None) -> str:
    """Return an error in one line, with the last line of code in the package of ``module`` that it came through."""
    text = " ".join(str(error).split())
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    package = module.partition(".")[0]
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            place = frame.f_code.co_filename
            return f"{text} (line {line})" if place == file else f"{text} (line {line} of {place})"
    return text


def module_file(module: str | None) -> str | None:
    file: str | None = getattr(sys.modules.get(module or ""), "__file__", None)
    return file
