"""What every plugin must keep to: the version of the contract, hooks that exist, interfaces, and their answers."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from types import FunctionType
from typing import TYPE_CHECKING, Any

from fredfw import limits
from fredfw.answers import Asking, brief
from fredfw.errors import nearest
from fredfw.fabric import (
    AdmissionPolicy,
    Bill,
    Capabilities,
    Defaults,
    Fabric,
    Level,
    Prices,
    Router,
    Topology,
    Transport,
)
from fredfw.plugin import CONTRACT_VERSION, spec
from fredfw.plugin.exporter import Exporter
from fredfw.simulation.sharing import SharingPolicy
from fredfw.workloads import Placement

if TYPE_CHECKING:
    from fredfw.plugin.exporter import Content, Result

# The oldest version whose plugins still work as they did; raised as docs/api-policy.md says.
OLDEST_CONTRACT = 2
POLICY = "docs/api-policy.md"
_DECLARATION = "fredfw_contract"
_NAMEABLE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_METHODS = (FunctionType, classmethod, staticmethod)


def violations(
    implementation: object, module: str, marked: Callable[[object, str], Mapping[str, Any] | None]
) -> Iterator[str]:
    """Yield what is wrong with a plugin, each as the end of a sentence that starts with it.

    That is what pluggy would pass over in silence, or stumble over later.

    Args:
        implementation: The module or object with the hooks.
        module: Dotted name of the module it is, or is defined in.
        marked: Returns what ``@hookimpl`` recorded about an attribute, by name; ``None`` for others.
    """
    declared = getattr(implementation, _DECLARATION, getattr(sys.modules.get(module), _DECLARATION, None))
    mismatch = None if declared is None else _mismatch(declared)
    if mismatch is not None:
        yield mismatch  # of another contract, nothing else can be judged
        return
    if type(implementation).__hash__ is None:
        yield "cannot be hashed, so it cannot be told from others"
    hooks = [name for name in vars(spec) if name.startswith("fredfw_")]
    tries_any = False
    for name in dir(implementation):
        options = marked(implementation, name)
        if options is None and name not in hooks:
            continue
        tries_any = True
        if options is None:
            yield f"defines {name} without @hookimpl"
        elif name not in hooks:
            yield f"implements {name}, which is not a hook{nearest(name, hooks)}"
        elif options["specname"] or options["wrapper"] or options["hookwrapper"]:
            yield f"implements {name} under another name or as a wrapper"
        else:
            yield from _wrong_parameters(name, getattr(implementation, name))
    if not tries_any:
        yield "implements no hook; a function that does is decorated with @hookimpl"


def class_violations(cls: type, interface: type) -> Iterator[str]:
    """Yield how ``cls`` does not keep to ``interface``, which it derives from, each as the end of a sentence."""
    for name, annotation in inspect.get_annotations(interface).items():
        if not hasattr(cls, name):
            yield f"has no {name}; define `{name}: {annotation}`"
    for name, method in vars(interface).items():
        if not name.startswith("_") and isinstance(method, _METHODS):
            own = inspect.getattr_static(cls, name)
            if own is not method:
                yield from _misfit(name, own, inspect.signature(_bound(method)))


def _misfit(name: str, own: Any, called: inspect.Signature) -> Iterator[str]:
    """Yield how the method ``own`` cannot be called as its interface's is, with ``called``."""
    if not callable(own) and not isinstance(own, _METHODS):
        yield f"defines {name} as a {type(own).__name__}, which is not a method"
        return
    try:
        taken = inspect.signature(_bound(own))
    except ValueError:  # it is written in C, or else has no parameter for the instance
        if isinstance(own, FunctionType):
            yield f"defines {name} without self"
        return
    try:
        taken.bind(*called.parameters)
    except TypeError:
        bare = [one.replace(annotation=one.empty) for one in taken.parameters.values()]
        yield f"defines {name}{inspect.Signature(bare)}, which is called with ({', '.join(called.parameters)})"


def _bound(method: Any) -> Callable[..., object]:
    """Return a method as it is called on an instance, whatever that is."""
    found: Callable[..., object] = method.__get__(object()) if hasattr(method, "__get__") else method
    return found


