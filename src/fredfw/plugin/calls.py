"""Calls the hooks of plugins one by one, so that one that fails is named and left out, and the rest works."""

import re
import reprlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

import pluggy

from fredfw.answers import FAILURES, explain
from fredfw.errors import FredfwError, PluginError, PluginWarning, nearest
from fredfw.plugin import contract, spec
from fredfw.plugin.origin import LeftOut, Plugin

T = TypeVar("T")


class Calls:
    """The plugins of one manager, their hooks, and which of them were left out; see ``Switches``."""

    def __init__(self, *, strict: bool = False, trace: Callable[[str], None] | None = None) -> None:
        self._strict = strict
        self._pluggy = pluggy.PluginManager("fredfw")
        self._pluggy.add_hookspecs(spec)
        if trace is not None:
            self._pluggy.trace.root.setwriter(lambda text: trace(text.rstrip("\n")))
            self._pluggy.enable_tracing()
        self._plugins: dict[int, Plugin] = {}  # by identity of the module or object
        self._announced: dict[str, list[Plugin]] = {}
        self._left_out: list[LeftOut] = []

    @property
    def plugins(self) -> Iterable[Plugin]:
        return chain(self._plugins.values(), *self._announced.values())

    def announce(self, plugin: Plugin) -> None:
        """Use what ``plugin`` has an entry point for, as if a hook registered it."""
        self._announced.setdefault(str(plugin.hook), []).append(plugin)

    def announced(self, hook: str) -> Sequence[Plugin]:
        return self._announced.get(hook, ())

    def imported(self, plugin: Plugin, load: Callable[[], T]) -> tuple[T] | None:
        """Return what ``load`` imports; ``None`` where that fails and the plugin is left out."""
        try:
            return (load(),)
        except FAILURES as error:
            cause = f"cannot be imported: {explain(error, plugin.module, plugin.location)}"
            if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "fredfw":
                cause += _misspelt(error) or f"; it is written for another version of fredfw, see {contract.POLICY}"
            self.leave_out(LeftOut(plugin, cause), error)
            return None

    def add(self, plugin: Plugin, implementation: object) -> None:
        """Use the hooks of ``implementation``, a module or object, unless it breaks the contract."""
        wrong = "; it ".join(contract.violations(implementation, plugin.module, self._pluggy.parse_hookimpl_opts))
        if wrong:
            self.leave_out(LeftOut(plugin, wrong))
            return
        try:
            self._pluggy.register(implementation)
        except (ValueError, pluggy.PluginValidationError) as error:  # registered already, or refused by pluggy
            self.leave_out(LeftOut(plugin, f"cannot be registered: {explain(error, plugin.module)}"), error)
            return
        self._plugins[id(implementation)] = plugin

    def ask(self, hook: str, fits: Callable[[object], bool], wanted: str) -> list[tuple[Plugin, Any]]:
        """Return what the plugins register through ``hook``, and whose it is: what ``fits``, ``wanted`` in words."""
        self._left_out = [one for one in self._left_out if one.hook != hook or not one.broken]
        offered: list[tuple[Plugin, Any]] = []
        for plugin, call in self._callers(hook):
            try:
                answers = call()
                fitting = [isinstance(one, Sequence) and all(map(fits, one)) for one in answers]
            except FAILURES as error:
                self.leave_out(_failure(plugin, hook, error), error)
                continue
            for answer, fit in zip(answers, fitting, strict=True):
                if fit:
                    offered.extend((plugin, one) for one in answer)
                else:
                    cause = f"returns {reprlib.repr(answer)} from {hook}, not a sequence of {wanted}"
                    self.leave_out(LeftOut(plugin, cause, hook=hook))
        return offered

    def tell(self, hook: str, *, fatal: bool = True, **arguments: object) -> None:
        """Call a hook around a run; a plugin that fails in it is not called there again."""
        for plugin, call in self._callers(hook):
            if any(one.plugin is plugin and one.hook == hook for one in self._left_out):
                continue
            try:
                call(**arguments)
            except FAILURES as error:
                if fatal and plugin.by_hand and isinstance(error, FredfwError):
                    raise
                self.leave_out(_failure(plugin, hook, error), error, fatal=fatal)

    def left_out(self, hook: str | None = None) -> tuple[LeftOut, ...]:
        return tuple(one for one in self._left_out if hook is None or one.hook in (None, hook))

    def switch_off(self, plugin: Plugin) -> None:
        self._left_out.append(LeftOut(plugin, "is switched off", broken=False))

    def leave_out(self, left_out: LeftOut, error: BaseException | None = None, *, fatal: bool = True) -> None:
        """Warn of a plugin; one that was given by hand, or any in strict mode, is an error if ``fatal``."""
        if fatal and (self._strict or left_out.plugin.by_hand):
            raise PluginError(str(left_out)) from error
        self._left_out.append(left_out)
        warnings.warn(f"{left_out}; it is left out", PluginWarning, stacklevel=2)

    def _callers(self, hook: str) -> Iterator[tuple[Plugin, Callable[..., list[Any]]]]:
        """Yield the plugins that implement ``hook``, in pluggy's order, each with what calls it alone."""
        owners = [one.plugin for one in reversed(getattr(self._pluggy.hook, hook).get_hookimpls())]
        for owner in owners:
            others = [other for other in owners if other is not owner]
            yield self._plugins[id(owner)], self._pluggy.subset_hook_caller(hook, others)


def _failure(plugin: Plugin, hook: str, error: BaseException) -> LeftOut:
    return LeftOut(plugin, f"fails in {hook}: {explain(error, plugin.module, plugin.location)}", hook=hook)


def _misspelt(error: ImportError) -> str:
    name = re.match(r"cannot import name '(\w+)'", error.msg)
    return nearest(name[1], getattr(sys.modules.get(error.name or ""), "__all__", ())) if name else ""
