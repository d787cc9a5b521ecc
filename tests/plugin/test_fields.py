"""Fields of the plugins that ship refuse what is none of their values, and their methods are documented."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import attrs
import pytest

from fredfw import PluginManager
from fredfw.errors import InputError
from fredfw.plugin import schema

PLUGINS = {
    f"{registry.kind} {info.name}": registry.get(info.name)
    for registry in PluginManager.discover().registries
    for info in registry.infos()
}
PLAIN = ("text", "an integer", "a number")  # types, which are checked where a plugin is configured


def outside(accepted: str) -> Iterator[object]:
    """Yield what is next to what is accepted, and what is nowhere near it."""
    yield from (object(), -1.5, [object()])
    for word, text in re.findall(r"(at least|from|to|more than) (-?\d[\d.e+-]*)", accepted):
        number = int(text) if text.isdigit() else float(text)
        yield {"at least": number - 1, "from": number - 1, "to": number + 1, "more than": number}[word]


@pytest.mark.parametrize("plugin", PLUGINS.values(), ids=PLUGINS)
def test_no_field_takes_anything(plugin: Any) -> None:
    fields = schema.fields(plugin) if attrs.has(plugin) else ()
    for one in fields if not any(field.required for field in fields) else ():
        for value in outside(one.accepted) if one.accepted and not one.accepted.endswith(PLAIN) else ():
            with pytest.raises(InputError, match=rf"(?s)^{re.escape(one.name)}\b.* \(accepted: "):
                plugin(**{one.name: value})


@pytest.mark.parametrize("plugin", PLUGINS.values(), ids=PLUGINS)
def test_every_method_is_documented_there_or_by_its_interface(plugin: Any) -> None:
    for name, value in vars(plugin).items():
        if not name.startswith("_") and isinstance(value, FunctionType | classmethod | property):
            assert inspect.getdoc(getattr(plugin, name)), name
