"""Fields of the plugins that ship refuse what is none of their values, and their methods are documented."""

from __future__ import annotations

import inspect
import re
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


@pytest.mark.parametrize("value", [object(), -1.5], ids=["object", "negative"])
@pytest.mark.parametrize("plugin", PLUGINS.values(), ids=PLUGINS)
def test_no_field_takes_anything(plugin: Any, value: object) -> None:
    fields = schema.fields(plugin) if attrs.has(plugin) else ()
    for one in fields if not any(field.required for field in fields) else ():
        if one.accepted and not one.accepted.endswith(PLAIN):
            with pytest.raises(InputError, match=rf"(?s)^{re.escape(one.name)}\b.* \(accepted: "):
                plugin(**{one.name: value})


@pytest.mark.parametrize("plugin", PLUGINS.values(), ids=PLUGINS)
def test_every_method_is_documented_there_or_by_its_interface(plugin: Any) -> None:
    for name, value in vars(plugin).items():
        if not name.startswith("_") and isinstance(value, FunctionType | classmethod | property):
            assert inspect.getdoc(getattr(plugin, name)), name