def built(topology: Topology) -> Fabric:
    """Return what ``topology`` builds.

    Raises:
        PluginError: The topology fails, or what it returns is not a fabric that can be simulated.
    """
    asked = Asking(topology, "build")
    with asked:
        fabric: object = topology.build()
    if not isinstance(fabric, Fabric):
        raise asked.unexpected(fabric, "a fredfw.Fabric")
    limits.check("nodes", len(fabric.kinds))
    limits.check("links", len(fabric.sources))
    defaults: object = fabric.defaults
    if not isinstance(defaults, Defaults):
        raise asked.wrong(f"returned a fabric whose defaults are {brief(defaults)}", "fredfw.Defaults")
    for name, interface, optional in (
        ("router", Router, False),
        ("sharing", SharingPolicy, True),
        ("admission", AdmissionPolicy, False),
        ("transport", Transport, False),
        ("placement", Placement, True),
    ):
        slot = getattr(defaults, name)
        if not isinstance(slot, interface) and not (optional and slot is None):
            expected = f"a fredfw.{interface.__name__}{' or None' if optional else ''}"
            raise asked.wrong(f"returned a fabric whose default {name} is {brief(slot)}", expected)
    for name, fits, expected in (
        ("levels", all(isinstance(level, Level) for level in fabric.levels), "a tuple of fredfw.Level"),
        ("offers", isinstance(fabric.offers, Capabilities), "fredfw.Capabilities"),
    ):
        if not fits:
            raise asked.wrong(f"returned a fabric whose {name} is {brief(getattr(fabric, name))}", expected)
    return fabric


def billed(topology: Topology, prices: Prices, fabric: Fabric) -> Bill | None:
    """Return what the ``fabric`` that ``topology`` has built costs.

    Raises:
        PluginError: The topology fails, or what it returns is not a bill.
    """
    asked = Asking(topology, "cost")
    with asked:
        bill: object = topology.cost(prices, fabric)
    if bill is not None and not isinstance(bill, Bill):
        raise asked.unexpected(bill, "a fredfw.Bill or None")
    return bill


def checked(exporter: Exporter) -> None:
    """Make sure that ``exporter`` can work on this machine.

    Raises:
        InputError: It lacks a library.
        PluginError: It fails.
    """
    with Asking(exporter, "check"):
        exporter.check()


def exported(exporter: Exporter, result: Result) -> Content | Mapping[str, Content]:
    """Return what ``exporter`` makes of ``result``.

    Raises:
        PluginError: It fails, or makes what is neither text nor bytes, nor those by the name of a file.
        UnsupportedError: Its format has no form for such a result.
    """
    asked = Asking(exporter, "export")
    with asked:
        content: object = exporter.export(result)
    if not exporter.directory:
        if isinstance(content, str | bytes):
            return content
        raise asked.unexpected(content, "text or bytes")
    if not isinstance(content, Mapping) or not content:
        raise asked.unexpected(content, "a table of files, by name")
    for name, one in content.items():
        if not isinstance(name, str) or name != PurePath(name).name or name in ("", ".", ".."):
            raise asked.wrong(f"names a file {name!r}", "the name of a file, without a directory")
        if not isinstance(one, str | bytes):
            raise asked.wrong(f"returned {brief(one)} for {name!r}", "text or bytes")
    return content


def _mismatch(declared: object) -> str | None:
    if isinstance(declared, bool) or not isinstance(declared, int):
        return f"declares {_DECLARATION} = {declared!r}, which is not a whole number; this is {CONTRACT_VERSION}"
    if declared > CONTRACT_VERSION:
        return (
            f"is written for version {declared} of the plugin contract, and this fredfw has version "
            f"{CONTRACT_VERSION}: upgrade fredfw, see {POLICY}"
        )
    if declared < OLDEST_CONTRACT:
        return (
            f"is written for version {declared} of the plugin contract, and the oldest that this fredfw serves is "
            f"{OLDEST_CONTRACT}: update the plugin, see {POLICY}"
        )
    return None


def _wrong_parameters(name: str, function: Callable[..., object]) -> Iterator[str]:
    given = inspect.signature(getattr(spec, name)).parameters
    taken = inspect.signature(function).parameters
    # A hook gets what it names, and nothing that has a default or collects the rest.
    if any(key not in given or one.kind not in _NAMEABLE or one.default is not one.empty for key, one in taken.items()):
        wanted = ", ".join(map(str, taken.values()))
        yield f"implements {name}({wanted}), which is called with ({', '.join(given)}) only"
