from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import pytest
from attrs import Factory, frozen
from things import Colour, Thing

from fredfw import PluginManager, units
from fredfw.errors import InputError, PluginError
from fredfw.plugin import schema

if TYPE_CHECKING:
    from pathlib import Path


FIELDS = schema.settings(Thing)


def test_fields_in_words() -> None:
    rows, speed = FIELDS["rows"], FIELDS["speed"]
    assert (rows.name, rows.type, rows.unit, rows.default, rows.help) == ("rows", "int", None, None, "how many")
    assert (speed.type, speed.unit, speed.help) == ("float", "B/s", "how fast")
    assert (rows.required, speed.required) == (True, False)
    assert list(FIELDS)[:3] == ["rows", "share", "speed"]
    assert "private" in FIELDS
    assert not {"_private", "inside", "name"} & set(FIELDS)


@pytest.mark.parametrize(
    ("name", "default", "accepted"),
    [
        ("rows", None, "a number of at least 1"),
        ("speed", "750 GB/s", f"{units.accepted(units.Unit.BYTES_PER_SECOND)}; more than 0 B/s"),
        ("bytes_", "150.528 kB", f"{units.accepted(units.Unit.BYTES)}; at least 0 B"),
        ("wait", "none", f"{units.accepted(units.Unit.SECONDS)}; at least 0 s"),
        ("variant", '"D"', "C, D"),
        ("shape", "[8, 8]", "a list, each an integer, a number of at least 1"),
        ("both", "2", "a number of at least 1, a number of at least 2"),
        ("colour", '"red"', "red, blue"),
        ("wide", "false", "true or false"),
        ("inner", "Inner(depth=1, rate=1000000000.0)", "a table of depth, rate"),
        ("derived", "computed", "an integer"),
    ],
)
def test_defaults_and_what_is_accepted(name: str, default: str | None, accepted: str) -> None:
    assert (FIELDS[name].default, FIELDS[name].accepted) == (default, accepted)


@pytest.mark.parametrize(
    ("hint", "text", "phrase"),
    [
        (int | None, "int | None", "an integer"),
        (int | str, "int | str", "an integer or text"),
        (tuple[int, ...], "tuple[int, ...]", "a list, each an integer"),
        (tuple[int, str], "tuple[int, str]", "a list of 2: an integer, text"),
        (Sequence[int], "Sequence[int]", "a list, each an integer"),
        (list, "list", "a list"),
        (dict, "dict", "a table"),
        (Mapping[str, float], "Mapping[str, float]", "a table, each value a number"),
        (Literal["a", 2], "'a' | 2", "a, 2"),
        (Colour, "Colour", "red, blue"),
        (Any, "Any", "Any"),
        (complex, "complex", "complex"),
    ],
)
def test_types_in_words(hint: object, text: str, phrase: str) -> None:
    assert schema.type_text(hint) == text
    assert schema.phrase(hint) == phrase


def test_a_class_that_has_no_schema_and_a_default_that_cannot_be_made() -> None:
    with pytest.raises(PluginError, match="int is not an attrs class"):
        schema.settings(int)

    @frozen
    class Unresolved:
        path: Path

    with pytest.raises(PluginError, match=r"Unresolved cannot be resolved: NameError: name 'Path' is not defined"):
        schema.settings(Unresolved)

    @frozen
    class Careless:
        sizes: list[float] = Factory(lambda: [1 / 0])

    with pytest.raises(PluginError, match="the default of 'sizes' cannot be made: ZeroDivisionError"):
        _ = schema.settings(Careless)["sizes"].default


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
    for one in fields if not any(each.required for each in fields) else ():
        for value in outside(one.accepted) if one.accepted and not one.accepted.endswith(PLAIN) else ():
            with pytest.raises(InputError, match=rf"(?s)^{re.escape(one.name)}\b.* \(accepted: "):
                plugin(**{one.name: value})
