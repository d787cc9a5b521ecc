"""How checks are run and reported, and those of every plugin: name, documentation, configuration and registration."""

from __future__ import annotations

import random
import re
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from inspect import cleandoc, getfile, isfunction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import attrs
import numpy as np
from attrs import field, frozen

from fredfw.errors import PluginError, nearest
from fredfw.plugin import configure, schema
from fredfw.plugin.manager import PluginManager, Registry
from fredfw.typing import BoolArray

if TYPE_CHECKING:  # the calls need no pytest, and the classes are there without it
    import pytest

C = TypeVar("C")
S = TypeVar("S")
Faults: TypeAlias = Iterator[str]  # what is wrong, the worst first, of which the first is told
Check: TypeAlias = Callable[[C], Faults]  # a test of one property of a case, which its name says

NOTHING: Mapping[str, str] = MappingProxyType({})
EXACT = 1e-9  # relative difference below which times, rates and sums count as equal
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
PASSES = "holds after all; take it out of expected_failures"
# A plugin's author can do nothing about what is below these.
_NOT_THE_AUTHORS = tuple(str(Path(file).parent) for file in (Path(__file__).parent, np.__file__, getfile(attrs.evolve)))


class ConformanceError(AssertionError):
    """A plugin breaks the contract; the message lists every check that fails, with what to mend."""


def checks_of(cls: type) -> tuple[Check[Any], ...]:
    """Return the checks of a case, those of bases first: its methods that return ``Faults``."""
    members = {name: one for base in reversed(cls.__mro__) for name, one in vars(base).items() if isfunction(one)}
    return tuple(one for one in members.values() if one.__annotations__.get("return") == "Faults")


def check_all(what: str, case: Any, expected_failures: Mapping[str, str]) -> None:
    checks = checks_of(type(case))
    names: dict[str, list[str]] = {}  # by message: one fault may fail several checks, and is reported once
    for message in misuses(checks, expected_failures):
        names.setdefault(message, []).append("expected_failures")
    for check in checks:
        fault = outcome(check, case)
        if check.__name__ in expected_failures:
            fault = None if fault else PASSES
        if fault:
            names.setdefault(fault, []).append(check.__name__)
    if names:
        lines = [
            f"{failed[0]}: {message}" if len(failed) == 1 else f"{message}\n    in {', '.join(failed)}"
            for message, failed in names.items()
        ]
        count = sum(map(len, names.values()))
        raise ConformanceError(f"{what} {case} fails {count} of {len(checks)} checks:\n  " + "\n  ".join(lines))


def misuses(checks: Sequence[Check[Any]], expected_failures: Mapping[str, str]) -> Iterator[str]:
    known = [check.__name__ for check in checks]
    for name, reason in expected_failures.items():
        if name not in known:
            yield f"there is no check {name!r}{nearest(name, known)} (accepted: {', '.join(known)})"
        if not reason.strip():
            yield f"{name!r} has no reason; write down why this cannot hold"


def outcome(check: Check[C], case: C) -> str | None:
    try:
        return next(check(case), None)
    except (ConformanceError, PluginError) as failure:
        return str(failure)
    except Exception as error:  # whatever the plugin raises is what its author must see
        text = f"raises {type(error).__name__}: {' '.join(str(error).split())}"
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith(("<", *_NOT_THE_AUTHORS))
        ]
        return f"{text} (at {frames[-1].filename}:{frames[-1].lineno})" if frames else text


def describe(instance: Any) -> str:
    cls = type(instance)
    name = getattr(cls, "name", cls.__qualname__)
    fields = [one for one in attrs.fields(cls) if one.init]
    try:
        default = cls()
        usual = {one.name: getattr(default, one.name) for one in fields}
    except (TypeError, ValueError):  # a field without a default
        usual = {one.name: one.default for one in fields}
    told = [f"{one}={getattr(instance, one)!r}" for one, value in usual.items() if getattr(instance, one) != value]
    return f"{name}({', '.join(told)})" if told else str(name)


def where(mask: BoolArray) -> list[int]:
    found: list[int] = np.flatnonzero(mask).tolist()
    return found


