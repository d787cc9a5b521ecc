from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest
from attrs import Factory, field, frozen

from fredfw import units
from fredfw.errors import PluginError
from fredfw.plugin import schema

if TYPE_CHECKING:
    from pathlib import Path


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@frozen
class Inner:
    depth: int = 1


@frozen
class Thing:
    name: ClassVar[str] = "thing"
    rows: int = units.option(validator=units.at_least(1), help="how many")
    speed: float = units.bandwidth("750 GB/s", help="how fast")
    bytes_: float = units.quantity(units.Unit.BYTES, 3 * 224 * 224)
    wait: float | None = units.quantity(units.Unit.SECONDS, None, optional=True)
    variant: str = units.option("D", validator=units.one_of("C", "D"))
    shape: tuple[int, ...] = units.option((8, 8), validator=[units.at_least(1)])
    both: int = units.option(2, validator=[units.at_least(1), units.at_least(2)])
    colour: Colour = Colour.RED
    mode: Literal["a", "b"] | None = None
    wide: bool = False
    inner: Inner = Inner()
    listed: list[float] = Factory(list)
    derived: int = field(default=Factory(lambda self: self.rows, takes_self=True))
    _private: int = 3
    inside: int = field(init=False, default=0)


def test_fields_in_words() -> None:
    fields = {one.name: one for one in schema.fields(Thing)}
    rows = fields["rows"]
    assert (rows.type, rows.unit, rows.default, rows.help) == ("int", None, None, "how many")
    assert rows.accepted == "a number of at least 1"
    assert rows.required
    speed = fields["speed"]
    assert (speed.type, speed.unit, speed.default, speed.help) == ("float", "B/s", "750 GB/s", "how fast")
    assert speed.accepted == f"{units.accepted(units.Unit.BYTES_PER_SECOND)}; more than 0 B/s"
    assert not speed.required


def test_fields_are_those_of_the_constructor() -> None:
    names = [one.name for one in schema.fields(Thing)]
    assert names[:3] == ["rows", "speed", "bytes_"]
    assert "private" in names
    assert not {"_private", "inside", "name"} & set(names)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("bytes_", "150.528 kB"),
        ("wait", "none"),
        ("variant", '"D"'),
        ("shape", "[8, 8]"),
        ("colour", '"red"'),
        ("mode", "none"),
        ("wide", "false"),
        ("inner", "Inner(depth=1)"),
        ("listed", "[]"),
        ("derived", "computed"),
        ("private", "3"),
    ],
)
def test_defaults_are_rendered_as_they_may_be_written(name: str, default: str) -> None:
    assert {one.name: one.default for one in schema.fields(Thing)}[name] == default


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("variant", "C, D"),
        ("shape", "a list, each an integer, a number of at least 1"),
        ("both", "a number of at least 1, a number of at least 2"),
        ("colour", "red, blue"),
        ("mode", "a, b"),
        ("wide", "true or false"),
        ("inner", "a table of depth"),
        ("listed", "a list, each a number"),
        ("derived", "an integer"),
    ],
)
def test_what_is_accepted(name: str, accepted: str) -> None:
    assert {one.name: one.accepted for one in schema.fields(Thing)}[name] == accepted


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


def test_a_class_that_has_no_schema() -> None:
    with pytest.raises(PluginError, match="int is not an attrs class"):
        schema.fields(int)

    @frozen
    class Unresolved:
        path: Path

    with pytest.raises(PluginError, match=r"Unresolved cannot be resolved: NameError: name 'Path' is not defined"):
        schema.fields(Unresolved)


def test_a_default_that_cannot_be_made() -> None:
    @frozen
    class Careless:
        sizes: list[float] = Factory(lambda: [1 / 0])

    with pytest.raises(PluginError, match="the default of 'sizes' cannot be made: ZeroDivisionError"):
        schema.fields(Careless)
