"""What every plugin must keep to: the version of the contract, hooks that exist, and interfaces."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

from fredfw.errors import nearest
from fredfw.plugin import CONTRACT_VERSION, spec

OLDEST_CONTRACT = 2  # whose plugins still work as they did; raised as docs/api-policy.md says
POLICY = "docs/api-policy.md"
_DECLARATION = "fredfw_contract"
_NAMEABLE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_METHODS = (FunctionType, classmethod, staticmethod)


def violations(
    implementation: object, module: str, marked: Callable[[object, str], Mapping[str, Any] | None]
) -> Iterator[str]:
    """Yield what is wrong with a plugin, as ends of sentences; ``marked`` returns what ``@hookimpl`` recorded."""
    other = mismatch(implementation, module)
    if other is not None:
        yield other  # of another contract, nothing else can be judged
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
    found: Callable[..., object] = method.__get__(object()) if hasattr(method, "__get__") else method
    return found


def mismatch(implementation: object, module: str) -> str | None:
    """Return how a plugin, or else its module, is written for another contract, as the end of a sentence."""
    declared = getattr(implementation, _DECLARATION, getattr(sys.modules.get(module), _DECLARATION, None))
    if declared is None:
        return None
    if isinstance(declared, bool) or not isinstance(declared, int):
        return f"declares {_DECLARATION} = {declared!r}, which is not a whole number; this is {CONTRACT_VERSION}"
    written = f"is written for version {declared} of the plugin contract"
    if declared > CONTRACT_VERSION:
        return f"{written}, and this fredfw has version {CONTRACT_VERSION}: upgrade fredfw, see {POLICY}"
    if declared < OLDEST_CONTRACT:
        oldest = f"the oldest that this fredfw serves is {OLDEST_CONTRACT}"
        return f"{written}, and {oldest}: update the plugin, see {POLICY}"
    return None


def _wrong_parameters(name: str, function: Callable[..., object]) -> Iterator[str]:
    given = inspect.signature(getattr(spec, name)).parameters
    taken = inspect.signature(function).parameters
    # A hook gets what it names, and nothing that has a default or collects the rest.
    if any(key not in given or one.kind not in _NAMEABLE or one.default is not one.empty for key, one in taken.items()):
        wanted = ", ".join(map(str, taken.values()))
        yield f"implements {name}({wanted}), which is called with ({', '.join(given)}) only"
