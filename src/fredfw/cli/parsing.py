"""What is written in one option: assignments, sweeps of sizes, plugins; and an experiment with what options say."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from fredfw import limits
from fredfw.errors import InputError, placed
from fredfw.units import MOST, Unit, parse

if TYPE_CHECKING:
    from fredfw.cli.output import Outputs
    from fredfw.experiment.file.spec import Experiment
    from fredfw.framework import Framework
    from fredfw.plugin.manager import PluginManager, Registry

T = TypeVar("T")
_MOST_SIZES = 10_000
_ROUNDING = 1e-9  # room for that of a last size that is meant to be the bound itself
_SIZES = "FIRST:LAST:xFACTOR or FIRST:LAST:+STEP, such as 1MB:1GB:x4 or 8:8G:x2"
_NCCL_TESTS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}  # bytes of what it reads after -b and -e, by bare letter
_BARE = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)\s*([kmg]?)\s*", re.IGNORECASE)


def parse_assignments(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return ``{key: text}`` of ``key=text`` given several times; raises ``InputError`` with ``option`` for others."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InputError(f"{text!r} is not an assignment", key=option, accepted="KEY=VALUE")
        if key in found:
            raise InputError(f"{key!r} is given twice", key=option, accepted="each key once")
        found[key] = value.strip()
    return found


@contextmanager
def limits_of(texts: Iterable[str]) -> Iterator[None]:
    """Use the limits ``NAME=COUNT``, given several times with ``--limit``, while the block runs."""
    given: dict[str, int] = {}
    for name, text in parse_assignments(texts, "--limit").items():
        try:
            given[name] = int(text) if text.isdecimal() else _whole(text)
        except ValueError:
            message = f"{text!r} is not a whole number"
            raise InputError(message, key=f"--limit {name}", accepted="a number such as 1000000 or 1e6") from None
    with ExitStack() as stack:
        try:
            stack.enter_context(limits.allowed(given))
        except InputError as error:
            key = f"--limit {error.key}" if error.key else "--limit"
            raise InputError(error.message, key=key, accepted=error.accepted) from None
        yield


def _whole(text: str) -> int:
    number = float(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)


def parse_values(texts: Iterable[str]) -> dict[str, Any]:
    """Return ``{path: value}`` of ``PATH=VALUE``, given several times with ``--set``; a value is TOML, or else text."""
    from fredfw.plugin.configure import from_toml

    found: dict[str, Any] = {}
    for text in texts:
        with placed(key="--set"):
            path, value = _assignment(text)
        if path in found:
            raise InputError(f"{path} is given twice", key="--set", accepted="each path once")
        found[path] = from_toml(value)
    return found


def _assignment(text: str) -> tuple[str, str]:
    from fredfw.experiment.file.overrides import dotted, key_parts

    refused: InputError | None = None
    # Not simply the first equals sign: a name in quotes may have one in it.
    for sign in re.finditer("=", text):
        try:
            return dotted(key_parts(text[: sign.start()])), text[sign.end() :].strip()
        except InputError as error:
            refused = refused or error
    raise refused or InputError(f"{text!r} is not an assignment", accepted="PATH=VALUE")


@contextmanager
def blamed_on_options(values: Mapping[str, Any]) -> Iterator[None]:
    """Name the option in errors about what it gave: ``--set`` with ``values``, ``--fabric`` or ``--workload``."""
    from fredfw.experiment.file.overrides import key_parts

    try:
        yield
    except InputError as error:
        if error.key in ("fabric", "workload"):
            error.key = f"--{error.key}"
        for path in values:
            # As TOML has it, and as messages about files do; the name of a plugin is blamed on the whole table.
            given = {path, ".".join(key_parts(path))}
            given |= {one.removesuffix(".name") for one in given}
            if error.key and any(error.key == one or error.key.startswith((f"{one}.", f"{one}[")) for one in given):
                error.key = f"--set {error.key}"
                break
        raise


def loaded(framework: Framework, file: str, values: Mapping[str, Any], outputs: Outputs, **chosen: Any) -> Experiment:
    """Return the experiment in ``file`` with ``values`` in their places; no output replaces what it is read from."""
    experiment = framework.load_experiment(file, values=values, **chosen)
    check_units(experiment, values)
    outputs.protect([*framework.plugins.files, *filter(None, [experiment.file])])
    return experiment


def selected(workload: str | None, fabric: str | None) -> dict[str, list[str] | None]:
    return {f"{kind}s": None if one is None else [one] for kind, one in (("workload", workload), ("fabric", fabric))}


def check_units(experiment: Experiment, values: Mapping[str, Any]) -> None:
    """Make sure that numbers that ``--set`` gave, ``values`` by path, have their units; files need none."""
    from fredfw.experiment.file.overrides import key_parts
    from fredfw.plugin import configure

    for path, value in values.items():
        for parts, one in _leaves(key_parts(path), value):
            for plugin in _plugins_at(experiment, parts[:-1]):
                with placed(key=f"--set {'.'.join(parts)}", anew=True):
                    configure.check_units(type(plugin), {parts[-1]: one})


def _leaves(parts: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the keys of ``value``, or of what is in it where it is a table; an item of a list counts as the list."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves((*parts, key), one)
    else:
        yield (parts[:-1] if parts[-1].isdecimal() else parts), value


def _plugins_at(experiment: Experiment, parts: tuple[str, ...]) -> list[object]:
    """Return what the table at ``parts`` of ``experiment`` configures: one for each section of a sweep."""
    from fredfw.fabric import SLOTS

    fabrics = [one for one in experiment.fabrics if parts[:2] == ("fabrics", one.template)]
    match parts:
        case ("npu",):
            return [experiment.npu]
        case ("fabrics", _, "npu"):
            return [one.npu for one in fabrics if one.npu]
        case ("fabrics", _, "sweep"):
            return [one.topology for one in fabrics]
        case ("fabrics", _, "topology", *fields):
            found: list[object] = [one.topology for one in fabrics]
            for field in fields:
                found = [getattr(one, field, None) for one in found]
            return [one for one in found if attrs.has(type(one))]
        case ("fabrics", _, key) if key in SLOTS:
            return [one.slots[key] for one in fabrics if key in one.slots]
        case ("fabrics", _, "collectives", *_):
            chosen = (algorithms for one in fabrics if one.collectives for algorithms in one.collectives.values())
            return [*chain.from_iterable(chosen)]
        case ("workloads", name, "workload" | "sweep"):
            return [one.workload for one in experiment.workloads if one.template == name]
    return []


def chosen(value: str | Mapping[str, Any], registry: Registry[T], plugins: PluginManager, option: str) -> T:
    """Return the plugin of ``registry``, such as ``plugins.topologies``, that ``option`` chooses, configured.

    ``value`` is its name, or a table of its name and its fields, which may be text: ``{ name = "ring" }``; a field may
    name one of ``plugins``. Raises ``InputError`` for an unknown name or field, or an impossible value.
    """
    from fredfw.plugin import configure

    given = configure.from_toml(value) if isinstance(value, str) else value
    if isinstance(given, str) and given.startswith("{"):
        raise InputError(f"{given!r} is not a table", key=option, accepted='TOML such as { name = "ring" }')
    return configure.choose(given, registry, key_prefix=option, registries=lambda: plugins.registries)


def ask(method: Callable[..., T], plugin: object, *given: Any) -> T:
    """Return what ``plugin`` answers to ``method`` of its interface, such as ``Topology.build``.

    Raises ``PluginError`` where it fails or does not answer what the interface says, and what it raises on purpose.
    """
    from fredfw.answers import ANYTHING, Method
    from fredfw.plugin.answers import CHECKED

    asked: Callable[..., T] = CHECKED.get(method) or Method(method, ANYTHING)  # type: ignore[assignment]  # by method
    return asked(plugin, *given)


def configured(cls: type[T], assignments: Iterable[str], option: str, *, plugins: PluginManager | None = None) -> T:
    """Return the plugin ``cls`` configured by texts such as ``rows=4``, which ``option`` (``--set``) was given.

    ``plugins`` are those that a field may name, such as a topology inside of another one. Raises ``InputError`` for
    other forms, an unknown field, or a value that it does not accept.
    """
    from fredfw.plugin import configure

    return configure.from_text(
        cls,
        parse_assignments(assignments, option),
        key_prefix=option,
        registries=lambda: () if plugins is None else plugins.registries,
    )


def parse_size(text: str, key: str) -> float:
    """Return a size in bytes, more than zero; as in nccl-tests, a bare K, M or G is a power of 1024."""
    bare = _BARE.fullmatch(text)
    try:
        size = parse(float(bare[1]) * _NCCL_TESTS[bare[2].lower()] if bare else text, Unit.BYTES)
    except InputError as error:
        accepted = f"a size such as 64MiB, 1GB, or 8, 4K, 1M, 8G as in nccl-tests; at most {MOST:g} bytes"
        raise InputError(error.message, key=key, accepted=accepted) from None
    if size <= 0:
        raise InputError(f"{text!r} is not a size", key=key, accepted="more than 0 bytes")
    return size


def parse_sizes(text: str) -> list[float]:
    """Return the sizes in bytes of ``FIRST:LAST:xFACTOR`` (geometric) or ``FIRST:LAST:+STEP`` (arithmetic)."""
    option = "--sizes"
    parts = text.split(":")
    if len(parts) != 3 or parts[2][:1] not in ("x", "+"):
        raise InputError(f"{text!r} is not a sweep", key=option, accepted=_SIZES)
    first, last = parse_size(parts[0], option), parse_size(parts[1], option)
    if parts[2][0] == "x":
        return _sweep(first, last, factor=_factor(parts[2][1:], option), option=option)
    return _sweep(first, last, step=parse_size(parts[2][1:], option), option=option)


def nccl_sizes(minimum: str | None, maximum: str | None, factor: str | None, step: str | None) -> list[float]:
    """Return the sizes in bytes of nccl-tests' ``-b``, ``-e``, ``-f`` and ``-i``, with its defaults for ``None``."""
    first, last = parse_size(minimum or "32M", "--minbytes"), parse_size(maximum or "32M", "--maxbytes")
    if factor is not None:
        return _sweep(first, last, factor=_factor(factor, "--stepfactor"), option="--minbytes")
    return _sweep(first, last, step=parse_size(step or "1M", "--stepbytes"), option="--minbytes")


def _sweep(first: float, last: float, *, factor: float = 1.0, step: float = 0.0, option: str) -> list[float]:
    if first > last:
        message = f"the first size, {first:.15g} bytes, is more than the last, {last:.15g}"
        raise InputError(message, key=option, accepted="a first size that is at most the last")
    sizes: list[float] = []
    size = first
    while size <= last * (1 + _ROUNDING):
        if len(sizes) == _MOST_SIZES:
            message = f"from {first:.15g} to {last:.15g} bytes there are more than {_MOST_SIZES} sizes"
            raise InputError(message, key=option, accepted="larger steps")
        sizes.append(size)
        try:
            size = first * factor ** len(sizes) + step * len(sizes)
        except OverflowError:  # of the power alone, where the first size is tiny
            size *= factor
    return sizes


def _factor(text: str, option: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1 < factor < math.inf:  # nor NaN or infinity, which would give one size without a message
        raise InputError(f"{text!r} is not a factor", key=option, accepted="a finite number above 1")
    return factor