def otherwise(standard: Callable[[], Sequence[Any]]) -> Any:
    return field(default=(), converter=lambda given: given or standard())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global random generators, which no plugin may depend on, for the block."""
    before = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


@frozen(eq=False, kw_only=True)
class Case(Generic[S]):
    """A configured instance, and the module (or object) whose hooks register its class, if that is to be checked."""

    subject: S
    plugin: object = None

    @cached_property
    def _name(self) -> str:
        return describe(self.subject)

    def __str__(self) -> str:  # all tests of a case ask for it
        return self._name

    def keeps_the_contract(self) -> Faults:
        """The class can be registered: it has what its interface asks for, with the parameters of its calls."""
        cls = type(self.subject)
        for registry in PluginManager().registries:
            if isinstance(self.subject, registry.interface) and (wrong := registry.wrong(cls)):
                yield f"{cls.__qualname__} {wrong}"

    def name_is_valid(self) -> Faults:
        """The class has a name of small letters, digits and hyphens."""
        cls = type(self.subject)
        name = getattr(cls, "name", None)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            fault = f"{cls.__qualname__}.name is {name!r}; give the class a variable name"
            yield f"{fault}: ClassVar[str] of small letters and digits, with hyphens between words, such as 'fat-tree'"

    def is_documented(self) -> Faults:
        """The class has a docstring and every field a help text: what ``fredfw plugins show`` prints."""
        cls = type(self.subject)
        missing = []
        if not cleandoc(cls.__doc__ or ""):
            missing.append(f"{cls.__qualname__} has no docstring; its first line is what lists and helps show")
        silent = [one.name for one in schema.fields(cls) if not one.help.strip()]
        if silent:
            fault = f"the fields {', '.join(silent)} do not say what they mean"
            missing.append(f"{fault}; declare them with help=..., as in units.option(4, help='NPUs in a row')")
        if missing:
            yield "; and ".join(missing)

    def configuration_round_trips(self) -> Faults:
        """The configuration can be written as TOML, and gives an equal instance when it is read."""
        cls, plain = type(self.subject), configure.unstructure(self.subject)
        settings = schema.settings(cls)
        text = ""
        for key, value in plain.items():
            if value is not None:
                text += f"{key} = {schema.written(value)}\n"
            elif settings[key].attribute.default is not None:
                yield f"field {key!r} is None, which TOML cannot say, and None is not its default"
        again = made(cls, tomllib.loads(text))
        compares = "__eq__" in vars(cls)
        if configure.unstructure(again) != plain or (compares and again != self.subject):
            yield (
                f"written as TOML and read again, {self} is {describe(again)}; converters must accept what they "
                "return, and fields must be annotated with the type they hold (a tuple is written as a list)"
            )

    def is_registered(self) -> Faults:
        """An entry point names the class, or else the plugin implements known hooks only and one of them returns it."""
        if self.plugin is None:
            return
        cls = type(self.subject)
        called = str(getattr(cls, "name", ""))
        if any(called in registry and registry.get(called) is cls for registry in installed()):
            return
        manager = PluginManager()
        manager.register(self.plugin, getattr(self.plugin, "__name__", type(self.plugin).__name__))
        if not any(cls in registry for registry in map(tuple, manager.registries)):
            fault = f"no entry point names {cls.__qualname__}, and no hook of the plugin returns it"
            yield f"{fault}; install the package, or write @hookimpl def fredfw_topologies(): return [MyTopology]"


@cache
def installed() -> tuple[Registry[Any], ...]:
    return PluginManager.discover().registries


def twin(subject: S) -> S:
    return made(type(subject), configure.unstructure(subject))


def made(cls: type[S], fields: Mapping[str, Any]) -> S:
    """Return an instance with these ``fields``, in which plugins are named as in an experiment."""
    return configure.build(cls, fields, registries=installed)


class _Tests:
    """What all test classes have."""

    plugin: object = None
    """The module whose hooks register what is tested; ``None`` if that is not to be checked."""
    expected_failures: ClassVar[Mapping[str, str]] = NOTHING
    """By the name of a check, the reason why it cannot hold, for all that the class tests."""
    checks: ClassVar[Sequence[Check[Any]]] = ()
    _case: ClassVar[type[Case[Any]]]
    _subjects: ClassVar[str]

    def __init_subclass__(cls, case: type[Case[Any]] | None = None, subjects: str = "") -> None:
        """Add a test for each check of a ``case``, on one for each of the ``subjects`` that the class names."""
        if case is None:
            return
        cls._case, cls._subjects, cls.checks = case, subjects, checks_of(case)
        for check in cls.checks:
            test = _test_of(check)
            test.__name__ = f"test_{check.__name__}"
            test.__qualname__ = f"{cls.__qualname__}.{test.__name__}"
            setattr(cls, test.__name__, test)

    @classmethod
    def cases(cls) -> Iterator[Case[Any]]:
        given = {one.name: getattr(cls, one.name) for one in attrs.fields(cls._case) if one.name != "subject"}
        return (cls._case(subject=one, **given) for one in getattr(cls, cls._subjects))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", self._kept_cases(), ids=str)

    @classmethod
    @cache
    def _kept_cases(cls) -> list[Case[Any]]:
        """Return the cases, always the same: what one has found out serves all tests."""
        kept = list(cls.cases())
        if not kept:
            raise ValueError(f"{cls.__qualname__} names nothing to test; the docstring of its base class says how")
        return kept

    def test_expected_failures(self) -> None:
        """All expected failures are of checks that there are, and have a reason."""
        if wrong := "; ".join(misuses(self.checks, self.expected_failures)):
            raise ConformanceError(wrong)


def _test_of(check: Check[Any]) -> Callable[[Any, Case[Any]], None]:
    def test(self: _Tests, case: Case[Any]) -> None:
        import pytest

        if check.__name__ in self.expected_failures:
            if outcome(check, case):
                pytest.xfail(self.expected_failures[check.__name__])
            pytest.fail(f"{check.__name__} {PASSES}")
        for fault in check(case):
            raise ConformanceError(fault)

    test.__doc__ = check.__doc__
    return test
