from __future__ import annotations

import importlib
from importlib.metadata import entry_points

import pytest
from plugins import Install, discover

from fredfw.answers import explain
from fredfw.plugin.origin import Plugin


def found(name: str) -> Plugin:
    (point,) = entry_points(group="fredfw", name=name)
    return Plugin(point.name, point.module, point.dist)


def test_a_plugin_without_its_module_is_somewhere(install: Install) -> None:
    file = install("acme", "", point="acme_that_is_not_there.inside")
    assert found("acme").location == str(file.parent)


def test_a_plugin_given_by_hand_is_located_by_its_module() -> None:
    assert str(Plugin("mine", __name__)) == f"plugin 'mine' (registered in process, {__file__})"
    assert str(Plugin("mine", "no_such_module")) == "plugin 'mine' (registered in process)"


def test_a_damaged_installation_is_no_obstacle(install: Install) -> None:
    file = install("acme", "x = 1")
    metadata = next(file.parent.glob("*.dist-info")) / "METADATA"
    metadata.write_text("Metadata-Version: 2.1\n")
    importlib.invalidate_caches()
    with pytest.warns(UserWarning, match=r"plugin 'acme' \(unnamed without a version, .*acme\.py\) implements no hook"):
        discover("acme")


def test_an_error_is_explained_with_the_line_of_the_plugin(install: Install) -> None:
    file = install("acme", "import json\ndef read():\n    return json.loads('{')\n")
    with pytest.raises(ValueError, match="Expecting") as caught:
        importlib.import_module("acme").read()
    text = explain(caught.value, "acme.sub", "another.py")
    assert text.startswith("JSONDecodeError: Expecting property name")
    assert text.endswith(f" (line 3 of {file})")  # not of json, where it was raised
    assert explain(caught.value, "acme", str(file)).endswith(" (line 3)")
    assert explain(caught.value, "other").endswith("(char 1)")
    assert explain(KeyError(), "other") == "KeyError"
    assert explain(KeyError("a\nb"), "other") == "KeyError: 'a\\nb'"
    assert explain(ValueError("two\n  lines"), "other") == "ValueError: two lines"
